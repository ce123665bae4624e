//! GEMBA-ESA: first the error spans, major and minor only, then a score from 0 to 100 that has seen them.
//! Microsoft's submission to the metrics task of WMT 2024, after Kocmi and others, "Error Span Annotation: A
//! Balanced Approach for Human Evaluation of Machine Translation" (WMT 2024), and the baseline of WMT 2026's
//! evaluation task (`edition=wmt26`), Ammonsh/WMT26-QE-baselines at b7e2ee0e, `run_qe_local.py`. No paper
//! describes them, so there is no preset `paper`.
//!
//! Differs:
//! - Stage 1. Code: the answer is passed on unread. `code` does the same, and its verdict lists errors where
//!   lines can be read as such; `strict` allows only the layout of the examples, with spans copied from the
//!   text (see [`super::answers::blocks`]; only `Major:` can name a non-translation).
//! - Stage 2. Code: exactly one run of digits, or else the question is repeated at a higher temperature, up
//!   to 1. `code` does the same; `strict` allows whole numbers from 0 to 100 only.
//! - Budgets. Code: none in either stage. An answer that is cut all the same counts as no answer: stage 2
//!   then shows `None` as its spans, and a cut score is none. `code` does the same.
//! - Examples. GEMBA-MQM's three, with their critical errors as major ones; a block without errors says
//!   `no-error`.
//! - Beyond the code: `score=expected` (`strict`) takes the mean of the score's distribution, from the exact
//!   probabilities of 0 to 100 as the answer of stage 2; `raw` and `quality_score` stay the number that the
//!   model wrote.
//! - Score. That of stage 2; the weights (`gemba` by default) only mark the errors.
//! - Repeats. The score has none. `code` lists every naming of an error, `strict` as many of one span and
//!   type as the span has occurrences.
//! - A segment whose source and hypothesis are both empty has no model call and no verdict.
//! - WMT 2026, prompts. The baseline's are published without a licence: `code` reads them from the user's
//!   copy (`--prompts`). Those of `strict` are GEMBA-ESA's, without examples and with a layout for the
//!   answer, and with instructions by domain in our words.
//! - WMT 2026, reference. The baseline reads it and shows it to no model. `strict` shows it on request
//!   (`reference=on`), with how it was made.
//! - WMT 2026, answers. The baseline reads answers that are cut; takes from lines under a header what looks
//!   like `category - "span"`, and drops the rest; takes a JSON object's `score`, or else the last number
//!   from 0 to 100. `code` does the same; `strict` allows the same answers as for WMT 2024. The baseline
//!   drops a span that it does not find in the translation, even with single spaces, and marks the first
//!   occurrence of others (of single spaces, at offsets of the text that has them); spans are located here as
//!   for all methods.
//! - WMT 2026, thinking. The baseline samples at temperature 0.6 and top-p 0.95, with 8,192 tokens for
//!   thought and spans, and 64 for thought and score, which cuts the thought: its score is then a number out
//!   of the thought. Where the chat template opens the thought, the baseline takes it for a part of the
//!   annotation. `code` does the same; in `strict` both stages think within the budget, and the answer
//!   follows the thought.
//! - WMT 2026, empty translations. The baseline scores them 0, with an omission, without a call; so does
//!   `code`.

use serde_json::json;

use super::{
    Judge, Method, Panel, Protocol, Provenance, Question, Result, Role, Stage, Verdict,
    answers::{
        blocks,
        rating::{self, Rating},
    },
    confidence, expected,
    method::Calls,
    pair::Pair,
    panel::reasoning::Thought,
    prompt::{File, Prompts, file},
    scale::Scale,
    setup::{self, GivenOptions, Preset, Reference, Settings, SharedOptions, options},
    shots::{self, Shot},
};
use crate::{
    llm::{Chat, Reply, ResponseFormat},
    mqm::{self, ErrorSpan, Repeats, weights::Weights},
    segment::{Lang, Segment},
};

pub mod wmt26;

use wmt26::{Domain, Shown};

const SYSTEM: File = file!("gemba_esa/system.j2");
const SPANS: File = file!("gemba_esa/spans.j2");
const ANSWER: File = file!("gemba_esa/answer.j2");
const SCORE: File = file!("gemba_esa/score.j2");
const SHOTS: File = file!("gemba_esa/shots.jsonl");

/// Answer tokens of the spans and of the score in `strict`.
const SPANS_BUDGET: usize = 768;
const SCORE_BUDGET: usize = 64;

/// The stages of its calls.
pub const SCORE_STAGE: Stage = Stage::new("score");
pub const SPANS_STAGE: Stage = Stage::new("spans");
const EXPECT: Stage = Stage::new("expect");
const THINK: Stage = Stage::new("think");

/// Maximum number of errors in a block of stage 1 in `strict`: that of WMT's annotators.
const MAX_ERRORS: usize = 5;

/// Metadata shown by `tribunal methods show gemba-esa`.
pub const METHOD: Method = Method {
    name: "gemba-esa",
    summary: "error spans first, then a score of 0 to 100 that has seen them",
    citation: "GEMBA's published code (WMT 2024 metrics task); WMT 2026's baseline (edition=wmt26)",
    papers: &["gemba-code", "freitag-etal-2024-llms"],
    stages: &[SPANS_STAGE, SCORE_STAGE, EXPECT, THINK],
    calls: Calls { least: 1, typical: 2, most: 12 },
    answer_tokens: Some([21, 0]),
    scale: Scale::PERCENT,
    presets: &[Preset::Code, Preset::Strict],
    weights: Some("gemba"),
    options: Options::CHOICES,
    ..Method::with(|settings, options_given| {
        let options = Options::read(options_given);
        check_options(settings, &options, options_given)?;
        GembaEsa::new(settings, &options).map(built)
    })
};

/// Edition of the prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edition {
    Wmt24,
    Wmt26,
}

options! {
    /// Options of GEMBA-ESA.
    pub struct Options {
        "shots" has_shots: bool = { "3" => true, "0" => false }, "worked examples before the first question";
        "score" is_expected: bool = { "greedy" => false, "expected" => true },
            "the number that is written, or the mean of its distribution";
        "edition" edition: Edition = { "wmt24" => Edition::Wmt24, "wmt26" => Edition::Wmt26 },
            "the prompts: of WMT 2024's submission, or zero-shot with instructions by domain as in WMT 2026's baseline";
        "domain" domain: Domain = {
            "auto" => Domain::OfSegment,
            "off" => Domain::Hidden,
            "news" => Domain::Given("news"),
            "factchecking" => Domain::Given("factchecking"),
            "speech" => Domain::Given("speech"),
            "social" => Domain::Given("social"),
            "software" => Domain::Given("software"),
            "edu" => Domain::Given("edu"),
            "general" => Domain::Given("general")
        }, "wmt26: the domain whose instructions are shown; auto: each segment's own";
        "reference" reference: Reference = {
            "off" => Reference::Off, "on" => Reference::On, "auto" => Reference::Auto
        }, "wmt26: show the reference translation and how it was made; auto: when every segment has one";
        "thinking" thinking: Option<f64> = {
            "off" => None, "on" => Some(wmt26::THOUGHT.max_tokens as f64), <number> Some
        }, "wmt26: think before each answer, within so many tokens";
    }
}

impl Options {
    /// The thought before each answer; `None` without thinking.
    ///
    /// # Errors
    /// [`setup::Error::Conflict`] for a number that is not whole or below 1.
    pub fn thought(&self) -> setup::Result<Option<Thought>> {
        match *self.thinking {
            Some(n) if n.fract() != 0.0 || n < 1.0 => {
                let reason = "`thinking` is a whole number of tokens from 1, or `off`";
                Err(setup::Error::Conflict(reason.into()))
            }
            n => Ok(n.map(|n| Thought { max_tokens: n as usize, ..wmt26::THOUGHT })),
        }
    }
}

/// A configured GEMBA-ESA judge.
pub struct GembaEsa {
    questions: Questions,
    weights: &'static Weights,
    expected: bool,
    max_tokens: Option<usize>,
    thinking: Option<Thought>,
}

/// The questions of both stages.
pub struct Questions {
    prompts: Prompts,
    preset: Preset,
    shots: Vec<Shot>,
    /// Additional content of the prompts of WMT 2026; `None` for those of WMT 2024.
    shown: Option<Shown>,
}

impl Protocol for GembaEsa {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        panel.each_segment(group, |panel, segment| {
            let (answer, errors) = self.spans(panel, segment)?;
            let chat = self.thought(panel, SCORE_STAGE, self.questions.score(segment, &answer)?)?;
            let raw = self.score(panel, &chat)?;
            let mean = || expected::percent(panel, Role::Annotator, EXPECT, &chat, "");
            let score = if self.expected { mean()? } else { raw };
            let (source, target) = (&segment.source, &segment.hypothesis);
            let (errors, _) = mqm::assess(errors, source, target, Repeats::Merged, self.weights);
            Ok(Verdict { raw, quality_score: Some(raw), ..Verdict::new(score, errors) })
        })
    }

    fn notes(&self, segments: &[Segment]) -> Vec<String> {
        self.questions.shown.as_ref().map_or_else(Vec::new, |shown| shown.domain.notes(segments))
    }
}

fn built(judge: GembaEsa) -> Judge {
    let thoughts = if judge.thinking.is_some() { 2 } else { 0 };
    let calls = Calls::up_to(if judge.expected { 3 } else { 2 } + thoughts);
    let sampled_at = judge.thinking.map(|thought| [thought.temperature, thought.top_p]);
    Judge { calls: Some(calls), sampled_at, ..Judge::new(judge.questions.provenance(), judge) }
}

/// Rejects options that an edition does not have.
///
/// # Errors
/// [`setup::Error::Conflict`].
pub fn check_options(
    settings: &Settings,
    options: &Options,
    options_given: &GivenOptions,
) -> setup::Result<()> {
    let conflict = |reason: String| Err(setup::Error::Conflict(reason));
    let reasoning = SharedOptions::read(options_given).effort;
    if options.thinking.is_some() && reasoning.is_some() {
        return conflict("`thinking` and `reasoning` both ask for reasoning; hint: leave one out".into());
    }
    if *options.edition == Edition::Wmt26 {
        let has_shots = options.has_shots.is_given && *options.has_shots || settings.shots.is_some();
        return if has_shots {
            conflict("the prompts of WMT 2026 have no examples; hint: leave `shots` out".into())
        } else {
            Ok(())
        };
    }
    let options_given = [
        ("domain", options.domain.is_given),
        ("reference", *options.reference != Reference::Off),
        ("thinking", options.thinking.is_some()),
    ];
    match options_given.into_iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => {
            conflict(format!("`{name}` belongs to the prompts of WMT 2026; hint: add `edition=wmt26`"))
        }
        None => Ok(()),
    }
}

impl GembaEsa {
    /// Reads the settings, the prompts and the shots.
    ///
    /// # Errors
    /// The errors of [`super::registry::build`].
    pub fn new(settings: &Settings, options: &Options) -> setup::Result<Self> {
        Ok(Self {
            questions: Questions::new(settings, options)?,
            weights: mqm::weights::find(settings.weights.as_deref().unwrap_or("gemba"))?,
            expected: *options.is_expected,
            max_tokens: settings.max_tokens,
            thinking: options.thought()?,
        })
    }

    /// Stage 1: the unchanged answer and the errors in it.
    fn spans(&self, panel: &Panel, segment: &Segment) -> Result<(String, Vec<ErrorSpan>)> {
        let chat = self.thought(panel, SPANS_STAGE, self.questions.spans(segment)?)?;
        let budget = self.max_tokens.unwrap_or(SPANS_BUDGET);
        let form = blocks::form(blocks::ESA, MAX_ERRORS, &segment.source, &segment.hypothesis);
        let reply = self.ask(panel, SPANS_STAGE, panel.question(&chat, &form, budget))?;
        let answer = reply.text.trim();
        let mut errors = blocks::read(blocks::ESA, answer, &segment.source, &segment.hypothesis)?;
        confidence::note(&reply, "span", &mut errors);
        Ok((answer.to_owned(), errors))
    }

    /// Stage 2: a score that has seen the annotation.
    fn score(&self, panel: &Panel, chat: &Chat) -> Result<f64> {
        let budget = self.max_tokens.unwrap_or(SCORE_BUDGET);
        let form = ResponseFormat::Regex(rating::PERCENT.into());
        Rating::Number.read(&self.ask(panel, SCORE_STAGE, panel.question(chat, &form, budget))?.text)
    }

    /// The question with the thought before its answer; unchanged without thinking.
    fn thought(&self, panel: &Panel, stage: Stage, chat: Chat) -> Result<Chat> {
        let Some(thought) = self.thinking else { return Ok(chat) };
        Ok(panel.after_thought(Role::Annotator, THINK.about(stage.name()), &chat, thought)?)
    }

    fn ask(&self, panel: &Panel, stage: Stage, mut question: Question) -> Result<Reply> {
        if let Some(thought) = self.thinking {
            question.sampling = thought.sampling(&question.sampling);
        }
        panel.answer(Role::Annotator, stage, &question)
    }
}

impl Questions {
    /// Reads the prompts and the shots.
    ///
    /// # Errors
    /// Prompts or shots that cannot be used.
    pub fn new(settings: &Settings, options: &Options) -> setup::Result<Self> {
        let shown = (*options.edition == Edition::Wmt26)
            .then(|| Shown { domain: *options.domain, reference: options.reference.is_shown(settings) });
        let has_shots = shown.is_none() && settings.has_shots(*options.has_shots)?;
        let shots_file = has_shots.then_some(SHOTS);
        let mut files =
            if shown.is_some() { wmt26::FILES.to_vec() } else { vec![SYSTEM, SPANS, ANSWER, SCORE] };
        files.extend(shots_file);
        let prompts = Prompts::load(&files, settings)?;
        let shots = shots::load(&prompts, shots_file, settings)?;
        let questions = Self { prompts, preset: settings.preset, shots, shown };
        let sample = sample();
        questions.spans(&sample).map_err(setup::Error::from_prompt)?;
        questions.score(&sample, "").map_err(setup::Error::from_prompt)?;
        Ok(questions)
    }

    /// The prompts in force.
    pub fn provenance(&self) -> Provenance {
        let provenance = Provenance::of(&self.prompts);
        if self.shown.is_some() { provenance.with("shots", "0") } else { provenance }
    }

    /// The question for the error spans of a segment.
    ///
    /// # Errors
    /// A template that cannot be filled in, and a reference that is missing.
    pub fn spans(&self, segment: &Segment) -> Result<Chat> {
        if let Some(shown) = &self.shown {
            return shown.spans(&self.prompts, segment);
        }
        let mut chat = Chat::new().system(self.prompts.render(SYSTEM, ())?);
        for shot in &self.shots {
            let answer = self.prompts.render(ANSWER, shot)?;
            let answer = if self.preset == Preset::Code { &answer } else { answer.trim_end() };
            chat = chat.user(self.prompts.render(SPANS, Pair::from_shot(shot))?).assistant(answer);
        }
        Ok(chat.user(self.prompts.render(SPANS, Pair::of(segment).shown(self.preset))?))
    }

    /// The question for the score, with the answer of stage 1.
    ///
    /// # Errors
    /// Those of [`Questions::spans`].
    pub fn score(&self, segment: &Segment, spans: &str) -> Result<Chat> {
        if let Some(shown) = &self.shown {
            return shown.score(&self.prompts, segment, spans);
        }
        let mut query = Pair::of(segment).shown(self.preset);
        query["spans"] = json!(spans);
        Ok(Chat::new().user(self.prompts.render(SCORE, query)?))
    }
}

/// A segment for a test rendering of the prompts.
fn sample() -> Segment {
    let lang = |code| Lang::parse(code).expect("the code is a constant that is known");
    Segment { reference: Some("c".into()), ..Segment::new((lang("en"), lang("de")), "a", "b") }
}
