//! Lengths of the answers of runs, and the rate at which errors were found, from recorded token counts.
//!
//! Source: FSP, Figure 2 and Table 1.

use serde::Serialize;

/// Lengths of answers. Unit: tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Lengths {
    pub n: usize,
    pub mean: f64,
    pub median: usize,
    /// Nearest rank: 99% are as long or shorter.
    pub p99: usize,
    pub longest: usize,
}

/// The lengths of some answers; `None` for none.
///
/// ```
/// use tribunal_meta::lengths::lengths;
/// let found = lengths(&[7, 1, 3, 9]).unwrap();
/// assert_eq!((found.mean, found.median, found.p99, found.longest), (5.0, 3, 9, 9));
/// assert!(lengths(&[]).is_none());
/// ```
pub fn lengths(tokens: &[usize]) -> Option<Lengths> {
    let mut sorted = tokens.to_vec();
    sorted.sort_unstable();
    let n = sorted.len();
    let rank = |share: f64| sorted[((share * n as f64).ceil() as usize).clamp(1, n) - 1];
    (n > 0).then(|| Lengths {
        n,
        mean: sorted.iter().sum::<usize>() as f64 / n as f64,
        median: rank(0.5),
        p99: rank(0.99),
        longest: sorted[n - 1],
    })
}
