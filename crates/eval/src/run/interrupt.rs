//! What an interruption must wait for: whoever ends the process holds this, so that no line is cut off in the middle.
//! It catches no signal itself.

use std::{
    fmt,
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
    /// What is said of work that makes no verdicts, in their place.
    pub kept: Option<String>,
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dir, done, units, kept } = self;
        match (kept, dir) {
            (Some(kept), _) => write!(f, "interrupted: {kept}"),
            (None, None) => write!(f, "interrupted"),
            (None, Some(dir)) => write!(
                f,
                "interrupted: {done} of {units} verdicts are safe in `{}`; the same command goes on from there",
                dir.display()
            ),
        }
    }
}

impl Writing {
    /// Sets what an interruption says of what is kept.
    pub fn keeps(&self, what: impl Into<String>) {
        self.hold().kept = Some(what.into());
    }

    /// Waits until nothing is being written, and keeps it so.
    pub fn hold(&self) -> MutexGuard<'_, Written> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
