//! Tables and JSON of `tribunal meta`'s main result. It computes nothing.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::Args;
use super::extra::{Extras, Part};
use super::notes::{notes, trained_on};
use crate::{
    meta::{eval_set::EvalSet, evaluate::SetResult, scores::Scores},
    report::meta::main_table,
};

/// Prints the tables of a task set and the notes below them.
///
/// # Errors
/// An output that cannot be written.
pub fn print_tables(
    args: &Args,
    eval_sets: &[EvalSet],
    result: &SetResult,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "{} · {} · human scores `{}`", result.name, args.testset.display(), args.gold)?;
    for eval_set in eval_sets {
        writeln!(out, "{}", describe(eval_set))?;
    }
    writeln!(out)?;
    write!(out, "{}", main_table(result).fitted(args.width))?;
    let notes = notes(args, eval_sets, result);
    if !notes.is_empty() {
        writeln!(out)?;
    }
    notes.iter().try_for_each(|note| writeln!(out, "{note}"))
}

fn describe(eval_set: &EvalSet) -> String {
    let rated = eval_set.gold.segments.as_ref().map_or(0, |segments| {
        let columns: Vec<_> =
            segments.iter().filter(|(system, _)| eval_set.machine.contains(*system)).collect();
        let rated = |segment: &usize| columns.iter().any(|(_, column)| column[*segment].is_some());
        (0..eval_set.testset.n_segments()).filter(rated).count()
    });
    format!(
        "{}: {}, {}, {rated} of {} segments rated",
        eval_set.lp(),
        match eval_set.machine.len() {
            1 => "1 system".to_owned(),
            n => format!("{n} systems in the order of their names"),
        },
        eval_set.rules.reference.as_ref().map_or_else(|| "no reference".into(), |r| format!("reference {r}")),
        eval_set.testset.n_segments()
    )
}

/// Units that the system means of a run leave out; `None` where each system's mean is over its own.
fn left_out_of_means(eval_set: &EvalSet, metric: &Scores) -> Option<usize> {
    let documents = eval_set.documents(metric).map(|(kept, of)| of - kept);
    metric.n_left_out.map(|n_left_out| documents.unwrap_or(n_left_out))
}

/// Prints one JSON object.
///
/// # Errors
/// Numbers that JSON cannot hold.
pub fn print_json(
    args: &Args,
    eval_sets: &[EvalSet],
    result: &SetResult,
    extras: &Extras,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let describe = |eval_set: &EvalSet| -> Value {
        let metrics = eval_set.metrics.iter().map(|metric| {
            json!({
                "name": metric.name,
                "system_scores": metric.system_origin,
                "coverage": eval_set.own_segments(metric).ok().flatten().map(|scores| scores.coverage()),
                "filled_with_lowest": metric.n_filled,
                "units_left_out_of_means": left_out_of_means(eval_set, metric),
                "documents": metric.units.as_ref().map(|units| &units.units),
            })
        });
        json!({
            "lp": eval_set.lp(),
            "reference": eval_set.rules,
            "systems": eval_set.machine,
            "with_humans": eval_set.with_humans,
            "segments": eval_set.testset.n_segments(),
            "compared": eval_set.common,
            "metrics": metrics.collect::<Vec<_>>(),
            "other_references": eval_set.other_references,
        })
    };
    let object = json!({
        "testset": args.testset,
        "gold": args.gold,
        "missing": args.missing,
        "coverage": eval_sets.first().map(|eval_set| eval_set.coverage),
        "seed": args.seed,
        "resamples": args.extra.wants(Part::Significance).then_some(args.resamples),
        "directions": eval_sets.iter().map(describe).collect::<Vec<_>>(),
        "result": result,
        "more": extras,
        "warnings": trained_on(args, eval_sets),
    });
    writeln!(out, "{}", serde_json::to_string_pretty(&object)?)?;
    Ok(())
}
