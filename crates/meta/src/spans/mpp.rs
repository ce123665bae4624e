//! MPP, "match with partial overlap and partial credit": spans matched one to one, each with credit for the share of it
//! that its counterpart covers. It looks at no severities and no quotes.
//!
//! Source: Perrella, Morales Agostinho and Zaragoza 2026, Span-Level Machine Translation Meta-Evaluation (arXiv
//! 2603.19921); sted19/span-mt-metrics-eval at b55b90f, `compute` with its defaults.

use super::assignment::Assignment;
use super::{Overlap, Span};

/// F-scores nearer than this are the same.
const TOLERANCE: f64 = 1e-12;

/// Linear programs that are solved for the upper bound.
const ROUNDS: usize = 32;

/// Choices that are tried where the bound leaves some open: beyond it the best matching so far counts, which can only
/// be reached by dozens of spans on the same characters.
const MOST_CHOICES: usize = 100_000;

/// What one unit adds to micro-averaged MPP: a predicted span has the credit `overlap / its length`, a gold span
/// likewise, under the one-to-one matching of greatest F-score in this unit. Translation and source are one pool, in
/// which a span can only match one of its own side; severities do not count. `lost`: predicted errors that are nowhere
/// in the text.
///
/// Empty spans cannot overlap with anything and are left out.
///
/// ```
/// use tribunal_meta::spans::{Span, mpp::mpp};
/// let span = |start, end| Span { start, end, in_source: false, severity: 1 };
/// // One of two gold spans is matched: all of the prediction lies in it, and covers half of it.
/// let score = mpp(&[span(0, 4), span(8, 9)], &[span(2, 4)], 0).score();
/// assert_eq!((score.precision, score.recall), (1.0, 0.25));
/// // A second prediction in the same gold span has no counterpart left.
/// let score = mpp(&[span(0, 4)], &[span(0, 2), span(2, 4)], 0).score();
/// assert_eq!((score.precision, score.recall), (0.5, 0.5));
/// assert_eq!(mpp(&[], &[], 0).score().f1, 1.0);
/// ```
#[must_use]
pub fn mpp(gold: &[Span], predicted: &[Span], lost: usize) -> Overlap {
    let whole = |spans: &[Span]| -> Vec<Span> {
        spans.iter().filter(|span| span.start < span.end).copied().collect()
    };
    let pairs = Pairs::new(&whole(gold), &whole(predicted), lost);
    let credits = pairs.credits(&pairs.best());
    Overlap {
        right_predicted: credits.0,
        predicted: pairs.n_predicted,
        found_gold: credits.1,
        gold: pairs.n_gold,
    }
}

/// The gold span of each predicted one.
type Matching = Vec<Option<usize>>;

/// Sums of credits on the predicted and on the gold side.
type Credits = (f64, f64);

/// What every pair of a predicted and a gold span would add.
struct Pairs {
    /// Shape: `[predicted, gold]`.
    credits: Vec<Vec<Credits>>,
    n_predicted: f64,
    n_gold: f64,
}

impl Pairs {
    fn new(gold: &[Span], predicted: &[Span], lost: usize) -> Self {
        let credit = |one: &Span, other: &Span| {
            let end = one.end.min(other.end);
            let shared = end.saturating_sub(one.start.max(other.start));
            let shared = if one.in_source == other.in_source { shared as f64 } else { 0.0 };
            (shared / (one.end - one.start) as f64, shared / (other.end - other.start) as f64)
        };
        Self {
            credits: predicted.iter().map(|p| gold.iter().map(|g| credit(p, g)).collect()).collect(),
            n_predicted: (predicted.len() + lost) as f64,
            n_gold: gold.len() as f64,
        }
    }

    fn credits(&self, matching: &Matching) -> Credits {
        let pairs =
            matching.iter().enumerate().filter_map(|(row, column)| Some(self.credits[row][(*column)?]));
        pairs.fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1))
    }

    /// Precision and recall of a unit with a gold and a predicted span.
    fn shares(&self, matching: &Matching) -> (f64, f64) {
        let (predicted, gold) = self.credits(matching);
        (predicted / self.n_predicted, gold / self.n_gold)
    }

    /// The matching of greatest F-score.
    ///
    /// F is concave, and as great as precision and recall are, so its tangent at any point lies above it everywhere.
    /// The matching that maximises a tangent is a linear assignment; where F meets the tangent there, no matching has a
    /// greater F. Otherwise the difference says what a better one may lose against the assignment.
    fn best(&self) -> Matching {
        let mut best = Best { key: (0.0, 0.0, 0.0), matching: vec![None; self.credits.len()] };
        let mut tangent = (0.5, 0.5);
        let mut bound: Option<(f64, Assignment)> = None;
        for _ in 0..ROUNDS {
            let assignment = Assignment::of(&self.weights(tangent));
            let shares = self.shares(&assignment.columns);
            best.keep(shares, &assignment.columns);
            let (value, sum) = (assignment.value, shares.0 + shares.1);
            if bound.as_ref().is_none_or(|(least, _)| value < *least) {
                bound = Some((value, assignment));
            }
            let next = (2.0 * (shares.1 / sum).powi(2), 2.0 * (shares.0 / sum).powi(2));
            if sum == 0.0 || next == tangent || value <= best.key.0 + TOLERANCE {
                break;
            }
            tangent = next;
        }
        if let Some((value, assignment)) = bound.filter(|(value, _)| *value > best.key.0 + TOLERANCE) {
            let search = Search { pairs: self, assignment: &assignment };
            search.try_row(0, value, &mut vec![None; self.credits.len()], &mut best, &mut 0);
        }
        best.matching
    }

    fn weights(&self, (precision, recall): (f64, f64)) -> Vec<Vec<f64>> {
        let weight = |(p, r): &Credits| precision * p / self.n_predicted + recall * r / self.n_gold;
        self.credits.iter().map(|row| row.iter().map(weight).collect()).collect()
    }
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

/// All matchings whose bound is no smaller than the best F-score so far.
struct Search<'a> {
    pairs: &'a Pairs,
    assignment: &'a Assignment,
}

impl Search<'_> {
    fn try_row(&self, row: usize, bound: f64, chosen: &mut Matching, best: &mut Best, tried: &mut usize) {
        *tried += 1;
        if bound < best.key.0 - TOLERANCE || *tried > MOST_CHOICES {
            return;
        }
        let Some(credits) = self.pairs.credits.get(row) else {
            best.keep(self.pairs.shares(chosen), chosen);
            return;
        };
        let mut choices: Vec<Option<usize>> = vec![None];
        let free = |column: &usize| credits[*column].0 > 0.0 && !chosen[..row].contains(&Some(*column));
        choices.extend((0..credits.len()).filter(free).map(Some));
        choices.sort_by(|a, b| self.assignment.loss(row, *a).total_cmp(&self.assignment.loss(row, *b)));
        for choice in choices {
            chosen[row] = choice;
            self.try_row(row + 1, bound - self.assignment.loss(row, choice), chosen, best, tried);
        }
        chosen[row] = None;
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

    /// The greatest F-score of all matchings.
    fn greatest(pairs: &Pairs, row: usize, chosen: &mut Matching) -> f64 {
        let Some(credits) = pairs.credits.get(row) else { return harmonic(pairs.shares(chosen)) };
        let mut f = greatest(pairs, row + 1, chosen);
        for column in 0..credits.len() {
            if !chosen.contains(&Some(column)) {
                chosen[row] = Some(column);
                f = f.max(greatest(pairs, row + 1, chosen));
                chosen[row] = None;
            }
        }
        f
    }

    proptest! {
        #[test]
        fn no_matching_has_a_greater_f_score(gold in spans(), predicted in spans(), lost in 0_usize..3) {
            prop_assume!(!gold.is_empty() && !predicted.is_empty());
            let pairs = Pairs::new(&gold, &predicted, lost);
            let expected = greatest(&pairs, 0, &mut vec![None; predicted.len()]);
            prop_assert!((mpp(&gold, &predicted, lost).score().f1 - expected).abs() < 1e-11);
        }

        #[test]
        fn exchanging_the_sides_exchanges_precision_and_recall(gold in spans(), predicted in spans()) {
            let (forward, back) = (mpp(&gold, &predicted, 0).score(), mpp(&predicted, &gold, 0).score());
            prop_assert!((forward.f1 - back.f1).abs() < 1e-11);
        }
    }

    #[test]
    fn dozens_of_equal_spans_are_matched_in_time() {
        let span = |start, end| Span { start, end, in_source: false, severity: 1 };
        let gold: Vec<Span> = (0..40).map(|at| span(at, at + 30)).collect();
        let score = mpp(&gold, &[span(10, 60); 30], 0).score();
        assert!(score.f1 > 0.3 && score.f1 < 1.0, "{score:?}");
    }
}
