//! Agreement of human raters with each other on the segments they share.
//!
//! Source: RATE, Appendix A.3, Equation 1 and Figure 7.

use serde::Serialize;

use super::correlation::{Undefined, mean, pearson};
use several::Annotator;

pub mod several;

/// Agreement of two raters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RaterPair {
    pub first: String,
    pub second: String,
    /// Segments that both rated for every system.
    pub shared: usize,
    /// Pearson of the systems' summed scores; `None` where it is undefined.
    pub system_level: Option<f64>,
    /// Mean over segments of Pearson over the systems.
    pub segment_level: Option<f64>,
}

/// Agreement of all pairs of raters that share a segment, over the named systems.
///
/// ```
/// use tribunal_meta::annotators::{agreement, several::Annotator};
/// let systems = ["A", "B", "C"].map(String::from);
/// let rater = |name: &str, scores: [[f64; 2]; 3]| Annotator {
///     name: name.into(),
///     scores: systems.iter().cloned().zip(scores.map(|row| row.map(Some).to_vec())).collect(),
/// };
/// // Three systems, two segments; sums (1, 2, 3) and (2, 4, 6).
/// let raters =
///     [rater("a", [[1., 0.], [1., 1.], [1., 2.]]), rater("b", [[2., 0.], [2., 2.], [2., 4.]])];
/// let pairs = agreement(&raters, &systems);
/// assert!((pairs[0].system_level.unwrap() - 1.0).abs() < 1e-15);
/// // The first segment is constant for both: only the second has a correlation.
/// assert!((pairs[0].segment_level.unwrap() - 1.0).abs() < 1e-15);
/// ```
pub fn agreement(raters: &[Annotator], systems: &[String]) -> Vec<RaterPair> {
    let mut pairs = Vec::new();
    for (index, first) in raters.iter().enumerate() {
        for second in &raters[index + 1..] {
            pairs.extend(compare(first, second, systems));
        }
    }
    pairs
}

fn compare(first: &Annotator, second: &Annotator, systems: &[String]) -> Option<RaterPair> {
    let n_segments = systems.first().and_then(|system| first.scores.get(system)).map_or(0, Vec::len);
    let column = |rater: &Annotator, segment: usize| -> Option<Vec<f64>> {
        systems.iter().map(|system| rater.scores.get(system)?.get(segment).copied().flatten()).collect()
    };
    let shared: Vec<(Vec<f64>, Vec<f64>)> =
        (0..n_segments).filter_map(|s| Some((column(first, s)?, column(second, s)?))).collect();
    if shared.is_empty() {
        return None;
    }
    let sum = |columns: &mut dyn Iterator<Item = &Vec<f64>>| -> Vec<f64> {
        columns.fold(vec![0.0; systems.len()], |sums, column| {
            sums.iter().zip(column).map(|(a, b)| a + b).collect()
        })
    };
    let sums = (sum(&mut shared.iter().map(|pair| &pair.0)), sum(&mut shared.iter().map(|pair| &pair.1)));
    let value = |result: Result<super::correlation::Correlation, Undefined>| result.ok().map(|r| r.value);
    let by_segment: Vec<f64> = shared.iter().filter_map(|(a, b)| value(pearson(a, b))).collect();
    Some(RaterPair {
        first: first.name.clone(),
        second: second.name.clone(),
        shared: shared.len(),
        system_level: value(pearson(&sums.0, &sums.1)),
        segment_level: (!by_segment.is_empty()).then(|| mean(&by_segment)),
    })
}
