//! Answers of HiMATE's agents: the forms of `strict`, and their readers. No model is called here.
//!
//! `strict` is JSON. `paper` reads the layout that the worked cases show: `Error Exist: Yes. Error Severity:
//! Major. ...`, `I agree with him.`

use serde::Deserialize;
use serde_json::{Value, json};

use super::quotes;
use crate::{
    Error, Preset, Result, confidence,
    llm::{Reply, ResponseFormat},
    mqm::{ErrorSpan, Severity},
    prompt::{File, Prompts, file},
    reading,
    segment::Segment,
};

pub(super) const EVALUATE: File = file!("himate/evaluate_form.j2");
const LOCATE: File = file!("himate/locate_form.j2");
const SINGLE: File = file!("himate/single_form.j2");
pub(super) const CORRECT: File = file!("himate/correct_form.j2");
pub(super) const TIER1: File = file!("himate/tier1_form.json");
pub(super) const TIER2: File = file!("himate/tier2_form.json");

pub(super) const FILES: &[File] = &[EVALUATE, LOCATE, SINGLE, CORRECT, TIER1, TIER2];

/// An error that a tier-2 agent has found.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Finding {
    /// The category's path, named by the single agent; a tier-2 agent has only one.
    #[serde(default)]
    pub category: String,
    /// Empty where the explanation of a tier-2 agent quotes nothing of the text.
    pub span: String,
    #[serde(deserialize_with = "severity")]
    pub severity: Severity,
    #[serde(default)]
    pub explanation: String,
    /// The model's confidence in the span.
    #[serde(skip)]
    pub confidence: Option<f64>,
}

impl Finding {
    /// An assessment of a subtype; its span is what the explanation quotes of the text.
    fn new(severity: Severity, explanation: String, text: &str) -> Self {
        let span = quotes::shortest(&explanation, text).unwrap_or_default().to_owned();
        Self { category: String::new(), span, severity, explanation, confidence: None }
    }

    /// The finding with the model's confidence in its span.
    pub fn weighed(self, reply: &Reply) -> Self {
        let mut named = [ErrorSpan::new("other", self.span.as_str(), self.severity)];
        confidence::note(reply, "span", &mut named);
        Self { confidence: named[0].confidence, ..self }
    }
}

/// A tier-1 agent's opinion of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opinion {
    pub exists: bool,
    pub severity: Severity,
}

/// The two answers of the comparison, of which an agent names the letter.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Comparison {
    pub corrected: String,
    pub same: String,
}

/// The letters of the first and the second answer shown.
pub(super) const LETTERS: [&str; 2] = ["A", "B"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Findings {
    errors: Vec<Finding>,
}

/// A subtype evaluation in strict: at most one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Assessments {
    errors: Vec<Assessment>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Assessment {
    #[serde(deserialize_with = "severity")]
    severity: Severity,
    #[serde(default)]
    explanation: String,
}

/// A tier-1 agent's statement in strict.
#[derive(Deserialize)]
struct Statement {
    error_exists: YesNo,
    #[serde(deserialize_with = "severity")]
    severity: Severity,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum YesNo {
    Yes,
    No,
}

fn severity<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Severity, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

/// The form of a span from the text that errors of this subtype are marked in.
pub(super) fn span_form(prompts: &Prompts, is_omission: bool, segment: &Segment) -> Result<ResponseFormat> {
    let text = if is_omission { "source" } else { "target" };
    Ok(with_texts(prompts.json(LOCATE, json!({ "text": text }))?, segment))
}

/// The form of the single agent's answer, over paths marked in the source and in the translation.
pub(super) fn single_form(
    prompts: &Prompts,
    paths: [Vec<&str>; 2],
    segment: &Segment,
) -> Result<ResponseFormat> {
    let [in_source, in_target] =
        paths.map(|paths| paths.iter().map(|path| json!(path).to_string()).collect::<Vec<_>>().join(", "));
    let values = json!({ "in_source": in_source, "in_target": in_target });
    Ok(with_texts(prompts.json(SINGLE, values)?, segment))
}

fn with_texts(schema: Value, segment: &Segment) -> ResponseFormat {
    ResponseFormat::about(schema, [("source", &segment.source), ("target", &segment.hypothesis)])
}

/// Reads a subtype evaluation; `None` is no error. `marked` is the text that errors of the subtype are marked
/// in.
///
/// # Errors
/// [`Error::Refused`] or [`Error::Unparsable`].
pub(super) fn read_evaluation(text: &str, marked: &str, preset: Preset) -> Result<Option<Finding>> {
    if preset == Preset::Strict {
        let Assessments { mut errors } = reading::json(text)?;
        if errors.len() > 1 {
            return Err(reading::unusable(text, "more than one error"));
        }
        return Ok(errors.pop().map(|found| Finding::new(found.severity, found.explanation, marked)));
    }
    if !said_yes(text, "error exist")? {
        return Ok(None);
    }
    let explanation = after(text, "explanation").unwrap_or_default().trim();
    Ok(Some(Finding::new(said_severity(text)?, explanation.into(), marked)))
}

/// Reads the words that an error affects.
///
/// # Errors
/// [`Error::Refused`] or [`Error::Unparsable`], also for an empty span.
pub(super) fn read_span(text: &str) -> Result<String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Answer {
        span: String,
    }
    let Answer { span } = reading::json(text)?;
    if span.is_empty() { Err(reading::unusable(text, "an empty span")) } else { Ok(span) }
}

/// Reads the single agent's answer: all of it in `strict`, from the first `{` to the last `}` in `paper`.
///
/// # Errors
/// [`Error::Refused`] or [`Error::Unparsable`].
pub(super) fn read_single(text: &str, preset: Preset) -> Result<Vec<Finding>> {
    let object = match (preset, text.find('{'), text.rfind('}')) {
        (Preset::Strict, ..) => text,
        (_, Some(open), Some(close)) if open < close => &text[open..=close],
        _ => return Err(reading::unusable(text, "no JSON object")),
    };
    let Findings { errors } = reading::json(object)?;
    if errors.iter().any(|error| error.category.is_empty()) {
        return Err(reading::unusable(text, "an error has no category"));
    }
    Ok(errors)
}

/// Reads a correction of a translation.
///
/// # Errors
/// [`Error::Refused`], also for free text that begins as refusals do where the translation does not;
/// [`Error::Unparsable`], also for an empty text.
pub(super) fn read_correction(text: &str, translation: &str, preset: Preset) -> Result<String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Answer {
        correction: String,
    }
    let correction = match preset {
        Preset::Strict => reading::json(text).map(|Answer { correction }| correction)?,
        _ => text.trim().to_owned(),
    };
    let unusable = reading::unusable(text, "no correction");
    let declines = |error: &Error| matches!(error, Error::Refused(_));
    let is_refusal = declines(&unusable) && !declines(&reading::unusable(translation, ""));
    if correction.is_empty() || is_refusal { Err(unusable) } else { Ok(correction) }
}

/// Reads a comparison: whether the correction has removed the error. It is one of [`LETTERS`], alone or
/// before its sentence, or one of the two sentences.
///
/// # Errors
/// [`Error::Refused`] or [`Error::Unparsable`]: neither answer or both.
pub(super) fn read_comparison(text: &str, answers: &Comparison) -> Result<bool> {
    let plain = |text: &str| text.trim().trim_end_matches('.').to_lowercase();
    let (answer, letter) = (plain(text), letter(text));
    let says = |nth: usize, sentence: &str| letter == Some(LETTERS[nth]) || answer.contains(&plain(sentence));
    match (says(0, &answers.corrected), says(1, &answers.same)) {
        (true, false) => Ok(true),
        (false, true) => Ok(false),
        _ => Err(reading::unusable(text, "the comparison says neither of its two answers")),
    }
}

/// The letter that an answer begins with, unless it is the first of a word or a word of a sentence.
fn letter(text: &str) -> Option<&'static str> {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || "\"'“‘*(".contains(c));
    let ends = |tail: &str| {
        tail.trim_end().is_empty() || tail.starts_with(['.', ')', ':', ',', '"', '\'', '”', '’', '*', '\n'])
    };
    LETTERS.into_iter().find(|letter| text.strip_prefix(letter).is_some_and(ends))
}

/// Reads a tier-1 agent's statement. In `paper` its consent stands for the opinion that it agrees with.
///
/// # Errors
/// [`Error::Refused`] or [`Error::Unparsable`].
pub(super) fn read_opinion(text: &str, preset: Preset, evaluated: Opinion) -> Result<Opinion> {
    if preset != Preset::Strict {
        if matches!(read_consent(text, preset), Ok(true)) {
            return Ok(evaluated);
        }
        return Ok(Opinion { exists: said_yes(text, "error exist")?, severity: said_severity(text)? });
    }
    let Statement { error_exists, severity } = reading::json(text)?;
    Ok(Opinion { exists: error_exists == YesNo::Yes, severity })
}

/// Reads a tier-2 agent's statement; true if it agrees.
///
/// # Errors
/// [`Error::Refused`] or [`Error::Unparsable`].
pub(super) fn read_consent(text: &str, preset: Preset) -> Result<bool> {
    if preset == Preset::Strict {
        #[derive(Deserialize)]
        struct Answer {
            agree: YesNo,
        }
        return reading::json(text).map(|Answer { agree }| agree == YesNo::Yes);
    }
    let answer = text.trim_start().trim_start_matches('"').to_lowercase().replace('’', "'");
    let begins = |words: &[&str]| words.iter().any(|word| answer.starts_with(word));
    if begins(&["i disagree", "i do not agree", "i don't agree", "no,"]) {
        return Ok(false);
    }
    if begins(&["i agree", "yes"]) {
        Ok(true)
    } else {
        Err(reading::unusable(text, "neither consent nor dissent"))
    }
}

/// The word after a label: `yes` or `no`.
fn said_yes(text: &str, label: &str) -> Result<bool> {
    let word = after(text, label).map(|tail| first_word(tail).to_lowercase());
    match word.as_deref() {
        Some("yes") => Ok(true),
        Some("no") => Ok(false),
        _ => Err(reading::unusable(text, &format!("no `{label}: yes` or `no`"))),
    }
}

fn said_severity(text: &str) -> Result<Severity> {
    let word = after(text, "error severity").map(first_word).unwrap_or_default();
    word.parse().map_err(|_| reading::unusable(text, "no severity after `Error Severity:`"))
}

/// The text after the first `label:`, in any case and emphasis.
fn after<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    let lower = text.to_ascii_lowercase();
    let tail = &text[lower.find(label)? + label.len()..];
    let tail = tail.trim_start_matches('s').trim_start_matches('*').trim_start();
    tail.strip_prefix(':').map(|tail| tail.trim_start_matches(['*', ' ']))
}

fn first_word(text: &str) -> &str {
    let text = text.trim_start_matches(|c: char| !c.is_alphabetic());
    text.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison() -> Comparison {
        serde_json::from_str(include_str!("comparison.json")).unwrap()
    }

    #[test]
    fn the_layout_of_the_worked_cases() {
        let evaluated = Opinion { exists: true, severity: Severity::Major };
        let opinion =
            |text: &str| read_opinion(text, Preset::Paper, evaluated).ok().map(|o| (o.exists, o.severity));
        let table_12 = "Error Exist: Yes Error Severity: Major. The evaluator's assessment is correct.";
        assert_eq!(opinion(table_12), Some((true, Severity::Major)));
        assert_eq!(
            opinion("Error Exist: No. Error Severity: Neutral. It is fine."),
            Some((false, Severity::Neutral))
        );
        assert_eq!(opinion("**Error Exist:** yes\n**Error Severity:** Minor"), Some((true, Severity::Minor)));
        assert_eq!(opinion("I agree with him."), Some((true, Severity::Major)));
        assert_eq!(opinion("It exists."), None);
        assert_eq!(opinion("Error Exist: Yes. Error Severity: bad."), None);
        assert_eq!(read_consent("I agree with him.", Preset::Paper).ok(), Some(true));
        assert_eq!(read_consent("I don’t agree with him.", Preset::Paper).ok(), Some(false));
        assert_eq!(read_consent("Perhaps.", Preset::Paper).ok(), None);
    }

    #[test]
    fn comparisons_say_one_of_two_answers() {
        let read = |text: &str| read_comparison(text, &comparison()).ok();
        assert_eq!(read("Error has been corrected."), Some(true));
        let same =
            "No significant difference between the original translation and the corrected Translation.";
        assert_eq!(read(same), Some(false));
        assert_eq!(read(&format!("\"{}\"", same.to_lowercase())), Some(false));
        for (text, said) in [
            ("A", Some(true)),
            ("B", Some(false)),
            (" 'B'.\n", Some(false)),
            ("**A**", Some(true)),
            ("A. Error has been corrected.", Some(true)),
            ("B) It is the same.", Some(false)),
            (
                "A. No significant difference between the original translation and the corrected translation",
                None,
            ),
            ("A or B", None),
            ("A correction was made.", None),
            ("Better", None),
            ("a", None),
        ] {
            assert_eq!(read(text), said, "{text}");
        }
        assert_eq!(read("It is better."), None);
        assert_eq!(read(&format!("Error has been corrected. {same}")), None);
    }

    #[test]
    fn a_refusal_is_no_correction() {
        let read = |text: &str, translation: &str| read_correction(text, translation, Preset::Paper).ok();
        assert_eq!(read(" Er ging.\n", "Er geht.").as_deref(), Some("Er ging."));
        assert_eq!(read("I'm sorry, I cannot help.", "Er geht."), None);
        assert!(read("I'm sorry for the delay.", "I am sorry about the delay.").is_some());
        assert_eq!(read("", "Er geht."), None);
    }

    #[test]
    fn evaluations() {
        let text = "I hope you know about it.";
        let read = |answer: &str, preset| read_evaluation(answer, text, preset);
        let lines = "Error Exist: Yes\nError Severity: Minor\nExplanation: \"know\" is\ntoo weak.";
        let found = read(lines, Preset::Paper).unwrap().unwrap();
        assert_eq!(
            (found.span.as_str(), found.severity, found.explanation.as_str()),
            ("know", Severity::Minor, "\"know\" is\ntoo weak.")
        );
        assert_eq!(read("Error Exist: No", Preset::Paper).unwrap(), None);
        let bare = read("Error Exist: Yes\nError Severity: Minor", Preset::Paper).unwrap().unwrap();
        assert_eq!((bare.span.as_str(), bare.explanation.as_str()), ("", ""));
        assert!(read("Error Exist: Yes", Preset::Paper).is_err());
        assert!(read("", Preset::Paper).is_err());
        assert_eq!(read(r#"{"errors": []}"#, Preset::Strict).unwrap(), None);
        let one = r#"{"severity": "Major", "explanation": ""}"#;
        assert!(read(&format!(r#"{{"errors": [{one}]}}"#), Preset::Strict).unwrap().is_some());
        assert!(read(&format!(r#"{{"errors": [{one}, {one}]}}"#), Preset::Strict).is_err());
        assert!(read_span(r#"{"span": ""}"#).is_err());
        assert_eq!(read_span(r#"{"span": "it"}"#).unwrap(), "it");
    }
}
