//! Finishes a run: writes the journal's lines in verdict order, and the summary, with one line in memory at a
//! time.

use std::{
    io::{self, BufRead as _, BufReader},
    path::Path,
};

use crate::{
    calls::Sums,
    error::Error,
    files,
    folder::{self, Folder},
    journal::index::Index,
    signature::Signature,
    summary::{Summary, Summing},
};

/// The files that a finished run has.
pub const VERDICTS: &str = "verdicts.jsonl";
pub const SUMMARY: &str = "summary.json";

/// Summary of verdicts, with the calls that led to them. `cautions` are those about the judge on this input.
///
/// # Errors
/// [`Error::Io`], [`Error::Damaged`].
pub fn summary(
    index: &Index,
    signature: &Signature,
    cautions: &[String],
    sums: &Sums,
) -> Result<Summary, Error> {
    let questions = sums.questions();
    let mut summing = Summing::new(&questions);
    for record in index.records() {
        summing.add(&record?);
    }
    Ok(summing.finish(signature, cautions, sums.cost.clone()))
}

/// The bytes of `summary.json`.
///
/// # Panics
/// Never: a summary holds strings and numbers only.
pub fn summary_bytes(summary: &Summary) -> Vec<u8> {
    let mut json = serde_json::to_vec_pretty(summary).expect("strings and numbers only");
    json.push(b'\n');
    json
}

/// Reads a folder's `summary.json`; `None` where there is none that can be read.
pub fn read_summary(dir: &Path) -> Option<Summary> {
    serde_json::from_slice(&files::read_own(&dir.join(SUMMARY)).ok()?).ok()
}

/// Writes `verdicts.jsonl` and `summary.json`. Existing equal files are not written again, nor is a summary
/// that differs from the existing one only in the time that this process took: opening a finished run changes
/// nothing in it.
///
/// # Errors
/// [`Error::Io`], [`Error::Damaged`].
pub fn write(folder: &Folder, index: &Index, summary: Summary) -> Result<Summary, Error> {
    let path = folder.path(VERDICTS);
    if !holds(&path, index)? {
        folder::replace(&path, |file| {
            for json in index.verdicts() {
                file.write_all(json.map_err(io::Error::other)?.as_bytes())?;
                file.write_all(b"\n")?;
            }
            Ok(())
        })?;
    }
    if let Some(written) = read_summary(folder.dir()) {
        let mut same = summary.clone();
        same.cost.wall_seconds = written.cost.wall_seconds;
        if same == written {
            return Ok(written);
        }
    }
    folder.write(SUMMARY, &summary_bytes(&summary))?;
    Ok(summary)
}

/// Returns true if a file holds the verdicts of an index already, line by line.
fn holds(path: &Path, index: &Index) -> Result<bool, Error> {
    let Ok(file) = files::open_own(path) else { return Ok(false) };
    let mut file = BufReader::with_capacity(1 << 18, file);
    let mut line = Vec::new();
    for json in index.verdicts() {
        line.clear();
        let is_read = file.read_until(b'\n', &mut line).is_ok();
        if !is_read || line.strip_suffix(b"\n") != Some(json?.as_bytes()) {
            return Ok(false);
        }
    }
    Ok(file.fill_buf().is_ok_and(<[u8]>::is_empty))
}
