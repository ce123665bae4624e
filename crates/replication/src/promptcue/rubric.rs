//! RUBRIC-MQM's segment scores from answers as text, and their correlation with the human scores of reference
//! A (Figure 4). Only recorded answers are read.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;
use tribunal_core::files;
use tribunal_judges::reading::pattern;

use tribunal_meta::Result;
use tribunal_meta::scores::{line_error, read_text};

/// One answer about reference A with the scores recorded beside it.
#[derive(Clone, Debug, Deserialize)]
pub struct Reviewed {
    pub review: Option<String>,
    /// The human score, direct assessment with scalar quality metric.
    pub sqm: f64,
    pub mqm: f64,
    pub gemba: f64,
}

/// Rule that combines the points of a segment's errors. Fewer points are better, so scores are negated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    Sum,
    Mean,
}

static POINTS: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)-\s*(\d+)\s*$"));

/// Score of a segment from its errors' points, read from lines that end in `- POINTS`; 0 points mean no
/// error.
///
/// Range: 0 (no error) down. Direction: higher is better.
///
/// ```
/// use tribunal_replication::promptcue::rubric::{Pooling, score};
/// let review = "\"a\" - mistranslation - 70\n\"b\" - untranslated text - 50\n\"\" - no-error - 0";
/// assert_eq!(score(review, Pooling::Sum), -120.0);
/// assert_eq!(score(review, Pooling::Mean), -60.0);
/// assert_eq!(score("no error", Pooling::Mean), 0.0);
/// ```
pub fn score(review: &str, pooling: Pooling) -> f64 {
    let points: Vec<f64> =
        POINTS.captures_iter(review).filter_map(|found| found[1].parse().ok()).filter(|p| *p > 0.0).collect();
    let sum: f64 = points.iter().sum();
    match pooling {
        _ if points.is_empty() => 0.0,
        Pooling::Sum => -sum,
        Pooling::Mean => -sum / points.len() as f64,
    }
}

/// Scores of the same segments by their names: RUBRIC-MQM's, from the answers, and those recorded beside
/// them; the last one is the human score that the others are compared with.
///
/// Direction: higher is better.
pub fn columns(rows: &[Reviewed]) -> [(&'static str, Vec<f64>); 5] {
    // Not -0, which would print.
    let of = |score: &dyn Fn(&Reviewed) -> f64| rows.iter().map(|row| 0.0 + score(row)).collect();
    let review = |row: &Reviewed, pooling| score(row.review.as_deref().unwrap_or_default(), pooling);
    [
        ("sum", of(&|row| review(row, Pooling::Sum))),
        ("mean", of(&|row| review(row, Pooling::Mean))),
        ("GEMBA", of(&|row| row.gemba)),
        ("MQM", of(&|row| row.mqm)),
        ("DA+SQM", of(&|row| row.sqm)),
    ]
}

/// Reads recorded answers.
///
/// # Errors
/// An unreadable file or row.
pub fn read(path: &Path) -> Result<Vec<Reviewed>> {
    let text = read_text(path)?;
    let row = |(index, line): (usize, &str)| {
        files::json::parse(line).map_err(|reason| line_error(path, index + 1, reason))
    };
    text.lines().enumerate().map(row).collect()
}
