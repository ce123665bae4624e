//! Verdicts of a run, as far as meta-evaluation reads them: scores, errors, status. Whole lines are `run`'s.

use std::path::Path;

use serde::Deserialize;

use super::Error;
use super::scores::{line_error, read_text};

/// One line of `verdicts.jsonl`.
#[derive(Clone, Debug, Deserialize)]
pub struct Verdict {
    pub system: String,
    pub doc: String,
    /// Position in the test set; `None` for a verdict over a document or a group of documents.
    pub seg: Option<usize>,
    pub src_lang: String,
    pub tgt_lang: String,
    pub hypothesis: String,
    pub score: Option<f64>,
    #[serde(default)]
    pub errors: Vec<JudgedError>,
    pub status: String,
}

/// An error as a judge named it.
#[derive(Clone, Debug, Deserialize)]
pub struct JudgedError {
    pub span: String,
    pub side: String,
    pub start: Option<usize>,
    pub end: Option<usize>,
    pub category: String,
    pub severity: String,
}

/// Reads the verdicts of a run's folder, or of a file.
///
/// # Errors
/// An unreadable file or line.
pub fn read(path: &Path) -> Result<Vec<Verdict>, Error> {
    let path = if path.is_dir() { path.join("verdicts.jsonl") } else { path.to_owned() };
    let text = read_text(&path)?;
    let row = |(index, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| line_error(&path, index + 1, error.to_string()))
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(row).collect()
}
