//! `tribunal merge`: the run folders of shards into one.

use std::{io::Write, path::PathBuf, process::ExitCode};

use anyhow::Result;

use super::{
    output::{Cells, Format},
    score,
};
use crate::{
    report::Detail,
    run::{
        self,
        merge::{Merged, Need},
    },
};

/// Join shards.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The run folders of all shards, in any order
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// The folder for the whole run
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Take what is there; the merged folder can be continued like any other
    #[arg(long)]
    pub partial: bool,
    /// How results are printed: text, json, tsv or csv
    #[arg(long, value_enum, default_value_t, hide_possible_values = true)]
    pub format: Format,
    #[command(flatten)]
    pub cells: Cells,
}

/// Runs `tribunal merge`.
///
/// # Errors
/// The errors of [`run::merge`].
pub fn run(args: &Args, out: &mut dyn Write) -> Result<ExitCode> {
    let command: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let need = if args.partial { Need::WhatIsThere } else { Need::Everything };
    let Merged { outcome, missing } = run::merge(&args.dirs, &args.out, &command, need)?;
    if let Some(missing) = &missing {
        say!("note: {missing}");
    }
    score::warn(&outcome)?;
    score::print(&outcome, args.format, args.cells, Detail::Systems, out)?;
    Ok(if outcome.complete() && missing.is_none() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
