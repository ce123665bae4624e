//! Multidimensional Quality Metrics: error spans, severities, weights, and errors turned into a score.
//! The errors come from judges or raters.
//!
//! ```
//! use tribunal_core::mqm::{ErrorSpan, Repeats, Severity, assess, weights};
//!
//! // A judge found one major and one minor error.
//! let found = vec![
//!     ErrorSpan::new("accuracy/mistranslation", "Bank", Severity::Major),
//!     ErrorSpan::new("fluency/punctuation", ",", Severity::Minor),
//! ];
//! let gemba = weights::find("gemba").unwrap();
//! let (errors, score) = assess(found, "on the bench", "auf der Bank,", Repeats::Merged, gemba);
//! assert_eq!(score, -6.0);
//! assert_eq!((errors[0].start, errors[0].end), (Some(8), Some(12)));
//! // WMT counts minor punctuation as a tenth.
//! let wmt = weights::find("wmt").unwrap();
//! assert_eq!(assess(errors, "on the bench", "auf der Bank,", Repeats::Merged, wmt).1, -5.1);
//! ```

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub mod typology;

pub mod weights;

pub mod locate;

pub mod repeats;

pub use repeats::Repeats;

pub mod raters;

pub mod ratings;

/// Severity of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Critical,
    Major,
    Minor,
    Neutral,
}

impl Severity {
    /// All severities, worst first.
    pub const ALL: [Self; 4] = [Self::Critical, Self::Major, Self::Minor, Self::Neutral];

    /// The name in lower case, as in `verdicts.jsonl`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Major => "major",
            Self::Minor => "minor",
            Self::Neutral => "neutral",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Severity {
    type Err = Error;

    /// Reads a severity in any case, with spaces around it.
    fn from_str(text: &str) -> Result<Self, Error> {
        let name = text.trim().to_lowercase();
        Self::ALL.into_iter().find(|s| s.name() == name).ok_or_else(|| Error::Severity(text.trim().into()))
    }
}

/// Error of an unknown severity or weight preset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("unknown severity `{0}`; hint: it can be critical, major, minor or neutral")]
    Severity(String),
    #[error("unknown weight preset `{name}`; hint: it can be {}", weights::names())]
    Weights { name: String },
}

/// The text that an error span is part of.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    #[default]
    Target,
    Source,
}

/// One error of a translation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// The translation without the error, where the method has one that was judged to be better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
    /// Probability in 0..=1 that the judge gave to this span, where the method has one.
    pub confidence: Option<f64>,
    /// Number of times that the judge, or its agents, named this error at this place; it is charged once
    /// ([`repeats::merged`]).
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub times: usize,
}

fn once() -> usize {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_once(times: &usize) -> bool {
    *times == 1
}

impl ErrorSpan {
    /// An error as a judge names it: its category normalised ([`typology::normalise`]), on the side where
    /// such an error is marked, not yet located and without a weight.
    pub fn new(category: &str, span: impl Into<String>, severity: Severity) -> Self {
        let category = typology::normalise(category);
        Self {
            span: span.into(),
            side: typology::side(&category),
            start: None,
            end: None,
            ambiguous: false,
            category,
            severity,
            weight: 0.0,
            explanation: None,
            suggestion: None,
            confidence: None,
            times: 1,
        }
    }

    /// Adds the judge's reason; an empty one counts as none.
    #[must_use]
    pub fn explained(mut self, explanation: impl Into<String>) -> Self {
        self.explanation = Some(explanation.into()).filter(|e| !e.is_empty());
        self
    }
}

/// Merges or keeps repeated errors, locates them in their texts and weighs them. Returns them and their score
/// ([`weights::Weights::score`]), which counts no more errors and points than the weights allow.
///
/// Unit: minus the penalty on the weights' scale; 0 is best, higher is better.
pub fn assess(
    errors: Vec<ErrorSpan>,
    source: &str,
    target: &str,
    repeats: Repeats,
    weights: &weights::Weights,
) -> (Vec<ErrorSpan>, f64) {
    let mut errors = repeats.settled(errors, source, target);
    weights.weigh(&mut errors);
    let score = weights.score(&errors);
    (errors, score)
}
