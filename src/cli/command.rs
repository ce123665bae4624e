//! Words clap's errors as the program's others, for negative numbers and what other programs call options and
//! commands too, and takes options out of a command line.

use clap::{
    Command, Error,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::console::stream::hinted;

mod elsewhere;

/// The words of a command line without some options: those with a value, and flags.
pub fn without<'a>(
    mut words: impl Iterator<Item = &'a String>,
    options: &[&str],
    flags: &[&str],
) -> Vec<String> {
    let mut remaining = Vec::new();
    while let Some(word) = words.next() {
        let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(n, v)| (n, Some(v)));
        let name = name.replace('_', "-");
        if options.contains(&name.as_str()) {
            if value.is_none() {
                words.next();
            }
        } else if !flags.contains(&name.as_str()) {
            remaining.push(word.clone());
        }
    }
    remaining
}

/// Lets the command take `-3` behind an option as its value, so that the message is about the number.
pub fn numbers(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let takes = arg.get_action().takes_values() && !arg.is_positional();
        if takes { arg.allow_negative_numbers(true) } else { arg }
    });
    command.mut_subcommands(numbers)
}

/// An error of clap in the voice of the program: the problem, and below it what helps. `argv`: the command
/// line. Help and versions are no errors.
pub fn reworded(error: Error, argv: &[String]) -> Error {
    let Some((problem, hints)) = worded(&error, argv) else { return error };
    let hints: String = hints.iter().map(|hint| format!("\nhint: {hint}")).collect();
    Error::raw(error.kind(), hinted(&format!("{problem}{hints}\n")))
}

/// The problem, and what helps; `None` where the error is about no argument.
fn worded(error: &Error, argv: &[String]) -> Option<(String, Vec<String>)> {
    let all = |kind| match error.get(kind) {
        Some(ContextValue::String(one)) => vec![one.clone()],
        Some(ContextValue::Strings(several)) => several.clone(),
        _ => Vec::new(),
    };
    let one = |kind| all(kind).into_iter().next().unwrap_or_default();
    let (argument, value) = (one(ContextKind::InvalidArg), one(ContextKind::InvalidValue));
    let option = argument.split(" <").next().unwrap_or_default();
    Some(match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let name = one(ContextKind::InvalidSubcommand);
            (format!("unknown command `{name}`"), vec![elsewhere::command(&name, argv)])
        }
        ErrorKind::UnknownArgument => {
            let option = option.split('=').next().unwrap_or_default();
            let problem = if option.starts_with('-') { "unknown option" } else { "unexpected argument" };
            (format!("{problem} `{option}`"), vec![elsewhere::option(option, argv)])
        }
        ErrorKind::InvalidValue if value.is_empty() => {
            (format!("`{option}` has no value"), vec![format!("`{argument}`")])
        }
        ErrorKind::InvalidValue => {
            (format!("`{option}` cannot be `{value}`"), values(&value, &all(ContextKind::ValidValue)))
        }
        ErrorKind::ValueValidation => {
            (format!("`{option} {value}`: {}", std::error::Error::source(error)?), Vec::new())
        }
        ErrorKind::MissingRequiredArgument => {
            let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
            let usage = usage.trim_start_matches("Usage:").trim();
            let page = "all files without an option are read; the page is written to `--out report.html`";
            let hint = if usage.contains(" report ") { page.into() } else { format!("`{usage}`") };
            (format!("missing: {}", listed(&all(ContextKind::InvalidArg))), vec![hint])
        }
        ErrorKind::ArgumentConflict if all(ContextKind::PriorArg) == [argument.as_str()] => {
            (format!("`{option}` is given twice"), Vec::new())
        }
        ErrorKind::ArgumentConflict => {
            let others = listed(&all(ContextKind::PriorArg));
            (format!("`{argument}` cannot be used with {others}"), Vec::new())
        }
        _ => return None,
    })
}

fn listed(names: &[String]) -> String {
    format!("`{}`", names.join("`, `"))
}

/// Hints for a value that is none of the known ones.
fn values(value: &str, known: &[String]) -> Vec<String> {
    let near: Vec<String> = known.iter().filter(|name| is_like(value, name)).cloned().collect();
    let near = (!near.is_empty()).then(|| format!("did you mean {}?", listed(&near)));
    near.into_iter().chain([format!("it can be {}", known.join(", "))]).collect()
}

/// True of a value that has this one among its words, as `mqm-tsv` has `tsv`, or differs by a typing error.
fn is_like(value: &str, known: &str) -> bool {
    known.split('-').any(|word| word == value) || strsim::osa_distance(value, known) == 1
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    fn said(argv: &[&str]) -> String {
        parse(argv.iter().map(|arg| (*arg).to_owned())).unwrap_err().to_string()
    }

    const SCORE: &str = "`tribunal score -s SOURCE.txt -t TRANSLATION.txt -l en-de` judges translations";

    /// Commands and options of other programs, and slips: what was typed, the problem and the hint.
    const CASES: &[(&str, &str, &str)] = &[
        ("evaluate", "unknown command `evaluate`", SCORE),
        ("eval", "unknown command `eval`", SCORE),
        ("judge -s a -t b", "unknown command `judge`", SCORE),
        ("run", "unknown command `run`", SCORE),
        ("version", "unknown command `version`", "`tribunal --version`"),
        ("list-models", "unknown command `list-models`", "`tribunal models list`"),
        ("list_methods", "unknown command `list_methods`", "`tribunal methods list`"),
        ("bench gpu", "unknown command `bench`", "`tribunal-bench`; from a clone"),
        ("comapre a", "unknown command `comapre`", "did you mean `compare`?"),
        ("models ls", "unknown command `ls`", "`tribunal models --help` lists the commands"),
        ("frobnicate", "unknown command `frobnicate`", "`tribunal --help` lists the commands"),
        (
            "src.txt hyp.A hyp.B --quiet",
            "unknown command `src.txt`",
            "`tribunal score -s src.txt -t hyp.A hyp.B -l en-de` judges translations",
        ),
        ("score --list_metrics", "unknown option `--list-metrics`", "`tribunal methods list`"),
        (
            "score --tokenize 13a",
            "unknown option `--tokenize`",
            "tokenizers belong to BLEU: `tribunal meta --lexical bleu:13a`",
        ),
        (
            "score --search x",
            "unknown option `--search`",
            "an option of methods: `--method rate:search=VALUE`",
        ),
        (
            "score --language-pairs en-de",
            "unknown option `--language-pairs`",
            "a run has one pair, `-l en-de`",
        ),
        ("score src.txt mt.txt", "unexpected argument `src.txt`", "pass files with options: `tribunal score"),
        ("score -s a --target=b", "unknown option `--target`", "translations are `-t FILE...`"),
        ("-s a -t b", "unknown option `-s`", "`tribunal score -s SOURCE.txt"),
        ("score --metric comet", "unknown option `--metric`", "a method is `--method NAME`"),
        ("score --methd fsp", "unknown option `--methd`", "did you mean `--method`?"),
        ("score --granul seg", "unknown option `--granul`", "did you mean `--granularity`?"),
        ("score --frobnicate", "unknown option `--frobnicate`", "`tribunal score --help` lists the options"),
        ("score --limit 2 --limit 3", "`--limit` is given twice", ""),
        ("score --limit", "`--limit` has no value", "`--limit <N>`"),
        (
            "export run --as tsv --out x",
            "`--as` cannot be `tsv`",
            "did you mean `mqm-tsv`, `csv`?\nhint: it can be mqm-tsv, ",
        ),
        ("score --limit 2 --subset 3", "`--limit <N>` cannot be used with `--subset <N>`", ""),
        ("export run", "missing: `--as <FORMAT>`, `--out <PATH>`", "`tribunal export --as <FORMAT>"),
    ];

    #[test]
    fn the_command_or_option_that_is_meant_is_named() {
        for (typed, problem, hint) in CASES {
            let said = said(&std::iter::once("tribunal").chain(typed.split(' ')).collect::<Vec<_>>());
            let hint = if hint.is_empty() { String::new() } else { format!("hint: {hint}") };
            assert!(said.starts_with(&format!("error: {problem}\n{hint}")), "{typed}: {said}");
            assert!(!said.contains("tip:") && !said.contains("Usage") && !said.contains('\''), "{said}");
        }
    }

    #[test]
    fn options_of_servers_clusters_and_metrics_are_answered_with_ours() {
        for (command, option, ours) in [
            (&["score"][..], "--max-model-len", "tribunal's is `--context N`"),
            (&["score"], "--max_model_len=4096", "tribunal's is `--context N`"),
            (&["score"], "--tensor-parallel-size", "tribunal's is `--tensor-parallel N`"),
            (&["ask"], "--gpu-memory-utilization", "tribunal's is `--kv-cache SIZE`"),
            (&["score"], "--quantization", "the weights are quantized as their file is"),
            (&["slurm", "submit"], "--partition", "tribunal's is `--sbatch partition=NAME`"),
            (&["score"], "--partition", "tribunal's is `--sbatch partition=NAME`"),
            (&["score"], "-p", "tribunal's is `--sbatch partition=NAME`"),
            (&["score"], "--num_workers", "tribunal's is `--threads N`"),
            (&["compare"], "--paired-bs", "`tribunal compare RUN`"),
            (&["meta"], "--test_set", "tribunal's is `--testset DIR`"),
        ] {
            let argv = [&["tribunal"][..], command, &[option, "4"]].concat();
            let said = said(&argv);
            assert!(said.starts_with("error: unknown option `-"), "{said}");
            assert!(said.contains(ours), "{option}: {said}");
        }
        let nodes = said(&["tribunal", "score", "--gpus-per-node", "4"]);
        assert!(nodes.contains("it is an option of `tribunal slurm submit`"), "{nodes}");
    }

    #[test]
    fn numbers_below_zero_are_refused_as_numbers() {
        for (option, value) in [("--seed", "-1"), ("--threads", "-3"), ("--limit", "-1")] {
            let said = said(&["tribunal", "score", option, value]);
            assert!(said.contains("it must be a whole number"), "{said}");
        }
    }
}
