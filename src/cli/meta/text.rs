//! Prints a meta-evaluation: tables and notes, or one JSON object. The tables are `report`'s.

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use serde_json::json;

use super::Args;
use super::extra::Extras;
use crate::{
    meta::{eval_set::EvalSet, evaluate::SetResult, spans::counts::Definition},
    report::statistics::{
        answers, main_table,
        notes::{NoteContext, notes, trained_on_warnings},
        parts, sets, significance_table,
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
    (result, extras): (&SetResult, &Extras),
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
    let tested = context.significance.and_then(|how| significance_table(result, how.resamples));
    if let Some(table) = tested {
        let title = "differences between metrics: one-sided p of the permutation tests";
        write!(out, "\n{title}\n\n{}", table.fitted(args.width))?;
    }
    print_extras(args, extras, out)
}

/// The names of the human scores, each once.
fn gold<'a>(eval_sets: &'a [EvalSet], between: &str) -> String {
    let mut seen = BTreeSet::new();
    let names = eval_sets.iter().map(|eval_set| eval_set.gold.name.as_str());
    names.filter(|name: &&'a str| seen.insert(*name)).collect::<Vec<_>>().join(between)
}

fn print_extras(args: &Args, extras: &Extras, out: &mut dyn Write) -> io::Result<()> {
    let (shown, number) = (definitions(args), |value: f64| format!("{value:.3}"));
    let answers = (!extras.answers.is_empty()).then(|| answers::table(&extras.answers, &number));
    for (title, table) in parts::tables(&extras.parts, answers, &shown, &number) {
        write!(out, "\n{title}\n\n{}", table.fitted(args.width))?;
    }
    extras.plots.iter().try_for_each(|path| writeln!(out, "wrote {}", path.display()))
}

/// The definitions of span F1 that are shown.
fn definitions(args: &Args) -> Vec<Definition> {
    let named = &args.extra.span_f1;
    Definition::ALL.into_iter().filter(|one| named.is_empty() || named.contains(one)).collect()
}

/// Prints one JSON object.
///
/// # Errors
/// Numbers that JSON cannot hold.
pub fn print_json(
    args: &Args,
    context: &NoteContext,
    eval_sets: &[EvalSet],
    (result, extras): (&SetResult, &Extras),
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let object = json!({
        "testset": args.testset,
        "gold": gold(eval_sets, ", "),
        "missing": args.missing,
        "coverage": eval_sets.first().map(|eval_set| eval_set.coverage),
        "seed": args.seed,
        "resamples": context.significance.map(|resampling| resampling.resamples),
        "directions": eval_sets.iter().map(sets::json).collect::<Vec<_>>(),
        "result": result,
        "more": extras,
        "warnings": trained_on_warnings(context, eval_sets),
    });
    writeln!(out, "{}", serde_json::to_string_pretty(&object)?)?;
    Ok(())
}
