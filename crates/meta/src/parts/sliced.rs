//! Statistics on slices of each language pair, and the average of a task set on each slice.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{LATENT, Request};
use crate::Result;
use crate::agreement::Agreement;
use crate::align::Aligned;
use crate::average::{Coefficient, Grouping};
use crate::correlation::Undefined;
use crate::eval_set::EvalSet;
use crate::slices::Slice;
use crate::statistic::{Measured, Statistic};
use crate::task::{Task, TaskSet};

/// One statistic of one metric on one slice.
#[derive(Clone, Debug, Serialize)]
pub struct Sliced {
    /// The language pair; several with `+` between them where the value is over all.
    pub lp: String,
    pub slice: String,
    pub n_segments: usize,
    pub metric: String,
    pub statistic: String,
    pub value: Result<Measured, Undefined>,
}

/// Statistics shown by slice unless others are named.
const SLICED: [Statistic; 3] = [
    Statistic::Segment(Coefficient::Pearson, Grouping::None),
    Statistic::Segment(Coefficient::KendallB, Grouping::None),
    LATENT,
];

/// The statistics of the task set, or those that are named, and the set's average, on each slice.
///
/// # Errors
/// Files that cannot be read, or scores that do not fit.
pub fn slices(request: &Request<'_>, sets: &[EvalSet]) -> Result<Vec<Sliced>> {
    let Some(by) = request.by else { return Ok(Vec::new()) };
    let pairs: Vec<String> = sets.iter().map(|set| set.lp().to_owned()).collect();
    let statistics = if request.statistics.is_empty() { &SLICED } else { request.statistics };
    let named = TaskSet::from_statistics(statistics, &pairs);
    let task_set = request.task.unwrap_or(&named);
    let sets: Vec<Cut<'_>> =
        sets.iter().map(|set| Ok((set, by.slices(&set.testset)?))).collect::<Result<_>>()?;
    let slices = once_each(sets.iter().flat_map(|(_, slices)| slices).map(|(name, _)| name));
    let metrics = once_each(sets.iter().flat_map(|(set, _)| set.with_baselines()).map(|metric| &metric.name));
    let mut rows = Vec::new();
    for metric in metrics {
        let mut averaged: Vec<Vec<Sliced>> = vec![Vec::new(); slices.len()];
        for task in &task_set.tasks {
            for (slice, row) in over_slices(task, &sets, metric, &slices)? {
                averaged[slice].push(row);
            }
        }
        for parts in averaged {
            rows.extend(average(task_set, &pairs, &parts));
            rows.extend(parts);
        }
        for task in &task_set.beside {
            rows.extend(over_slices(task, &sets, metric, &slices)?.into_iter().map(|(_, row)| row));
        }
    }
    Ok(rows)
}

/// A language pair with its slices.
type Cut<'a> = (&'a EvalSet, Vec<Slice>);

/// Each name once, in order of its first place.
fn once_each<'a>(names: impl Iterator<Item = &'a String>) -> Vec<&'a String> {
    let mut once = Vec::new();
    names.for_each(|name| {
        if !once.contains(&name) {
            once.push(name);
        }
    });
    once
}

/// A task's statistic on each slice that the metric has segment or document scores on, with the slice's
/// index.
fn over_slices(
    task: &Task,
    sets: &[Cut<'_>],
    metric: &str,
    names: &[&String],
) -> Result<Vec<(usize, Sliced)>> {
    let mut parts: Vec<Vec<Aligned>> = vec![Vec::new(); names.len()];
    for (set, slices) in sets.iter().filter(|(set, _)| task.pairs.iter().any(|lp| lp == set.lp())) {
        let Some(scores) = set.with_baselines().find(|scores| scores.name == metric) else { continue };
        let Some(aligned) = set.segments(scores, task.humans)? else { continue };
        for (slice, segments) in slices {
            // A document belongs to a slice that contains all of it.
            let within = scores.units.as_ref().map(|units| units.within(segments));
            let part = aligned.select(within.as_ref().unwrap_or(segments));
            if let Some(idx) = names.iter().position(|name| *name == slice) {
                parts[idx].push(part);
            }
        }
    }
    let rows = parts.iter().enumerate().filter(|(_, parts)| !parts.is_empty());
    let row = |(idx, parts): (usize, &Vec<Aligned>)| {
        let row = Sliced {
            lp: task.pairs.join("+"),
            slice: names[idx].clone(),
            n_segments: parts.iter().map(|part| part.coverage().rated_segments).sum(),
            metric: metric.to_owned(),
            statistic: task.statistic.to_string(),
            value: value(task, parts),
        };
        (idx, row)
    };
    Ok(rows.map(row).collect())
}

/// The statistic on the task's pairs, pooled where there are several; only accuracy can be pooled.
fn value(task: &Task, parts: &[Aligned]) -> Result<Measured, Undefined> {
    match parts {
        [part] if task.pairs.len() == 1 => task.statistic.over_segments(part),
        _ if parts.len() == task.pairs.len() => {
            let agreements = parts.iter().map(|part| Agreement::from_systems(&part.system_means()));
            let n_pairs = agreements.clone().map(|agreement| agreement.pairs).sum::<u64>();
            Agreement::pooled(agreements).map(|value| Measured::new(value, n_pairs as usize))
        }
        _ => Err(Undefined::NoScores),
    }
}

/// The average of a task set on one slice; `None` for single statistics.
fn average(set: &TaskSet, pairs: &[String], parts: &[Sliced]) -> Option<Sliced> {
    let first = parts.first()?;
    let values: Vec<f64> = parts.iter().filter_map(|row| Some(row.value.as_ref().ok()?.value)).collect();
    let is_whole = values.len() == set.tasks.len();
    let value =
        if is_whole { Ok(Measured::new(set.mean(&values), values.len())) } else { Err(Undefined::NoScores) };
    let of_pairs = parts.iter().filter(|row| pairs.contains(&row.lp));
    let n_segments: BTreeMap<&str, usize> = of_pairs.map(|row| (row.lp.as_str(), row.n_segments)).collect();
    Some(Sliced {
        lp: pairs.join("+"),
        n_segments: n_segments.values().sum(),
        statistic: format!("average ({})", set.name),
        value,
        ..first.clone()
    })
}
