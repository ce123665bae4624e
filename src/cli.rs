//! The command line: arguments, commands, what they print. It decides nothing that a library user could not.

use std::{io::Write, process::ExitCode};

use clap::{Parser, Subcommand};

pub mod args;
pub mod ask;
pub mod bench;
pub mod calibrate;
pub mod compare;
pub mod export;
pub mod input;
pub mod keep;
pub mod merge;
pub mod meta;
pub mod methods;
pub mod models;
pub mod panel;
pub mod promptcue;
pub mod raters;
pub mod report;
pub mod score;
pub mod search;
pub mod show;
mod table;

/// Judges machine translation with open-weight LLMs, in one process.
///
/// Results go to standard output, everything else to standard error. Exit codes: 0 every segment has a
/// verdict, 1 some verdicts are missing, 2 could not run.
#[derive(Debug, Parser)]
#[command(version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Judge translations: verdicts for every segment, a score for every system
    Score(Box<score::Args>),
    /// Ask a model one question, with ids and log-probabilities
    Ask(Box<ask::Args>),
    /// Join the run folders of shards into one
    Merge(merge::Args),
    /// Show the whole conversation behind one verdict
    Show(show::Args),
    /// Compare systems, with paired significance, or judges on the same translations
    Compare(compare::Args),
    /// Lay out runs and human annotations on one self-contained HTML page
    Report(report::Args),
    /// Write a run in a format of the field: MQM TSV, mt-metrics-eval, COMET's JSON, CSV, Parquet
    Export(export::Args),
    /// How well metrics and judges agree with human raters
    Meta(Box<meta::Args>),
    /// Meta-evaluation with marked errors: build sets, ask a model, score answers
    #[command(subcommand)]
    Promptcue(promptcue::Command),
    /// Fit HiMATE's stage-transition threshold on a validation set
    Calibrate(Box<calibrate::Args>),
    /// Evidence for RATE's search agent: build an index, query it
    Search(search::Args),
    /// What this machine can do, how close the engine comes, and whether every setting gives the same bytes
    #[command(subcommand)]
    Bench(bench::Command),
    /// The judging methods: list, show
    Methods(methods::Args),
    /// The judge models: list, pull, verify, show
    Models(models::Args),
}

/// Runs the command that the process was started with.
#[must_use]
pub fn main() -> ExitCode {
    crate::engine::keep_freed();
    let cli = match parse(std::env::args()) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    match cli.run(panel::panel, &mut std::io::stdout().lock()) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // The reader of stderr may be gone too; the exit code still says it.
            let _ = writeln!(std::io::stderr(), "error: {}", explain(&error));
            ExitCode::from(2)
        }
    }
}

/// Reads a command line; `--only_system` is `--only-system`.
///
/// # Errors
/// What clap says of it, help and version included.
pub fn parse(argv: impl IntoIterator<Item = String>) -> Result<Cli, clap::Error> {
    let mut rest = false;
    Cli::try_parse_from(argv.into_iter().map(|arg| {
        rest |= arg == "--";
        if rest { arg } else { hyphenated(&arg) }
    }))
}

impl Cli {
    /// Runs a command with the given way to find models; results go to `out`.
    ///
    /// # Errors
    /// Whatever keeps the command from running; the message says what to do.
    pub fn run(self, seat: panel::Seat, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Score(args) => score::run(&args, seat, out),
            Command::Ask(args) => ask::run(&args, out),
            Command::Merge(args) => merge::run(&args, out),
            Command::Show(args) => show::run(&args, out),
            Command::Compare(args) => compare::run(&args, out),
            Command::Report(args) => report::run(&args, out),
            Command::Export(args) => export::run(&args, out),
            Command::Meta(args) => meta::run(&args, out),
            Command::Promptcue(command) => promptcue::run(&command, seat, out),
            Command::Calibrate(args) => calibrate::run(&args, seat, out),
            Command::Search(args) => search::run(&args, out),
            Command::Bench(command) => bench::run(&command, out),
            Command::Methods(args) => methods::run(&args, out),
            Command::Models(args) => models::run(args),
        }
    }
}

/// An error with its causes, each said once: most messages already hold the message of their cause.
#[must_use]
pub fn explain(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.as_str() {
        "" => cause,
        said if said.contains(&cause) => text,
        said => format!("{said}: {cause}"),
    })
}

/// A long flag with hyphens for underscores; its value stays as it is.
fn hyphenated(arg: &str) -> String {
    if !arg.starts_with("--") {
        return arg.into();
    }
    match arg.split_once('=') {
        Some((flag, value)) => format!("{}={value}", flag.replace('_', "-")),
        None => arg.replace('_', "-"),
    }
}

/// Whether the reader of stdout has gone, as `| head` does.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn underscores_and_hyphens() {
        assert_eq!(hyphenated("--only_system"), "--only-system");
        assert_eq!(hyphenated("--to_json=my_file.json"), "--to-json=my_file.json");
        assert_eq!(hyphenated("my_file.txt"), "my_file.txt");
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
