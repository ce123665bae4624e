//! A judge's agreement with itself: the same units judged again, at another seed, order or granularity. It
//! reads no files and looks for no cause.

use serde::Serialize;

use super::correlation::{Undefined, kendall_b, pearson};

/// Two runs of one judge over the units that both scored.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Repeat {
    pub units: usize,
    /// Share of units with the same score. Range: 0 to 1, higher is better.
    pub same: f64,
    /// Mean absolute difference of the scores; lower is better.
    pub difference: f64,
    /// Range: -1 to 1, higher is better.
    pub pearson: Result<f64, Undefined>,
    /// Range: -1 to 1, higher is better.
    pub kendall: Result<f64, Undefined>,
}

/// Compares two runs' scores of the same units.
///
/// # Errors
/// There is no unit.
///
/// ```
/// use tribunal_meta::reliability::repeat;
/// // One of three scores is the same; the differences are 0, 1 and 2.
/// let repeat = repeat(&[1.0, 2.0, 3.0], &[1.0, 3.0, 5.0]).unwrap();
/// assert_eq!((repeat.same, repeat.difference), (1.0 / 3.0, 1.0));
/// assert!((repeat.pearson.unwrap() - 1.0).abs() < 1e-12);
/// ```
pub fn repeat(first: &[f64], second: &[f64]) -> Result<Repeat, Undefined> {
    let pairs: Vec<(f64, f64)> = first.iter().copied().zip(second.iter().copied()).collect();
    if pairs.is_empty() {
        return Err(Undefined::TooFew);
    }
    let n = pairs.len() as f64;
    Ok(Repeat {
        units: pairs.len(),
        same: pairs.iter().filter(|(a, b)| a.to_bits() == b.to_bits()).count() as f64 / n,
        difference: pairs.iter().map(|(a, b)| (a - b).abs()).sum::<f64>() / n,
        pearson: pearson(first, second).map(|correlation| correlation.value),
        kendall: kendall_b(first, second).map(|correlation| correlation.value),
    })
}

/// Krippendorff's alpha for intervals: how much less the scores of one unit differ than scores of any units
/// do. Each unit brings the scores of the runs that scored it; units with fewer than two are left out.
///
/// Range: at most 1 (runs agree); 0 is what chance would give.
///
/// # Errors
/// Fewer than two units with two scores, or all scores the same.
///
/// Source: Krippendorff, Content Analysis (2004), chapter 11.
///
/// ```
/// use tribunal_meta::reliability::alpha;
/// // Within units, ordered pairs differ by 0, 0, 1 and 1 (squares): 2 / 4 values. Over all of 1, 1, 2, 3 the six
/// // pairs' squares are 0, 1, 4, 1, 4, 1: 2 * 11 / (4 * 3). 1 - 0.5 / (22 / 12).
/// let found = alpha(&[vec![1.0, 1.0], vec![2.0, 3.0], vec![9.0]]).unwrap();
/// assert!((found - (1.0 - 0.5 / (22.0 / 12.0))).abs() < 1e-12);
/// assert_eq!(alpha(&[vec![1.0, 1.0], vec![2.0, 2.0]]).unwrap(), 1.0);
/// assert!(alpha(&[vec![1.0, 1.0], vec![1.0, 1.0]]).is_err());
/// ```
pub fn alpha(units: &[Vec<f64>]) -> Result<f64, Undefined> {
    let paired: Vec<&Vec<f64>> = units.iter().filter(|unit| unit.len() > 1).collect();
    if paired.len() < 2 {
        return Err(Undefined::TooFew);
    }
    let all: Vec<f64> = paired.iter().flat_map(|unit| unit.iter().copied()).collect();
    let n = all.len() as f64;
    let within = paired.iter().map(|unit| squares(unit) / (unit.len() - 1) as f64).sum::<f64>() / n;
    let between = squares(&all) / (n * (n - 1.0));
    if between == 0.0 { Err(Undefined::ConstantMetric) } else { Ok(1.0 - within / between) }
}

/// Sum of the squared differences of all ordered pairs.
fn squares(values: &[f64]) -> f64 {
    // About the mean, so that large values lose no digits.
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let (sum, sum_of_squares) = values
        .iter()
        .map(|value| value - mean)
        .fold((0.0, 0.0), |(sum, squares), d| (sum + d, squares + d * d));
    2.0 * (values.len() as f64 * sum_of_squares - sum * sum)
}
