//! Task sets: the statistics, language pairs and weights that make one number. They are computed in
//! `evaluate`.
//!
//! Source: mt-metrics-eval `tasks.py` (WMT23 to WMT25); M-MAD, Table 2; RATE, Table 3; FSP, Table 3.

use std::collections::BTreeSet;

use super::average::{Coefficient, Grouping};
use super::coverage::CoveragePolicy;
use super::standards::pairs;
use super::statistic::Statistic;
use super::{Error, Result};

/// One statistic over one language pair, or pooled over several.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub pairs: Vec<String>,
    pub statistic: Statistic,
    pub weight: f64,
    /// Human translations count as systems.
    pub humans: bool,
}

/// A named set of tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskSet {
    pub name: String,
    pub tasks: Vec<Task>,
    /// Coefficients are put on 0..1 before they are averaged.
    pub mapped: bool,
    /// Shown beside the average, but not part of it.
    pub beside: Vec<Task>,
    /// Source of the set and its weights.
    pub source: &'static str,
    /// Selection of the translations that a metric is compared on, by default.
    pub coverage: CoveragePolicy,
}

const SEGMENT_PEARSON: Statistic = Statistic::Segment(Coefficient::Pearson, Grouping::None);
const SEGMENT_SPEARMAN: Statistic = Statistic::Segment(Coefficient::Spearman, Grouping::None);
const ACC_EQ: Statistic = Statistic::AccEq(Grouping::Item);

impl TaskSet {
    /// An average over tasks whose values are not mapped, on what all metrics scored.
    fn new(name: &str, source: &'static str, tasks: Vec<Task>) -> Self {
        let (mapped, beside, coverage) = (false, Vec::new(), CoveragePolicy::Common);
        Self { name: name.into(), tasks, mapped, beside, source, coverage }
    }

    /// The set of that name. Those of shared tasks have their own language pairs, the others are over
    /// `pairs`.
    ///
    /// # Errors
    /// An unknown name, or a pair that the set has no task on.
    pub fn named(name: &str, pairs: &[String]) -> Result<Self> {
        match name {
            "wmt23" => wmt23().covering(pairs),
            "wmt24" => wmt24().covering(pairs),
            "wmt25" => wmt25().covering(pairs),
            "mmad" => Ok(mmad(pairs)),
            "rate" => Ok(rate(pairs)),
            "fsp" => Ok(fsp(pairs)),
            _ => Err(Error::Unsuitable(format!(
                "unknown task set `{name}`; hint: it can be wmt23, wmt24, wmt25, mmad, rate or fsp"
            ))),
        }
    }

    fn covering(self, pairs: &[String]) -> Result<Self> {
        let covers = |lp: &String| self.tasks.iter().any(|task| task.pairs.contains(lp));
        match pairs.iter().find(|lp| !covers(lp)) {
            None => Ok(self),
            Some(other) => {
                let pairs: BTreeSet<&str> =
                    self.tasks.iter().flat_map(|task| &task.pairs).map(String::as_str).collect();
                let pairs = pairs.into_iter().collect::<Vec<_>>().join(", ");
                let name = &self.name;
                Err(Error::Unsuitable(format!(
                    "the task set `{name}` has no task on `{other}`; hint: it has {pairs}"
                )))
            }
        }
    }

    /// The test set that the set was made for, if any: its standards hold for the data, independent of the
    /// folder's name.
    pub fn testset(&self) -> Option<&str> {
        ["wmt23", "wmt24", "wmt25"].into_iter().find(|name| *name == self.name)
    }

    /// The weighted average of the tasks' values, in order.
    pub fn mean(&self, values: &[f64]) -> f64 {
        let on_scale = |(task, value): (&Task, &f64)| {
            task.weight * if self.mapped { task.statistic.mapped(*value) } else { *value }
        };
        let weights: f64 = self.tasks.iter().map(|task| task.weight).sum();
        self.tasks.iter().zip(values).map(on_scale).sum::<f64>() / weights
    }

    /// A set of single statistics without an average.
    pub fn from_statistics(statistics: &[Statistic], pairs: &[String]) -> Self {
        let beside = pairs.iter().flat_map(|lp| statistics.iter().map(|s| task(lp, *s))).collect();
        Self { beside, ..Self::new("statistics", "", Vec::new()) }
    }

    /// The statistics that are shown for each pair by default.
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
        Self { name: "overview".into(), ..Self::from_statistics(&statistics, pairs) }
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
    TaskSet { mapped: true, ..TaskSet::new("wmt23", "mt-metrics-eval tasks.py", tasks) }
}

fn wmt24() -> TaskSet {
    let tasks = ["en-de", "en-es", "ja-zh"].into_iter().flat_map(|lp| {
        [Statistic::Soft, ACC_EQ].map(|statistic| Task { humans: lp == "en-de", ..task(lp, statistic) })
    });
    TaskSet { mapped: true, ..TaskSet::new("wmt24", "mt-metrics-eval tasks.py", tasks.collect()) }
}

/// Soft pairwise accuracy and acc-eq by item on every language pair that has human scores.
fn wmt25() -> TaskSet {
    let pairs = pairs("wmt25").into_iter();
    let tasks = pairs.flat_map(|lp| [Statistic::Soft, ACC_EQ].map(|statistic| task(lp, statistic)));
    TaskSet { mapped: true, ..TaskSet::new("wmt25", "mt-metrics-eval tasks.py", tasks.collect()) }
}

/// M-MAD's Meta: four equal parts, with accuracy pooled over all pairs.
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
    TaskSet { mapped: true, beside, ..TaskSet::new("mmad", "M-MAD, Table 2", tasks) }
}

/// RATE's Meta: the plain mean of six statistics per direction. The authors' program
/// (`meta_eval/metaeval.py`) passes the number of scores to mt-metrics-eval as the number of systems, so that
/// its acc-t is not grouped by item: one group has all translations of all sources. Shown beside it are acc-t
/// by item, the usual definition and that of RATE's own Table 5, and soft pairwise accuracy. The paper's
/// Table 7 is no soft pairwise accuracy: see `tests::table_7_of_rate_is_accuracy_by_another_name`.
fn rate(pairs: &[String]) -> TaskSet {
    let statistics = [
        Statistic::Accuracy,
        Statistic::SystemPearson,
        Statistic::SystemSpearman,
        Statistic::AccEq(Grouping::None),
        SEGMENT_PEARSON,
        SEGMENT_SPEARMAN,
    ];
    let beside = [ACC_EQ, Statistic::Soft];
    let tasks = pairs.iter().flat_map(|lp| statistics.map(|statistic| task(lp, statistic))).collect();
    let beside = pairs.iter().flat_map(|lp| beside.map(|statistic| task(lp, statistic))).collect();
    TaskSet { beside, ..TaskSet::new("rate", "RATE, Tables 3 and 5", tasks) }
}

/// FSP's system ranking accuracy: the mean of each direction's, not pooled over pairs of systems. It needs
/// system scores alone, so judges of segments, of documents and of groups of documents stand in one table:
/// each over all that it judged, rated or not, against the raters' own system scores. The paper uses the
/// scripts of WMT24, which count the human translation of en-de that is not the reference as a system.
fn fsp(pairs: &[String]) -> TaskSet {
    let accuracy = |lp: &String| Task { humans: lp == "en-de", ..task(lp, Statistic::Accuracy) };
    let tasks = pairs.iter().map(accuracy).collect();
    let set = TaskSet::new("fsp", "FSP, Table 3 and Figures 4 and 7", tasks);
    TaskSet { coverage: CoveragePolicy::Official, ..set }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{align::Aligned, spa::soft_pairwise_accuracy};

    #[test]
    fn weights_of_the_shared_tasks() {
        let weight =
            |name: &str| TaskSet::named(name, &[]).unwrap().tasks.iter().map(|t| t.weight).sum::<f64>();
        assert_eq!(weight("wmt23"), 12.0);
        assert_eq!(weight("wmt24"), 6.0);
        assert_eq!(weight("wmt25"), 32.0);
        assert!(TaskSet::named("wmt99", &[]).is_err());
    }

    /// The values of RATE's Table 7 are 1 - .475 D / 45, D the pairs of ten systems in another order than the
    /// raters': soft pairwise accuracy over one score for each system. Of the 1000 sign vectors, 525 begin
    /// with +1, so a system is better than a worse one with p = .525 and worse than a better one with p = 1.
    #[test]
    fn table_7_of_rate_is_accuracy_by_another_name() {
        let systems = |scores: Vec<f64>| Aligned {
            systems: (0..scores.len()).map(|idx| format!("s{idx}")).collect(),
            n_segments: 1,
            gold: (0..scores.len()).map(|idx| Some(idx as f64)).collect(),
            metric: scores.into_iter().map(Some).collect(),
        };
        // As many neighbours are exchanged as RATE (zh-en), GEMBA-DA (en-zh) and RATE (en-zh) have pairs in
        // another order.
        for (exchanged, printed) in [(0, 100.0), (4, 95.8), (5, 94.7)] {
            let mut scores: Vec<f64> = (0..10).map(f64::from).collect();
            (0..exchanged).for_each(|pair| scores.swap(2 * pair, 2 * pair + 1));
            let soft = soft_pairwise_accuracy(&systems(scores)).unwrap().value;
            assert!((100.0 * soft - printed).abs() < 0.06, "{exchanged}: {soft}");
            assert!((soft - (1.0 - 0.475 * exchanged as f64 / 45.0)).abs() < 1e-6);
        }
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
