//! Commands and options of other programs, and their counterparts here. It parses nothing.

use clap::{Command, CommandFactory as _};

use super::super::config::{longs, nearest};
use crate::judges::registry::METHODS;

/// Commands and options of other programs that people try, each with what does the same here.
fn names() -> impl Iterator<Item = (impl Iterator<Item = &'static str>, &'static str)> {
    let lines = include_str!("elsewhere.tsv").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once('\t')).map(|(names, ours)| (names.split(' '), ours))
}

/// The counterpart of another program's command or option.
fn ours(name: &str) -> Option<String> {
    names().find_map(|(mut names, ours)| names.any(|known| known == name).then(|| ours.to_owned()))
}

/// The command of a command line, as far as it is known, and its name with those above it.
fn called(argv: &[String]) -> (Command, String) {
    let (mut command, mut path) = (crate::cli::Cli::command(), "tribunal".to_owned());
    for word in argv.iter().skip(1).filter(|word| !word.starts_with('-')) {
        let Some(inner) = command.find_subcommand(word).cloned() else { break };
        path = format!("{path} {word}");
        command = inner;
    }
    (command, path)
}

/// The hint where there is no command of this name.
pub fn command(name: &str, argv: &[String]) -> String {
    let (above, path) = called(argv);
    let of_others = || ours(&name.replace('_', "-")).filter(|_| path == "tribunal");
    let near = || {
        Some(format!("did you mean `{}`?", nearest(name, above.get_subcommands().map(Command::get_name))?))
    };
    let files: Vec<&str> =
        argv.iter().skip(1).map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let judged = || match files.split_first() {
        Some((source, others)) if source.contains(['.', '/']) => {
            let texts = if others.is_empty() { "TRANSLATION.txt".to_owned() } else { others.join(" ") };
            Some(format!("`tribunal score -s {source} -t {texts} -l en-de` judges translations"))
        }
        _ => None,
    };
    of_others().or_else(near).or_else(judged).unwrap_or_else(|| format!("`{path} --help` lists the commands"))
}

/// The hint where the command has no option, or no argument, of this name.
pub fn option(name: &str, argv: &[String]) -> String {
    let (command, path) = called(argv);
    let Some(long) = name.strip_prefix("--") else {
        let files = "pass files with options: `tribunal score -s SOURCE.txt -t TRANSLATION.txt -l en-de`";
        let is_file = !name.starts_with('-') && path == "tribunal score";
        return ours(name).unwrap_or_else(|| {
            if is_file { files.into() } else { format!("`{path} --help` lists the arguments") }
        });
    };
    let of_others = || match &commands(long)[..] {
        [] => None,
        commands => Some(format!("it is an option of {}", commands.join(", "))),
    };
    let of_methods = || {
        let mut methods = METHODS.iter().filter(|method| method.options.iter().any(|of| of.name == long));
        Some(format!("an option of methods: `--method {}:{long}=VALUE`", methods.next()?.name))
    };
    let names: Vec<String> = command.get_arguments().flat_map(longs).collect();
    let near = || Some(format!("did you mean `--{}`?", nearest(long, names.iter().map(String::as_str))?));
    let known = ours(name).or_else(of_others).or_else(of_methods).or_else(near);
    known.unwrap_or_else(|| format!("`{path} --help` lists the options"))
}

/// Our commands that have an option of this name.
fn commands(long: &str) -> Vec<String> {
    let mut found = Vec::new();
    search(&crate::cli::Cli::command(), "tribunal", long, &mut found);
    found
}

fn search(command: &Command, path: &str, long: &str, found: &mut Vec<String>) {
    for inner in command.get_subcommands() {
        let path = format!("{path} {}", inner.get_name());
        if inner.get_arguments().any(|arg| arg.get_long() == Some(long)) {
            found.push(format!("`{path}`"));
        }
        search(inner, &path, long, found);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The options that a sentence names.
    fn named(said: &str) -> impl Iterator<Item = &str> {
        let words = said.split(['`', ' ', '|', ';', ',']);
        words.filter_map(|word| word.strip_prefix("--")).filter(|word| !word.is_empty())
    }

    #[test]
    fn each_name_stands_once_and_is_answered_with_options_that_there_are() {
        let all: Vec<&str> = names().flat_map(|(names, _)| names).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        let cli = crate::cli::Cli::command();
        assert!(all.iter().all(|name| cli.find_subcommand(name).is_none()), "{all:?}");
        for (_, said) in names() {
            // Of cargo, and of every program.
            for option in named(said).filter(|name| !["release", "help", "version"].contains(name)) {
                assert!(!commands(option).is_empty(), "{said}: there is no `--{option}`");
            }
        }
    }
}
