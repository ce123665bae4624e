//! Error spans against error spans: character precision, recall and F1, exact and partial matches. It looks at
//! no scores.
//!
//! [`counts`] is what every command counts by; the rest is what it is made of.
//!
//! Source: FSP, Appendix B.5; WMT quality estimation's span task; span-mt-metrics-eval for the conventions.

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Half-open, in Unicode code points.
    pub start: usize,
    pub end: usize,
    /// In the source text, not the target.
    pub in_source: bool,
    /// Any numbering of severities; equal numbers are equal severities.
    pub severity: u8,
}

/// Severities as numbers: 2 for major, 1 for minor, 0 for neutral and for anything else. Raters mark no critical
/// errors, so a judge's critical counts as major.
#[must_use]
pub fn severity(name: &str) -> u8 {
    match name.to_lowercase().as_str() {
        "critical" | "major" => 2,
        "minor" => 1,
        _ => 0,
    }
}

/// Credit for a character that both sides mark with different severities.
pub const SEVERITY_CREDIT: f64 = 0.5;

/// What precision and recall are made of; the counts of segments add up.
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
    #[must_use]
    pub fn score(&self) -> PrecisionRecall {
        let share = |part: f64, whole: f64| if whole == 0.0 { 1.0 } else { part / whole };
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
/// // Gold marks characters 0 to 4 major; predicted 2 to 4 major and 4 to 6 minor: 2 right of 4, 2 found of 4.
/// let overlap = characters(&[span(0, 4, 2)], &[span(2, 4, 2), span(4, 6, 1)]);
/// assert_eq!((overlap.score().precision, overlap.score().recall), (0.5, 0.5));
/// // A wrong severity is worth half.
/// assert_eq!(characters(&[span(0, 4, 2)], &[span(0, 4, 1)]).score().f1, 0.5);
/// // Nothing to find and nothing predicted: all is right.
/// assert_eq!(characters(&[], &[]).score().f1, 1.0);
/// ```
#[must_use]
pub fn characters(gold: &[Span], predicted: &[Span]) -> Overlap {
    let mut overlap = Overlap::default();
    for in_source in [false, true] {
        let side = |spans: &[Span]| -> Vec<Span> {
            spans.iter().filter(|span| span.in_source == in_source).copied().collect()
        };
        let (gold, predicted) = (side(gold), side(predicted));
        let length = gold.iter().chain(&predicted).map(|span| span.end).max().unwrap_or(0);
        for place in 0..length {
            overlap.add(&character(&covering(&gold, place), &covering(&predicted, place)));
        }
    }
    overlap
}

fn covering(spans: &[Span], place: usize) -> Vec<u8> {
    let there = spans.iter().filter(|span| (span.start..span.end).contains(&place));
    there.map(|span| span.severity).collect()
}

fn character(gold: &[u8], predicted: &[u8]) -> Overlap {
    let mut left = gold.to_vec();
    let mut same = 0;
    for severity in predicted {
        if let Some(index) = left.iter().position(|other| other == severity) {
            left.swap_remove(index);
            same += 1;
        }
    }
    let mismatched = left.len().min(predicted.len() - same);
    let credit = same as f64 + SEVERITY_CREDIT * mismatched as f64;
    Overlap {
        right_predicted: credit,
        predicted: predicted.len() as f64,
        found_gold: credit,
        gold: gold.len() as f64,
    }
}

/// Exact matches: the same place, side and severity; each gold span is found once.
#[must_use]
pub fn exact(gold: &[Span], predicted: &[Span]) -> Overlap {
    let mut left = gold.to_vec();
    let mut right = 0.0;
    for span in predicted {
        if let Some(index) = left.iter().position(|other| other == span) {
            left.swap_remove(index);
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
#[must_use]
pub fn partial(gold: &[Span], predicted: &[Span]) -> Overlap {
    let shared = |span: &Span, others: &[Span]| {
        let marked = |place: usize| {
            others
                .iter()
                .any(|other| other.in_source == span.in_source && (other.start..other.end).contains(&place))
        };
        let length = span.end.saturating_sub(span.start);
        let hits = (span.start..span.end).filter(|place| marked(*place)).count();
        if length == 0 { 0.0 } else { hits as f64 / length as f64 }
    };
    Overlap {
        right_predicted: predicted.iter().map(|span| shared(span, gold)).sum(),
        predicted: predicted.len() as f64,
        found_gold: gold.iter().map(|span| shared(span, predicted)).sum(),
        gold: gold.len() as f64,
    }
}

/// The spans of the errors that a judge places in the text; those without a place are left out.
#[must_use]
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

    proptest! {
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
