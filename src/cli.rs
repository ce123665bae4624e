//! The command line: arguments, commands, what they print. It decides nothing that a library user could not.

use std::{ffi::OsString, io::Write, path::PathBuf, process::ExitCode};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use crate::{
    console::{
        EscapeControls,
        args::{self, with_all_options},
        hints,
        stream::{IgnoreBrokenPipe, explain_with},
        wrap,
    },
    eval::{self, Invocation, ModelLoader, Session},
    llm::{self, CancellationToken},
    run::{self, Writing},
};

/// Prints a line on standard error, if it is open.
macro_rules! say {
    ($($what:tt)*) => {
        $crate::console::stream::say(format_args!($($what)*))
    };
}

pub mod again;
pub mod ask;
pub mod calibrate;
pub mod cite;
mod command;
pub mod compare;
pub mod config;
pub mod export;
pub mod keep;
pub mod merge;
pub mod meta;
pub mod methods;
pub mod models;
pub mod output;
mod progress;
pub mod promptcue;
pub mod raters;
pub mod report;
pub mod rerun;
pub mod score;
pub mod search;
mod selftest;
pub mod setup;
pub mod show;
mod signals;
pub mod slurm;
mod submission;
pub mod tune;
pub mod verify;

/// Judges machine translation with open-weight LLMs, in one process.
///
/// Results go to standard output, everything else to standard error. Exit codes: 0 every segment has a
/// verdict, 1 some verdicts are missing, 2 could not run. Options that you always use can be kept in a file,
/// `tribunal/config.toml` in your configuration folder (or where `TRIBUNAL_CONFIG` says), or in variables
/// like `TRIBUNAL_MODEL`.
#[derive(Debug, Parser)]
#[command(version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// The words of the command line, for `run.json`.
    #[arg(skip)]
    words: Vec<String>,
    /// Lock on the files being written, which a signal waits for.
    #[arg(skip)]
    writing: Writing,
    /// Cancelled by the first signal; stops new requests.
    #[arg(skip)]
    stop: CancellationToken,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Judge translations: verdicts for every segment, a score for every system
    Score(Box<score::Args>),
    /// Ask a model one question, with ids and log-probabilities
    Ask(Box<ask::Args>),
    /// Join the run folders of shards into one
    Merge(merge::Args),
    /// Show the results of a run, or the whole conversation behind one verdict
    Show(show::Args),
    /// Check a run: its files, its verdicts against the recorded answers, its answers against the model
    Verify(verify::Args),
    /// Cite runs in a paper: a paragraph, BibTeX entries, facts for the checklist
    Cite(cite::Args),
    /// Make the same run again, from its `run.json`
    Rerun(Box<rerun::Args>),
    /// Run on a Slurm cluster: submit a job array, check progress
    #[command(subcommand)]
    Slurm(slurm::Command),
    /// Compare systems, with paired significance, or judges on the same translations
    Compare(Box<compare::Args>),
    /// Lay out runs and human annotations on one self-contained HTML page
    Report(report::Args),
    /// Write a run in a format of the field: MQM TSV, mt-metrics-eval, Pearmut, WMT26, CSV, Parquet
    Export(export::Args),
    /// How well metrics and judges agree with human raters
    Meta(Box<meta::Args>),
    /// Meta-evaluation with marked errors: build sets, ask a model, score answers
    #[command(subcommand)]
    Promptcue(promptcue::Command),
    /// Fit HiMATE's thresholds: which errors it discusses
    Calibrate(Box<calibrate::Args>),
    /// Tune a model on rated translations, so that it judges better
    #[command(subcommand)]
    Tune(tune::Command),
    /// Evidence for RATE's search agent: build an index, query it
    #[command(subcommand)]
    Search(search::Command),
    /// Check that this build computes correct results on this machine
    Selftest(selftest::Args),
    /// The judging methods: list, show, new
    #[command(subcommand)]
    Methods(methods::Command),
    /// The judge models: list, pull, verify, show
    #[command(subcommand)]
    Models(models::Command),
    /// Print completions for bash, zsh, fish, elvish or PowerShell
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Write man pages into a folder
    Man {
        /// The folder for them, such as ~/.local/share/man/man1
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    main_with(std::env::args_os())
}

/// Runs the command of a command line.
pub fn main_with<T: Into<OsString>>(argv: impl IntoIterator<Item = T>) -> ExitCode {
    crate::engine::keep_freed();
    let cli = match completed(argv).map(parse) {
        Ok(Ok(cli)) => cli,
        Ok(Err(error)) => error.exit(),
        Err(error) => {
            say!("error: {error}");
            return ExitCode::from(2);
        }
    };
    signals::watch(&cli.writing);
    match cli.on_terminal().run(selftest::load, &mut IgnoreBrokenPipe::new(std::io::stdout().lock())) {
        Ok(code) => code,
        Err(error) => {
            say!("error: {}", explain(&error));
            if is_stopped(&error) {
                // A driver that waits for a hung GPU would keep the process from ending.
                signal_hook::low_level::exit(2);
            }
            ExitCode::from(2)
        }
    }
}

/// Returns true if the engine has stopped.
fn is_stopped(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(run::Error::Stopped(_)))
            || matches!(cause.downcast_ref(), Some(eval::Error::Run(run::Error::Stopped(_))))
            || matches!(cause.downcast_ref(), Some(llm::Error::Stopped(_)))
    })
}

/// A command line with the options of the user's file and variables, which help and version do not need.
fn completed<T: Into<OsString>>(argv: impl IntoIterator<Item = T>) -> Result<Vec<OsString>, config::Error> {
    let variable = |name: &str| std::env::var(name).ok();
    let argv = with_hyphens(argv);
    let mut words = argv.iter().skip(1).take_while(|arg| *arg != "--");
    let is_help = |word: &str| ["-h", "--help", ALL, "-V", "--version"].contains(&word);
    if words.any(|word| word.to_str().is_some_and(is_help)) {
        return Ok(argv);
    }
    let cli = Cli::command();
    let names: Vec<String> = std::env::vars_os()
        .filter(|(_, value)| !value.is_empty())
        .filter_map(|(name, _)| name.into_string().ok())
        .collect();
    config::check_variables(names.iter().map(String::as_str))?;
    let options = config::Options::find(variable)?;
    options.check(&cli)?;
    options.completed(argv, &cli, variable)
}

/// Reads a command line; `--only_system` is `--only-system`.
///
/// # Errors
/// The errors of clap, among them its help and version texts.
pub fn parse<T: Into<OsString>>(argv: impl IntoIterator<Item = T>) -> Result<Cli, clap::Error> {
    let argv = with_hyphens(argv);
    let words: Vec<String> = argv.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let is_all = argv.iter().any(|arg| arg == ALL);
    let command = Cli::command().long_version(setup::version());
    let command = if is_all { with_all_options(command) } else { command };
    let argv = argv.into_iter().map(|arg| if arg == ALL { "--help".into() } else { arg });
    let matches = command::numbers(command).try_get_matches_from(argv);
    let matches = matches.map_err(|error| command::reworded(error, &words))?;
    Ok(Cli { words, ..Cli::from_arg_matches(&matches)? })
}

/// Option that shows the help with all options, those for developers too.
const ALL: &str = "--help-all";

/// Replaces underscores by hyphens in the names of options.
fn with_hyphens<T: Into<OsString>>(argv: impl IntoIterator<Item = T>) -> Vec<OsString> {
    let mut is_literal = false;
    let mut one = |arg: OsString| {
        is_literal |= arg == "--";
        match arg.to_str() {
            Some(text) if !is_literal => hyphenated(text).into(),
            _ => arg,
        }
    };
    argv.into_iter().map(|arg| one(arg.into())).collect()
}

impl Cli {
    /// Cancellation token of this command's questions to a model, for other threads.
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// The metadata of this process for a run.
    fn invocation(&self) -> Invocation {
        Invocation {
            command: self.words.clone(),
            build: setup::build(),
            writing: self.writing.clone(),
            stop: self.stop.clone(),
            ..Invocation::default()
        }
    }

    /// Loads the models of a `tribunal score` command, whose input may be missing, for programs that judge
    /// many inputs.
    ///
    /// # Errors
    /// Another command, and models that cannot be run.
    pub fn session(self, load: ModelLoader) -> anyhow::Result<Session> {
        let invocation = self.invocation();
        let Command::Score(args) = self.command else {
            anyhow::bail!("a session needs the options of `tribunal score`")
        };
        Ok(eval::Session::open(args.spec, invocation, load)?)
    }

    /// Sets the width of tables to that of the terminal.
    fn on_terminal(mut self) -> Self {
        if let Command::Meta(args) = &mut self.command {
            args.width = wrap::stdout_columns();
        }
        self
    }

    /// Runs a command with the given way to find models; results go to `out`.
    ///
    /// # Errors
    /// Any error that keeps the command from running; the message names the remedy.
    pub fn run(self, load: ModelLoader, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
        args::variables::check().map_err(anyhow::Error::msg)?;
        let invocation = self.invocation();
        let mut shown;
        let out: &mut dyn Write = if self.command.writes_escapes() {
            out
        } else {
            shown = EscapeControls::new(out);
            &mut shown
        };
        match self.command {
            Command::Score(args) => score::run(&args, &invocation, load, out),
            Command::Ask(args) => ask::run(&args, &invocation, out),
            Command::Merge(args) => merge::run(&args, out),
            Command::Show(args) => show::run(&args, out),
            Command::Verify(args) => verify::run(&args, load, out),
            Command::Cite(args) => cite::run(&args, out),
            Command::Slurm(command) => slurm::run(&command, &invocation, out),
            Command::Rerun(args) => rerun::run(&args, &invocation, load, out),
            Command::Compare(args) => compare::run(&args, &invocation, load, out),
            Command::Report(args) => report::run(&args, out),
            Command::Export(args) => export::run(&args, out),
            Command::Meta(args) => meta::run(&args, out),
            Command::Promptcue(command) => promptcue::run(&command, &invocation, load, out),
            Command::Calibrate(args) => calibrate::run(&args, &invocation, load, out),
            Command::Tune(command) => tune::run(&command, &invocation, out),
            Command::Search(command) => search::run(&command, out),
            Command::Selftest(args) => selftest::run(&args, out),
            Command::Methods(command) => methods::run(&command, out),
            Command::Models(command) => models::run(command, out),
            Command::Completions { shell } => setup::completions(shell, Self::command(), out),
            Command::Man { dir } => setup::man(&dir, Self::command(), out),
        }
    }
}

impl Command {
    /// Returns true if its output has escape sequences for a terminal: colours, and a shell's own. Names and
    /// answers in it are made harmless one by one; those of other commands all at once.
    fn writes_escapes(&self) -> bool {
        matches!(
            self,
            Self::Score(_)
                | Self::Merge(_)
                | Self::Show(_)
                | Self::Rerun(_)
                | Self::Completions { .. }
                | Self::Man { .. }
        )
    }
}

/// An error with its causes and the options that help.
pub fn explain(error: &anyhow::Error) -> String {
    explain_with(error, |cause| hints::text(cause).or_else(|| meta::hints::text(cause)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn underscores_and_hyphens() {
        assert_eq!(hyphenated("--only_system"), "--only-system");
        assert_eq!(hyphenated("--span_f1=my_file"), "--span-f1=my_file");
        assert_eq!(hyphenated("my_file.txt"), "my_file.txt");
    }

    #[test]
    fn completions_and_man_pages_name_every_command() {
        let run = |argv: &[&str]| {
            let mut out = Vec::new();
            let cli = parse(argv.iter().map(|arg| (*arg).to_owned())).unwrap();
            cli.run(eval::models::load, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().display().to_string();
        let bash = run(&["tribunal", "completions", "bash"]);
        assert_eq!(run(&["tribunal", "man", &path]), format!("{path}/tribunal.1\n"));
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            assert!(bash.contains(name), "{name}");
            let page = std::fs::read_to_string(dir.path().join(format!("tribunal-{name}.1"))).unwrap();
            assert!(page.contains("SYNOPSIS"), "{name}");
        }
    }

    #[test]
    fn the_version_tells_builds_apart() {
        let said = parse(["tribunal", "--version"].map(String::from)).unwrap_err().to_string();
        let fields: Vec<&str> =
            said.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(fields, ["commit", "features", "tiers", "target"]);
    }

    #[test]
    fn options_for_developers_are_shown_when_all_are_asked_for() {
        let help = |word: &str| parse(["tribunal", "score", word].map(String::from)).unwrap_err().to_string();
        for option in ["--activations", "--kv-dtype", "--cpu-tier", "--no-drafts", "--no-graphs"] {
            assert!(!help("--help").contains(option), "{option}");
            assert!(help("--help-all").contains(option), "{option}");
        }
        assert!(help("--help").contains("--help-all"));
    }

    /// The long options of a command and of those below it.
    fn options(command: &clap::Command) -> std::collections::BTreeSet<String> {
        let own = command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned));
        own.chain(command.get_subcommands().flat_map(options)).collect()
    }

    #[test]
    fn there_is_one_spelling_of_each_option_and_no_more_than_a_person_can_know() {
        let options = options(&Cli::command());
        let counted: Vec<&String> =
            options.iter().filter(|name| !OTHER_SPELLINGS.contains(&name.as_str())).collect();
        assert!(counted.len() <= 100, "{}: {counted:?}", counted.len());
    }

    /// Options that another one expresses: accepted, and not shown.
    const OTHER_SPELLINGS: [&str; 1] = ["json"];

    #[test]
    fn other_spellings_are_not_shown() {
        fn check(command: &clap::Command) {
            let others = command
                .get_arguments()
                .filter(|arg| arg.get_long().is_some_and(|name| OTHER_SPELLINGS.contains(&name)));
            others.for_each(|arg| assert!(arg.is_hide_set(), "{}: {arg}", command.get_name()));
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn the_help_of_score_fits_two_screens() {
        let asked = Cli::command().term_width(100).try_get_matches_from(["tribunal", "score", "--help"]);
        let help = asked.unwrap_err().to_string();
        assert!(
            help.lines().count() <= 100 && help.lines().all(|line| line.chars().count() <= 100),
            "{help}"
        );
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
