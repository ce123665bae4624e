//! The outcome of a run, and the verdicts of a finished one.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use crate::{
    description::RunFile,
    error::Error,
    files,
    finish::VERDICTS,
    journal,
    lines::{Kind, Lines},
    record::Record,
    summary::Summary,
};

/// Result of a run in its folder.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub summary: Summary,
    /// The run folder.
    pub dir: PathBuf,
    /// Units of this process's share that were there before it started.
    pub resumed: usize,
}

impl Outcome {
    /// Returns true if every unit has a verdict.
    pub fn complete(&self) -> bool {
        self.summary.scored == self.summary.units
    }

    /// All verdicts, in the order of `verdicts.jsonl`.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Damaged`].
    pub fn records(&self) -> Result<Vec<Record>, Error> {
        self.each_record()?.collect()
    }

    /// All verdicts in that order, one in memory at a time.
    ///
    /// # Errors
    /// [`Error::Io`]; of a verdict, [`Error::Damaged`] too.
    pub fn each_record(&self) -> Result<Lines<Record>, Error> {
        // A partial merge has a journal alone, in verdict order.
        verdicts_so_far(&self.dir)
    }
}

/// The verdicts of a run folder, from its journal where it is not finished.
///
/// # Errors
/// [`Error::Io`]; of a verdict, [`Error::Damaged`] too.
pub fn verdicts_so_far(dir: &Path) -> Result<Lines<Record>, Error> {
    let verdicts = dir.join(VERDICTS);
    if verdicts.exists() { Lines::open(&verdicts, Kind::Verdicts) } else { journal::records(dir) }
}

/// The verdicts of a finished run, or of a `verdicts.jsonl` file.
///
/// # Errors
/// [`Error::Unfinished`] for a folder whose run has not come to its end, [`Error::Io`]; of a verdict,
/// [`Error::Damaged`] and [`Error::NoVerdicts`] too.
pub fn verdicts(path: &Path) -> Result<Lines<Record>, Error> {
    if !path.is_dir() {
        return Lines::open(path, Kind::Named);
    }
    let file = path.join(VERDICTS);
    match files::open_own(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            RunFile::read(path)?;
            Err(Error::Unfinished(path.into()))
        }
        _ => Lines::open(&file, Kind::Verdicts),
    }
}
