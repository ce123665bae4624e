//! The end of a run: the lines of the journal in verdict order, and what they come to. It judges nothing.

use std::{collections::HashMap, path::Path};

use super::{
    Error, Record, Summary, UnitKey,
    folder::Folder,
    journal::{self, JOURNAL},
};

/// The files that a finished run has.
pub const VERDICTS: &str = "verdicts.jsonl";
pub const SUMMARY: &str = "summary.json";

/// The records of the journal in verdict order, with their lines.
///
/// # Errors
/// [`Error::Io`], [`Error::Damaged`].
pub fn ordered(dir: &Path, keys: &[UnitKey]) -> Result<Vec<(Record, String)>, Error> {
    Ok(in_order(journal::records(&dir.join(JOURNAL))?, keys))
}

/// Lines in verdict order; units that are not among the keys come first.
#[must_use]
pub fn in_order(mut lines: Vec<(Record, String)>, keys: &[UnitKey]) -> Vec<(Record, String)> {
    let rank: HashMap<&UnitKey, usize> = keys.iter().enumerate().map(|(i, key)| (key, i)).collect();
    lines.sort_by_cached_key(|(record, _)| rank.get(&record.key()).copied());
    lines
}

/// The bytes of `verdicts.jsonl`.
#[must_use]
pub fn verdict_bytes(lines: &[(Record, String)]) -> Vec<u8> {
    lines.iter().flat_map(|(_, line)| [line.as_bytes(), b"\n"]).flatten().copied().collect()
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
    serde_json::from_slice(&std::fs::read(dir.join(SUMMARY)).ok()?).ok()
}

/// Writes `verdicts.jsonl` and `summary.json`. A summary that differs from the one there only in the time that this
/// process took is not written again: looking at a finished run changes nothing in it.
///
/// # Errors
/// [`Error::Io`].
pub fn write(folder: &Folder, lines: &[(Record, String)], summary: Summary) -> Result<Summary, Error> {
    folder.write(VERDICTS, &verdict_bytes(lines))?;
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
