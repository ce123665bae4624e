//! `tribunal` as a Python module. Python calls the library, and the interpreter is free for other threads in
//! the meantime; conveniences are written in Python, in `tribunal/`.

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use pyo3::{create_exception, exceptions::PyValueError, prelude::*};
use tribunal::{
    cli::{self, Cli},
    console::{loading, stream::hinted},
    eval::{
        Session,
        session::{SessionOutcome, Watch},
    },
    llm::CancellationToken,
};

create_exception!(
    _tribunal,
    TribunalError,
    PyValueError,
    "What tribunal cannot do, in the words of its command line."
);

/// Interval between checks for Ctrl-C.
const POLL: Duration = Duration::from_millis(50);

/// Longest wait for stopped work to end, such as a search that has been started, before Python goes on
/// without it.
const LINGER: Duration = Duration::from_secs(10);

/// Loaded models that judge many inputs.
#[pyclass(name = "Session", frozen)]
struct PySession {
    session: Arc<Session>,
}

/// Verdicts in the form in which they are on disk.
type Scored = (String, String, Vec<String>);

#[pymethods]
impl PySession {
    /// Opens the models of a `tribunal score` command line.
    #[new]
    fn new(py: Python<'_>, argv: Vec<String>) -> PyResult<Self> {
        let open = move || parsed(argv)?.session(loading::load).map_err(|error| cli::explain(&error));
        // Weights that are being read are dropped once they are read.
        let session = Arc::new(in_background(py, open, &AtOnce, |_| Ok(()))?);
        Ok(Self { session })
    }

    /// Judges a table of translations; `progress(done, total)` is called now and then. Returns the summary as
    /// JSON, the verdicts as JSONL, and notes.
    #[pyo3(signature = (input, out, progress=None))]
    fn score(
        &self,
        py: Python<'_>,
        input: PathBuf,
        out: PathBuf,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Scored> {
        let (session, watch) = (self.session.clone(), Arc::new(Watch::default()));
        let judge = {
            let watch = watch.clone();
            move || {
                let judged =
                    session.score(&input, &out, &watch).map_err(|error| cli::explain(&error.into()))?;
                scored(&judged)
            }
        };
        let mut shown = None;
        let show = |py: Python<'_>| {
            let now @ (_, total) = watch.progress();
            match &progress {
                Some(progress) if total > 0 && shown.replace(now) != Some(now) => {
                    progress.call1(py, now).map(drop)
                }
                _ => Ok(()),
            }
        };
        in_background(py, judge, &*watch, show)
    }
}

fn scored(judged: &SessionOutcome) -> Result<Scored, String> {
    let SessionOutcome { outcome, notes } = judged;
    let json = |error: serde_json::Error| error.to_string();
    let summary = serde_json::to_string(&outcome.summary).map_err(json)?;
    let records = outcome.records().map_err(|error| error.to_string())?;
    let lines: serde_json::Result<Vec<String>> = records.iter().map(serde_json::to_string).collect();
    Ok((summary, lines.map_err(json)?.join("\n"), notes.iter().map(|note| hinted(note)).collect()))
}

fn parsed(argv: Vec<String>) -> Result<Cli, String> {
    cli::parse(argv).map_err(|error| error.to_string())
}

/// Runs a command and returns its exit code and its standard output.
#[pyfunction]
fn command(py: Python<'_>, argv: Vec<String>) -> PyResult<(u8, String)> {
    let cli = parsed(argv).map_err(TribunalError::new_err)?;
    let stop = cli.stop();
    let run = move || {
        let mut out = Vec::new();
        let code = cli.run(loading::load, &mut out).map_err(|error| cli::explain(&error))?;
        Ok((number(code), String::from_utf8_lossy(&out).into_owned()))
    };
    in_background(py, run, &stop, |_| Ok(()))
}

/// The command line itself: prints, and returns the exit code.
#[pyfunction]
fn main(py: Python<'_>, argv: Vec<String>) -> u8 {
    py.detach(|| number(cli::main_with(argv)))
}

/// The number of an exit code: the type has no accessor, but there are only three.
fn number(code: ExitCode) -> u8 {
    (0..=2).find(|n| code == ExitCode::from(*n)).unwrap_or(2)
}

/// How work is ended whose result Python does not need.
trait Ending {
    /// Tells the work to end, and returns how long Python may wait for that.
    fn begin(&self) -> Duration;
}

/// Python goes on at once, and the result of the work is dropped.
struct AtOnce;

impl Ending for AtOnce {
    fn begin(&self) -> Duration {
        Duration::ZERO
    }
}

impl Ending for CancellationToken {
    fn begin(&self) -> Duration {
        self.cancel();
        Duration::ZERO
    }
}

impl Ending for Watch {
    fn begin(&self) -> Duration {
        self.stop();
        LINGER
    }
}

/// Runs slow work on a thread of its own while Python runs on. Ctrl-C, or an exception of `show`, which is
/// called now and then, ends the work.
fn in_background<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
    ending: &impl Ending,
    mut show: impl FnMut(Python<'_>) -> PyResult<()>,
) -> PyResult<T> {
    let (sender, receiver) = channel();
    let receiver = Mutex::new(receiver);
    std::thread::spawn(move || {
        // The receiver is gone only where the work did not end in time.
        let _ = sender.send(work());
    });
    loop {
        let waited = wait(py, &receiver);
        if let Err(raised) = show(py).and_then(|()| py.check_signals()) {
            linger(py, &receiver, ending.begin());
            return Err(raised);
        }
        match waited {
            Ok(result) => return result.map_err(TribunalError::new_err),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(TribunalError::new_err(
                    "tribunal failed unexpectedly; its message is on standard error",
                ));
            }
        }
    }
}

/// Waits a moment for a result, with the interpreter free.
fn wait<T: Send>(py: Python<'_>, receiver: &Mutex<Receiver<T>>) -> Result<T, RecvTimeoutError> {
    py.detach(|| receiver.lock().recv_timeout(POLL))
}

/// Lets what was stopped end, so that its folder and its models are free for what comes next; Ctrl-C once
/// more ends the wait.
fn linger<T: Send>(py: Python<'_>, receiver: &Mutex<Receiver<T>>, most: Duration) {
    let start = Instant::now();
    while start.elapsed() < most && matches!(wait(py, receiver), Err(RecvTimeoutError::Timeout)) {
        if py.check_signals().is_err() {
            return;
        }
    }
}

#[pymodule]
fn _tribunal(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("TribunalError", module.py().get_type::<TribunalError>())?;
    module.add_class::<PySession>()?;
    module.add_function(wrap_pyfunction!(command, module)?)?;
    module.add_function(wrap_pyfunction!(main, module)?)
}
