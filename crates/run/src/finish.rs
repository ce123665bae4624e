//! Finishes a run: writes the journal's lines in verdict order, and the summary, with one line in memory at a
//! time.

use std::{
    io::{self, BufReader, Read as _},
    path::Path,
};

use super::{
    Error, Summary,
    calls::Sums,
    folder::{self, Folder},
    journal::{self, Index},
    summary::{Cost, Summing},
};
use crate::{files, signature::Signature};

/// The files that a finished run has.
pub const VERDICTS: &str = "verdicts.jsonl";
pub const SUMMARY: &str = "summary.json";

/// Summary of verdicts, with the calls that led to them.
///
/// # Errors
/// [`Error::Io`], [`Error::Damaged`].
pub fn summary(index: &Index, signature: &Signature, sums: &Sums, cost: Cost) -> Result<Summary, Error> {
    let questions = sums.questions();
    let mut summing = Summing::new(&questions);
    index.each(|json| {
        summing.add(&journal::record(json)?);
        Ok(())
    })?;
    Ok(summing.finish(signature, cost))
}

/// The bytes of `summary.json`.
///
/// # Panics
/// Never: a summary holds strings and numbers only.
#[must_use]
pub fn summary_bytes(summary: &Summary) -> Vec<u8> {
    let mut json = serde_json::to_vec_pretty(summary).expect("strings and numbers only");
    json.push(b'\n');
    json
}

/// Reads a folder's `summary.json`; `None` where there is none that can be read.
#[must_use]
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
    if !is_there(&path, index)? {
        folder::replace(&path, |file| {
            let mut write = |json: &str| {
                let written = file.write_all(json.as_bytes()).and_then(|()| file.write_all(b"\n"));
                written.map_err(|source| Error::Io { action: "write", path: path.clone(), source })
            };
            index.each(&mut write).map_err(io::Error::other)
        })?;
    }
    if let Some(there) = read_summary(folder.dir()) {
        let mut same = summary.clone();
        same.cost.wall_seconds = there.cost.wall_seconds;
        if same == there {
            return Ok(there);
        }
    }
    folder.write(SUMMARY, &summary_bytes(&summary))?;
    Ok(summary)
}

/// Returns true if a file holds the verdicts of an index already, line by line.
fn is_there(path: &Path, index: &Index) -> Result<bool, Error> {
    let Ok(file) = files::open_own(path) else { return Ok(false) };
    let mut file = BufReader::with_capacity(1 << 18, file);
    let mut is_same = true;
    let mut there = Vec::new();
    index.each(|json| {
        there.resize(json.len() + 1, 0);
        is_same = is_same
            && file.read_exact(&mut there).is_ok()
            && there.strip_suffix(b"\n").is_some_and(|line| line == json.as_bytes());
        Ok(())
    })?;
    Ok(is_same && file.read(&mut [0]).is_ok_and(|n| n == 0))
}
