//! GEMBA-SQM, GEMBA-Stars and GEMBA-Classes: one prompt asks for a place on a described scale. Kocmi and
//! Federmann, "Large Language Models Are State-of-the-Art Evaluators of Translation Quality" (EAMT 2023),
//! whose fourth prompt is [`super::gemba_da`]. They mark no error spans.
//!
//! Differs:
//! - Prompt. The paper prints one text for both modes, with the parts about the reference in bold type; the
//!   code has two, which say `machine translation` and `starts with` here and there. `paper` and `strict`
//!   have the one text, `code` has the two, down to their trailing space; it strips its input lines, as the
//!   authors' program does.
//! - Answer. Code: a number as in GEMBA-DA; stars as one number, word or row of stars; the only class named
//!   in the answer. Paper: silent. `code` does the same; `paper` reads an answer that is the rating and
//!   nothing else, in any case, with quotes or a full stop around it; `strict` allows whole numbers from 0 to
//!   100, `one star` to `five stars`, or one of the five classes.
//! - No rating. Code: asks again at temperature 0.1, 0.2, ... 1.0, then gives up; the 100 tokens that its
//!   table of prompts sets for -Classes are never used. `code` does the same (see
//!   [`super::code::gemba_api`]), and the verdict is `unparsable`; the other presets ask once.
//! - Scale of the classes. Code: 0 to 4, higher is better, and so here.
//! - Beyond the paper: `score=expected` of -SQM takes the mean of the score's distribution, from the exact
//!   probabilities of 0 to 100 as the answer; `raw` stays the number that the model wrote.
//! - Reference: as in [`super::gemba_da`], with a variant of each prompt.
//! - A segment whose source and hypothesis are both empty has no model call and no verdict.

use serde_json::json;

use super::{
    Error, Judge, Method, Panel, Protocol, Provenance, Role, Stage, Verdict,
    code::gemba_api::{self, TokenBudget},
    expected,
    gemba_da::{Query, read_number, scale_calls},
    in_parallel,
    method::Calls,
    prompt::{File, Prompts},
    reading, scale,
    setup::{self, Preset, Reference, Settings, options},
};
use crate::{
    llm::{Chat, ResponseFormat, Sampling},
    segment::Segment,
};

mod rating;

pub use rating::Scale;

const SQM_PROMPT: File = File { name: "gemba_scales/sqm.j2", text: include_str!("gemba_scales/sqm.j2") };
const STARS_PROMPT: File =
    File { name: "gemba_scales/stars.j2", text: include_str!("gemba_scales/stars.j2") };
const CLASSES_PROMPT: File =
    File { name: "gemba_scales/classes.j2", text: include_str!("gemba_scales/classes.j2") };

/// Answer tokens of one question outside `code`: a number or a few words.
const BUDGET: usize = 64;

/// The stages of its calls.
const ASSESS: Stage = Stage::new("assess");
const EXPECT: Stage = Stage::new("expect");

/// Metadata shown by `tribunal methods show gemba-sqm`.
pub const SQM: Method = Method {
    name: "gemba-sqm",
    summary: "a score of 0 to 100 whose anchors are described",
    stages: &[ASSESS, EXPECT],
    answer_tokens: Some(2),
    scale: scale::Scale::PERCENT,
    options: Options::CHOICES,
    build: |settings, options| {
        let options = Options::read(options);
        Ok(GembaScale::new(Scale::Sqm, settings, *options.reference, *options.is_expected)?.into())
    },
    ..STARS
};

/// Metadata shown by `tribunal methods show gemba-stars`.
pub const STARS: Method = Method {
    name: "gemba-stars",
    summary: "one to five stars",
    citation: "Kocmi and Federmann 2023, \"Large Language Models Are State-of-the-Art Evaluators of Translation \
               Quality\"",
    stages: &[ASSESS],
    calls: Calls { least: 1, typical: 1, most: 16 },
    answer_tokens: Some(2),
    scale: scale::Scale::rating(1.0, 5.0),
    options: OnlyReference::CHOICES,
    ..Method::with(|settings, options| {
        let options = OnlyReference::read(options);
        Ok(GembaScale::new(Scale::Stars, settings, *options.reference, false)?.into())
    })
};

/// Metadata shown by `tribunal methods show gemba-classes`.
pub const CLASSES: Method = Method {
    name: "gemba-classes",
    summary: "one of five classes of quality",
    answer_tokens: Some(7),
    scale: scale::Scale { unit: scale::Unit::Classes, ..scale::Scale::rating(0.0, 4.0) },
    build: |settings, options| {
        let options = OnlyReference::read(options);
        Ok(GembaScale::new(Scale::Classes, settings, *options.reference, false)?.into())
    },
    ..STARS
};

options! {
    /// Options of GEMBA-SQM.
    pub struct Options {
        "reference" reference: Reference = {
            "auto" => Reference::Auto, "on" => Reference::On, "off" => Reference::Off
        }, Reference::MEANING;
        "score" is_expected: bool = { "greedy" => false, "expected" => true },
            "the number that is written, or the mean of its distribution";
    }
}

options! {
    /// Options of GEMBA-Stars and GEMBA-Classes.
    pub struct OnlyReference {
        "reference" reference: Reference = {
            "auto" => Reference::Auto, "on" => Reference::On, "off" => Reference::Off
        }, Reference::MEANING;
    }
}

/// A configured judge of one of the three scales.
pub struct GembaScale {
    scale: Scale,
    prompts: Prompts,
    preset: Preset,
    form: ResponseFormat,
    shows_reference: bool,
    /// -SQM: the mean of the distribution is the score.
    expected: bool,
    max_tokens: Option<usize>,
}

impl Protocol for GembaScale {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict, Error>> {
        in_parallel(group, |idx, segment| {
            let panel = panel.about(idx);
            let raw = self.assess(&panel, segment)?;
            let score = if self.expected { self.expect(&panel, segment)? } else { raw };
            let quality_score = (self.scale == Scale::Sqm).then_some(raw);
            Ok(Verdict { raw, quality_score, ..Verdict::new(score, Vec::new()) })
        })
    }
}

impl From<GembaScale> for Judge {
    fn from(judge: GembaScale) -> Self {
        let calls = scale_calls(judge.preset, judge.expected, judge.max_tokens);
        Self { calls: Some(calls), ..Self::new(Provenance::of(&judge.prompts), judge) }
    }
}

impl GembaScale {
    /// Reads the settings and the prompt.
    ///
    /// # Errors
    /// The errors of [`super::registry::build`]; weights and shots, which the methods do not have.
    fn new(
        scale: Scale,
        settings: &Settings,
        reference: Reference,
        expected: bool,
    ) -> Result<Self, setup::Error> {
        let shows_reference = reference.is_shown(settings);
        if expected && settings.preset == Preset::Code {
            let reason = "preset `code` has its own score; hint: leave `score` out, or use another preset";
            return Err(setup::Error::Conflict(reason.into()));
        }
        let judge = Self {
            expected,
            scale,
            prompts: Prompts::load(&[prompt(scale)], settings)?,
            preset: settings.preset,
            form: if settings.preset == Preset::Strict { scale.form() } else { ResponseFormat::Text },
            shows_reference,
            max_tokens: settings.max_tokens,
        };
        if settings.weights.is_some() || settings.shots.is_some() {
            let name = judge.method().name;
            let reason =
                format!("{name} has neither severity weights nor shots; hint: leave weights and shots out");
            return Err(setup::Error::Conflict(reason));
        }
        judge.render(&Query::sample(shows_reference)).map_err(setup::Error::from_prompt)?;
        Ok(judge)
    }

    fn method(&self) -> &'static Method {
        match self.scale {
            Scale::Sqm => &SQM,
            Scale::Stars => &STARS,
            Scale::Classes => &CLASSES,
        }
    }

    fn assess(&self, panel: &Panel, segment: &Segment) -> Result<f64, Error> {
        if segment.is_blank() {
            return Err(Error::nothing_to_judge());
        }
        let chat = self.chat(segment)?;
        if self.preset == Preset::Code {
            let read = |text: &str| match self.scale {
                Scale::Sqm => read_number(text),
                Scale::Stars => rating::stars_as_code(text),
                Scale::Classes => rating::class_as_code(text),
            };
            let room = TokenBudget::budgeted(self.max_tokens);
            return gemba_api::ask(panel, ASSESS, &chat, room, |answer, _| read(answer));
        }
        let budget = self.max_tokens.unwrap_or(BUDGET);
        let sampling = Sampling { max_tokens: budget, ..panel.sampling.clone() };
        let reply = panel.ask_with(Role::Annotator, ASSESS, &chat, &self.form, &sampling)?;
        let answer = reading::whole(&reply, budget)?;
        self.scale.read(answer).ok_or_else(|| reading::unusable(answer, self.scale.missing()))
    }

    /// The mean of the score's distribution.
    fn expect(&self, panel: &Panel, segment: &Segment) -> Result<f64, Error> {
        expected::percent(panel, Role::Annotator, EXPECT, &self.chat(segment)?, "")
    }

    fn chat(&self, segment: &Segment) -> Result<Chat, Error> {
        self.render(&Query::of(segment, self.shows_reference, self.preset)?)
    }

    fn render(&self, query: &Query) -> Result<Chat, Error> {
        let mut values = json!(query);
        values["code"] = json!(self.preset == Preset::Code);
        Ok(Chat::new().user(self.prompts.render(prompt(self.scale), values)?))
    }
}

fn prompt(scale: Scale) -> File {
    match scale {
        Scale::Sqm => SQM_PROMPT,
        Scale::Stars => STARS_PROMPT,
        Scale::Classes => CLASSES_PROMPT,
    }
}
