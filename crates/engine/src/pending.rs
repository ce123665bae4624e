//! Requests whose replies are pending.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::Duration,
};

use crate::llm::{self, CancellationToken};

use super::{answer::Outcome, watch::StepWatch, workers::Waiting};

/// Interval at which waiting callers look for cancellation and for a step that hangs: rarely enough that
/// hundreds of them cost the engine nothing, often enough for a person.
const POLL: Duration = Duration::from_millis(100);

/// A request whose reply is pending. Dropping it cancels the request.
pub struct Pending {
    pub receiver: Receiver<llm::Result<Outcome>>,
    pub stop: Option<CancellationToken>,
    /// The steps of the worker that has the request.
    pub watch: Arc<StepWatch>,
    /// Held until the caller stops waiting for the reply.
    pub _held: (Arc<()>, Waiting),
}

impl Pending {
    /// Waits for the reply.
    ///
    /// # Errors
    /// The worker's error; [`llm::Error::Interrupted`] and [`llm::Error::Stopped`] when no reply will come.
    pub fn wait(&self) -> llm::Result<Outcome> {
        loop {
            match self.receiver.recv_timeout(POLL) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Timeout) => {
                    self.stop.as_ref().map_or(Ok(()), CancellationToken::check)?;
                    self.watch.check()?;
                }
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
            }
        }
    }
}

/// The error of a request whose worker has ended.
pub fn gone() -> llm::Error {
    llm::Error::Stopped("its thread has ended".into())
}
