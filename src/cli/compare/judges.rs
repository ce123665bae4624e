//! `tribunal compare` on runs over the same translations: how far the judges agree, where they differ most, and
//! which one agrees more with human scores. Scores of different scales stand side by side only as ranks.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::Args;
use super::input::Input;
use crate::{
    console::table::Table,
    meta::{
        average::{Coefficient, Grouping},
        correlation::Undefined,
        eval_set::EvalSet,
        evaluate::{self, TaskResult},
        selection::{Brought, Selection},
        side_by_side::{JudgePair, on_common},
        significance::Resampling,
        statistic::Statistic,
        task::TaskSet,
    },
    run::trained_on,
};

/// Characters of a translation that are shown.
const SHOWN: usize = 60;

/// Two judges.
#[derive(Serialize)]
struct Pair {
    first: String,
    second: String,
    /// The fields in which their signatures differ, each with both values; `None` where one has no signature.
    differ: Option<Vec<(String, String)>>,
    /// Whether scores may be compared as they are, and not only as ranks.
    same_scale: bool,
    #[serde(flatten)]
    judges: JudgePair,
}

/// Prints every pair of judges, and how each agrees with the raters where a test set is given.
///
/// # Errors
/// Judges that saw different translations, or a test set that does not fit.
pub fn run(args: &Args, inputs: &[Input], out: &mut dyn Write) -> Result<()> {
    let mut pairs = Vec::new();
    for (idx, first) in inputs.iter().enumerate() {
        for second in &inputs[idx + 1..] {
            pairs.push(pair(first, second)?);
        }
    }
    let gold = args.testset.as_deref().map(|dir| against_raters(args, inputs, dir)).transpose()?;
    let judges =
        inputs.iter().zip(&args.inputs).map(|(input, path)| (input.judgements.name.as_str(), path.clone()));
    let warnings = if gold.is_some() { trained_on::warnings(judges) } else { BTreeSet::new() };
    for warning in &warnings {
        say!("warning: {warning}");
    }
    if args.printed.is_json() {
        let object = serde_json::json!({"judges": pairs, "seed": args.seed, "resamples": args.resamples, "gold": gold, "warnings": warnings});
        writeln!(out, "{}", serde_json::to_string_pretty(&object)?)?;
        return Ok(());
    }
    if args.printed.rows(&agreement_of_all(&pairs), out)? {
        return Ok(());
    }
    for pair in &pairs {
        print(pair, out)?;
    }
    match &gold {
        Some(tasks) => print_gold(args, tasks, out),
        None => Ok(()),
    }
}

fn pair(first: &Input, second: &Input) -> Result<Pair> {
    let signatures = first.signature.as_ref().zip(second.signature.as_ref());
    Ok(Pair {
        first: first.judgements.name.clone(),
        second: second.judgements.name.clone(),
        differ: first.differences(second),
        same_scale: signatures.is_some_and(|(first, second)| first.comparable(second)),
        judges: JudgePair::of(&first.judgements, &second.judgements)?,
    })
}

fn shortened(text: &str) -> String {
    let line = text.replace('\n', " ");
    if line.chars().count() <= SHOWN {
        return line;
    }
    line.chars().take(SHOWN - 1).chain(['…']).collect()
}

/// Each judge against the raters, on the translations that all judges scored.
fn against_raters(args: &Args, inputs: &[Input], testset: &Path) -> Result<Vec<TaskResult>> {
    let lp = args.pair.as_ref().map_or("", |pair| pair.given.as_str());
    let bring = |path: &std::path::PathBuf| Brought {
        verdicts: None,
        name: path.display().to_string(),
        pattern: path.display().to_string(),
        negate: false,
    };
    let selection = Selection {
        gold: args.gold.clone(),
        brought: args.inputs.iter().map(bring).collect(),
        only_brought: true,
        systems: in_all(inputs),
        ..Selection::default()
    };
    let mut eval_set = EvalSet::load(testset, lp, &selection)?;
    eval_set.metrics = on_common(eval_set.metrics).context(
        "the judges scored different units, segments and documents; hint: `tribunal meta` compares each with the \
         raters on its own units",
    )?;
    let statistics = [
        Statistic::Accuracy,
        Statistic::Soft,
        Statistic::Segment(Coefficient::Pearson, Grouping::None),
        Statistic::Segment(Coefficient::KendallB, Grouping::None),
        Statistic::AccEq(Grouping::Item),
    ];
    let set = TaskSet::from_statistics(&statistics, &[lp.to_owned()]);
    let resampling = Resampling { resamples: args.resamples.max(1), block: None, seed: args.seed };
    Ok(evaluate::run(&set, &[eval_set], Some(resampling))?.tasks)
}

/// The systems that every input has.
fn in_all(inputs: &[Input]) -> Vec<String> {
    let Some((first, rest)) = inputs.split_first() else { return Vec::new() };
    let in_rest = |system: &&String| rest.iter().all(|input| input.judgements.systems.contains_key(*system));
    first.judgements.systems.keys().filter(in_rest).cloned().collect()
}

fn agreement_table(pair: &Pair) -> Table {
    let number = |value: f64| format!("{value:.3}");
    let defined = |value: Result<f64, Undefined>| value.map_or_else(|_| "-".into(), number);
    let found = &pair.judges.found;
    let agreement = found.systems.agreement;
    let mut table = Table::new();
    table.head(["agreement", "n", "value"]);
    let n = found.n.to_string();
    table.row(["Kendall's tau-b of translations".into(), n.clone(), defined(found.kendall)]);
    table.row(["Spearman of translations".into(), n.clone(), defined(found.spearman)]);
    let n_sources = found.n_sources.to_string();
    table.row(["translations of a source in the same order".into(), n_sources, defined(found.same_order)]);
    let share = if agreement.pairs == 0 {
        "-".into()
    } else {
        number(agreement.agree as f64 / agreement.pairs as f64)
    };
    table.row(["pairs of systems in the same order".into(), agreement.pairs.to_string(), share]);
    let n_systems = found.systems.ranked.len().to_string();
    table.row(["Spearman of systems".into(), n_systems, defined(found.systems.spearman)]);
    if let Some(f1) = pair.judges.spans {
        table.row(["characters of error spans, F1".into(), n, number(f1)]);
    }
    table
}

/// The agreement of every two judges in one table, for programs.
fn agreement_of_all(pairs: &[Pair]) -> Table {
    let mut all = Table::new();
    for (idx, pair) in pairs.iter().enumerate() {
        let table = agreement_table(pair);
        let mut rows = table.flat();
        let head = rows.next().unwrap_or_default();
        if idx == 0 {
            all.head(["first".to_owned(), "second".to_owned()].into_iter().chain(head));
        }
        for row in rows {
            all.row([pair.first.clone(), pair.second.clone()].into_iter().chain(row));
        }
    }
    all
}

fn print(pair: &Pair, out: &mut dyn Write) -> Result<()> {
    let number = |value: f64| format!("{value:.3}");
    let found = &pair.judges.found;
    let table = agreement_table(pair);
    writeln!(out, "two judges on the same translations\n(1) {}\n(2) {}", pair.first, pair.second)?;
    match &pair.differ {
        None => writeln!(out, "at least one has no signature, so only ranks are compared")?,
        Some(differ) if differ.is_empty() => writeln!(out, "their signatures are the same")?,
        Some(differ) => {
            for (key, values) in differ {
                writeln!(out, "  {key}: {values}")?;
            }
            if !pair.same_scale {
                writeln!(out, "their scales may differ, so only ranks are compared")?;
            }
        }
    }
    write!(out, "\n{table}")?;
    let undefined = [
        ("Kendall's tau-b of translations", found.kendall.err()),
        ("translations of a source in the same order", found.same_order.err()),
        ("Spearman of systems", found.systems.spearman.err()),
    ];
    for (what, why) in undefined {
        if let Some(why) = why {
            writeln!(out, "{what}: no value: {}", in_words(why))?;
        }
    }
    if found.n_left_out > 0 {
        writeln!(out, "left out, because only one of the judges has a verdict there: {}", found.n_left_out)?;
    }
    print_systems(pair, &number, out)?;
    print_apart(pair, &number, out)
}

/// Why there is no value, in the words of a comparison without human scores.
fn in_words(why: Undefined) -> String {
    match why {
        Undefined::ConstantGold => "(1) gives all the same score".into(),
        Undefined::ConstantMetric => "(2) gives all the same score".into(),
        Undefined::NoRow | Undefined::NoPair => "no source has two translations that both scored".into(),
        other => other.to_string(),
    }
}

fn print_systems(pair: &Pair, number: &dyn Fn(f64) -> String, out: &mut dyn Write) -> Result<()> {
    let order = &pair.judges.found.systems;
    let mut table = Table::new();
    let mut head = vec!["system", "rank (1)", "rank (2)"];
    head.extend(pair.same_scale.then_some(["mean (1)", "mean (2)"]).into_iter().flatten());
    table.head(head);
    for row in &order.ranked {
        let mut cells = vec![row.system.clone(), row.ranks.0.to_string(), row.ranks.1.to_string()];
        cells.extend(pair.same_scale.then(|| [row.means.0, row.means.1].map(number)).into_iter().flatten());
        table.row(cells);
    }
    if order.ranked.is_empty() {
        writeln!(out, "\nno ranks of systems: there is no unit that both judges scored for all of them")?;
        return Ok(());
    }
    writeln!(
        out,
        "\nsystems, over the {} units that both judges scored for all of them\n\n{table}",
        order.n_units
    )?;
    Ok(())
}

fn print_apart(pair: &Pair, number: &dyn Fn(f64) -> String, out: &mut dyn Write) -> Result<()> {
    let found = &pair.judges.found;
    if found.apart.is_empty() {
        return Ok(());
    }
    let mut table = Table::new();
    let mut head = vec!["unit", "system", "place (1)", "place (2)"];
    head.extend(pair.same_scale.then_some(["score (1)", "score (2)"]).into_iter().flatten());
    // Numbers stand flush right, a text does not.
    let text = |text: &str| format!("{text:<SHOWN$}");
    let translation = text("translation");
    head.push(&translation);
    table.head(head);
    for (apart, translation) in found.apart.iter().zip(&pair.judges.hypotheses) {
        let percent = |place: f64| format!("{:.0}%", 100.0 * place);
        let mut cells =
            vec![pair.judges.units[apart.unit].clone(), pair.judges.systems[apart.system].clone()];
        cells.extend([apart.places.0, apart.places.1].map(percent));
        cells.extend(
            pair.same_scale.then(|| [apart.scores.0, apart.scores.1].map(number)).into_iter().flatten(),
        );
        cells.push(text(&shortened(translation)));
        table.row(cells);
    }
    writeln!(
        out,
        "where they differ most (place: the share of the translations that a judge scores lower, ties counted half)\n\n{table}"
    )?;
    Ok(())
}

/// A p-value as the share of the resamples that it is: where that is none of them, less than one.
fn p_value(p: f64, resamples: usize) -> String {
    let least = 1.0 / resamples.max(1) as f64;
    if p < least { format!("<{least:.4}") } else { format!("{p:.4}") }
}

fn print_gold(args: &Args, tasks: &[TaskResult], out: &mut dyn Write) -> Result<()> {
    let number = |value: f64| format!("{value:.3}");
    let mut table = Table::new();
    let judges: Vec<String> = args.inputs.iter().map(|path| path.display().to_string()).collect();
    table.head(
        ["agreement with the raters".to_owned(), "n".to_owned()]
            .into_iter()
            .chain(judges.iter().cloned())
            .chain(["better".into(), "p".into()]),
    );
    let mut reasons = Vec::new();
    for task in tasks {
        let values: Vec<_> = judges.iter().map(|judge| task.values.get(judge)).collect();
        let n = values.iter().flatten().find_map(|value| Some(value.ok()?.n.to_string()));
        // Not in groups: all translations at once.
        let n = if task.statistic.ends_with("@none") { Some("all".to_owned()) } else { n };
        let mut cells = vec![task.statistic.clone(), n.unwrap_or_else(|| "-".into())];
        for (judge, value) in judges.iter().zip(&values) {
            match value {
                Some(Ok(measured)) => cells.push(number(measured.value)),
                Some(Err(why)) => {
                    cells.push("-".into());
                    reasons.push(format!("{}: no value for {judge}: {why}", task.statistic));
                }
                None => cells.push("-".into()),
            }
        }
        let duels = task.contest.iter().flat_map(|contest| &contest.comparisons);
        let mut duels = duels.map(|duel| {
            let better = if duel.comparison.delta > 0.0 { duel.better.clone() } else { "neither".into() };
            (better, p_value(duel.comparison.p, args.resamples))
        });
        if let Some((better, p)) = duels.next() {
            cells.extend([better, p]);
        }
        table.row(cells);
        for (better, p) in duels {
            table.row(
                ["", ""]
                    .map(str::to_owned)
                    .into_iter()
                    .chain(judges.iter().map(|_| String::new()))
                    .chain([better, p]),
            );
        }
    }
    writeln!(out, "{table}")?;
    reasons.iter().try_for_each(|reason| writeln!(out, "{reason}"))?;
    writeln!(
        out,
        "on the translations that all judges scored; p: one-sided permutation test, {} resamples, seed {}",
        args.resamples, args.seed
    )?;
    Ok(())
}
