//! The command line: arguments, commands, what they print. It decides nothing that a library user could not.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub mod models;

/// Judges machine translation with open-weight LLMs, in one process.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The judge models: list, pull, verify, show
    Models(models::Args),
}

/// Runs the command that the process was started with.
#[must_use]
pub fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Models(args) => models::run(args),
    };
    outcome.unwrap_or_else(|error| {
        #[expect(clippy::print_stderr, reason = "errors of a command go to stderr")]
        {
            eprintln!("error: {error:#}");
        }
        ExitCode::from(2)
    })
}
