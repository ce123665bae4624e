//! Distributions of scores and errors: M-MAD's three bins, score summaries, error types and severities.

use std::collections::BTreeMap;

use serde::Serialize;

use super::range::{scaled, unscaled};

/// Shares of high, medium and low quality. Each range: 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bins {
    /// Score 0.
    pub high: f64,
    /// Between -5 and 0.
    pub medium: f64,
    /// -5 and less.
    pub low: f64,
    pub n: usize,
}

/// M-MAD's bins of penalty scores (0 is best, negative is worse). `None` without a score, and for scores on
/// another scale: if any is above 0.
///
/// Source: M-MAD, Figure 2.
///
/// ```
/// use tribunal_meta::distribution::bins;
/// let bins = bins(&[0.0, -0.1, -4.9, -5.0]).unwrap();
/// assert_eq!((bins.high, bins.medium, bins.low), (0.25, 0.5, 0.25));
/// assert!(tribunal_meta::distribution::bins(&[85.0, -1.0]).is_none());
/// ```
pub fn bins(scores: &[f64]) -> Option<Bins> {
    let share = |is_counted: fn(f64) -> bool| {
        scores.iter().filter(|score| is_counted(**score)).count() as f64 / scores.len() as f64
    };
    let penalties = scores.iter().all(|score| *score <= 0.0);
    (penalties && !scores.is_empty()).then(|| Bins {
        high: share(|s| s >= 0.0),
        medium: share(|s| s < 0.0 && s > -5.0),
        low: share(|s| s <= -5.0),
        n: scores.len(),
    })
}

/// Mean, spread and quartiles of scores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub n: usize,
    pub mean: f64,
    /// Population standard deviation.
    pub deviation: f64,
    /// Minimum, first quartile, median, third quartile, maximum (nearest rank).
    pub quartiles: [f64; 5],
    /// Number of distinct values.
    pub distinct: usize,
}

/// Summary of scores; `None` without a score.
///
/// ```
/// use tribunal_meta::distribution::summary;
/// let summary = summary(&[4.0, 1.0, 3.0, 2.0, 5.0]).unwrap();
/// assert_eq!((summary.mean, summary.quartiles), (3.0, [1.0, 2.0, 3.0, 4.0, 5.0]));
/// ```
pub fn summary(scores: &[f64]) -> Option<Summary> {
    let mut sorted = scores.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let mean = super::correlation::mean(scores);
    let (in_range, exponent) = scaled(scores);
    let centre = unscaled(mean, -exponent);
    let squares = in_range.iter().map(|x| (x - centre) * (x - centre)).sum::<f64>();
    let quartiles = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| sorted[(share * last as f64).round() as usize]);
    sorted.dedup();
    Some(Summary {
        n: scores.len(),
        mean,
        deviation: unscaled((squares / scores.len() as f64).sqrt(), exponent),
        quartiles,
        distinct: sorted.len(),
    })
}

/// Shares of severities and of top-level error types. Each range: 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ErrorShares {
    pub n: usize,
    pub severities: BTreeMap<String, f64>,
    /// The first part of the category's path.
    pub types: BTreeMap<String, f64>,
}

/// Counts errors, given by severity and category, by severity and type, lower case.
///
/// ```
/// use tribunal_meta::distribution::error_shares;
/// let shares = error_shares([("Major", "Accuracy/Omission"), ("minor", "accuracy/mistranslation")]);
/// assert_eq!((shares.n, shares.severities["major"], shares.types["accuracy"]), (2, 0.5, 1.0));
/// ```
pub fn error_shares<'a>(errors: impl IntoIterator<Item = (&'a str, &'a str)>) -> ErrorShares {
    let mut shares = ErrorShares::default();
    for (severity, category) in errors {
        shares.n += 1;
        *shares.severities.entry(severity.to_lowercase()).or_default() += 1.0;
        let category = category.to_lowercase();
        let first = category.split('/').next().unwrap_or_default();
        *shares.types.entry(first.to_owned()).or_default() += 1.0;
    }
    let n = shares.n.max(1) as f64;
    shares.severities.values_mut().chain(shares.types.values_mut()).for_each(|count| *count /= n);
    shares
}
