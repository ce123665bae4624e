//! Two systems judged on the same segments: paired bootstrap and approximate randomization over segments, for
//! the difference of their mean scores. Systems are compared, not metrics.
//!
//! Source: the bootstrap test of a mean, two-sided, over differences centred on their mean: Efron and
//! Tibshirani, An Introduction to the Bootstrap, 1993, chapter 16; approximate randomization: Riezler and
//! Maxwell, On Some Pitfalls in Automatic Evaluation and Significance Testing for MT, 2005, as in sacreBLEU
//! `significance.py`; p-values with one added to both counts. Differs: Koehn's paired bootstrap (2004) is
//! neither centred nor two-sided, its share of samples is [`PairedTest::wins`]; sacreBLEU's bootstrap centres
//! absolute differences, which gives smaller p-values.

use rayon::prelude::*;
use serde::Serialize;

use super::super::correlation::{Undefined, mean};
use super::super::pcg::Pcg64;
use super::super::range::{scaled, unscaled};

/// The difference of two systems and both tests of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PairedTest {
    /// Mean score of the first less that of the second, over the segments both were judged on.
    pub difference: f64,
    /// 95% percentile interval of the difference under the bootstrap.
    pub interval: (f64, f64),
    /// Two-sided p-value of the paired bootstrap. Range: 0 to 1, never 0.
    pub bootstrap_p: f64,
    /// Two-sided p-value of approximate randomization. Range: 0 to 1, never 0.
    pub randomization_p: f64,
    /// Share of bootstrap samples in which the first system is better; a tie counts half.
    pub wins: f64,
    pub n_segments: usize,
}

/// Compares two systems on paired segment scores.
///
/// # Errors
/// No segment.
///
/// ```
/// use tribunal_meta::significance::paired::compare_systems;
/// // The first system is one better on every segment: so it is in every resample.
/// let test = compare_systems(&[(2.0, 1.0), (5.0, 4.0), (0.0, -1.0)], 999, 7).unwrap();
/// assert_eq!((test.difference, test.interval, test.wins), (1.0, (1.0, 1.0), 1.0));
/// ```
pub fn compare_systems(pairs: &[(f64, f64)], resamples: usize, seed: u64) -> Result<PairedTest, Undefined> {
    if pairs.is_empty() {
        return Err(Undefined::TooFew);
    }
    let both: Vec<f64> = pairs.iter().flat_map(|(first, second)| [*first, *second]).collect();
    let (both, exponent) = scaled(&both);
    let differences: Vec<f64> = both.chunks_exact(2).map(|pair| pair[0] - pair[1]).collect();
    let difference = mean(&differences);
    let mut boot: Vec<f64> = (0..resamples as u64)
        .into_par_iter()
        .map(|index| resampled_mean(&differences, &mut Pcg64::stream(seed, index)))
        .collect();
    let centre = mean(&boot);
    let flips: Vec<f64> = (0..resamples as u64)
        .into_par_iter()
        .map(|index| flipped_mean(&differences, &mut Pcg64::stream(!seed, index)))
        .collect();
    let reached = |draws: &[f64], centre: f64| {
        let hits = draws.iter().filter(|draw| (*draw - centre).abs() >= difference.abs()).count();
        (hits as f64 + 1.0) / (resamples as f64 + 1.0)
    };
    let bootstrap_p = reached(&boot, centre);
    let randomization_p = reached(&flips, 0.0);
    let wins =
        boot.iter().map(|draw| if *draw > 0.0 { 1.0 } else { 0.5 * f64::from(*draw == 0.0) }).sum::<f64>();
    boot.sort_by(f64::total_cmp);
    Ok(PairedTest {
        difference: unscaled(difference, exponent),
        interval: in_units(percentile_interval(&boot), exponent),
        bootstrap_p,
        randomization_p,
        wins: wins / resamples as f64,
        n_segments: pairs.len(),
    })
}

/// A mean score and its 95% bootstrap interval over segments.
pub fn mean_interval(scores: &[f64], resamples: usize, seed: u64) -> (f64, (f64, f64)) {
    let (in_range, exponent) = scaled(scores);
    let mut boot: Vec<f64> = (0..resamples as u64)
        .into_par_iter()
        .map(|index| resampled_mean(&in_range, &mut Pcg64::stream(seed, index)))
        .collect();
    boot.sort_by(f64::total_cmp);
    (mean(scores), in_units(percentile_interval(&boot), exponent))
}

fn in_units((low, high): (f64, f64), exponent: i32) -> (f64, f64) {
    (unscaled(low, exponent), unscaled(high, exponent))
}

/// The 2.5th and 97.5th percentile of sorted values (nearest rank).
pub fn percentile_interval(sorted: &[f64]) -> (f64, f64) {
    let Some(last) = sorted.len().checked_sub(1) else { return (f64::NAN, f64::NAN) };
    let at = |share: f64| sorted[(share * last as f64).round() as usize];
    (at(0.025), at(0.975))
}

fn resampled_mean(values: &[f64], random: &mut Pcg64) -> f64 {
    let sum: f64 = (0..values.len()).map(|_| values[random.below(values.len())]).sum();
    sum / values.len() as f64
}

fn flipped_mean(values: &[f64], random: &mut Pcg64) -> f64 {
    let mut sum = 0.0;
    for chunk in values.chunks(64) {
        let mut coins = random.next_u64();
        for value in chunk {
            sum += if coins & 1 == 1 { *value } else { -value };
            coins >>= 1;
        }
    }
    sum / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_difference_is_not_significant() {
        let pairs: Vec<(f64, f64)> = (0..200).map(|i| (f64::from(i % 7), f64::from((i + 3) % 7))).collect();
        let test = compare_systems(&pairs, 1000, 1).unwrap();
        assert!(test.bootstrap_p > 0.3 && test.randomization_p > 0.3, "{test:?}");
    }

    #[test]
    fn a_clear_difference_is() {
        let pairs: Vec<(f64, f64)> =
            (0..200).map(|i| (f64::from(i % 7) + 1.0, f64::from((i * 5 + 3) % 7))).collect();
        let test = compare_systems(&pairs, 1000, 1).unwrap();
        assert!(test.bootstrap_p < 0.01 && test.randomization_p < 0.01, "{test:?}");
        assert!(test.interval.0 > 0.0 && test.interval.0 < 1.0 && test.interval.1 > 1.0);
    }

    #[test]
    fn constant_equal_scores_have_p_one() {
        let test = compare_systems(&[(1.0, 1.0); 5], 100, 1).unwrap();
        assert_eq!((test.bootstrap_p, test.randomization_p, test.wins), (1.0, 1.0, 0.5));
    }
}
