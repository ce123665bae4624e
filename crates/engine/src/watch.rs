//! State of a worker's steps for waiting callers: the time of the current one, and the number that were
//! computed a second time with the same result. A kernel that hangs never returns to the worker, so that its
//! callers must notice.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::llm::{self, Confirmed};

/// The least multiple of its expected time after which a step counts as hung.
const TIMES: f64 = 50.0;

/// The expected time of a step while none has been measured: kernels are loaded when they are first launched.
const FIRST: Duration = Duration::from_secs(10);

/// Number of first steps whose times are not used, for that reason.
const UNMEASURED: usize = 4;

/// Number of rows whose computation takes as long as reading the weights.
const ROWS_OF_WEIGHTS: usize = 64;

/// The most that a caller adds to the time of a step at one look; several look every second.
const MOST_OF_A_LOOK: Duration = Duration::from_secs(1);

/// The steps of one worker.
#[derive(Debug)]
pub struct StepWatch {
    /// The worker's device: `NVIDIA H200 (0)`.
    device: String,
    /// A shorter step is never hung; `None` where no step is watched.
    least: Option<Duration>,
    state: Mutex<State>,
    n_confirmed: AtomicUsize,
    /// True if a step that was computed a second time had another result.
    differs: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    current: Option<Current>,
    n_steps: usize,
    /// Rows of the measured steps, with [`ROWS_OF_WEIGHTS`] for each step.
    rows: usize,
    measured: Duration,
}

/// The step that runs now.
#[derive(Clone, Copy, Debug)]
struct Current {
    begun: Instant,
    /// Time of a caller's last look, and the step's time so far, without that in which the process was
    /// suspended.
    seen: Instant,
    waited: Duration,
    n_requests: usize,
    n_rows: usize,
}

impl StepWatch {
    /// Watches the steps on a device; `None` for `least` watches nothing.
    pub fn new(device: String, least: Option<Duration>) -> Self {
        Self {
            device,
            least,
            state: Mutex::default(),
            n_confirmed: AtomicUsize::new(0),
            differs: AtomicBool::new(false),
        }
    }

    /// Records the start of a step of so many requests and token rows.
    pub fn begin(&self, n_requests: usize, n_rows: usize) {
        let (begun, waited) = (Instant::now(), Duration::ZERO);
        self.state.lock().current = Some(Current { begun, seen: begun, waited, n_requests, n_rows });
    }

    /// Records the end of the step.
    pub fn end(&self) {
        let state = &mut *self.state.lock();
        let Some(Current { begun, n_rows, .. }) = state.current.take() else { return };
        state.n_steps += 1;
        if state.n_steps > UNMEASURED {
            state.rows += n_rows + ROWS_OF_WEIGHTS;
            state.measured += begun.elapsed();
        }
    }

    /// Checks that the device still computes, judging by time.
    ///
    /// # Errors
    /// [`llm::Error::Stopped`] when the current step takes [`TIMES`] times its expected time.
    pub fn check(&self) -> llm::Result<()> {
        let Some(least) = self.least else { return Ok(()) };
        let state = &mut *self.state.lock();
        let Some(current) = &mut state.current else { return Ok(()) };
        let now = Instant::now();
        current.waited += (now - current.seen).min(MOST_OF_A_LOOK);
        current.seen = now;
        let Current { waited: took, n_requests, n_rows, .. } = *current;
        let expected = state.expected(n_rows);
        if took < least.max(expected.mul_f64(TIMES)) {
            return Ok(());
        }
        Err(llm::Error::Stopped(format!(
            "{} does not answer: a step of {n_requests} requests and {n_rows} tokens has taken {:.0} s, and {:.0} ms were \
             expected; hint: the system's log names a GPU that failed (`dmesg`, lines with `Xid`)",
            self.device,
            took.as_secs_f64(),
            1000.0 * expected.as_secs_f64(),
        )))
    }

    /// Returns true if a step that takes too long is an error.
    pub fn is_watched(&self) -> bool {
        self.least.is_some()
    }

    /// Counts a step that was computed a second time with the same result.
    pub fn confirm(&self) {
        self.n_confirmed.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that a second computation had another result.
    pub fn differ(&self) {
        self.differs.store(true, Ordering::Relaxed);
    }

    /// Results of second computations.
    pub fn confirmed(&self) -> Confirmed {
        let differs = self.differs.load(Ordering::Relaxed);
        Confirmed { n: self.n_confirmed.load(Ordering::Relaxed), differs }
    }
}

impl State {
    /// The expected time of a step with so many rows, at the average pace so far.
    fn expected(&self, n_rows: usize) -> Duration {
        if self.rows == 0 {
            return FIRST;
        }
        self.measured.mul_f64((n_rows + ROWS_OF_WEIGHTS) as f64 / self.rows as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_expected_to_take_as_long_as_others_of_its_size() {
        let mut state = State::default();
        assert_eq!(state.expected(8), FIRST);
        (state.rows, state.measured) = (2 * (36 + ROWS_OF_WEIGHTS), Duration::from_millis(200));
        assert_eq!(state.expected(36), Duration::from_millis(100));
        assert_eq!(state.expected(236), Duration::from_millis(300));
    }

    #[test]
    fn a_step_that_takes_far_too_long_is_hung() {
        let watch = StepWatch::new("NVIDIA H200 (0)".into(), Some(Duration::from_millis(1)));
        for _ in 0..=UNMEASURED {
            watch.begin(1, 1);
            watch.end();
        }
        assert!(watch.check().is_ok(), "no step is running");
        watch.begin(3, 40);
        std::thread::sleep(Duration::from_millis(2));
        let mut error = watch.check();
        for _ in 0..1000 {
            if error.is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
            error = watch.check();
        }
        let said = error.unwrap_err().to_string();
        assert!(
            said.contains("NVIDIA H200 (0) does not answer: a step of 3 requests and 40 tokens"),
            "{said}"
        );
        let unwatched = StepWatch::new("cpu".into(), None);
        unwatched.begin(1, 1);
        assert!(unwatched.check().is_ok() && !unwatched.is_watched());
    }
}
