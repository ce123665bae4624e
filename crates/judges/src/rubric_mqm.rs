//! RUBRIC-MQM: error spans with a severity on a scale that a rubric describes. Kim, "RUBRIC-MQM: Span-Level
//! LLM-as-judge in Machine Translation For High-End Models". Its ten scenarios (Table 2) are GEMBA-MQM with
//! one or two slots filled: Tables 10 to 13 (prompts), 14 (definitions), 15 (extended examples), 16
//! (rubrics), 17 (sentences about a scale), 8 (thresholds). `tribunal promptcue run` asks the same prompts
//! about marked spans (Table 1). On a scale nothing is weighed: the points are the penalty.
//!
//! Differs (code: trotacodigos/Rubric-MQM at 6221019d, `rubric_mqm/` and `rmqm_parser/`):
//! - Prompts. The published code has other words than the paper's tables: another system message,
//!   instruction, rubrics, definitions and sentences about a scale, a blank line between the parts, and a
//!   request for a Python dictionary, which its examples do not follow and its parser cannot read. `code`
//!   sends its messages byte for byte; `paper` and `strict` have the tables' words. There the system message,
//!   which the tables leave out, is GEMBA-MQM's, a parenthesis of Table 10 and the end of Table 12's first
//!   sentence are restored.
//! - Layout. The tables end in `[ICL Examples]`, the examples, and `[Assistant's Answer]`, without the layout
//!   of an example. All presets show the examples as turns before the question, without these headings, as
//!   the published code and GEMBA-MQM do.
//! - The rubric of 100 points. Table 16 ends at 90 with the words of 100; both of the author's files
//!   (`deeprubric.py`, `data/v1/prompts/DR100.txt`) have 90 and 100. `paper` has what is printed, `strict`
//!   the two lines of `DR100.txt`, `code` those of `deeprubric.py`.
//! - Examples. The tables print those of `deepshot` and `deepcatshot` only. In `paper` and `strict` the
//!   others, and the points on each scale, are those of the code without top categories (Appendix E.1).
//!   `code` has the code's own: with top categories where there are no points, for `deepcat` with the
//!   question of `gemba`, and in the extended ones two entries run into one line. `<v>` tags are shown for
//!   PromptCUE only; the code takes them out of the user's texts too, and so does `code`, whose spans are
//!   then those of the text as it was given.
//! - Reference (`reference=on`). The paper's prompts have none; the code has `--with-ref`, off by default,
//!   which the scenarios with a scale drop, but for `deeprubric-100`. `strict` has the code's words for it in
//!   all.
//! - Answer. Shown: lines `"span" - category - 73`, or blocks of severity. `code` reads them as the code
//!   does: what it cannot read is perfect. `paper` reads with [`lines`], or as [`super::gemba_mqm`]
//!   does; an answer without entries is missing. `strict` is JSON with the categories of the prompt,
//!   omissions and source issues as spans of the source and others of the translation, at most 10 errors.
//! - Segment score. Paper: sum or mean of the points, unsettled (Section 7). Ours: `score=sum|mean`, negated;
//!   a scenario without points has the weights `rubric-mqm` by default. Code: the sum over -100; without
//!   points the penalty over 100, lower is better. No points make 0. The code gives 0 to every text that
//!   comes without a gold span; ours scores it.
//! - Repeats. Neither paper nor code merges errors, and `paper` and `code` charge every naming. `strict`
//!   charges as many namings of one span and category as the span has occurrences, each at its own, with the
//!   most points.
//! - Sampling. The code keeps temperature 0 and 1024 tokens beside its request and does not send them, so
//!   that the service's defaults held. Paper: temperature 0, increased only if there is no response. Ours:
//!   the run's sampling, 1024 tokens; there are no retries.
//! - Severities on a scale are major or minor by Table 8's thresholds; an error's weight is its points.
//! - System report by category (Figure 6): the summary has the points of each category.
//! - PromptCUE in `strict`: the form has the category `no-error` too and at least one entry, every category
//!   may have a span of either text, so that the marked side does not give the answer away, and the answer is
//!   written as lines of the printed layout for `promptcue score`. In `code`, as there, the examples have the
//!   marks but not the sentence about them.
//! - A segment whose source and hypothesis are both empty has no model call and no verdict.

use super::{
    Error, Judge, Method, Panel, Protocol, Provenance, Result, Role, Stage, Verdict,
    answers::blocks::printed,
    confidence,
    method::Calls,
    reading,
    scale::{Scale, ScaleOf, Unit},
    setup::{self, Preset, Reference, Settings, options},
};
use crate::{
    llm::Reply,
    mqm::{self, ErrorSpan, weights::Weights},
    segment::Segment,
};

pub mod scenario;

pub mod files;

pub mod questions;

mod entries;

pub mod lines;

pub use scenario::Scenario;

use entries::{EntryFormat, JsonEntry, Level};
use questions::Questions;

/// Answer tokens of one question; the published code's.
pub const BUDGET: usize = 1024;

/// The stages of its calls.
pub const ANNOTATE: Stage = Stage::new("annotate");

/// Metadata shown by `tribunal methods show rubric-mqm`.
pub const METHOD: Method = Method {
    name: "rubric-mqm",
    summary: "error spans with a severity of 1 to 4, 8 or 100, described by a rubric",
    citation: "Kim, RUBRIC-MQM, Tables 2, 8 and 10 to 17",
    papers: &["kim-2025-rubric"],
    stages: &[ANNOTATE],
    calls: Calls::exactly(1),
    answer_tokens: Some([34, 0]),
    scale: Scale::points(100.0),
    scales: SCALES,
    weights: Some("rubric-mqm"),
    options: Options::CHOICES,
    ..Method::with(|settings, options| RubricMqm::new(settings, &Options::read(options)).map(built))
};

/// Scenarios with points, by the most that an error has.
const OF_100: (&str, &[&str]) = ("scenario", &["deeprubric-100", "deepq-100"]);
const OF_8: (&str, &[&str]) = ("scenario", &["deeprubric-8", "deepq-8"]);
const OF_4: (&str, &[&str]) = ("scenario", &["deeprubric-4", "deepq-4"]);
const MEAN: (&str, &[&str]) = ("score", &["mean"]);
const CODE: (&str, &[&str]) = ("preset", &["code"]);

const SCALES: &[ScaleOf] = &[
    (&[CODE, OF_100], Scale { unit: Unit::Points(100.0), ..Scale::points(1.0) }),
    (&[CODE, OF_8], Scale { unit: Unit::Points(100.0), ..Scale::points(0.08) }),
    (&[CODE, OF_4], Scale { unit: Unit::Points(100.0), ..Scale::points(0.04) }),
    (&[CODE], Scale { unit: Unit::Penalty(100.0), ..Scale::PENALTY }.negated()),
    (&[MEAN, OF_100], Scale::mean_points(100.0)),
    (&[MEAN, OF_8], Scale::mean_points(8.0)),
    (&[MEAN, OF_4], Scale::mean_points(4.0)),
    (&[OF_100], Scale::points(100.0)),
    (&[OF_8], Scale::points(8.0)),
    (&[OF_4], Scale::points(4.0)),
    (&[], Scale::PENALTY),
];

options! {
    /// Options of RUBRIC-MQM.
    pub struct Options {
        "scenario" scenario: Scenario = {
            "deeprubric-100" => Scenario::DeepRubric(scenario::Scale::Hundred),
            "deeprubric-8" => Scenario::DeepRubric(scenario::Scale::Eight),
            "deeprubric-4" => Scenario::DeepRubric(scenario::Scale::Four),
            "deepq-100" => Scenario::DeepQ(scenario::Scale::Hundred),
            "deepq-8" => Scenario::DeepQ(scenario::Scale::Eight),
            "deepq-4" => Scenario::DeepQ(scenario::Scale::Four),
            "deepcatshot" => Scenario::DeepCatShot,
            "deepshot" => Scenario::DeepShot,
            "deepcat" => Scenario::DeepCat,
            "gemba" => Scenario::Gemba
        }, "what the prompt adds to GEMBA-MQM";
        "score" is_mean: bool = { "sum" => false, "mean" => true }, "how the errors' points make the score";
        "shots" has_shots: bool = { "3" => true, "0" => false }, "worked examples before the question";
        // The paper and the code show none by default.
        "reference" reference: Reference = {
            "off" => Reference::Off, "on" => Reference::On, "auto" => Reference::Auto
        }, Reference::MEANING;
    }
}

/// A configured RUBRIC-MQM judge.
pub struct RubricMqm {
    questions: Questions,
    scenario: Scenario,
    preset: Preset,
    is_mean: bool,
    weights: &'static Weights,
    budget: usize,
}

/// The texts of one question, the reference where it is shown, with `<v>` and `</v>` around spans in a
/// [`Cue::Marked`] one.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a> {
    pub source_lang: &'a str,
    pub source: &'a str,
    pub target_lang: &'a str,
    pub target: &'a str,
    pub reference: Option<&'a str>,
}

/// Task: find the spans, or classify marked ones (PromptCUE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cue {
    Unmarked,
    Marked,
}

impl Protocol for RubricMqm {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        panel.each_segment(group, |panel, segment| self.judge_segment(panel, segment))
    }
}

fn built(judge: RubricMqm) -> Judge {
    Judge::new(judge.provenance(), judge)
}

impl RubricMqm {
    /// Reads the settings, the prompts and the shots.
    ///
    /// # Errors
    /// The errors of [`super::registry::build`], and options that do not go together.
    pub fn new(settings: &Settings, options: &Options) -> setup::Result<Self> {
        let (scenario, is_mean) = (*options.scenario, *options.is_mean);
        check_weights(settings, scenario)?;
        Ok(Self {
            questions: Questions::load(settings, options)?,
            scenario,
            preset: settings.preset,
            is_mean,
            weights: mqm::weights::find(settings.weights.as_deref().unwrap_or("rubric-mqm"))?,
            budget: settings.max_tokens.unwrap_or(BUDGET),
        })
    }

    /// Its inputs, for the signature.
    pub fn provenance(&self) -> Provenance {
        Provenance::of(&self.questions.templates.prompts)
    }

    /// Its scenario.
    pub fn scenario(&self) -> Scenario {
        self.scenario
    }

    fn judge_segment(&self, panel: &Panel, segment: &Segment) -> Result<Verdict> {
        let texts = Texts::of(segment, self.questions.shows_reference)?;
        let reply = self.ask(panel, &texts, Cue::Unmarked)?;
        let answer = &reply.text;
        let (source, target) = (&segment.source, &segment.hypothesis);
        let mut errors = self.read(answer)?;
        confidence::note(&reply, "span", &mut errors);
        errors = self.preset.repeats().settled(errors, source, target);
        if self.scenario.scale().is_none() {
            self.weights.weigh(&mut errors);
        }
        let score = self.score(&errors);
        Ok(Verdict::new(score, errors))
    }

    /// One question about these texts and its answer.
    fn ask(&self, panel: &Panel, texts: &Texts, cue: Cue) -> Result<Reply> {
        let chat = self.questions.chat(texts, cue)?;
        let form = self.questions.form(texts, cue)?;
        panel.answer(Role::Annotator, ANNOTATE, &panel.question(&chat, &form, self.budget))
    }

    /// PromptCUE: classifies the marked spans of two texts. The answer is returned as lines of the printed
    /// layout, in any preset.
    ///
    /// # Errors
    /// Those of [`Judge::judge`]: an answer that is cut or, in `strict`, not the requested JSON.
    pub fn classify(&self, panel: &Panel, texts: &Texts) -> Result<String> {
        let reply = self.ask(panel, texts, Cue::Marked)?;
        let answer = &reply.text;
        if self.preset == Preset::Strict {
            let layout =
                if self.scenario.scale().is_some() { EntryFormat::Points } else { EntryFormat::Blocks };
            Ok(entries::printed(&entries::read(answer)?, layout))
        } else {
            Ok(answer.to_owned())
        }
    }

    /// The errors of an answer; on a scale their weights are their points.
    fn read(&self, answer: &str) -> Result<Vec<ErrorSpan>> {
        match (self.preset, self.scenario.scale()) {
            (Preset::Paper | Preset::Code, None) => printed::read_any(answer),
            (Preset::Paper | Preset::Code, Some(scale)) => {
                let entries = lines::read(answer, scale.max())?;
                Ok(entries.iter().map(|e| self.scaled(e.category, e.span, e.points)).collect())
            }
            (Preset::Strict, _) => {
                let entries = entries::read(answer)?;
                entries.iter().map(|entry| self.named(entry, answer)).collect()
            }
        }
    }

    fn scaled(&self, category: &str, span: &str, points: u32) -> ErrorSpan {
        let severity = self.scenario.severity(points);
        ErrorSpan { weight: f64::from(points), ..ErrorSpan::new(category, span, severity) }
    }

    fn named(&self, entry: &JsonEntry, answer: &str) -> Result<ErrorSpan> {
        match (&entry.severity, self.scenario.scale()) {
            (Level::Points(points), Some(scale)) if (1..=scale.max()).contains(points) => {
                Ok(self.scaled(&entry.category, &entry.span, *points))
            }
            (Level::Severity(severity), None) => Ok(ErrorSpan::new(&entry.category, &entry.span, *severity)),
            _ => Err(reading::unusable(answer, "a severity that was not asked for")),
        }
    }

    /// The score of weighed errors. Unit: at most 0, higher is better.
    fn score(&self, errors: &[ErrorSpan]) -> f64 {
        let sum: f64 = errors.iter().map(|e| e.weight).sum();
        match (self.is_mean, self.scenario.scale()) {
            _ if errors.is_empty() => 0.0,
            (true, _) => 0.0 - sum / errors.len() as f64,
            (false, Some(_)) => 0.0 - sum,
            (false, None) => self.weights.score(errors),
        }
    }
}

impl<'a> Texts<'a> {
    /// Texts for a test rendering of a prompt.
    pub fn sample(shows_reference: bool) -> Self {
        let reference = shows_reference.then_some("c");
        Self { source_lang: "", source: "a", target_lang: "", target: "b", reference }
    }

    /// The texts of a segment.
    ///
    /// # Errors
    /// [`Error::Failed`] for a reference that is to be shown and missing.
    pub fn of(segment: &'a Segment, shows_reference: bool) -> Result<Self> {
        let reference = segment.reference.as_deref().filter(|_| shows_reference);
        if shows_reference && reference.is_none() {
            return Err(Error::no_reference());
        }
        Ok(Self {
            source_lang: segment.src_lang.name(),
            source: &segment.source,
            target_lang: segment.tgt_lang.name(),
            target: &segment.hypothesis,
            reference,
        })
    }
}

/// A text without the marks of PromptCUE.
pub fn unmarked(text: &str) -> String {
    text.replace("<v>", "").replace("</v>", "")
}

/// Rejects weights where errors have points.
fn check_weights(settings: &Settings, scenario: Scenario) -> setup::Result<()> {
    if settings.weights.is_some() && scenario.scale().is_some() {
        let reason = "rubric-mqm weighs errors only in scenarios without points, and not in preset `code`; hint: leave the weights out";
        return Err(setup::Error::Conflict(reason.into()));
    }
    Ok(())
}
