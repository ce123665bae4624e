//! The reader of GEMBA's program and its score, number for number, faults included: an answer that it cannot
//! read is perfect. Where an answer in any words is to have blocks, [`read_any`] rejects one without.
//!
//! Source: `gemba/gemba_mqm_utils.py`, `parse_mqm_answer` and `parse_broken_json`.

use serde_json::{Map, Value};

use crate::{
    Result,
    mqm::{ErrorSpan, Severity, typology},
    reading::{self, strip},
};

/// The blocks of an answer, worst first.
const BLOCKS: [Severity; 3] = [Severity::Critical, Severity::Major, Severity::Minor];

/// An answer as parsed by GEMBA.
#[derive(Debug, Default, PartialEq)]
pub struct Blocks {
    /// Block and text of each error, worst block first, in the order of the answer.
    pub entries: Vec<(Severity, String)>,
    /// Number of lines that are a block's header and nothing else.
    pub n_headers: usize,
}

/// Reads an answer; no answer is unreadable.
///
/// Rules: a header stands alone on its line; a line that contains `no-error` or `no error` is dropped; any
/// other line under a header is an error, commentary and `none` too; a line that contains `non-translation`
/// is critical.
pub fn read(answer: &str) -> Blocks {
    if answer.starts_with("{\"improved translation\"") {
        return read_json(answer);
    }
    let mut blocks = Blocks::default();
    let mut block = None;
    for original in answer.split('\n').map(strip) {
        let line = original.to_lowercase();
        if line.is_empty() || line.contains("no-error") || line.contains("no error") {
            continue;
        }
        if let Some(header) = BLOCKS.into_iter().find(|b| line.strip_suffix(':') == Some(b.name())) {
            block = Some(header);
            blocks.n_headers += 1;
        } else if let Some(block) = block {
            let block = if line.contains("non-translation") { Severity::Critical } else { block };
            blocks.entries.push((block, original.to_owned()));
        }
    }
    blocks.entries.sort_by_key(|(block, _)| *block);
    blocks
}

/// The errors of an answer with at least one block.
///
/// # Errors
/// [`crate::Error::Refused`] or [`crate::Error::Unparsable`] for an answer without one.
pub fn read_any(answer: &str) -> Result<Vec<ErrorSpan>> {
    let blocks = read(answer);
    if blocks.n_headers == 0 && blocks.entries.is_empty() {
        return Err(reading::unusable(answer, "no block of critical, major or minor errors"));
    }
    Ok(blocks.errors())
}

impl Blocks {
    /// GEMBA's score. Unit: -25..=0, higher is better; the first five errors count, worst block first.
    pub fn score(&self) -> f64 {
        let penalty: f64 = self.entries.iter().take(5).map(|(block, _)| penalty(*block)).sum();
        0.0 - penalty.min(25.0)
    }

    /// The entries as error spans, with GEMBA's penalty of their block.
    pub fn errors(&self) -> Vec<ErrorSpan> {
        let to_error = |(block, text): &(Severity, String)| {
            let (category, span) = halves(text);
            ErrorSpan { weight: penalty(*block), ..ErrorSpan::new(category, span, *block) }
        };
        self.entries.iter().map(to_error).collect()
    }
}

fn penalty(block: Severity) -> f64 {
    match block {
        Severity::Critical => 25.0,
        Severity::Major => 5.0,
        Severity::Minor => 1.0,
        Severity::Neutral => 0.0,
    }
}

/// `category - "span"` cut apart. GEMBA keeps the line whole; this changes no score.
fn halves(line: &str) -> (&str, &str) {
    match line.split_once(" - ") {
        Some((category, span)) if typology::is_known(category) => (category, span.trim().trim_matches('"')),
        None if typology::is_known(line) => (line, ""),
        _ => ("other", line),
    }
}

/// The branch for answers of another GEMBA prompt, which a model can still give.
fn read_json(answer: &str) -> Blocks {
    let errors = match serde_json::from_str::<Value>(answer) {
        Ok(answer) => answer.get("errors").cloned().unwrap_or_default(),
        Err(_) => read_broken_json(answer),
    };
    let mut blocks = Blocks::default();
    for block in BLOCKS {
        let entries = errors.get(block.name()).map(items).unwrap_or_default();
        blocks.entries.extend(entries.into_iter().map(|entry| (block, entry)));
    }
    blocks
}

/// The items of Python's `for` loop: a list's elements, a string's characters, a map's keys.
fn items(value: &Value) -> Vec<String> {
    match value {
        Value::Array(list) => list.iter().map(|v| v.as_str().map_or(v.to_string(), Into::into)).collect(),
        Value::String(text) => text.chars().map(String::from).collect(),
        Value::Object(map) => map.keys().cloned().collect(),
        _ => Vec::new(),
    }
}

/// Counts errors in JSON that does not parse: one for each word `class` after the name of a block.
fn read_broken_json(answer: &str) -> Value {
    let mut errors = Map::new();
    let mut parts = answer.split("\", \"errors\": ");
    let (Some(_), Some(tail), None) = (parts.next(), parts.next(), parts.next()) else {
        return Value::Object(errors);
    };
    let mut tail = tail.to_owned();
    tail.pop();
    if let Ok(value) = serde_json::from_str(&tail) {
        return value;
    }
    let lower = tail.to_lowercase();
    let mut block = None;
    for word in lower.split(|c: char| !c.is_alphanumeric() && c != '_') {
        if let Some(found) = BLOCKS.into_iter().find(|b| b.name() == word) {
            block = Some(found);
        } else if let (Some(block), "class") = (block, word) {
            let list = errors.entry(block.name()).or_insert_with(|| Value::Array(Vec::new()));
            list.as_array_mut().expect("only arrays are put in").push("other".into());
        }
    }
    Value::Object(errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(answer: &str, score: f64) {
        assert_eq!(read(answer).score().to_bits(), score.to_bits(), "{answer}: {}", read(answer).score());
    }

    const CANONICAL: &str = "Critical:\nno-error\nMajor:\naccuracy/mistranslation - \"involvement\"\nMinor:\n\
                             fluency/grammar - \"wäre\"\n";

    #[test]
    fn the_table_of_observed_scores() {
        check(CANONICAL, -6.0);
        check("**Critical:**\nno-error\n**Major:**\nstyle/awkward - \"x\"\n**Minor:**\nno-error", 0.0);
        check("I'm sorry, but I cannot help with that.", 0.0);
        check("The translation is fine.", 0.0);
        check("", 0.0);
        check("Critical:\nnone\nMajor:\nnone\nMinor:\nnone", -25.0);
        check("Major: accuracy/mistranslation - \"x\"", 0.0);
        check(&format!("Minor:\n{}", "style/awkward - \"x\"\n".repeat(6)), -5.0);
        check("Critical:\naccuracy/omission - \"x\"", -25.0);
        check("Major:\naccuracy/mistranslation - \"there is no error here\"", 0.0);
        check(
            "Critical:\nno-error\nMajor:\nno-error\nMinor:\nno-error\nOverall the translation is good.",
            -1.0,
        );
        check(&format!("<think>Critical? Let me see.</think>\n{CANONICAL}"), -6.0);
    }

    #[test]
    fn the_scores_of_gembas_own_parser() {
        let golden = include_str!("../../../../../tests/golden/gemba_mqm_scores.json");
        let golden: Value = serde_json::from_str(golden).unwrap();
        let cases = golden["cases"].as_array().unwrap();
        assert!(cases.len() > 600);
        for case in cases {
            check(case["answer"].as_str().unwrap(), case["score"].as_f64().unwrap());
        }
    }

    #[test]
    fn further_rules() {
        check("Minor:\nnon-translation", -25.0);
        check(&format!("Minor:\n{}Major:\nother - \"x\"", "other - \"y\"\n".repeat(9)), -9.0);
        check("Major:\na\nb\nc\nd\ne\nf", -25.0);
        check("MAJOR:\nOther - \"x\"", -5.0);
        check("\u{1c} major: \u{1f}\nother", -5.0);
    }

    #[test]
    fn the_branch_for_json() {
        let json = |errors: &str| format!("{{\"improved translation\": \"x\", \"errors\": {errors}}}");
        check(&json(r#"{"critical": [], "major": ["a"], "minor": [{"class": "b"}]}"#), -6.0);
        check(&json(r#"{"minor": "none"}"#), -4.0);
        check(&json(r#"{"major": [{"class": "a"}, {"class": "b"}"#), -10.0);
        check("{\"improved translation\": \"x\" and nothing else", 0.0);
        check(&json("[]"), 0.0);
    }

    #[test]
    fn entries_keep_their_case_and_their_span() {
        let errors = read("Major:\nAccuracy/Omission - \"The Bank\"\nwords\n").errors();
        let seen: Vec<_> = errors.iter().map(|e| (e.category.as_str(), e.span.as_str(), e.weight)).collect();
        assert_eq!(seen, [("accuracy/omission", "The Bank", 5.0), ("other", "words", 5.0)]);
    }
}
