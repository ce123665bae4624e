//! Agreement of human raters with each other on the segments they share.
//!
//! Source: RATE, Appendix A.3, Equation 1 and Figure 7.

use serde::Serialize;

use super::correlation::{Undefined, mean, pearson};
use several::Annotator;

pub mod several;

/// One rater: a name and scores, systems x segments, one row per system.
#[derive(Clone, Debug)]
pub struct Rater {
    pub name: String,
    pub scores: Vec<Vec<Option<f64>>>,
}

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

/// Agreement of all pairs of raters that share a segment.
///
/// ```
/// use tribunal_meta::annotators::{Rater, agreement};
/// let rater = |name: &str, scores: [[f64; 2]; 3]| Rater {
///     name: name.into(),
///     scores: scores.map(|row| row.map(Some).to_vec()).to_vec(),
/// };
/// // Three systems, two segments; sums (1, 2, 3) and (2, 4, 6).
/// let raters =
///     [rater("a", [[1., 0.], [1., 1.], [1., 2.]]), rater("b", [[2., 0.], [2., 2.], [2., 4.]])];
/// let pairs = agreement(&raters);
/// assert!((pairs[0].system_level.unwrap() - 1.0).abs() < 1e-15);
/// // The first segment is constant for both: only the second has a correlation.
/// assert!((pairs[0].segment_level.unwrap() - 1.0).abs() < 1e-15);
/// ```
#[must_use]
pub fn agreement(raters: &[Rater]) -> Vec<RaterPair> {
    let mut pairs = Vec::new();
    for (index, first) in raters.iter().enumerate() {
        for second in &raters[index + 1..] {
            pairs.extend(compare(first, second));
        }
    }
    pairs
}

fn compare(first: &Rater, second: &Rater) -> Option<RaterPair> {
    let n_segments = first.scores.first().map_or(0, Vec::len);
    let column = |rater: &Rater, segment: usize| -> Option<Vec<f64>> {
        rater.scores.iter().map(|row| row.get(segment).copied().flatten()).collect()
    };
    let shared: Vec<(Vec<f64>, Vec<f64>)> =
        (0..n_segments).filter_map(|s| Some((column(first, s)?, column(second, s)?))).collect();
    if shared.is_empty() {
        return None;
    }
    let n_systems = first.scores.len();
    let sum = |columns: &mut dyn Iterator<Item = &Vec<f64>>| -> Vec<f64> {
        columns
            .fold(vec![0.0; n_systems], |sums, column| sums.iter().zip(column).map(|(a, b)| a + b).collect())
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

/// An annotator's scores of the named systems, in order.
#[must_use]
pub fn rater(annotator: &Annotator, systems: &[String]) -> Rater {
    let row = |system: &String| annotator.scores.get(system).cloned().unwrap_or_default();
    Rater { name: annotator.name.clone(), scores: systems.iter().map(row).collect() }
}
