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

use serde_json::json;

use super::{
    Error, Judge, Method, Model, Panel, Protocol, Provenance, Result, Role, Stage, Verdict,
    method::{Calls, Output, SystemMeans},
    on_empty,
    prompt::{File, Prompts, file},
    scale::Scale,
    scope::Scope,
    setup::{self, Preset, Settings, options},
};
use crate::{
    llm::Chat,
    mqm::{self, ErrorSpan, weights::Weights},
    segment::{Lang, Segment},
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

const PROMPT: File = file!("probe/probe.j2");

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
        "the score is predicted apart from the marks and is not the sum of their penalties; `90%`: raters' scores of nine in \
         ten such translations; a mark's `confidence` is the share of raters who would mark its likeliest word",
    ),
    presets: &[Preset::Strict],
    weights: Some("wmt"),
    options: Options::CHOICES,
    common: &[],
    output: Output::States,
    ..Method::with(|settings, options| Probe::new(settings, &Options::read(options)).map(built))
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
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        panel.each_segment(group, |panel, segment| self.read(panel, segment))
    }

    fn notes(&self, segments: &[Segment]) -> Vec<String> {
        on_empty(METHOD.name, segments).into_iter().collect()
    }

    fn scope(&self) -> Option<Scope> {
        Some(self.fit.scope())
    }

    fn check_models(&self, model_of: &dyn Fn(Role) -> Model) -> setup::Result<()> {
        self.fit.check_model(&model_of(Role::Annotator))
    }
}

fn built(judge: Probe) -> Judge {
    let provenance = Provenance::of(&judge.prompts).with("fit", judge.fit.hash());
    Judge { trained_on: Some(judge.fit.trained_on()), ..Judge::new(provenance, judge) }
}

impl Probe {
    /// Reads the settings, the prompt and the fit.
    ///
    /// # Errors
    /// The errors of [`super::registry::build`]; shots, which the method does not have; a fit that cannot be
    /// read or was made with another prompt.
    pub fn new(settings: &Settings, options: &Options) -> setup::Result<Self> {
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
    pub fn with(fit: Fit, settings: &Settings) -> setup::Result<Self> {
        let prompts = prompts(settings)?;
        fit.check_prompts(prompts.hash())?;
        let weights = mqm::weights::find(settings.weights.as_deref().unwrap_or("wmt"))?;
        Ok(Self { prompts, fit, weights, has_checks: true })
    }

    fn read(&self, panel: &Panel, segment: &Segment) -> Result<Verdict> {
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
pub fn prompts(settings: &Settings) -> setup::Result<Prompts> {
    let prompts = Prompts::load(&[PROMPT], settings)?;
    let query = json!({ "source_lang": "", "target_lang": "", "source": "a" });
    prompts.render(PROMPT, query).map_err(setup::Error::from_prompt)?;
    Ok(prompts)
}

/// The text before the translation. It has no chat template, and control tokens in it are plain text.
///
/// # Errors
/// A prompt that cannot be filled in.
pub fn chat(prompts: &Prompts, segment: &Segment) -> Result<Chat> {
    let languages = [&segment.src_lang, &segment.tgt_lang].map(Lang::name);
    let query = json!({ "source_lang": languages[0], "target_lang": languages[1], "source": segment.source });
    Ok(Chat::plain(prompts.render(PROMPT, query)?))
}

/// The translation in the model's input: it begins with a space, as any word after another.
pub fn text(segment: &Segment) -> String {
    format!(" {}", segment.hypothesis)
}
