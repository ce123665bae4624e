//! Implausible spans: a single letter, or part of a word. Word boundaries are checked only in scripts with
//! spaces between words.

use std::ops::Range;

use regex::Regex;

use crate::{
    mqm::{ErrorSpan, Side},
    record::Record,
};

/// Letters, marks and digits, but for scripts that write words without spaces, and for Hangul, whose
/// particles belong to the written word and are judged by themselves.
const WORD: &str = r"[[\p{L}\p{M}\p{Nd}]--[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}\p{Yi}\p{Javanese}]]+";

/// Finds words.
pub struct Words(Regex);

impl Words {
    pub fn new() -> Self {
        Self(Regex::new(WORD).expect("the expression is well-formed"))
    }

    /// The implausibility of an error's span, for errors that pass [`is_placed`]; `None` for a plausible
    /// span.
    pub fn oddity(&self, record: &Record, error: &ErrorSpan) -> Option<String> {
        let text = text_of(record, error);
        let bytes = place(text, error)?;
        let span = &text[bytes.clone()];
        let cut = self.0.find_iter(text).find(|word| {
            let is_inside = |at: usize| word.start() < at && at < word.end();
            is_inside(bytes.start) || is_inside(bytes.end)
        });
        if let Some(word) = cut {
            return Some(format!("`{span}` in `{}`", word.as_str()));
        }
        let mut letters = span.chars();
        let is_letter = letters.next().is_some_and(|c| c.is_alphabetic() && self.0.is_match(span));
        (is_letter && letters.next().is_none()).then(|| format!("`{span}`"))
    }
}

/// Returns true if the span of an error stands in its text.
pub fn is_placed(record: &Record, error: &ErrorSpan) -> bool {
    place(text_of(record, error), error).is_some()
}

fn text_of<'a>(record: &'a Record, error: &ErrorSpan) -> &'a str {
    if error.side == Side::Target { &record.hypothesis } else { &record.source }
}

/// The bytes of a span that is not empty.
fn place(text: &str, error: &ErrorSpan) -> Option<Range<usize>> {
    let bytes = byte_at(text, error.start?)?..byte_at(text, error.end?)?;
    (!text.get(bytes.clone())?.is_empty()).then_some(bytes)
}

/// The byte at which the `n`-th character of a text starts, or at which the text ends.
fn byte_at(text: &str, n: usize) -> Option<usize> {
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(n)
}
