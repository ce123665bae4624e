//! `tribunal score`: from translations to verdicts. Judging is in `run`; arguments, signature and printing
//! are here.

use std::{
    io::{IsTerminal, Write},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};

use super::{
    output::{Format, Printed},
    selftest::UsedGpus,
};
use crate::{
    console::wrap,
    eval::{Evaluation, Invocation, ModelLoader},
    judges::registry,
    report::{self, Detail, TextStyle},
    run::{self, Outcome, RunFile, description::RUN, own},
};

pub(super) mod args;
mod plan;

pub use args::Args;

/// Runs `tribunal score`.
///
/// # Errors
/// Bad input, a model that cannot be run, a run folder that cannot be written.
pub fn run(args: &Args, invocation: &Invocation, load: ModelLoader, out: &mut dyn Write) -> Result<ExitCode> {
    args.run.check()?;
    let mut evaluation = Evaluation::new(args.spec.clone())?;
    args.keep.check(evaluation.judge.method().reads, args.spec.output.shard)?;
    let invocation = Invocation { progress: args.run.shown().progress(), ..invocation.clone() };
    if args.run.dry_run {
        check_folder(&evaluation)?;
        say_notes(&evaluation, args.run.quiet);
        return plan::run(&evaluation, args, &invocation, load, out);
    }
    let outcome = judge(&mut evaluation, &invocation, load, args.run.quiet)?;
    finished(args, &outcome, out)?;
    Ok(code(&outcome))
}

/// The exit code of a run: 1 where a verdict is missing.
pub fn code(outcome: &Outcome) -> ExitCode {
    if outcome.complete() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Prints the notes about the input.
fn say_notes(evaluation: &Evaluation, quiet: bool) {
    if !quiet {
        evaluation.notes.iter().for_each(|note| say!("note: {note}"));
    }
    evaluation.trained_on.iter().for_each(|overlap| say!("warning: {overlap}"));
    evaluation.cautions.iter().for_each(|caution| say!("caution: {caution}"));
}

/// Judges into the run folder.
///
/// # Errors
/// The errors of [`run`].
pub fn judge(
    evaluation: &mut Evaluation,
    invocation: &Invocation,
    load: ModelLoader,
    quiet: bool,
) -> Result<Outcome> {
    check_folder(evaluation)?;
    say_notes(evaluation, quiet);
    if let Some(warning) = evaluation.small_model() {
        say!("warning: {warning}");
    }
    let gpus = UsedGpus::find(&evaluation.spec.models, &evaluation.spec.resources);
    gpus.settle(&mut evaluation.spec.resources)?;
    let spec = &evaluation.spec;
    let models = load(&spec.models, &spec.resources, spec.sampling.sampling())?;
    let run = evaluation.with(&models, invocation)?;
    evaluation.warnings(&models).for_each(|warning| say!("warning: {warning}"));
    let task = run.task();
    let opened = task.open(&run.config)?;
    if let Some(lost) = opened.lost() {
        say!("warning: {lost}");
    }
    if !quiet {
        say!("run folder: {}", run.config.out.display());
        say!("scale: {}", registry::scale(&evaluation.judge.method(), &run.signature));
    }
    opened.judge().map_err(|error| {
        if matches!(error, run::Error::Differs { .. }) {
            gpus.remember_wrong(spec.resources.gpu_kernels);
        }
        error.into()
    })
}

/// Refuses to begin a run among other files.
fn check_folder(evaluation: &Evaluation) -> Result<()> {
    let Some(out) = evaluation.spec.output.folder.as_deref().filter(|out| !out.join(RUN).exists()) else {
        return Ok(());
    };
    let entries = std::fs::read_dir(out).into_iter().flatten().filter_map(Result::ok);
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    if let Some(name) = names.filter(|name| !own::is_name(name)).min() {
        let out = out.display();
        bail!(
            "`{out}` holds no run, but other files (`{name}`)\nhint: another folder, such as `--out {out}/run`"
        );
    }
    Ok(())
}

/// Prints the result of a run, and writes the other requested files.
fn finished(args: &Args, outcome: &Outcome, out: &mut dyn Write) -> Result<()> {
    let health = &outcome.summary.health;
    if !args.run.quiet {
        say!("{}", report::cost(&outcome.summary.cost));
        if let Some(shares) = report::health::shares(health) {
            say!("{shares}");
        }
        if let Some(note) = report::health::note(health) {
            say!("note: {note}");
        }
    }
    warn(outcome);
    let note = args.keep.write(outcome)?;
    if let Some(note) = note.filter(|_| !args.run.quiet) {
        say!("{note}");
    }
    let detail = if args.run.only_system { Detail::Systems } else { Detail::Units };
    print(outcome, args.run.printed, detail, out)
}

/// Warns on standard error if the output appears degenerate, even when nothing else is to be printed there.
pub fn warn(outcome: &Outcome) {
    if let Some(warning) = report::health::warning(&outcome.summary.health) {
        say!("{warning}");
    }
}

/// Prints the outcome of a run.
///
/// # Errors
/// When `out` cannot be written.
pub fn print(outcome: &Outcome, printed: Printed, detail: Detail, out: &mut dyn Write) -> Result<()> {
    let summary = &outcome.summary;
    if printed.is_table() {
        summary.cautions.iter().for_each(|caution| say!("caution: {caution}"));
    }
    // Lists of all verdicts are made in memory; where there are millions, `--only-system` leaves them out.
    let records = || if detail == Detail::Units { outcome.records() } else { Ok(Vec::new()) };
    let text = match printed.format() {
        Format::Text => {
            let shown = match detail {
                Detail::Units => shown(outcome)?,
                Detail::Systems => report::ReportExamples::new(summary),
            };
            if summary.ranks_systems() {
                report::text_of(summary, &shown, detail, style())
            } else {
                let systems = RunFile::read(&outcome.dir)?.systems;
                report::text_of(&summary.clone().in_order(&systems), &shown, detail, style())
            }
        }
        Format::Json => report::json(summary, &records()?, detail),
        Format::Tsv => report::tsv(summary, &records()?, detail),
        Format::Csv => {
            out.write_all(&report::export::csv(summary, &records()?, detail)?)?;
            String::new()
        }
        Format::Latex => report::latex(summary),
    };
    out.write_all(text.as_bytes())?;
    out.flush().context("cannot write the results to standard output")
}

/// Prints examples of what a run found, and nothing else of it.
///
/// # Errors
/// When the verdicts cannot be read, or `out` not be written.
pub fn print_examples(outcome: &Outcome, out: &mut dyn Write) -> Result<()> {
    out.write_all(report::examples(&shown(outcome)?, style()).as_bytes())?;
    out.flush().context("cannot write the results to standard output")
}

/// The units of a run that are shown, one record in memory at a time.
fn shown(outcome: &Outcome) -> Result<report::ReportExamples> {
    let mut shown = report::ReportExamples::new(&outcome.summary);
    for record in outcome.each_record()? {
        shown.add(record?);
    }
    if shown.lacks_marks() {
        for record in outcome.each_record()? {
            shown.contrast(record?);
        }
    }
    Ok(shown)
}

/// Colours only for a terminal without `NO_COLOR`; lines as wide as the terminal, within reason.
pub fn style() -> TextStyle {
    let off = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let terminal = std::io::stdout().is_terminal();
    let width = wrap::stdout_columns().unwrap_or(100).clamp(50, 140);
    TextStyle { width, colour: terminal && !wrap::is_dumb() && !off("NO_COLOR") }
}
