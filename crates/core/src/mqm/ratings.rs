//! Files of mt-metrics-eval with one rater's errors: `LP.NAME.RATER.seg.rating`, a line for each system and
//! segment. The texts are elsewhere.
//!
//! Source: mt-metrics-eval `ratings.py`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{ErrorSpan, Severity, Side};
use crate::{files, segment::Segment};

/// Each system's segments, in order: `None` where this rater did not rate.
pub type Ratings = BTreeMap<String, Vec<Option<Vec<RatedError>>>>;

/// An error as it stands in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatedError {
    /// Half-open, in Unicode code points of the target, or of the source for source errors.
    pub start: usize,
    pub end: usize,
    /// The typology's path, as written in the file.
    #[serde(default)]
    pub category: String,
    #[serde(default)]
    pub severity: String,
    /// Penalty; higher is worse.
    #[serde(default)]
    pub score: Option<f64>,
    #[serde(default)]
    pub is_source_error: bool,
}

/// Error of reading a file of ratings.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read `{path}`: {}", files::explain(path, source))]
    Io { path: PathBuf, source: std::io::Error },
    #[error("`{path}` line {line}: {reason}")]
    Line { path: PathBuf, line: usize, reason: String },
    #[error("`{path}` rates {found} segments of `{system}`, but {expected} of another system")]
    Lengths { path: PathBuf, system: String, found: usize, expected: usize },
}

/// Reads a file of ratings.
///
/// # Errors
/// [`Error`], naming the line that cannot be read, or the system with another number of segments than the
/// first.
pub fn read(path: &Path) -> Result<Ratings, Error> {
    #[derive(Deserialize)]
    struct Row {
        errors: Vec<RatedError>,
    }
    let text = files::text::read(path).map_err(|source| Error::Io { path: path.into(), source })?;
    let mut ratings = Ratings::new();
    for (idx, line) in text.lines().enumerate() {
        let wrong = |reason: String| Error::Line { path: path.into(), line: idx + 1, reason };
        let mut fields = line.split('\t');
        let (Some(system), Some(rating)) = (fields.next(), fields.next()) else {
            return Err(wrong(format!("`{line}` is not `SYSTEM<TAB>RATING`")));
        };
        let errors = match rating {
            "None" => None,
            json => Some(serde_json::from_str::<Row>(json).map_err(|error| wrong(error.to_string()))?.errors),
        };
        ratings.entry(system.to_owned()).or_default().push(errors);
    }
    let expected = ratings.values().next().map_or(0, Vec::len);
    match ratings.iter().find(|(_, segments)| segments.len() != expected) {
        None => Ok(ratings),
        Some((system, segments)) => {
            let (system, found) = (system.clone(), segments.len());
            Err(Error::Lengths { path: path.into(), system, found, expected })
        }
    }
}

impl RatedError {
    /// The error with its span, cut out of the segment that was rated.
    ///
    /// # Errors
    /// An unknown severity, or offsets that do not lie in the text.
    pub fn located(&self, segment: &Segment) -> Result<ErrorSpan, String> {
        let severity: Severity = self.severity.parse().map_err(|e: super::Error| e.to_string())?;
        let (side, text) = if self.is_source_error {
            (Side::Source, &segment.source)
        } else {
            (Side::Target, &segment.hypothesis)
        };
        let n_chars = text.chars().count();
        if self.start > self.end || self.end > n_chars {
            let (start, end) = (self.start, self.end);
            return Err(format!(
                "the error {start}..{end} does not lie in the text, which has {n_chars} characters"
            ));
        }
        let span: String = text.chars().skip(self.start).take(self.end - self.start).collect();
        let error = ErrorSpan::new(&self.category, span, severity);
        Ok(ErrorSpan { side, start: Some(self.start), end: Some(self.end), ..error })
    }
}
