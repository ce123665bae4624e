//! Task sets: which statistics, on which language pairs, with which weights, make one number. A task whose
//! data is not there is named, and then nothing is called the average of the set.
//!
//! Source: mt-metrics-eval `tasks.py` (WMT23, WMT24); M-MAD, Table 2; RATE, Table 3.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Error;
use super::agreement::Agreement;
use super::average::{Coefficient, Grouping};
use super::contest::{self, Contest};
use super::correlation::Undefined;
use super::direction::Direction;
use super::significance::Resampling;
use super::significance::ranks::{Ranked, assign_ranks};
use super::statistic::{Measured, Statistic};

/// Level of significance at which a metric leaves the cluster of a better one.
pub const ALPHA: f64 = 0.05;

/// One statistic over one language pair, or pooled over several.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub pairs: Vec<String>,
    pub statistic: Statistic,
    pub weight: f64,
    /// Human translations are systems too.
    pub humans: bool,
}

/// A named set of tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskSet {
    pub name: String,
    pub tasks: Vec<Task>,
    /// Coefficients are put on 0..1 before they are averaged.
    pub mapped: bool,
    /// Shown beside the average, not in it.
    pub beside: Vec<Task>,
    /// Where the set and its weights come from.
    pub source: &'static str,
}

const SEGMENT_PEARSON: Statistic = Statistic::Segment(Coefficient::Pearson, Grouping::None);
const SEGMENT_SPEARMAN: Statistic = Statistic::Segment(Coefficient::Spearman, Grouping::None);
const ACC_EQ: Statistic = Statistic::AccEq(Grouping::Item);

impl TaskSet {
    /// The set of that name over the language pairs asked for.
    ///
    /// # Errors
    /// An unknown name.
    pub fn named(name: &str, pairs: &[String]) -> Result<Self, Error> {
        match name {
            "wmt23" => Ok(wmt23()),
            "wmt24" => Ok(wmt24()),
            "mmad" => Ok(mmad(pairs)),
            "rate" => Ok(rate(pairs)),
            _ => Err(Error::Unsuitable(format!("unknown task set `{name}`; hint: wmt23, wmt24, mmad, rate"))),
        }
    }

    /// A set of single statistics without an average.
    #[must_use]
    pub fn of_statistics(statistics: &[Statistic], pairs: &[String]) -> Self {
        let beside = pairs.iter().flat_map(|lp| statistics.iter().map(|s| task(lp, *s))).collect();
        Self { name: "statistics".into(), tasks: Vec::new(), mapped: false, beside, source: "" }
    }

    /// What is shown for each pair when nothing is asked for.
    #[must_use]
    pub fn overview(pairs: &[String]) -> Self {
        use Statistic::{Accuracy, Soft, SystemKendall, SystemPearson, SystemSpearman};
        let kendall = Statistic::Segment(Coefficient::KendallB, Grouping::None);
        let statistics = [
            Accuracy,
            SystemPearson,
            SystemSpearman,
            SystemKendall,
            Soft,
            SEGMENT_PEARSON,
            SEGMENT_SPEARMAN,
            kendall,
            ACC_EQ,
            Statistic::Differences,
        ];
        Self { name: "overview".into(), ..Self::of_statistics(&statistics, pairs) }
    }
}

fn task(lp: &str, statistic: Statistic) -> Task {
    Task { pairs: vec![lp.to_owned()], statistic, weight: 1.0, humans: false }
}

fn wmt23() -> TaskSet {
    let pairs = ["en-de", "he-en", "zh-en"].map(str::to_owned).to_vec();
    let pooled = Task { pairs: pairs.clone(), statistic: Statistic::Accuracy, weight: 3.0, humans: true };
    let mut tasks = vec![pooled];
    for lp in &pairs {
        for statistic in [Statistic::SystemPearson, SEGMENT_PEARSON, ACC_EQ] {
            tasks.push(Task { humans: lp == "he-en", ..task(lp, statistic) });
        }
    }
    TaskSet {
        name: "wmt23".into(),
        tasks,
        mapped: true,
        beside: Vec::new(),
        source: "mt-metrics-eval tasks.py",
    }
}

fn wmt24() -> TaskSet {
    let tasks = ["en-de", "en-es", "ja-zh"].into_iter().flat_map(|lp| {
        [Statistic::Soft, ACC_EQ].map(|statistic| Task { humans: lp == "en-de", ..task(lp, statistic) })
    });
    TaskSet {
        name: "wmt24".into(),
        tasks: tasks.collect(),
        mapped: true,
        beside: Vec::new(),
        source: "mt-metrics-eval tasks.py",
    }
}

/// M-MAD's Meta: four equal parts, the accuracy pooled over all pairs.
fn mmad(pairs: &[String]) -> TaskSet {
    let pooled = Task {
        pairs: pairs.to_vec(),
        statistic: Statistic::Accuracy,
        weight: pairs.len() as f64,
        humans: false,
    };
    let mut tasks = vec![pooled];
    let mut beside = Vec::new();
    for lp in pairs {
        if pairs.len() > 1 {
            beside.push(task(lp, Statistic::Accuracy));
        }
        tasks
            .extend([Statistic::SystemPearson, ACC_EQ, SEGMENT_PEARSON].map(|statistic| task(lp, statistic)));
    }
    TaskSet { name: "mmad".into(), tasks, mapped: true, beside, source: "M-MAD, Table 2" }
}

/// RATE's Meta: the plain mean of six statistics a direction; soft pairwise accuracy stands beside it.
fn rate(pairs: &[String]) -> TaskSet {
    let statistics = [
        Statistic::Accuracy,
        Statistic::SystemPearson,
        Statistic::SystemSpearman,
        ACC_EQ,
        SEGMENT_PEARSON,
        SEGMENT_SPEARMAN,
    ];
    TaskSet {
        name: "rate".into(),
        tasks: pairs.iter().flat_map(|lp| statistics.map(|statistic| task(lp, statistic))).collect(),
        mapped: false,
        beside: pairs.iter().map(|lp| task(lp, Statistic::Soft)).collect(),
        source: "RATE, Tables 3 and 7",
    }
}

/// What a task gave for every metric.
#[derive(Clone, Debug, Serialize)]
pub struct TaskResult {
    /// Language pairs of the task, those without data too.
    pub pairs: Vec<String>,
    pub statistic: String,
    pub weight: f64,
    pub humans: bool,
    /// Language pairs of the task that were not loaded.
    pub missing: Vec<String>,
    /// Whether the task goes into the average.
    pub counted: bool,
    pub values: BTreeMap<String, Result<Measured, Undefined>>,
    /// Ranks and clusters, when differences were tested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<Ranked>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contest: Option<Contest>,
}

/// All tasks of a set, and the average where it may be called one.
#[derive(Clone, Debug, Serialize)]
pub struct SetResult {
    pub name: String,
    pub source: &'static str,
    pub tasks: Vec<TaskResult>,
    /// Tasks that could not be computed on all their pairs; then there is no average.
    pub missing: Vec<String>,
    /// Metrics that have every task, with their weighted average, best first.
    pub average: Vec<Ranked>,
    /// Metrics left out of the average because a task has no value for them.
    pub incomplete: Vec<String>,
}

/// Runs a task set over the loaded directions.
///
/// # Errors
/// Scores that do not fit the human ones.
pub fn run(
    set: &TaskSet,
    directions: &[Direction],
    significance: Option<Resampling>,
) -> Result<SetResult, Error> {
    let mut tasks = Vec::new();
    for (task, counted) in set.tasks.iter().map(|t| (t, true)).chain(set.beside.iter().map(|t| (t, false))) {
        let loaded: Vec<&Direction> =
            task.pairs.iter().filter_map(|lp| directions.iter().find(|d| d.lp() == lp)).collect();
        tasks.push(run_task(task, counted, &loaded, significance)?);
    }
    let named = |task: &TaskResult| format!("{} {}", task.statistic, task.pairs.join("+"));
    let missing: Vec<String> =
        tasks.iter().filter(|t| t.counted && !t.missing.is_empty()).map(named).collect();
    let mut result = SetResult {
        name: set.name.clone(),
        source: set.source,
        tasks,
        missing,
        average: Vec::new(),
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
    directions: &[&Direction],
    significance: Option<Resampling>,
) -> Result<TaskResult, Error> {
    let mut names: Vec<&str> =
        directions.iter().flat_map(|d| d.metrics.iter().map(|m| m.name.as_str())).collect();
    names.sort_unstable();
    names.dedup();
    let mut values = BTreeMap::new();
    for name in names {
        values.insert(name.to_owned(), measure(task, directions, name)?);
    }
    let contest = significance.map(|r| contest::hold(task, directions, &values, r)).transpose()?;
    let scores: Vec<(String, f64)> = defined(&values);
    let ranks = match &contest {
        Some(contest) if !contest.comparisons.is_empty() => assign_ranks(&scores, &contest.p_values(), ALPHA),
        _ => Vec::new(),
    };
    let loaded = |lp: &String| directions.iter().any(|d| d.lp() == lp);
    Ok(TaskResult {
        pairs: task.pairs.clone(),
        statistic: task.statistic.to_string(),
        weight: task.weight,
        humans: task.humans,
        missing: task.pairs.iter().filter(|lp| !loaded(lp)).cloned().collect(),
        counted,
        values,
        ranks,
        contest,
    })
}

/// The statistic on the task's pairs: pooled where there are several, which only accuracy can be.
fn measure(task: &Task, directions: &[&Direction], name: &str) -> Result<Result<Measured, Undefined>, Error> {
    let mut agreement = Agreement::default();
    for direction in directions {
        let Some(metric) = direction.metric(name) else { return Ok(Err(Undefined::NoScores)) };
        if task.pairs.len() == 1 {
            return task.statistic.measure(direction, metric, task.humans);
        }
        let part = Agreement::of_systems(&direction.system_scores(metric, task.humans)?);
        agreement = Agreement { agree: agreement.agree + part.agree, pairs: agreement.pairs + part.pairs };
    }
    Ok(Agreement::pooled([agreement]).map(|value| Measured::new(value, agreement.pairs as usize)))
}

fn defined(values: &BTreeMap<String, Result<Measured, Undefined>>) -> Vec<(String, f64)> {
    values.iter().filter_map(|(name, value)| Some((name.clone(), value.ok()?.value))).collect()
}

/// The weighted average, its ranks from the averaged null differences where all tasks were tested.
fn average(set: &TaskSet, result: &mut SetResult) {
    let counted: Vec<&TaskResult> = result.tasks.iter().filter(|task| task.counted).collect();
    let mut averages = Vec::new();
    let mut incomplete = Vec::new();
    let names: std::collections::BTreeSet<&String> =
        counted.iter().flat_map(|task| task.values.keys()).collect();
    for name in names {
        match weighted_mean(set, &counted, name) {
            Some(value) => averages.push((name.clone(), value)),
            None => incomplete.push(name.clone()),
        }
    }
    let contests: Option<Vec<&Contest>> = counted.iter().map(|task| task.contest.as_ref()).collect();
    let weights: Vec<f64> = set.tasks.iter().map(|task| task.weight * unit(set, task.statistic)).collect();
    let p_values = contests.map(|contests| contest::average_p_values(&contests, &weights, &averages));
    result.average = assign_ranks(&averages, &p_values.unwrap_or_default(), ALPHA);
    result.incomplete = incomplete;
}

/// What a difference of one in the statistic is worth in the average.
fn unit(set: &TaskSet, statistic: Statistic) -> f64 {
    if set.mapped && !statistic.is_accuracy() { 0.5 } else { 1.0 }
}

fn weighted_mean(set: &TaskSet, counted: &[&TaskResult], name: &str) -> Option<f64> {
    let (mut sum, mut weights) = (0.0, 0.0);
    for (task, result) in set.tasks.iter().zip(counted) {
        let value = result.values.get(name)?.ok()?.value;
        sum += task.weight * if set.mapped { task.statistic.mapped(value) } else { value };
        weights += task.weight;
    }
    (weights > 0.0).then(|| sum / weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_the_shared_tasks() {
        let weight =
            |name: &str| TaskSet::named(name, &[]).unwrap().tasks.iter().map(|t| t.weight).sum::<f64>();
        assert_eq!(weight("wmt23"), 12.0);
        assert_eq!(weight("wmt24"), 6.0);
        assert!(TaskSet::named("wmt99", &[]).is_err());
    }

    #[test]
    fn the_mmad_meta_gives_each_of_four_a_quarter() {
        let pairs = ["en-de", "zh-en"].map(str::to_owned);
        let set = TaskSet::named("mmad", &pairs).unwrap();
        let total: f64 = set.tasks.iter().map(|task| task.weight).sum();
        let accuracy: f64 = set
            .tasks
            .iter()
            .filter(|task| task.statistic == Statistic::Accuracy)
            .map(|task| task.weight)
            .sum();
        assert_eq!(accuracy / total, 0.25);
    }
}
