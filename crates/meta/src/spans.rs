//! Error spans against error spans: character precision, recall and F1, exact and partial matches. Scores
//! play no part.
//!
//! [`counts`] holds the counts that all commands use; the other modules are its parts.
//!
//! Source: FSP, Appendix B.5; WMT quality estimation's span task; span-mt-metrics-eval for the conventions.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::verdicts::JudgedError;

pub mod assignment;
pub mod baseline;
pub mod counts;
pub mod mpp;
pub mod placement;
pub mod rated;
pub mod report;
pub mod strings;

/// An error span with a place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Half-open, in Unicode code points.
    pub start: usize,
    pub end: usize,
    /// In the source text, not the target.
    pub in_source: bool,
    /// Any numbering of severities; equal numbers are equal severities.
    pub severity: u8,
}

/// Severities as numbers: 2 for major, 1 for minor, 0 for neutral and for anything else. Raters mark no
/// critical errors, so a judge's critical counts as major.
pub fn severity(name: &str) -> u8 {
    match name.to_lowercase().as_str() {
        "critical" | "major" => 2,
        "minor" => 1,
        _ => 0,
    }
}

/// Credit for a character that both sides mark with different severities.
pub const SEVERITY_CREDIT: f64 = 0.5;

/// Counts behind precision and recall; the counts of segments add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Overlap {
    /// Predicted characters (or spans) that are right, with partial credit.
    pub right_predicted: f64,
    pub predicted: f64,
    /// Gold characters (or spans) that are found, with partial credit.
    pub found_gold: f64,
    pub gold: f64,
}

/// Precision, recall and their harmonic mean. Range: 0 to 1, higher is better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PrecisionRecall {
    /// 1 where nothing was predicted.
    pub precision: f64,
    /// 1 where there was nothing to find.
    pub recall: f64,
    /// 0 where both are 0.
    pub f1: f64,
}

impl Overlap {
    pub fn add(&mut self, other: &Self) {
        self.right_predicted += other.right_predicted;
        self.predicted += other.predicted;
        self.found_gold += other.found_gold;
        self.gold += other.gold;
    }

    /// The micro-average over everything added up.
    pub fn score(&self) -> PrecisionRecall {
        let share = |part: f64, total: f64| if total == 0.0 { 1.0 } else { part / total };
        let precision = share(self.right_predicted, self.predicted);
        let recall = share(self.found_gold, self.gold);
        let sum = precision + recall;
        let f1 = if sum == 0.0 { 0.0 } else { 2.0 * precision * recall / sum };
        PrecisionRecall { precision, recall, f1 }
    }
}

/// Character overlap: a character counts once for every span that covers it. Equal severities match in full;
/// what is left on both sides matches with [`SEVERITY_CREDIT`].
///
/// ```
/// use tribunal_meta::spans::{Span, characters};
/// let span = |start, end, severity| Span { start, end, in_source: false, severity };
/// // Gold marks characters 0 to 4 major; predicted 2 to 4 major and 4 to 6 minor: 2 right of 4, 2 found
/// // of 4.
/// let overlap = characters(&[span(0, 4, 2)], &[span(2, 4, 2), span(4, 6, 1)]);
/// assert_eq!((overlap.score().precision, overlap.score().recall), (0.5, 0.5));
/// // A wrong severity is worth half.
/// assert_eq!(characters(&[span(0, 4, 2)], &[span(0, 4, 1)]).score().f1, 0.5);
/// // Nothing to find and nothing predicted: all is right.
/// assert_eq!(characters(&[], &[]).score().f1, 1.0);
/// ```
pub fn characters(gold: &[Span], predicted: &[Span]) -> Overlap {
    let mut overlap = Overlap::default();
    for in_source in [false, true] {
        // Begins of spans less ends of spans, by position, severity and side.
        let mut changes: BTreeMap<usize, Vec<(u8, usize, i64)>> = BTreeMap::new();
        for (side, spans) in [gold, predicted].into_iter().enumerate() {
            for span in spans.iter().filter(|span| span.in_source == in_source && span.start < span.end) {
                changes.entry(span.start).or_default().push((span.severity, side, 1));
                changes.entry(span.end).or_default().push((span.severity, side, -1));
            }
        }
        let mut covering: BTreeMap<u8, [i64; 2]> = BTreeMap::new();
        let mut from = 0;
        for (place, changed) in changes {
            overlap.add(&stretch(&covering, (place - from) as f64));
            for (severity, side, change) in changed {
                covering.entry(severity).or_default()[side] += change;
            }
            from = place;
        }
    }
    overlap
}

/// Overlap of characters that are covered alike: by the same numbers of gold and predicted spans of each
/// severity.
fn stretch(covering: &BTreeMap<u8, [i64; 2]>, length: f64) -> Overlap {
    let sum = |pick: fn(&[i64; 2]) -> i64| covering.values().map(pick).sum::<i64>();
    let (gold, predicted, same) = (sum(|n| n[0]), sum(|n| n[1]), sum(|n| n[0].min(n[1])));
    let mismatched = (gold - same).min(predicted - same);
    let credit = length * (same as f64 + SEVERITY_CREDIT * mismatched as f64);
    Overlap {
        right_predicted: credit,
        predicted: length * predicted as f64,
        found_gold: credit,
        gold: length * gold as f64,
    }
}

/// Exact matches: the same place, side and severity; each gold span is found once.
pub fn exact(gold: &[Span], predicted: &[Span]) -> Overlap {
    let mut left: BTreeMap<Span, usize> = BTreeMap::new();
    for span in gold {
        *left.entry(*span).or_default() += 1;
    }
    let mut right = 0.0;
    for span in predicted {
        if let Some(n) = left.get_mut(span).filter(|n| **n > 0) {
            *n -= 1;
            right += 1.0;
        }
    }
    Overlap {
        right_predicted: right,
        predicted: predicted.len() as f64,
        found_gold: right,
        gold: gold.len() as f64,
    }
}

/// Partial matches: each span is right by the share of its characters that the other side marks too,
/// whatever the severity.
pub fn partial(gold: &[Span], predicted: &[Span]) -> Overlap {
    let shares = |spans: &[Span], others: &[Span]| {
        let marked = [false, true].map(|in_source| Marked::new(others, in_source));
        let share = |span: &Span| {
            let of = &marked[usize::from(span.in_source)];
            let hits = of.up_to(span.end).saturating_sub(of.up_to(span.start));
            if span.start < span.end { hits as f64 / (span.end - span.start) as f64 } else { 0.0 }
        };
        spans.iter().map(share).sum()
    };
    Overlap {
        right_predicted: shares(predicted, gold),
        predicted: predicted.len() as f64,
        found_gold: shares(gold, predicted),
        gold: gold.len() as f64,
    }
}

/// The characters of a text that some span marks, as stretches in order, each with the number of characters
/// before it.
struct Marked(Vec<(usize, usize, usize)>);

impl Marked {
    fn new(spans: &[Span], in_source: bool) -> Self {
        let of_text = spans.iter().filter(|span| span.in_source == in_source && span.start < span.end);
        let mut sorted: Vec<(usize, usize)> = of_text.map(|span| (span.start, span.end)).collect();
        sorted.sort_unstable();
        let (mut stretches, mut n): (Vec<(usize, usize, usize)>, usize) = (Vec::new(), 0);
        for (start, end) in sorted {
            let start = stretches.last().map_or(start, |last| last.1.max(start));
            if start < end {
                stretches.push((start, end, n));
                n += end - start;
            }
        }
        Self(stretches)
    }

    /// Marked characters before a place.
    fn up_to(&self, place: usize) -> usize {
        let after = self.0.partition_point(|(start, ..)| *start < place);
        let last = after.checked_sub(1).map(|idx| self.0[idx]);
        last.map_or(0, |(start, end, before)| before + end.min(place) - start)
    }
}

/// The spans of the errors that a judge places in the text; those without a place are left out.
pub fn located(errors: &[JudgedError]) -> Vec<Span> {
    let severity = |name: &str| match name {
        "critical" => 3,
        "major" => 2,
        "minor" => 1,
        _ => 0,
    };
    let span = |error: &JudgedError| {
        let in_source = error.side == "source";
        Some(Span { start: error.start?, end: error.end?, in_source, severity: severity(&error.severity) })
    };
    errors.iter().filter_map(span).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spans() -> impl Strategy<Value = Vec<Span>> {
        let span = (0_usize..20, 0_usize..6, any::<bool>(), 0_u8..3).prop_map(
            |(start, length, in_source, severity)| Span { start, end: start + length, in_source, severity },
        );
        prop::collection::vec(span, 0..6)
    }

    /// The definition, character by character.
    fn plainly(gold: &[Span], predicted: &[Span]) -> (f64, f64, f64) {
        let covering = |spans: &[Span], in_source: bool, place: usize| -> Vec<u8> {
            let covers =
                |span: &&Span| span.in_source == in_source && (span.start..span.end).contains(&place);
            spans.iter().filter(covers).map(|span| span.severity).collect()
        };
        let (mut credit, mut n_predicted) = (0.0, 0.0);
        for (in_source, place) in [false, true].into_iter().flat_map(|side| (0..30).map(move |at| (side, at)))
        {
            let (mut left, found) = (covering(gold, in_source, place), covering(predicted, in_source, place));
            let mut same = 0;
            for severity in &found {
                if let Some(index) = left.iter().position(|other| other == severity) {
                    left.swap_remove(index);
                    same += 1;
                }
            }
            credit += f64::from(same) + SEVERITY_CREDIT * left.len().min(found.len() - same as usize) as f64;
            n_predicted += found.len() as f64;
        }
        let share = |span: &Span| {
            let hits = (span.start..span.end).filter(|at| !covering(gold, span.in_source, *at).is_empty());
            if span.start == span.end { 0.0 } else { hits.count() as f64 / (span.end - span.start) as f64 }
        };
        (credit, n_predicted, predicted.iter().map(share).sum())
    }

    proptest! {
        #[test]
        fn sweeps_equal_the_definitions(gold in spans(), predicted in spans()) {
            let found = (characters(&gold, &predicted), partial(&gold, &predicted));
            let (credit, n_predicted, shares) = plainly(&gold, &predicted);
            prop_assert_eq!((found.0.right_predicted, found.0.predicted), (credit, n_predicted));
            prop_assert_eq!(found.1.right_predicted, shares);
        }

        #[test]
        fn spans_equal_themselves(spans in spans()) {
            prop_assert_eq!(characters(&spans, &spans).score().f1, 1.0);
            prop_assert_eq!(exact(&spans, &spans).score().f1, 1.0);
        }

        #[test]
        fn exchanging_the_sides_exchanges_precision_and_recall(gold in spans(), predicted in spans()) {
            let (forward, back) = (characters(&gold, &predicted).score(), characters(&predicted, &gold).score());
            prop_assert_eq!((forward.precision, forward.recall), (back.recall, back.precision));
        }
    }

    #[test]
    fn partial_counts_shares_of_spans() {
        let span = |start, end| Span { start, end, in_source: false, severity: 1 };
        let score = partial(&[span(0, 4)], &[span(2, 4), span(8, 9)]).score();
        assert_eq!((score.precision, score.recall), (0.5, 0.5));
    }
}
