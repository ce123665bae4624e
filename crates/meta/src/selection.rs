//! The user's selection: human scores, metrics, systems, and the translations compared. No file is opened.

use super::coverage::CoveragePolicy;
use super::gold::Wanted;
use super::lexical::baseline::Baseline;
use super::scores::units::Joining;
use super::standards::References;
use super::verdicts::Verdict;

/// Scores from the user's own files: a name and their pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct Brought {
    pub name: String,
    pub pattern: String,
    /// Lower is better in the files.
    pub negate: bool,
    /// The verdicts in the pattern's file, where another crate reads it: the annotations of human raters.
    pub verdicts: Option<Vec<Verdict>>,
}

/// The parts of a test set to load.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub gold: Wanted,
    pub brought: Vec<Brought>,
    /// Metrics of the folder, by `NAME` or `NAME-REF`; empty for all of the standard reference or none.
    pub metrics: Vec<String>,
    /// Lexical baselines to compute from the texts.
    pub lexical: Vec<Baseline>,
    /// Leave the folder's own metrics out.
    pub only_brought: bool,
    /// Systems to compare on; empty for all.
    pub systems: Vec<String>,
    pub coverage: CoveragePolicy,
    /// Rule that joins the raters' segment scores to scores of documents.
    pub joining: Joining,
    /// References to use instead of the standard ones.
    pub references: References,
    /// The seed of the baseline `random`.
    pub seed: u64,
    /// The test set by its name in the shared tasks, where its folder is called something else.
    pub known_as: Option<String>,
}
