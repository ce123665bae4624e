//! Prints a meta-evaluation: tables and notes, or one JSON object. The tables are `report`'s.

use std::{
    collections::BTreeSet,
    io::{self, Write},
    path::PathBuf,
};

use serde_json::json;

use super::Args;
use crate::{
    meta::{eval_set::EvalSet, evaluate::SetResult},
    report::statistics::{
        Output, main_table,
        notes::{NoteContext, notes, trained_on_warnings},
        parts::Findings,
        sets,
    },
};

/// Prints the tables of a task set with the notes below them, then every part that was computed.
///
/// # Errors
/// An output that cannot be written.
pub fn print_tables(
    args: &Args,
    context: &NoteContext,
    eval_sets: &[EvalSet],
    (result, (findings, plots)): (&SetResult, &(Findings, Vec<PathBuf>)),
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(
        out,
        "{} · {} · human scores `{}`",
        result.name,
        args.testset.display(),
        gold(eval_sets, "`, `")
    )?;
    for eval_set in eval_sets {
        writeln!(out, "{}", sets::line(eval_set))?;
    }
    write!(out, "\n{}", main_table(result).fitted(args.width))?;
    let notes = notes(context, eval_sets, result);
    if !notes.is_empty() {
        writeln!(out)?;
    }
    notes.iter().try_for_each(|note| writeln!(out, "{note}"))?;
    for (title, table) in &findings.tables {
        write!(out, "\n{title}\n\n{}", table.fitted(args.width))?;
    }
    plots.iter().try_for_each(|path| writeln!(out, "wrote {}", path.display()))
}

/// Prints each table for LaTeX, the main one with the notes as comments above it.
///
/// # Errors
/// An output that cannot be written.
pub fn print_latex(
    context: &NoteContext,
    eval_sets: &[EvalSet],
    (result, findings): (&SetResult, &Findings),
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut above: Vec<String> = eval_sets.iter().map(sets::line).collect();
    above.extend(notes(context, eval_sets, result));
    out.write_all(main_table(result).latex(&above).as_bytes())?;
    findings
        .tables
        .iter()
        .try_for_each(|(title, table)| write!(out, "\n{}", table.latex(std::slice::from_ref(title))))
}

/// The names of the human scores, each once.
fn gold<'a>(eval_sets: &'a [EvalSet], between: &str) -> String {
    let mut seen = BTreeSet::new();
    let names = eval_sets.iter().map(|eval_set| eval_set.gold.name.as_str());
    names.filter(|name: &&'a str| seen.insert(*name)).collect::<Vec<_>>().join(between)
}

/// Prints one JSON object.
///
/// # Errors
/// Numbers that JSON cannot hold.
pub fn print_json(
    args: &Args,
    context: &NoteContext,
    eval_sets: &[EvalSet],
    (result, (findings, plots)): (&SetResult, &(Findings, Vec<PathBuf>)),
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut more = findings.json.clone();
    if !plots.is_empty() {
        more.insert("plots".into(), json!(plots));
    }
    let object = Output {
        testset: &args.testset,
        gold: gold(eval_sets, ", "),
        coverage: eval_sets.first().map(|eval_set| eval_set.coverage),
        seed: args.seed,
        resamples: context.significance.map(|resampling| resampling.resamples),
        directions: eval_sets.iter().map(sets::json).collect(),
        result,
        more,
        warnings: trained_on_warnings(context, eval_sets),
    };
    writeln!(out, "{}", serde_json::to_string_pretty(&object)?)?;
    Ok(())
}
