//! Williams' test for two correlations that share a variable. Two metrics are compared on the same items;
//! normal scores are assumed, which segment scores are not.

use serde::Serialize;

use super::super::Result;
use super::super::correlation::pearson_value;
use super::super::eval_set::EvalSet;
use super::super::probability::student_t_tail;
use super::super::scores::Scores;

/// Two metrics whose Pearson correlations with the human scores were compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// `sys` or `seg` (all scores at once).
    pub level: &'static str,
    pub better: String,
    pub worse: String,
    /// The correlation of the better one minus that of the other.
    pub difference: f64,
    /// One-sided; `None` where the test is undefined: fewer than four items, or metrics that agree
    /// completely.
    pub p: Option<f64>,
    /// Systems, or translations that the raters and both metrics scored.
    pub n: usize,
}

/// Williams' test for every pair of metrics of an evaluation set, at both levels.
///
/// # Errors
/// Scores that do not fit the human ones.
pub fn compare_all(eval_set: &EvalSet) -> Result<Vec<Compared>> {
    let mut all = Vec::new();
    for (index, one) in eval_set.metrics.iter().enumerate() {
        for other in &eval_set.metrics[index + 1..] {
            let (a, b) = (eval_set.system_scores(one, false)?, eval_set.system_scores(other, false)?);
            // A metric that lacks rated translations has other human scores.
            if (&a.systems, &a.gold) == (&b.systems, &b.gold) {
                all.extend(compare("sys", (one, other), &a.gold, &a.metric, &b.metric));
            }
            // Scores of segments and of documents share no item.
            let units = |metric: &Scores| metric.units.as_ref().map(|units| units.units.clone());
            if units(one) != units(other) {
                continue;
            }
            let (a, b) = (eval_set.segments(one, false)?, eval_set.segments(other, false)?);
            let (Some(a), Some(b)) = (a, b) else { continue };
            let cells = a.gold.iter().zip(&a.metric).zip(&b.metric);
            let both = cells.filter_map(|((gold, a), b)| Some(((*gold)?, ((*a)?, (*b)?))));
            let (gold, (a, b)): (Vec<f64>, (Vec<f64>, Vec<f64>)) = both.unzip();
            all.extend(compare("seg", (one, other), &gold, &a, &b));
        }
    }
    all.sort_by(|a, b| b.level.cmp(a.level));
    Ok(all)
}

fn compare(
    level: &'static str,
    names: (&Scores, &Scores),
    gold: &[f64],
    a: &[f64],
    b: &[f64],
) -> Option<Compared> {
    let difference = pearson_value(gold, a).ok()? - pearson_value(gold, b).ok()?;
    let first_is_better = difference >= 0.0;
    let (better, worse) = if first_is_better { names } else { (names.1, names.0) };
    let (first, second) = if first_is_better { (a, b) } else { (b, a) };
    Some(Compared {
        level,
        better: better.name.clone(),
        worse: worse.name.clone(),
        difference: difference.abs(),
        p: williams_of(gold, first, second),
        n: gold.len(),
    })
}

/// One-sided p-value that the first metric correlates better with the human scores than the second.
///
/// `first` and `second` are the metrics' correlations with the human scores, `between` that of the metrics
/// with each other, over `n` items. `None` for fewer than four items or identical metrics.
///
/// Source: Graham and Baldwin, Testing for Significance of Increased Correlation with Human Judgment, 2014;
/// mt-metrics-eval `WilliamsTest`.
///
/// ```
/// use tribunal_meta::significance::williams::williams;
/// let p = williams(0.9, 0.8, 0.7, 20).unwrap();
/// assert!((p - 0.093_898_339_428_570_91).abs() < 1e-12);
/// // Equal correlations: even odds.
/// assert!((williams(0.5, 0.5, 0.3, 20).unwrap() - 0.5).abs() < 1e-12);
/// ```
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

/// [`williams`] from the scores themselves: three vectors over the same items.
///
/// ```
/// use tribunal_meta::significance::williams::williams_of;
/// let gold = [1.0, 2.0, 3.0, 4.0, 5.0];
/// // (2, 1, 3, 4, 5) correlates with .9, (5, 1, 2, 4, 3) with -.1.
/// let p = williams_of(&gold, &[2.0, 1.0, 3.0, 4.0, 5.0], &[5.0, 1.0, 2.0, 4.0, 3.0]).unwrap();
/// assert!(p < 0.1, "{p}");
/// ```
pub fn williams_of(gold: &[f64], first: &[f64], second: &[f64]) -> Option<f64> {
    let r = |a: &[f64], b: &[f64]| pearson_value(a, b).ok();
    williams(r(gold, first)?, r(gold, second)?, r(first, second)?, gold.len())
}
