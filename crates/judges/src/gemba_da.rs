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
//!   the verdict is `unparsable`; the other presets ask once. Budgets: see [`super::code::gemba_api`].
//! - Beyond the paper: `score=expected` takes the mean of the score's distribution, from the exact
//!   probabilities of 0 to 100 as the JSON's number, which no further digit follows; `raw` stays the number
//!   that the model wrote.
//! - Reference (`reference=on`, or automatically when every segment has one). Paper and code have that
//!   variant, RATE does not: `paper` and `strict` take the paper's words for it. An input with a segment
//!   without one is refused. The reference stands without quotes in the paper's Figure 1 and in the code as
//!   first published (a462001f), and so it does here; two other commits (0fdcd8d8, 55bd91b0) quote it.
//! - Lines. The authors' program strips its input lines, and so does `code`.
//! - A segment whose source and hypothesis are both empty has no model call and no verdict.

use serde::{Deserialize, Serialize};

use super::{
    Error, Judge, Method, Panel, Protocol, Provenance, Role, Stage, Verdict,
    code::gemba_api::{self, TokenBudget},
    expected, in_parallel,
    method::Calls,
    prompt::{File, Prompts},
    reading,
    scale::Scale,
    setup::{self, Preset, Reference, Settings, options},
};
use crate::{
    llm::{Chat, ResponseFormat, Sampling},
    segment::Segment,
};

const PAPER: File = File { name: "gemba_da/paper.j2", text: include_str!("gemba_da/paper.j2") };
const CODE: File = File { name: "gemba_da/code.j2", text: include_str!("gemba_da/code.j2") };
const FORM: File = File { name: "gemba_da/form.json", text: include_str!("gemba_da/form.json") };

/// Answer tokens of one question outside `code`: a number in a small object.
const BUDGET: usize = 64;

/// The stages of its calls.
const ASSESS: Stage = Stage::new("assess");
const EXPECT: Stage = Stage::new("expect");

/// Metadata shown by `tribunal methods show gemba-da`.
pub const METHOD: Method = Method {
    name: "gemba-da",
    summary: "a direct score of 0 to 100 from one prompt, without errors",
    citation: "Kocmi and Federmann 2023, GEMBA-DA; RATE, Figure 24 (JSON)",
    stages: &[ASSESS, EXPECT],
    // As `code`, up to five more for cut answers and ten for unusable ones; with score=expected, one more
    // that weighs all scores.
    calls: Calls { least: 1, typical: 1, most: 16 },
    answer_tokens: Some(7),
    scale: Scale::PERCENT,
    options: Options::CHOICES,
    ..Method::with(|settings, options| Ok(GembaDa::new(settings, &Options::read(options))?.into()))
};

options! {
    /// Options of GEMBA-DA.
    pub struct Options {
        "score" is_expected: bool = { "greedy" => false, "expected" => true },
            "the number that is written, or the mean of its distribution";
        "reference" reference: Reference = {
            "auto" => Reference::Auto, "on" => Reference::On, "off" => Reference::Off
        }, Reference::MEANING;
    }
}

/// A configured GEMBA-DA judge.
pub struct GembaDa {
    prompts: Prompts,
    preset: Preset,
    form: ResponseFormat,
    expected: bool,
    shows_reference: bool,
    max_tokens: Option<usize>,
}

impl Protocol for GembaDa {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict, Error>> {
        in_parallel(group, |idx, segment| {
            let panel = panel.about(idx);
            let raw = self.assess(&panel, segment)?;
            let score = if self.expected { self.expect(&panel, segment)? } else { raw };
            Ok(Verdict { raw, quality_score: Some(raw), ..Verdict::new(score, Vec::new()) })
        })
    }
}

impl From<GembaDa> for Judge {
    fn from(judge: GembaDa) -> Self {
        let calls = scale_calls(judge.preset, judge.expected, judge.max_tokens);
        Self { calls: Some(calls), ..Self::new(Provenance::of(&judge.prompts), judge) }
    }
}

/// The calls of a question for one number: the program asks again where there is none in the answer, and a
/// distribution is scored in a call of its own.
pub(super) fn scale_calls(preset: Preset, is_expected: bool, max_tokens: Option<usize>) -> Calls {
    match preset {
        Preset::Code => {
            let most = TokenBudget::budgeted(max_tokens).most_calls() + usize::from(gemba_api::HOTTER);
            Calls { most, ..Calls::exactly(1) }
        }
        Preset::Paper | Preset::Strict => Calls::up_to(if is_expected { 2 } else { 1 }),
    }
}

impl GembaDa {
    /// Reads the settings and the prompts.
    ///
    /// # Errors
    /// The errors of [`super::registry::build`]; weights and shots, which the method does not have.
    pub fn new(settings: &Settings, options: &Options) -> Result<Self, setup::Error> {
        if settings.weights.is_some() || settings.shots.is_some() {
            let reason = "gemba-da has neither severity weights nor shots; hint: leave weights and shots out";
            return Err(setup::Error::Conflict(reason.into()));
        }
        let expected = *options.is_expected;
        if expected && settings.preset == Preset::Code {
            let reason =
                "preset `code` asks for no JSON, so its scores cannot be weighed; hint: use another preset";
            return Err(setup::Error::Conflict(reason.into()));
        }
        let files = match settings.preset {
            Preset::Code => vec![CODE],
            Preset::Paper => vec![PAPER],
            Preset::Strict => vec![PAPER, FORM],
        };
        let prompts = Prompts::load(&files, settings)?;
        let form = match settings.preset {
            Preset::Strict => {
                let schema = prompts.render(FORM, ()).map_err(setup::Error::from_prompt)?;
                let unfit = |e: serde_json::Error| setup::Error::Prompt {
                    file: FORM.name.into(),
                    reason: e.to_string(),
                };
                ResponseFormat::json(serde_json::from_str(&schema).map_err(unfit)?)
            }
            Preset::Paper | Preset::Code => ResponseFormat::Text,
        };
        let (shows_reference, max_tokens) = (options.reference.is_shown(settings), settings.max_tokens);
        let judge = Self { prompts, preset: settings.preset, form, expected, shows_reference, max_tokens };
        judge.render(&Query::sample(shows_reference)).map_err(setup::Error::from_prompt)?;
        Ok(judge)
    }

    fn assess(&self, panel: &Panel, segment: &Segment) -> Result<f64, Error> {
        if segment.is_blank() {
            return Err(Error::nothing_to_judge());
        }
        let chat = self.chat(segment)?;
        if self.preset == Preset::Code {
            let room = TokenBudget::budgeted(self.max_tokens);
            return gemba_api::ask(panel, ASSESS, &chat, room, |answer, _| read_number(answer));
        }
        let budget = self.max_tokens.unwrap_or(BUDGET);
        let sampling = Sampling { max_tokens: budget, ..panel.sampling.clone() };
        let reply = panel.ask_with(Role::Annotator, ASSESS, &chat, &self.form, &sampling)?;
        read_json(reading::whole(&reply, budget)?)
    }

    /// The mean of the score's distribution.
    fn expect(&self, panel: &Panel, segment: &Segment) -> Result<f64, Error> {
        expected::percent(panel, Role::Annotator, EXPECT, &self.chat(segment)?, "{\"score\": ")
    }

    fn chat(&self, segment: &Segment) -> Result<Chat, Error> {
        self.render(&Query::of(segment, self.shows_reference, self.preset)?)
    }

    fn render(&self, query: &Query) -> Result<Chat, Error> {
        let file = if self.preset == Preset::Code { CODE } else { PAPER };
        Ok(Chat::new().user(self.prompts.render(file, query)?))
    }
}

/// The values of a prompt that may show a reference.
#[derive(Serialize)]
pub(super) struct Query<'a> {
    source_lang: &'a str,
    source: &'a str,
    target_lang: &'a str,
    target: &'a str,
    /// `None` in the variant without a reference.
    reference: Option<&'a str>,
}

impl<'a> Query<'a> {
    /// The values about one segment, stripped in `code`, as by the authors' program.
    ///
    /// # Errors
    /// [`Error::Failed`] when the reference is to be shown and the segment has none.
    pub(super) fn of(segment: &'a Segment, shows_reference: bool, preset: Preset) -> Result<Self, Error> {
        let reference = segment.reference.as_deref().filter(|_| shows_reference);
        if shows_reference && reference.is_none() {
            return Err(Error::Failed("the segment has no reference translation to show".into()));
        }
        let text = |text: &'a str| if preset == Preset::Code { reading::strip(text) } else { text };
        Ok(Self {
            source_lang: segment.src_lang.name(),
            source: text(&segment.source),
            target_lang: segment.tgt_lang.name(),
            target: text(&segment.hypothesis),
            reference: reference.map(text),
        })
    }

    /// Values for a test rendering of a prompt.
    pub(super) fn sample(shows_reference: bool) -> Self {
        let reference = shows_reference.then_some("c");
        Self { source_lang: "", source: "a", target_lang: "", target: "b", reference }
    }
}

/// `{"score": NUMBER}` with a number of 0 to 100.
fn read_json(text: &str) -> Result<f64, Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Answer {
        score: f64,
    }
    let Answer { score } = reading::json(text)?;
    if (0.0..=100.0).contains(&score) {
        return Ok(score);
    }
    Err(reading::unusable(text, &format!("score `{score}` is not in 0 to 100")))
}

/// The number that GEMBA takes from an answer: the only run of digits, or the first of `NN/100` and nothing
/// else; at most 100.
///
/// Source: `gemba/prompt.py`, `parse_numerical_answer`. Its pattern for a quoted number in a list adds
/// nothing to the first rule.
#[must_use]
pub fn read_number(answer: &str) -> Option<f64> {
    let digits = |run: &&str| !run.is_empty() && run.bytes().all(|byte| byte.is_ascii_digit());
    let ascii = reading::ascii_digits(answer);
    let mut runs = ascii.split(|c: char| !c.is_ascii_digit()).filter(|run| !run.is_empty());
    let number = match (runs.next()?, runs.next()) {
        (run, None) => run,
        // Python's `$` also matches before a final newline.
        _ => answer.strip_suffix('\n').unwrap_or(answer).strip_suffix("/100").filter(digits)?,
    };
    number.parse::<u64>().ok().filter(|score| *score <= 100).map(|score| score as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_that_gemba_finds() {
        let check =
            |answer: &str, expected: Option<f64>| assert_eq!(read_number(answer), expected, "{answer}");
        check("85", Some(85.0));
        check("８５", Some(85.0));
        check("８５/100", None);
        check("Score: 85.", Some(85.0));
        check("-5", Some(5.0));
        check("[\"90\"]", Some(90.0));
        check("['90']", Some(90.0));
        check("85.5", None);
        check("95 out of 100", None);
        check("95/100", Some(95.0));
        check("95/100\n", Some(95.0));
        check("Score: 95/100", None);
        check("/100", Some(100.0));
        check("101", None);
        check("Score: 85, with 2 errors", None);
        check("", None);
        check("99999999999999999999999", None);
    }

    #[test]
    fn the_number_of_the_json() {
        assert_eq!(read_json(" {\"score\": 71.5}\n").unwrap().to_bits(), 71.5f64.to_bits());
        for bad in ["{\"score\": 101}", "{\"score\": \"71\"}", "{\"score\": 71, \"why\": 1}", "71", ""] {
            assert!(matches!(read_json(bad), Err(Error::Unparsable(_))), "{bad}");
        }
        assert!(matches!(read_json("I cannot rate this."), Err(Error::Refused(_))));
    }
}
