//! Placement of spans that a judge only quoted. It uses the text alone; the FSP paper's optimistic variant
//! also uses the gold spans.

use std::ops::Range;

use super::Span;
use crate::mqm::locate;

/// Rule for the place of a quote that occurs more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The first free place that is a whole word, or else the first free place.
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

/// Places quotes in a target text one after the other, each in a free place. `None` for a quote that has no
/// place left: its characters cost precision, not recall.
///
/// ```
/// use tribunal_meta::spans::Span;
/// use tribunal_meta::spans::placement::{Placement, Quote, place};
/// let gold = [Span { start: 7, end: 10, in_source: false, severity: 1 }];
/// let quote = Quote { text: "the", severity: 1 };
/// let start = |how| place("the on the mat", &[quote], &gold, how)[0].unwrap().start;
/// assert_eq!((start(Placement::Honest), start(Placement::Optimistic)), (0, 7));
/// let quote = Quote { text: "the", severity: 1 };
/// assert_eq!(place("other the", &[quote], &[], Placement::Honest)[0].unwrap().start, 6);
/// assert_eq!(place("abc", &[Quote { text: "xy", severity: 1 }], &[], Placement::Honest), [None]);
/// ```
pub fn place(text: &str, quotes: &[Quote], gold: &[Span], how: Placement) -> Vec<Option<Span>> {
    let chars: Vec<char> = text.chars().collect();
    let bytes: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let mut taken = vec![false; chars.len()];
    let mut placed = Vec::with_capacity(quotes.len());
    for quote in quotes {
        let needle: Vec<char> = quote.text.chars().collect();
        let is_free = |place: &Range<usize>| {
            chars[place.clone()] == *needle && !needle.is_empty() && !taken[place.clone()].contains(&true)
        };
        let last = (chars.len() + 1).saturating_sub(needle.len());
        let mut places = (0..last).map(|start| start..start + needle.len()).filter(is_free);
        let found = match how {
            Placement::Honest => {
                let is_whole =
                    |place: &Range<usize>| locate::is_whole(text, bytes[place.start]..bytes[place.end]);
                places.clone().find(is_whole).or_else(|| places.next())
            }
            Placement::Optimistic => places.rev().max_by_key(|place| overlap(place, gold)),
        };
        placed.push(found.map(|Range { start, end }| {
            taken[start..end].fill(true);
            Span { start, end, in_source: false, severity: quote.severity }
        }));
    }
    placed
}

fn overlap(place: &Range<usize>, gold: &[Span]) -> usize {
    let shared = |span: &Span| span.end.min(place.end).saturating_sub(span.start.max(place.start));
    gold.iter().filter(|span| !span.in_source).map(shared).sum()
}
