//! Adjusts clap's errors for negative numbers and options of other programs, and takes options out of a
//! command line.

use clap::{
    Command, Error,
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};

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

/// The error for `tribunal bench`.
const BENCH: &str = "unknown command `bench`: run `tribunal-bench` (from a clone, `cargo run --release -p tribunal-bench -- --help`)\n";

/// Rewords an error about an argument that another program or another command would take.
pub fn with_tip(mut error: Error) -> Error {
    if error.kind() == ErrorKind::MissingRequiredArgument && error.to_string().contains("--out <FILE.html>") {
        let tip = StyledStr::from(
            "all files without an option are read; the page is written to `--out report.html`",
        );
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    if error.kind() == ErrorKind::InvalidSubcommand
        && error.get(ContextKind::InvalidSubcommand) == Some(&ContextValue::String("bench".into()))
    {
        return Error::raw(ErrorKind::InvalidSubcommand, BENCH);
    }
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return error };
    let name = option.split('=').next().unwrap_or_default();
    if let Some(ours) = elsewhere::ours(name) {
        return Error::raw(ErrorKind::UnknownArgument, format!("unknown option `{name}`: {ours}\n"));
    }
    let commands = elsewhere::commands(name);
    if !commands.is_empty() {
        let commands = commands.join(", ");
        let message = format!("unknown option `{name}`: it is an option of {commands}\n");
        return Error::raw(ErrorKind::UnknownArgument, message);
    }
    if error.get(ContextKind::SuggestedArg).is_some() || option.starts_with('-') {
        return error;
    }
    let tip = "pass files with options: `tribunal score -s SOURCE.txt -t TRANSLATION.txt -l en-de`";
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
        assert!(files.contains("tip: pass files with options"), "{files}");
        let target = said(&["tribunal", "score", "-s", "a", "--target=b"]);
        assert!(target.contains("unknown option `--target`: translations are `-t FILE...`"), "{target}");
        let forgotten = said(&["tribunal", "-s", "a", "-t", "b"]);
        assert!(forgotten.contains("unknown option `-s`: `tribunal score -s SOURCE.txt"), "{forgotten}");
        let metric = said(&["tribunal", "score", "--metric", "comet"]);
        assert!(metric.contains("unknown option `--metric`: a method is `--method NAME`"), "{metric}");
        let bench = said(&["tribunal", "bench", "gpu"]);
        assert!(
            bench.starts_with("error: unknown command `bench`") && bench.contains("`tribunal-bench`"),
            "{bench}"
        );
        let typo = said(&["tribunal", "score", "--methd", "fsp"]);
        assert!(typo.contains("'--method'") && !typo.contains("translations are"), "{typo}");
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
            assert!(said.starts_with("error: unknown option `--") || option.len() == 2, "{said}");
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
