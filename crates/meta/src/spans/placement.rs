//! Where in the text a span stands that a judge only quoted. Placement uses the text alone; the
//! FSP paper's optimistic variant also uses the gold spans.

use super::Span;

/// Which place a quote gets where it occurs more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The first free place.
    Honest,
    /// The free place that overlaps most with gold, the first of several equal ones. It flatters every judge.
    Optimistic,
}

/// A quoted span.
#[derive(Clone, Copy, Debug)]
pub struct Quote<'a> {
    pub text: &'a str,
    pub severity: u8,
}

/// Places quotes in a target text one after the other, each where no earlier one stands. `None` for a quote
/// that has no place left: its characters cost precision, not recall.
///
/// ```
/// use tribunal_meta::spans::Span;
/// use tribunal_meta::spans::placement::{Placement, Quote, place};
/// let gold = [Span { start: 7, end: 10, in_source: false, severity: 1 }];
/// let quote = Quote { text: "the", severity: 1 };
/// let start = |how| place("the on the mat", &[quote], &gold, how)[0].unwrap().start;
/// assert_eq!((start(Placement::Honest), start(Placement::Optimistic)), (0, 7));
/// assert_eq!(place("abc", &[Quote { text: "xy", severity: 1 }], &[], Placement::Honest), [None]);
/// ```
#[must_use]
pub fn place(text: &str, quotes: &[Quote], gold: &[Span], how: Placement) -> Vec<Option<Span>> {
    let text: Vec<char> = text.chars().collect();
    let mut taken = vec![false; text.len()];
    let mut placed = Vec::with_capacity(quotes.len());
    for quote in quotes {
        let needle: Vec<char> = quote.text.chars().collect();
        let start = best_place(&text, &needle, &taken, gold, how);
        placed.push(start.map(|start| {
            let end = start + needle.len();
            taken[start..end].fill(true);
            Span { start, end, in_source: false, severity: quote.severity }
        }));
    }
    placed
}

fn best_place(
    text: &[char],
    needle: &[char],
    taken: &[bool],
    gold: &[Span],
    how: Placement,
) -> Option<usize> {
    if needle.is_empty() || needle.len() > text.len() {
        return None;
    }
    let free = |start: &usize| {
        let place = *start..*start + needle.len();
        text[place.clone()] == *needle && !taken[place].contains(&true)
    };
    let mut places = (0..=text.len() - needle.len()).filter(free);
    match how {
        Placement::Honest => places.next(),
        Placement::Optimistic => {
            let overlap = |start: usize| -> usize {
                let end = start + needle.len();
                let shared = |span: &Span| span.end.min(end).saturating_sub(span.start.max(start));
                gold.iter().filter(|span| !span.in_source).map(shared).sum()
            };
            places.rev().max_by_key(|start| overlap(*start))
        }
    }
}
