//! Requests for a judge: settings, `NAME:option=value,...`, and the errors of a request. Nothing is judged
//! and no prompt read here.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Grouping, Unit};
use crate::mqm::{self, Repeats, weights::Weights};

mod names;
pub mod options;
pub mod shared;

pub(crate) use names::names;

pub use options::{GivenOptions, OptionSpec, OptionValue, Reference};
pub(crate) use options::{file, list, number, options};
pub use shared::{ReferenceOption, ScoreOption, SharedOptions};

/// The description that a method follows where they differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// As printed in the paper.
    Paper,
    /// As in the authors' published code, faults included.
    Code,
    /// Ours: answers hold by construction or are read without guessing; what cannot be used is missing.
    #[default]
    Strict,
}

/// Extent of one prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Granularity {
    #[default]
    Seg,
    Doc,
    #[serde(rename = "5doc")]
    FiveDoc,
}

names!(Preset, "preset", { Paper => "paper", Code => "code", Strict => "strict" });
names!(Granularity, "granularity", { Seg => "seg", Doc => "doc", FiveDoc => "5doc" });
names!(LanguageCheck, "the language check", { On => "on", Off => "off" });

impl Preset {
    /// Treatment of errors that are named more than once: no paper and no published program merges them,
    /// `strict` does.
    pub fn repeats(self) -> Repeats {
        if self == Self::Strict { Repeats::Merged } else { Repeats::Charged }
    }
}

impl Granularity {
    /// Segments that must be judged together for a prompt of this extent.
    pub fn grouping(self) -> Grouping {
        match self {
            Self::Seg => Grouping::Segment,
            Self::Doc => Grouping::Document,
            Self::FiveDoc => Grouping::FiveDocuments,
        }
    }

    /// The unit of one verdict when a single prompt covers all its segments.
    pub fn unit(self) -> Unit {
        if self == Self::Seg { Unit::Segment } else { Unit::Group }
    }
}

/// Check of the texts' languages, and of texts that are no translations at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LanguageCheck {
    On,
    /// The default of the library; that of the command line is `on`.
    #[default]
    Off,
}

impl LanguageCheck {
    /// The field of the signature for the check; runs without one have no such field.
    pub const FIELD: &'static str = "language";
}

/// Settings of every method. `None` is the method's own default.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub preset: Preset,
    pub granularity: Option<Granularity>,
    /// A name of [`mqm::weights::PRESETS`].
    pub weights: Option<String>,
    /// A folder whose files replace the method's prompts of the same relative name.
    pub prompts: Option<PathBuf>,
    /// A file of shots (see [`super::shots`]) that replaces the method's own; `gmicl` takes its examples from
    /// a rated test set.
    pub shots: Option<PathBuf>,
    /// Answer tokens of one question.
    pub max_tokens: Option<usize>,
    /// The seed of random draws for the run, such as of examples.
    pub seed: u64,
    /// True if every segment of the input has a reference translation.
    pub has_references: bool,
    pub language_check: LanguageCheck,
    /// The model as it was requested: a card's name or a path; empty if not given.
    pub model: String,
}

impl Settings {
    /// The name of the weights in force for a method with these defaults: the requested ones, else its own,
    /// which at granularities above the segment are those that do not saturate. They follow from the run
    /// alone, so that all translations of a source are weighed alike.
    pub fn weights_name<'s>(&'s self, name: &'s str, granularity: Granularity) -> &'s str {
        let name = if granularity == Granularity::Seg { name } else { mqm::weights::for_documents(name) };
        self.weights.as_deref().unwrap_or(name)
    }

    /// The weights of [`Settings::weights_name`].
    ///
    /// # Errors
    /// [`Error::Weights`] for a name that no preset has.
    pub fn weights(&self, name: &str, granularity: Granularity) -> Result<&'static Weights> {
        Ok(mqm::weights::find(self.weights_name(name, granularity))?)
    }

    /// Rejects weights and shots, for a method that has neither.
    ///
    /// # Errors
    /// [`Error::Conflict`].
    pub fn check_neither_weights_nor_shots(&self, method: &str) -> Result<()> {
        if self.weights.is_none() && self.shots.is_none() {
            return Ok(());
        }
        let reason =
            format!("{method} has neither severity weights nor shots; hint: leave weights and shots out");
        Err(Error::Conflict(reason))
    }

    /// True if worked examples are shown, where an option `shots` requests some or none.
    ///
    /// # Errors
    /// [`Error::Conflict`] when a file of shots is given together with `shots=0`.
    pub fn has_shots(&self, uses_shots: bool) -> Result<bool> {
        match &self.shots {
            Some(file) if !uses_shots => {
                let reason = format!("`shots=0` and the shots of `{}`; hint: leave one out", file.display());
                Err(Error::Conflict(reason))
            }
            _ => Ok(uses_shots),
        }
    }
}

/// Rejects options that do not go together: the first of these reasons that holds.
///
/// # Errors
/// [`Error::Conflict`].
pub fn reject(reasons: &[(bool, &str)]) -> Result<()> {
    match reasons.iter().find(|(holds, _)| *holds) {
        Some((_, reason)) => Err(Error::Conflict((*reason).into())),
        None => Ok(()),
    }
}

/// Names as a choice: `a, b or c`.
pub(super) fn either<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let worded = |name: &'n str| match name {
        "<number>" => "a number",
        "<file>" => "a file",
        "<list>" => "names joined by `+`",
        name => name,
    };
    let names: Vec<&str> = names.map(worded).collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => "nothing".to_owned(),
    }
}

/// `did you mean `x`? ` when one of the names is close.
pub(super) fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> String {
    let close = known
        .map(|other| (strsim::normalized_damerau_levenshtein(name, other), other))
        .filter(|(similarity, _)| *similarity > 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    close.map_or(String::new(), |(_, other)| format!("did you mean `{other}`? "))
}

/// A result with the [`Error`] of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a judge cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("unknown method `{name}`\nhint: {hint}")]
    Method { name: String, hint: String },
    /// The name of a metric, where a judge is expected.
    #[error("`{name}` is a metric, not a judge\nhint: for a score like MQM use `probe`")]
    Metric { name: String },
    #[error("`{method}` has no option `{name}`\nhint: {nearest}its options are {known}")]
    Option { method: String, name: String, known: String, nearest: String },
    #[error("{option} cannot be `{value}`\nhint: it can be {known}")]
    Value { option: String, value: String, known: String },
    #[error("`{0}` has no value\nhint: write NAME:option=value,option=value")]
    Syntax(String),
    #[error("{0}")]
    Conflict(String),
    #[error("{0} samples at temperature 0 are the same")]
    SameSamples(usize),
    #[error("`{method}:reference=on` needs a reference for every segment, and {missing} of {of} have none")]
    MissingReferences { method: String, missing: usize, of: usize },
    #[error(
        "{by} asks `{model}` to reason, and its chat template marks no reasoning; hint: take a model that reasons, or \
         leave it out"
    )]
    NoReasoning { by: String, model: String },
    #[error("`{method}` does not show the reference that is given")]
    ReferenceNotShown { method: String },
    #[error("`{method}` judges without a reference; {readers} read one")]
    ReferenceNotRead { method: String, readers: String },
    #[error("gmicl takes its examples from rated translations")]
    NoExamples,
    #[error("probe has no shots")]
    NoShots,
    #[error("`rate` neither weighs errors nor shows examples")]
    NeitherWeightsNorShots,
    /// Prompts that are not part of this program, since they are published without a licence.
    #[error("{what}; hint: git clone {repository}")]
    AuthorsPrompts {
        what: String,
        repository: &'static str,
        /// Path of the prompts, from the folder that the clone is made in.
        folder: &'static str,
    },
    #[error(transparent)]
    Weights(#[from] mqm::Error),
    #[error("cannot read `{}`: {}", file.display(), tribunal_core::files::explain(file, source))]
    Read { file: PathBuf, source: std::io::Error },
    #[error("no file in `{}` has the name of a prompt of this method; hint: they are called {known}", dir.display())]
    NoPrompts { dir: PathBuf, known: String },
    #[error("prompt `{file}` cannot be used: {reason}")]
    Prompt { file: String, reason: String },
    #[error("`{file}` line {line}: {reason}")]
    Line { file: String, line: usize, reason: String },
    #[error("{0}")]
    Template(super::Error),
}

impl Error {
    /// A prompt that cannot be rendered, found before the first call.
    pub fn from_prompt(error: super::Error) -> Self {
        Self::Template(error)
    }
}
