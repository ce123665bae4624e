//! PROBE: a score from a small model's hidden states. The model reads source and translation once and
//! generates nothing; linear maps that were fitted on human MQM ratings (`tribunal tune probe`) compute a
//! score from its states, and for each token the probability that a rater would mark it. The method is ours.
//!
//! Prior work:
//! - Thompson and Post, Automatic Machine Translation Evaluation in Many Languages via Zero-Shot Paraphrasing
//!   (2020): the probability of a translation as its score (Prism-src).
//! - Sindhujan et al., ALOPE (2025): regression on intermediate layers of small models beats the last layer.
//! - Alain and Bengio, Understanding Intermediate Layers Using Linear Classifier Probes (2016).
//!
//! Notes:
//! - The score is the penalty that raters would give, as the ridge regression expects it; `raw` is the same.
//!   It is not the sum of the errors, which are chosen so that their weights come near what raters mark in
//!   translations that rank where this one does ([`spans`]).
//! - Errors are runs of whole words and have no category (`other`) and no explanation, since no text is
//!   generated. Beside them stand those of rule-based checks ([`checks`]), which have both; they do not
//!   change the score.
//! - A fit holds for the model, the prompt and the layers that it was made with, and lists the texts that it
//!   was fitted on.

use serde::Serialize;

use super::{
    Error, Judge, Method, Model, Panel, Protocol, Provenance, Role, Stage, Verdict, in_parallel,
    method::{Calls, Output, SystemMeans},
    on_empty,
    prompt::{File, Prompts},
    scale::Scale,
    scope::Scope,
    setup::{self, Preset, Settings, options},
};
use crate::{
    llm::Chat,
    mqm::{self, ErrorSpan, weights::Weights},
    segment::Segment,
};

pub mod checks;
mod copies;
pub mod facts;
pub mod fit;
mod marks;
mod quantities;
pub mod spans;
pub mod words;

/// The pair by which a fit names its languages.
pub use super::scope::language_pair as pair;

use fit::{Fit, Readout};

const PROMPT: File = File { name: "probe/probe.j2", text: include_str!("probe/probe.j2") };

/// The question that it asks.
const READ: Stage = Stage::new("read");

/// Metadata shown by `tribunal methods show probe`.
pub const METHOD: Method = Method {
    name: "probe",
    summary: "a score and error words read off a model's hidden states by maps fitted on MQM ratings",
    citation: "ours; after Prism-src (Thompson and Post 2020) and ALOPE (Sindhujan et al. 2025)",
    papers: &["thompson-post-2020-automatic", "sindhujan-etal-2025-alope"],
    stages: &[READ],
    calls: Calls::exactly(1),
    answer_tokens: Some([0, 0]),
    scale: Scale::PREDICTED,
    blind_spots: Some(
        "a translation without a mark may still have errors: of planted ones it passes over most often clauses left out and \
         negations; its means are not for ranking systems: on WMT23 CometKiwi did that better",
    ),
    system_means: SystemMeans::DoNotRank,
    marks: Some(
        "the score is predicted apart from the marks and is not the sum of their penalties; in brackets: raters' scores of \
         nine in ten such translations; a mark's `confidence` is the share of raters who would mark its likeliest word",
    ),
    presets: &[Preset::Strict],
    weights: Some("wmt"),
    options: Options::CHOICES,
    common: &[],
    output: Output::States,
    ..Method::with(|settings, options| Ok(Probe::new(settings, &Options::read(options))?.into()))
};

options! {
    /// Options of PROBE.
    pub struct Options {
        "fit" fit: Option<String> = { "auto" => None, <file> Some },
            "what `tribunal tune probe` wrote, or a model that a fit comes with the program for; auto takes this model's";
        "witness" checks: bool = { "on" => true, "off" => false },
            "also mark Chinese characters left in the translation, and words repeated without end; no score depends on it";
    }
}

/// A configured PROBE judge.
pub struct Probe {
    prompts: Prompts,
    fit: Fit,
    weights: &'static Weights,
    has_checks: bool,
}

impl Protocol for Probe {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict, Error>> {
        in_parallel(group, |idx, segment| self.read(&panel.about(idx), segment))
    }

    fn notes(&self, segments: &[Segment]) -> Vec<String> {
        on_empty(METHOD.name, segments).into_iter().collect()
    }

    fn scope(&self) -> Option<Scope> {
        Some(self.fit.scope())
    }

    fn check_models(&self, model_of: &dyn Fn(Role) -> Model) -> Result<(), setup::Error> {
        self.fit.check_model(&model_of(Role::Annotator))
    }
}

impl From<Probe> for Judge {
    fn from(judge: Probe) -> Self {
        let provenance = Provenance::of(&judge.prompts).with("fit", judge.fit.hash());
        Self { trained_on: Some(judge.fit.trained_on()), ..Self::new(provenance, judge) }
    }
}

/// The prompt in front of a translation.
#[derive(Serialize)]
struct Query<'a> {
    source_lang: &'a str,
    target_lang: &'a str,
    source: &'a str,
}

impl Probe {
    /// Reads the settings, the prompt and the fit.
    ///
    /// # Errors
    /// The errors of [`super::registry::build`]; shots, which the method does not have; a fit that cannot be
    /// read or was made with another prompt.
    pub fn new(settings: &Settings, options: &Options) -> Result<Self, setup::Error> {
        if settings.shots.is_some() {
            return Err(setup::Error::NoShots);
        }
        let judge = Self::with(Fit::named(&options.fit.text, &settings.model)?, settings)?;
        Ok(Self { has_checks: *options.checks, ..judge })
    }

    /// The judge with a fit, and with rule-based checks.
    ///
    /// # Errors
    /// A fit that was made with another prompt, weights that are not known.
    pub fn with(fit: Fit, settings: &Settings) -> Result<Self, setup::Error> {
        let prompts = prompts(settings)?;
        fit.check_prompts(prompts.hash())?;
        let weights = mqm::weights::find(settings.weights.as_deref().unwrap_or("wmt"))?;
        Ok(Self { prompts, fit, weights, has_checks: true })
    }

    fn read(&self, panel: &Panel, segment: &Segment) -> Result<Verdict, Error> {
        if segment.is_blank() {
            return Err(Error::nothing_to_judge());
        }
        if segment.hypothesis.trim().is_empty() {
            return Err(Error::Empty("the translation is empty".into()));
        }
        let chat = chat(&self.prompts, segment)?;
        let read = panel.read(Role::Annotator, READ, &chat, &text(segment), self.fit.probe())?;
        let seen = Readout::new(&read, segment)?;
        let verdict = verdict(&self.fit, self.weights, segment, &seen);
        Ok(if self.has_checks { with_checks(verdict, segment, self.weights) } else { verdict })
    }
}

/// A verdict with the errors of rule-based checks, which replace overlapping errors of the maps. The score is
/// unchanged.
pub(super) fn with_checks(verdict: Verdict, segment: &Segment, weights: &Weights) -> Verdict {
    let mut errors = checks::errors(segment);
    weights.weigh(&mut errors);
    let overlap = |a: &ErrorSpan, b: &ErrorSpan| a.start < b.end && b.start < a.end;
    let unseen = verdict.errors.into_iter().filter(|marked| !errors.iter().any(|seen| overlap(marked, seen)));
    let mut all: Vec<ErrorSpan> = unseen.collect();
    all.extend(errors);
    all.sort_by_key(|error| error.start);
    Verdict { errors: all, ..verdict }
}

/// The verdict of a fit on the readout of a translation.
#[must_use]
pub fn verdict(fit: &Fit, weights: &Weights, segment: &Segment, seen: &Readout) -> Verdict {
    let pair = pair(segment);
    let score = fit.score(seen, &pair);
    let words = spans::words(&segment.hypothesis, &seen.ends, &fit.chances(seen));
    let budget = fit.budget(score, &segment.source, &pair);
    let mut errors = spans::errors(&words, &segment.hypothesis, budget, fit.major_from(&pair));
    weights.weigh(&mut errors);
    Verdict { interval: fit.interval(score, &pair), ..Verdict::new(score, errors) }
}

/// The prompt files in force.
///
/// # Errors
/// A prompt that cannot be read or filled in.
pub fn prompts(settings: &Settings) -> Result<Prompts, setup::Error> {
    let prompts = Prompts::load(&[PROMPT], settings)?;
    let query = Query { source_lang: "", target_lang: "", source: "a" };
    prompts.render(PROMPT, query).map_err(setup::Error::from_prompt)?;
    Ok(prompts)
}

/// The text before the translation. It has no chat template, and control tokens in it are plain text.
///
/// # Errors
/// A prompt that cannot be filled in.
pub fn chat(prompts: &Prompts, segment: &Segment) -> Result<Chat, Error> {
    let query = Query {
        source_lang: segment.src_lang.name(),
        target_lang: segment.tgt_lang.name(),
        source: &segment.source,
    };
    Ok(Chat::plain(prompts.render(PROMPT, query)?))
}

/// The translation in the model's input: it begins with a space, as any word after another.
#[must_use]
pub fn text(segment: &Segment) -> String {
    format!(" {}", segment.hypothesis)
}
