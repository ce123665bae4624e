//! The tables of a meta-evaluation: metrics by statistics, and its optional [`parts`]. It computes nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    meta::{
        self,
        baselines::NAMES,
        coverage::{CoveragePolicy, Unit},
        evaluate::{SetResult, TaskResult},
        statistic::Statistic,
    },
    run,
    table::{Cell, Table},
};

mod annotated;
mod answers;
pub mod long;
pub mod notes;
pub mod parts;
pub mod plots;
pub mod sets;
mod tables;

/// A meta-evaluation as JSON: the output of `tribunal meta --format json`.
#[derive(Serialize, JsonSchema)]
pub struct Output<'a> {
    pub testset: &'a Path,
    /// The human scores.
    pub gold: String,
    pub coverage: Option<CoveragePolicy>,
    /// Random seed of the tests.
    pub seed: u64,
    /// Resamples of the tests; `None` where nothing was tested.
    pub resamples: Option<usize>,
    /// Each language pair: rules, systems, metrics.
    pub directions: Vec<Value>,
    pub result: &'a SetResult,
    /// The optional parts that were selected, by name.
    pub more: Map<String, Value>,
    pub warnings: BTreeSet<String>,
}

/// Error of an optional part.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Meta(#[from] meta::Error),
    #[error("`{}` has no calls that can be read", .path.display())]
    Calls { path: PathBuf, source: run::Error },
}

/// A row for each metric, a column for each task, with ranks where they were tested; then a row for each
/// baseline.
pub fn main_table(result: &SetResult) -> Table {
    let mut table = Table::new();
    let averaged = !result.average.is_empty();
    let before: Vec<String> = if averaged { vec![String::new(); 2] } else { vec![String::new()] };
    let tasks = in_order_of_pairs(result);
    let part = |pick: &dyn Fn(&TaskResult) -> String| {
        before.iter().cloned().chain(tasks.iter().map(|task| pick(task))).collect::<Vec<_>>()
    };
    table.head(part(&|task| task.pairs.join("+")));
    table.head(part(&|task| task.statistic.split_once(':').map_or("", |(level, _)| level).into()));
    let mut numbers = part(&number_of);
    numbers[0] = "n".into();
    table.head(numbers);
    let mut names = part(&|task| task.statistic.split_once(':').map_or("", |(_, name)| name).into());
    names[0] = "metric".into();
    if averaged {
        names[1] = format!("{} average", result.name);
    }
    table.head(names);
    let is_ranked = result.tasks.iter().any(|task| task.contest.is_some());
    let averages: Vec<(f64, Option<usize>)> =
        result.average.iter().map(|ranked| (ranked.value, is_ranked.then_some(ranked.rank))).collect();
    for name in row_order(result) {
        let mut cells = vec![Cell::from(name.clone())];
        if let Some(nth) = result.average.iter().position(|ranked| ranked.name == name) {
            cells.push(measured(averages[nth], &averages));
        } else if averaged {
            cells.push("-".into());
        }
        cells.extend(tasks.iter().map(|task| cell(task, &name)));
        table.row(cells);
    }
    for name in NAMES.into_iter().filter(|name| tasks.iter().any(|task| task.baselines.contains_key(*name))) {
        let average = result.average_of_baselines.get(name).map(|value| format!("{value:.3}"));
        let average = averaged.then(|| average.unwrap_or_else(|| "-".into()));
        let cells = tasks.iter().map(|task| match task.baselines.get(name) {
            Some(Ok(measured)) => format!("{:.3}", measured.value),
            _ => "-".into(),
        });
        table.row(std::iter::once(name.to_owned()).chain(average).chain(cells));
    }
    table
}

/// The p-values of all differences: of the average where there is one, else of each task. `None` where none
/// was tested.
fn significance_table(result: &SetResult, resamples: usize) -> Option<Table> {
    let mut table = Table::headed("statistic | better | worse | difference | p");
    let mut row = |statistic: &str, names: [&String; 2], [delta, p]: [f64; 2]| {
        let [better, worse] = names.map(Clone::clone);
        let p = share_of_resamples(p, resamples);
        table.row([statistic.to_owned(), better, worse, format!("{delta:.3}"), p]);
    };
    for test in &result.average_contest {
        let name = format!("{} average", result.name);
        row(&name, [&test.better, &test.worse], [test.delta, test.p]);
    }
    let mut is_empty = result.average_contest.is_empty();
    for task in result.tasks.iter().filter(|_| result.average_contest.is_empty()) {
        let name = format!("{} {}", task.pairs.join("+"), task.statistic);
        for test in task.contest.iter().flat_map(|contest| &contest.comparisons) {
            row(&name, [&test.better, &test.worse], [test.comparison.delta, test.comparison.p]);
            is_empty = false;
        }
    }
    (!is_empty).then_some(table)
}

/// A value to three places.
pub(super) fn number(value: f64) -> String {
    format!("{value:.3}")
}

/// A value to three places; a dash where there is none.
pub(super) fn or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), number)
}

/// A p-value to four places.
pub(super) fn p_value(p: f64) -> String {
    share_of_resamples(p, 10_000)
}

/// A p-value that is a share of resamples: where that is none of them, less than one.
pub(super) fn share_of_resamples(p: f64, resamples: usize) -> String {
    let least = 1.0 / resamples.clamp(1, 10_000) as f64;
    if p < least { format!("<{least:.4}") } else { format!("{p:.4}") }
}

/// Number of systems, segments or documents that a column rests on; from the least to the most where metrics
/// differ.
fn number_of(task: &TaskResult) -> String {
    let counts: BTreeSet<&[usize]> = task.bases.values().map(|basis| basis.systems.as_slice()).collect();
    if task.statistic.starts_with("sys:") {
        let pooled = |counts: &[usize]| counts.iter().map(usize::to_string).collect::<Vec<_>>().join("+");
        let distinct: Vec<String> = counts.into_iter().map(pooled).collect();
        let unit = if distinct == ["1"] { "system" } else { "systems" };
        return format!("{} {unit}", distinct.join(" or "));
    }
    let of = |unit: Unit| {
        let bases = task.bases.values().filter(move |basis| basis.unit == unit);
        let (least, most) = (bases.clone().map(|b| b.units).min()?, bases.map(|b| b.units).max()?);
        Some(match (least, most, name_of(unit)) {
            (1, 1, name) => format!("1 {name}"),
            (least, most, name) if least == most => format!("{most} {name}s"),
            (least, most, name) => format!("{least} to {most} {name}s"),
        })
    };
    [Unit::Segment, Unit::Document].into_iter().filter_map(of).collect::<Vec<_>>().join(", ")
}

fn name_of(unit: Unit) -> &'static str {
    match unit {
        Unit::Segment => "segment",
        Unit::Document => "document",
    }
}

/// Pooled tasks first, then pair by pair, system level before segment level.
fn in_order_of_pairs(result: &SetResult) -> Vec<&TaskResult> {
    let mut tasks: Vec<&TaskResult> = result.tasks.iter().collect();
    let first_of = |task: &TaskResult| result.tasks.iter().position(|other| other.pairs == task.pairs);
    tasks.sort_by_key(|task| (first_of(task), task.statistic.starts_with("seg")));
    tasks
}

/// Best first, by the average if there is one and by the first task if not; metrics without a value come
/// last.
fn row_order(result: &SetResult) -> Vec<String> {
    let mut names: Vec<String> = result.average.iter().map(|ranked| ranked.name.clone()).collect();
    let first: BTreeMap<&String, f64> = result.tasks.first().map_or_else(BTreeMap::new, |task| {
        task.values
            .iter()
            .filter_map(|(name, value)| Some((name, oriented(task, value.ok()?.value))))
            .collect()
    });
    let all: BTreeSet<&String> = result.tasks.iter().flat_map(|t| t.values.keys()).collect();
    let mut others: Vec<&String> = all.into_iter().filter(|name| !names.contains(name)).collect();
    let value = |name: &String| first.get(name).copied().unwrap_or(f64::NEG_INFINITY);
    others.sort_by(|a, b| value(b).total_cmp(&value(a)).then(a.cmp(b)));
    names.extend(others.into_iter().cloned());
    names
}

/// A value of a task where higher is better.
fn oriented(task: &TaskResult, value: f64) -> f64 {
    let is_error = task.statistic.parse().is_ok_and(Statistic::lower_is_better);
    if is_error { -value } else { value }
}

fn cell(task: &TaskResult, name: &str) -> Cell {
    let of = |name: &str| {
        let value = task.values.get(name)?.ok()?.value;
        Some((value, task.ranks.iter().find(|ranked| ranked.name == name).map(|ranked| ranked.rank)))
    };
    let turned = |(value, rank)| (oriented(task, value), rank);
    let column: Vec<_> = task.values.keys().filter_map(|name| of(name).map(turned)).collect();
    of(name).map_or_else(
        || "-".into(),
        |found| Cell {
            text: number(found.0),
            note: own_number(task, name),
            ..measured(turned(found), &column)
        },
    )
}

/// A value of a column where higher is better: the best has the first rank, or where none was tested, no
/// other above it.
fn measured((value, rank): (f64, Option<usize>), column: &[(f64, Option<usize>)]) -> Cell {
    let is_best = rank.map_or_else(
        || column.iter().all(|(other, _)| number(*other) == number(value) || *other < value),
        |rank| rank == 1,
    );
    Cell { rank, is_best, ..Cell::from(number(value)) }
}

/// The metric's own number of segments or documents, where others in the column have another.
fn own_number(task: &TaskResult, name: &str) -> String {
    let Some(basis) = task.bases.get(name) else { return String::new() };
    if task.bases.values().any(|other| other.unit != basis.unit) {
        return format!(" n={} {}s", basis.units, name_of(basis.unit));
    }
    let most = task.bases.values().map(|basis| basis.units).max();
    if Some(basis.units) < most { format!(" n={}", basis.units) } else { String::new() }
}
