//! Segments with one marked error each, from CSV or JSONL.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::meta::Error;
use crate::meta::scores::{line_error, read_text};

/// One segment of a set: the text with the error marked by `<v>` and `</v>`, and what the error is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cue {
    pub id: usize,
    pub source: String,
    #[serde(default)]
    pub reference: String,
    pub target: String,
    pub error_span: String,
    pub category: String,
    pub severity: String,
    #[serde(default)]
    pub source_lang: String,
    #[serde(default)]
    pub target_lang: String,
}

/// Reads a set: `.csv` with a header line, anything else as JSONL.
///
/// # Errors
/// An unreadable file, a row that lacks a field, or an id that occurs twice.
pub fn read(path: &Path) -> Result<Vec<Cue>, Error> {
    let cues = if path.extension().is_some_and(|extension| extension == "csv") {
        read_csv(path)?
    } else {
        read_jsonl(path)?
    };
    let mut ids: Vec<usize> = cues.iter().map(|cue| cue.id).collect();
    ids.sort_unstable();
    if let Some([id, _]) = ids.array_windows().find(|[id, next]| id == next) {
        return Err(Error::Unsuitable(format!("`{}` has id `{}` twice", path.display(), id)));
    }
    Ok(cues)
}

fn read_csv(path: &Path) -> Result<Vec<Cue>, Error> {
    let text = read_text(path)?;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let row = |(index, row): (usize, Result<Cue, csv::Error>)| {
        row.map_err(|error| line_error(path, index + 2, error.to_string()))
    };
    reader.deserialize().enumerate().map(row).collect()
}

fn read_jsonl(path: &Path) -> Result<Vec<Cue>, Error> {
    let text = read_text(path)?;
    let row = |(index, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| line_error(path, index + 1, error.to_string()))
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(row).collect()
}
