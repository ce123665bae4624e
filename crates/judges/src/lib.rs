//! Judges: one file per paper, each beside its folder of prompts, schemas and shots. A judge handles text and
//! an [`llm::Llm`], never tokens.
//!
//! [`registry`] builds one from its name; [`setup`] has its options; a [`panel`] has its models.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use tribunal_core::{jinja, llm, mqm, parallel, segment, signature};

use crate::{
    llm::{ReasoningOptions, Sampling},
    mqm::ErrorSpan,
    segment::{Segment, trained::TrainedOn},
};

pub mod evidence;

pub mod bibliography;

pub mod registry;

pub mod method;

pub mod scale;

pub mod scope;

pub mod setup;

pub mod panel;

pub mod declaration;

pub mod method_file;

pub mod gemba_mqm;

pub mod mqm_ape;

pub mod gemba_da;

pub mod gemba_scales;

pub mod gemba_esa;

pub mod eaprompt;

pub mod rubric_mqm;

pub mod fsp;

pub mod m_mad;

pub mod himate;
pub mod rate;

pub mod difficulty;

pub mod gmicl;

pub mod gmft;

pub mod probe;

pub mod likelihood;

pub mod remedy;

pub mod reward;

pub mod comet;

pub mod qe;

pub mod thinking;

pub mod answers;

pub mod tagged;

pub mod small_models;

pub mod literals;

pub mod pair;

pub mod prompt;

pub mod shots;

pub mod pairwise;

pub mod expected;

pub mod confidence;

mod samples;

pub mod untranslated;

pub mod reading;

pub use method::{Method, Role, Stage, Step};
pub use panel::{
    Call, Panel, Question, REASONING, Retry, Wanted, in_parallel,
    rehearsal::{Rehearsal, RehearsedQuestion, rehearse, rehearse_unanswered},
};
pub use registry::Built;
pub use samples::Aggregate;
use samples::Samples;
pub use scale::Scale;
pub use scope::Scope;
pub use setup::{Granularity, LanguageCheck, Preset, Settings};

/// The protocol of a published method: how a group of segments is judged.
pub trait Protocol: Sync + Send {
    /// Judges one group. The answer has one entry per unit: per segment, or one for the whole group when the
    /// granularity is a document or more (see [`Judge::unit`]).
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>>;

    /// Checks the whole input before the first call.
    ///
    /// # Errors
    /// [`setup::Error::Conflict`] when the judge cannot judge it.
    fn check_input(&self, _segments: &[Segment]) -> setup::Result<()> {
        Ok(())
    }

    /// Notes for the user about these segments before they are judged, such as languages that the method has
    /// no examples for.
    fn notes(&self, _segments: &[Segment]) -> Vec<String> {
        Vec::new()
    }

    /// The data that it was fitted on; `None` for judges of any text.
    fn scope(&self) -> Option<Scope> {
        None
    }

    /// Checks the models of the panel against the judge's settings.
    ///
    /// # Errors
    /// [`setup::Error::Conflict`] when a setting holds for another model.
    fn check_models(&self, _model_of: &dyn Fn(Role) -> Model) -> setup::Result<()> {
        Ok(())
    }
}

/// A method with its options: its protocol, and its properties that depend on the options. Properties of the
/// method itself are in its [`Method`].
pub struct Judge {
    protocol: Box<dyn Protocol>,
    samples: Samples,
    /// Inputs besides its settings, for the signature.
    pub provenance: Provenance,
    /// Segments that must be judged together, in order; `run` plans, shards and resumes by these groups.
    pub grouping: Grouping,
    /// True if each segment of a group has questions of its own and the others are context alone: their
    /// verdicts need not be awaited.
    pub asks_apart: bool,
    /// The unit of one verdict.
    pub unit: Unit,
    /// The direction of [`Verdict::raw`]; [`Verdict::score`] is always higher for the better.
    pub direction: Direction,
    /// Model calls per unit with these settings, at one seed, where [`Method::calls`] leaves that open.
    pub calls: Option<method::Calls>,
    /// The source texts that it was fitted on: its scores on them prove nothing.
    pub trained_on: Option<TrainedOn>,
    /// The temperature and nucleus of its questions, where the method has its own.
    pub sampled_at: Option<[f32; 2]>,
    /// True if prompts on the translations of one source share most of their tokens: they are then judged one
    /// after another, wherever they stand in the input.
    pub shares_sources: bool,
    /// The head of its models; `None` for a judge of language models.
    pub head: Option<NeededHead>,
    /// The file of the estimator over its model, which is an encoder.
    pub estimator: Option<Arc<[u8]>>,
    /// Treatment of segments that are not translations.
    pub untranslated: untranslated::Rule,
    /// The reasoning before each of its answers; `None` for none.
    pub reasoning: Option<ReasoningOptions>,
}

impl Judge {
    /// A judge that gives each segment by itself a verdict, higher for the better.
    pub fn new(provenance: Provenance, protocol: impl Protocol + 'static) -> Self {
        Self {
            protocol: Box::new(protocol),
            samples: Samples { n: 1, aggregate: Aggregate::default() },
            provenance,
            grouping: Grouping::Segment,
            asks_apart: false,
            unit: Unit::Segment,
            direction: Direction::Higher,
            calls: None,
            trained_on: None,
            sampled_at: None,
            shares_sources: false,
            head: None,
            estimator: None,
            untranslated: untranslated::Rule::default(),
            reasoning: None,
        }
    }

    /// This judge for models with a score head, of which it reads one output, from 1, or the only one.
    #[must_use]
    pub fn of_head(self, output: Option<usize>) -> Self {
        Self { head: Some(NeededHead::Scores { output }), shares_sources: true, ..self }
    }

    /// This judge for metrics, which it shows references or not.
    #[must_use]
    pub fn of_metric(self, shows_reference: bool) -> Self {
        Self { head: Some(NeededHead::Metric { shows_reference }), ..self }
    }

    /// This judge with its number of calls per unit.
    #[must_use]
    pub fn with_calls(self, calls: method::Calls) -> Self {
        Self { calls: Some(calls), ..self }
    }

    /// The model calls for one unit, over all samples, where its method takes these; one where neither is
    /// known. Reasoning is a call of its own.
    #[must_use]
    pub fn calls_per_unit(&self, of_method: Option<method::Calls>) -> method::Calls {
        let of_seed = self.calls.or(of_method).unwrap_or(method::Calls::exactly(1));
        let n = self.samples.n * if self.reasoning.is_some() { 2 } else { 1 };
        method::Calls { least: of_seed.least * n, typical: of_seed.typical * n, most: of_seed.most * n }
    }

    /// [`Protocol::judge`], at every seed. No model is called about units that are not translations
    /// ([`untranslated`]).
    pub fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        untranslated::judge(self, &panel.with_reasoning(self.reasoning), group)
    }

    /// Warnings about the scores of a group's units, in words without a full stop; `None` for most.
    pub fn warnings(&self, group: &[Segment]) -> Vec<Option<String>> {
        untranslated::warnings(self, group)
    }

    /// Its protocol, which checks input and models. Verdicts come from [`Judge::judge`].
    pub fn protocol(&self) -> &dyn Protocol {
        self.protocol.as_ref()
    }

    /// The sampling of its questions.
    pub fn sampling(&self, requested: &Sampling) -> Sampling {
        let [temperature, top_p] = self.sampled_at.unwrap_or([requested.temperature, requested.top_p]);
        Sampling { temperature, top_p, ..requested.clone() }
    }

    /// This judge at `samples` seeds.
    ///
    /// # Errors
    /// [`setup::Error::SameSamples`] when all samples would be the same, at temperature 0.
    pub fn sampled(self, samples: usize, sampling: &Sampling) -> setup::Result<Self> {
        if samples > 1 && self.sampling(sampling).temperature <= 0.0 {
            return Err(setup::Error::SameSamples(samples));
        }
        Ok(Self { samples: Samples { n: samples.max(1), ..self.samples }, ..self })
    }

    /// This judge with another aggregate of its samples.
    #[must_use]
    pub fn aggregated(self, aggregate: Aggregate) -> Self {
        Self { samples: Samples { aggregate, ..self.samples }, ..self }
    }
}

/// The head that a judge reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeededHead {
    /// A score head, of which one output is read, from 1; `None` for the only one.
    Scores { output: Option<usize> },
    /// That of a metric.
    Metric { shows_reference: bool },
    /// None: the judge brings an estimator for an encoder.
    Estimator,
}

/// Inputs of a judge besides its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Of the prompts in force ([`prompt::Prompts::hash`]).
    pub prompts: String,
    /// The prompt files in force, of which `prompts` is the hash.
    pub files: Vec<prompt::InForce>,
    /// Hashes of other files. A file with the name of an option is signed by its hash instead of the option's
    /// path.
    pub others: Vec<(&'static str, String)>,
    /// The severity weights that it uses, where [`Method::weights`] leaves them open.
    pub weights: Option<&'static str>,
}

impl Provenance {
    /// Prompts alone.
    pub fn of(prompts: &prompt::Prompts) -> Self {
        let files = prompts.files().to_vec();
        Self { prompts: prompts.hash().to_owned(), files, ..Self::default() }
    }

    /// The provenance with the name of the weights in force, which depend on more than the method.
    #[must_use]
    pub fn weighed_by(self, name: &'static str) -> Self {
        Self { weights: Some(name), ..self }
    }

    /// The provenance with one more file.
    #[must_use]
    pub fn with(mut self, name: &'static str, hash: impl Into<String>) -> Self {
        self.others.push((name, hash.into()));
        self
    }
}

/// The model of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// The card's name, or the file's stem.
    pub name: String,
    /// The first digits of the weights' SHA-256.
    pub sha256: String,
}

impl Model {
    /// Checks that this is the model that a method was fitted on; `hint` is the remedy.
    ///
    /// # Errors
    /// [`setup::Error::Conflict`] for other weights.
    pub(crate) fn check_fitted(
        &self,
        method: &str,
        [name, sha256]: [&str; 2],
        hint: &str,
    ) -> setup::Result<()> {
        if self.sha256 == sha256 {
            return Ok(());
        }
        Err(setup::Error::Conflict(format!(
            "the method `{method}` works only with the model that it was fitted on, `{name}` (sha256 {sha256}), not with `{}` \
             (sha256 {}); hint: {hint}",
            self.name, self.sha256
        )))
    }
}

/// Segments that a judge must see together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grouping {
    Segment,
    /// All segments of one document of one system.
    Document,
    /// Five documents of one system, drawn by the run's seed.
    FiveDocuments,
    /// All translations of one source segment.
    Source,
}

/// Fields of a segment that a method reads besides its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    #[default]
    Translations,
    /// Only the source: the verdict is its difficulty; higher values of [`Verdict::raw`] are harder.
    SourcesOnly,
}

/// The unit of one verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    Segment,
    Group,
}

/// Direction of a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    Higher,
    Lower,
}

/// A judge's verdict on one unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Higher is better.
    pub score: f64,
    /// The method's own scale and sign.
    pub raw: f64,
    /// Direct assessment 0..=100 where the method asks for one; higher is better.
    pub quality_score: Option<f64>,
    /// Scores between which raters' scores of nine in ten such translations lie, lower first, where the
    /// method has them. Unit: that of the score.
    pub interval: Option<[f64; 2]>,
    pub errors: Vec<ErrorSpan>,
    /// Reason for caution about the score, in words without a full stop; `None` for most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

impl Verdict {
    /// A verdict with this score as raw score too, and these errors.
    pub fn new(score: f64, errors: Vec<ErrorSpan>) -> Self {
        Self { score, raw: score, quality_score: None, interval: None, errors, warning: None }
    }
}

/// A warning if the input has empty translations that this method cannot score; `None` if it has none.
fn on_empty(method: &str, segments: &[Segment]) -> Option<String> {
    segments.iter().any(|segment| segment.hypothesis.trim().is_empty()).then(|| {
        format!(
            "`{method}` gives an empty translation no verdict, and a mean is over verdicts: what a system leaves empty costs it \
             nothing"
        )
    })
}

/// A result with the [`Error`] of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a unit has no verdict.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Unparsable(String),
    #[error("the model declined: {0}")]
    Refused(String),
    #[error("the answer ended at its budget of {0} tokens")]
    Truncated(usize),
    /// [`llm::Error::ReasoningBudget`] or [`llm::Error::ReasoningOpen`].
    #[error("{0}")]
    Reasoning(String),
    /// [`llm::Error::NoSignal`].
    #[error("{0}")]
    NoSignal(String),
    #[error("{0}")]
    TooLong(String),
    /// There is no text to judge, and no model is called.
    #[error("{0}")]
    Empty(String),
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// The error of a segment that [`Segment::is_blank`].
    pub fn nothing_to_judge() -> Self {
        Self::Empty("source and hypothesis are both empty".into())
    }

    /// The error of a segment without the reference that is to be shown.
    pub fn no_reference() -> Self {
        Self::Failed("the segment has no reference translation to show".into())
    }

    /// True if the model's answer is at fault, so that another answer might be usable.
    pub fn is_of_the_answer(&self) -> bool {
        match self {
            Self::Unparsable(_)
            | Self::Refused(_)
            | Self::Truncated(_)
            | Self::Reasoning(_)
            | Self::NoSignal(_) => true,
            Self::TooLong(_) | Self::Empty(_) | Self::Failed(_) => false,
        }
    }
}

impl From<llm::Error> for Error {
    fn from(error: llm::Error) -> Self {
        match error {
            llm::Error::TooLong { .. } | llm::Error::TooManyBytes { .. } => Self::TooLong(error.to_string()),
            llm::Error::NoSignal => Self::NoSignal(error.to_string()),
            llm::Error::ReasoningBudget(_) | llm::Error::ReasoningOpen => Self::Reasoning(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}
