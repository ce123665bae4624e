//! Likely mistakes in collected ratings, in the texts that they are about, and in the scores of metrics. It corrects
//! nothing.

use std::path::PathBuf;

use serde::Serialize;

pub mod ratings;
pub mod scores;
pub mod testset;
pub mod texts;

/// What is likely to be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Translations that stand beside the sources of other lines.
    ShiftedLines,
    /// An error that does not lie in the text that the annotator saw.
    SpanOutside,
    /// An error without a character.
    EmptySpan,
    /// A score below 85 without an error.
    LowWithoutSpan,
    /// An annotator who never marks an error.
    NeverMarks,
    /// An annotator who agrees with no other one.
    AgreesWithNone,
    /// Equal translations that one annotator rates differently.
    RatedApart,
    /// Equal translations of several systems.
    EqualTranslations,
    /// A metric whose scores fall where the human ones rise.
    FlippedSign,
    /// System scores that are sums over segments.
    SummedSystemScores,
    /// The same score for all segments that no rater saw.
    FillerScores,
}

impl Kind {
    /// The name in output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ShiftedLines => "shifted-lines",
            Self::SpanOutside => "span-outside",
            Self::EmptySpan => "empty-span",
            Self::LowWithoutSpan => "low-without-span",
            Self::NeverMarks => "never-marks",
            Self::AgreesWithNone => "agrees-with-none",
            Self::RatedApart => "rated-apart",
            Self::EqualTranslations => "equal-translations",
            Self::FlippedSign => "flipped-sign",
            Self::SummedSystemScores => "summed-system-scores",
            Self::FillerScores => "filler-scores",
        }
    }

    /// Whether it says nothing against the data, but is good to know.
    #[must_use]
    pub fn is_note(self) -> bool {
        self == Self::EqualTranslations
    }
}

/// What is checked of one language pair.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Material {
    pub lp: String,
    pub texts: Vec<texts::Text>,
    pub ratings: Vec<ratings::Rating>,
    /// Metrics that were checked, and what was found about them.
    pub n_metrics: usize,
    pub findings: Vec<Finding>,
}

impl Material {
    /// All findings: about texts, ratings, metrics.
    #[must_use]
    pub fn check(&self) -> Vec<Finding> {
        let mut findings = texts::check(&self.lp, &self.texts);
        findings.extend(ratings::check(&self.lp, &self.ratings));
        findings.extend(self.findings.iter().cloned());
        findings
    }
}

/// A likely mistake, and where it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    pub kind: Kind,
    pub lp: String,
    /// `None` for scores of a test set's own metrics.
    pub file: Option<PathBuf>,
    /// From 1.
    pub line: Option<usize>,
    pub system: Option<String>,
    pub document: Option<String>,
    /// From 0; shown from 1.
    pub segment: Option<usize>,
    pub annotator: Option<String>,
    pub metric: Option<String>,
    /// What is wrong, without its place.
    pub message: String,
}

impl Finding {
    fn new(kind: Kind, lp: &str, message: String) -> Self {
        let lp = lp.to_owned();
        Self {
            kind,
            lp,
            file: None,
            line: None,
            system: None,
            document: None,
            segment: None,
            annotator: None,
            metric: None,
            message,
        }
    }
}
