//! Added tokens: their occurrences in a text, and the choice among them. It normalizes nothing.
//!
//! Source: `AddedVocabulary::find_matches` of Hugging Face's `tokenizers`, with one difference: a control
//! token counts only where its name is not data.

use std::ops::Range;

use aho_corasick::{AhoCorasick, Anchored, Input, MatchKind, StartKind};
use regex::Regex;
use tokenizers::{AddedToken, NormalizedString, Normalizer, NormalizerWrapper};

use super::{Error, Result};

/// An added token and its id.
#[derive(Clone, Debug)]
pub(super) struct Added {
    pub id: u32,
    pub token: AddedToken,
    /// True if only a template may produce it.
    pub is_control: bool,
}

/// The parts of a text in which control tokens count.
#[derive(Clone, Copy, Debug)]
pub(super) enum Control<'b> {
    /// All: the text is a template's.
    Everywhere,
    /// None: the text is data.
    Nowhere,
    /// Names without any of these byte offsets, in ascending order, inside them.
    Unbroken(&'b [usize]),
}

impl Control<'_> {
    /// Returns true if a control token counts whose name is at these bytes.
    pub fn counts(self, name: &Range<usize>) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Nowhere => false,
            Self::Unbroken(breaks) => {
                let next = breaks.partition_point(|&at| at <= name.start);
                breaks.get(next).is_none_or(|&at| at >= name.end)
            }
        }
    }

    /// Returns true if a control token counts whose name was found in a normalized or merged form of
    /// `text[at]`: `text[at]` must be exactly the name, so that no look-alike in data becomes a control
    /// token.
    pub fn counts_in(self, text: &str, at: Option<Range<usize>>, name: &str) -> bool {
        if !matches!(self, Self::Unbroken(_)) {
            return self.counts(&(0..0));
        }
        let Some((at, spelled)) = at.and_then(|at| Some((at.start, text.get(at)?))) else { return false };
        spelled.find(name).is_some_and(|start| self.counts(&(at + start..at + start + name.len())))
    }
}

/// A part of a text: an added token's id, or a range for the model.
pub(super) type Part = (Option<u32>, Range<usize>);

/// The added tokens of a tokenizer: those that are found in the original text, and those in the normalized
/// text.
pub(super) struct AddedTokens {
    pub plain: Matcher,
    pub normalized: Matcher,
}

impl AddedTokens {
    pub fn new(added: &[Added], normalizer: Option<&NormalizerWrapper>) -> Result<Self> {
        let broken = |e: &dyn std::fmt::Display| Error::Vocabulary(e.to_string());
        let (mut plain, mut normalized) = (Vec::new(), Vec::new());
        for added in added {
            if !added.token.normalized {
                plain.push((added.token.content.clone(), added.clone()));
                continue;
            }
            let mut pattern = NormalizedString::from(added.token.content.as_str());
            if let Some(normalizer) = normalizer {
                normalizer.normalize(&mut pattern).map_err(|e| broken(&e))?;
            }
            normalized.push((pattern.get().to_owned(), added.clone()));
        }
        Ok(Self { plain: Matcher::new(plain)?, normalized: Matcher::new(normalized)? })
    }
}

/// Finds tokens in a text, the leftmost first, and of those the longest.
pub(super) struct Matcher {
    automaton: AhoCorasick,
    tokens: Vec<Added>,
    word_before: Regex,
    word_after: Regex,
}

impl Matcher {
    fn new(patterns: Vec<(String, Added)>) -> Result<Self> {
        let (patterns, tokens): (Vec<_>, Vec<_>) =
            patterns.into_iter().filter(|(pattern, _)| !pattern.is_empty()).unzip();
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .start_kind(StartKind::Both)
            .build(&patterns)
            .map_err(|e| Error::Vocabulary(e.to_string()))?;
        let regex = |pattern| Regex::new(pattern).expect("it is a valid expression");
        Ok(Self { automaton, tokens, word_before: regex(r"\w$"), word_after: regex(r"^\w") })
    }

    /// Cuts a text at the tokens in it. `counts` returns true if a control token counts at these bytes; where
    /// it does not, a shorter one may.
    pub fn split(&self, text: &str, counts: impl Fn(&Added, &Range<usize>) -> bool) -> Vec<Part> {
        let mut parts = Vec::new();
        // The position to search from, and the start of the part before the next token.
        let (mut at, mut begin) = (0, 0);
        let mut limit = None;
        while at < text.len() {
            let input = match limit {
                None => Input::new(text).span(at..text.len()),
                Some(end) => Input::new(text).span(at..end).anchored(Anchored::Yes),
            };
            let Some(found) = self.automaton.find(input) else {
                if limit.take().is_none() {
                    break;
                }
                at += text[at..].chars().next().map_or(1, char::len_utf8);
                continue;
            };
            let token = &self.tokens[found.pattern().as_usize()];
            if token.is_control && !counts(token, &found.range()) {
                (at, limit) = (found.start(), Some(found.end() - 1));
                continue;
            }
            (at, limit) = (found.end(), None);
            if token.token.single_word && self.is_in_a_word(text, &found.range()) {
                continue;
            }
            let range = with_spaces(&token.token, text, found.range(), begin);
            if begin < range.start {
                parts.push((None, begin..range.start));
            }
            begin = range.end;
            parts.push((Some(token.id), range));
        }
        if begin < text.len() {
            parts.push((None, begin..text.len()));
        }
        parts
    }

    fn is_in_a_word(&self, text: &str, found: &Range<usize>) -> bool {
        // One character decides: the expressions are not run over the whole text.
        let last = text[..found.start].chars().next_back().map_or(0, char::len_utf8);
        let before = &text[found.start - last..found.start];
        self.word_before.is_match(before) || self.word_after.is_match(&text[found.end..])
    }
}

/// A token with the white space that it takes in on its left and right; on its left at most from `begin`.
fn with_spaces(token: &AddedToken, text: &str, found: Range<usize>, begin: usize) -> Range<usize> {
    let (mut start, mut end) = (found.start, found.end);
    if token.lstrip {
        start = text[..start].trim_end().len().max(begin);
    }
    if token.rstrip {
        end = text.len() - text[end..].trim_start().len();
    }
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matcher(tokens: &[AddedToken]) -> Matcher {
        let added =
            |(id, token): (u32, &AddedToken)| Added { id, token: token.clone(), is_control: token.special };
        let added: Vec<Added> = (0..).zip(tokens).map(added).collect();
        AddedTokens::new(&added, None).unwrap().plain
    }

    fn token(content: &str) -> AddedToken {
        AddedToken::from(content, true)
    }

    #[track_caller]
    fn check(tokens: &[AddedToken], control: Control<'_>, text: &str, expected: &[(Option<u32>, &str)]) {
        let parts = matcher(tokens).split(text, |_, at| control.counts(at));
        let parts: Vec<_> = parts.into_iter().map(|(id, at)| (id, &text[at])).collect();
        assert_eq!(parts, expected, "{text:?}");
    }

    #[test]
    fn the_leftmost_and_longest_counts() {
        let tokens = [token("<s>"), token("<s>>"), AddedToken::from("\n\n", false).normalized(false)];
        let all = Control::Everywhere;
        check(
            &tokens,
            all,
            "a<s>>b\n\n\n",
            &[(None, "a"), (Some(1), "<s>>"), (None, "b"), (Some(2), "\n\n"), (None, "\n")],
        );
        check(&tokens, all, "", &[]);
    }

    #[test]
    fn a_broken_name_is_none_but_a_shorter_one_in_front_of_the_break_is() {
        let tokens = [token("<s>"), token("<s>>"), AddedToken::from("s>", false).normalized(false)];
        check(&tokens, Control::Unbroken(&[3]), "<s>>", &[(Some(0), "<s>"), (None, ">")]);
        check(&tokens, Control::Unbroken(&[2]), "<s>>", &[(None, "<"), (Some(2), "s>"), (None, ">")]);
        check(&tokens, Control::Unbroken(&[0, 4]), "<s>>", &[(Some(1), "<s>>")]);
        check(
            &tokens,
            Control::Nowhere,
            "<s><é<s>",
            &[(None, "<"), (Some(2), "s>"), (None, "<é<"), (Some(2), "s>")],
        );
    }

    #[test]
    fn spaces_and_words() {
        let mut strip = token("<s>");
        (strip.lstrip, strip.rstrip) = (true, true);
        let all = Control::Everywhere;
        let expected = [(None, "a"), (Some(0), " \n<s>\t"), (Some(0), "<s>"), (None, "b")];
        check(&[strip], all, "a \n<s>\t<s>b", &expected);
        let word = AddedToken::from("new", false).normalized(false).single_word(true);
        check(
            &[word],
            all,
            "new news renew é_new.new",
            &[(Some(0), "new"), (None, " news renew é_new."), (Some(0), "new")],
        );
    }

    #[test]
    fn a_look_alike_is_no_name() {
        let text = "\u{ff1c}s\u{ff1e}<s>";
        let control = Control::Unbroken(&[]);
        assert!(!control.counts_in(text, Some(0..7), "<s>"));
        assert!(control.counts_in(text, Some(0..10), "<s>"));
        assert!(!control.counts_in(text, None, "<s>"));
        assert!(Control::Everywhere.counts_in(text, None, "<s>"));
        assert!(!Control::Nowhere.counts_in(text, Some(7..10), "<s>"));
    }
}
