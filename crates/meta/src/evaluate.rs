//! Runs a task set: every statistic for every metric, tests between metrics, and the average. If a task's
//! data are missing, the task is listed and the set has no average.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::Result;
use super::agreement::Agreement;
use super::baselines::NAMES;
use super::correlation::Undefined;
use super::coverage::Basis;
use super::eval_set::EvalSet;
use super::pairwise_tests::{self, AverageTest, PairwiseTests, average_tests};
use super::scores::Scores;
use super::significance::Resampling;
use super::significance::ranks::{Ranked, assign_ranks};
use super::statistic::{Measured, Statistic};
use super::task::{Task, TaskSet};

/// Level of significance at which a metric is ranked below a better one.
pub const ALPHA: f64 = 0.05;

/// The results of a task for every metric.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TaskResult {
    /// Language pairs that it was computed on.
    pub pairs: Vec<String>,
    pub statistic: String,
    pub weight: f64,
    pub humans: bool,
    /// Language pairs of the task that were not loaded.
    pub missing: Vec<String>,
    /// True if the task is part of the average.
    pub counted: bool,
    pub values: BTreeMap<String, Result<Measured, Undefined>>,
    /// The values of the baselines.
    pub baselines: BTreeMap<String, Result<Measured, Undefined>>,
    /// The systems and translations that each value is computed from.
    pub bases: BTreeMap<String, Basis>,
    /// Ranks and clusters, when differences were tested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<Ranked>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contest: Option<PairwiseTests>,
}

/// All tasks of a set, and the average where it may be called one.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SetResult {
    pub name: String,
    pub source: &'static str,
    pub tasks: Vec<TaskResult>,
    /// Tasks that could not be computed on all their pairs; if there are any, there is no average.
    pub missing: Vec<String>,
    /// Their language pairs that were not loaded.
    pub missing_pairs: Vec<String>,
    /// Metrics that have every task, with their weighted average, best first.
    pub average: Vec<Ranked>,
    /// One-sided p-values of their differences, the better metric first, where all tasks were tested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub average_contest: Vec<AverageTest>,
    /// The average of each baseline that has a value for every task.
    pub average_of_baselines: BTreeMap<String, f64>,
    /// Metrics left out of the average because some task has no value for them.
    pub incomplete: Vec<String>,
}

/// Runs a task set over the loaded evaluation sets.
///
/// # Errors
/// Scores that do not fit the human ones.
pub fn run(set: &TaskSet, eval_sets: &[EvalSet], significance: Option<Resampling>) -> Result<SetResult> {
    let (mut tasks, mut missing, mut missing_pairs) = (Vec::new(), Vec::new(), BTreeSet::new());
    let is_loaded = |lp: &str| eval_sets.iter().any(|eval_set| eval_set.lp() == lp);
    let all = set.tasks.iter().map(|t| (t, true)).chain(set.beside.iter().map(|t| (t, false)));
    for (idx, (task, counted)) in all.enumerate() {
        let loaded: Vec<&EvalSet> =
            task.pairs.iter().filter_map(|lp| eval_sets.iter().find(|d| d.lp() == lp)).collect();
        if counted && loaded.len() < task.pairs.len() {
            missing.push(format!("{} {}", task.statistic, task.pairs.join("+")));
            missing_pairs.extend(task.pairs.iter().filter(|lp| !is_loaded(lp)).cloned());
        }
        if !loaded.is_empty() {
            tasks.push(run_task(task, counted, &loaded, significance.map(|r| r.of_task(idx)))?);
        }
    }
    let mut result = SetResult {
        name: set.name.clone(),
        source: set.source,
        tasks,
        missing,
        missing_pairs: missing_pairs.into_iter().collect(),
        average: Vec::new(),
        average_contest: Vec::new(),
        average_of_baselines: BTreeMap::new(),
        incomplete: Vec::new(),
    };
    if result.missing.is_empty() && !set.tasks.is_empty() {
        average(set, &mut result);
    }
    Ok(result)
}

fn run_task(
    task: &Task,
    counted: bool,
    eval_sets: &[&EvalSet],
    significance: Option<Resampling>,
) -> Result<TaskResult> {
    let mut names: Vec<&str> =
        eval_sets.iter().flat_map(|d| d.metrics.iter().map(|m| m.name.as_str())).collect();
    names.sort_unstable();
    names.dedup();
    let (mut values, mut bases) = (BTreeMap::new(), BTreeMap::new());
    for name in names {
        values.insert(name.to_owned(), measure(task, eval_sets, &|set| set.metric(name))?);
        bases.insert(name.to_owned(), basis(task, eval_sets, name)?);
    }
    let mut baselines = BTreeMap::new();
    for name in NAMES.into_iter().filter(|name| eval_sets.iter().any(|set| set.baseline(name).is_some())) {
        baselines.insert(name.to_owned(), measure(task, eval_sets, &|set| set.baseline(name))?);
    }
    let contest = significance.map(|r| pairwise_tests::run(task, eval_sets, &values, r)).transpose()?;
    let scores: Vec<(String, f64)> = defined(&values);
    let ranks = match &contest {
        Some(contest) if !contest.comparisons.is_empty() => assign_ranks(&scores, &contest.p_values(), ALPHA),
        _ => Vec::new(),
    };
    let (loaded, missing) = task.pairs.iter().cloned().partition(|lp| eval_sets.iter().any(|d| d.lp() == lp));
    Ok(TaskResult {
        pairs: loaded,
        statistic: task.statistic.to_string(),
        weight: task.weight,
        humans: task.humans,
        missing,
        counted,
        values,
        baselines,
        bases,
        ranks,
        contest,
    })
}

/// The statistic on the task's pairs, pooled where there are several; only accuracy can be pooled.
fn measure<'a>(
    task: &Task,
    eval_sets: &[&'a EvalSet],
    find: &dyn Fn(&'a EvalSet) -> Option<&'a Scores>,
) -> Result<Result<Measured, Undefined>> {
    let mut agreement = Agreement::default();
    for eval_set in eval_sets {
        let Some(metric) = find(eval_set) else { return Ok(Err(Undefined::NoScores)) };
        if task.pairs.len() == 1 {
            return task.statistic.measure(eval_set, metric, task.humans);
        }
        let part = Agreement::from_systems(&eval_set.system_scores(metric, task.humans)?);
        agreement = Agreement { agree: agreement.agree + part.agree, pairs: agreement.pairs + part.pairs };
    }
    Ok(Agreement::pooled([agreement]).map(|value| Measured::new(value, agreement.pairs as usize)))
}

/// The basis of a metric's value, pair by pair; a pair without the metric counts no system.
fn basis(task: &Task, eval_sets: &[&EvalSet], name: &str) -> Result<Basis> {
    let mut pooled = Basis::default();
    for eval_set in eval_sets {
        let part = match eval_set.metric(name) {
            Some(metric) => task.statistic.basis(eval_set, metric, task.humans)?,
            None => Basis { systems: vec![0], ..Basis::default() },
        };
        pooled.systems.extend(part.systems);
        pooled.unit = part.unit;
        pooled.units += part.units;
        pooled.translations += part.translations;
    }
    Ok(pooled)
}

fn defined(values: &BTreeMap<String, Result<Measured, Undefined>>) -> Vec<(String, f64)> {
    values.iter().filter_map(|(name, value)| Some((name.clone(), value.ok()?.value))).collect()
}

/// The weighted average, its ranks from the averaged null differences where all tasks were tested.
fn average(set: &TaskSet, result: &mut SetResult) {
    let counted: Vec<&TaskResult> = result.tasks.iter().filter(|task| task.counted).collect();
    let mut averages = Vec::new();
    let mut incomplete = Vec::new();
    let names: BTreeSet<&String> = counted.iter().flat_map(|task| task.values.keys()).collect();
    for name in names {
        match weighted_mean(set, &counted, &|task| task.values.get(name)) {
            Some(value) => averages.push((name.clone(), value)),
            None => incomplete.push(name.clone()),
        }
    }
    let mean = |name: &&str| weighted_mean(set, &counted, &|task| task.baselines.get(*name));
    let of_baselines = NAMES.iter().filter_map(|name| Some(((*name).to_owned(), mean(name)?)));
    let of_baselines = of_baselines.collect();
    let contests: Option<Vec<&PairwiseTests>> = counted.iter().map(|task| task.contest.as_ref()).collect();
    let weights: Vec<f64> = set.tasks.iter().map(|task| task.weight * unit(set, task.statistic)).collect();
    let tests = contests.map(|contests| average_tests(&contests, &weights, &averages)).unwrap_or_default();
    let p_values = tests.iter().map(|test| ((test.better.clone(), test.worse.clone()), test.p)).collect();
    result.average_of_baselines = of_baselines;
    result.average = assign_ranks(&averages, &p_values, ALPHA);
    result.average_contest = tests;
    result.incomplete = incomplete;
}

/// Change of the average per unit of the statistic.
fn unit(set: &TaskSet, statistic: Statistic) -> f64 {
    if set.mapped && !statistic.is_accuracy() { 0.5 } else { 1.0 }
}

fn weighted_mean(
    set: &TaskSet,
    counted: &[&TaskResult],
    value: &dyn Fn(&TaskResult) -> Option<&Result<Measured, Undefined>>,
) -> Option<f64> {
    let values = counted.iter().map(|result| Some(value(result)?.as_ref().ok()?.value));
    Some(set.mean(&values.collect::<Option<Vec<f64>>>()?))
}
