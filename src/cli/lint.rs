//! `tribunal lint`: likely mistakes in ratings, texts and scores, before they are used. The checks are `meta`'s.

use std::{io::Write, path::PathBuf, process::ExitCode};

use anyhow::{Result, bail};

use super::{meta::brought, output::Printed};
use crate::{
    eval::Pair,
    meta::{gold::Wanted, lint::testset, testset::TestSet},
    report::lint::{self, Checked},
};

mod files;

/// Ratings, texts and scores to check.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Human annotations (MQM TSV, WMT25, Pearmut), run folders, or tables of translations (JSONL, TSV, CSV, Parquet).
    #[arg(required_unless_present = "testset", value_name = "DIR|FILE")]
    pub inputs: Vec<PathBuf>,
    /// A folder in the layout of mt-metrics-eval: its texts, its ratings, its metrics.
    #[arg(long, value_name = "DIR", requires = "pair")]
    pub testset: Option<PathBuf>,
    /// The language pair of the test set, or of inputs that name none.
    #[arg(short = 'l', long = "language-pair", visible_alias = "lp", value_name = "SRC-TGT")]
    pub pair: Option<Pair>,
    /// The test set's human scores, as of `tribunal meta`.
    #[arg(long, default_value_t, value_name = "NAME", requires = "testset")]
    pub gold: Wanted,
    /// Scores from outside the test set, as of `tribunal meta`.
    #[arg(long, value_name = "NAME=PATTERN", requires = "testset")]
    pub scores: Vec<String>,
    /// Names of `--scores` where lower is better.
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "scores")]
    pub negate: Vec<String>,
    #[command(flatten)]
    pub printed: Printed,
}

/// Runs `tribunal lint`.
///
/// # Errors
/// Inputs that cannot be read.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<ExitCode> {
    let mut all = files::read(&args.inputs, args.pair.as_ref())?;
    if let (Some(dir), Some(pair)) = (&args.testset, &args.pair) {
        let set = TestSet::of_languages(dir, (&pair.src, &pair.tgt), &pair.given)?;
        all.push(testset::read(&set, dir, &args.gold, brought(&args.scores, &args.negate)?)?);
    }
    if all.iter().all(|material| material.texts.is_empty() && material.ratings.is_empty()) {
        bail!("there is nothing to check");
    }
    let (mut checked, mut findings) = (Checked::default(), Vec::new());
    for material in &all {
        checked.translations += material.texts.len();
        checked.ratings += material.ratings.len();
        checked.metrics += material.n_metrics;
        findings.extend(material.check());
    }
    if args.printed.is_json() {
        writeln!(out, "{:#}", lint::json(checked, &findings))?;
    } else if !args.printed.rows(&lint::table(&findings), out)? {
        out.write_all(lint::text(checked, &findings).as_bytes())?;
    }
    Ok(if lint::n_warnings(&findings) == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
