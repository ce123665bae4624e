//! PERM-BOTH for rank correlations over all scores at once. The scores of both metrics are sorted together
//! before the first resample; a swap moves a score from one metric to the other without changing that order,
//! so no resample sorts. Each draw equals that of [`perm_both`](super::permutation::perm_both) up to
//! rounding.

use super::super::correlation::ranks;
use super::super::pairs::by_value;
use super::super::pcg::Pcg64;
use super::super::tally::Tally;
use super::permutation::{coins, standardised};
use super::{Comparison, Resampling};

/// A coefficient that depends on the order of scores alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankCoefficient {
    Spearman,
    KendallB,
}

/// Swaps the two metrics' standardised scores cell by cell and recomputes both coefficients.
///
/// `gold`, `first` and `second` are scores of the same cells. `None` where a coefficient is undefined.
pub fn perm_both_ranks(
    coefficient: RankCoefficient,
    gold: &[f64],
    first: &[f64],
    second: &[f64],
    resampling: Resampling,
) -> Option<Comparison> {
    let merged = Merged::new(&standardised(first), &standardised(second));
    let gold = Gold::new(gold);
    let both = |swapped: &[bool]| match coefficient {
        RankCoefficient::Spearman => merged.spearman(&gold, swapped),
        RankCoefficient::KendallB => merged.kendall_b(&gold, swapped),
    };
    let difference = |[one, other]: [Option<f64>; 2]| Some(one? - other?);
    let delta = difference(both(&vec![false; first.len()]))?;
    let null = resampling.draw(|index| {
        let swapped = coins(first.len(), &mut Pcg64::stream(resampling.seed, index));
        difference(both(&swapped)).unwrap_or(f64::NEG_INFINITY)
    });
    Some(Comparison::new(delta, null))
}

/// Terms of the gold scores, which no swap changes.
struct Gold {
    /// Ranks less their mean.
    ranks: Vec<f64>,
    /// Dense ranks from 0: equal scores share a class.
    classes: Vec<usize>,
    n_classes: usize,
    tied_pairs: u64,
}

impl Gold {
    fn new(scores: &[f64]) -> Self {
        let mean = f64::midpoint(scores.len() as f64, 1.0);
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|&a, &b| by_value(scores[a], scores[b]));
        let (mut classes, mut n_classes, mut tied_pairs) = (vec![0; scores.len()], 0, 0);
        for run in order.chunk_by(|&a, &b| scores[a] == scores[b]) {
            for &cell in run {
                classes[cell] = n_classes;
            }
            n_classes += 1;
            tied_pairs += pairs_of(run.len() as u64);
        }
        let ranks = ranks(scores).into_iter().map(|rank| rank - mean).collect();
        Self { ranks, classes, n_classes, tied_pairs }
    }
}

fn pairs_of(n: u64) -> u64 {
    n * n.saturating_sub(1) / 2
}

/// The cells of both metrics, sorted together by score.
struct Merged {
    /// For each score, lowest first: twice its cell, plus one for the second metric.
    order: Vec<usize>,
    /// The end of each run of equal scores in `order`.
    ends: Vec<usize>,
}

impl Merged {
    fn new(first: &[f64], second: &[f64]) -> Self {
        let score = |entry: usize| if entry & 1 == 0 { first[entry >> 1] } else { second[entry >> 1] };
        let mut order: Vec<usize> = (0..2 * first.len()).collect();
        order.sort_by(|&a, &b| by_value(score(a), score(b)));
        let mut end = 0;
        let ends = order
            .chunk_by(|&a, &b| score(a) == score(b))
            .map(|run| {
                end += run.len();
                end
            })
            .collect();
        Self { order, ends }
    }

    /// For each run of equal scores, lowest first: its cells, each with its metric after the swaps (0 or 1).
    fn runs<'a>(&'a self, swapped: &'a [bool]) -> impl Iterator<Item = impl Iterator<Item = (usize, usize)>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(move |(start, end)| {
            let run = self.order[start..*end].iter();
            run.map(|entry| (entry >> 1, (entry & 1) ^ usize::from(swapped[entry >> 1])))
        })
    }

    fn spearman(&self, gold: &Gold, swapped: &[bool]) -> [Option<f64>; 2] {
        let mean = f64::midpoint(gold.ranks.len() as f64, 1.0);
        let gold_square: f64 = gold.ranks.iter().map(|rank| rank * rank).sum();
        let (mut before, mut products, mut squares) = ([0.0; 2], [0.0; 2], [0.0; 2]);
        for run in self.runs(swapped) {
            let (mut size, mut gold_sum) = ([0.0; 2], [0.0; 2]);
            for (cell, side) in run {
                size[side] += 1.0;
                gold_sum[side] += gold.ranks[cell];
            }
            for side in 0..2 {
                let rank = before[side] + f64::midpoint(size[side], 1.0) - mean;
                products[side] += rank * gold_sum[side];
                squares[side] += size[side] * rank * rank;
                before[side] += size[side];
            }
        }
        [0, 1].map(|side| {
            let defined = gold_square > 0.0 && squares[side] > 0.0;
            defined.then(|| (products[side] / (gold_square.sqrt() * squares[side].sqrt())).clamp(-1.0, 1.0))
        })
    }

    fn kendall_b(&self, gold: &Gold, swapped: &[bool]) -> [Option<f64>; 2] {
        let mut lower = [Tally::new(gold.n_classes), Tally::new(gold.n_classes)];
        let (mut balance, mut tied) = ([0_i64; 2], [0_u64; 2]);
        let mut run_cells: Vec<(usize, usize)> = Vec::new();
        for run in self.runs(swapped) {
            run_cells.clear();
            run_cells.extend(run);
            let mut size = [0; 2];
            for (cell, side) in &run_cells {
                let class = gold.classes[*cell];
                let (below, upto) = (lower[*side].below(class), lower[*side].below(class + 1));
                balance[*side] += below as i64 - (lower[*side].n - upto) as i64;
                size[*side] += 1;
            }
            for (cell, side) in &run_cells {
                lower[*side].add(gold.classes[*cell]);
            }
            tied = [0, 1].map(|side| tied[side] + pairs_of(size[side]));
        }
        let total = pairs_of(gold.ranks.len() as u64);
        [0, 1].map(|side| {
            let untied = [total - gold.tied_pairs, total - tied[side]].map(|pairs| pairs as f64);
            let defined = untied[0] > 0.0 && untied[1] > 0.0;
            defined.then(|| (balance[side] as f64 / untied[0].sqrt() / untied[1].sqrt()).clamp(-1.0, 1.0))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::permutation::perm_both;
    use super::*;
    use crate::correlation::{kendall_b, spearman};

    proptest! {
        #[test]
        fn draws_equal_those_that_sort(cells in prop::collection::vec((-3_i8..3, -4_i8..4, -9_i8..9), 4..90)) {
            let column = |pick: fn(&(i8, i8, i8)) -> i8| -> Vec<f64> {
                cells.iter().map(|cell| f64::from(pick(cell)) / 4.0).collect()
            };
            let (gold, first, second) = (column(|c| c.0), column(|c| c.1), column(|c| c.2));
            let resampling = Resampling { resamples: 20, seed: 3 };
            let sorting = [
                perm_both(&first, &second, resampling, |m| spearman(&gold, m).ok().map(|r| r.value)),
                perm_both(&first, &second, resampling, |m| kendall_b(&gold, m).ok().map(|r| r.value)),
            ];
            let fast = [RankCoefficient::Spearman, RankCoefficient::KendallB]
                .map(|coefficient| perm_both_ranks(coefficient, &gold, &first, &second, resampling));
            for (sorting, fast) in sorting.iter().zip(&fast) {
                prop_assert_eq!(sorting.is_some(), fast.is_some());
                let (Some(sorting), Some(fast)) = (sorting, fast) else { continue };
                prop_assert!((sorting.delta - fast.delta).abs() < 1e-12);
                for (a, b) in sorting.null.iter().zip(&fast.null) {
                    prop_assert!(a == b || (a - b).abs() < 1e-12, "{} {}", a, b);
                }
            }
        }
    }

    #[test]
    fn a_metric_does_not_beat_itself() {
        let (gold, scores) = ([1.0, 2.0, 2.0, 4.0], [3.0, 1.0, 3.0, 5.0]);
        for coefficient in [RankCoefficient::Spearman, RankCoefficient::KendallB] {
            let test = perm_both_ranks(coefficient, &gold, &scores, &scores, Resampling::default()).unwrap();
            assert_eq!((test.delta, test.p), (0.0, 1.0));
        }
    }
}
