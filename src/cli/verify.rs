//! `tribunal verify`: checks a run folder against its description. The check is `eval`'s; its result is
//! printed here.

use std::{collections::BTreeMap, io::Write, path::PathBuf, process::ExitCode};

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::{again, output::Printed};
use crate::{
    console::{args, table::Table},
    eval::{
        self, ModelLoader,
        recorded::{Changes, Check, UNCHECKED},
    },
    run::{
        self,
        verify::{Difference, Report},
    },
    signature::Signature,
};

/// Check a run, or a submission to WMT26's evaluation task.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// A run folder, finished or not, or a submission
    #[arg(value_name = "DIR|FILE")]
    pub dir: PathBuf,
    /// The task's file that a submission is for
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "sample", "seed", "without_model", "model", "adapter", "role", "jobs", "batch", "threads", "kv_cache",
        "allow_files",
    ])]
    pub testset: Option<PathBuf>,
    /// Only K of the groups that are judged together, drawn by `--seed`, with all their calls; default: all
    #[arg(long, value_name = "K", value_parser = args::positive)]
    pub sample: Option<usize>,
    /// Draws the sample
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub seed: u64,
    /// Check everything that needs no weights: files, hashes, verdicts against the recorded answers
    #[arg(long)]
    pub without_model: bool,
    #[command(flatten)]
    pub changes: Changes,
    #[command(flatten)]
    pub printed: Printed,
}

/// Runs `tribunal verify`.
///
/// # Errors
/// A folder without a run, an input or a model that cannot be read.
pub fn run(args: &Args, load: ModelLoader, out: &mut dyn Write) -> Result<ExitCode> {
    if let Some(task) = &args.testset {
        return super::submission::check(task, &args.dir, args.printed, out);
    }
    if args.dir.is_file() && !args.dir.with_file_name("run.json").exists() {
        bail!(
            "`{}` is a file\nhint: give a run folder; for a submission, name the task's file with `--testset`",
            args.dir.display()
        );
    }
    let (signature, report) = match check(args, load) {
        Ok(checked) => checked,
        Err(error) => match error.downcast_ref() {
            Some(eval::Error::Run(
                damage @ (run::Error::Damaged { .. }
                | run::Error::DamagedFile { .. }
                | run::Error::Changed { .. }),
            )) => {
                damaged(args.printed, damage, out)?;
                return Ok(ExitCode::from(1));
            }
            _ => return Err(error),
        },
    };
    let text =
        |out: &mut dyn Write| Ok(out.write_all(text(&signature, &report, args.without_model).as_bytes())?);
    args.printed.print(out, || json(&signature, &report, args.without_model), || table(&report), text)?;
    out.flush()?;
    Ok(if is_confirmed(&report) { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// A folder whose files are damaged, so that nothing could be derived from them.
fn damaged(printed: Printed, damage: &run::Error, out: &mut dyn Write) -> Result<()> {
    let table = || {
        let mut table = Table::new();
        table.head(DIFFERENCE);
        table.row([String::new(), damage.to_string(), String::new(), String::new()]);
        table
    };
    let json = || json!({ "confirmed": false, "damage": damage.to_string() });
    printed.print(out, json, table, |out| Ok(writeln!(out, "differs: {damage}")?))
}

/// The recorded signature, and the result of the check.
fn check(args: &Args, load: ModelLoader) -> Result<(Signature, Report)> {
    let recorded = again::read(&args.dir, &args.changes)?;
    let signature = recorded.run.signature.clone();
    let how = Check {
        sample: args.sample.map(|n| (n, args.seed)),
        without_model: args.without_model,
        allow_files: args.changes.allow_files,
    };
    Ok((signature, eval::recorded::check(&args.dir, recorded, &how, load)?))
}

/// Returns true if all parts of the run exist and are unchanged.
fn is_confirmed(report: &Report) -> bool {
    report.n_differences == 0 && report.unfinished == 0
}

/// The columns of differences, for programs.
const DIFFERENCE: [&str; 4] = ["place", "what", "there", "here"];

fn table(report: &Report) -> Table {
    let mut table = Table::new();
    table.head(DIFFERENCE);
    for Difference { place, subject, recorded, derived, .. } in &report.differences {
        table.row([place, subject, recorded, derived].map(String::as_str));
    }
    table
}

fn json(signature: &Signature, report: &Report, without_model: bool) -> Value {
    let Report { derived, verdicts, read, replayed, calls, unfinished, n_differences, .. } = report;
    let difference = |d: &Difference| json!({ "place": d.place, "what": d.subject, "there": d.recorded, "here": d.derived });
    let differences: Vec<Value> = report.differences.iter().map(difference).collect();
    let unchecked: BTreeMap<&str, &[&str]> = UNCHECKED.into_iter().filter(|_| without_model).collect();
    json!({
        "signature": signature.to_string(), "short_signature": signature.short(),
        "confirmed": is_confirmed(report), "derived": derived, "verdicts": verdicts, "read": read,
        "replayed": replayed, "calls": calls, "unfinished": unfinished, "n_differences": n_differences,
        "differences": differences, "unchecked": unchecked,
    })
}

fn text(signature: &Signature, report: &Report, without_model: bool) -> String {
    let Report { derived, verdicts, read, replayed, calls, unfinished, .. } = report;
    let mut lines = vec![
        format!("signature: {}", signature.short()),
        format!("verdicts derived again from recorded answers: {derived} of {verdicts}"),
    ];
    if without_model {
        lines.push(format!("calls read: {read} of {calls}; no model was asked"));
        let fields = UNCHECKED.map(|(file, names)| format!("{} of `{file}`", names.join(", ")));
        lines.push(format!(
            "without the model, these are checked only as far as they move a verdict or contradict each other: {}",
            fields.join("; ")
        ));
    } else {
        lines.push(format!("calls replayed on the model, every bit compared: {replayed} of {calls}"));
    }
    for Difference { place, subject, recorded, derived, .. } in &report.differences {
        lines.push(format!("\n{place}: {subject}\n  there  {recorded}\n  here   {derived}"));
    }
    let more = report.n_differences - report.differences.len();
    if more > 0 {
        lines.push(format!("\nand {more} more differences"));
    }
    lines.push(match (report.n_differences, unfinished) {
        (0, 0) => "confirmed: nothing differs\n".into(),
        (0, n) => format!(
            "not confirmed: nothing differs, but the run is not finished, {n} of its verdicts are not there yet\n\
             hint: its command again continues it\n"
        ),
        _ => "\ndiffers: see above; the first difference is the cause of most others\n".into(),
    });
    lines.join("\n")
}
