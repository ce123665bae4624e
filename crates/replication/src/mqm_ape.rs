//! MQM-APE as its published program runs it, Coldmist-Lu/MQM_APE at 945d1a6: its readers of the three answers
//! and its score. [`tribunal_judges::mqm_ape`] lists what differs.
//!
//! Source: `module_evaluator.py`, `module_ape.py`, `module_verifier.py` and `scorer.py`.

use tribunal_core::{
    llm::{Chat, ResponseFormat},
    mqm::{ErrorSpan, Severity, locate, typology, weights::Weights},
    segment::Segment,
};
use tribunal_judges::{
    Error, Judge, Panel, Protocol, Result, Role, Settings, Step, Verdict,
    declaration::{Answers, Declaration},
    gemba_mqm::{ANNOTATE, THREE_SHOT},
    in_parallel,
    method::Calls,
    mqm_ape::{BUDGETS, CORRECT, Outcome, Questions},
    pair::Texts,
    reading::strip,
    setup::{self, GivenOptions},
};

use crate::gemba_mqm::SHOTS;

/// Tokens of the answer that lists the errors.
const BUDGET: usize = 512;

/// The fewest tokens of an error's line: category, dash, quote, span, quote with the line's end.
const TOKENS_PER_ERROR: usize = 5;

/// MQM-APE as published.
struct Published {
    questions: Questions,
    weights: &'static Weights,
    max_tokens: Option<usize>,
}

/// The judge of preset `code`.
///
/// # Errors
/// Other weights, and prompts or shots that cannot be used.
pub fn build(settings: &Settings, _: &GivenOptions) -> setup::Result<Judge> {
    let has_other_weights = settings.weights.as_deref().is_some_and(|weights| weights != "mqm-ape");
    setup::reject(&[(
        has_other_weights,
        "preset `code` has the program's weights; hint: leave the weights out",
    )])?;
    let errors = Declaration { shots: Some(SHOTS), answers: Answers::FreeBlocks, ..THREE_SHOT };
    let questions = Questions::load(errors, settings)?;
    let weights = settings.weights("mqm-ape", settings.granularity.unwrap_or_default())?;
    let calls = calls(settings.max_tokens);
    let provenance = questions.errors.provenance();
    let judge = Published { questions, weights, max_tokens: settings.max_tokens };
    Ok(Judge::new(provenance, judge).with_calls(calls))
}

/// One question about the errors, and three about each.
fn calls(max_tokens: Option<usize>) -> Calls {
    Calls { least: 1, typical: 7, most: 1 + 3 * (max_tokens.unwrap_or(BUDGET) / TOKENS_PER_ERROR) }
}

impl Protocol for Published {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        in_parallel(group, |idx, segment| self.judge_segment(&panel.about(idx), &Texts::of(segment)))
    }
}

impl Published {
    /// Weighs the errors of an answer, as the program does, and locates them, which it does not.
    fn judge_segment(&self, panel: &Panel, texts: &Texts) -> Result<Verdict> {
        let chat = self.questions.errors.about(texts)?;
        let answer = self.ask(panel, (Role::Annotator, ANNOTATE.into()), &chat, BUDGET)?;
        let named = read_errors(&answer);
        let weighed =
            in_parallel(&named, |idx, error| self.weighed(panel, texts, &(idx + 1).to_string(), error));
        let mut errors = weighed.into_iter().collect::<Result<Vec<_>, _>>()?;
        let score = self.weights.score(&errors);
        for error in &mut errors {
            error.category = typology::normalise(&error.category);
        }
        locate::place(&mut errors, &texts.source, &texts.target);
        Ok(Verdict::new(score, errors))
    }

    fn weighed(&self, panel: &Panel, texts: &Texts, part: &str, error: &ErrorSpan) -> Result<ErrorSpan> {
        let chat = self.questions.correction(texts, error)?;
        let answer = self.ask(panel, (Role::Editor, CORRECT.about(part)), &chat, BUDGETS[0])?;
        let correction = read_correction(&answer);
        let outcome = Outcome::of_both_orders(part, |order, step| {
            let chat = self.questions.comparison(texts, &correction, order)?;
            let answer = self.ask(panel, (Role::Comparer, step), &chat, BUDGETS[1])?;
            read_winner(&answer).ok_or_else(|| {
                Error::Unparsable("the comparison has no answer, on which the published program ends".into())
            })
        })?;
        let weight = self.weights.penalty(error.severity, "other");
        Ok(outcome.weigh(&ErrorSpan { weight, ..error.clone() }, correction))
    }

    /// An answer; one that is cut is used as it is.
    fn ask(&self, panel: &Panel, (role, step): (Role, Step), chat: &Chat, budget: usize) -> Result<String> {
        let question = panel.question(chat, &ResponseFormat::Text, self.max_tokens.unwrap_or(budget));
        let reply = panel.ask(role, step, &question)?;
        Ok(reply.text.split("<|eot_id|>").next().unwrap_or_default().to_owned())
    }
}

/// The errors of an answer, worst severity first.
///
/// Source: `module_evaluator.py`, `error_text2dict`.
fn read_errors(answer: &str) -> Vec<ErrorSpan> {
    let mut level = Severity::Minor;
    let mut errors = Vec::new();
    for line in answer.split('\n') {
        let lower = line.to_lowercase();
        let is_header = |severity: &&Severity| {
            [":", " error"].iter().any(|end| lower.contains(&format!("{}{end}", severity.name())))
        };
        if let Some(header) = [Severity::Critical, Severity::Major, Severity::Minor].iter().find(is_header) {
            level = *header;
            continue;
        }
        let Some((category, _)) = line.split_once(" - ") else { continue };
        if lower.contains("no-error") || lower.contains("no error") {
            continue;
        }
        if let Some(span) = quoted(line) {
            // The category as it is written.
            errors.push(ErrorSpan { category: category.to_owned(), ..ErrorSpan::new(category, span, level) });
        }
    }
    errors.sort_by_key(|error| error.severity);
    errors
}

/// The text between the first `"` or `”` and the next.
fn quoted(line: &str) -> Option<&str> {
    let marks = ['"', '”'];
    let (_, tail) = line.split_once(marks)?;
    tail.split_once(marks).map(|(span, _)| span)
}

/// The correction in an answer.
///
/// Source: `module_ape.py`, `response2ape_translation`.
fn read_correction(answer: &str) -> String {
    const LEAD: &str = "corrected translation";
    let lower = answer.to_lowercase();
    let result = match lower.find(LEAD) {
        None => strip(answer).to_owned(),
        Some(at) => {
            // A place in the lower-case text, by its number of characters.
            let n_before = lower[..at].chars().count();
            let behind: String = answer.chars().skip(n_before + LEAD.len() + 1).collect();
            let before: String = answer.chars().take(n_before).collect();
            let behind = strip(&behind).to_owned();
            if behind.is_empty() {
                strip(before.split("--").next().unwrap_or_default()).to_owned()
            } else {
                behind
            }
        }
    };
    result.split('\n').next().unwrap_or_default().trim_matches('"').to_owned()
}

/// True if the answer names translation A as the better one, false for B; `None` for a blank answer.
///
/// Source: `module_verifier.py`, `verifier_pairwise`, whose last rule looks for capitals in a text without
/// any, and so takes B.
fn read_winner(answer: &str) -> Option<bool> {
    const NAMES: [(&str, &str); 6] = [
        ("translation a", "translation b"),
        ("translations a", "translations b"),
        ("a:", "b:"),
        (":a", ":b"),
        ("\"a\"", "\"b\""),
        ("option a", "option b"),
    ];
    let lines: Vec<&str> = answer.split('\n').map(strip).filter(|line| !line.is_empty()).collect();
    let text = lines.join("\n");
    match text.as_str() {
        "" => return None,
        "A" => return Some(true),
        "B" => return Some(false),
        _ => {}
    }
    let lower = text.to_lowercase();
    for (a, b) in NAMES {
        match (lower.find(a), lower.find(b)) {
            (Some(a), Some(b)) if a != b => return Some(a < b),
            (Some(_), None) => return Some(true),
            (None, Some(_)) => return Some(false),
            _ => {}
        }
    }
    let count = |letter: char| {
        text.matches(&format!("{letter} ")).count() + text.matches(&format!(" {letter}")).count()
    };
    Some(count('A') > count('B'))
}

#[cfg(test)]
mod tests;
