//! `tribunal compare` on one judge's verdicts: systems side by side, with paired significance. The tests are
//! in `meta`; units are matched and printed here.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use super::Args;
use super::input::Input;
use crate::{
    cli::output::Format,
    console::wrap,
    judges::registry,
    meta::{
        judgements::{Judgements, Unit},
        systems::{self, Comparison, Options, Order},
    },
    report::compare::systems::{flat, latex, notes, table},
};
use anyhow::{Context, Result, bail};

/// Prints the systems of one judge's inputs.
///
/// # Errors
/// Inputs of different judges, fewer than two systems, a system without a score, systems that share no unit.
pub fn run(args: &Args, inputs: &[Input], out: &mut dyn Write) -> Result<()> {
    one_judge(inputs)?;
    if args.baseline.is_some() && !ranks_systems(inputs) {
        bail!(
            "this judge's means do not rank systems, so none is compared with a baseline\nhint: leave out `--baseline`"
        );
    }
    let pairs: BTreeSet<&str> = units(inputs).map(|unit| unit.pair.as_str()).collect();
    if pairs.len() < 2 {
        let pair = pairs.first().copied().unwrap_or_default().to_owned();
        return print(args, inputs, &[(pair, compared(args, inputs, None)?)], out);
    }
    // Scores of different languages are never pooled.
    let of = |pair: &str| -> Result<_> {
        let compared =
            compared(args, inputs, Some(pair)).with_context(|| format!("the systems on {pair}"))?;
        Ok((pair.to_owned(), compared))
    };
    print(args, inputs, &pairs.into_iter().map(of).collect::<Result<Vec<_>>>()?, out)
}

fn units(inputs: &[Input]) -> impl Iterator<Item = &Unit> {
    inputs.iter().flat_map(|input| input.judgements.systems.values()).flat_map(BTreeMap::keys)
}

/// Compares the systems on the units of one pair; `None` for all units.
fn compared(args: &Args, inputs: &[Input], pair: Option<&str>) -> Result<Comparison> {
    let judgements: Vec<&Judgements> = inputs.iter().map(|input| &input.judgements).collect();
    let options = Options {
        pair,
        coverage: args.coverage,
        baseline: args.baseline.as_deref(),
        order: if ranks_systems(inputs) { Order::BestFirst } else { Order::Input(order(inputs)) },
        resamples: args.resamples.max(1),
        seed: args.seed,
    };
    Ok(systems::compare(&judgements, &options)?)
}

/// The systems in the order of the input.
fn order(inputs: &[Input]) -> Vec<&str> {
    let mut order: Vec<&str> = Vec::new();
    for name in inputs.iter().flat_map(|input| input.order.iter().chain(input.judgements.systems.keys())) {
        if !order.contains(&name.as_str()) {
            order.push(name);
        }
    }
    order
}

/// A difference between systems means nothing where it may be one between judges.
fn one_judge(inputs: &[Input]) -> Result<()> {
    const HINT: &str = "hint: judge all systems with the same options, or give runs over the same translations to \
                        compare the judges";
    let Some((first, others)) = inputs.split_first() else { return Ok(()) };
    for other in others {
        other_granularity(first, other)?;
        if first.signature.is_some() != other.signature.is_some() {
            let (run, file) = if first.signature.is_some() { (first, other) } else { (other, first) };
            bail!(
                "`{}` is a run, `{}` does not say which judge its scores come from: they may be on different \
                 scales\n{HINT}",
                run.judgements.name,
                file.judgements.name
            );
        }
        let differences = first.differences(other).unwrap_or_default();
        if let [(key, values)] = &differences[..]
            && key == "pairs"
        {
            bail!(
                "`{}` and `{}` come from one judge, on other language pairs: {values}\nhint: compare the systems of each \
                 pair by themselves, or judges on the same translations",
                first.judgements.name,
                other.judgements.name
            );
        }
        if !differences.is_empty() {
            let listed: Vec<String> =
                differences.iter().map(|(key, values)| format!("\n  {key}: {values}")).collect();
            let listed = listed.concat();
            bail!(
                "`{}` and `{}` come from different judges, so their systems cannot be compared:{listed}\n{HINT}",
                first.judgements.name,
                other.judgements.name
            );
        }
    }
    Ok(())
}

/// Runs on the same systems share no unit where one judged segments and the other documents.
fn other_granularity(first: &Input, other: &Input) -> Result<()> {
    let kinds = |input: &Input, by_segment: bool| {
        let systems = input.judgements.systems.iter();
        let units = systems.filter(|(system, _)| {
            other.judgements.systems.contains_key(*system) && first.judgements.systems.contains_key(*system)
        });
        units.flat_map(|(_, units)| units.keys()).any(|unit| unit.seg.is_some() == by_segment)
    };
    for (segments, documents) in [(first, other), (other, first)] {
        if kinds(segments, true) && kinds(documents, false) {
            bail!(
                "`{}` judged segments and `{}` documents of the same systems, so they share no unit\nhint: judge both \
                 at one granularity, or let `tribunal meta` compare each with the raters on its own units",
                segments.judgements.name,
                documents.judgements.name
            );
        }
    }
    Ok(())
}

/// Width of a table without a terminal. Unit: columns.
const WIDTH: usize = 80;

fn print(args: &Args, inputs: &[Input], all: &[(String, Comparison)], out: &mut dyn Write) -> Result<()> {
    if args.printed.is_table() {
        for caution in cautions(inputs) {
            say!("caution: {caution}");
        }
    }
    if args.printed.format() == Format::Latex {
        let noun = noun(inputs);
        let notes =
            |(_, found): &(String, Comparison)| notes(found, noun, args.coverage, args.resamples, args.seed);
        let mut all_notes: Vec<String> = Vec::new();
        for note in all.iter().flat_map(notes) {
            if !all_notes.contains(&note) {
                all_notes.push(note);
            }
        }
        return Ok(out.write_all(latex(all, &format!("{noun}s"), &all_notes).as_bytes())?);
    }
    args.printed.print(out, || json(args, inputs, all), || flat(all), |out| text(args, inputs, all, out))
}

fn json(args: &Args, inputs: &[Input], all: &[(String, Comparison)]) -> serde_json::Value {
    let cautions = cautions(inputs);
    let object = |Comparison { baseline, rows, n_left_out }: &Comparison| {
        serde_json::json!({
            "baseline": baseline, "resamples": args.resamples, "seed": args.seed, "coverage": args.coverage,
            "units_left_out": n_left_out, "cautions": cautions, "systems": rows,
        })
    };
    match all {
        [(_, only)] => object(only),
        several => several.iter().map(|(pair, found)| (pair.clone(), object(found))).collect(),
    }
}

fn text(args: &Args, inputs: &[Input], all: &[(String, Comparison)], out: &mut dyn Write) -> Result<()> {
    let width = wrap::stdout_columns().unwrap_or(WIDTH);
    let noun = noun(inputs);
    let cautions = cautions(inputs);
    for caution in &cautions {
        writeln!(out, "{}", wrap::message(&format!("caution: {caution}"), width))?;
    }
    if !cautions.is_empty() {
        writeln!(out)?;
    }
    for (nth, (pair, found)) in all.iter().enumerate() {
        if all.len() > 1 {
            writeln!(out, "{}{pair}", if nth > 0 { "\n" } else { "" })?;
        }
        write!(out, "{}", table(found, &format!("{noun}s")).fitted(Some(width)))?;
        for note in notes(found, noun, args.coverage, args.resamples, args.seed) {
            writeln!(out, "{}", wrap::message(&note, width))?;
        }
    }
    Ok(())
}

/// The noun for what the scores are of.
fn noun(inputs: &[Input]) -> &'static str {
    let of_run = inputs.iter().find_map(|input| input.signature.as_ref()).map(registry::unit_noun);
    let is_of_documents = || units(inputs).all(|unit| unit.seg.is_none());
    of_run.unwrap_or_else(|| if is_of_documents() { "document" } else { "segment" })
}

/// Cautions about the judge for readers of the means.
fn cautions(inputs: &[Input]) -> Vec<String> {
    let n_systems = inputs.iter().map(|input| input.judgements.systems.len()).sum();
    let mut cautions: Vec<String> = Vec::new();
    for caution in inputs.iter().flat_map(|input| input.cautions(n_systems)) {
        if !cautions.contains(&caution) {
            cautions.push(caution);
        }
    }
    cautions
}

/// False where the judge's method is known to rank no systems.
fn ranks_systems(inputs: &[Input]) -> bool {
    let mut methods = inputs.iter().filter_map(|input| registry::of_signature(input.signature.as_ref()?));
    methods.next().is_none_or(|method| method.ranks_systems())
}
