//! Multidimensional Quality Metrics: error spans, severities, weights, and errors turned into a score.
//! It judges nothing: judges bring the errors.

use serde::{Deserialize, Serialize};

pub mod locate;
pub mod weights;

/// How bad an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Critical,
    Major,
    Minor,
    Neutral,
}

/// The text that an error span is part of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    #[default]
    Target,
    Source,
}

/// One error of a translation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorSpan {
    /// The text that the judge named; empty when it named none.
    pub span: String,
    pub side: Side,
    /// Half-open offsets in Unicode code points; `None` when the span is not in the text.
    pub start: Option<usize>,
    pub end: Option<usize>,
    /// The span occurs more than once in the text, so its offsets are a guess.
    pub ambiguous: bool,
    /// The typology's path, lower case: `accuracy/mistranslation`.
    pub category: String,
    pub severity: Severity,
    /// Penalty under the weights in force; lower is better, 0 is none.
    pub weight: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
    /// Probability in 0..=1 that the judge gave to this span, where the method has one.
    pub confidence: Option<f64>,
}
