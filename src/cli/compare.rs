//! `tribunal compare`: systems side by side, from runs and score files, with paired significance.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::table::Table;
use crate::meta::scores::{self, ScoreFile};
use crate::meta::significance::paired::{PairedTest, compare_systems, mean_interval};
use crate::meta::verdicts;

mod reliability;

/// Systems side by side, with paired significance.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Run folders, and score files: `SYSTEM SCORE` lines, JSONL, or one column (its file name is the system).
    #[arg(required = true, value_name = "DIR|FILE")]
    pub inputs: Vec<PathBuf>,
    /// Compare all others with this system; by default the best one.
    #[arg(long, value_name = "SYSTEM")]
    pub baseline: Option<String>,
    /// Bootstrap and randomization resamples.
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub resamples: usize,
    /// Seed of everything drawn.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub seed: u64,
    /// Digits after the point in the table; JSON has all.
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub digits: usize,
    /// Take the inputs as run folders of one judge and say how well it agrees with itself.
    #[arg(long)]
    pub reliability: bool,
    /// One JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Units of a system: an input's name and a segment or document, with the score.
type Units = BTreeMap<String, Option<f64>>;

/// One system's mean and its comparison with the baseline.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    pub system: String,
    /// Mean over scored units; higher is better.
    pub mean: f64,
    /// 95% bootstrap interval of the mean.
    pub interval: (f64, f64),
    pub scored: usize,
    /// Units without a score: left out of the mean.
    pub missing: usize,
    /// Against the baseline, over the units both have; `None` for the baseline itself.
    pub against_baseline: Option<PairedTest>,
}

/// Runs the command: exit code 1 where some system misses verdicts.
///
/// # Errors
/// Unreadable inputs, or systems that share no unit.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<ExitCode> {
    if args.reliability {
        return reliability::run(&args.inputs, args.digits, args.json, out);
    }
    let systems = read_inputs(&args.inputs)?;
    let resamples = args.resamples.max(1);
    let mut rows: Vec<Compared> = Vec::with_capacity(systems.len());
    for (system, units) in &systems {
        let scored: Vec<f64> = units.values().flatten().copied().collect();
        if scored.is_empty() {
            bail!("system `{system}` has no score at all");
        }
        let (mean, interval) = mean_interval(&scored, resamples, args.seed);
        let missing = units.len() - scored.len();
        rows.push(Compared {
            system: system.clone(),
            mean,
            interval,
            scored: scored.len(),
            missing,
            against_baseline: None,
        });
    }
    rows.sort_by(|a, b| b.mean.total_cmp(&a.mean).then(a.system.cmp(&b.system)));
    let baseline = args.baseline.clone().unwrap_or_else(|| rows[0].system.clone());
    let Some(base) = systems.get(&baseline) else {
        let known: Vec<&str> = systems.keys().map(String::as_str).collect();
        bail!("no system `{baseline}`; hint: there are {}", known.join(", "));
    };
    for row in rows.iter_mut().filter(|row| row.system != baseline) {
        let pairs = shared(&systems[&row.system], base);
        let test = compare_systems(&pairs, resamples, args.seed);
        row.against_baseline =
            Some(test.with_context(|| format!("`{}` and `{baseline}` share no scored unit", row.system))?);
    }
    print(args, &baseline, &rows, out)?;
    let complete = rows.iter().all(|row| row.missing == 0);
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn shared(system: &Units, base: &Units) -> Vec<(f64, f64)> {
    let both = |(unit, score): (&String, &Option<f64>)| Some(((*score)?, (*base.get(unit)?)?));
    system.iter().filter_map(both).collect()
}

fn read_inputs(inputs: &[PathBuf]) -> Result<BTreeMap<String, Units>> {
    let mut systems: BTreeMap<String, Units> = BTreeMap::new();
    for path in inputs {
        for (system, units) in read_input(path)? {
            let known = systems.entry(system.clone()).or_default();
            for (unit, score) in units {
                if known.insert(unit.clone(), score).is_some() {
                    bail!("`{}` scores `{system}` {unit} a second time", path.display());
                }
            }
        }
    }
    if systems.len() < 2 {
        bail!("only one system to compare; hint: give several files, or a run over several systems");
    }
    Ok(systems)
}

fn read_input(path: &Path) -> Result<BTreeMap<String, Units>> {
    if path.is_dir() {
        return read_run(path);
    }
    let numbered = |column: Vec<Option<f64>>| -> Units {
        column.into_iter().enumerate().map(|(seg, score)| (format!("segment {seg:06}"), score)).collect()
    };
    Ok(match scores::read(path, None)? {
        ScoreFile::Named(columns) => {
            columns.into_iter().map(|(system, column)| (system, numbered(column))).collect()
        }
        ScoreFile::Column(column) => {
            let name =
                path.file_stem().map_or_else(|| "system".into(), |stem| stem.to_string_lossy().into_owned());
            BTreeMap::from([(name, numbered(column))])
        }
    })
}

fn read_run(dir: &Path) -> Result<BTreeMap<String, Units>> {
    let mut systems: BTreeMap<String, Units> = BTreeMap::new();
    for verdict in verdicts::read(dir)? {
        let unit = match verdict.seg {
            Some(seg) => format!("{}-{} segment {seg:06}", verdict.src_lang, verdict.tgt_lang),
            None => format!("{}-{} document {}", verdict.src_lang, verdict.tgt_lang, verdict.doc),
        };
        let score = verdict.score.filter(|_| verdict.status == "ok");
        if systems.entry(verdict.system.clone()).or_default().insert(unit.clone(), score).is_some() {
            bail!("`{}` has two verdicts on `{}` {unit}", dir.display(), verdict.system);
        }
    }
    Ok(systems)
}

fn print(args: &Args, baseline: &str, rows: &[Compared], out: &mut dyn Write) -> Result<()> {
    if args.json {
        let object = serde_json::json!({"baseline": baseline, "resamples": args.resamples, "seed": args.seed, "systems": rows});
        writeln!(out, "{}", serde_json::to_string_pretty(&object)?)?;
        return Ok(());
    }
    let digits = args.digits;
    let mut table = Table::new();
    table.head([
        "system",
        "score",
        "95% interval",
        "scored",
        "missing",
        "difference",
        "95% interval",
        "p bootstrap",
        "p randomization",
    ]);
    for row in rows {
        let mut cells = vec![
            row.system.clone(),
            format!("{:.digits$}", row.mean),
            format!("{:.digits$} to {:.digits$}", row.interval.0, row.interval.1),
            row.scored.to_string(),
            row.missing.to_string(),
        ];
        if let Some(test) = &row.against_baseline {
            cells.push(format!("{:+.digits$}", test.difference));
            cells.push(format!("{:+.digits$} to {:+.digits$}", test.interval.0, test.interval.1));
            cells.push(format!("{:.4}", test.bootstrap_p));
            cells.push(format!("{:.4}", test.randomization_p));
        } else {
            cells.push("baseline".into());
        }
        table.row(cells);
    }
    write!(out, "{table}")?;
    writeln!(
        out,
        "\ndifferences to `{baseline}` over shared units; {} resamples, seed {}",
        args.resamples, args.seed
    )?;
    Ok(())
}
