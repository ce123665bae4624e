//! Pearson, Spearman and Kendall over two complete vectors. Groups are averaged in `average`, gaps filled in
//! `align`.

use schemars::JsonSchema;
use serde::Serialize;

use super::pairs::{PairCounts, by_value};
use super::probability::{correlation_p, normal_tail};
use super::range::scaled;

/// The reason why a statistic has no value. It is never replaced by a zero or a NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, thiserror::Error, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Undefined {
    #[error("fewer than two scored pairs")]
    TooFew,
    #[error("over two values a correlation is always 1 or -1")]
    TwoValues,
    #[error("all rated translations are of one document, so none can be held out")]
    OneDocument,
    #[error("the human scores are constant")]
    ConstantGold,
    #[error("the metric's scores are constant")]
    ConstantMetric,
    #[error("no row has a defined value")]
    NoRow,
    #[error("no pair to compare")]
    NoPair,
    #[error("no segment is scored for every system")]
    NoSharedSegment,
    #[error("the metric has no scores at this level")]
    NoScores,
    #[error("the scores are too large to be squared and added up")]
    TooLarge,
}

/// A correlation coefficient and its two-sided p-value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Correlation {
    /// Range: -1 to 1, higher is better.
    pub value: f64,
    /// Range: 0 to 1.
    pub p: f64,
}

/// Product-moment correlation.
///
/// # Errors
/// Fewer than two pairs, or a vector without variance.
///
/// Source: `scipy.stats.pearsonr`; a constant vector is undefined as in mt-metrics-eval.
///
/// ```
/// use tribunal_meta::correlation::pearson;
/// // Deviations (-1, 0, 1) and (-1, 0, 1): 2 / sqrt(2 * 2).
/// assert!((pearson(&[1.0, 2.0, 3.0], &[5.0, 6.0, 7.0]).unwrap().value - 1.0).abs() < 1e-12);
/// // Deviations (-1, 0, 1) and (0, -1, 1): 1 / sqrt(2 * 2).
/// assert!((pearson(&[1.0, 2.0, 3.0], &[2.0, 1.0, 3.0]).unwrap().value - 0.5).abs() < 1e-12);
/// assert!(pearson(&[1.0, 2.0], &[4.0, 4.0]).is_err());
/// ```
pub fn pearson(gold: &[f64], metric: &[f64]) -> Result<Correlation, Undefined> {
    let value = pearson_value(gold, metric)?;
    Ok(Correlation { value, p: correlation_p(value, gold.len()) })
}

/// [`pearson`] without its p-value, which costs more than the coefficient on short vectors.
pub(crate) fn pearson_value(gold: &[f64], metric: &[f64]) -> Result<f64, Undefined> {
    check_variance(gold, metric)?;
    let (gold, metric) = (scaled(gold).0, scaled(metric).0);
    let (gold_mean, metric_mean) = (mean(&gold), mean(&metric));
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (x, y) in gold.iter().zip(metric.iter()) {
        let (dx, dy) = (x - gold_mean, y - metric_mean);
        xx += dx * dx;
        yy += dy * dy;
        xy += dx * dy;
    }
    Ok((xy / (xx.sqrt() * yy.sqrt())).clamp(-1.0, 1.0))
}

/// Rank correlation: Pearson over ranks, tied values sharing their mean rank.
///
/// # Errors
/// Those of [`pearson`].
///
/// Source: `scipy.stats.spearmanr`.
///
/// ```
/// use tribunal_meta::correlation::spearman;
/// // Ranks (1, 2, 3) and (2, 1, 3).
/// assert!((spearman(&[1.0, 2.0, 3.0], &[20.0, 10.0, 90.0]).unwrap().value - 0.5).abs() < 1e-15);
/// ```
pub fn spearman(gold: &[f64], metric: &[f64]) -> Result<Correlation, Undefined> {
    let value = spearman_value(gold, metric)?;
    Ok(Correlation { value, p: correlation_p(value, gold.len()) })
}

/// [`spearman`] without its p-value.
pub(crate) fn spearman_value(gold: &[f64], metric: &[f64]) -> Result<f64, Undefined> {
    check_variance(gold, metric)?;
    pearson_value(&ranks(gold), &ranks(metric))
}

/// Kendall's tau-b: pairs tied in one vector shrink the denominator.
///
/// # Errors
/// Those of [`pearson`].
///
/// Source: `scipy.stats.kendalltau(variant="b")`.
///
/// ```
/// use tribunal_meta::correlation::kendall_b;
/// // mt-metrics-eval's own anchor: C = 6, D = 3, one gold tie: 3 / sqrt(9 * 10).
/// let tau = kendall_b(&[1.0, 2.0, 2.0, 3.0, 4.0], &[2.0, 1.0, 1.5, 5.0, 3.0]).unwrap();
/// assert!((tau.value - 0.316_227_766).abs() < 1e-9);
/// ```
pub fn kendall_b(gold: &[f64], metric: &[f64]) -> Result<Correlation, Undefined> {
    check_variance(gold, metric)?;
    let pairs = PairCounts::count(gold, metric);
    let value = pairs.tau_b().ok_or(Undefined::NoPair)?;
    Ok(Correlation { value, p: kendall_p(gold, metric, &pairs) })
}

/// Kendall's tau-c (Stuart): corrected for the number of distinct values.
///
/// # Errors
/// Those of [`pearson`].
///
/// Source: `scipy.stats.kendalltau(variant="c")`.
///
/// ```
/// use tribunal_meta::correlation::kendall_c;
/// // C - D = 4, n = 5, m = 4 distinct gold values: 2 * 3 / (25 * 3 / 4).
/// let tau = kendall_c(&[1.0, 2.0, 2.0, 3.0, 4.0], &[2.0, 1.0, 1.5, 5.0, 3.0]).unwrap();
/// assert!((tau.value - 0.32).abs() < 1e-12);
/// ```
pub fn kendall_c(gold: &[f64], metric: &[f64]) -> Result<Correlation, Undefined> {
    check_variance(gold, metric)?;
    let pairs = PairCounts::count(gold, metric);
    let value = tau_c(gold, metric, &pairs);
    Ok(Correlation { value, p: kendall_p(gold, metric, &pairs) })
}

/// [`kendall_b`] without its p-value.
pub(crate) fn kendall_b_value(gold: &[f64], metric: &[f64]) -> Result<f64, Undefined> {
    check_variance(gold, metric)?;
    PairCounts::count(gold, metric).tau_b().ok_or(Undefined::NoPair)
}

/// [`kendall_c`] without its p-value.
pub(crate) fn kendall_c_value(gold: &[f64], metric: &[f64]) -> Result<f64, Undefined> {
    check_variance(gold, metric)?;
    Ok(tau_c(gold, metric, &PairCounts::count(gold, metric)))
}

fn tau_c(gold: &[f64], metric: &[f64], pairs: &PairCounts) -> f64 {
    let classes = distinct(gold).min(distinct(metric)) as f64;
    let n = gold.len() as f64;
    (2.0 * pairs.balance() as f64 / (n * n * (classes - 1.0) / classes)).clamp(-1.0, 1.0)
}

/// Ranks from 1; tied values share the mean of their ranks.
///
/// ```
/// use tribunal_meta::correlation::ranks;
/// assert_eq!(ranks(&[5.0, 1.0, 5.0]), [2.5, 1.0, 2.5]);
/// ```
pub fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| by_value(values[a], values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for run in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let shared = before as f64 + f64::midpoint(run.len() as f64, 1.0);
        for &index in run {
            ranks[index] = shared;
        }
        before += run.len();
    }
    ranks
}

/// Arithmetic mean, summed in order; 0 for no values.
pub fn mean(values: &[f64]) -> f64 {
    let (n, sum) = (values.len().max(1) as f64, values.iter().sum::<f64>());
    if sum.is_finite() { sum / n } else { values.iter().map(|x| x / n).sum() }
}

fn check_variance(gold: &[f64], metric: &[f64]) -> Result<(), Undefined> {
    debug_assert_eq!(gold.len(), metric.len());
    if gold.len() < 2 {
        return Err(Undefined::TooFew);
    }
    if gold.iter().all(|x| *x == gold[0]) {
        return Err(Undefined::ConstantGold);
    }
    if metric.iter().all(|x| *x == metric[0]) {
        return Err(Undefined::ConstantMetric);
    }
    Ok(())
}

fn distinct(values: &[f64]) -> usize {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| by_value(*a, *b));
    sorted.dedup_by(|a, b| a == b);
    sorted.len()
}

/// Two-sided p-value of tau: exact without ties in small samples, by the normal approximation otherwise.
fn kendall_p(gold: &[f64], metric: &[f64], pairs: &PairCounts) -> f64 {
    let n = gold.len();
    let total = pairs.total();
    let concordant_side = total - pairs.discordant;
    let untied = pairs.gold_tied() == 0 && pairs.metric_tied() == 0;
    if untied && (n <= 33 || pairs.discordant.min(concordant_side) <= 1) {
        return exact_kendall_p(n, concordant_side);
    }
    let (x0, x1) = tie_moments(gold);
    let (y0, y1) = tie_moments(metric);
    let size = n as f64;
    let m = size * (size - 1.0);
    let ties = pairs.gold_tied() as f64 * pairs.metric_tied() as f64;
    let mut variance = (m * (2.0 * size + 5.0) - x1 - y1) / 18.0 + 2.0 * ties / m;
    if n > 2 {
        variance += x0 * y0 / (9.0 * m * (size - 2.0));
    }
    (2.0 * normal_tail((pairs.balance() as f64 / variance.sqrt()).abs())).min(1.0)
}

/// Sums of c(c-1)(c-2) and c(c-1)(2c+5) over the runs of tied values.
fn tie_moments(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| by_value(*a, *b));
    sorted.chunk_by(|a, b| a == b).fold((0.0, 0.0), |(cubic, weighted), run| {
        let c = run.len() as f64;
        (cubic + c * (c - 1.0) * (c - 2.0), weighted + c * (c - 1.0) * (2.0 * c + 5.0))
    })
}

/// Share of permutations of `n` items with at most as few inversions, doubled.
///
/// Source: Kendall, Rank Correlation Methods, 1970; the recurrence of `scipy.stats._mstats_basic`.
fn exact_kendall_p(n: usize, concordant: u64) -> f64 {
    let total = (n * (n - 1) / 2) as u64;
    let few = concordant.min(total - concordant) as usize;
    if n <= 2 || 4 * few == n * (n - 1) {
        return 1.0;
    }
    // Probabilities instead of counts: n! leaves the range of f64 at 171.
    let mut share = vec![0.0; few + 1];
    share[0] = 1.0;
    for items in 2..=n {
        let mut window = 0.0;
        let before = share.clone();
        for inversions in 0..=few {
            window += before[inversions];
            if inversions >= items {
                window -= before[inversions - items];
            }
            share[inversions] = window / items as f64;
        }
    }
    (2.0 * share.iter().sum::<f64>()).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_points_have_no_evidence() {
        assert_eq!(pearson(&[1.0, 2.0], &[3.0, 9.0]), Ok(Correlation { value: 1.0, p: 1.0 }));
    }

    #[test]
    fn minus_zero_ties_with_zero() {
        assert_eq!(ranks(&[0.0, -0.0, 1.0]), [1.5, 1.5, 3.0]);
        let tau = kendall_b(&[0.0, -0.0, 1.0], &[1.0, 1.0, 2.0]).unwrap().value;
        assert!((tau - 1.0).abs() < 1e-12, "{tau}");
    }

    #[test]
    fn extreme_scores_have_the_correlation_of_usual_ones() {
        let (gold, metric) = ([1.0, 2.0, 4.0, 3.0], [3.0, -1.0, 2.0, 8.0]);
        let expected = pearson(&gold, &metric).unwrap().value;
        for exponent in [1020, -1074, 400, -600] {
            let moved = metric.map(|x| crate::range::unscaled(x, exponent));
            assert!((pearson(&gold, &moved).unwrap().value - expected).abs() < 1e-15, "2^{exponent}");
            assert!((pearson(&moved, &gold).unwrap().value - expected).abs() < 1e-15, "2^{exponent}");
        }
        assert!((mean(&[1e308, 1e308, 1e308]) / 1e308 - 1.0).abs() < 1e-15);
    }

    #[test]
    fn undefined_says_why() {
        assert_eq!(pearson(&[1.0], &[1.0]), Err(Undefined::TooFew));
        assert_eq!(kendall_b(&[1.0, 1.0], &[1.0, 2.0]), Err(Undefined::ConstantGold));
        assert_eq!(spearman(&[1.0, 2.0], &[2.0, 2.0]), Err(Undefined::ConstantMetric));
    }

    #[test]
    fn exact_p_of_three_items() {
        // Six orders of three items, one without inversions: 2 / 6.
        assert!((exact_kendall_p(3, 3) - 1.0 / 3.0).abs() < 1e-15);
    }
}
