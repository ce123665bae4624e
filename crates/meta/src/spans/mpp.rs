//! MPP, "match with partial overlap and partial credit": spans matched one to one, each with credit for the
//! share of it that its counterpart covers. Severities and quotes play no part.
//!
//! Source: Perrella, Morales Agostinho and Zaragoza 2026, Span-Level Machine Translation Meta-Evaluation
//! (arXiv 2603.19921); sted19/span-mt-metrics-eval at b55b90f, `compute` with its defaults.

use super::assignment::{Assignment, Row};
use super::{Overlap, Span};

/// F-scores nearer than this count as equal.
const TOLERANCE: f64 = 1e-12;

/// Linear programs that are solved for the upper bound.
const ROUNDS: usize = 32;

/// Choices that are tried where the bound leaves some open. Beyond it the best matching so far counts; only
/// dozens of spans on the same characters can reach it.
const MOST_CHOICES: usize = 100_000;

/// Rows with several choices beyond which no choice is tried.
const MOST_OPEN_ROWS: usize = 2_000;

/// Overlapping pairs of spans in one unit beyond which no matching is searched for.
pub const MOST_PAIRS: usize = 250_000;

/// Contribution of one unit to micro-averaged MPP: a predicted span has the credit `overlap / its length`, a
/// gold span likewise, under the one-to-one matching of greatest F-score in this unit. Translation and source
/// are one pool, in which a span can only match one of its own side; severities do not count. `lost`:
/// predicted errors that are not in the text.
///
/// Empty spans cannot overlap with anything and are left out. `None` where more than [`MOST_PAIRS`] pairs
/// overlap.
///
/// ```
/// use tribunal_meta::spans::{Span, mpp::mpp};
/// let span = |start, end| Span { start, end, in_source: false, severity: 1 };
/// // One of two gold spans is matched: all of the prediction lies in it, and covers half of it.
/// let score = mpp(&[span(0, 4), span(8, 9)], &[span(2, 4)], 0).unwrap().score();
/// assert_eq!((score.precision, score.recall), (1.0, 0.25));
/// // A second prediction in the same gold span has no counterpart left.
/// let score = mpp(&[span(0, 4)], &[span(0, 2), span(2, 4)], 0).unwrap().score();
/// assert_eq!((score.precision, score.recall), (0.5, 0.5));
/// assert_eq!(mpp(&[], &[], 0).unwrap().score().f1, 1.0);
/// ```
pub fn mpp(gold: &[Span], predicted: &[Span], lost: usize) -> Option<Overlap> {
    let nonempty = |spans: &[Span]| -> Vec<Span> {
        spans.iter().filter(|span| span.start < span.end).copied().collect()
    };
    let pairs = Pairs::new(&nonempty(gold), &nonempty(predicted), lost)?;
    let credits = pairs.credits(&pairs.best());
    Some(Overlap {
        right_predicted: credits.0,
        predicted: pairs.n_predicted,
        found_gold: credits.1,
        gold: pairs.n_gold,
    })
}

/// The gold span of each predicted one.
type Matching = Vec<Option<usize>>;

/// Sums of credits on the predicted and on the gold side.
type Credits = (f64, f64);

/// The credits of every overlapping pair of a predicted and a gold span.
struct Pairs {
    /// The gold spans that overlap with each predicted one, in their order, and their credits.
    credits: Vec<Vec<(usize, Credits)>>,
    n_predicted: f64,
    n_gold: f64,
    gold: usize,
}

impl Pairs {
    /// `None` where there are more than [`MOST_PAIRS`].
    fn new(gold: &[Span], predicted: &[Span], lost: usize) -> Option<Self> {
        let credit = |one: &Span, other: &Span| {
            let shared = (one.end.min(other.end) - one.start.max(other.start)) as f64;
            (shared / (one.end - one.start) as f64, shared / (other.end - other.start) as f64)
        };
        let mut credits = vec![Vec::new(); predicted.len()];
        for (row, column) in overlapping(predicted, gold)? {
            credits[row].push((column, credit(&predicted[row], &gold[column])));
        }
        for row in &mut credits {
            row.sort_by_key(|(column, _)| *column);
        }
        let (n_predicted, n_gold) = ((predicted.len() + lost) as f64, gold.len() as f64);
        Some(Self { credits, n_predicted, n_gold, gold: gold.len() })
    }

    fn credits(&self, matching: &Matching) -> Credits {
        let pairs = matching.iter().enumerate().filter_map(|(row, column)| {
            let (column, of_row) = ((*column)?, &self.credits[row]);
            Some(of_row[of_row.binary_search_by_key(&column, |pair| pair.0).ok()?].1)
        });
        pairs.fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1))
    }

    /// Precision and recall of a unit with a gold and a predicted span.
    fn shares(&self, matching: &Matching) -> (f64, f64) {
        let (predicted, gold) = self.credits(matching);
        (predicted / self.n_predicted, gold / self.n_gold)
    }

    /// The matching of greatest F-score.
    ///
    /// F is concave, and as great as precision and recall are, so its tangent at any point lies above it
    /// everywhere. The matching that maximises a tangent is a linear assignment; where F meets the tangent
    /// there, no matching has a greater F. Otherwise the difference bounds the loss of a better one against
    /// the assignment.
    fn best(&self) -> Matching {
        let mut best = Best { key: (0.0, 0.0, 0.0), matching: vec![None; self.credits.len()] };
        let mut tangent = (0.5, 0.5);
        let mut bound: Option<(f64, (f64, f64), Assignment)> = None;
        for _ in 0..ROUNDS {
            let assignment = Assignment::of(&self.weights(tangent), self.gold);
            let shares = self.shares(&assignment.columns);
            best.keep(shares, &assignment.columns);
            let (value, sum) = (assignment.value, shares.0 + shares.1);
            if bound.as_ref().is_none_or(|(least, ..)| value < *least) {
                bound = Some((value, tangent, assignment));
            }
            let next = (2.0 * (shares.1 / sum).powi(2), 2.0 * (shares.0 / sum).powi(2));
            if sum == 0.0 || next == tangent || value <= best.key.0 + TOLERANCE {
                break;
            }
            tangent = next;
        }
        if let Some((value, tangent, assignment)) = bound.filter(|found| found.0 > best.key.0 + TOLERANCE) {
            let weights = self.weights(tangent);
            Search::new(self, (weights.as_slice(), &assignment), value - best.key.0).run(value, &mut best);
        }
        best.matching
    }

    fn weights(&self, (precision, recall): (f64, f64)) -> Vec<Row> {
        let weight = |(p, r): &Credits| precision * p / self.n_predicted + recall * r / self.n_gold;
        let row =
            |row: &Vec<(usize, Credits)>| row.iter().map(|(column, pair)| (*column, weight(pair))).collect();
        self.credits.iter().map(row).collect()
    }
}

/// The pairs of spans of the same text that share a character; `None` where there are more than
/// [`MOST_PAIRS`].
fn overlapping(predicted: &[Span], gold: &[Span]) -> Option<Vec<(usize, usize)>> {
    let mut pairs = Vec::new();
    for in_source in [false, true] {
        let of = |spans: &[Span], is_gold: bool| -> Vec<(Span, bool, usize)> {
            let spans = spans.iter().enumerate().filter(|(_, span)| span.in_source == in_source);
            spans.map(|(idx, span)| (*span, is_gold, idx)).collect()
        };
        let mut all = [of(predicted, false), of(gold, true)].concat();
        all.sort_by_key(|(span, is_gold, idx)| (span.start, *is_gold, *idx));
        // Spans that began before: predicted ones, gold ones.
        let mut open: [Vec<(usize, usize)>; 2] = Default::default();
        for (span, is_gold, idx) in all {
            let others = &mut open[usize::from(!is_gold)];
            others.retain(|(end, _)| *end > span.start);
            if pairs.len() + others.len() > MOST_PAIRS {
                return None;
            }
            pairs.extend(others.iter().map(|(_, other)| if is_gold { (*other, idx) } else { (idx, *other) }));
            open[usize::from(is_gold)].push((span.end, idx));
        }
    }
    Some(pairs)
}

struct Best {
    /// F-score; between equal ones the sum of precision and recall decides, then precision.
    key: (f64, f64, f64),
    matching: Matching,
}

impl Best {
    fn keep(&mut self, (precision, recall): (f64, f64), matching: &Matching) {
        let key = (harmonic((precision, recall)), precision + recall, precision);
        let greater = |new: f64, old: f64| match new - old {
            difference if difference.abs() <= TOLERANCE => None,
            difference => Some(difference > 0.0),
        };
        let is_better = greater(key.0, self.key.0)
            .or_else(|| greater(key.1, self.key.1))
            .or_else(|| greater(key.2, self.key.2));
        if is_better == Some(true) {
            (self.key, self.matching) = (key, matching.clone());
        }
    }
}

/// Choices of a row: the loss and the column of each.
type Choices = Vec<(f64, Option<usize>)>;

/// All matchings whose bound is no smaller than the best F-score so far.
struct Search<'a> {
    pairs: &'a Pairs,
    /// Rows with more than one choice, and the loss of each choice, the least first. Other rows have the
    /// choice of the assignment.
    open: Vec<(usize, Choices)>,
    chosen: Matching,
    is_taken: Vec<bool>,
    tried: usize,
}

impl<'a> Search<'a> {
    /// `gap`: the difference between the assignment's value and the best F-score so far; no better matching
    /// loses more.
    fn new(pairs: &'a Pairs, (weights, assignment): (&[Row], &Assignment), gap: f64) -> Self {
        let mut search = Self {
            pairs,
            open: Vec::new(),
            chosen: assignment.columns.clone(),
            is_taken: vec![false; pairs.gold],
            tried: 0,
        };
        for (row, weights) in weights.iter().enumerate() {
            let choices = weights.iter().map(|pair| Some(*pair)).chain([None]);
            let mut choices: Vec<(f64, Option<usize>)> = choices
                .map(|choice| (assignment.loss(row, choice), choice.map(|pair| pair.0)))
                .filter(|(loss, _)| *loss <= gap + TOLERANCE)
                .collect();
            choices.sort_by(|a, b| a.0.total_cmp(&b.0));
            if choices.len() > 1 {
                search.chosen[row] = None;
                search.open.push((row, choices));
            } else if let Some(column) = search.chosen[row] {
                search.is_taken[column] = true;
            }
        }
        search
    }

    fn run(mut self, bound: f64, best: &mut Best) {
        // A path through so many rows cannot be completed.
        if self.open.len() < MOST_OPEN_ROWS {
            self.try_row(0, bound, best);
        }
    }

    fn try_row(&mut self, at: usize, bound: f64, best: &mut Best) {
        self.tried += 1;
        if bound < best.key.0 - TOLERANCE || self.tried > MOST_CHOICES {
            return;
        }
        let Some((row, choices)) = self.open.get(at).cloned() else {
            best.keep(self.pairs.shares(&self.chosen), &self.chosen);
            return;
        };
        for (loss, choice) in choices {
            if choice.is_some_and(|column| self.is_taken[column]) {
                continue;
            }
            self.chosen[row] = choice;
            if let Some(column) = choice {
                self.is_taken[column] = true;
            }
            self.try_row(at + 1, bound - loss, best);
            self.chosen[row] = None;
            if let Some(column) = choice {
                self.is_taken[column] = false;
            }
        }
    }
}

fn harmonic((precision, recall): (f64, f64)) -> f64 {
    let sum = precision + recall;
    if sum == 0.0 { 0.0 } else { 2.0 * precision * recall / sum }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spans() -> impl Strategy<Value = Vec<Span>> {
        let span = (0_usize..16, 1_usize..9, any::<bool>()).prop_map(|(start, length, in_source)| Span {
            start,
            end: start + length,
            in_source,
            severity: 1,
        });
        prop::collection::vec(span, 0..6)
    }

    /// The greatest F-score of all matchings, by definition.
    fn greatest(gold: &[Span], predicted: &[Span], of: (f64, f64), credits: Credits) -> f64 {
        let Some((span, rest)) = predicted.split_first() else {
            return harmonic((credits.0 / of.0, credits.1 / of.1));
        };
        let mut f = greatest(gold, rest, of, credits);
        for (column, other) in gold.iter().enumerate().filter(|(_, other)| other.in_source == span.in_source)
        {
            let shared = span.end.min(other.end).saturating_sub(span.start.max(other.start)) as f64;
            let credit = [span, other].map(|span| shared / (span.end - span.start) as f64);
            let left = [&gold[..column], &gold[column + 1..]].concat();
            f = f.max(greatest(&left, rest, of, (credits.0 + credit[0], credits.1 + credit[1])));
        }
        f
    }

    proptest! {
        #[test]
        fn no_matching_has_a_greater_f_score(gold in spans(), predicted in spans(), lost in 0_usize..3) {
            prop_assume!(!gold.is_empty() && !predicted.is_empty());
            let of = ((predicted.len() + lost) as f64, gold.len() as f64);
            let expected = greatest(&gold, &predicted, of, (0.0, 0.0));
            prop_assert!((mpp(&gold, &predicted, lost).unwrap().score().f1 - expected).abs() < 1e-11);
        }

        #[test]
        fn exchanging_the_sides_exchanges_precision_and_recall(gold in spans(), predicted in spans()) {
            let [forward, back] = [(&gold, &predicted), (&predicted, &gold)].map(|(a, b)| mpp(a, b, 0).unwrap().score());
            prop_assert!((forward.f1 - back.f1).abs() < 1e-11);
        }
    }

    #[test]
    fn dozens_of_equal_spans_are_matched_in_time() {
        let span = |start, end| Span { start, end, in_source: false, severity: 1 };
        let gold: Vec<Span> = (0..40).map(|at| span(at, at + 30)).collect();
        let score = mpp(&gold, &[span(10, 60); 30], 0).unwrap().score();
        assert!(score.f1 > 0.3 && score.f1 < 1.0, "{score:?}");
    }

    #[test]
    fn thousands_of_spans_are_matched_and_too_many_pairs_are_not() {
        let spans = |n: usize, shift: usize| -> Vec<Span> {
            let span = |at: usize| Span {
                start: at * 3 + shift,
                end: at * 3 + shift + 4,
                in_source: false,
                severity: 1,
            };
            (0..n).map(span).collect()
        };
        let score = mpp(&spans(20_000, 0), &spans(20_000, 1), 0).unwrap().score();
        assert!((score.f1 - 0.75).abs() < 1e-6, "{score:?}");
        let whole = [Span { start: 0, end: 9, in_source: false, severity: 1 }; 600];
        assert!(mpp(&whole, &whole, 0).is_none());
    }
}
