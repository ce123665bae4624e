//! A lock on the files of a run, which a signal handler takes before it ends the process, so that every line
//! is complete. It catches no signal itself.

use std::{fmt, path::PathBuf, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

/// A lock that is held while a run's files are written.
#[derive(Clone, Debug, Default)]
pub struct Writing(Arc<Mutex<RunStatus>>);

/// The state of a run folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunStatus {
    /// The run folder; `None` before anything is written.
    pub dir: Option<PathBuf>,
    /// Units in the journal, and those of this process's share of the run.
    pub done: usize,
    pub units: usize,
    /// For work without verdicts, the message about what is retained.
    pub retained: Option<String>,
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dir, done, units, retained } = self;
        match (retained, dir) {
            (Some(retained), _) => write!(f, "interrupted: {retained}"),
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
    /// Sets the message about what an interruption retains.
    pub fn keeps(&self, message: impl Into<String>) {
        self.lock().retained = Some(message.into());
    }

    /// Locks the files: waits until no write is in progress, and blocks further ones.
    pub fn lock(&self) -> MutexGuard<'_, RunStatus> {
        self.0.lock()
    }
}
