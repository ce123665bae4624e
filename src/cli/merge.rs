//! `tribunal merge`: the run folders of shards into one.

use std::{io::Write, path::PathBuf, process::ExitCode};

use anyhow::Result;

use super::{output::Printed, score};
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
    #[command(flatten)]
    pub printed: Printed,
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
    score::warn(&outcome);
    score::print(&outcome, args.printed, Detail::Systems, out)?;
    Ok(if outcome.complete() && missing.is_none() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
