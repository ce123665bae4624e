//! `tribunal compare` on runs over the same translations: how far the judges agree, where they differ most,
//! and which one agrees more with human scores. Scores of different scales stand side by side only as ranks.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

use super::input::Input;
use super::{Args, pairs};
use crate::{
    meta::{
        average::{Coefficient, Grouping},
        eval_set::EvalSet,
        evaluate::{self, TaskResult},
        judgements::Judgements,
        selection::{Brought, Selection},
        side_by_side::{JudgePair, on_common},
        significance::Resampling,
        statistic::Statistic,
        task::TaskSet,
    },
    report::compare::judges::{JudgeComparison, agreements, gold_text, text},
    run::trained_on,
};

/// Prints every pair of judges, and how each agrees with the raters where a test set is given.
///
/// # Errors
/// Judges that saw different translations, or a test set that does not fit.
pub fn run(args: &Args, inputs: &[Input], out: &mut dyn Write) -> Result<()> {
    let pairs = pairs(inputs).map(|(first, second)| pair(first, second)).collect::<Result<Vec<_>>>()?;
    let gold = args.testset.as_deref().map(|dir| against_raters(args, inputs, dir)).transpose()?;
    let judges =
        inputs.iter().zip(&args.inputs).map(|(input, path)| (input.judgements.name.as_str(), path.clone()));
    let warnings = if gold.is_some() { trained_on::warnings(judges) } else { BTreeSet::new() };
    for warning in &warnings {
        say!("warning: {warning}");
    }
    let cautions: Vec<String> = inputs.iter().flat_map(cautions).collect();
    if args.printed.is_table() {
        for caution in &cautions {
            say!("caution: {caution}");
        }
    }
    let json = || serde_json::json!({"judges": pairs, "seed": args.seed, "resamples": args.resamples, "gold": gold, "warnings": warnings, "cautions": cautions});
    args.printed.print(
        out,
        json,
        || agreements(&pairs),
        |out| {
            cautions.iter().try_for_each(|caution| writeln!(out, "caution: {caution}"))?;
            pairs.iter().try_for_each(|pair| out.write_all(text(pair).as_bytes()))?;
            if let Some(tasks) = &gold {
                let judges: Vec<String> = args.inputs.iter().map(|path| path.display().to_string()).collect();
                out.write_all(gold_text(&judges, tasks, resampling(args)).as_bytes())?;
            }
            Ok(())
        },
    )
}

/// Cautions about one of the judges, with its name.
fn cautions(input: &Input) -> impl Iterator<Item = String> {
    let Judgements { name, systems, .. } = &input.judgements;
    input.cautions(systems.len()).into_iter().map(move |caution| format!("{name}: {caution}"))
}

fn resampling(args: &Args) -> Resampling {
    Resampling { resamples: args.resamples.max(1), seed: args.seed }
}

fn pair(first: &Input, second: &Input) -> Result<JudgeComparison> {
    let signatures = first.signature.as_ref().zip(second.signature.as_ref());
    Ok(JudgeComparison {
        first: first.judgements.name.clone(),
        second: second.judgements.name.clone(),
        differ: first.differences(second),
        same_scale: signatures.is_some_and(|(first, second)| first.comparable(second)),
        judges: JudgePair::new(&first.judgements, &second.judgements)?,
    })
}

/// Each judge against the raters, on the translations that all judges scored.
fn against_raters(args: &Args, inputs: &[Input], testset: &Path) -> Result<Vec<TaskResult>> {
    let lp = args.pair.as_ref().map_or("", |pair| pair.name.as_str());
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
    Ok(evaluate::run(&set, &[eval_set], Some(resampling(args)))?.tasks)
}

/// The systems that every input has.
fn in_all(inputs: &[Input]) -> Vec<String> {
    let Some((first, others)) = inputs.split_first() else { return Vec::new() };
    let in_rest =
        |system: &&String| others.iter().all(|input| input.judgements.systems.contains_key(*system));
    first.judgements.systems.keys().filter(in_rest).cloned().collect()
}
