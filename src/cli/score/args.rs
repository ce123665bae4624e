//! Arguments of `tribunal score`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::super::{
    keep::KeepArgs,
    output::{Cells, Format},
};
use crate::{
    cli::progress::ProgressMode,
    console::args::{EngineArgs, InputArgs, JudgeArgs, ModelArgs, SamplingArgs, bytes},
    eval::{OutputSpec, Spec},
    run::{CallRetention, Shard},
};

/// Judge translations.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "`--help-all` shows options for developers, too; docs/running.md says more of each.")]
pub struct Args {
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub judge: JudgeArgs,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub sampling: SamplingArgs,
    #[command(flatten)]
    pub engine: EngineArgs,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub keep: KeepArgs,
}

/// Output of a run: its folder, and the printed results.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Run")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct RunArgs {
    /// The run folder; resumes what it holds. Default: out/METHOD-MODEL-HASH
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Judge one part of N, from 1; `tribunal merge` joins the parts
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Ask once more about segments whose answers could not be used
    #[arg(long)]
    pub retry_missing: bool,
    /// Record questions and answers: plain, zstd, or off
    #[arg(long, default_value = "plain", value_parser = call_retention(), hide_possible_values = true)]
    pub calls: CallRetention,
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
    /// Also write the verdicts as COMET's `--to_json` does
    #[arg(long, value_name = "FILE")]
    pub to_json: Option<PathBuf>,
    /// How results are printed: text, json, tsv or csv
    #[arg(long, value_enum, default_value_t, hide_possible_values = true)]
    pub format: Format,
    #[command(flatten)]
    pub cells: Cells,
}

impl Args {
    /// These as a specification.
    #[must_use]
    pub fn spec(&self) -> Spec {
        Spec {
            input: self.input.spec(),
            judge: self.judge.spec(),
            models: self.model.spec(),
            sampling: self.sampling.spec(),
            resources: self.engine.spec(),
            output: OutputSpec {
                folder: self.run.out.clone(),
                shard: self.run.shard,
                retry_missing: self.run.retry_missing,
                calls: self.run.calls,
            },
        }
    }
}

impl RunArgs {
    /// The mode of the progress display.
    pub fn shown(&self) -> ProgressMode {
        if self.quiet { ProgressMode::Off } else { self.progress }
    }
}

fn call_retention() -> impl TypedValueParser<Value = CallRetention> {
    PossibleValuesParser::new(["plain", "zstd", "off"]).map(|name| match name.as_str() {
        "zstd" => CallRetention::Zstd,
        "off" => CallRetention::Off,
        _ => CallRetention::Plain,
    })
}
