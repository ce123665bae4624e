//! What clap lacks: a word on numbers below zero and on options that other programs have, and command lines without some
//! of their options. It parses nothing.

use clap::{
    Command, Error,
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// What other programs call an option, and what it is here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("--target", "translations are `-t FILE...`"),
    ("--targets", "translations are `-t FILE...`"),
    ("--tgt", "translations are `-t FILE...`"),
    ("--mt", "translations are `-t FILE...`"),
    ("--system", "translations are `-t FILE...`, those of a test set `--systems A,B`"),
    ("--src", "the source text is `-s FILE`"),
    ("--ref", "the reference is `-r FILE`"),
    ("--lang", "the languages are `-l en-de`"),
    ("--langs", "the languages are `-l en-de`"),
    ("--language", "the languages are `-l en-de`"),
    ("--gpu", "a GPU is chosen by `--device cuda`"),
    ("--output", "the run folder is `--out DIR`"),
    (
        "--only-system",
        "`tribunal score` and `tribunal show` have it; what `tribunal compare` prints is about systems alone",
    ),
    ("-o", "the run folder is `--out DIR`"),
    ("-i", "translations are `-t FILE...`"),
    ("-s", "`tribunal score -s SOURCE.txt -t TRANSLATION.txt -l en-de` judges translations"),
    ("--metric", "a method is `--method NAME`; `tribunal methods` lists them"),
    ("-m", "a model is `--model NAME`, a method `--method NAME`"),
];

/// The words of a command line without some options: those with a value, and flags.
pub fn without<'a>(
    mut words: impl Iterator<Item = &'a String>,
    options: &[&str],
    flags: &[&str],
) -> Vec<String> {
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(n, v)| (n, Some(v)));
        let name = name.replace('_', "-");
        if options.contains(&name.as_str()) {
            if value.is_none() {
                words.next();
            }
        } else if !flags.contains(&name.as_str()) {
            kept.push(word.clone());
        }
    }
    kept
}

/// The same command, which takes `-3` behind an option as its value, so that the message is about the number.
pub fn numbers(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let takes = arg.get_action().takes_values() && !arg.is_positional();
        if takes { arg.allow_negative_numbers(true) } else { arg }
    });
    command.mut_subcommands(numbers)
}

/// The same error with a tip, where an argument is one that another program would take.
pub fn with_tip(mut error: Error) -> Error {
    if error.kind() == ErrorKind::MissingRequiredArgument && error.to_string().contains("--out <FILE.html>") {
        let tip = StyledStr::from(
            "all files without an option are read; the page is written to `--out report.html`",
        );
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    if error.kind() != ErrorKind::UnknownArgument || error.get(ContextKind::SuggestedArg).is_some() {
        return error;
    }
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return error };
    let name = given.split('=').next().unwrap_or_default();
    let tip = match ELSEWHERE.iter().find(|(other, _)| *other == name) {
        Some((_, tip)) => (*tip).to_owned(),
        None if !given.starts_with('-') => {
            "files stand behind options: `tribunal score -s SOURCE.txt -t TRANSLATION.txt -l en-de`"
                .to_owned()
        }
        None => return error,
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    error
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    fn said(argv: &[&str]) -> String {
        parse(argv.iter().map(|arg| (*arg).to_owned())).unwrap_err().to_string()
    }

    #[test]
    fn arguments_of_other_programs_are_answered() {
        let files = said(&["tribunal", "score", "src.txt", "mt.txt"]);
        assert!(files.contains("`src.txt`") || files.contains("'src.txt'"), "{files}");
        assert!(files.contains("tip: files stand behind options"), "{files}");
        let target = said(&["tribunal", "score", "-s", "a", "--target=b"]);
        assert!(target.contains("tip: translations are `-t FILE...`"), "{target}");
        let forgotten = said(&["tribunal", "-s", "a", "-t", "b"]);
        assert!(forgotten.contains("tip: `tribunal score -s SOURCE.txt"), "{forgotten}");
        let metric = said(&["tribunal", "score", "--metric", "comet"]);
        assert!(metric.contains("tip: a method is `--method NAME`"), "{metric}");
        let typo = said(&["tribunal", "score", "--methd", "fsp"]);
        assert!(typo.contains("'--method'") && !typo.contains("translations are"), "{typo}");
    }

    #[test]
    fn numbers_below_zero_are_refused_as_numbers() {
        for (option, value) in [("--seed", "-1"), ("--threads", "-3"), ("--limit", "-1")] {
            let said = said(&["tribunal", "score", option, value]);
            assert!(said.contains("it must be a whole number"), "{said}");
        }
    }
}
