//! GEMBA-SQM, GEMBA-Stars and GEMBA-Classes: one prompt asks for a place on a described scale. Kocmi and
//! Federmann, "Large Language Models Are State-of-the-Art Evaluators of Translation Quality" (EAMT 2023),
//! whose fourth prompt is [`super::gemba_da`]. They mark no error spans.
//!
//! Differs:
//! - Prompt. The paper prints one text for both modes, with the parts about the reference in bold type; the
//!   code has a text for each, which differ in words such as `machine translation` and `starts with`. `paper`
//!   and `strict` have the paper's text, `code` the code's two, with their trailing spaces; it strips its
//!   input lines like the authors' program.
//! - Answer. Code: a number as in GEMBA-DA; stars as one number, word or row of stars; the only class named
//!   in the answer. Paper: silent. `code` does the same; `paper` reads an answer that is the rating and
//!   nothing else, in any case, with quotes or a full stop around it; `strict` allows whole numbers from 0 to
//!   100, `one star` to `five stars`, or one of the five classes.
//! - No rating. Code: asks again at temperature 0.1, 0.2, ... 1.0, then gives up; the 100 tokens that its
//!   table of prompts sets for -Classes are never used. `code` does the same, and the
//!   verdict is `unparsable`; the other presets ask once.
//! - Scale of the classes. Code: 0 to 4, higher is better, and so here.
//! - Beyond the paper: `score=expected` of -SQM takes the mean of the score's distribution, from the exact
//!   probabilities of 0 to 100 as the answer; `raw` stays the number that the model wrote.
//! - Reference: as in [`super::gemba_da`], with a variant of each prompt.
//! - A segment whose source and hypothesis are both empty has no model call and no verdict.

use super::{
    Judge, Method, Stage,
    answers::{chances::EXPECT, rating::Rating},
    declaration::{self, Answers, Declaration},
    method::Calls,
    prompt::{File, file},
    scale::{Scale, Unit},
    setup::{self, GivenOptions, ReferenceOption, ScoreOption, Settings},
};

const SQM_PROMPT: File = file!("gemba_scales/sqm.j2");
const STARS_PROMPT: File = file!("gemba_scales/stars.j2");
const CLASSES_PROMPT: File = file!("gemba_scales/classes.j2");

/// The stage of the rating.
const ASSESS: Stage = Stage::new("assess");

/// Metadata shown by `tribunal methods show gemba-sqm`.
pub const SQM: Method = Method {
    name: "gemba-sqm",
    summary: "a score of 0 to 100 whose anchors are described",
    stages: &[ASSESS, EXPECT],
    answer_tokens: Some([2, 0]),
    scale: Scale::PERCENT,
    options: &[ReferenceOption::CHOICES[0], ScoreOption::CHOICES[0]],
    build: build_sqm,
    ..STARS
};

/// Metadata shown by `tribunal methods show gemba-stars`.
pub const STARS: Method = Method {
    name: "gemba-stars",
    summary: "one to five stars",
    citation: "Kocmi and Federmann 2023, \"Large Language Models Are State-of-the-Art Evaluators of Translation \
               Quality\"",
    papers: &["kocmi-federmann-2023-large"],
    stages: &[ASSESS],
    calls: Calls { least: 1, typical: 1, most: 16 },
    answer_tokens: Some([2, 0]),
    scale: Scale::rating(1.0, 5.0),
    options: ReferenceOption::CHOICES,
    ..Method::with(|settings, options| judge(&STARS, STARS_QUESTION, settings, options))
};

/// Metadata shown by `tribunal methods show gemba-classes`.
pub const CLASSES: Method = Method {
    name: "gemba-classes",
    summary: "one of five classes of quality",
    answer_tokens: Some([7, 0]),
    scale: Scale { unit: Unit::Classes, ..Scale::rating(0.0, 4.0) },
    build: |settings, options| judge(&CLASSES, CLASSES_QUESTION, settings, options),
    ..STARS
};

pub const SQM_QUESTION: Declaration = question(SQM_PROMPT, Rating::Number);
pub const STARS_QUESTION: Declaration = question(STARS_PROMPT, Rating::Stars);
pub const CLASSES_QUESTION: Declaration = question(CLASSES_PROMPT, Rating::Classes);

const fn question(prompt: File, rating: Rating) -> Declaration {
    Declaration::message(ASSESS, prompt, Answers::Rating { rating, expected_after: None }, 64)
}

fn build_sqm(settings: &Settings, options: &GivenOptions) -> setup::Result<Judge> {
    let expected_after = ScoreOption::read(options).is_expected.then_some("");
    let answers = Answers::Rating { rating: Rating::Number, expected_after };
    judge(&SQM, Declaration { answers, ..SQM_QUESTION }, settings, options)
}

fn judge(
    method: &'static Method,
    question: Declaration,
    settings: &Settings,
    options: &GivenOptions,
) -> setup::Result<Judge> {
    let shows_reference = ReferenceOption::read(options).reference.is_shown(settings);
    declaration::judge(method, Declaration { shows_reference, ..question }, settings)
}
