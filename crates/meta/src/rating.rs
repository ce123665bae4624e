//! Human error spans: the `.seg.rating` files of mt-metrics-eval. It computes no scores.
//!
//! Source: mt-metrics-eval `ratings.py`; a line is `SYSTEM<TAB>JSON|None[<TAB>RATER]`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Error;
use super::scores::{line_error, read_text};

/// An error as a rater marked it.
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

/// The segments of each system; `None` where this rater did not rate.
pub type Ratings = BTreeMap<String, Vec<Option<Vec<RatedError>>>>;

#[derive(Deserialize)]
struct Row {
    errors: Vec<RatedError>,
}

/// Reads one rating file.
///
/// # Errors
/// A line that cannot be read, with its number, or systems with different numbers of segments.
pub fn read(path: &Path) -> Result<Ratings, Error> {
    let mut ratings = Ratings::new();
    for (index, line) in read_text(path)?.lines().enumerate() {
        let mut fields = line.split('\t');
        let (Some(system), Some(rating)) = (fields.next(), fields.next()) else {
            return Err(line_error(path, index + 1, format!("`{line}` is not `SYSTEM<TAB>RATING`")));
        };
        let errors = if rating == "None" {
            None
        } else {
            let row: Row = serde_json::from_str(rating)
                .map_err(|error| line_error(path, index + 1, error.to_string()))?;
            Some(row.errors)
        };
        ratings.entry(system.to_owned()).or_default().push(errors);
    }
    let expected = ratings.values().next().map_or(0, Vec::len);
    match ratings.iter().find(|(_, column)| column.len() != expected) {
        None => Ok(ratings),
        Some((system, column)) => Err(Error::SegmentCount {
            path: path.into(),
            system: system.clone(),
            found: column.len(),
            expected,
        }),
    }
}
