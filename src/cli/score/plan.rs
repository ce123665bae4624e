//! `tribunal score --dry-run`: what a run would take, as text or for programs.

use std::{io::Write, process::ExitCode, sync::Arc, time::Duration};

use anyhow::Result;
use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::{
    cli::{progress::ProgressMode, score::Args},
    console::{table::Table, wrap},
    eval::{
        Evaluation, Invocation, ModelLoader,
        forecast::{CONTEXT, Forecast, ON_A_GPU, Stage},
    },
    run::{Plan, Silent, plan::Amount, trial::Trial},
};

/// Prints the forecast of a run's cost, without finishing the run.
///
/// # Errors
/// A model that can neither be run nor pulled, and prompts that cannot be counted.
pub fn run(
    evaluation: &Evaluation,
    args: &Args,
    invocation: &Invocation,
    load: ModelLoader,
    out: &mut dyn Write,
) -> Result<ExitCode> {
    // Without a terminal the notes are enough.
    let is_shown = args.run.progress != ProgressMode::Auto || wrap::stderr_redraws();
    let progress = if is_shown { invocation.progress.clone() } else { Arc::new(Silent) };
    let invocation = Invocation { progress, ..invocation.clone() };
    let is_counted =
        wrap::stderr_redraws() && !matches!(args.run.shown(), ProgressMode::Off | ProgressMode::Json);
    let bar = if is_counted { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    bar.enable_steady_tick(Duration::from_millis(500));
    let shown = |stage: Stage| match stage {
        Stage::Counting { done, of } => bar.set_message(format!("counting prompts: {done} of {of} groups")),
        Stage::Judging => {
            bar.finish_and_clear();
            if !args.run.quiet {
                say!("note: judging a few groups to see how long they take");
            }
        }
    };
    let forecast = Forecast::new(evaluation, &invocation, (load, args.run.device_memory), &shown)?;
    bar.finish_and_clear();
    let has_memory = args.run.device_memory.is_some();
    args.run.printed.print(
        out,
        || json(&forecast),
        || amounts(&forecast),
        |out| text(&forecast, has_memory, out),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// The calls and tokens of a run.
fn amounts(forecast: &Forecast) -> Table {
    let mut table = Table::new();
    let mut amounts = forecast.plan.amounts(forecast.expected).into_iter();
    amounts.next().into_iter().for_each(|head| table.head(head));
    amounts.for_each(|row| table.row(row));
    table
}

fn text(forecast: &Forecast, has_memory: bool, out: &mut dyn Write) -> Result<()> {
    let width = wrap::stdout_columns();
    let plan = forecast.plan.rows().into_iter().map(|(name, value)| (name.to_owned(), value));
    let rows: Vec<_> = plan.chain(forecast.estimates.iter().cloned()).collect();
    write!(out, "{}", wrap::fields(&rows, width))?;
    let mut table = Table::new();
    forecast.plan.amounts(forecast.expected).into_iter().for_each(|row| table.row(row));
    writeln!(out, "\n{}", table.to_string().trim_end())?;
    for note in &forecast.notes {
        writeln!(out, "{}", width.map_or_else(|| note.clone(), |width| wrap::message(note, width)))?;
    }
    if !has_memory && forecast.estimates.iter().any(|(name, _)| name == ON_A_GPU) {
        writeln!(out, "hint: `--device-memory SIZE` plans for a GPU with another memory")?;
    }
    if forecast.estimates.iter().any(|(name, _)| name == CONTEXT) {
        writeln!(out, "hint: `--context N` limits the context")?;
    }
    if let Some(signature) = &forecast.signature {
        writeln!(out, "\n{signature}")?;
    }
    Ok(())
}

fn json(forecast: &Forecast) -> Value {
    let Plan { segments, groups, counted, units, least, most, longest_prompt, longest_call, .. } =
        &forecast.plan;
    let Trial { judged, n_kept, seconds_left, .. } = &forecast.trial;
    let expected = &forecast.expected;
    let amount = |amount: &Amount| {
        let Amount { calls, prompt_tokens, distinct_tokens, answer_tokens } = amount;
        json!({
            "calls": calls, "prompt_tokens": prompt_tokens, "distinct_prompt_tokens": distinct_tokens,
            "answer_tokens": answer_tokens,
        })
    };
    let estimates: serde_json::Map<String, Value> =
        forecast.estimates.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({
        "segments": segments, "groups": groups, "groups_counted": counted, "verdicts": units, "longest_prompt": longest_prompt,
        "longest_call": longest_call, "least": amount(least), "expected": expected.as_ref().map(amount),
        "most": amount(most), "groups_judged": judged, "groups_kept": n_kept, "seconds_left": seconds_left, "estimates": estimates, "notes": forecast.notes,
        "signature": forecast.signature.as_ref().map(ToString::to_string),
    })
}
