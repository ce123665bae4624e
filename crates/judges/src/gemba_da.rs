//! GEMBA-DA: one prompt asks for a score from 0 to 100. Kocmi and Federmann, "Large Language Models Are
//! State-of-the-Art Evaluators of Translation Quality" (EAMT 2023); the JSON prompt is RATE's Figure 24. It
//! marks no error spans.
//!
//! Differs:
//! - Prompt. Code: ends in `Score: ` and expects a bare number. RATE: JSON. `code` follows the code, `paper`
//!   and `strict` follow RATE.
//! - Answer. Code: exactly one run of digits in the whole answer (so `-5` is 5 and `85.5` is nothing), or
//!   `NN/100`. RATE: silent. `code` does the same; `paper` reads the JSON object that was asked for and
//!   accepts fractions; `strict` allows whole numbers from 0 to 100 only.
//! - No number. Code: asks again at temperature 0.1, 0.2, ... 1.0, then gives up. `code` does the same, and
//!   the verdict is `unparsable`; the other presets ask once.
//! - Beyond the paper: `score=expected` takes the mean of the score's distribution, from the exact
//!   probabilities of 0 to 100 as the JSON's number, which no further digit follows; `raw` stays the number
//!   that the model wrote.
//! - Reference (`reference=on`, or automatically when every segment has one). Paper and code have that
//!   variant, RATE does not: `paper` and `strict` take the paper's words for it. An input with a segment
//!   without one is refused. The reference stands without quotes in the paper's Figure 1 and in the code as
//!   first published (a462001f), and so it does here; two other commits (0fdcd8d8, 55bd91b0) quote it.
//! - Lines. The authors' program strips its input lines, and so does `code`.
//! - A segment whose source and hypothesis are both empty has no model call and no verdict.

use super::{
    Judge, Method, Stage,
    answers::{chances::EXPECT, rating::Rating},
    declaration::{self, Answers, Declaration},
    method::Calls,
    prompt::{File, file},
    scale::Scale,
    setup::{self, GivenOptions, ReferenceOption, ScoreOption, Settings},
};

const PAPER: File = file!("gemba_da/paper.j2");
const FORM: File = file!("gemba_da/form.json");

/// The stages of its calls.
const ASSESS: Stage = Stage::new("assess");

/// Metadata shown by `tribunal methods show gemba-da`.
pub const METHOD: Method = Method {
    name: "gemba-da",
    summary: "a direct score of 0 to 100 from one prompt, without errors",
    citation: "Kocmi and Federmann 2023, GEMBA-DA; RATE, Figure 24 (JSON)",
    papers: &["kocmi-federmann-2023-large", "tian-etal-2026-beyond"],
    stages: &[ASSESS, EXPECT],
    // As `code`, up to five more for cut answers and ten for unusable ones; with score=expected, one more
    // that weighs all scores.
    calls: Calls { least: 1, typical: 1, most: 16 },
    answer_tokens: Some([7, 0]),
    scale: Scale::PERCENT,
    options: &[ScoreOption::CHOICES[0], ReferenceOption::CHOICES[0]],
    ..Method::with(build)
};

/// Its question, without options.
pub const QUESTION: Declaration = Declaration::message(
    ASSESS,
    PAPER,
    Answers::Rating { rating: Rating::Score { schema: FORM }, expected_after: None },
    64,
);

fn build(settings: &Settings, options: &GivenOptions) -> setup::Result<Judge> {
    let shows_reference = ReferenceOption::read(options).reference.is_shown(settings);
    let question = Declaration { shows_reference, ..QUESTION };
    let is_expected = *ScoreOption::read(options).is_expected;
    let rating = Rating::Score { schema: FORM };
    let answers = Answers::Rating { rating, expected_after: is_expected.then_some("{\"score\": ") };
    declaration::judge(&METHOD, Declaration { answers, ..question }, settings)
}
