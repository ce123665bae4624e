//! One translation direction as it is evaluated: human scores, metrics, and which systems count. It loads
//! and names; it computes no statistic.

use std::collections::BTreeSet;
use std::path::Path;

use super::Error;
use super::align::{Aligned, AlignedSystems, MissingPolicy};
use super::lexical::baseline::Baseline;
use super::scores::Scores;
use super::testset::{MetricName, TestSet};

/// Human scores and metrics of one language pair.
#[derive(Clone, Debug)]
pub struct Direction {
    pub testset: TestSet,
    pub gold: Scores,
    /// In order of their names.
    pub metrics: Vec<Scores>,
    /// Systems without human translations.
    pub machine: BTreeSet<String>,
    /// Systems with the human translations that are neither the standard reference nor an outlier.
    pub with_humans: BTreeSet<String>,
}

/// Scores that the user brings: a name and where the files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brought {
    pub name: String,
    pub pattern: String,
    /// Lower is better in the files.
    pub negate: bool,
}

/// What to load of a test set.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub gold: String,
    pub brought: Vec<Brought>,
    /// Metrics of the folder, by `NAME` or `NAME-REF`; empty for all.
    pub metrics: Vec<String>,
    /// Lexical baselines to compute from the texts.
    pub lexical: Vec<Baseline>,
    /// Leave the folder's own metrics out.
    pub only_brought: bool,
    /// Systems to compare on; empty for all.
    pub systems: Vec<String>,
    pub missing: MissingPolicy,
    /// The reference that the metrics were given: never compared as a system. `None`: refA, but refB for he-en.
    pub reference: Option<String>,
}

/// Translations that no comparison counts: synthetic references and the shared tasks' outlier systems.
const OUTLIERS: [&str; 2] = ["synthetic_ref", "MSLC"];

impl Direction {
    /// Loads one language pair.
    ///
    /// # Errors
    /// Whatever [`TestSet`] cannot read, an unknown metric or system, or no metric at all.
    pub fn load(dir: &Path, lp: &str, selection: &Selection) -> Result<Self, Error> {
        let testset = TestSet::open(dir, lp)?;
        let gold = testset.human(&selection.gold)?;
        let mut metrics = brought_scores(&testset, &selection.brought)?;
        if !selection.only_brought {
            metrics.extend(folder_scores(&testset, selection)?);
        }
        for baseline in &selection.lexical {
            metrics.push(baseline.scores(&testset, selection.reference.as_deref())?);
        }
        if selection.missing == MissingPolicy::Lowest {
            metrics = metrics.into_iter().map(|metric| metric.filled_with_lowest(&gold)).collect();
        }
        metrics.sort_by(|a, b| a.name.cmp(&b.name));
        let chosen = |default: BTreeSet<String>| {
            // Systems that are named are compared, human ones too.
            if selection.systems.is_empty() { default } else { selection.systems.iter().cloned().collect() }
        };
        if let Some(unknown) = selection.systems.iter().find(|system| !testset.systems.contains(system)) {
            let known = testset.systems.join(", ");
            return Err(Error::Unsuitable(format!(
                "no system `{unknown}` in `{lp}`; hint: there are {known}"
            )));
        }
        Ok(Self {
            machine: chosen(testset.machine_systems()),
            with_humans: chosen(systems_with_humans(&testset, selection)),
            testset,
            gold,
            metrics,
        })
    }

    #[must_use]
    pub fn lp(&self) -> &str {
        &self.testset.lp
    }

    /// The metric of that name.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&Scores> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// Segment scores side by side; `None` where one side has none.
    ///
    /// # Errors
    /// As [`Aligned::new`].
    pub fn segments(&self, metric: &Scores, humans: bool) -> Result<Option<Aligned>, Error> {
        Aligned::new(&self.gold, metric, self.systems(humans))
    }

    /// System scores side by side.
    ///
    /// # Errors
    /// As [`AlignedSystems::new`].
    pub fn system_scores(&self, metric: &Scores, humans: bool) -> Result<AlignedSystems, Error> {
        AlignedSystems::new(&self.gold, metric, self.systems(humans))
    }

    fn systems(&self, humans: bool) -> &BTreeSet<String> {
        if humans { &self.with_humans } else { &self.machine }
    }
}

/// The reference that metrics were given on a test set of the shared tasks.
fn standard_reference(lp: &str) -> &'static str {
    if lp == "he-en" { "refB" } else { "refA" }
}

fn systems_with_humans(testset: &TestSet, selection: &Selection) -> BTreeSet<String> {
    let standard = selection.reference.as_deref().unwrap_or(standard_reference(&testset.lp));
    let counts = |system: &&String| *system != standard && !OUTLIERS.contains(&system.as_str());
    testset.systems.iter().filter(counts).cloned().collect()
}

fn brought_scores(testset: &TestSet, brought: &[Brought]) -> Result<Vec<Scores>, Error> {
    let mut names = BTreeSet::new();
    let mut metrics = Vec::with_capacity(brought.len());
    for one in brought {
        if !names.insert(&one.name) {
            return Err(Error::Unsuitable(format!("two scores are named `{}`", one.name)));
        }
        let scores = testset.scores_at(&one.name, &one.pattern)?;
        check_systems(testset, &scores)?;
        metrics.push(if one.negate { scores.negated() } else { scores });
    }
    Ok(metrics)
}

/// A system that the test set does not know is a misspelling, not one system less.
fn check_systems(testset: &TestSet, scores: &Scores) -> Result<(), Error> {
    match scores.systems.keys().find(|system| !testset.systems.contains(system)) {
        None => Ok(()),
        Some(unknown) => Err(Error::Unsuitable(format!(
            "`{}` scores a system `{unknown}` that `{}` does not have; hint: it has {}",
            scores.name,
            testset.lp,
            testset.systems.join(", ")
        ))),
    }
}

fn folder_scores(testset: &TestSet, selection: &Selection) -> Result<Vec<Scores>, Error> {
    let all = testset.metrics()?;
    let full = |metric: &MetricName| format!("{}-{}", metric.name, metric.reference);
    let wanted = |metric: &&MetricName| {
        selection.metrics.is_empty()
            || selection.metrics.iter().any(|name| *name == metric.name || *name == full(metric))
    };
    if let Some(unknown) = selection.metrics.iter().find(|name| {
        !all.iter().any(|metric| **name == metric.name || **name == full(metric))
            && !selection.brought.iter().any(|one| one.name == **name)
    }) {
        let known: Vec<String> = all.iter().map(full).collect();
        let (lp, known) = (&testset.lp, known.join(", "));
        return Err(Error::Unsuitable(format!("no metric `{unknown}` for `{lp}`; hint: there are {known}")));
    }
    // A metric goes by its short name unless that is taken.
    let taken = |metric: &MetricName| {
        all.iter().filter(|other| other.name == metric.name).count() > 1
            || selection.brought.iter().any(|one| one.name == metric.name)
    };
    let load = |metric: &MetricName| {
        let mut scores = testset.metric(metric)?;
        if taken(metric) {
            scores.name = full(metric);
        }
        Ok(scores)
    };
    all.iter().filter(wanted).map(load).collect()
}
