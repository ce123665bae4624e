//! Finding a span string in its text: exact, case-sensitive, in Unicode code points. There is no fuzzy
//! matching: a span that does not occur verbatim has no offsets.

use std::collections::{BTreeMap, BTreeSet};

use super::{ErrorSpan, Side};

/// Where a span stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Half-open offsets in Unicode code points.
    pub start: usize,
    pub end: usize,
    /// The text does not say which occurrence is meant.
    pub ambiguous: bool,
}

/// Finds the `naming`-th naming (from 0) of a span that is named `named` times in all.
///
/// Each further naming takes the next occurrence, from the left and without overlap; when there are more
/// namings than occurrences, the rest take the last one (two errors in one word). A place is ambiguous when
/// the span occurs more than once and not exactly as often as it is named. Overlapping occurrences count for
/// that too: `aa` is at two places in `aaa`. An empty span has no place.
///
/// ```
/// use tribunal_core::mqm::locate::{Place, locate};
/// let text = "der Hund, der Bär";
/// assert_eq!(locate(text, "Bär", 0, 1), Some(Place { start: 14, end: 17, ambiguous: false }));
/// assert_eq!(locate(text, "der", 0, 1), Some(Place { start: 0, end: 3, ambiguous: true }));
/// assert_eq!(locate(text, "der", 1, 2), Some(Place { start: 10, end: 13, ambiguous: false }));
/// assert_eq!(locate(text, "Der", 0, 1), None);
/// assert_eq!(locate(text, "", 0, 1), None);
/// ```
#[must_use]
pub fn locate(text: &str, span: &str, naming: usize, named: usize) -> Option<Place> {
    if span.is_empty() {
        return None;
    }
    let apart: Vec<usize> = text.match_indices(span).map(|(at, _)| at).collect();
    let at = *apart.get(naming).or(apart.last())?;
    let start = text[..at].chars().count();
    let n_places = text.char_indices().filter(|(at, _)| text[*at..].starts_with(span)).count();
    let settled = n_places == 1 || n_places == named;
    Some(Place { start, end: start + span.chars().count(), ambiguous: !settled })
}

/// How often a span occurs in a text, overlapping occurrences not counted; an empty one nowhere.
#[must_use]
pub fn occurrences(text: &str, span: &str) -> usize {
    if span.is_empty() { 0 } else { text.matches(span).count() }
}

/// Where a span of one version of a text stands in another: where both agree up to the span's end, or from its start
/// on. `None` where they differ there, so that the span may mean something else. Unit: Unicode code points, half-open.
///
/// ```
/// use tribunal_core::mqm::locate::carried;
/// assert_eq!(carried("Die Bank ist zu.", "Die Bank ist offen.", (4, 8)), Some((4, 8)));
/// assert_eq!(carried("Eine Bank ist zu.", "Die Bank ist zu.", (14, 16)), Some((13, 15)));
/// assert_eq!(carried("Die Bank ist zu.", "Die Bank ist offen.", (13, 15)), None);
/// assert_eq!(carried("ab", "ab", (1, 9)), None);
/// ```
#[must_use]
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

/// How many pairs of characters are equal before the first that differs.
fn agree(pairs: impl Iterator<Item = (char, char)>) -> usize {
    pairs.take_while(|(a, b)| a == b).count()
}

impl ErrorSpan {
    /// The same error on another version of its source. A span of the source that the version does not hold at the
    /// same place has no offsets there; spans of the translation stay.
    #[must_use]
    pub fn in_source(self, from: &str, to: &str) -> Self {
        if self.side == Side::Source { self.in_version(from, to) } else { self }
    }

    /// The same error on another version of the text that it is marked in.
    #[must_use]
    pub fn in_version(mut self, from: &str, to: &str) -> Self {
        if from != to {
            let place = self.start.zip(self.end).and_then(|place| carried(from, to, place));
            (self.start, self.end) = (place.map(|(start, _)| start), place.map(|(_, end)| end));
        }
        self
    }
}

/// Marks each error on the side where its span is: a span that is not in the text where its category belongs, but
/// in the other, is marked there. One that is in neither keeps its side.
pub fn choose_sides(errors: &mut [ErrorSpan], source: &str, target: &str) {
    for error in errors {
        let (here, other, other_side) = match error.side {
            Side::Target => (target, source, Side::Source),
            Side::Source => (source, target, Side::Target),
        };
        if !error.span.is_empty() && !here.contains(&error.span) && other.contains(&error.span) {
            error.side = other_side;
        }
    }
}

/// Writes into each error where its span stands, on the side that [`choose_sides`] gives it. A span that is in
/// neither text has no offsets.
///
/// Namings take the occurrences from the left, whatever their categories. Where they outnumber the occurrences,
/// those of one category still stand apart as long as there is room.
pub fn place(errors: &mut [ErrorSpan], source: &str, target: &str) {
    choose_sides(errors, source, target);
    let mut named: BTreeMap<(Side, String), usize> = BTreeMap::new();
    for error in &*errors {
        *named.entry((error.side, error.span.clone())).or_default() += 1;
    }
    let mut naming: BTreeMap<(Side, String), usize> = BTreeMap::new();
    let mut held: BTreeSet<(Side, String, String, usize)> = BTreeSet::new();
    for error in errors {
        let key = (error.side, error.span.clone());
        let text = if error.side == Side::Target { target } else { source };
        let n_named = named[&key];
        let next = naming.entry(key).or_default();
        let last = occurrences(text, &error.span).saturating_sub(1);
        let mut hold = |at| held.insert((error.side, error.span.clone(), error.category.clone(), at));
        let nth = (*next).min(last);
        let nth = if hold(nth) { nth } else { (0..last).find(|at| hold(*at)).unwrap_or(nth) };
        *next += 1;
        let place = locate(text, &error.span, nth, n_named);
        error.start = place.map(|p| p.start);
        error.end = place.map(|p| p.end);
        error.ambiguous = place.is_some_and(|p| p.ambiguous);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mqm::Severity;

    fn check(text: &str, span: &str, named: usize, expected: &[(usize, usize, bool)]) {
        let places: Vec<_> = (0..named)
            .filter_map(|n| locate(text, span, n, named))
            .map(|p| (p.start, p.end, p.ambiguous))
            .collect();
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
            for naming in 0..named {
                match locate(&text, &span, naming, named) {
                    Some(p) => {
                        let found: String = text.chars().skip(p.start).take(p.end - p.start).collect();
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
            let place = locate(&text, &span, 0, 1).unwrap();
            prop_assert!(place.start <= from);
            prop_assert!(place.start == from || place.ambiguous, "an earlier place is a guess");
        }
    }
}
