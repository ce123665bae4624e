//! Meta-evaluation: how well a judge agrees with human raters, and whether one agrees better than another. No
//! model is run and nothing is printed; of lower modules it uses the layout of a test set's files
//! ([`segment::read::layout`]) and the form of the raters' marked errors.
//!
//! In reading order: a [`testset::TestSet`] yields [`scores::Scores`]; [`align`] puts human and metric scores
//! side by side without ever shifting one against the other; [`correlation`] and [`pairs`] hold the plain
//! coefficients, [`average`] applies them by segment, by system or to all; [`ties`] fits the tie threshold;
//! [`agreement`] and [`spa`] compare systems; [`significance`] compares metrics, [`task`] whole task sets.

#![expect(
    clippy::float_cmp,
    reason = "a tie is exact equality: that is the definition in every statistic here"
)]

use std::path::PathBuf;

use tribunal_core::{mqm, segment};

use segment::read::layout::inside;

pub mod ment;
pub mod scores;
pub mod testset;
pub mod units;

pub mod judgements;

pub mod align;

pub mod correlation;
pub mod pairs;
pub mod probability;
pub mod range;
mod tally;

pub mod average;
pub mod fit;
pub mod ties;

pub mod agreement;
pub mod deviation;
pub mod error_free;
pub mod pcg;
pub mod reliability;
pub mod spa;

pub mod lexical;

pub mod side_by_side;
pub mod significance;
pub mod systems;

pub mod pairwise_tests;
pub mod verdicts;

pub mod spans;

pub mod latent;
pub mod temperature;

pub mod annotators;
pub mod contents;
pub mod distribution;
pub mod lengths;

pub mod baselines;
pub mod coverage;
pub mod gold;
pub mod selection;
pub mod standards;

pub mod eval_set;
pub mod metrics;
pub mod statistic;

pub mod evaluate;
pub mod task;

pub mod parts;
pub mod plot;
pub mod slices;
pub mod suspect;

/// The source of external scores.
pub const HOW_SCORES: &str = "\nhint: it names a run folder, a score file, or files with `{lp}` and `{level}` (`seg`, `sys`) in their names";

/// The remedy of an error, which a program words with the names of its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Compare on each system's own scores ([`coverage::CoveragePolicy::Each`]).
    EachSystem,
    /// Compare each system with the baseline on what those two share.
    EachPair,
    /// Compare on each metric's own scores, or choose metrics.
    EachMetric,
    /// Name the systems to compare.
    NameSystems,
    /// Choose other human scores, or other systems.
    OtherGold,
    /// Choose one of the references of this language pair.
    Reference { lp: String, known: String },
    /// Choose another reference than the standard one, or one of these metrics by its full name.
    FullName(String),
    /// Compute this lexical metric from the texts.
    Lexical(String),
    /// Judge segments one by one.
    BySegment,
    /// Read the answers themselves, not labels recorded beside them.
    ReadAnswers,
    /// Judge the test set itself, whose systems these are.
    JudgeTestSet(String),
}

/// A result with the [`Error`] of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a meta-evaluation cannot be computed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read `{path}`: {}", tribunal_core::files::explain(path, source))]
    Read { path: PathBuf, source: std::io::Error },
    #[error("`{}` is empty", .0.display())]
    Empty(PathBuf),
    #[error("{}:{line}: {reason}", path.display())]
    Line { path: PathBuf, line: usize, reason: String },
    #[error("`{}` is not a test set: it has no `documents` folder; hint: {}", .0.display(), inside(.0).unwrap_or_else(|| {
        "the layout is that of mt-metrics-eval, or there is a `MENT.jsonl`".into()
    }))]
    NoTestSet(PathBuf),
    #[error("there is no folder `{}`", .0.display())]
    NoFolder(PathBuf),
    #[error("`{dir}` has no language pair `{lp}`; hint: it has {known}", dir = dir.display())]
    NoLanguagePair { dir: PathBuf, lp: String, known: String },
    #[error("no human scores `{gold}` for `{lp}`; hint: there are {known}")]
    NoGold { gold: String, lp: String, known: String },
    #[error("no score file for `{name}` at `{pattern}`{HOW_SCORES}")]
    NoScores { name: String, pattern: String },
    #[error("`{path}` has {lines} lines for system `{system}` where one is expected; hint: these may be segment scores", path = path.display())]
    NotSystemLevel { path: PathBuf, system: String, lines: usize },
    #[error("`{path}` has {found} scores for system `{system}`, but the test set has {expected} segments", path = path.display())]
    SegmentCount { path: PathBuf, system: String, found: usize, expected: usize },
    #[error("`{path}` has {found} lines, but the test set has {expected} segments", path = path.display())]
    LineCount { path: PathBuf, found: usize, expected: usize },
    #[error("`{}` has one column and names no system; hint: use one file per system, with {{system}} in the pattern", .0.display())]
    UnnamedColumn(PathBuf),
    #[error("`{}` names systems, but the pattern asks for one column per system", .0.display())]
    NotAColumn(PathBuf),
    #[error("`{metric}` has no scores for system `{system}`, which the human raters scored")]
    MissingSystem {
        metric: String,
        system: String,
        /// The systems that both scored; empty where there are fewer than two.
        others: Vec<String>,
    },
    #[error("`{metric}` has {found} segments for system `{system}`, but the human scores have {expected}")]
    Misaligned { metric: String, system: String, found: usize, expected: usize },
    #[error("`{}`: the verdict on {unit} of `{system}` {reason}", path.display())]
    Unit { path: PathBuf, system: String, unit: String, reason: String },
    #[error("{0}")]
    Unsuitable(String),
    #[error("{reason}")]
    Advised { reason: String, advice: Advice },
    #[error("`{}`: the verdict on {unit} of `{system}` is about another translation than the test set has there", path.display())]
    OtherTranslation { path: PathBuf, system: String, unit: String },
    #[error(transparent)]
    Text(#[from] crate::segment::read::Error),
    #[error(transparent)]
    Ratings(#[from] crate::mqm::ratings::Error),
}

/// True for a count that JSON leaves out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}
