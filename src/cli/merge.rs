//! `tribunal merge`: the run folders of shards into one.

use std::{io::Write, path::PathBuf, process::ExitCode};

use anyhow::Result;

use super::{output::Format, score};
use crate::{report::Detail, run};

/// Join shards.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The run folders of all shards, in any order
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// The folder for the whole run
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// How results are printed
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Also print the verdicts on segments
    #[arg(long)]
    pub segments: bool,
}

/// Runs `tribunal merge`.
///
/// # Errors
/// As [`run::merge`].
pub fn run(args: &Args, out: &mut dyn Write) -> Result<ExitCode> {
    let command: Vec<String> = std::env::args().collect();
    let outcome = run::merge(&args.dirs, &args.out, &command)?;
    let detail = if args.segments { Detail::Units } else { Detail::Systems };
    score::warn(&outcome)?;
    score::print(&outcome, args.format, detail, out)?;
    Ok(if outcome.complete() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
