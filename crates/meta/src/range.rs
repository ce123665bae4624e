//! Powers of two that bring scores into the range where sums of their squares neither overflow nor vanish.
//! Scores of usual size stay as they are, bit for bit.

use std::borrow::Cow;

/// Greatest magnitudes that need no scaling.
const USUAL: std::ops::RangeInclusive<f64> = 1e-30..=1e30;

/// Scores divided by a power of two, and its exponent; unchanged, with 0, where their size is usual.
///
/// ```
/// use tribunal_meta::range::{scaled, unscaled};
/// assert_eq!(scaled(&[3.0, -85.0]), (vec![3.0, -85.0].into(), 0));
/// let (values, exponent) = scaled(&[1e308, -5e307]);
/// assert!(values[0] >= 1.0 && values[0] < 2.0 && values[0] == -2.0 * values[1]);
/// assert_eq!(unscaled(values[0], exponent), 1e308);
/// ```
pub fn scaled(values: &[f64]) -> (Cow<'_, [f64]>, i32) {
    let greatest = values.iter().map(|value| value.abs()).fold(0.0, f64::max);
    if greatest == 0.0 || USUAL.contains(&greatest) {
        return (values.into(), 0);
    }
    let exponent = greatest.log2().floor() as i32;
    (values.iter().map(|value| unscaled(*value, -exponent)).collect(), exponent)
}

/// A value times a power of two.
pub fn unscaled(value: f64, exponent: i32) -> f64 {
    // In two steps, because 2^1074 is no number.
    let half = exponent / 2;
    value * 2_f64.powi(half) * 2_f64.powi(exponent - half)
}
