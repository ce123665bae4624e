//! PERM-BOTH, the permutation test for the difference of two metrics, and its variant over pairs for acc-eq.
//!
//! Source: Deutsch, Dror and Roth, A Statistical Analysis of Summarization Evaluation Metrics Using
//! Resampling Methods, 2021; mt-metrics-eval `PermutationSigDiff` and `PairwisePermutationSigDiff`. Differs:
//! seeded; no early stop; a resample without a value never reaches the difference, there it counts as 0.

use super::super::align::Aligned;
use super::super::pcg::Pcg64;
use super::super::range::scaled;
use super::super::ties::equal_weights;
use super::{Comparison, Resampling};

/// Swaps the two metrics' standardised scores cell by cell and recomputes both statistics.
///
/// `first` and `second` are scores of the same cells; `statistic` reads one such vector. A resample where a
/// statistic is undefined counts as a difference of minus infinity: it never reaches the observed one.
pub fn perm_both(
    first: &[f64],
    second: &[f64],
    resampling: Resampling,
    statistic: impl Fn(&[f64]) -> Option<f64> + Sync,
) -> Option<Comparison> {
    let (first, second) = (standardised(first), standardised(second));
    let delta = statistic(&first)? - statistic(&second)?;
    let null = resampling.draw(|index| {
        let (mut one, mut other) = (first.clone(), second.clone());
        swap_by_coin(&mut one, &mut other, &mut Pcg64::stream(resampling.seed, index));
        match (statistic(&one), statistic(&other)) {
            (Some(one), Some(other)) => one - other,
            _ => f64::NEG_INFINITY,
        }
    });
    Some(Comparison::new(delta, null))
}

fn swap_by_coin(one: &mut [f64], other: &mut [f64], random: &mut Pcg64) {
    let swaps = coins(one.len(), random);
    for ((one, other), swap) in one.iter_mut().zip(other).zip(swaps) {
        if swap {
            std::mem::swap(one, other);
        }
    }
}

/// One coin per cell, 64 from each draw.
pub(super) fn coins(n: usize, random: &mut Pcg64) -> Vec<bool> {
    let mut coins = Vec::with_capacity(n);
    while coins.len() < n {
        let bits = random.next_u64();
        coins.extend((0..64.min(n - coins.len())).map(|bit| (bits >> bit) & 1 == 1));
    }
    coins
}

/// Scores with mean 0 and (population) standard deviation 1; only centred when they are constant.
///
/// ```
/// use tribunal_meta::significance::permutation::standardised;
/// assert_eq!(standardised(&[1.0, 3.0]), [-1.0, 1.0]);
/// assert_eq!(standardised(&[4.0, 4.0]), [0.0, 0.0]);
/// ```
pub fn standardised(scores: &[f64]) -> Vec<f64> {
    let (scores, _) = scaled(scores);
    let mean = super::super::correlation::mean(&scores);
    let squares: Vec<f64> = scores.iter().map(|x| (x - mean) * (x - mean)).collect();
    let deviation = super::super::correlation::mean(&squares).sqrt();
    let unit = if deviation > 0.0 { deviation } else { 1.0 };
    scores.iter().map(|x| (x - mean) / unit).collect()
}

/// The pairs of translations of each segment that a metric orders rightly at its threshold.
#[derive(Clone, Debug)]
pub struct PairCells {
    right: Vec<bool>,
    /// Weight of each pair, so that every segment counts the same.
    weights: Vec<i64>,
    whole: i64,
}

impl PairCells {
    /// Judges every pair of the cells of `mask` that the raters scored, at threshold `epsilon`.
    ///
    /// `mask` has the shape of the scores; metrics are compared on the cells that both scored.
    pub fn new(scores: &Aligned, epsilon: f64, mask: &[bool]) -> Self {
        let mut right = Vec::new();
        let mut pairs_of_segment = Vec::with_capacity(scores.n_segments);
        for segment in 0..scores.n_segments {
            let rated: Vec<(f64, f64)> = (0..scores.n_systems())
                .filter(|system| mask[system * scores.n_segments + segment])
                .filter_map(|system| scores.cell(system, segment))
                .collect();
            let before = right.len();
            for (i, (gold, metric)) in rated.iter().enumerate() {
                right.extend(
                    rated[i + 1..].iter().map(|other| is_right(gold - other.0, metric - other.1, epsilon)),
                );
            }
            pairs_of_segment.push((right.len() - before) as u64);
        }
        let (segment_weights, unit) = equal_weights(&pairs_of_segment, 1 << 40);
        let per_pair = pairs_of_segment.iter().zip(&segment_weights);
        let weights =
            per_pair.flat_map(|(n, weight)| std::iter::repeat_n(*weight as i64, *n as usize)).collect();
        let used = pairs_of_segment.iter().filter(|n| **n > 0).count() as i64;
        Self { right, weights, whole: unit as i64 * used }
    }

    /// Mean accuracy over segments.
    pub fn accuracy(&self) -> f64 {
        let right = self.right.iter().zip(&self.weights).map(|(right, weight)| i64::from(*right) * weight);
        right.sum::<i64>() as f64 / self.whole as f64
    }

    /// Swaps the two metrics' pairs, each threshold staying with its metric.
    ///
    /// Both must come from the same mask.
    pub fn compare(&self, other: &Self, resampling: Resampling) -> Comparison {
        // A pair that both judge alike cancels out, whichever side it is on.
        let differing: Vec<i64> = self
            .right
            .iter()
            .zip(&other.right)
            .zip(&self.weights)
            .filter(|((one, two), _)| one != two)
            .map(|((one, _), weight)| if *one { *weight } else { -weight })
            .collect();
        let delta: i64 = differing.iter().sum();
        let share = |difference: i64| difference as f64 / self.whole as f64;
        let null = resampling.draw(|index| {
            let mut random = Pcg64::stream(resampling.seed, index);
            share(differing.chunks(64).map(|weights| flipped_sum(weights, random.next_u64())).sum())
        });
        Comparison::new(share(delta), null)
    }
}

fn flipped_sum(weights: &[i64], mut coins: u64) -> i64 {
    let mut sum = 0;
    for weight in weights {
        sum += weight * (1 - 2 * (coins & 1) as i64);
        coins >>= 1;
    }
    sum
}

fn is_right(gold: f64, metric: f64, epsilon: f64) -> bool {
    match (gold == 0.0, metric.abs() <= epsilon) {
        (gold_tie, true) => gold_tie,
        (true, false) => false,
        (false, false) => (gold > 0.0) == (metric > 0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::average::{Coefficient, Grouping, average};
    use crate::correlation::pearson;

    fn aligned(gold: &[f64], metric: &[f64], n_segments: usize) -> Aligned {
        Aligned {
            systems: (0..gold.len() / n_segments).map(|system| format!("s{system}")).collect(),
            n_segments,
            gold: gold.iter().copied().map(Some).collect(),
            metric: metric.iter().copied().map(Some).collect(),
        }
    }

    #[test]
    fn a_metric_does_not_beat_itself() {
        let scores = [3.0, 1.0, 2.0, 5.0];
        let gold = [1.0, 2.0, 3.0, 4.0];
        let statistic = |m: &[f64]| pearson(&gold, m).ok().map(|r| r.value);
        let same = perm_both(&scores, &scores, Resampling::default(), statistic).unwrap();
        assert_eq!((same.delta, same.p), (0.0, 1.0));
    }

    #[test]
    fn a_good_metric_beats_noise() {
        let gold: Vec<f64> = (0..60).map(f64::from).collect();
        let noise: Vec<f64> = (0..60).map(|i| f64::from((i * 37 + 11) % 60)).collect();
        let statistic = |m: &[f64]| pearson(&gold, m).ok().map(|r| r.value);
        let better = perm_both(&gold, &noise, Resampling::default(), statistic).unwrap();
        assert!(better.p < 0.01, "{}", better.p);
        let again = perm_both(&gold, &noise, Resampling::default(), statistic).unwrap();
        assert_eq!(better, again);
    }

    #[test]
    fn pair_cells_hold_the_accuracy() {
        let scores = aligned(&[1.0, 1.0, 2.0, 2.0, 2.0, 3.0], &[1.0, 2.0, 1.5, 1.0, 3.0, 3.0], 2);
        for epsilon in [0.0, 0.5, 1.0] {
            let cells = PairCells::new(&scores, epsilon, &[true; 6]);
            let direct = average(&scores, Grouping::Item, Coefficient::Acc23 { epsilon }).unwrap();
            assert!((cells.accuracy() - direct.value).abs() < 1e-15);
        }
    }
}
