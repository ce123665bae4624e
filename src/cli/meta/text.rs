//! Tables and JSON of `tribunal meta`'s main result. It computes nothing.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::Args;
use super::extra::Extras;
use crate::cli::table::Table;
use crate::meta::correlation::Undefined;
use crate::meta::direction::Direction;
use crate::meta::scores::{Scores, SystemScoreOrigin};
use crate::meta::statistic::Measured;
use crate::meta::task::{SetResult, TaskResult};

/// Prints the tables of a task set and the notes below them.
///
/// # Errors
/// An output that cannot be written.
pub fn print_tables(
    args: &Args,
    directions: &[Direction],
    result: &SetResult,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "{} · {} · human scores `{}`", result.name, args.testset.display(), args.gold)?;
    for direction in directions {
        writeln!(out, "{}", describe(direction))?;
    }
    writeln!(out)?;
    write!(out, "{}", main_table(args, result).fitted(args.width))?;
    let notes = notes(args, directions, result);
    if !notes.is_empty() {
        writeln!(out)?;
    }
    notes.iter().try_for_each(|note| writeln!(out, "{note}"))
}

fn describe(direction: &Direction) -> String {
    let rated = direction.gold.segments.as_ref().map_or(0, |segments| {
        let columns: Vec<_> =
            segments.iter().filter(|(system, _)| direction.machine.contains(*system)).collect();
        let rated = |segment: &usize| columns.iter().any(|(_, column)| column[*segment].is_some());
        (0..direction.testset.n_segments()).filter(rated).count()
    });
    format!(
        "{}: {}, {rated} of {} segments rated",
        direction.lp(),
        match direction.machine.len() {
            1 => "1 system".to_owned(),
            n => format!("{n} systems in the order of their names"),
        },
        direction.testset.n_segments()
    )
}

fn main_table(args: &Args, result: &SetResult) -> Table {
    let mut table = Table::new();
    let averaged = !result.average.is_empty();
    let before: Vec<String> = if averaged { vec![String::new(); 2] } else { vec![String::new()] };
    let tasks = in_order_of_pairs(result);
    let part = |pick: &dyn Fn(&TaskResult) -> String| {
        before.iter().cloned().chain(tasks.iter().map(|task| pick(task))).collect::<Vec<_>>()
    };
    table.head(part(&|task| task.pairs.join("+")));
    table.head(part(&|task| task.statistic.split_once(':').map_or("", |(level, _)| level).into()));
    let mut names = part(&|task| task.statistic.split_once(':').map_or("", |(_, name)| name).into());
    names[0] = "metric".into();
    if averaged {
        names[1] = format!("{} average", result.name);
    }
    table.head(names);
    for name in row_order(result) {
        let mut cells = vec![name.clone()];
        if let Some(ranked) = result.average.iter().find(|ranked| ranked.name == name) {
            let tested = result.tasks.iter().any(|task| task.contest.is_some());
            cells.push(with_rank(args, ranked.value, tested.then_some(ranked.rank)));
        } else if averaged {
            cells.push("-".into());
        }
        cells.extend(tasks.iter().map(|task| cell(args, task, &name)));
        table.row(cells);
    }
    table
}

/// Pooled tasks first, then pair by pair, system level before segment level.
fn in_order_of_pairs(result: &SetResult) -> Vec<&TaskResult> {
    let mut tasks: Vec<&TaskResult> = result.tasks.iter().collect();
    let first_of = |task: &TaskResult| result.tasks.iter().position(|other| other.pairs == task.pairs);
    tasks.sort_by_key(|task| (first_of(task), task.statistic.starts_with("seg")));
    tasks
}

/// By the average where there is one, by the first task otherwise, best first; metrics without a value last.
fn row_order(result: &SetResult) -> Vec<String> {
    let mut names: Vec<String> = result.average.iter().map(|ranked| ranked.name.clone()).collect();
    let first: BTreeMap<&String, f64> = result.tasks.first().map_or_else(BTreeMap::new, |task| {
        task.values.iter().filter_map(|(name, value)| Some((name, value.ok()?.value))).collect()
    });
    let all: std::collections::BTreeSet<&String> =
        result.tasks.iter().flat_map(|t| t.values.keys()).collect();
    let mut others: Vec<&String> = all.into_iter().filter(|name| !names.contains(name)).collect();
    let value = |name: &String| first.get(name).copied().unwrap_or(f64::NEG_INFINITY);
    others.sort_by(|a, b| value(b).total_cmp(&value(a)).then(a.cmp(b)));
    names.extend(others.into_iter().cloned());
    names
}

fn cell(args: &Args, task: &TaskResult, name: &str) -> String {
    match task.values.get(name) {
        Some(Ok(measured)) => {
            let rank = task.ranks.iter().find(|ranked| ranked.name == name).map(|ranked| ranked.rank);
            with_rank(args, measured.value, rank)
        }
        _ => "-".into(),
    }
}

fn with_rank(args: &Args, value: f64, rank: Option<usize>) -> String {
    let digits = args.digits;
    rank.map_or_else(|| format!("{value:.digits$}"), |rank| format!("{value:.digits$} ({rank})"))
}

/// What a reader must know to trust the table.
fn notes(args: &Args, directions: &[Direction], result: &SetResult) -> Vec<String> {
    let mut notes = Vec::new();
    if !result.missing.is_empty() {
        notes.push(format!("no average: without data for {}", result.missing.join(", ")));
    }
    if !result.incomplete.is_empty() {
        notes.push(format!("not in the average, a task has no value: {}", result.incomplete.join(", ")));
    }
    for task in &result.tasks {
        let reasons = task.values.iter().filter_map(|(name, value)| {
            value
                .err()
                .map(|why| format!("{} {}: no value for {name}: {why}", task.pairs.join("+"), task.statistic))
        });
        notes.extend(reasons);
        if let Some(untested) = task.contest.as_ref().and_then(|contest| contest.untested) {
            notes.push(format!("{} {}: not tested: {untested}", task.pairs.join("+"), task.statistic));
        }
    }
    for direction in directions.iter().filter(|direction| direction.machine.len() == 1) {
        notes.push(format!("{}: a single system: there is nothing to compare it with", direction.lp()));
    }
    notes.extend(directions.iter().flat_map(coverage_notes));
    notes.extend(directions.iter().filter_map(means_note));
    notes.extend(result.tasks.iter().filter_map(dropped_note));
    if result.tasks.iter().any(|task| task.statistic.starts_with("seg:acc-eq")) {
        notes.push("acc-eq: one tie threshold a metric, fitted on these same scores (--calibration shows by how much that flatters)".into());
    }
    if args.significance {
        notes.push(format!(
            "in brackets: rank; a new rank where a metric of the rank before is better with p at most 0.05 (permutation, {} resamples, seed {})",
            args.resamples, args.seed
        ));
    }
    notes
}

/// Missing verdicts and what was done about them.
fn coverage_notes(direction: &Direction) -> Vec<String> {
    let mut notes = Vec::new();
    for metric in &direction.metrics {
        let name = format!("{} {}", direction.lp(), metric.name);
        if metric.n_filled > 0 {
            let n = metric.n_filled;
            notes.push(format!(
                "{name}: {n} rated translations have no score and count with the metric's lowest (--missing lowest)"
            ));
        }
        let Ok(Some(aligned)) = direction.segments(metric, false) else { continue };
        let coverage = aligned.coverage();
        if coverage.missing > 0 {
            notes.push(format!(
                "{name}: {} of {} rated translations have no score and are left out, segment by segment (--missing drop)",
                coverage.missing, coverage.rated
            ));
        }
    }
    notes
}

fn means_note(direction: &Direction) -> Option<String> {
    let means = |metric: &&Scores| metric.system_origin == SystemScoreOrigin::MeanOfSegments;
    let names: Vec<&str> =
        direction.metrics.iter().filter(means).map(|metric| metric.name.as_str()).collect();
    let lp = direction.lp();
    (!names.is_empty())
        .then(|| format!("{lp}: system scores are means of segment scores for {}", names.join(", ")))
}

/// Rated segments that soft pairwise accuracy cannot use.
fn dropped_note(task: &TaskResult) -> Option<String> {
    let dropped = |(name, value): (&String, &Result<Measured, Undefined>)| {
        let n = value.ok()?.n_dropped;
        (n > 0).then(|| format!("{name} {n}"))
    };
    let dropped: Vec<String> = task.values.iter().filter_map(dropped).collect();
    let what = format!("{} {}", task.pairs.join("+"), task.statistic);
    (!dropped.is_empty()).then(|| {
        format!(
            "{what}: rated segments left out because some system has no score there: {}",
            dropped.join(", ")
        )
    })
}

/// Prints one JSON object.
///
/// # Errors
/// Numbers that JSON cannot hold.
pub fn print_json(
    args: &Args,
    directions: &[Direction],
    result: &SetResult,
    extras: &Extras,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let describe = |direction: &Direction| -> Value {
        let metrics: Vec<Value> = direction
            .metrics
            .iter()
            .map(|metric| {
                let coverage =
                    direction.segments(metric, false).ok().flatten().map(|scores| scores.coverage());
                json!({"name": metric.name, "system_scores": metric.system_origin, "coverage": coverage, "filled_with_lowest": metric.n_filled})
            })
            .collect();
        json!({"lp": direction.lp(), "systems": direction.machine, "segments": direction.testset.n_segments(), "metrics": metrics})
    };
    let object = json!({
        "testset": args.testset,
        "gold": args.gold,
        "missing": args.missing,
        "seed": args.seed,
        "resamples": args.significance.then_some(args.resamples),
        "directions": directions.iter().map(describe).collect::<Vec<_>>(),
        "result": result,
        "more": extras,
    });
    writeln!(out, "{}", serde_json::to_string_pretty(&object)?)?;
    Ok(())
}
