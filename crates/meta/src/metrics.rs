//! The metrics of one language pair: the folder's, the user's own, and baselines computed from the texts. The
//! selection and the names of metrics are decided here; nothing is compared.

use std::collections::BTreeSet;
use std::path::Path;

use super::lexical::baseline::Baseline;
use super::scores::{Scores, is_metricx};
use super::selection::{Brought, Selection};
use super::standards::Rules;
use super::testset::{MetricName, TestSet};
use super::{Advice, Error, Result};
use super::{units, verdicts};

/// Scores from the user's own files.
///
/// # Errors
/// Two of one name, files that do not fit the test set, systems that it does not have.
pub fn brought_scores(testset: &TestSet, brought: &[Brought]) -> Result<Vec<Scores>> {
    let mut names = BTreeSet::new();
    let mut metrics = Vec::with_capacity(brought.len());
    for one in brought {
        if !names.insert(&one.name) {
            return Err(Error::Unsuitable(format!("two scores are named `{}`", one.name)));
        }
        let path = one.pattern.replace("{lp}", &testset.lp);
        let path = Path::new(&path);
        let scores = match &one.verdicts {
            Some(ratings) => {
                let verdicts = verdicts::on_pair(path, ratings.clone(), &testset.lp)?;
                let verdicts = verdicts::placed(verdicts, testset);
                units::scores_of(&one.name, path, &verdicts, testset)?
            }
            None if verdicts::is_run(path) => units::scores(&one.name, path, testset)?,
            None => testset.scores_at(&one.name, &one.pattern)?,
        };
        check_systems(testset, &scores)?;
        // The scores of a `MetricX` file are negated when they are read.
        metrics.push(if one.negate && !is_metricx(path) { scores.negated() } else { scores });
    }
    Ok(metrics)
}

/// Rejects a system that the test set does not have: it is probably misspelt.
fn check_systems(testset: &TestSet, scores: &Scores) -> Result<()> {
    match scores.systems.keys().find(|system| !testset.systems.contains(system)) {
        None => Ok(()),
        Some(unknown) => Err(Error::Unsuitable(format!(
            "`{}` scores a system `{unknown}` that `{}` does not have; hint: name its systems as the test set does: {}",
            scores.name,
            testset.lp,
            testset.systems.join(", ")
        ))),
    }
}

/// The folder's metrics that are compared, and the full names of those computed with another reference.
///
/// # Errors
/// A metric that the folder does not have, or only for other references; files that do not fit the test set.
pub fn folder_scores(
    testset: &TestSet,
    selection: &Selection,
    rules: &Rules,
) -> Result<(Vec<Scores>, Vec<String>)> {
    let all = testset.metrics()?;
    let named_in_full = |metric: &MetricName| selection.metrics.contains(&full(metric));
    let is_chosen = |metric: &MetricName| {
        selection.metrics.is_empty() || selection.metrics.contains(&metric.name) || named_in_full(metric)
    };
    let compared = |metric: &MetricName| named_in_full(metric) || is_standard(metric, testset, rules);
    let (chosen, others): (Vec<&MetricName>, Vec<&MetricName>) =
        all.iter().filter(|metric| is_chosen(metric)).partition(|metric| compared(metric));
    for name in &selection.metrics {
        let found = |metrics: &[&MetricName]| metrics.iter().any(|m| m.name == *name || full(m) == *name);
        if !found(&chosen) && !selection.brought.iter().any(|one| one.name == *name) {
            return Err(unknown(name, testset, rules, &all, &others));
        }
    }
    let both_kinds = testset.metrics_of_both_kinds()?;
    let mut scores = Vec::with_capacity(chosen.len());
    for metric in chosen {
        let mut one = testset.metric(metric)?;
        let is_brought = selection.brought.iter().any(|one| one.name == metric.name);
        let is_second_kind = metric.reference == "src" && both_kinds.contains(&metric.name);
        // A metric is called by its short name unless the name is ambiguous.
        if is_brought || is_second_kind || !is_standard(metric, testset, rules) {
            one.name = full(metric);
        }
        scores.push(one);
    }
    Ok((scores, others.into_iter().map(full).collect()))
}

fn full(metric: &MetricName) -> String {
    format!("{}-{}", metric.name, metric.reference)
}

/// True if the metric used the standard reference and no other, or none at all.
fn is_standard(metric: &MetricName, testset: &TestSet, rules: &Rules) -> bool {
    let standard = |name: &str| rules.reference.as_deref() == Some(name);
    match metric.reference.as_str() {
        "src" => true,
        "all" => testset.references.iter().all(|name| standard(name)),
        names => names.split('.').all(standard),
    }
}

/// Candidates for a name that no metric of the folder has: names that differ in case or contain it, a metric
/// that is computed from the texts, or else any.
fn instead(name: &str, known: &[String]) -> Result<String, Advice> {
    let lower = name.to_lowercase();
    if let Some(same) = known.iter().find(|other| other.to_lowercase() == lower) {
        return Ok(format!("did you mean `{same}`?"));
    }
    if lower.parse::<Baseline>().is_ok() {
        return Err(Advice::Lexical(lower));
    }
    let is_near = |other: &&String| {
        let other = other.to_lowercase();
        other.contains(&lower) || other.split('-').next().is_some_and(|short| lower.contains(short))
    };
    let near: Vec<String> = known.iter().filter(is_near).cloned().collect();
    if near.is_empty() {
        Ok(format!("there are {}", known.join(", ")))
    } else {
        Ok(format!("did you mean `{}`?", near.join("`, `")))
    }
}

fn unknown(
    name: &str,
    testset: &TestSet,
    rules: &Rules,
    all: &BTreeSet<MetricName>,
    others: &[&MetricName],
) -> Error {
    let lp = &testset.lp;
    let others: Vec<String> = others.iter().filter(|metric| metric.name == name).map(|m| full(m)).collect();
    if !others.is_empty() {
        let reference = rules.reference.as_deref().unwrap_or("none");
        let reason = format!("`{name}` was not given the reference of `{lp}`, {reference}");
        return Error::Advised { reason, advice: Advice::FullName(others.join(", ")) };
    }
    let reason = format!("no metric `{name}` for `{lp}`");
    match instead(name, &all.iter().map(full).collect::<Vec<_>>()) {
        Ok(hint) => Error::Unsuitable(format!("{reason}; hint: {hint}")),
        Err(advice) => Error::Advised { reason, advice },
    }
}
