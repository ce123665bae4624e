//! Errors found without a model: characters of the source that were left untranslated, and words that a
//! translation repeats without end. Each is certain enough for an explanation in words. They do not change
//! the score.
//!
//! Raters marked the errors of these checks too (WMT23, en-de and zh-en, `tests/all/judges_wmt23.rs`). Copied
//! runs of words and numbers that differ do not reach that: quotations and years are often right unchanged.

use std::{ops::Range, sync::LazyLock};

use regex::Regex;
use unicode_segmentation::UnicodeSegmentation;

use crate::{
    mqm::{ErrorSpan, Severity},
    reading::pattern,
    segment::Segment,
    tagged,
};

/// Languages that are written with Chinese characters.
const WITH_HAN: &[&str] =
    &["zh", "ja", "ko", "yue", "wuu", "lzh", "nan", "hak", "gan", "hsn", "cdo", "cjy", "mnp"];

/// Longest phrase, in words, whose repetitions are looked for.
const LONGEST_PHRASE: usize = 12;

/// Number of times in a row of one word, or of a phrase of several, from which it is an error.
const OF_WORD: usize = 4;
const OF_PHRASE: usize = 3;

static HAN: LazyLock<Regex> = LazyLock::new(|| pattern(r"\p{Han}+"));

/// The errors found without a model, in the order of the text.
pub fn errors(segment: &Segment) -> Vec<ErrorSpan> {
    let mut errors = left_as_they_are(segment);
    errors.extend(repeated(segment));
    errors.sort_by_key(|error| error.start);
    errors
}

/// Chinese characters of the source in a language that has none.
fn left_as_they_are(segment: &Segment) -> Vec<ErrorSpan> {
    if WITH_HAN.contains(&segment.tgt_lang.language()) {
        return Vec::new();
    }
    let text = &segment.hypothesis;
    let of_source = HAN.find_iter(text).filter(|run| segment.source.contains(run.as_str()));
    let mut runs: Vec<(&str, Range<usize>)> =
        of_source.map(|run| (run.as_str(), tagged::whole(text, run.range()))).collect();
    runs.dedup_by(|second, first| second.1 == first.1);
    let error = |(run, place): (&str, Range<usize>)| {
        let named = format!("`{run}` stands in the source and is not translated");
        span("accuracy/untranslated text", text, place).explained(named)
    };
    runs.into_iter().map(error).collect()
}

/// Words repeated in a row, where the source does not repeat any.
fn repeated(segment: &Segment) -> Vec<ErrorSpan> {
    let text = &segment.hypothesis;
    let in_source = loops(&words(&segment.source)).into_iter().any(|found| found.times >= OF_PHRASE);
    if in_source {
        return Vec::new();
    }
    let words = words(text);
    let is_error = |found: &Loop| {
        let least = if found.period == 1 { OF_WORD } else { OF_PHRASE };
        let is_word = words[found.first].text.chars().nth(1).is_some(); // not `ha ha`'s letters, nor `0 0 0`
        found.times >= least && (found.period > 1 || is_word)
    };
    let error = |found: Loop| {
        let (first, last) = (&words[found.first], &words[found.first + found.period * found.times - 1]);
        let all = tagged::whole(text, first.start..last.end);
        let phrase = &text[first.start..words[found.first + found.period - 1].end];
        let named =
            format!("`{phrase}` stands here {} times in a row, in the source nothing does", found.times);
        span("accuracy/addition", text, all).explained(named)
    };
    loops(&words).into_iter().filter(is_error).map(error).collect()
}

/// A word, in bytes of its text.
struct Word<'a> {
    text: &'a str,
    /// The compared form: a phrase that begins a sentence begins with a capital the first time only.
    lower: String,
    start: usize,
    end: usize,
    /// Only blanks, commas and stops stand between this word and the one before.
    goes_on: bool,
}

fn words(text: &str) -> Vec<Word<'_>> {
    let mut end = 0;
    let pieces = text.unicode_word_indices();
    pieces
        .map(|(start, piece)| {
            let between = &text[end..start];
            end = start + piece.len();
            let goes_on = between.chars().all(|c| c.is_whitespace() || ",.;、，。".contains(c));
            Word { text: piece, lower: piece.to_lowercase(), start, end, goes_on }
        })
        .collect()
}

/// Words that stand several times in a row.
struct Loop {
    /// The first word's number.
    first: usize,
    /// Words of the phrase.
    period: usize,
    times: usize,
}

/// All loops, each with its shortest phrase.
fn loops(words: &[Word<'_>]) -> Vec<Loop> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < words.len() {
        let period = (1..=LONGEST_PHRASE).find(|&period| times(words, at, period) > 1);
        at += period.map_or(1, |period| {
            let times = times(words, at, period);
            found.push(Loop { first: at, period, times });
            period * times
        });
    }
    found
}

/// Number of times in a row of the phrase of `period` words at `at`.
fn times(words: &[Word<'_>], at: usize, period: usize) -> usize {
    let same = (at + period..words.len())
        .take_while(|&i| words[i].goes_on && words[i].lower == words[i - period].lower)
        .count();
    same / period + 1
}

fn span(category: &str, text: &str, bytes: Range<usize>) -> ErrorSpan {
    let chars = |at: usize| text[..at].chars().count();
    ErrorSpan {
        start: Some(chars(bytes.start)),
        end: Some(chars(bytes.end)),
        ..ErrorSpan::new(category, &text[bytes], Severity::Major)
    }
}

#[cfg(test)]
mod tests {
    use tribunal_testing::translation;

    use super::*;

    fn check(pair: (&str, &str), source: &str, hypothesis: &str, expected: &[(&str, usize, &str)]) {
        let found = errors(&translation(pair, source, hypothesis));
        let found: Vec<(&str, usize, &str)> = found
            .iter()
            .map(|error| (error.span.as_str(), error.start.unwrap(), error.category.as_str()))
            .collect();
        assert_eq!(found, expected, "{hypothesis}");
    }

    const LEFT: &str = "accuracy/untranslated text";
    const AGAIN: &str = "accuracy/addition";

    #[test]
    fn characters_of_the_source_are_seen_where_the_language_has_none() {
        check(("zh", "en"), "图桑集市开张了", "The café 集市 has opened", &[("集市", 9, LEFT)]);
        check(("zh", "ja"), "集市开张了", "集市が開いた", &[]);
        check(("zh", "en"), "市场开张了", "The 集市 has opened", &[]);
        check(("zh", "en"), "集市开张了", "The fair has opened", &[]);
        check(("ja", "en"), "東京に行く", "To 東京 行く", &[("東京", 3, LEFT), ("行く", 6, LEFT)]);
        check(("zh", "en"), "东西", "The 东-西", &[("东-西", 4, LEFT)]);
    }

    #[test]
    fn words_without_end_are_seen_where_the_source_repeats_none() {
        let one = [("ist es, ist es, ist es", 6, AGAIN)];
        check(("en", "de"), "So it is.", "Dann, ist es, ist es, ist es so.", &one);
        check(("en", "de"), "So it is.", "Dann ist es, ist es so.", &[]);
        check(("en", "de"), "So it is, it is, it is.", "So ist es, ist es, ist es.", &[]);
        check(("en", "de"), "Very good", "Sehr sehr sehr gut", &[]);
        check(("en", "de"), "Very good", "Sehr gut gut gut gut", &[("gut gut gut gut", 5, AGAIN)]);
        let thanks = "Thank you all thank you all thank you all";
        check(("zh", "en"), "谢谢大家", thanks, &[(thanks, 0, AGAIN)]);
        check(("zh", "en"), "叮叮叮", "Ding ding ding ding", &[]);
        check(("zh", "en"), "哈", "a a a a a", &[]);
        check(("en", "de"), "A \"b\"", "er \"er\" er (er) er", &[]);
    }

    #[test]
    fn a_phrase_is_named_at_its_shortest_and_counted_in_characters() {
        let found = errors(&translation(("en", "de"), "x", "äö eins zwei eins zwei eins zwei."));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].start, found[0].end), (Some(3), Some(32)));
        let named = "`eins zwei` stands here 3 times in a row, in the source nothing does";
        assert_eq!(found[0].explanation.as_deref(), Some(named));
    }
}
