//! Williams' test for two correlations that share a variable. It compares two metrics on the same items; it
//! assumes normal scores, which segment scores are not.

use super::super::probability::student_t_tail;

/// One-sided p-value that the first metric correlates better with the human scores than the second.
///
/// `first` and `second` are the metrics' correlations with the human scores, `between` that of the metrics
/// with each other, over `n` items. `None` for fewer than four items or identical metrics.
///
/// Source: Graham and Baldwin, Testing for Significance of Increased Correlation with Human Judgment, 2014;
/// mt-metrics-eval `WilliamsTest`.
///
/// ```
/// use tribunal::meta::significance::williams::williams;
/// let p = williams(0.9, 0.8, 0.7, 20).unwrap();
/// assert!((p - 0.093_898_339_428_570_91).abs() < 1e-12);
/// // Equal correlations: even odds.
/// assert!((williams(0.5, 0.5, 0.3, 20).unwrap() - 0.5).abs() < 1e-12);
/// ```
#[must_use]
pub fn williams(first: f64, second: f64, between: f64, n: usize) -> Option<f64> {
    if n < 4 {
        return None;
    }
    let n = n as f64;
    let k = 1.0 - first * first - second * second - between * between + 2.0 * first * second * between;
    let spread = 2.0 * k * (n - 1.0) / (n - 3.0) + (first + second).powi(2) / 4.0 * (1.0 - between).powi(3);
    if spread <= 0.0 {
        return None;
    }
    let t = (first - second) * ((n - 1.0) * (1.0 + between)).sqrt() / spread.sqrt();
    Some(student_t_tail(t, n - 3.0))
}
