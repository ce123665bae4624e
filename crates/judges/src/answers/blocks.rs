//! The form of `strict` answers in blocks of severity, for GEMBA-MQM and GEMBA-ESA, and its parser.
//! Unconstrained answers are read in [`printed`].
//!
//! ```text
//! Critical:
//! no-error
//! Major:
//! accuracy/omission - "the account holder"
//! Minor:
//! fluency/grammar - "wäre"
//! ```
//!
//! Categories are those of the prompt. An omission takes its span from the source, all else from the
//! translation, verbatim and on one line. Since GEMBA weighs a non-translation as critical wherever it is
//! named, only the worst block can name one. A double quote ends a span, so that no span holds one.

use crate::{
    Result,
    llm::{Layout, ResponseFormat},
    mqm::{ErrorSpan, Severity},
    reading,
};

pub mod printed;

const NO_ERROR: &str = "no-error";

/// Categories whose span is copied from the translation, and those whose span is copied from the source.
const TARGET_CATEGORIES: &[&str] = &[
    "accuracy/addition",
    "accuracy/mistranslation",
    "accuracy/untranslated text",
    "fluency/character encoding",
    "fluency/grammar",
    "fluency/inconsistency",
    "fluency/punctuation",
    "fluency/register",
    "fluency/spelling",
    "style/awkward",
    "terminology/inappropriate for context",
    "terminology/inconsistent use",
    "other",
];
const SOURCE_CATEGORIES: &[&str] = &["accuracy/omission"];
const NON_TRANSLATION: &str = "non-translation";

/// The blocks of a method, worst first.
pub const MQM: &[Severity] = &[Severity::Critical, Severity::Major, Severity::Minor];
pub const ESA: &[Severity] = &[Severity::Major, Severity::Minor];

/// The form of an answer about these texts, with at most this many errors in a block.
pub fn form(blocks: &[Severity], max_errors: usize, source: &str, target: &str) -> ResponseFormat {
    let block = |(idx, severity): (usize, &Severity)| {
        let lead = if idx == 0 { "" } else { "\n" };
        let target_categories: Vec<&str> =
            TARGET_CATEGORIES.iter().copied().chain((idx == 0).then_some(NON_TRANSLATION)).collect();
        let entry = Layout::OneOf(vec![
            entries(&target_categories, "translation"),
            entries(SOURCE_CATEGORIES, "source"),
        ]);
        let errors = Layout::OneOf(vec![
            format!("\n{NO_ERROR}").into(),
            Layout::sequence(["\n".into(), entry]).repeat(1, Some(max_errors)),
        ]);
        Layout::sequence([format!("{lead}{}:", title(*severity)).into(), errors])
    };
    let layout = Layout::Sequence(blocks.iter().enumerate().map(block).collect());
    let texts = [("source", source), ("translation", target)];
    ResponseFormat::Layout {
        layout,
        texts: texts.map(|(name, text)| (name.to_owned(), text.to_owned())).into(),
    }
}

/// `category - "span"` with a span of this text.
fn entries(categories: &[&str], text: &str) -> Layout {
    Layout::sequence([Layout::one_of(categories.iter().copied()), " - ".into(), Layout::quoted([text])])
}

fn title(severity: Severity) -> String {
    let name = severity.name();
    name[..1].to_uppercase() + &name[1..]
}

/// Reads an answer about these texts in the layout that [`form`] enforces, and just as strictly: a span that
/// is not in its text makes it unusable, and so does a non-translation outside the worst block.
///
/// # Errors
/// [`crate::Error::Refused`] or [`crate::Error::Unparsable`] for any other answer.
pub fn read(blocks: &[Severity], answer: &str, source: &str, target: &str) -> Result<Vec<ErrorSpan>> {
    let unusable = |reason: &str| reading::unusable(answer, reason);
    let headers: Vec<String> = blocks.iter().map(|severity| format!("{}:", title(*severity))).collect();
    let mut lines = answer.trim().lines().peekable();
    let mut errors = Vec::new();
    for (severity, header) in blocks.iter().zip(&headers) {
        if lines.next() != Some(header) {
            return Err(unusable(&format!("`{header}` is not where it belongs")));
        }
        let (n_before, mut n_free) = (errors.len(), 0);
        while let Some(line) = lines.next_if(|line| headers.iter().all(|header| header != line)) {
            if line == NO_ERROR {
                n_free += 1;
                continue;
            }
            let entry = read_entry(line, source, target)
                .filter(|(category, _)| *category != NON_TRANSLATION || Some(severity) == blocks.first());
            let (category, span) = entry
                .ok_or_else(|| unusable(&format!("`{line}` is not an error that `{header}` can hold")))?;
            errors.push(ErrorSpan::new(category, span, *severity));
        }
        if n_free != usize::from(errors.len() == n_before) {
            return Err(unusable(&format!("`{header}` must be followed by errors or by one `{NO_ERROR}`")));
        }
    }
    if lines.next().is_some() { Err(unusable("something follows the last block")) } else { Ok(errors) }
}

/// Category and span of `category - "span"`, where the category has such a span.
fn read_entry<'a>(line: &'a str, source: &str, target: &str) -> Option<(&'a str, &'a str)> {
    let (category, tail) = line.split_once(" - \"")?;
    let span = tail.strip_suffix('"').filter(|span| !span.is_empty())?;
    let is_of = |categories: &[&str], text: &str| categories.contains(&category) && text.contains(span);
    let is_error = is_of(TARGET_CATEGORIES, target)
        || is_of(&[NON_TRANSLATION], target)
        || is_of(SOURCE_CATEGORIES, source);
    is_error.then_some((category, span))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(blocks: &[Severity], answer: &str) -> String {
        match read(blocks, answer, "the end", "all - of it: Major: no-error") {
            Ok(errors) => {
                let line = |e: &ErrorSpan| format!("{} {} `{}`", e.severity, e.category, e.span);
                errors.iter().map(line).collect::<Vec<_>>().join("; ")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn answers_in_the_layout() {
        assert_eq!(seen(ESA, "Major:\nno-error\nMinor:\nno-error\n"), "");
        assert_eq!(
            seen(
                MQM,
                "Critical:\nnon-translation - \"all - of\"\nMajor:\naccuracy/omission - \"the\"\nother - \"Major:\"\n\
                 Minor:\nno-error"
            ),
            "critical non-translation `all - of`; major accuracy/omission `the`; major other `Major:`"
        );
    }

    #[test]
    fn anything_else_is_unusable() {
        let check = |answer: &str, reason: &str| {
            assert!(seen(ESA, answer).starts_with(reason), "{answer}: {}", seen(ESA, answer));
        };
        check("", "`Major:` is not where it belongs");
        check("Minor:\nno-error\nMajor:\nno-error", "`Major:` is not where it belongs");
        check("Major:\nno-error", "`Minor:` is not where it belongs");
        check("Major:\nMinor:\nno-error", "`Major:` must be followed by errors or by one `no-error`");
        check("Major:\nno-error\nother - \"it\"\nMinor:\nno-error", "`Major:` must be followed");
        check(
            "Major:\nno-error\nMinor:\nother - \"\"",
            "`other - \"\"` is not an error that `Minor:` can hold",
        );
        check("Major:\nno-error\nMinor:\nThe verb - \"it\"", "`The verb - \"it\"` is not an error");
        check("Major:\nno-error\nMinor:\nother - \"the\"", "`other - \"the\"` is not an error");
        check(
            "Major:\naccuracy/omission - \"it\"\nMinor:\nno-error",
            "`accuracy/omission - \"it\"` is not an error",
        );
        check(
            "Major:\nno-error\nMinor:\nnon-translation - \"no-error\"",
            "`non-translation - \"no-error\"` is not",
        );
        check("Major:\nno-error\nMinor:\nno-error\nMajor:\nno-error", "something follows the last block");
        check("I'm sorry, but I cannot.", "the model declined");
    }

    #[test]
    fn a_non_translation_can_only_be_named_in_the_worst_block() {
        let named = |part: &Layout| format!("{part:?}").contains(NON_TRANSLATION);
        for blocks in [MQM, ESA] {
            let ResponseFormat::Layout { layout: Layout::Sequence(parts), .. } = form(blocks, 5, "a", "b")
            else {
                panic!("a sequence of blocks")
            };
            assert_eq!(parts.len(), blocks.len());
            assert!(named(&parts[0]) && !parts[1..].iter().any(named));
        }
    }
}
