//! Configuration: options from a file, and from `TRIBUNAL_*` variables. They become arguments before the
//! command line is read, so that they are checked, signed and recorded as if they had been typed; what is
//! typed wins.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{ArgAction, Command};
use toml::Value;

use crate::files;

mod known;

use known::Misspelt;

/// Options that a variable can set: `TRIBUNAL_KV_CACHE` is `--kv-cache`.
pub const VARIABLES: &[&str] = &[
    "model",
    "adapter",
    "method",
    "preset",
    "weights",
    "device",
    "dtype",
    "activations",
    "kv-dtype",
    "kv-cache",
    "threads",
    "jobs",
    "batch",
    "cpu-tier",
    "language-pair",
    "seed",
    "format",
];

/// Options that a command takes only where they are typed for it, or set for it by name. Some repeat a run,
/// and take what can move a score from there; some know one method.
const ASIDE: &[(&str, &[&str])] = &[
    ("rerun", RECORDED),
    ("verify", RECORDED),
    ("calibrate", &["method"]),
    ("ask", FORMAT),
    ("selftest", FORMAT),
];

/// Formats that commands without a table do not have.
const FORMAT: &[&str] = &["format"];

/// Options that a run folder records.
const RECORDED: &[&str] = &["model", "adapter", "role", "seed"];

/// The variable that names another file.
pub const FILE: &str = "TRIBUNAL_CONFIG";

/// Error of a file of options.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read `{path}`: {}", crate::files::explain(path, source))]
    Io { path: PathBuf, source: std::io::Error },
    #[error("`{path}`: {reason}")]
    Toml { path: PathBuf, reason: String },
    #[error("`{path}`: `{command}` has no option `--{option}`\nhint: {hint}")]
    Unknown { path: PathBuf, command: String, option: String, hint: String },
    #[error("`{path}`: no command has an option `--{option}`\nhint: {hint}")]
    Nowhere { path: PathBuf, option: String, hint: String },
    #[error("`{path}`: there is no command `{command}`\nhint: {hint}")]
    Command { path: PathBuf, command: String, hint: String },
    #[error("the variable `{name}` is not one of this program's\nhint: {hint}")]
    Variable { name: String, hint: String },
    #[error("`{path}`: `{option}` must be a text, a number, true or false, or a list of them")]
    Kind { path: PathBuf, option: String },
}

/// The options of a file: those of every command that has them, and those of single commands.
#[derive(Debug, Default)]
pub struct Options {
    path: PathBuf,
    common: BTreeMap<String, Value>,
    of_command: BTreeMap<String, BTreeMap<String, Value>>,
}

impl Options {
    /// Reads the file that `TRIBUNAL_CONFIG` names, or `tribunal/config.toml` in the platform's folder for
    /// configurations, if there is one.
    ///
    /// # Errors
    /// [`Error`], and a file that is named but not there.
    pub fn find(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        if let Some(path) = variable(FILE).filter(|path| !path.is_empty()) {
            return Self::read(Path::new(&path));
        }
        let path = dirs::config_dir().map(|dir| dir.join("tribunal").join("config.toml"));
        path.filter(|path| path.is_file()).map_or_else(|| Ok(Self::default()), |path| Self::read(&path))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Toml`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = files::text::read(path).map_err(|source| Error::Io { path: path.into(), source })?;
        let table: BTreeMap<String, Value> = toml::from_str(&text)
            .map_err(|error| Error::Toml { path: path.into(), reason: error.to_string() })?;
        let mut options = Self { path: path.into(), ..Self::default() };
        for (key, value) in table {
            match value {
                Value::Table(own) => drop(options.of_command.insert(key, own.into_iter().collect())),
                value => drop(options.common.insert(key, value)),
            }
        }
        Ok(options)
    }
}

/// Checks that the file names only commands and options that there are.
///
/// # Errors
/// [`Error::Unknown`], [`Error::Nowhere`] and [`Error::Command`], with the nearest name.
pub fn check(options: &Options, cli: &Command) -> Result<(), Error> {
    let path = options.path.clone();
    match known::misspelt(options, cli) {
        None => Ok(()),
        Some(Misspelt::Command { name, hint }) => Err(Error::Command { path, command: name, hint }),
        Some(Misspelt::Option { command: Some(command), name, hint }) => {
            Err(Error::Unknown { path, command, option: name, hint })
        }
        Some(Misspelt::Option { command: None, name, hint }) => {
            Err(Error::Nowhere { path, option: name, hint })
        }
    }
}

/// Checks the names of the variables that are set.
///
/// # Errors
/// [`Error::Variable`] for one that looks misspelt.
pub fn check_variables<'a>(names: impl Iterator<Item = &'a str>, cli: &Command) -> Result<(), Error> {
    known::misspelt_variable(names, cli).map_or(Ok(()), |(name, hint)| Err(Error::Variable { name, hint }))
}

/// A command line with the options of a file and of variables behind it, where it does not have them itself.
///
/// # Errors
/// [`Error`] for a file with values that are none.
pub fn completed(
    argv: Vec<OsString>,
    cli: &Command,
    options: &Options,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Vec<OsString>, Error> {
    let words: Vec<String> = argv.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let Some((name, command)) = subcommand(&words, cli) else { return Ok(argv) };
    let (path, own) = (&options.path, options.of_command.get(&name));
    let mut added = Vec::new();
    let mut seen = |argument: &clap::Arg| {
        let is_new = !given(&words, argument) && !added.contains(argument.get_id());
        added.push(argument.get_id().clone());
        is_new
    };
    let aside = ASIDE.iter().find(|(command, _)| *command == name).map_or(&[][..], |(_, options)| options);
    let mut more = Vec::new();
    for &option in VARIABLES.iter().filter(|option| !aside.contains(option)) {
        if let (Some(value), Some(argument)) =
            (variable(&known::variable_of(option)).filter(|v| !v.is_empty()), find(command, option))
            && seen(argument)
        {
            more.push(format!("--{option}={value}"));
        }
    }
    let common = options
        .common
        .iter()
        .filter(|(option, _)| find(command, option).is_some() && !aside.contains(&option.as_str()));
    let own = own.into_iter().flatten().filter(|(option, _)| find(command, option).is_some());
    for (option, value) in own.chain(common) {
        if let Some(argument) = find(command, option).filter(|argument| seen(argument)) {
            more.extend(arguments(path, option, value, argument)?);
        }
    }
    Ok(placed(argv, more))
}

/// The command that is called, and its name.
fn subcommand<'a>(argv: &[String], cli: &'a Command) -> Option<(String, &'a Command)> {
    let mut words = argv.iter().skip(1).filter(|arg| !arg.starts_with('-'));
    let name = words.next()?;
    let command = cli.find_subcommand(name)?;
    // A command of two words takes options after the second.
    match words.next().and_then(|second| command.find_subcommand(second)) {
        Some(inner) => Some((name.clone(), inner)),
        None => Some((name.clone(), command)),
    }
}

fn find<'a>(command: &'a Command, option: &str) -> Option<&'a clap::Arg> {
    let option = option.replace('_', "-");
    command.get_arguments().find(|argument| longs(argument).any(|long| long == option))
}

fn longs(argument: &clap::Arg) -> impl Iterator<Item = String> {
    let names = argument.get_long_and_visible_aliases().unwrap_or_default();
    names.into_iter().chain(argument.get_all_aliases().unwrap_or_default()).map(str::to_owned)
}

/// Returns true if an argument was typed, under any of its names.
fn given(argv: &[String], argument: &clap::Arg) -> bool {
    let mut typed = argv.iter().take_while(|arg| *arg != "--");
    typed.any(|arg| match arg.strip_prefix("--") {
        Some(long) => longs(argument).any(|name| long.split('=').next() == Some(name.as_str())),
        None => argument
            .get_short()
            .is_some_and(|short| arg.strip_prefix('-').is_some_and(|a| a.starts_with(short))),
    })
}

fn arguments(path: &Path, option: &str, value: &Value, argument: &clap::Arg) -> Result<Vec<String>, Error> {
    let option = option.replace('_', "-");
    let text = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => Ok(value.to_string()),
        _ => Err(Error::Kind { path: path.into(), option: option.clone() }),
    };
    let is_flag = matches!(argument.get_action(), ArgAction::SetTrue);
    Ok(match value {
        Value::Boolean(true) if is_flag => vec![format!("--{option}")],
        Value::Boolean(false) if is_flag => Vec::new(),
        Value::Array(values) => values
            .iter()
            .map(|value| Ok(format!("--{option}={}", text(value)?)))
            .collect::<Result<_, Error>>()?,
        value => vec![format!("--{option}={}", text(value)?)],
    })
}

/// Behind what was typed, but before what follows a bare `--`.
fn placed(mut argv: Vec<OsString>, more: Vec<String>) -> Vec<OsString> {
    let at = argv.iter().position(|arg| arg == "--").unwrap_or(argv.len());
    argv.splice(at..at, more.into_iter().map(OsString::from));
    argv
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn check(argv: &str, toml: &str, variables: &[(&str, &str)]) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        std::fs::write(&path, toml).unwrap();
        let shown = |error: Error| error.to_string().replace(&dir.path().display().to_string(), "DIR");
        let options = Options::read(&path).map_err(shown)?;
        let variable = |name: &str| Some(variables.iter().find(|(key, _)| *key == name)?.1.to_owned());
        let argv = argv.split(' ').map(OsString::from).collect();
        super::check(&options, &Cli::command()).map_err(shown)?;
        let completed = completed(argv, &Cli::command(), &options, variable).map_err(shown)?;
        Ok(completed.join(" ".as_ref()).into_string().unwrap())
    }

    #[test]
    fn what_is_typed_wins_then_variables_then_the_file() {
        let toml = "model = 'a'\nthreads = 2\n[score]\nmethod = 'fsp'\nsystems = ['x', 'y']\nquiet = true\n";
        let all = "tribunal score --method=fsp";
        assert_eq!(
            check(all, toml, &[]).unwrap(),
            "tribunal score --method=fsp --quiet --systems=x --systems=y --model=a --threads=2"
        );
        assert_eq!(
            check("tribunal score --model b -- x", toml, &[("TRIBUNAL_THREADS", "7")]).unwrap(),
            "tribunal score --model b --threads=7 --method=fsp --quiet --systems=x --systems=y -- x"
        );
        assert_eq!(
            check("tribunal models list", "format = 'tsv'", &[]).unwrap(),
            "tribunal models list --format=tsv"
        );
        assert_eq!(check("tribunal methods list", "model = 'a'", &[]).unwrap(), "tribunal methods list");
    }

    #[test]
    fn a_run_is_repeated_with_its_own_model() {
        let (toml, variables) =
            ("model = 'a'\nrole = ['judge=a']\nseed = 3\nthreads = 2", [("TRIBUNAL_MODEL", "b")]);
        assert_eq!(
            check("tribunal verify run", toml, &variables).unwrap(),
            "tribunal verify run --threads=2"
        );
        let own = toml.to_owned() + "\n[rerun]\nmodel = 'c'";
        assert_eq!(
            check("tribunal rerun run", &own, &variables).unwrap(),
            "tribunal rerun run --model=c --threads=2"
        );
    }

    #[test]
    fn other_names_of_an_option_count_as_typed() {
        assert_eq!(
            check("tribunal score --lp en-de", "language-pair = 'en-ja'", &[]).unwrap(),
            "tribunal score --lp en-de"
        );
        assert_eq!(
            check("tribunal score -len-de", "language_pair = 'en-ja'", &[]).unwrap(),
            "tribunal score -len-de"
        );
        assert_eq!(check("tribunal --version", "model = 'a'", &[]).unwrap(), "tribunal --version");
    }

    #[test]
    fn files_with_mistakes() {
        insta::assert_snapshot!(check("tribunal score", "[score]\nmodle = 'a'", &[]).unwrap_err(), @"
        `DIR/config.toml`: `score` has no option `--modle`
        hint: did you mean `model`?
        ");
        insta::assert_snapshot!(check("tribunal meta", "[score]\nqwertz = 'a'", &[]).unwrap_err(), @"
        `DIR/config.toml`: `score` has no option `--qwertz`
        hint: `tribunal score --help` lists its options
        ");
        insta::assert_snapshot!(check("tribunal score", "modle = 'a'", &[]).unwrap_err(), @"
        `DIR/config.toml`: no command has an option `--modle`
        hint: did you mean `model`?
        ");
        insta::assert_snapshot!(check("tribunal score", "[scroe]\nmodel = 'a'", &[]).unwrap_err(), @"
        `DIR/config.toml`: there is no command `scroe`
        hint: did you mean `[score]`?
        ");
        insta::assert_snapshot!(check("tribunal score", "model = 2001-01-01", &[]).unwrap_err(),
            @"`DIR/config.toml`: `model` must be a text, a number, true or false, or a list of them");
    }
}
