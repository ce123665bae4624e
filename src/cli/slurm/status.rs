//! `tribunal slurm status`: the progress in each shard's folder, and the state of its task where Slurm can be
//! queried.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, anyhow};

use super::{JOBS, Submitted};
use crate::{
    cli::output::{Format, Printed},
    console::table::Table,
    files,
    run::{self, RunFile, Status, finish, journal, lock},
};

/// State of one shard.
#[derive(serde::Serialize)]
struct Row {
    state: String,
    done: usize,
    /// `None` before the task has begun.
    of: Option<usize>,
    missing: usize,
    failed: usize,
    /// Verdicts a minute; `None` before there are any.
    #[serde(rename = "verdicts_per_minute")]
    rate: Option<f64>,
}

/// Prints the shards of a run; the exit code is 0 when all are done.
///
/// # Errors
/// A folder that was not submitted.
pub fn run(dir: &Path, printed: Printed, out: &mut dyn Write) -> Result<ExitCode> {
    let path = dir.join(JOBS);
    let text = files::read_own_to_string(&path).map_err(|_| {
        anyhow!(
            "`{}` was not submitted by `tribunal slurm submit`\nhint: give the folder of its `--out`",
            dir.display()
        )
    })?;
    let jobs: Submitted = serde_json::from_str(&text).with_context(|| format!("`{}`", path.display()))?;
    let tasks = tasks(&jobs.array);
    let rows: Vec<Row> = (1..=jobs.shards)
        .map(|shard| row(&dir.join("shards").join(shard.to_string()), tasks.get(&shard)))
        .collect();
    let n_done = rows.iter().filter(|row| row.state == "done").count();
    let json = || serde_json::json!({ "shards": rows, "done": n_done });
    printed.print(
        out,
        json,
        || table(&rows),
        |out| {
            writeln!(out, "{}", table(&rows))?;
            totals(&rows, n_done, out)
        },
    )?;
    let merged = dir.join("merged");
    if printed.format() == Format::Text && merged.join(finish::VERDICTS).exists() {
        writeln!(out, "merged: {}", merged.display())?;
    }
    Ok(if n_done == jobs.shards { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn table(rows: &[Row]) -> Table {
    let number = |n: Option<usize>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let row = |(i, row): (usize, &Row)| {
        [
            (i + 1).to_string(),
            row.state.clone(),
            row.done.to_string(),
            number(row.of),
            row.missing.to_string(),
            row.failed.to_string(),
            row.rate.map_or_else(|| "-".into(), |rate| format!("{rate:.1}")),
        ]
    };
    let head = ["shard", "state", "verdicts", "of", "missing", "failed", "a minute"];
    Table::from_rows(head, rows.iter().enumerate().map(row))
}

/// Prints the sums of all shards.
fn totals(rows: &[Row], n_done: usize, out: &mut dyn Write) -> Result<()> {
    let sum = |of: fn(&Row) -> usize| rows.iter().map(of).sum::<usize>();
    let running = rows
        .iter()
        .filter(|row| row.state.eq_ignore_ascii_case("running"))
        .filter_map(|row| row.rate)
        .sum::<f64>();
    let known: Option<Vec<usize>> = rows.iter().map(|row| row.of).collect();
    let of = known.map_or_else(String::new, |of| format!(" of {}", of.iter().sum::<usize>()));
    let now = if running > 0.0 { format!(", {running:.1} a minute now") } else { String::new() };
    writeln!(
        out,
        "{n_done} of {} shards are done; {}{of} verdicts, {} without a score{now}",
        rows.len(),
        sum(|row| row.done),
        sum(|row| row.missing)
    )?;
    Ok(())
}

fn row(dir: &Path, task: Option<&String>) -> Row {
    let run = RunFile::read(dir).ok();
    // An incomplete line counts when it is complete.
    let records = run::verdicts_so_far(dir).into_iter().flatten().map_while(Result::ok);
    let statuses: Vec<Status> = records.map(|record| record.status).collect();
    let done = statuses.len();
    let count =
        |is_counted: fn(Status) -> bool| statuses.iter().filter(|status| is_counted(**status)).count();
    let state = match task {
        _ if dir.join(finish::VERDICTS).exists() => "done".to_owned(),
        Some(state) => state.to_lowercase(),
        None if lock::is_held(dir, journal::JOURNAL) => "running".into(),
        None if run.is_some() => "stopped".into(),
        None => "waiting".into(),
    };
    let modified = |name: &str| fs::metadata(dir.join(name)).and_then(|meta| meta.modified()).ok();
    let minutes = match (finish::read_summary(dir), modified("run.json").zip(modified(journal::JOURNAL))) {
        (Some(summary), _) => Some(summary.cost.wall_seconds / 60.0),
        (None, Some((from, to))) => to.duration_since(from).ok().map(|time| time.as_secs_f64() / 60.0),
        _ => None,
    };
    Row {
        state,
        done,
        of: run.and_then(|run| run.share),
        missing: count(|status| status != Status::Ok),
        failed: count(|status| status == Status::Failed),
        rate: minutes.filter(|minutes| *minutes > 0.0 && done > 0).map(|minutes| done as f64 / minutes),
    }
}

/// The state of each task that Slurm still lists, by its number in the array; none where Slurm cannot be
/// queried.
fn tasks(array: &str) -> BTreeMap<usize, String> {
    let output =
        Command::new("squeue").args(["--noheader", "--array", "--jobs", array, "--format", "%K %T"]).output();
    let listing =
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let task = |line: &str| {
        let (number, state) = line.trim().split_once(' ')?;
        Some((number.parse().ok()?, state.to_owned()))
    };
    listing.lines().filter_map(task).collect()
}
