//! Checks that every judge makes before it reads an answer: it must be complete, no refusal, and JSON where
//! JSON was requested. Layouts of single methods are read in the methods.

use regex::Regex;
use serde::de::DeserializeOwned;

use super::{Error, Result};
use crate::llm::{Finish, Reply};

/// Beginnings of refusals.
const REFUSALS: &[&str] = &[
    "i'm sorry",
    "i am sorry",
    "sorry,",
    "i apologize, but",
    "i apologise, but",
    "i cannot",
    "i can't",
    "i can not",
    "i'm unable",
    "i am unable",
    "i'm not able",
    "i am not able",
    "i won't",
    "i will not",
    "as an ai",
    "unfortunately, i",
];

/// A constant pattern.
///
/// # Panics
/// When it does not compile.
pub fn pattern(source: &str) -> Regex {
    Regex::new(source).expect("the pattern is a constant that compiles")
}

/// The text of an answer, provided that its budget did not cut it.
///
/// # Errors
/// [`Error::Truncated`].
pub fn whole(reply: &Reply, max_tokens: usize) -> Result<&str> {
    if reply.finish == Finish::Length { Err(Error::Truncated(max_tokens)) } else { Ok(&reply.text) }
}

/// A text without the space around it, as under Python's `str.strip`: the four separators U+001C to U+001F
/// are space too.
pub fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// A text without the space at its start, as under Python's `str.lstrip`.
pub fn strip_start(text: &str) -> &str {
    text.trim_start_matches(is_space)
}

fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// An answer read as JSON of exactly this type; only white space may surround it.
///
/// # Errors
/// [`Error::Refused`] or [`Error::Unparsable`] with the reason.
pub fn json<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text.trim()).map_err(|e| unusable(text, &format!("not the JSON asked for, {e}")))
}

/// The error for an answer that cannot be used: a refusal if it plainly reads like one, otherwise unparsable
/// for this reason.
pub fn unusable(text: &str, reason: &str) -> Error {
    let start = text.trim_start().to_lowercase().replace('’', "'");
    if REFUSALS.iter().any(|refusal| start.starts_with(refusal)) {
        return Error::Refused(head(text));
    }
    Error::Unparsable(format!("{reason}: `{}`", head(text)))
}

/// The first 80 characters, on one line.
fn head(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(80) {
        Some((cut, _)) => format!("{}...", &line[..cut]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_from_nonsense() {
        assert!(matches!(unusable("I’m sorry, but I can't help.", "r"), Error::Refused(_)));
        assert!(matches!(unusable("  As an AI, ...", "r"), Error::Refused(_)));
        assert!(matches!(unusable("The translation is sorry.", "r"), Error::Unparsable(_)));
        let long = unusable(&"x y\n".repeat(60), "no blocks").to_string();
        assert!(long.starts_with("no blocks: `x y x y") && long.ends_with("...`"), "{long}");
    }

    #[test]
    fn json_of_the_type_only() {
        assert_eq!(json::<Vec<u8>>(" [1,2]\n").unwrap(), [1, 2]);
        assert!(matches!(json::<Vec<u8>>("[1,2] ok"), Err(Error::Unparsable(_))));
        assert!(matches!(json::<Vec<u8>>("I cannot do that"), Err(Error::Refused(_))));
    }

    #[test]
    fn a_cut_answer_is_not_an_answer() {
        let reply = Reply { finish: Finish::Length, ..Reply::default() };
        assert!(matches!(whole(&reply, 7), Err(Error::Truncated(7))));
    }
}
