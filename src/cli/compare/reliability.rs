//! `tribunal compare --reliability`: one judge on the same units more than once, at other seeds, orders or
//! granularities. The statistics are in `meta`; runs are matched and printed here.

use std::{
    collections::{BTreeMap, BTreeSet},
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
        agreement::Agreement,
        correlation::Undefined,
        reliability::{self, Repeat},
        spans::{self, Overlap, Span},
        verdicts::{self, JudgedError, Verdict},
    },
    run::RunFile,
};

/// A unit of a run: system, languages, document, segment.
type Key = (String, String, String, Option<usize>);

/// One run.
struct Run {
    name: String,
    signature: crate::signature::Signature,
    verdicts: BTreeMap<Key, Verdict>,
}

/// The whole table.
#[derive(Serialize)]
struct Reliability {
    /// Over all runs; see [`reliability::alpha`].
    alpha: Option<f64>,
    /// Why there is no alpha.
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
    repeat: Repeat,
    /// Share of the pairs of systems that both runs order alike; `None` with fewer than two systems,
    /// or where no unit is scored for all.
    systems: Option<f64>,
    /// Character F1 of the spans of one run against those of the other.
    spans: f64,
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
    let mut pairs = Vec::new();
    for (idx, first) in runs.iter().enumerate() {
        for second in &runs[idx + 1..] {
            pairs.push(compare(first, second)?);
        }
    }
    let alpha = reliability::alpha(&scores_of_units(&runs));
    let table = Reliability { alpha: alpha.ok(), reason: alpha.err().map(|e| e.to_string()), pairs };
    if printed.is_json() {
        writeln!(out, "{}", serde_json::to_string_pretty(&table)?)?;
    } else {
        print(&table, printed, out)?;
    }
    let complete = runs.iter().all(|run| run.verdicts.values().all(|verdict| verdict.status == "ok"));
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn read(dir: &Path) -> Result<Run> {
    let signature = RunFile::read(dir)?.signature;
    let key =
        |v: &Verdict| (v.system.clone(), format!("{}-{}", v.src_lang, v.tgt_lang), v.doc.clone(), v.seg);
    let verdicts = verdicts::read(dir)?.into_iter().map(|verdict| (key(&verdict), verdict)).collect();
    Ok(Run { name: dir.display().to_string(), signature, verdicts })
}

fn compare(first: &Run, second: &Run) -> Result<Pair> {
    let shared: Vec<(&Key, &Verdict, &Verdict)> = first
        .verdicts
        .iter()
        .filter_map(|(key, verdict)| Some((key, verdict, second.verdicts.get(key)?)))
        .filter(|(_, a, b)| a.score.is_some() && b.score.is_some())
        .collect();
    let scores = |side: fn(&(&Key, &Verdict, &Verdict)) -> Option<f64>| -> Vec<f64> {
        shared.iter().filter_map(side).collect()
    };
    let (a, b) = (scores(|(_, verdict, _)| verdict.score), scores(|(_, _, verdict)| verdict.score));
    let repeat = reliability::repeat(&a, &b)
        .with_context(|| format!("`{}` and `{}` share no scored unit", first.name, second.name))?;
    let mut overlap = Overlap::default();
    for (_, a, b) in &shared {
        overlap.add(&spans::characters(&located(&a.errors), &located(&b.errors)));
    }
    Ok(Pair {
        first: first.name.clone(),
        second: second.name.clone(),
        differ: second.signature.differences(&first.signature).iter().map(ToString::to_string).collect(),
        repeat,
        systems: order_of_systems(&shared),
        spans: overlap.score().f1,
    })
}

/// The share of the pairs of systems that both runs order alike, by means over the units that both runs scored for
/// every system.
fn order_of_systems(shared: &[(&Key, &Verdict, &Verdict)]) -> Option<f64> {
    let mut units: BTreeMap<_, BTreeMap<&str, (f64, f64)>> = BTreeMap::new();
    let mut systems: BTreeSet<&str> = BTreeSet::new();
    for ((system, pair, doc, seg), a, b) in shared {
        let Some(scores) = a.score.zip(b.score) else { continue };
        systems.insert(system);
        units.entry((pair, doc, seg)).or_default().insert(system, scores);
    }
    units.retain(|_, scores| scores.len() == systems.len());
    let mean = |system: &str, side: fn(&(f64, f64)) -> f64| {
        units.values().map(|scores| side(&scores[system])).sum::<f64>() / units.len() as f64
    };
    let means = |side: fn(&(f64, f64)) -> f64| systems.iter().map(|s| mean(s, side)).collect::<Vec<_>>();
    if units.is_empty() {
        return None;
    }
    Agreement::pooled([Agreement::of(&means(|scores| scores.0), &means(|scores| scores.1))]).ok()
}

pub(super) fn located(errors: &[JudgedError]) -> Vec<Span> {
    let severity = |name: &str| match name {
        "critical" => 3,
        "major" => 2,
        "minor" => 1,
        _ => 0,
    };
    let span = |error: &JudgedError| {
        let in_source = error.side == "source";
        Some(Span { start: error.start?, end: error.end?, in_source, severity: severity(&error.severity) })
    };
    errors.iter().filter_map(span).collect()
}

/// The scores that each unit has in any run.
fn scores_of_units(runs: &[Run]) -> Vec<Vec<f64>> {
    let mut units: BTreeMap<&Key, Vec<f64>> = BTreeMap::new();
    for (key, verdict) in runs.iter().flat_map(|run| &run.verdicts) {
        units.entry(key).or_default().extend(verdict.score);
    }
    units.into_values().collect()
}

fn print(table: &Reliability, printed: Printed, out: &mut dyn Write) -> Result<()> {
    let number = |value: f64| format!("{value:.3}");
    let defined = |value: Result<f64, Undefined>| value.map_or_else(|_| "-".into(), number);
    let mut rows = Table::new();
    rows.head(["runs", "units", "same", "difference", "pearson", "kendall", "systems", "spans F1"]);
    for (idx, pair) in table.pairs.iter().enumerate() {
        let repeat = &pair.repeat;
        rows.row([
            format!("({})", idx + 1),
            repeat.units.to_string(),
            number(repeat.same),
            number(repeat.difference),
            defined(repeat.pearson),
            defined(repeat.kendall),
            pair.systems.map_or_else(|| "-".into(), number),
            number(pair.spans),
        ]);
    }
    if printed.rows(&rows, out)? {
        return Ok(());
    }
    writeln!(out, "{rows}")?;
    for (idx, pair) in table.pairs.iter().enumerate() {
        let differ = if pair.differ.is_empty() { "same signature".into() } else { pair.differ.join("; ") };
        writeln!(out, "({}) {} and {}: {differ}", idx + 1, pair.first, pair.second)?;
    }
    match (&table.alpha, &table.reason) {
        (Some(alpha), _) => writeln!(out, "\nKrippendorff's alpha over all runs: {}", number(*alpha))?,
        (None, reason) => {
            writeln!(out, "\nKrippendorff's alpha is undefined: {}", reason.as_deref().unwrap_or("-"))?;
        }
    }
    Ok(())
}
