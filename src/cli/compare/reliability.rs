//! `tribunal compare --reliability`: one judge on the same units more than once, at other seeds, orders or
//! granularities. The statistics are in `meta`; runs are matched and printed here.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::{
    cli::output::Printed,
    console::table::Table,
    meta::{
        correlation::Undefined,
        reliability::{self, RunPair, Verdicts},
        verdicts,
    },
    run::RunFile,
};

/// One run.
struct Run {
    name: String,
    signature: crate::signature::Signature,
    verdicts: Verdicts,
}

/// The whole table.
#[derive(Serialize)]
struct Reliability {
    /// Over all runs; see [`reliability::alpha`].
    alpha: Option<f64>,
    /// Reason for a missing alpha.
    reason: Option<String>,
    pairs: Vec<Pair>,
}

/// Two runs.
#[derive(Serialize)]
struct Pair {
    first: String,
    second: String,
    /// The fields of the signature in which they differ.
    differ: Vec<String>,
    #[serde(flatten)]
    runs: RunPair,
}

/// Prints how well runs of one judge agree: exit code 1 where some verdict is missing.
///
/// # Errors
/// Fewer than two run folders, folders that cannot be read or share no scored unit.
pub fn run(inputs: &[PathBuf], printed: Printed, out: &mut dyn Write) -> Result<ExitCode> {
    let runs: Vec<Run> = inputs.iter().map(|path| read(path)).collect::<Result<_>>()?;
    if runs.len() < 2 {
        bail!("only one run; hint: give two or more run folders of the same judge");
    }
    let pairs = super::pairs(&runs).map(|(first, second)| compare(first, second)).collect::<Result<_>>()?;
    let alpha = reliability::alpha(&reliability::scores_of_units(runs.iter().map(|run| &run.verdicts)));
    let found = Reliability { alpha: alpha.ok(), reason: alpha.err().map(|e| e.to_string()), pairs };
    printed.print(out, || &found, || for_programs(&found), |out| text(&found, out))?;
    let complete = runs.iter().all(|run| run.verdicts.values().all(|verdict| verdict.status == "ok"));
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn read(dir: &Path) -> Result<Run> {
    let signature = RunFile::read(dir)?.signature;
    let verdicts = reliability::by_unit(verdicts::read(dir)?);
    Ok(Run { name: dir.display().to_string(), signature, verdicts })
}

fn compare(first: &Run, second: &Run) -> Result<Pair> {
    let runs = RunPair::new(&first.verdicts, &second.verdicts)
        .with_context(|| format!("`{}` and `{}` share no scored unit", first.name, second.name))?;
    Ok(Pair {
        first: first.name.clone(),
        second: second.name.clone(),
        differ: second.signature.differences(&first.signature).iter().map(ToString::to_string).collect(),
        runs,
    })
}

fn number(value: f64) -> String {
    format!("{value:.3}")
}

fn table(found: &Reliability) -> Table {
    let defined = |value: Result<f64, Undefined>| value.map_or_else(|_| "-".into(), number);
    let row = |(idx, pair): (usize, &Pair)| {
        let RunPair { repeat, systems, spans } = &pair.runs;
        [
            format!("({})", idx + 1),
            repeat.units.to_string(),
            number(repeat.same),
            number(repeat.difference),
            defined(repeat.pearson),
            defined(repeat.kendall),
            systems.map_or_else(|| "-".into(), number),
            number(*spans),
        ]
    };
    let head = ["runs", "units", "same", "difference", "pearson", "kendall", "systems", "spans F1"];
    Table::from_rows(head, found.pairs.iter().enumerate().map(row))
}

/// A row for every two runs: one number in a field, missing ones empty.
fn for_programs(found: &Reliability) -> Table {
    let row = |Pair { first, second, runs: RunPair { repeat, systems, spans }, .. }: &Pair| {
        let defined = [Some(repeat.same), Some(repeat.difference), repeat.pearson.ok(), repeat.kendall.ok()];
        let values = defined.into_iter().chain([*systems, Some(*spans)]);
        let values = values.map(|value| value.map_or_else(String::new, |value| value.to_string()));
        [first.clone(), second.clone(), repeat.units.to_string()].into_iter().chain(values)
    };
    let head =
        ["first", "second", "units", "same", "difference", "pearson", "kendall", "systems", "spans_f1"];
    Table::from_rows(head, found.pairs.iter().map(row))
}

fn text(found: &Reliability, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}", table(found))?;
    for (idx, pair) in found.pairs.iter().enumerate() {
        let differ = if pair.differ.is_empty() { "same signature".into() } else { pair.differ.join("; ") };
        writeln!(out, "({}) {} and {}: {differ}", idx + 1, pair.first, pair.second)?;
    }
    match (&found.alpha, &found.reason) {
        (Some(alpha), _) => writeln!(out, "\nKrippendorff's alpha over all runs: {}", number(*alpha))?,
        (None, reason) => {
            writeln!(out, "\nKrippendorff's alpha is undefined: {}", reason.as_deref().unwrap_or("-"))?;
        }
    }
    Ok(())
}
