//! GEMBA-DA, -SQM, -Stars and -Classes as the authors' program runs them: its readers of an answer, asked
//! again by [`crate::gemba_api`] until one finds a rating. The other presets' questions are declared in
//! [`tribunal_judges::gemba_da`] and [`tribunal_judges::gemba_scales`].
//!
//! Source: `gemba/prompt.py` and `gemba/gpt_api.py`.

use tribunal_core::segment::Segment;
use tribunal_judges::{
    Judge, Method, Panel, Protocol, Result, Settings, Verdict,
    answers::rating::{CLASSES, NUMBERS},
    declaration::{Declaration, Layout, SingleQuestion},
    gemba_da, gemba_scales, in_parallel,
    method::Calls,
    pair::Texts,
    prompt::File,
    setup::{self, GivenOptions, ReferenceOption, ScoreOption},
};

use crate::{
    gemba_api::{self, TokenBudget},
    python::ascii_digits,
};

/// The prompt of GEMBA-DA, which ends in `Score: `.
const DA: File = File { name: "gemba_da/code.j2", text: include_str!("gemba_ratings/da.j2") };

/// A reader of the authors' program: the rating in an answer, `None` where it asks again.
type Reader = fn(&str) -> Option<f64>;

/// A configured judge of preset `code`.
struct Published {
    question: SingleQuestion,
    read: Reader,
    budget: TokenBudget,
}

impl Protocol for Published {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        in_parallel(group, |idx, segment| {
            let chat = self.question.about(&Texts::of(segment))?;
            let stage = self.question.stage();
            let read = |answer: &str, _: &_| (self.read)(answer);
            let raw = gemba_api::ask(&panel.about(idx), stage, &chat, self.budget, read)?;
            Ok(self.question.rated(raw))
        })
    }
}

/// GEMBA-DA in preset `code`.
///
/// # Errors
/// Options for which nothing is published, and those of [`SingleQuestion::load`].
pub fn build_da(settings: &Settings, options: &GivenOptions) -> setup::Result<Judge> {
    setup::reject(&[(
        *ScoreOption::read(options).is_expected,
        "preset `code` asks for no JSON, so its scores cannot be weighed; hint: use another preset",
    )])?;
    let question = Declaration { prompt: Layout::Message(DA), ..gemba_da::QUESTION };
    judge(&gemba_da::METHOD, question, number, settings, options)
}

/// GEMBA-SQM in preset `code`.
///
/// # Errors
/// Those of [`build_da`].
pub fn build_sqm(settings: &Settings, options: &GivenOptions) -> setup::Result<Judge> {
    setup::reject(&[(
        *ScoreOption::read(options).is_expected,
        "preset `code` has its own score; hint: leave `score` out, or use another preset",
    )])?;
    judge(&gemba_scales::SQM, gemba_scales::SQM_QUESTION, number, settings, options)
}

/// GEMBA-Stars in preset `code`.
///
/// # Errors
/// Those of [`SingleQuestion::load`].
pub fn build_stars(settings: &Settings, options: &GivenOptions) -> setup::Result<Judge> {
    judge(&gemba_scales::STARS, gemba_scales::STARS_QUESTION, stars, settings, options)
}

/// GEMBA-Classes in preset `code`.
///
/// # Errors
/// Those of [`SingleQuestion::load`].
pub fn build_classes(settings: &Settings, options: &GivenOptions) -> setup::Result<Judge> {
    judge(&gemba_scales::CLASSES, gemba_scales::CLASSES_QUESTION, class, settings, options)
}

fn judge(
    method: &'static Method,
    question: Declaration,
    read: Reader,
    settings: &Settings,
    options: &GivenOptions,
) -> setup::Result<Judge> {
    let shows_reference = ReferenceOption::read(options).reference.is_shown(settings);
    let question = SingleQuestion::load(method, Declaration { shows_reference, ..question }, settings)?;
    let provenance = question.provenance();
    let budget = TokenBudget::budgeted(settings.max_tokens);
    let most = budget.most_calls() + usize::from(gemba_api::HOTTER);
    let judge = Judge::new(provenance, Published { question, read, budget });
    Ok(judge.with_calls(Calls { most, ..Calls::exactly(1) }))
}

/// The number that GEMBA's program takes from an answer: the only run of digits, or the first of `NN/100` and
/// nothing else; at most 100.
///
/// Source: `gemba/prompt.py`, `parse_numerical_answer`. Its pattern for a quoted number in a list adds
/// nothing to the first rule.
pub fn number(answer: &str) -> Option<f64> {
    let digits = |run: &&str| !run.is_empty() && run.bytes().all(|byte| byte.is_ascii_digit());
    let score = if let Some(run) = only_digits(answer) {
        run.parse().ok()
    } else {
        // Python's `$` also matches before a final newline.
        let score = answer.strip_suffix('\n').unwrap_or(answer).strip_suffix("/100");
        score.filter(digits)?.parse::<u64>().ok()
    };
    score.filter(|score| *score <= 100).map(|score| score as f64)
}

/// The only run of digits.
fn only_digits(text: &str) -> Option<String> {
    let text = ascii_digits(text);
    let mut runs = text.split(|c: char| !c.is_ascii_digit()).filter(|run| !run.is_empty());
    match (runs.next()?, runs.next()) {
        (run, None) => Some(run.to_owned()),
        _ => None,
    }
}

/// The stars that GEMBA takes from an answer: the one number on which all its patterns agree.
///
/// Source: `gemba/prompt.py`, `validate_stars`: the number of `*` and of `★`, a number word between spaces or
/// a digit before `star`, and the only run of digits.
fn stars(answer: &str) -> Option<f64> {
    let text = format!(" {} ", answer.to_lowercase()).replace('\n', " ");
    let star_rows = ['*', '★'].map(|star| text.matches(star).count()).into_iter().filter(|n| *n > 0);
    let named = NUMBERS
        .iter()
        .zip(1..)
        .filter(|(word, n)| text.contains(&format!(" {word} ")) || text.contains(&format!("{n} star")));
    let digits = only_digits(&text).map(|run| run.parse().unwrap_or(usize::MAX));
    let mut found: Vec<usize> = star_rows.chain(named.map(|(_, n)| n)).chain(digits).collect();
    found.sort_unstable();
    found.dedup();
    match found[..] {
        [n @ 1..=5] => Some(n as f64),
        _ => None,
    }
}

/// The class that GEMBA takes from an answer: the only one whose words are in it, in any case.
///
/// Source: `gemba/prompt.py`, `parse_classes`.
fn class(answer: &str) -> Option<f64> {
    let answer = answer.to_lowercase();
    let mut found = (0..CLASSES.len()).filter(|n| answer.contains(&CLASSES[*n].to_lowercase()));
    match (found.next(), found.next()) {
        (Some(n), None) => Some(n as f64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratings_that_gemba_finds() {
        for (read, answer, expected) in [
            (number as Reader, "85", Some(85.0)),
            (number, "８５", Some(85.0)),
            (number, "８５/100", None),
            (number, "Score: 85.", Some(85.0)),
            (number, "-5", Some(5.0)),
            (number, "[\"90\"]", Some(90.0)),
            (number, "['90']", Some(90.0)),
            (number, "85.5", None),
            (number, "95 out of 100", None),
            (number, "95/100", Some(95.0)),
            (number, "95/100\n", Some(95.0)),
            (number, "Score: 95/100", None),
            (number, "/100", Some(100.0)),
            (number, "101", None),
            (number, "Score: 85, with 2 errors", None),
            (number, "", None),
            (number, "99999999999999999999999", None),
            (stars, "Five stars", Some(5.0)),
            (stars, "4 stars", Some(4.0)),
            (stars, "3", Some(3.0)),
            (stars, "３", Some(3.0)),
            (stars, "★★", Some(2.0)),
            (stars, "I give it four stars: 4", Some(4.0)),
            (stars, "**", Some(2.0)),
            (stars, "**4 stars**", Some(4.0)),
            (stars, "four stars, not five stars", None),
            (stars, "10", None),
            (stars, "five", Some(5.0)),
            (stars, "five: perfect", None),
            (stars, "", None),
            (class, "Class: \"perfect translation\".", Some(4.0)),
            (class, "No meaning preserved, or perfect translation", None),
            (class, "Fine", None),
        ] {
            assert_eq!(read(answer), expected, "{answer}");
        }
    }
}
