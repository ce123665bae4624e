//! What an interruption must wait for: whoever ends the process holds this, so that no line is cut off in the middle.
//! It catches no signal itself.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A run's files, held while they are written.
#[derive(Clone, Debug, Default)]
pub struct Writing(Arc<Mutex<Written>>);

/// What is safe in the run folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The run folder; `None` before anything is written.
    pub dir: Option<PathBuf>,
    /// Units in the journal, and those of this process's share of the run.
    pub done: usize,
    pub units: usize,
}

impl Writing {
    /// Waits until nothing is being written, and keeps it so.
    pub fn hold(&self) -> MutexGuard<'_, Written> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
