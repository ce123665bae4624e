//! Arguments of `tribunal score`.

use anyhow::{Result, bail};

use super::super::{keep::KeepArgs, output::Printed};
use crate::{cli::progress::ProgressMode, console::args::bytes, eval::Spec};

/// Judge translations.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "`--help-all` shows options for developers, too; docs/running.md says more of each.")]
pub struct Args {
    #[command(flatten)]
    pub spec: Spec,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub keep: KeepArgs,
}

/// Progress, and the printed results.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Run")]
pub struct RunArgs {
    /// Progress: auto, plain (a line a minute), json or off
    #[arg(long, value_enum, default_value_t, hide_possible_values = true)]
    pub progress: ProgressMode,
    /// Judge a few groups, and say what the whole run takes
    #[arg(long)]
    pub dry_run: bool,
    /// With `--dry-run` and `slurm submit`: GPU memory to check the model against
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub device_memory: Option<u64>,
    /// No progress and no notes; warnings are still printed
    #[arg(long)]
    pub quiet: bool,
    /// Print only the systems' scores
    #[arg(long)]
    pub only_system: bool,
    #[command(flatten)]
    pub printed: Printed,
}

impl RunArgs {
    /// Refuses options that do not go together.
    ///
    /// # Errors
    /// A GPU's memory where none is planned for.
    pub fn check(&self) -> Result<()> {
        if self.device_memory.is_some() && !self.dry_run {
            bail!(
                "`--device-memory` is for `--dry-run` and `tribunal slurm submit`\nhint: `--kv-cache SIZE` limits the cache"
            );
        }
        Ok(())
    }

    /// The mode of the progress display.
    pub fn shown(&self) -> ProgressMode {
        if self.quiet { ProgressMode::Off } else { self.progress }
    }
}
