//! GEMBA-ESA: first the error spans, major and minor only, then a score from 0 to 100 that has seen them. Microsoft's
//! submission to the metrics task of WMT 2024, after Kocmi and others, "Error Span Annotation: A Balanced Approach
//! for Human Evaluation of Machine Translation" (WMT 2024). No paper describes it, so there is no preset `paper`.
//!
//! Differs:
//! - Stage 1. Code: the answer is passed on unread. `code` does the same, and its verdict lists errors where lines can
//!   be read as such; `strict` allows only the layout of the examples, with spans copied from the text (see
//!   [`super::gemba_mqm::blocks`]; only `Major:` can name a non-translation).
//! - Stage 2. Code: exactly one run of digits, or else the question is asked again, hotter, up to temperature 1.
//!   `code` does the same; `strict` allows whole numbers from 0 to 100 only.
//! - Budgets. Code: none in either stage. An answer that is cut all the same counts as no answer: stage 2 then shows
//!   `None` as its spans, and a cut score is none. `code` does the same; see [`super::code::gemba_api`].
//! - Examples. GEMBA-MQM's three, with their critical errors as major ones; a block without errors says `no-error`.
//! - Beyond the code: `score=expected` (`strict`) takes the mean of the score's distribution, from the exact
//!   probabilities of 0 to 100 as the answer of stage 2; `raw` and `quality_score` stay the number that the model wrote.
//! - Score. That of stage 2; the weights (`gemba` by default) only mark the errors.
//! - Repeats. The score knows none. `code` lists every naming of an error, `strict` as many of one span and type as the
//!   span has occurrences.
//! - A segment whose source and hypothesis are both empty is not asked about and has no verdict.

use serde::Serialize;

use super::{
    Error, Judge, Method, Panel, Protocol, Provenance, Role, Stage, Verdict,
    code::gemba_api::{self, TokenBudget},
    confidence, expected,
    gemba_da::read_number,
    gemba_mqm::{blocks, code},
    in_parallel,
    method::{Calls, Lowest},
    pair::{Pair, PromptPair},
    prompt::{File, Prompts},
    reading,
    setup::{self, Preset, Settings, options},
    shots::{self, Shot},
};
use crate::{
    llm::{Chat, ResponseFormat, Sampling},
    mqm::{self, ErrorSpan, weights::Weights},
    segment::Segment,
};

const SYSTEM: File = File { name: "gemba_esa/system.j2", text: include_str!("gemba_esa/system.j2") };
const SPANS: File = File { name: "gemba_esa/spans.j2", text: include_str!("gemba_esa/spans.j2") };
const ANSWER: File = File { name: "gemba_esa/answer.j2", text: include_str!("gemba_esa/answer.j2") };
const SCORE: File = File { name: "gemba_esa/score.j2", text: include_str!("gemba_esa/score.j2") };
const SHOTS: File = File { name: "gemba_esa/shots.jsonl", text: include_str!("gemba_esa/shots.jsonl") };

/// Answer tokens of the spans and of the score in `strict`.
const SPANS_BUDGET: usize = 768;
const SCORE_BUDGET: usize = 64;

/// The questions that it asks.
const SCORE_STAGE: Stage = Stage::new("score");
const SPANS_STAGE: Stage = Stage::new("spans");
const EXPECT: Stage = Stage::new("expect");

/// The most errors that `strict` lets a block of stage 1 name: as many as WMT's annotators mark.
const MAX_ERRORS: usize = 5;

/// What `tribunal methods show gemba-esa` says.
pub const METHOD: Method = Method {
    name: "gemba-esa",
    summary: "error spans first, then a score of 0 to 100 that has seen them",
    citation: "GEMBA's published code, as submitted to the WMT 2024 metrics task",
    stages: &[SPANS_STAGE, SCORE_STAGE, EXPECT],
    calls: Calls { least: 1, typical: 2, most: 12 },
    scale: "0 to 100, higher is better",
    lowest: Lowest::Quality,
    presets: &[Preset::Code, Preset::Strict],
    weights: Some("gemba"),
    options: Options::CHOICES,
    ..Method::with(|settings, options| Ok(GembaEsa::new(settings, &Options::read(options))?.into()))
};

options! {
    /// What it can be told.
    pub struct Options {
        "shots" has_shots: bool = { "3" => true, "0" => false }, "worked examples before the first question";
        "score" is_expected: bool = { "greedy" => false, "expected" => true },
            "the number that is written, or the mean of its distribution";
    }
}

/// GEMBA-ESA as it was asked for.
pub struct GembaEsa {
    prompts: Prompts,
    preset: Preset,
    shots: Vec<Shot>,
    weights: &'static Weights,
    expected: bool,
    max_tokens: Option<usize>,
}

impl Protocol for GembaEsa {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict, Error>> {
        in_parallel(group, |idx, segment| {
            if segment.is_blank() {
                return Err(Error::nothing_to_judge());
            }
            let panel = panel.about(idx);
            let (answer, errors) = self.spans(&panel, segment)?;
            let raw = self.score(&panel, segment, &answer)?;
            let score = if self.expected { self.expect(&panel, segment, &answer)? } else { raw };
            let (source, target) = (&segment.source, &segment.hypothesis);
            let (errors, _) = mqm::assess(errors, source, target, self.preset.repeats(), self.weights);
            Ok(Verdict { raw, quality_score: Some(raw), ..Verdict::new(score, errors) })
        })
    }
}

impl From<GembaEsa> for Judge {
    fn from(judge: GembaEsa) -> Self {
        let calls = match judge.preset {
            // Errors in any words will do; a score must be a number.
            Preset::Code => {
                let room = TokenBudget::free(judge.max_tokens);
                let most = 2 * room.most_calls() + usize::from(gemba_api::HOTTER);
                Calls { most, ..Calls::exactly(2) }
            }
            Preset::Paper | Preset::Strict => Calls::up_to(if judge.expected { 3 } else { 2 }),
        };
        Self { calls: Some(calls), ..Self::new(Provenance::of(&judge.prompts), judge) }
    }
}

impl GembaEsa {
    /// Reads the settings, the prompts and the shots.
    ///
    /// # Errors
    /// What [`super::registry::build`] names.
    pub fn new(settings: &Settings, options: &Options) -> Result<Self, setup::Error> {
        let expected = *options.is_expected;
        if expected && settings.preset == Preset::Code {
            let reason = "preset `code` has its own score; hint: leave `score` out, or use preset `strict`";
            return Err(setup::Error::Conflict(reason.into()));
        }
        let shots_file = settings.has_shots(*options.has_shots)?.then_some(SHOTS);
        let mut files = vec![SYSTEM, SPANS, ANSWER, SCORE];
        files.extend(shots_file);
        let prompts = Prompts::load(&files, settings)?;
        let judge = Self {
            shots: shots::load(&prompts, shots_file, settings)?,
            prompts,
            preset: settings.preset,
            weights: mqm::weights::find(settings.weights.as_deref().unwrap_or("gemba"))?,
            expected,
            max_tokens: settings.max_tokens,
        };
        let sample = Pair::sample();
        judge.spans_chat(&sample).map_err(setup::Error::from_prompt)?;
        judge.score_chat(&sample, "").map_err(setup::Error::from_prompt)?;
        Ok(judge)
    }

    /// Stage 1: the answer as it is and the errors in it.
    fn spans(&self, panel: &Panel, segment: &Segment) -> Result<(String, Vec<ErrorSpan>), Error> {
        let chat = self.spans_chat(&Pair::of(segment))?;
        if self.preset == Preset::Code {
            return self.spans_as_code(panel, &chat);
        }
        let budget = self.max_tokens.unwrap_or(SPANS_BUDGET);
        let sampling = Sampling { max_tokens: budget, ..panel.sampling.clone() };
        let form = blocks::form(blocks::ESA, MAX_ERRORS, &segment.source, &segment.hypothesis);
        let reply = panel.ask_with(Role::Annotator, SPANS_STAGE, &chat, &form, &sampling)?;
        let answer = reading::whole(&reply, budget)?.trim();
        let mut errors = blocks::read(blocks::ESA, answer, &segment.source, &segment.hypothesis)?;
        confidence::note(&reply, "span", &mut errors);
        Ok((answer.to_owned(), errors))
    }

    /// Any answer will do, even one that is not there.
    fn spans_as_code(&self, panel: &Panel, chat: &Chat) -> Result<(String, Vec<ErrorSpan>), Error> {
        let answer =
            gemba_api::ask(panel, SPANS_STAGE, chat, TokenBudget::free(self.max_tokens), |answer, reply| {
                let mut errors = code::read(answer).errors();
                confidence::note(reply, "span", &mut errors);
                Some((answer.to_owned(), errors))
            });
        match answer {
            // What Python's `format` writes for an answer that is not there.
            Err(Error::Truncated(_)) => Ok(("None".into(), Vec::new())),
            answer => answer,
        }
    }

    /// Stage 2: a score that has seen the annotation.
    fn score(&self, panel: &Panel, segment: &Segment, spans: &str) -> Result<f64, Error> {
        let chat = self.score_chat(&Pair::of(segment), spans)?;
        if self.preset == Preset::Code {
            let room = TokenBudget::free(self.max_tokens);
            return gemba_api::ask(panel, SCORE_STAGE, &chat, room, |answer, _| read_number(answer));
        }
        let budget = self.max_tokens.unwrap_or(SCORE_BUDGET);
        let sampling = Sampling { max_tokens: budget, ..panel.sampling.clone() };
        let form = ResponseFormat::Regex("100|[1-9]?[0-9]".into());
        let reply = panel.ask_with(Role::Annotator, SCORE_STAGE, &chat, &form, &sampling)?;
        let answer = reading::whole(&reply, budget)?;
        read_number(answer).ok_or_else(|| reading::unusable(answer, "not a number from 0 to 100"))
    }

    /// The mean of that score's distribution.
    fn expect(&self, panel: &Panel, segment: &Segment, spans: &str) -> Result<f64, Error> {
        let chat = self.score_chat(&Pair::of(segment), spans)?;
        expected::percent(panel, Role::Annotator, EXPECT, &chat, "")
    }

    fn spans_chat(&self, query: &Pair) -> Result<Chat, Error> {
        let mut chat = Chat::new().system(self.prompts.render(SYSTEM, ())?);
        for shot in &self.shots {
            let answer = self.prompts.render(ANSWER, shot)?;
            let answer = if self.preset == Preset::Code { &answer } else { answer.trim_end() };
            chat = chat.user(self.prompts.render(SPANS, Pair::from_shot(shot))?).assistant(answer);
        }
        Ok(chat.user(self.prompts.render(SPANS, query.shown(self.preset))?))
    }

    fn score_chat(&self, query: &Pair, spans: &str) -> Result<Chat, Error> {
        #[derive(Serialize)]
        struct Scored<'a> {
            #[serde(flatten)]
            query: PromptPair<'a>,
            spans: &'a str,
        }
        let query = query.shown(self.preset);
        Ok(Chat::new().user(self.prompts.render(SCORE, Scored { query, spans })?))
    }
}
