//! Ranks and clusters of metrics from the p-values of all pairs. No random number is drawn.
//!
//! Source: mt-metrics-eval `data.AssignRanks`.

use std::collections::BTreeMap;

/// A metric's place.
#[derive(Clone, Debug, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Ranked {
    pub name: String,
    pub value: f64,
    /// Cluster, from 1: no member of a cluster is beaten significantly by another member above it.
    pub rank: usize,
}

/// Walks the metrics from the best (ties by name); a new rank begins where *any* metric of the current
/// cluster beats this one with p at most `alpha`.
///
/// `p_values` maps (better, worse) to the one-sided p-value.
///
/// ```
/// use std::collections::BTreeMap;
/// use tribunal_meta::significance::ranks::assign_ranks;
/// let scores = [("a", 0.9), ("b", 0.8), ("c", 0.7)].map(|(name, value)| (name.to_owned(), value));
/// let pair = |x: &str, y: &str| (x.to_owned(), y.to_owned());
/// // a does not beat b, a beats c, b does not beat c: c leaves the cluster because of a.
/// let p = BTreeMap::from([(pair("a", "b"), 0.3), (pair("a", "c"), 0.05), (pair("b", "c"), 0.2)]);
/// let ranks: Vec<usize> = assign_ranks(&scores, &p, 0.05).into_iter().map(|r| r.rank).collect();
/// assert_eq!(ranks, [1, 1, 2]);
/// ```
pub fn assign_ranks(
    values: &[(String, f64)],
    p_values: &BTreeMap<(String, String), f64>,
    alpha: f64,
) -> Vec<Ranked> {
    let mut ranked: Vec<Ranked> = Vec::with_capacity(values.len());
    let mut cluster_start = 0;
    for (name, value) in best_first(values) {
        let beats =
            |above: &Ranked| p_values.get(&(above.name.clone(), name.clone())).is_some_and(|p| *p <= alpha);
        let mut rank = ranked.last().map_or(1, |last| last.rank);
        if ranked[cluster_start..].iter().any(beats) {
            rank += 1;
            cluster_start = ranked.len();
        }
        ranked.push(Ranked { name, value, rank });
    }
    ranked
}

/// Names and values, highest value first, ties by name.
pub fn best_first(values: &[(String, f64)]) -> Vec<(String, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    sorted
}
