//! Configuration: options from a file, and from `TRIBUNAL_*` variables. They become arguments before the
//! command line is read, so that they are checked, signed and recorded as if they had been typed; what is
//! typed wins.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{Arg, ArgAction, Command};
use toml::{Table, Value};

use crate::files;

/// Options that a variable can set: `TRIBUNAL_KV_CACHE` is `--kv-cache`.
const VARIABLES: &str = "model adapter method preset weights device dtype activations kv-dtype kv-cache threads jobs batch \
                         cpu-tier language-pair seed format";

/// Options that a command takes only where they are typed for it, or set for it by name. Some repeat a run,
/// and take what can move a score from there; some know one method.
const ASIDE: &[(&str, &[&str])] = &[
    ("rerun", RECORDED),
    ("verify", RECORDED),
    ("calibrate", &["method"]),
    ("ask", FORMAT),
    ("cite", FORMAT),
    ("selftest", FORMAT),
];

/// Formats that commands without a table do not have.
const FORMAT: &[&str] = &["format"];

/// Options that a run folder records.
const RECORDED: &[&str] = &["model", "adapter", "role", "seed"];

/// The variable that names another file.
pub const FILE: &str = "TRIBUNAL_CONFIG";

/// Prefix of the program's variables.
const PREFIX: &str = "TRIBUNAL_";

/// Variables without an option, with the names that an option would have.
const SETTINGS: &str = "config home gpu-check step-check step-limit saved-prefixes";

/// Variables of the build, the scripts and the tests, which may be set where the program runs.
const OF_SCRIPTS: &str = "answers bench-model binary build-profile commit cuda-generations data eaprompt features fuzz \
                          kills out require steps target tokenizers wmt26-baseline";

/// Variables that environment modules and Spack set for a program of this name.
const OF_PACKAGES: &str = "dir root version";

/// Beginnings of variables of the tests, and of those that Kubernetes sets beside a service of this name.
const BEGINNINGS: [&str; 4] = ["TRIBUNAL_TEST_", "TRIBUNAL_EMULATED_", "TRIBUNAL_SERVICE_", "TRIBUNAL_PORT"];

/// Error of a file of options, or of a variable.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read `{path}`: {}", crate::files::explain(path, source))]
    Io { path: PathBuf, source: std::io::Error },
    #[error("`{path}`: {reason}")]
    Toml { path: PathBuf, reason: String },
    #[error("`{path}`: {reason}\nhint: {hint}")]
    Unknown { path: PathBuf, reason: String, hint: String },
    #[error("the variable `{name}` is not one of this program's\nhint: {hint}")]
    Variable { name: String, hint: String },
    #[error("`{path}`: `{option}` must be a text, a number, true or false, or a list of them")]
    Kind { path: PathBuf, option: String },
}

/// A file of options: those of every command that has them, and a table of its own for single commands.
#[derive(Debug, Default)]
pub struct Options {
    path: PathBuf,
    table: Table,
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
        let table = text
            .parse()
            .map_err(|error: toml::de::Error| Error::Toml { path: path.into(), reason: error.to_string() })?;
        Ok(Self { path: path.into(), table })
    }

    /// Checks that the file names only commands and options that there are.
    ///
    /// # Errors
    /// [`Error::Unknown`], with the nearest name.
    pub fn check(&self, cli: &Command) -> Result<(), Error> {
        let all: Vec<&Command> = cli.get_subcommands().flat_map(with_inner).collect();
        for (key, value) in &self.table {
            let Value::Table(options) = value else {
                self.check_option(key, &all, "no command has an option")?;
                continue;
            };
            let Some(command) = cli.find_subcommand(key) else {
                let near = nearest(key, cli.get_subcommands().map(Command::get_name));
                let hint = near.map_or_else(
                    || "`tribunal --help` lists the commands".into(),
                    |near| format!("did you mean `[{near}]`?"),
                );
                return Err(self.unknown(format!("there is no command `{key}`"), hint));
            };
            let commands: Vec<&Command> = with_inner(command).collect();
            options.keys().try_for_each(|option| {
                self.check_option(option, &commands, &format!("`{key}` has no option"))
            })?;
        }
        Ok(())
    }

    fn check_option(&self, option: &str, commands: &[&Command], reason: &str) -> Result<(), Error> {
        if commands.iter().any(|command| find(command, option).is_some()) {
            return Ok(());
        }
        let names: Vec<String> =
            commands.iter().flat_map(|command| command.get_arguments().flat_map(longs)).collect();
        let near = nearest(&option.replace('_', "-"), names.iter().map(String::as_str));
        let hint = near.map_or_else(
            || "`tribunal COMMAND --help` lists the options of each".into(),
            |near| format!("did you mean `{near}`?"),
        );
        Err(self.unknown(format!("{reason} `--{option}`"), hint))
    }

    fn unknown(&self, reason: String, hint: String) -> Error {
        Error::Unknown { path: self.path.clone(), reason, hint }
    }

    /// A command line with the options of variables and of this file behind it, where it does not have them
    /// itself.
    ///
    /// # Errors
    /// [`Error::Kind`] for values that are none.
    pub fn completed(
        &self,
        argv: Vec<OsString>,
        cli: &Command,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<OsString>, Error> {
        let words: Vec<String> = argv.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        let Some((name, command)) = subcommand(&words, cli) else { return Ok(argv) };
        let aside =
            ASIDE.iter().find(|(command, _)| *command == name).map_or(&[][..], |(_, options)| options);
        let set = |option: &str| variable(&variable_of(option)).filter(|value| !value.is_empty());
        let variables =
            VARIABLES.split(' ').filter_map(|option| Some((option.to_owned(), Value::String(set(option)?))));
        let common = self.table.clone().into_iter().filter(|(_, value)| !value.is_table());
        let is_shared = |(option, _): &(String, Value)| !aside.contains(&option.as_str());
        let of_command = self.table.get(&name).and_then(Value::as_table).cloned().unwrap_or_default();
        let mut more = Vec::new();
        let mut added = BTreeSet::new();
        for (option, value) in variables.filter(is_shared).chain(of_command).chain(common.filter(is_shared)) {
            let argument = find(command, &option).filter(|argument| !is_typed(&words, argument));
            if let Some(argument) = argument.filter(|argument| added.insert(argument.get_id())) {
                more.extend(self.arguments(&option, &value, argument)?);
            }
        }
        Ok(placed(argv, more))
    }

    fn arguments(&self, option: &str, value: &Value, argument: &Arg) -> Result<Vec<String>, Error> {
        let option = option.replace('_', "-");
        let typed = |value: &Value| match value {
            Value::String(text) => Ok(format!("--{option}={text}")),
            Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => Ok(format!("--{option}={value}")),
            _ => Err(Error::Kind { path: self.path.clone(), option: option.clone() }),
        };
        let is_flag = matches!(argument.get_action(), ArgAction::SetTrue | ArgAction::SetFalse);
        match value {
            Value::Boolean(true) if is_flag => Ok(vec![format!("--{option}")]),
            Value::Boolean(false) if is_flag => Ok(Vec::new()),
            Value::Array(values) => values.iter().map(typed).collect(),
            value => Ok(vec![typed(value)?]),
        }
    }
}

/// The variable that sets an option.
fn variable_of(option: &str) -> String {
    format!("{PREFIX}{}", option.replace('-', "_").to_uppercase())
}

/// Checks the names of the variables that are set, of which some may be other programs'.
///
/// # Errors
/// [`Error::Variable`] for one that begins with `TRIBUNAL_` and sets nothing.
pub fn check_variables<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), Error> {
    let names_of = |lists: [&'static str; 2]| lists.into_iter().flat_map(|list| list.split(' '));
    let ours = || names_of([VARIABLES, SETTINGS]);
    let is_known = |name: &str| {
        BEGINNINGS.iter().any(|prefix| name.starts_with(prefix))
            || ours().chain(names_of([OF_SCRIPTS, OF_PACKAGES])).any(|known| variable_of(known) == name)
    };
    let Some(name) = names.filter(|name| name.starts_with(PREFIX)).find(|name| !is_known(name)) else {
        return Ok(());
    };
    let option = name[PREFIX.len()..].to_lowercase().replace('_', "-");
    let hint = nearest(&option, ours()).map_or_else(
        || format!("unset it, or give it a name that does not begin with `{PREFIX}`"),
        |near| format!("did you mean `{}`?", variable_of(near)),
    );
    Err(Error::Variable { name: name.to_owned(), hint })
}

/// The name that this one begins, or that differs least from it, by at most two typing errors.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |of: &str| if of.starts_with(name) { 0 } else { strsim::osa_distance(name, of) };
    let (distance, near) = known.map(|known| (distance(known), known)).min()?;
    (distance <= 2 && name.len() > 3).then_some(near)
}

/// A command and those below it.
fn with_inner(command: &Command) -> impl Iterator<Item = &Command> {
    std::iter::once(command).chain(command.get_subcommands())
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

fn find<'a>(command: &'a Command, option: &str) -> Option<&'a Arg> {
    let option = option.replace('_', "-");
    command.get_arguments().find(|argument| longs(argument).any(|long| long == option))
}

/// The long names of an argument.
pub(super) fn longs(argument: &Arg) -> impl Iterator<Item = String> {
    let names = argument.get_long_and_visible_aliases().unwrap_or_default();
    names.into_iter().chain(argument.get_all_aliases().unwrap_or_default()).map(str::to_owned)
}

/// Returns true if an argument was typed, under any of its names.
fn is_typed(argv: &[String], argument: &Arg) -> bool {
    let mut typed = argv.iter().take_while(|arg| *arg != "--");
    typed.any(|arg| match arg.strip_prefix("--") {
        Some(long) => longs(argument).any(|name| long.split('=').next() == Some(name.as_str())),
        None => argument
            .get_short()
            .is_some_and(|short| arg.strip_prefix('-').is_some_and(|a| a.starts_with(short))),
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
        options.check(&Cli::command()).map_err(shown)?;
        let completed = options.completed(argv, &Cli::command(), variable).map_err(shown)?;
        Ok(completed.join(" ".as_ref()).into_string().unwrap())
    }

    #[test]
    fn what_is_typed_wins_then_variables_then_the_file() {
        let toml = "model = 'a'\nthreads = 2\n[score]\nmethod = 'fsp'\nsystems = ['x', 'y']\nquiet = true\n";
        let all = "tribunal score --method=fsp";
        assert_eq!(
            check(all, toml, &[]).unwrap(),
            "tribunal score --method=fsp --systems=x --systems=y --quiet --model=a --threads=2"
        );
        assert_eq!(
            check("tribunal score --model b -- x", toml, &[("TRIBUNAL_THREADS", "7")]).unwrap(),
            "tribunal score --model b --threads=7 --method=fsp --systems=x --systems=y --quiet -- x"
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
        hint: `tribunal COMMAND --help` lists the options of each
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

    #[test]
    fn variables_that_set_nothing_are_refused() {
        let check = |name: &str| check_variables([name].into_iter()).map_err(|error| error.to_string());
        for (name, hint) in [
            ("TRIBUNAL_MODLE", "did you mean `TRIBUNAL_MODEL`?"),
            ("TRIBUNAL_MODELS", "did you mean `TRIBUNAL_MODEL`?"),
            ("TRIBUNAL_MODEl", "did you mean `TRIBUNAL_MODEL`?"),
            ("TRIBUNAL_KVCACHE", "did you mean `TRIBUNAL_KV_CACHE`?"),
            ("TRIBUNAL_GPU_CHEK", "did you mean `TRIBUNAL_GPU_CHECK`?"),
            ("TRIBUNAL_STEPLIMIT", "did you mean `TRIBUNAL_STEP_LIMIT`?"),
            ("TRIBUNAL_STEPZ", "unset it, or give it a name that does not begin with `TRIBUNAL_`"),
            ("TRIBUNAL_KV_CACHE_GB", "unset it, or give it a name that does not begin with `TRIBUNAL_`"),
            ("TRIBUNAL_", "unset it, or give it a name that does not begin with `TRIBUNAL_`"),
        ] {
            let error = check(name).unwrap_err();
            assert!(error.contains(&format!("`{name}`")) && error.ends_with(hint), "{error}");
        }
        let of_pods = ["TRIBUNAL_SERVICE_HOST", "TRIBUNAL_PORT", "TRIBUNAL_PORT_80_TCP_ADDR"];
        let of_packages = ["TRIBUNAL_ROOT", "TRIBUNAL_DIR", "TRIBUNAL_VERSION"];
        let ours = ["TRIBUNAL_MODEL", "TRIBUNAL_HOME", "TRIBUNAL_EMULATED_LATE"];
        for name in [&of_pods[..], &of_packages, &ours, &["HOME", "MY_TRIBUNAL_MODLE"]].concat() {
            assert_eq!(check(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn variables_of_the_documentation_and_the_scripts_are_accepted() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut files = vec![root.join("README.md"), root.join(".ci/run")];
        for folder in ["docs", "scripts", "scripts/cuda", "kernels/emulated/driver"] {
            let entries = std::fs::read_dir(root.join(folder)).unwrap();
            files.extend(entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()));
        }
        let variable = regex::Regex::new("TRIBUNAL_[A-Z0-9_]+").unwrap();
        let mut n = 0;
        for path in files {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            for name in variable.find_iter(&text) {
                assert!(check_variables([name.as_str()].into_iter()).is_ok(), "{}: {name:?}", path.display());
                n += 1;
            }
        }
        assert!(n > 50, "{n} variables were found");
    }
}
