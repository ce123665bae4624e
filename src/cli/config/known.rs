//! The names that a file of options and the environment may have, and suggestions for misspelt ones. It
//! reads neither.

use clap::Command;

use super::{FILE, Options, VARIABLES, find, longs};

/// Prefix of the program's variables.
const PREFIX: &str = "TRIBUNAL_";

/// Variables that set no option, and two of the scripts that have the name of one.
const OTHERS: &[&str] = &[
    FILE,
    "TRIBUNAL_ANSWERS",
    "TRIBUNAL_DATA",
    "TRIBUNAL_GPU_CHECK",
    "TRIBUNAL_HOME",
    "TRIBUNAL_OUT",
    "TRIBUNAL_SAVED_PREFIXES",
    "TRIBUNAL_STEP_CHECK",
    "TRIBUNAL_STEP_LIMIT",
    "TRIBUNAL_TARGET",
];

/// Least similarity of a misspelt name to the right one. Range: 0 to 1.
const ALIKE: f64 = 0.75;

/// The variable that sets an option.
#[must_use]
pub fn variable_of(option: &str) -> String {
    format!("{PREFIX}{}", option.replace('-', "_").to_uppercase())
}

/// The first of these names that resembles a misspelt variable of the program, or an option that no variable
/// sets, with a hint. Other names with the program's prefix are the user's own.
pub fn misspelt_variable<'a>(
    mut names: impl Iterator<Item = &'a str>,
    cli: &Command,
) -> Option<(String, String)> {
    let options: Vec<String> = VARIABLES.iter().map(|option| variable_of(option)).collect();
    let known = || options.iter().map(String::as_str).chain(OTHERS.iter().copied());
    let is_option = |option: &str| every_command(cli).any(|command| find(command, option).is_some());
    names.find_map(|name| {
        let option = name.strip_prefix(PREFIX)?.to_lowercase().replace('_', "-");
        if known().any(|known| known == name) {
            return None;
        }
        let hint = if let Some(near) = nearest(&option, VARIABLES.iter().copied()) {
            format!("did you mean `{}`?", variable_of(near))
        } else if is_option(&option) {
            format!("no variable sets `--{option}`; the file of options can")
        } else {
            let near = nearest(name, OTHERS.iter().copied()).filter(|near| is_typing(name, near))?;
            format!("did you mean `{near}`?")
        };
        Some((name.to_owned(), hint))
    })
}

/// Returns true if a name is another one with a typing error or two.
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

/// The first unknown name in a file of options, with the command of its section and the name that was
/// probably meant.
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
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn check(name: &str) -> String {
        misspelt_variable([name].into_iter(), &Cli::command()).map_or("known".into(), |(_, hint)| hint)
    }

    #[test]
    fn a_misspelt_variable_is_told_from_one_of_the_users_own() {
        for name in ["TRIBUNAL_MODLE", "TRIBUNAL_MODELS", "TRIBUNAL_MODEl"] {
            assert_eq!(check(name), "did you mean `TRIBUNAL_MODEL`?", "{name}");
        }
        assert_eq!(check("TRIBUNAL_KVCACHE"), "did you mean `TRIBUNAL_KV_CACHE`?");
        assert_eq!(check("TRIBUNAL_HOEM"), "did you mean `TRIBUNAL_HOME`?");
        assert_eq!(check("TRIBUNAL_PROMPTS"), "no variable sets `--prompts`; the file of options can");
        for name in ["TRIBUNAL_MODEL", "TRIBUNAL_QUEUE_OF_OUR_CLUSTER", "HOME"] {
            assert_eq!(check(name), "known", "{name}");
        }
        // Variables of the tests and scripts.
        for name in "ANSWERS BENCH_MODEL BINARY COMMIT DATA EMULATED_MEMORY FEATURES FUZZ KILLS OUT REQUIRE STEPS TARGET TEST_GPU \
                     TEST_PART TEST_RANKS TEST_TIERS TOKENIZERS"
            .split(' ')
        {
            assert_eq!(check(&format!("{PREFIX}{name}")), "known", "{name}");
        }
    }
}
