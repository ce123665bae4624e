//! Options of other programs, and their counterparts here. It parses nothing.

use clap::{Command, CommandFactory as _};

/// Options of other programs that people try, each with what does the same here.
fn options() -> impl Iterator<Item = (impl Iterator<Item = &'static str>, &'static str)> {
    let lines = include_str!("elsewhere.tsv").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once('\t')).map(|(names, ours)| (names.split(' '), ours))
}

/// The counterpart of another program's option.
pub fn ours(option: &str) -> Option<&'static str> {
    options().find_map(|(mut names, ours)| names.any(|name| name == option).then_some(ours))
}

/// Our commands that have an option of this name.
pub fn commands(option: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(long) = option.strip_prefix("--") {
        search(&crate::cli::Cli::command(), "tribunal", long, &mut found);
    }
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
        let names: Vec<&str> = options().flat_map(|(names, _)| names).collect();
        assert!(names.iter().all(|name| name.starts_with('-')), "{names:?}");
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        for (_, said) in options() {
            for option in named(said) {
                assert!(!commands(&format!("--{option}")).is_empty(), "{said}: there is no `--{option}`");
            }
        }
    }
}
