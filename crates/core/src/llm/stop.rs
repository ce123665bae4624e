//! A word that ends what is being asked: whoever gives it no longer wants the answers. It ends nothing by itself; those
//! who wait for answers look at it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::Error;

/// Says whether answers are still wanted. Clones hear of it together, and it is never taken back: what is asked later
/// gets one of its own.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From now on no answer is wanted.
    pub fn say(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether answers are no longer wanted.
    #[must_use]
    pub fn is_said(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Lets a question pass for as long as its answer is wanted.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn check(&self) -> Result<(), Error> {
        if self.is_said() { Err(Error::Interrupted) } else { Ok(()) }
    }
}
