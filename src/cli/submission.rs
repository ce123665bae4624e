//! Submissions to WMT26's evaluation task, checked against the task's file: the output of `export` and
//! `verify`. The check is in `report::export`.

use std::{io::Write, path::Path, process::ExitCode};

use anyhow::Result;

use super::output::Printed;
use crate::{
    console::table::Table,
    report::{
        counted,
        export::wmt26::{TASKS, check},
    },
};

/// Checks a submission and prints its contents and its faults. Exit code 1 where something is wrong.
///
/// # Errors
/// Files that cannot be read.
pub fn check(task: &Path, submission: &Path, printed: Printed, out: &mut dyn Write) -> Result<ExitCode> {
    let report = check::check(task, submission)?;
    let json = || serde_json::json!(report);
    printed.print(out, json, || table(&report), |out| text(&report, submission, out))?;
    Ok(ExitCode::from(u8::from(report.n_problems > 0)))
}

fn table(report: &check::Report) -> Table {
    let mut table = Table::new();
    table.head(["line", "field", "problem"]);
    for problem in &report.problems {
        let line = problem.line.map_or_else(String::new, |line| line.to_string());
        table.row([line, problem.field.clone(), problem.what.clone()]);
    }
    table
}

fn text(report: &check::Report, submission: &Path, out: &mut dyn Write) -> Result<()> {
    let path = submission.display();
    for problem in &report.problems {
        let place = problem.line.map_or_else(|| format!("`{path}`"), |line| format!("`{path}` line {line}"));
        let field = if problem.field.is_empty() { String::new() } else { format!(" `{}`", problem.field) };
        writeln!(out, "{place}:{field} {}", problem.what)?;
    }
    let more = report.n_problems - report.problems.len();
    if more > 0 {
        writeln!(out, "and {more} more problems")?;
    }
    let counts = TASKS.iter().zip(report.n_predictions).filter(|(_, n)| *n > 0);
    let held = std::iter::once(counted(report.n_items, "item"));
    let held: Vec<String> = held.chain(counts.map(|(name, n)| format!("{n} {name}"))).collect();
    let state = if report.n_problems == 0 { "ok" } else { "not accepted" };
    writeln!(out, "{state}: {}", held.join(", "))?;
    if !report.other_pairs.is_empty() {
        let pairs = report.other_pairs.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        say!("note: nothing is submitted for {pairs}");
    }
    Ok(())
}
