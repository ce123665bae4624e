//! From the chances of tokens to errors: whole words, joined where they are adjacent. The number of errors
//! follows from the penalty that raters gave to translations of the same rank, so that a translation among
//! the best has none.

use crate::{
    mqm::{ErrorSpan, Severity},
    tagged::{self, Tagged},
};

/// MQM points of a minor and of a major error, which a penalty is divided into.
const MINOR: f64 = 1.0;
const MAJOR: f64 = 5.0;

/// Share of the penalty for each further word of an error: without it, an error would grow over its whole
/// sentence.
const LENGTH: f64 = 0.25;

/// A word with its chances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Word {
    /// Half-open, in bytes of the translation.
    pub start: usize,
    pub end: usize,
    /// The greatest chance of its tokens to be marked, and to be marked as major.
    pub any: f64,
    pub major: f64,
}

/// The words of a translation ([`tagged`]); `ends` and `chances` are its tokens'.
pub fn words(text: &str, ends: &[usize], chances: &[[f64; 2]]) -> Vec<Word> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let token = |((start, end), chances): ((usize, &usize), &[f64; 2])| Tagged {
        start,
        end: *end,
        probabilities: chances.to_vec(),
    };
    let tokens: Vec<Tagged> = starts.zip(ends).zip(chances).map(token).collect();
    let word = |Tagged { start, end, probabilities }| {
        let [any, major] = [0, 1].map(|class| probabilities.get(class).copied().unwrap_or(0.0));
        Word { start, end, any, major }
    };
    tagged::words(text, &tokens).into_iter().map(word).collect()
}

/// The errors of a translation whose penalty is about `budget`: its likeliest words, until their errors weigh
/// as much. A word of at least the chance `major_from` of a major error makes its error major.
pub fn errors(words: &[Word], text: &str, budget: f64, major_from: f64) -> Vec<ErrorSpan> {
    let mut order: Vec<usize> = (0..words.len()).collect();
    order.sort_by(|&a, &b| words[b].any.total_cmp(&words[a].any).then(a.cmp(&b)));
    let mut chosen = vec![false; words.len()];
    let mut runs = Vec::new();
    for idx in order {
        let spent: f64 = runs.iter().map(|run| points(&words[std::ops::Range::clone(run)], major_from)).sum();
        if spent + MINOR / 2.0 > budget || words[idx].any <= 0.0 {
            break;
        }
        chosen[idx] = true;
        runs = joined(&chosen);
    }
    runs.into_iter().map(|run| error(&words[run], text, major_from)).collect()
}

/// The errors of a translation: all words with at least the probability `any_from` to be marked, joined where
/// they are adjacent. A word of at least the chance `major_from` of a major error makes its error major.
pub fn likely(words: &[Word], text: &str, any_from: f64, major_from: f64) -> Vec<ErrorSpan> {
    let chosen: Vec<bool> = words.iter().map(|word| word.any >= any_from).collect();
    joined(&chosen).into_iter().map(|run| error(&words[run], text, major_from)).collect()
}

/// Runs of chosen words.
fn joined(chosen: &[bool]) -> Vec<std::ops::Range<usize>> {
    let mut end = 0;
    let runs = chosen.chunk_by(|a, b| a == b).map(|run| {
        end += run.len();
        (run[0], end - run.len()..end)
    });
    runs.filter(|(is_chosen, _)| *is_chosen).map(|(_, run)| run).collect()
}

fn severity(words: &[Word], major_from: f64) -> Severity {
    if words.iter().any(|word| word.major >= major_from) { Severity::Major } else { Severity::Minor }
}

fn points(words: &[Word], major_from: f64) -> f64 {
    let first = if severity(words, major_from) == Severity::Major { MAJOR } else { MINOR };
    first + LENGTH * (words.len() - 1) as f64
}

fn error(words: &[Word], text: &str, major_from: f64) -> ErrorSpan {
    let (start, end) = (words[0].start, words[words.len() - 1].end);
    let chars = |at: usize| text[..at].chars().count();
    ErrorSpan {
        start: Some(chars(start)),
        end: Some(chars(end)),
        confidence: Some(words.iter().map(|word| word.any).fold(0.0, f64::max)),
        ..ErrorSpan::new("other", &text[start..end], severity(words, major_from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a text whose tokens are these pieces, each with its chances.
    fn words_of(pieces: &[(&str, f64, f64)]) -> (String, Vec<Word>) {
        let text: String = pieces.iter().map(|(piece, ..)| *piece).collect();
        let mut end = 0;
        let ends: Vec<usize> = pieces
            .iter()
            .map(|(piece, ..)| {
                end += piece.len();
                end
            })
            .collect();
        let chances: Vec<[f64; 2]> = pieces.iter().map(|(_, any, major)| [*any, *major]).collect();
        let words = words(&text, &ends, &chances);
        (text, words)
    }

    fn found(
        pieces: &[(&str, f64, f64)],
        budget: f64,
    ) -> Vec<(String, Severity, Option<usize>, Option<usize>)> {
        let (text, words) = words_of(pieces);
        let errors = errors(&words, &text, budget, 0.5);
        errors.into_iter().map(|e| (e.span, e.severity, e.start, e.end)).collect()
    }

    const TEXT: &[(&str, f64, f64)] = &[
        ("Der", 0.1, 0.0),
        (" B", 0.2, 0.1),
        ("är", 0.9, 0.6),
        (" fuhr", 0.5, 0.1),
        (" weg", 0.3, 0.0),
        (".", 0.05, 0.0),
    ];

    #[test]
    fn tokens_make_whole_words() {
        let (text, words) = words_of(TEXT);
        let spelled: Vec<&str> = words.iter().map(|word| &text[word.start..word.end]).collect();
        assert_eq!(spelled, ["Der", "Bär", "fuhr", "weg", "."]);
        assert_eq!((words[1].any, words[1].major), (0.9, 0.6), "the greatest of its tokens");
        let (_, words) = words_of(&[("机器", 0.2, 0.0), ("翻译", 0.4, 0.0)]);
        assert!(words.iter().all(|word| word.end > word.start));
        assert_eq!(words.last().map(|word| word.end), Some(12));
    }

    #[test]
    fn a_penalty_is_spent_on_the_likeliest_words() {
        assert_eq!(found(TEXT, 0.0), []);
        assert_eq!(found(TEXT, 0.4), [], "less than half a minor error is none");
        assert_eq!(found(TEXT, 5.0), [("Bär".to_owned(), Severity::Major, Some(4), Some(7))]);
        // Adjacent words are one error.
        assert_eq!(found(TEXT, 5.6), [("Bär fuhr".to_owned(), Severity::Major, Some(4), Some(12))]);
        let apart = [("a", 0.9, 0.0), (" b", 0.1, 0.0), (" c", 0.8, 0.0)];
        let spans: Vec<String> = found(&apart, 2.0).into_iter().map(|(span, ..)| span).collect();
        assert_eq!(spans, ["a", "c"]);
    }

    #[test]
    fn errors_are_words_in_any_script() {
        let found = |pieces| found(pieces, 1.0).into_iter().map(|(span, ..)| span).collect::<Vec<_>>();
        assert_eq!(found(&[("我们去北", 0.1, 0.0), ("京", 0.9, 0.0), ("工作", 0.2, 0.0)]), ["北京"]);
        assert_eq!(found(&[("E", 0.9, 0.0), ("-Mail", 0.1, 0.0), (" neu", 0.2, 0.0)]), ["E-Mail"]);
        assert_eq!(found(&[("3", 0.1, 0.0), (".", 0.2, 0.0), ("000", 0.9, 0.0)]), ["3.000"]);
    }

    #[test]
    fn what_has_no_chance_is_no_error() {
        assert_eq!(found(&[("gut", 0.0, 0.0)], 25.0), []);
        assert_eq!(found(&[], 25.0), []);
    }
}
