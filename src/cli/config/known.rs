//! The names that a file of options and the environment may have, and suggestions for misspelt ones. It
//! reads neither.

use clap::Command;

use super::{FILE, Options, VARIABLES, find, longs};

/// What the program's variables begin with.
const PREFIX: &str = "TRIBUNAL_";

/// Variables that set no option, of the program and of its builds, tests, benchmarks and scripts: the list of all others is
/// [`VARIABLES`].
const OTHERS: &[&str] = &[
    FILE,
    "TRIBUNAL_ANSWERS",
    "TRIBUNAL_BENCH_MODEL",
    "TRIBUNAL_BINARY",
    "TRIBUNAL_BUILD_PROFILE",
    "TRIBUNAL_COMMIT",
    "TRIBUNAL_CUDA_GENERATIONS",
    "TRIBUNAL_DATA",
    "TRIBUNAL_EAPROMPT",
    "TRIBUNAL_EMULATED_DEVICES",
    "TRIBUNAL_EMULATED_DRIVER",
    "TRIBUNAL_EMULATED_FAULT_AFTER",
    "TRIBUNAL_EMULATED_FOLDED",
    "TRIBUNAL_EMULATED_FORGOTTEN_ASIDE",
    "TRIBUNAL_EMULATED_FORGOTTEN_EDGE",
    "TRIBUNAL_EMULATED_FORGOTTEN_WAIT",
    "TRIBUNAL_EMULATED_GRAPH_BYTES",
    "TRIBUNAL_EMULATED_HANGING_KERNEL",
    "TRIBUNAL_EMULATED_HOLLOW",
    "TRIBUNAL_EMULATED_LATE",
    "TRIBUNAL_EMULATED_LEAKS",
    "TRIBUNAL_EMULATED_LOST_AFTER",
    "TRIBUNAL_EMULATED_LOST_DEVICE",
    "TRIBUNAL_EMULATED_LYING_PEERS",
    "TRIBUNAL_EMULATED_MEMORY",
    "TRIBUNAL_EMULATED_MULTIPROCESSORS",
    "TRIBUNAL_EMULATED_ORDER",
    "TRIBUNAL_EMULATED_PEERS",
    "TRIBUNAL_EMULATED_SM",
    "TRIBUNAL_EMULATED_SMALL_DEVICE",
    "TRIBUNAL_EMULATED_TAKEN_AFTER",
    "TRIBUNAL_EMULATED_THREADS",
    "TRIBUNAL_EMULATED_TRACE",
    "TRIBUNAL_EMULATED_UNEQUAL_DEVICE",
    "TRIBUNAL_EMULATED_WRONG_EARLY",
    "TRIBUNAL_EMULATED_WRONG_KERNEL",
    "TRIBUNAL_FEATURES",
    "TRIBUNAL_FUZZ",
    "TRIBUNAL_GPU_CHECK",
    "TRIBUNAL_HOME",
    "TRIBUNAL_KILLS",
    "TRIBUNAL_OUT",
    "TRIBUNAL_REQUIRE",
    "TRIBUNAL_SAVED_PREFIXES",
    "TRIBUNAL_STEPS",
    "TRIBUNAL_STEP_CHECK",
    "TRIBUNAL_STEP_LIMIT",
    "TRIBUNAL_TARGET",
    "TRIBUNAL_TEST_EMULATED",
    "TRIBUNAL_TEST_GPU",
    "TRIBUNAL_TEST_PART",
    "TRIBUNAL_TEST_RANKS",
    "TRIBUNAL_TEST_TIERS",
    "TRIBUNAL_TOKENIZERS",
    "TRIBUNAL_WMT26_BASELINE",
];

/// How alike two names must be for one to be the other misspelt, 0..=1.
const ALIKE: f64 = 0.75;

/// The variable that sets an option.
#[must_use]
pub fn variable_of(option: &str) -> String {
    format!("{PREFIX}{}", option.replace('-', "_").to_uppercase())
}

/// A variable that the program does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stray {
    /// Something of the user's own, as far as one can tell.
    Unknown(String),
    /// What looks like a variable of the program, or an option that no variable sets.
    Misspelt { name: String, hint: String },
}

/// The names with the program's prefix that are no known variable.
pub fn strays<'a>(names: impl Iterator<Item = &'a str>, cli: &Command) -> Vec<Stray> {
    let options: Vec<String> = VARIABLES.iter().map(|option| variable_of(option)).collect();
    let known = || options.iter().map(String::as_str).chain(OTHERS.iter().copied());
    let is_option = |option: &str| every_command(cli).any(|command| find(command, option).is_some());
    let stray = |name: &str| {
        let option = name.strip_prefix(PREFIX)?.to_lowercase().replace('_', "-");
        if known().any(|known| known == name) {
            return None;
        }
        let name = name.to_owned();
        if let Some(near) = nearest(&option, VARIABLES.iter().copied()) {
            let hint = format!("did you mean `{}`?", variable_of(near));
            return Some(Stray::Misspelt { name, hint });
        }
        if is_option(&option) {
            let hint = format!("no variable sets `--{option}`; the file of options can");
            return Some(Stray::Misspelt { name, hint });
        }
        Some(match nearest(&name, OTHERS.iter().copied()).filter(|near| is_typing(&name, near)) {
            Some(near) => Stray::Misspelt { name, hint: format!("did you mean `{near}`?") },
            None => Stray::Unknown(name),
        })
    };
    names.filter_map(stray).collect()
}

/// Whether a name is another one with a slip or two of the fingers.
fn is_typing(a: &str, b: &str) -> bool {
    strsim::osa_distance(a, b) <= 2
}

/// The name that this one is nearest to, if it is near to any.
fn nearest<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(wanted, name);
    let near = known.map(|name| (likeness(name), name));
    let best = near.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(a.1)))?;
    let is_near = best.0 >= ALIKE || is_typing(wanted, best.1) && wanted.len() > 3;
    is_near.then_some(best.1)
}

/// All commands with those below them.
fn every_command(cli: &Command) -> impl Iterator<Item = &Command> {
    cli.get_subcommands().flat_map(|command| std::iter::once(command).chain(command.get_subcommands()))
}

/// The first name in a file of options that nothing has, with the command whose section it stands in and what may have
/// been meant.
#[must_use]
pub fn misspelt(options: &Options, cli: &Command) -> Option<Misspelt> {
    let all = every_command(cli).collect::<Vec<_>>();
    for option in options.common.keys() {
        if !all.iter().any(|command| find(command, option).is_some()) {
            return Some(Misspelt::Option {
                command: None,
                name: option.clone(),
                hint: meant(option, &all, "`tribunal COMMAND --help` lists the options of each"),
            });
        }
    }
    for (name, own) in &options.of_command {
        let Some(command) = cli.find_subcommand(name) else {
            let names: Vec<&str> = cli.get_subcommands().map(Command::get_name).collect();
            let near = nearest(name, names.iter().copied());
            let hint = near.map_or_else(
                || "`tribunal --help` lists the commands".into(),
                |near| format!("did you mean `[{near}]`?"),
            );
            return Some(Misspelt::Command { name: name.clone(), hint });
        };
        let of_command: Vec<&Command> = std::iter::once(command).chain(command.get_subcommands()).collect();
        for option in own.keys() {
            if !of_command.iter().any(|command| find(command, option).is_some()) {
                let hint = meant(option, &of_command, &format!("`tribunal {name} --help` lists its options"));
                return Some(Misspelt::Option { command: Some(name.clone()), name: option.clone(), hint });
            }
        }
    }
    None
}

/// A name in a file of options that nothing has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misspelt {
    Option { command: Option<String>, name: String, hint: String },
    Command { name: String, hint: String },
}

/// The option of these commands that was meant, as a hint; `otherwise` where none is near.
fn meant(option: &str, commands: &[&Command], otherwise: &str) -> String {
    let longs: Vec<String> =
        commands.iter().flat_map(|command| command.get_arguments().flat_map(longs)).collect();
    let near = nearest(&option.replace('_', "-"), longs.iter().map(String::as_str));
    near.map_or_else(|| otherwise.to_owned(), |near| format!("did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn check(name: &str) -> String {
        match strays([name].into_iter(), &Cli::command()).pop() {
            None => "known".into(),
            Some(Stray::Unknown(_)) => "unknown".into(),
            Some(Stray::Misspelt { hint, .. }) => hint,
        }
    }

    #[test]
    fn a_misspelt_variable_is_told_from_one_of_the_users_own() {
        for name in ["TRIBUNAL_MODLE", "TRIBUNAL_MODELS", "TRIBUNAL_MODEl"] {
            assert_eq!(check(name), "did you mean `TRIBUNAL_MODEL`?", "{name}");
        }
        assert_eq!(check("TRIBUNAL_KVCACHE"), "did you mean `TRIBUNAL_KV_CACHE`?");
        assert_eq!(check("TRIBUNAL_HOEM"), "did you mean `TRIBUNAL_HOME`?");
        assert_eq!(check("TRIBUNAL_PROMPTS"), "no variable sets `--prompts`; the file of options can");
        for name in ["TRIBUNAL_MODEL", "TRIBUNAL_DATA", "TRIBUNAL_TEST_GPU", "HOME", "TRIBUNALS"] {
            assert_eq!(check(name), "known", "{name}");
        }
        assert_eq!(check("TRIBUNAL_QUEUE_OF_OUR_CLUSTER"), "unknown");
    }

    /// Names in a text that begin like the program's variables.
    fn names(text: &str) -> impl Iterator<Item = String> {
        text.match_indices(PREFIX).map(|(at, _)| {
            text[at..]
                .chars()
                .take_while(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || *c == '_')
                .collect()
        })
    }

    #[test]
    fn every_variable_of_the_repository_is_known() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (mut open, mut n) = (vec![root.to_path_buf()], 0);
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
                let (path, name) = (entry.path(), entry.file_name().into_string().unwrap_or_default());
                if path.is_dir() {
                    let is_ours =
                        !name.starts_with('.') && !["target", "out", "dist"].contains(&name.as_str());
                    open.extend(Some(path).filter(|_| is_ours));
                } else if !path.ends_with("cli/config/known.rs")
                    && let Ok(text) = fs::read_to_string(&path)
                {
                    for name in names(&text).filter(|name| !name.ends_with('_')) {
                        // Examples of what is not known.
                        let is_example = name.ends_with("MODLE") || name.ends_with("OUR_CLUSTER");
                        let is_meant = is_example || check(&name) == "known";
                        assert!(is_meant, "{}: `{name}` is not in the list", path.display());
                        n += 1;
                    }
                }
            }
        }
        assert!(n > 50, "{n} names");
    }
}
