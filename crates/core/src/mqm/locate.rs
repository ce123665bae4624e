//! Finding a span string in its text: exact, case-sensitive, in Unicode code points. There is no fuzzy
//! matching: a span that does not occur verbatim has no offsets.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    ops::{Range, RangeInclusive},
};

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

use super::{ErrorSpan, Side};

/// Scripts that put no spaces between words: Thai to Burmese, Khmer, New Tai Lue and Tai Tham, Balinese,
/// Javanese, kana, Han.
const UNSPACED: [RangeInclusive<char>; 9] = [
    '\u{e00}'..='\u{109f}',
    '\u{1780}'..='\u{17ff}',
    '\u{1950}'..='\u{1aaf}',
    '\u{1b00}'..='\u{1b7f}',
    '\u{3005}'..='\u{30ff}',
    '\u{3400}'..='\u{9fff}',
    '\u{a980}'..='\u{a9df}',
    '\u{f900}'..='\u{faff}',
    '\u{20000}'..='\u{3ffff}',
];

/// Returns true if a span, in bytes, cuts no word and no number; in scripts without spaces between words, no
/// grapheme cluster.
///
/// ```
/// use tribunal_core::mqm::locate::is_whole;
/// let text = "Arzneimittel mit Alkohol";
/// assert!(!is_whole(text, 6..9) && is_whole(text, 13..16));
/// assert!(!is_whole("0.35 g", 3..4) && is_whole("5 g", 0..1) && is_whole("用户", 0..3));
/// ```
pub fn is_whole(text: &str, span: Range<usize>) -> bool {
    is_boundary(text, span.start) && is_boundary(text, span.end)
}

fn is_boundary(text: &str, at: usize) -> bool {
    let (before, after) = text.split_at(at);
    let base = |cluster: &str| cluster.chars().next();
    let (left, right) = (before.graphemes(true).next_back().and_then(base), base(after));
    let (Some(left), Some(right)) = (left, right) else { return true };
    let is_of_word = |c: char| c.is_alphanumeric() && !UNSPACED.iter().any(|script| script.contains(&c));
    let is_point = |c: char| matches!(c, '.' | ',');
    let in_number =
        is_point(left) && right.is_numeric() && before.chars().rev().nth(1).is_some_and(char::is_numeric)
            || is_point(right) && left.is_numeric() && after.chars().nth(1).is_some_and(char::is_numeric);
    let is_cluster_boundary = GraphemeCursor::new(at, text.len(), true).is_boundary(text, 0);
    is_cluster_boundary == Ok(true) && !in_number && !(is_of_word(left) && is_of_word(right))
}

/// The places of a span, as bytes, no two of which overlap: whole words, then parts of words, each from the
/// left. Also the number of whole words, and the number of all occurrences, overlapping ones included.
fn places(text: &str, span: &str) -> (Vec<usize>, usize, usize) {
    if span.is_empty() {
        return (Vec::new(), 0, 0);
    }
    let starts = text.char_indices().map(|(at, _)| at);
    let all: Vec<usize> = starts.filter(|at| text[*at..].starts_with(span)).collect();
    let n_all = all.len();
    let (whole_words, parts): (Vec<usize>, Vec<usize>) =
        all.into_iter().partition(|at| is_whole(text, *at..at + span.len()));
    let mut taken = BTreeSet::new();
    let mut is_apart = |at: &usize| {
        let before = taken.range(..at + span.len()).next_back();
        before.is_none_or(|before| before + span.len() <= *at) && taken.insert(*at)
    };
    let mut places: Vec<usize> = whole_words.into_iter().filter(&mut is_apart).collect();
    let n_whole = places.len();
    places.extend(parts.into_iter().filter(is_apart));
    (places, n_whole, n_all)
}

/// The byte at which a span is taken to stand that is named once: the first whole word, or else the first
/// occurrence.
pub fn first(text: &str, span: &str) -> Option<usize> {
    places(text, span).0.first().copied()
}

/// Length of the text around a place, in whole words, that the explanation of an error repeats around its
/// span. Unit: letters and digits.
fn context(explanation: &str, text: &str, place: &Range<usize>) -> usize {
    let span = &text[place.clone()];
    let around = |(at, _): (usize, &str)| {
        let is_edge = |a: usize, b: usize| {
            text.is_char_boundary(b) && is_boundary(explanation, a) && is_boundary(text, b)
        };
        let end = at + span.len();
        let before = bytes_alike(explanation[..at].chars().rev(), text[..place.start].chars().rev());
        let after = bytes_alike(explanation[end..].chars(), text[place.end..].chars());
        let before = (0..=before).rev().find(|n| is_edge(at - n, place.start - n)).unwrap_or(0);
        let after = (0..=after).rev().find(|n| is_edge(end + n, place.end + n)).unwrap_or(0);
        let words = [&text[place.start - before..place.start], &text[place.end..place.end + after]];
        words.iter().flat_map(|text| text.chars()).filter(|c| c.is_alphanumeric()).count()
    };
    explanation.match_indices(span).map(around).max().unwrap_or(0)
}

fn bytes_alike(a: impl Iterator<Item = char>, b: impl Iterator<Item = char>) -> usize {
    a.zip(b).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
}

/// Number of occurrences of a span in a text, overlapping ones not counted; 0 for an empty one.
pub fn occurrences(text: &str, span: &str) -> usize {
    if span.is_empty() { 0 } else { text.matches(span).count() }
}

/// Carries a span of one version of a text over to another: both versions agree up to the span's end, or from
/// its start on. `None` where they differ there, so that the span may mean something else. Unit: Unicode code
/// points, half-open.
///
/// ```
/// use tribunal_core::mqm::locate::carried;
/// assert_eq!(carried("Die Bank ist zu.", "Die Bank ist offen.", (4, 8)), Some((4, 8)));
/// assert_eq!(carried("Eine Bank ist zu.", "Die Bank ist zu.", (14, 16)), Some((13, 15)));
/// assert_eq!(carried("Die Bank ist zu.", "Die Bank ist offen.", (13, 15)), None);
/// assert_eq!(carried("ab", "ab", (1, 9)), None);
/// ```
pub fn carried(from: &str, to: &str, (start, end): (usize, usize)) -> Option<(usize, usize)> {
    let (n_from, n_to) = (from.chars().count(), to.chars().count());
    if end > n_from || start > end {
        return None;
    }
    if end <= agree(from.chars().zip(to.chars())) {
        return Some((start, end));
    }
    let n_alike = agree(from.chars().rev().zip(to.chars().rev()));
    (n_from - start <= n_alike).then(|| (n_to - (n_from - start), n_to - (n_from - end)))
}

/// Number of equal pairs of characters before the first that differs.
fn agree(pairs: impl Iterator<Item = (char, char)>) -> usize {
    pairs.take_while(|(a, b)| a == b).count()
}

impl ErrorSpan {
    /// Carries the error over to another version of its source. A span of the source that the version does
    /// not hold at the same place has no offsets there; spans of the translation stay.
    #[must_use]
    pub fn in_source(self, from: &str, to: &str) -> Self {
        if self.side == Side::Source { self.in_version(from, to) } else { self }
    }

    /// Carries the error over to another version of the text that it is marked in.
    #[must_use]
    pub fn in_version(mut self, from: &str, to: &str) -> Self {
        if from != to {
            let place = self.start.zip(self.end).and_then(|place| carried(from, to, place));
            (self.start, self.end) = (place.map(|(start, _)| start), place.map(|(_, end)| end));
        }
        self
    }
}

/// Marks each error on the side where its span is: a span that is not in the text where its category belongs,
/// but in the other, is marked there. One that is in neither keeps its side.
pub fn choose_sides(errors: &mut [ErrorSpan], source: &str, target: &str) {
    for error in errors {
        let (stated, other, other_side) = match error.side {
            Side::Target => (target, source, Side::Source),
            Side::Source => (source, target, Side::Target),
        };
        if !error.span.is_empty() && !stated.contains(&error.span) && other.contains(&error.span) {
            error.side = other_side;
        }
    }
}

/// Sets the offsets of each error's span, on the side that [`choose_sides`] gives it. A span that is in
/// neither text has no offsets.
///
/// A span takes whole words before parts of words ([`is_whole`]), then the place around which its explanation
/// repeats most of the text, then the first. Further namings, whatever their categories, take the next
/// places. Where they outnumber the places, the rest take the last one (two errors in one word), but those of
/// one category still stand apart as long as there is room.
///
/// A place is ambiguous when the span occurs more than once and not exactly as often as it is named.
/// Overlapping occurrences count for that too: `aa` is at two places in `aaa`.
///
/// ```
/// use tribunal_core::mqm::{ErrorSpan, Severity, locate::place};
/// let named = |span| ErrorSpan::new("other", span, Severity::Minor);
/// let mut errors = [named("mit"), named("in"), named("in").explained("not \"in Wien\"")];
/// place(&mut errors, "", "Arzneimittel mit Wein in Graz und in Wien");
/// assert_eq!(errors.each_ref().map(|error| error.start), [Some(13), Some(22), Some(34)]);
/// assert_eq!(errors.map(|error| error.ambiguous), [true, true, true]);
/// ```
pub fn place(errors: &mut [ErrorSpan], source: &str, target: &str) {
    choose_sides(errors, source, target);
    let mut spans: BTreeMap<(Side, String), Vec<usize>> = BTreeMap::new();
    for (idx, error) in errors.iter().enumerate() {
        spans.entry((error.side, error.span.clone())).or_default().push(idx);
    }
    for ((side, span), namings) in spans {
        place_namings(errors, &namings, if side == Side::Target { target } else { source }, &span);
    }
}

/// Places all namings of one span.
fn place_namings(errors: &mut [ErrorSpan], namings: &[usize], text: &str, span: &str) {
    let (places, n_whole, n_all) = places(text, span);
    let last = if n_whole > 0 { n_whole - 1 } else { places.len().saturating_sub(1) };
    let contexts = |idx: usize| -> Vec<usize> {
        let explanation = errors[idx].explanation.as_deref().filter(|_| places.len() > 1).unwrap_or_default();
        places.iter().map(|at| context(explanation, text, &(*at..at + span.len()))).collect()
    };
    let mut namings: Vec<(usize, Vec<usize>)> = namings.iter().map(|idx| (*idx, contexts(*idx))).collect();
    let n_namings = namings.len();
    // Places that an explanation identifies go before the order of the namings.
    namings.sort_by_key(|(_, contexts)| contexts.iter().all(|n| *n == 0));
    let mut holders: Vec<Vec<String>> = vec![Vec::new(); places.len()];
    for (idx, contexts) in namings {
        let error = &mut errors[idx];
        let rank = |nth: &usize| {
            let holders = &holders[*nth];
            let is_held = holders.contains(&error.category);
            let turn = if holders.is_empty() || *nth != last { nth + 1 } else { 0 };
            (!holders.is_empty(), is_held, *nth >= n_whole, Reverse(contexts[*nth]), turn)
        };
        let nth = (0..places.len()).min_by_key(rank);
        if let Some(nth) = nth {
            holders[nth].push(error.category.clone());
        }
        error.start = nth.map(|nth| text[..places[nth]].chars().count());
        error.end = error.start.map(|start| start + span.chars().count());
        error.ambiguous = n_all > 1 && n_all != n_namings;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mqm::Severity;

    /// The places of errors with these explanations, all of one span and category.
    fn placed(text: &str, span: &str, explanations: &[&str]) -> Vec<Option<(usize, usize, bool)>> {
        let named =
            explanations.iter().map(|why| ErrorSpan::new("other", span, Severity::Minor).explained(*why));
        let mut errors: Vec<_> = named.collect();
        place(&mut errors, "", text);
        errors.iter().map(|e| Some((e.start?, e.end?, e.ambiguous))).collect()
    }

    fn check(text: &str, span: &str, named: usize, expected: &[(usize, usize, bool)]) {
        let places: Vec<_> = placed(text, span, &vec![""; named]).into_iter().flatten().collect();
        assert_eq!(places, expected, "`{span}` in `{text}`");
    }

    #[test]
    fn occurrences_in_order() {
        check("a b a b a", "a", 1, &[(0, 1, true)]);
        check("a b a b a", "a", 2, &[(0, 1, true), (4, 5, true)]);
        check("a b a b a", "a", 3, &[(0, 1, false), (4, 5, false), (8, 9, false)]);
        check("a b a", "b", 2, &[(2, 3, false), (2, 3, false)]);
        check("a b a", "a", 3, &[(0, 1, true), (4, 5, true), (4, 5, true)]);
        check("aaa", "aa", 1, &[(0, 2, true)]);
        check("高铁居然之家", "居然", 1, &[(2, 4, false)]);
        check("e\u{301}te\u{301}", "te", 1, &[(2, 4, false)]);
    }

    #[test]
    fn whole_words_before_parts_of_words() {
        for (text, span, named, starts) in [
            ("Arzneimittel dürfen nicht mit Alkohol genommen werden", "mit", 1, vec![26]),
            ("Die Schwester sagt, dass er kommt", "er", 1, vec![25]),
            ("Die Schwester sagt, dass er kommt", "er", 2, vec![25, 11]),
            ("Semit, mit Mitte", "mit", 1, vec![7]),
            ("Mitte Schmitt", "mit", 1, vec![9]),
            ("0.35 g or 3.5 g, then 5 g", "5", 1, vec![22]),
            ("it 5,000 and 5, then", "5", 1, vec![13]),
            ("le bateau et l'eau", "eau", 1, vec![15]),
            ("xxin-out in", "in", 1, vec![9]),
            ("Темой тем", "тем", 1, vec![6]),
            ("संपर्क और पर", "पर", 1, vec![10]),
            // Scripts without spaces: the first whole grapheme cluster.
            ("使用户和用户", "用户", 1, vec![1]),
            ("ที่ทา", "ท", 1, vec![3]),
            ("カ゛カ", "カ", 1, vec![0]),
            ("がか\u{3099}か", "か", 1, vec![3]),
            ("👩‍🚀 👩", "👩", 1, vec![4]),
        ] {
            let found: Vec<_> =
                placed(text, span, &vec![""; named]).into_iter().flatten().map(|p| p.0).collect();
            assert_eq!(found, starts, "`{span}` in `{text}`");
        }
    }

    #[test]
    fn an_explanation_says_which_place_is_meant() {
        let text = "Sie geht mit Ihnen, mit Wein und mit Alkohol; Arzneimittel Alkohol";
        for (explanations, starts) in [
            (vec!["\"mit Alkohol\" should be \"ohne Alkohol\""], vec![33]),
            (vec!["`Wein und mit` is wrong"], vec![33]),
            (vec!["„Ihnen, mit Wein“"], vec![20]),
            // Parts of words of the context do not count.
            (vec!["mit Alk"], vec![9]),
            (vec!["the word mit is wrong"], vec![9]),
            // The one that is explained goes first.
            (vec!["", "mit Ihnen"], vec![20, 9]),
        ] {
            let found: Vec<_> =
                placed(text, "mit", &explanations).into_iter().flatten().map(|p| p.0).collect();
            assert_eq!(found, starts, "{explanations:?}");
        }
        assert_eq!(
            placed("das er, Schwester, er", "er", &["in Schwester"])[0],
            Some((4, 6, true)),
            "a part of a word"
        );
    }

    #[test]
    fn a_span_of_the_other_text_changes_sides() {
        let mut errors = vec![
            ErrorSpan::new("accuracy/mistranslation", "bank", Severity::Major),
            ErrorSpan::new("accuracy/omission", "the", Severity::Major),
            ErrorSpan::new("accuracy/omission", "nowhere", Severity::Minor),
            ErrorSpan::new("accuracy/omission", "", Severity::Minor),
        ];
        place(&mut errors, "on the bank", "auf der Bank");
        let seen: Vec<_> = errors.iter().map(|e| (e.side, e.start, e.end)).collect();
        assert_eq!(
            seen,
            [
                (Side::Source, Some(7), Some(11)),
                (Side::Source, Some(3), Some(6)),
                (Side::Source, None, None),
                (Side::Source, None, None),
            ]
        );
    }

    proptest! {
        #[test]
        fn what_is_found_is_verbatim(text in "[aäb高🙂 ]{0,24}", span in "[aäb高🙂 ]{0,4}", named in 1usize..4) {
            for found in placed(&text, &span, &vec![""; named]) {
                match found {
                    Some((start, end, _)) => {
                        let found: String = text.chars().skip(start).take(end - start).collect();
                        prop_assert_eq!(found, span.clone());
                    }
                    None => prop_assert!(span.is_empty() || !text.contains(&span)),
                }
            }
        }

        #[test]
        fn every_substring_is_found(text in "[aäb高🙂 ]{1,24}", from in 0usize..24, len in 1usize..8) {
            let from = from % text.chars().count();
            let span: String = text.chars().skip(from).take(len).collect();
            let (start, _, ambiguous) = placed(&text, &span, &[""])[0].unwrap();
            prop_assert!(start == from || ambiguous, "another place is a guess");
        }
    }
}
