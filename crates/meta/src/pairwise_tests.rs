//! Paired significance tests of all metrics of a task. Ranks from their p-values are in
//! `significance::ranks`.

use std::collections::BTreeMap;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use super::Result;
use super::agreement::Agreement;
use super::align::{Aligned, AlignedSystems};
use super::average::{Coefficient, Grouping, pearson_of_differences};
use super::correlation::{Undefined, pearson_value};
use super::eval_set::EvalSet;
use super::range::scaled;
use super::significance::permutation::{PairCells, perm_both};
use super::significance::ranks::best_first;
use super::significance::swapped::{RankCoefficient, perm_both_ranks};
use super::significance::{Comparison, Resampling};
use super::spa::Signs;
use super::statistic::{Measured, Statistic};
use super::task::Task;

/// The paired tests of a task.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PairwiseTests {
    pub comparisons: Vec<PairwiseTest>,
    /// The reason why nothing was tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untested: Option<&'static str>,
}

/// Two metrics, the better one first.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PairwiseTest {
    pub better: String,
    pub worse: String,
    #[serde(flatten)]
    pub comparison: Comparison,
}

impl PairwiseTests {
    /// One-sided p-values by (better, worse).
    pub fn p_values(&self) -> BTreeMap<(String, String), f64> {
        let key = |test: &PairwiseTest| (test.better.clone(), test.worse.clone());
        self.comparisons.iter().map(|test| (key(test), test.comparison.p)).collect()
    }

    fn null(&self, better: &str, worse: &str) -> Option<(&[f64], f64)> {
        let forward = |test: &&PairwiseTest| test.better == better && test.worse == worse;
        if let Some(test) = self.comparisons.iter().find(forward) {
            return Some((&test.comparison.null, 1.0));
        }
        let test = self.comparisons.iter().find(|test| test.better == worse && test.worse == better)?;
        Some((&test.comparison.null, -1.0))
    }
}

/// Tests all pairs of metrics that have a value in the task.
///
/// # Errors
/// Scores that do not fit the human ones.
pub fn run(
    task: &Task,
    eval_sets: &[&EvalSet],
    values: &BTreeMap<String, Result<Measured, Undefined>>,
    resampling: Resampling,
) -> Result<PairwiseTests> {
    let none = |untested| Ok(PairwiseTests { comparisons: Vec::new(), untested: Some(untested) });
    if matches!(task.statistic, Statistic::AccEq(Grouping::None | Grouping::Sys)) {
        return none("the test by pairs is only defined for acc-eq by item");
    }
    if matches!(task.statistic, Statistic::Mae(_) | Statistic::Mse(_) | Statistic::KendallLike(_)) {
        return none("no permutation test is defined for this statistic");
    }
    let scores: Vec<(String, f64)> =
        values.iter().filter_map(|(name, value)| Some((name.clone(), value.ok()?.value))).collect();
    let order = best_first(&scores);
    let pairs: Vec<(&str, &str)> = order
        .iter()
        .enumerate()
        .flat_map(|(i, better)| order[i + 1..].iter().map(|worse| (better.0.as_str(), worse.0.as_str())))
        .collect();
    let epsilon = |name: &str| values[name].ok().and_then(|value| value.epsilon).unwrap_or(0.0);
    let tests: Result<Vec<Option<PairwiseTest>>> = pairs
        .par_iter()
        .map(|(better, worse)| {
            let sides = Sides { task, eval_sets, better, worse, resampling };
            let comparison = sides.compare((epsilon(better), epsilon(worse)))?;
            Ok(comparison.map(|comparison| PairwiseTest {
                better: (*better).to_owned(),
                worse: (*worse).to_owned(),
                comparison,
            }))
        })
        .collect();
    Ok(PairwiseTests { comparisons: tests?.into_iter().flatten().collect(), untested: None })
}

/// Two metrics by their averages, the better one first.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AverageTest {
    pub better: String,
    pub worse: String,
    /// Average of the first less that of the second.
    pub delta: f64,
    /// One-sided. Range: 0 to 1.
    pub p: f64,
}

/// Tests of weighted averages over tasks: the stored differences of all tasks, averaged draw by draw.
///
/// Source: mt-metrics-eval `AverageCorrMatrix`.
pub fn average_tests(
    tasks: &[&PairwiseTests],
    weights: &[f64],
    averages: &[(String, f64)],
) -> Vec<AverageTest> {
    let order = best_first(averages);
    let total: f64 = weights.iter().sum();
    let mut tests = Vec::new();
    for (i, (better, high)) in order.iter().enumerate() {
        for (worse, low) in &order[i + 1..] {
            let nulls: Option<Vec<_>> = tasks.iter().map(|task| task.null(better, worse)).collect();
            let Some(nulls) = nulls.filter(|nulls| nulls.iter().all(|(null, _)| !null.is_empty())) else {
                continue;
            };
            let n_draws = nulls.iter().map(|(null, _)| null.len()).min().unwrap_or(0);
            let drawn = |index: usize| -> f64 {
                let parts = nulls.iter().zip(weights);
                parts.map(|((null, sign), weight)| sign * weight * null[index]).sum::<f64>() / total
            };
            let hits = (0..n_draws).filter(|index| drawn(*index) >= high - low).count();
            let (p, delta) = (hits as f64 / n_draws.max(1) as f64, high - low);
            tests.push(AverageTest { better: better.clone(), worse: worse.clone(), delta, p });
        }
    }
    tests
}

/// Two metrics under one task.
struct Sides<'a> {
    task: &'a Task,
    eval_sets: &'a [&'a EvalSet],
    better: &'a str,
    worse: &'a str,
    resampling: Resampling,
}

impl Sides<'_> {
    fn compare(&self, epsilons: (f64, f64)) -> Result<Option<Comparison>> {
        if self.task.statistic.is_of_systems() {
            return self.compare_systems();
        }
        let [eval_set] = self.eval_sets else { return Ok(None) };
        let units = |name: &str| eval_set.metric(name).and_then(|metric| Some(&metric.units.as_ref()?.units));
        if units(self.better) != units(self.worse) {
            return Ok(None);
        }
        let aligned = |name: &str| match eval_set.metric(name) {
            Some(metric) => eval_set.segments(metric, self.task.humans),
            None => Ok(None),
        };
        let (Some(first), Some(second)) = (aligned(self.better)?, aligned(self.worse)?) else {
            return Ok(None);
        };
        let mask: Vec<bool> =
            first.metric.iter().zip(&second.metric).map(|(a, b)| a.is_some() && b.is_some()).collect();
        Ok(match self.task.statistic {
            Statistic::AccEq(_) => {
                let cells = PairCells::new(&first, epsilons.0, &mask);
                Some(cells.compare(&PairCells::new(&second, epsilons.1, &mask), self.resampling))
            }
            Statistic::Soft => self.compare_soft(&first, &second),
            statistic => self.compare_segments(statistic, &first, &second, &mask),
        })
    }

    /// System scores of all the task's pairs behind each other, standardised as one vector, swapped system by
    /// system.
    ///
    /// `None` where the two are compared with different human scores, because one lacks rated translations.
    ///
    /// Source: mt-metrics-eval `CompareMetricsWithGlobalAccuracy`.
    fn compare_systems(&self) -> Result<Option<Comparison>> {
        let mut gold: Vec<Vec<f64>> = Vec::new();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for eval_set in self.eval_sets {
            let (Some(a), Some(b)) = (eval_set.metric(self.better), eval_set.metric(self.worse)) else {
                return Ok(None);
            };
            let a = eval_set.system_scores(a, self.task.humans)?;
            let b = eval_set.system_scores(b, self.task.humans)?;
            if (&a.systems, &a.gold) != (&b.systems, &b.gold) {
                return Ok(None);
            }
            first.extend(&a.metric);
            second.extend(&b.metric);
            gold.push(a.gold);
        }
        let statistic = |scores: &[f64]| system_statistic(self.task.statistic, &gold, scores);
        Ok(perm_both(&first, &second, self.resampling, statistic))
    }

    fn compare_segments(
        &self,
        statistic: Statistic,
        first: &Aligned,
        second: &Aligned,
        mask: &[bool],
    ) -> Option<Comparison> {
        let both: Vec<usize> =
            (0..mask.len()).filter(|cell| mask[*cell] && first.gold[*cell].is_some()).collect();
        let pick =
            |scores: &Aligned| -> Vec<f64> { both.iter().filter_map(|cell| scores.metric[*cell]).collect() };
        let gold: Vec<f64> = both.iter().filter_map(|cell| first.gold[*cell]).collect();
        let (one, other) = (pick(first), pick(second));
        let ranks = |coefficient| perm_both_ranks(coefficient, &gold, &one, &other, self.resampling);
        match statistic {
            Statistic::Segment(Coefficient::Pearson, Grouping::None) => {
                perm_both(&one, &other, self.resampling, |scores| pearson_value(&gold, scores).ok())
            }
            Statistic::Segment(Coefficient::Spearman, Grouping::None) => ranks(RankCoefficient::Spearman),
            Statistic::Segment(Coefficient::KendallB, Grouping::None) => ranks(RankCoefficient::KendallB),
            Statistic::Segment(coefficient, grouping) => {
                let groups = Groups::new(grouping, first.n_segments, &both, &gold);
                perm_both(&one, &other, self.resampling, |scores| groups.mean(coefficient, scores))
            }
            Statistic::Differences => perm_both(&one, &other, self.resampling, |scores| {
                let mut filled = Aligned { metric: vec![None; mask.len()], ..first.clone() };
                both.iter().zip(scores).for_each(|(cell, score)| filled.metric[*cell] = Some(*score));
                pearson_of_differences(&filled).ok().map(|found| found.value)
            }),
            _ => None,
        }
    }

    fn compare_soft(&self, first: &Aligned, second: &Aligned) -> Option<Comparison> {
        let shared: Vec<usize> =
            first.shared_segments().into_iter().filter(|s| second.shared_segments().contains(s)).collect();
        if shared.is_empty() {
            return None;
        }
        let (first, second) = (first.select(&shared), second.select(&shared));
        let signs = Signs::new(shared.len());
        let single = |values: &[f64]| -> Vec<f32> { scaled(values).0.iter().map(|x| *x as f32).collect() };
        let flat = |values: &[Option<f64>]| -> Vec<f64> { values.iter().flatten().copied().collect() };
        let gold = signs.p_values(&single(&flat(&first.gold)), first.n_systems());
        Some(signs.compare(&gold, &flat(&first.metric), &flat(&second.metric), self.resampling))
    }
}

fn system_statistic(statistic: Statistic, gold: &[Vec<f64>], scores: &[f64]) -> Option<f64> {
    if let [gold] = gold {
        let systems = AlignedSystems { systems: Vec::new(), gold: gold.clone(), metric: scores.to_vec() };
        return statistic.over_systems(&systems).ok().map(|measured| measured.value);
    }
    let mut start = 0;
    let parts = gold.iter().map(|gold| {
        start += gold.len();
        Agreement::new(gold, &scores[start - gold.len()..start])
    });
    Agreement::pooled(parts).ok()
}

/// The compared cells of each group, found once for all resamples.
struct Groups {
    /// Positions among the compared cells, and the raters' scores there.
    groups: Vec<(Vec<usize>, Vec<f64>)>,
}

impl Groups {
    /// `cells` are indices into `[systems, n_segments]`, ascending; groups of one are left out.
    fn new(grouping: Grouping, n_segments: usize, cells: &[usize], gold: &[f64]) -> Self {
        let mut groups: BTreeMap<usize, (Vec<usize>, Vec<f64>)> = BTreeMap::new();
        for (position, (cell, gold)) in cells.iter().zip(gold).enumerate() {
            let key = match grouping {
                Grouping::None => 0,
                Grouping::Sys => cell / n_segments,
                Grouping::Item => cell % n_segments,
            };
            let group = groups.entry(key).or_default();
            group.0.push(position);
            group.1.push(*gold);
        }
        Self { groups: groups.into_values().filter(|(positions, _)| positions.len() > 1).collect() }
    }

    /// Mean over the groups where the coefficient is defined.
    fn mean(&self, coefficient: Coefficient, scores: &[f64]) -> Option<f64> {
        let mut metric = Vec::new();
        let (mut sum, mut n) = (0.0, 0_u32);
        for (positions, gold) in &self.groups {
            metric.clear();
            metric.extend(positions.iter().map(|position| scores[*position]));
            if let Some(value) = coefficient.value(gold, &metric) {
                sum += value;
                n += 1;
            }
        }
        (n > 0).then(|| sum / f64::from(n))
    }
}
