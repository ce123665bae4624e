//! `tribunal show`: the result of a run, or one of its units with the whole conversation behind its verdict.
//! It judges nothing and changes nothing in the folder.

use std::{collections::BTreeSet, io::Write, path::PathBuf, process::ExitCode};

use anyhow::{Result, bail};
use serde_json::json;

use super::{
    command::without,
    output::{Format, Printed},
    score,
    slurm::quoted,
};
use crate::{
    report::{self, Detail, transcript},
    run::{
        self, Outcome, Record, RunFile, Summary, UnitKey,
        calls::{self, Sums},
        finish,
        summary::Summing,
    },
};

/// Show a run, or the conversation behind one verdict.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// A run folder, finished or not
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// The segment's number, from 1, or `id:N` with its id in the input and in `verdicts.jsonl`, or the
    /// document where a verdict covers a whole one; default: the systems, the errors found and the cost of
    /// the whole run
    #[arg(value_name = "SEGMENT")]
    pub segment: Option<String>,
    /// Whose translation it is, with the conversation behind its verdict; default: those of all systems side
    /// by side
    #[arg(long, value_name = "NAME")]
    pub system: Option<String>,
    /// The segment's document; needed if each document numbers its own segments
    #[arg(long, value_name = "NAME")]
    pub doc: Option<String>,
    /// Print only the systems' scores
    #[arg(long, conflicts_with = "segment")]
    pub only_system: bool,
    /// Print only examples of what the judge found: its most certain errors, or else the sources whose
    /// translations it scores furthest apart
    #[arg(long, conflicts_with_all = ["segment", "only_system", "format", "json"])]
    pub examples: bool,
    #[command(flatten)]
    pub printed: Printed,
}

/// Runs `tribunal show`.
///
/// # Errors
/// If the folder has no run, or the unit is not in it or not the only one of its name.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<ExitCode> {
    let run = RunFile::read(&args.dir)?;
    let Some(segment) = &args.segment else { return whole(args, &run, out) };
    let records = select(args, &run, segment)?;
    let conversation = |record: &Record| calls::of_unit(&args.dir, &record.key());
    match args.printed.format() {
        Format::Text => {}
        Format::Json => {
            let units =
                records.iter().map(|record| Ok(json!({"verdict": record, "calls": conversation(record)?})));
            let units = units.collect::<Result<Vec<_>>>()?;
            writeln!(
                out,
                "{}",
                serde_json::to_string_pretty(&json!({"cautions": run.all_cautions(), "units": units}))?
            )?;
            return Ok(ExitCode::SUCCESS);
        }
        Format::Tsv | Format::Csv | Format::Latex => {
            bail!(
                "one segment is shown as text or JSON\nhint: without its number, the format has all verdicts of the run"
            )
        }
    }
    for caution in run.all_cautions() {
        writeln!(out, "caution: {caution}")?;
    }
    if let [record] = &records[..] {
        out.write_all(transcript::text(record, &conversation(record)?).as_bytes())?;
    } else {
        out.write_all(report::of_source(&records, score::style()).as_bytes())?;
        say!("hint: `--system NAME` shows the conversation behind a verdict");
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the result of the run, as `tribunal score` does at its end; of an unfinished run, the verdicts so
/// far.
fn whole(args: &Args, run: &RunFile, out: &mut dyn Write) -> Result<ExitCode> {
    if args.system.is_some() || args.doc.is_some() {
        bail!(
            "`--system` and `--doc` choose one verdict\nhint: name its segment too: `tribunal show DIR SEGMENT`"
        );
    }
    let mut n_judged = 0;
    for record in run::verdicts_so_far(&args.dir)? {
        record?;
        n_judged += 1;
    }
    let left = n_planned(run).saturating_sub(n_judged);
    let summary =
        match finish::read_summary(&args.dir).filter(|summary| summary.units == n_judged && left == 0) {
            Some(summary) => summary,
            None => summed(args, run)?,
        };
    let outcome = Outcome { resumed: n_judged, dir: args.dir.clone(), summary };
    if !args.examples {
        say!("{}", report::cost(&outcome.summary.cost));
    }
    if left > 0 {
        say!("{}", unfinished(run, left));
    }
    score::warn(&outcome);
    let is_complete = outcome.complete() && left == 0;
    let code = if is_complete { ExitCode::SUCCESS } else { ExitCode::from(1) };
    if args.examples {
        score::print_examples(&outcome, out)?;
        return Ok(code);
    }
    let detail = if args.only_system { Detail::Systems } else { Detail::Units };
    score::print(&outcome, args.printed, detail, out)?;
    Ok(code)
}

/// Number of units that the run has to judge.
fn n_planned(run: &RunFile) -> usize {
    run.share.unwrap_or_else(|| run.keys().len())
}

/// Hint for continuing a run that is not finished.
fn unfinished(run: &RunFile, left: usize) -> String {
    // A folder that was merged of some shards waits for the others.
    let command = if run.merged.is_empty() { &run.command } else { &run.merged };
    let is_dry = command.iter().any(|word| word == DRY);
    let words = without(command.iter(), &["--device-memory"], &[DRY]);
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let state =
        if is_dry { "a dry run began it, and the whole run is not made" } else { "the run is not finished" };
    format!(
        "note: {state}: {left} of {} verdicts are not there yet\nhint: this continues it, given in `{}`: {}",
        n_planned(run),
        run.directory,
        words.join(" ")
    )
}

/// Option of commands that judge a few groups only.
const DRY: &str = "--dry-run";

/// The summary of the verdicts so far.
fn summed(args: &Args, run: &RunFile) -> Result<Summary> {
    let sums = Sums::read(&args.dir)?;
    let questions = sums.questions();
    let mut summing = Summing::new(&questions);
    for record in run::verdicts_so_far(&args.dir)? {
        summing.add(&record?);
    }
    // Of a shard it is not known which of the units it has.
    if run.share.is_none() {
        summing.plan(&run.keys());
    }
    Ok(summing.finish(&run.signature, &run.cautions, sums.cost.clone()))
}

/// The verdicts on the source that is meant, one of each system.
fn select(args: &Args, run: &RunFile, segment: &str) -> Result<Vec<Record>> {
    let fits = |key: &UnitKey| is_meant(args, segment, key);
    let mut found: Vec<Record> = Vec::new();
    let mut segs: BTreeSet<usize> = BTreeSet::new();
    let mut systems: BTreeSet<String> = BTreeSet::new();
    let mut n_judged = 0;
    for record in run::verdicts_so_far(&args.dir)? {
        let record = record?;
        n_judged += 1;
        segs.extend(record.seg);
        if !systems.contains(&record.system) {
            systems.insert(record.system.clone());
        }
        found.extend(Some(record).filter(|record| fits(&record.key())));
    }
    let left = n_planned(run).saturating_sub(n_judged);
    if found.is_empty() && left > 0 && run.keys().iter().any(fits) {
        let of = format!("`{}` has no verdict on `{segment}`{} yet", args.dir.display(), wanted(args));
        bail!("{of}\n{}", unfinished(run, left));
    }
    let docs: BTreeSet<&str> = found.iter().map(|record| record.doc.as_str()).collect();
    match docs.len() {
        0 => {
            let hint = match (segs.first(), segs.last()) {
                _ if args.system.as_ref().is_some_and(|system| !systems.contains(system)) => {
                    format!("its systems are `{}`", systems.into_iter().collect::<Vec<_>>().join("`, `"))
                }
                (Some(first), Some(last)) if segs.len() == last + 1 - first => {
                    format!("its segments are {} to {} (ids {first} to {last})", first + 1, last + 1)
                }
                (Some(first), Some(last)) => {
                    format!("it has {} segments between {} and {}", segs.len(), first + 1, last + 1)
                }
                _ => "its verdicts are about whole documents; name one of them".to_owned(),
            };
            bail!("`{}` has no verdict on `{}`{}\nhint: {hint}", args.dir.display(), segment, wanted(args))
        }
        1 => Ok(found),
        _ => {
            let docs = docs.into_iter().collect::<Vec<_>>().join("`, `");
            bail!("{} verdicts match `{segment}`\nhint: choose one with `--doc` (`{docs}`)", found.len())
        }
    }
}

/// Returns true if a unit is the one that was named.
fn is_meant(args: &Args, segment: &str, key: &UnitKey) -> bool {
    let is_named = match key.seg {
        Some(seg) => match segment.strip_prefix("id:") {
            Some(id) => id.parse() == Ok(seg),
            None => segment.parse() == Ok(seg.saturating_add(1)),
        },
        None => key.doc == segment,
    };
    is_named
        && args.system.as_ref().is_none_or(|system| *system == key.system)
        && args.doc.as_ref().is_none_or(|doc| *doc == key.doc)
}

fn wanted(args: &Args) -> String {
    let part = |name: &str, value: &Option<String>| {
        value.as_ref().map_or_else(String::new, |value| format!(" of {name} `{value}`"))
    };
    part("document", &args.doc) + &part("system", &args.system)
}
