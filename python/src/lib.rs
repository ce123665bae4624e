//! `tribunal` as a Python module. It lets Python call the library with the interpreter free to do other work; whatever
//! is comfortable about it is written in Python, in `tribunal/`.

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, mpsc::RecvTimeoutError},
    time::Duration,
};

use pyo3::{create_exception, exceptions::PyValueError, prelude::*};
use tribunal::cli::{
    self, Cli, panel,
    session::{Judged, Session, Watch},
};

create_exception!(
    _tribunal,
    TribunalError,
    PyValueError,
    "What tribunal cannot do, in the words of its command line."
);

/// How often Python is asked whether somebody pressed Ctrl-C.
const POLL: Duration = Duration::from_millis(100);

/// Loaded models that judge many inputs.
#[pyclass(name = "Session", frozen)]
struct PySession {
    session: Arc<Session>,
}

/// Verdicts as they are on disk.
type Scored = (String, String, Vec<String>);

#[pymethods]
impl PySession {
    /// Opens the models of a `tribunal score` command line.
    #[new]
    fn new(py: Python<'_>, argv: Vec<String>) -> PyResult<Self> {
        let open = move || Session::open(parsed(argv)?, panel::panel).map_err(|error| cli::explain(&error));
        let session = Arc::new(in_background(py, open, None, None)?);
        Ok(Self { session })
    }

    /// Judges a table of translations; `progress(done, total)` is called now and then. Gives the summary as JSON, the
    /// verdicts as JSONL, and notes.
    #[pyo3(signature = (input, out, progress=None))]
    fn score(
        &self,
        py: Python<'_>,
        input: PathBuf,
        out: PathBuf,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Scored> {
        let session = self.session.clone();
        let judge = move || {
            let judged = session.score(&input, &out).map_err(|error| cli::explain(&error))?;
            scored(&judged)
        };
        in_background(py, judge, Some(self.session.watch()), progress)
    }
}

fn scored(judged: &Judged) -> Result<Scored, String> {
    let Judged { outcome, notes } = judged;
    let json = |error: serde_json::Error| error.to_string();
    let summary = serde_json::to_string(&outcome.summary).map_err(json)?;
    let records = outcome.records().map_err(|error| error.to_string())?;
    let lines: serde_json::Result<Vec<String>> = records.iter().map(serde_json::to_string).collect();
    Ok((summary, lines.map_err(json)?.join("\n"), notes.clone()))
}

fn parsed(argv: Vec<String>) -> Result<Cli, String> {
    cli::parse(argv).map_err(|error| error.to_string())
}

/// Runs a command; its exit code and what it prints to standard output.
#[pyfunction]
fn command(py: Python<'_>, argv: Vec<String>) -> PyResult<(u8, String)> {
    let run = move || {
        let mut out = Vec::new();
        let code = parsed(argv)?.run(panel::panel, &mut out).map_err(|error| cli::explain(&error))?;
        Ok((number(code), String::from_utf8_lossy(&out).into_owned()))
    };
    in_background(py, run, None, None)
}

/// The command line itself: prints, and gives the exit code.
#[pyfunction]
fn main(py: Python<'_>, argv: Vec<String>) -> u8 {
    py.detach(|| number(cli::main_with(argv)))
}

/// An exit code cannot be looked into, but there are only three.
fn number(code: ExitCode) -> u8 {
    (0..=2).find(|n| code == ExitCode::from(*n)).unwrap_or(2)
}

/// Does something slow on a thread of its own while Python runs on; Ctrl-C stops it.
fn in_background<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
    watch: Option<Arc<Watch>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<T> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let receiver = std::sync::Mutex::new(receiver);
    std::thread::spawn(move || {
        // The receiver is gone only where Ctrl-C was pressed.
        let _ = sender.send(work());
    });
    let mut shown = None;
    loop {
        let waited = py.detach(|| {
            let receiver = receiver.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            receiver.recv_timeout(POLL)
        });
        if let (Some(watch), Some(progress)) = (&watch, &progress)
            && shown.replace(watch.progress()) != Some(watch.progress())
        {
            progress.call1(py, watch.progress())?;
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
        if let Err(interrupt) = py.check_signals() {
            if let Some(watch) = &watch {
                watch.stop();
            }
            return Err(interrupt);
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
