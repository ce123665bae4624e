//! A cancellation token shared by all pending requests. It interrupts nothing by itself: waiting callers poll
//! it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::{Error, Result};

/// A cancellation token. Clones share its state; once cancelled it stays so, and later requests need a new
/// one.
#[derive(Clone, Debug, Default)]
pub struct CancellationToken(Arc<AtomicBool>);

impl CancellationToken {
    /// Cancels all pending requests.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns true if the requests are cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns an error once the requests are cancelled.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::Interrupted) } else { Ok(()) }
    }
}
