//! Submissions to WMT26's evaluation task, checked against the task's file: what `export` and `verify` print. The check is in
//! `report::export`.

use std::{io::Write, path::Path, process::ExitCode};

use anyhow::Result;

use crate::report::export::wmt26::{TASKS, check};

/// Checks a submission and prints what it holds and what is wrong with it. Exit code 1 where something is wrong.
///
/// # Errors
/// Files that cannot be read.
pub fn check(task: &Path, submission: &Path, out: &mut dyn Write) -> Result<ExitCode> {
    let report = check::check(task, submission)?;
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
    let counts: Vec<String> = counts.map(|(name, n)| format!("{n} {name}")).collect();
    let state = if report.n_problems == 0 { "ok" } else { "not accepted" };
    writeln!(out, "{state}: {} items, {}", report.n_items, counts.join(", "))?;
    if !report.other_pairs.is_empty() {
        let pairs = report.other_pairs.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        say!("note: nothing is submitted for {pairs}");
    }
    Ok(ExitCode::from(u8::from(report.n_problems > 0)))
}
