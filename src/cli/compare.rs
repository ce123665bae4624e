//! `tribunal compare`: systems side by side where the inputs come from one judge, judges side by side where
//! they are about the same translations. It reads the arguments and decides which.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};

use super::{Command, command::without, output::Printed, parse, score};
use crate::{
    eval::{Evaluation, Invocation, JudgeSpec, ModelLoader, ModelSpec, Pair, Resources},
    meta::{self, systems::Coverage},
};
pub use input::Input;

mod input;
mod judges;
mod reliability;
mod systems;

/// Systems side by side, or judges: with paired significance, agreement, and differences.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Run folders, and score files: `SYSTEM SCORE` lines, JSONL, one column (its file name is the system),
    /// or the MQM TSV of human raters. Inputs on the same translations are compared as judges, others as
    /// systems of one judge.
    #[arg(required_unless_present = "source", value_name = "DIR|FILE")]
    pub inputs: Vec<PathBuf>,
    /// Source text, one segment per line: the translations of `-t` are judged first, as `tribunal score`
    /// judges them.
    #[arg(short, long, visible_alias = "sources", value_name = "FILE", requires_all = ["hypothesis", "pair"], conflicts_with = "inputs")]
    pub source: Option<PathBuf>,
    /// Translations, one segment per line, one file per system.
    #[arg(short = 't', long, visible_alias = "translations", value_name = "FILE", num_args = 1.., requires = "source")]
    pub hypothesis: Vec<PathBuf>,
    /// Reference translation, for methods that use one.
    #[arg(short, long, visible_alias = "references", value_name = "FILE", requires = "source")]
    pub reference: Option<PathBuf>,
    /// The run folder of what is judged first; default: that of `tribunal score`.
    #[arg(long, value_name = "DIR", requires = "source")]
    pub out: Option<PathBuf>,
    /// Compare all other systems with this one; by default the best one. None where the judge's means do not
    /// rank systems.
    #[arg(long, value_name = "SYSTEM")]
    pub baseline: Option<String>,
    /// Which units systems are compared on: common (those that every system has a score on) or each (each
    /// system's own; differences are over what two systems share)
    #[arg(long, default_value = "common", value_name = "POLICY", value_parser = crate::console::args::word::<Coverage>)]
    pub coverage: Coverage,
    /// Judges: human scores to agree with, from a folder in the layout of mt-metrics-eval.
    #[arg(long, value_name = "DIR", requires = "pair", conflicts_with = "source")]
    pub testset: Option<PathBuf>,
    /// Judges: the language pair of the test set, or of human annotations.
    #[arg(short = 'l', long = "language-pair", visible_alias = "lp", value_name = "SRC-TGT")]
    pub pair: Option<Pair>,
    /// Judges: which human scores, as of `tribunal meta`.
    #[arg(long, default_value_t, value_name = "NAME", requires = "testset")]
    pub gold: meta::gold::Wanted,
    /// Bootstrap, randomization and permutation resamples.
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = crate::console::args::up_to::<10_000_000>)]
    pub resamples: usize,
    /// Random seed.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub seed: u64,
    /// Take the inputs as run folders of one judge and say how well it agrees with itself.
    #[arg(long)]
    pub reliability: bool,
    #[command(flatten)]
    pub printed: Printed,
    /// How the translations of `-t` are judged.
    #[command(flatten)]
    pub judge: JudgeSpec,
    #[command(flatten)]
    pub model: ModelSpec,
    #[command(flatten)]
    pub engine: Resources,
}

/// Options of comparing systems; the others are those of judging them.
const OWN: [&str; 6] = ["--baseline", "--coverage", "--gold", "--resamples", "--seed", "--format"];
const OWN_FLAGS: [&str; 2] = ["--reliability", "--json"];

/// Judges the translations that the arguments name, and gives the run folder: the same as that of
/// `tribunal score`.
fn judge(args: &Args, invocation: &Invocation, load: ModelLoader) -> Result<PathBuf> {
    if args.hypothesis.len() < 2 && !args.reliability {
        bail!("only one system to compare\nhint: give several files, `-t SYSTEM-A.txt SYSTEM-B.txt`");
    }
    let words = invocation.command.iter().skip_while(|word| *word != "compare").skip(1);
    let words_of_run = without(words, &OWN, &OWN_FLAGS);
    let words: Vec<String> =
        ["tribunal", "score"].map(str::to_owned).into_iter().chain(words_of_run).collect();
    let Command::Score(score_args) = parse(words.clone())?.command else { bail!("not a `score` command") };
    let progress = score_args.run.shown().progress();
    let invocation = Invocation { command: words, progress, ..invocation.clone() };
    Ok(score::judge(&mut Evaluation::new(score_args.spec.clone())?, &invocation, load, score_args.run.quiet)?
        .dir)
}

/// Runs the command: exit code 1 where some verdict is missing.
///
/// # Errors
/// Unreadable inputs, inputs that cannot be compared, or that share no unit.
pub fn run(args: &Args, invocation: &Invocation, load: ModelLoader, out: &mut dyn Write) -> Result<ExitCode> {
    let judged;
    let args = if args.source.is_some() {
        judged = Args { inputs: vec![judge(args, invocation, load)?], ..args.clone() };
        &judged
    } else {
        args
    };
    if args.reliability {
        return reliability::run(&args.inputs, args.printed, out);
    }
    if let Some((twice, _)) = pairs(&args.inputs).find(|(a, b)| a == b) {
        bail!("`{}` is given twice", twice.display());
    }
    let inputs: Vec<Input> = Input::read_all(&args.inputs, args.pair.as_ref())?;
    if pairs(&inputs).any(|(a, b)| a.judgements.overlaps(&b.judgements)) {
        if let Some((a, b)) = pairs(&inputs).find(|(a, b)| !a.judgements.overlaps(&b.judgements)) {
            bail!(
                "`{}` and `{}` share no translation, but other inputs do; hint: give either runs of several judges \
                 on the same translations, or runs of one judge on different systems",
                a.judgements.name,
                b.judgements.name
            );
        }
        judges::run(args, &inputs, out)?;
    } else {
        if args.testset.is_some() {
            bail!(
                "--testset says which of several judges agrees more with the raters, but the inputs share no \
                 translation; hint: `tribunal meta --testset DIR -l LP --scores NAME=DIR`"
            );
        }
        systems::run(args, &inputs, out)?;
    }
    let complete = inputs.iter().all(|input| input.judgements.is_complete());
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Every two of some items, in order.
fn pairs<T>(items: &[T]) -> impl Iterator<Item = (&T, &T)> {
    items
        .iter()
        .enumerate()
        .flat_map(|(idx, first)| items[idx + 1..].iter().map(move |second| (first, second)))
}
