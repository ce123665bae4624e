//! `tribunal promptcue`: builds PROMPTCUE sets and scores answers to them. [`run`] asks the model.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Subcommand;

use super::output::{Printed, spare_runs};
use crate::{
    console::{args::pair_name, table::Table},
    eval::{Invocation, ModelLoader},
    files,
    meta::{standards::Rules, testset::TestSet},
    mqm::ratings::{self, Ratings},
    replication::promptcue::{
        answers,
        build::{Plan, Rated, Set, build},
        gold,
        labels::NO_ERROR,
        score::{Report, ScoreOptions, score},
    },
};

mod figures;
mod run;

pub use figures::{CorrelateArgs, DescribeArgs};
pub use run::RunArgs;

/// Commands for PROMPTCUE.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Build a GEN, PTB or MIS set from a rated test set.
    Build(BuildArgs),
    /// Ask a model about the marked spans of a set.
    Run(Box<RunArgs>),
    /// Score answers against a set.
    Score(ScoreArgs),
    /// Count the labels of a set, and how long its texts are.
    Describe(DescribeArgs),
    /// Correlate RUBRIC-MQM's recorded answers about reference translations with human scores.
    Correlate(CorrelateArgs),
}

/// The set to build, and its sources.
#[derive(Clone, Debug, clap::Args)]
pub struct BuildArgs {
    /// Folder in the layout of mt-metrics-eval, with `.seg.rating` files.
    #[arg(long, value_name = "DIR")]
    pub testset: PathBuf,
    /// Language pair.
    #[arg(short = 'l', long = "language-pair", visible_alias = "lp", value_name = "SRC-TGT", value_parser = pair_name)]
    pub pair: String,
    /// gen (all labels), ptb (perfect and perturbed), mis (mistranslation only).
    #[arg(long, value_name = "SET")]
    pub set: String,
    /// The file to write.
    #[arg(long, value_name = "FILE.jsonl")]
    pub out: PathBuf,
    /// Human ratings: the NAME of `LP.NAME.RATER.seg.rating`.
    #[arg(long, default_value = "mqm", value_name = "NAME")]
    pub gold: String,
    /// Cues per label (gen) or in the whole set (ptb, mis), half of them major or perturbed; by default 100
    /// and 1000, as in the paper.
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Random seed.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub seed: u64,
}

/// The answers to score, and their set.
#[derive(Clone, Debug, clap::Args)]
pub struct ScoreArgs {
    /// The set: CSV or JSONL.
    #[arg(long, value_name = "FILE")]
    pub gold: PathBuf,
    /// Answers: JSONL, or a folder that `promptcue run` wrote.
    #[arg(long, value_name = "FILE|DIR")]
    pub answers: PathBuf,
    /// Prompt scenario; by default the name of the file or folder up to the first underscore.
    #[arg(long, value_name = "NAME")]
    pub scenario: Option<String>,
    /// Use the labels recorded beside the answers instead of parsing the answers.
    #[arg(long)]
    pub recorded: bool,
    /// The points from which an error is major; by default the scenario's own.
    #[arg(long, value_name = "N")]
    pub threshold: Option<u32>,
    /// Pair answers with cues by the marked spans, for answers whose ids were renumbered.
    #[arg(long)]
    pub realign: bool,
    #[command(flatten)]
    pub printed: Printed,
}

/// Runs the command.
///
/// # Errors
/// If files or arguments do not fit together.
pub fn run(
    command: &Command,
    invocation: &Invocation,
    load: ModelLoader,
    out: &mut dyn Write,
) -> Result<ExitCode> {
    match command {
        Command::Build(args) => build_set(args)?,
        Command::Run(args) => {
            let (n, missing) = run::run(args, invocation, load)?;
            say!("{} of {n} cues have a usable answer in {}", n - missing, args.out.display());
            return Ok(ExitCode::from(u8::from(missing > 0)));
        }
        Command::Score(args) => score_answers(args, out)?,
        Command::Describe(args) => figures::describe_set(args, out)?,
        Command::Correlate(args) => figures::correlate(args, out)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn score_answers(args: &ScoreArgs, out: &mut dyn Write) -> Result<()> {
    let cues = gold::read(&args.gold)?;
    let recorded_answers = answers::read(&args.answers)?;
    let stem = files::stem(&args.answers);
    let scenario =
        args.scenario.clone().unwrap_or_else(|| stem.split('_').next().unwrap_or_default().to_owned());
    let options =
        ScoreOptions { scenario, recorded: args.recorded, threshold: args.threshold, realign: args.realign };
    let report = score(&cues, &recorded_answers, &options)?;
    print_report(args, &report, out)
}

fn print_report(args: &ScoreArgs, report: &Report, out: &mut dyn Write) -> Result<()> {
    if args.printed.is_json() {
        writeln!(out, "{}", serde_json::to_string_pretty(report)?)?;
        return Ok(());
    }
    let mut table = Table::new();
    table.head([report.scenario.as_str(), "accuracy", "macro-F1", "classes"]);
    for (name, found) in [("category", &report.category), ("severity", &report.severity)] {
        table.row([
            name.to_owned(),
            format!("{:.3}", found.accuracy),
            format!("{:.3}", found.macro_f1),
            found.n_classes.to_string(),
        ]);
    }
    if args.printed.table(&table, out)? {
        return Ok(());
    }
    writeln!(out, "{table}")?;
    let mut labels = Table::new();
    labels.head(["predicted", "%"]);
    for found in [&report.severity, &report.category] {
        let mut shares: Vec<(&String, &f64)> = found.distribution.iter().collect();
        shares.sort_by(|a, b| b.1.total_cmp(a.1));
        for (label, share) in shares {
            labels.row([label.clone(), format!("{share:.2}")]);
        }
    }
    writeln!(out, "{labels}")?;
    let without_error = report.category.predicted_for(NO_ERROR);
    if !without_error.is_empty() {
        let mut table = Table::new();
        table.head(["category of cues without an error", "%"]);
        for (label, share) in &without_error {
            table.row([(*label).to_owned(), format!("{share:.2}")]);
        }
        writeln!(out, "{table}")?;
    }
    print_notes(args, report, out)
}

/// Prints the notes below the tables: rates, thresholds, and misplaced answers.
fn print_notes(args: &ScoreArgs, report: &Report, out: &mut dyn Write) -> Result<()> {
    let value = |v: Option<f64>| v.map_or_else(|| "-".into(), |v| format!("{v:.3}"));
    writeln!(
        out,
        "precision of major {}, of mistranslation {}; recall of no-error {}; without an answer about the span {:.2}%",
        value(report.major_precision),
        value(report.mistranslation_precision),
        value(report.no_error_recall),
        100.0 * report.unanswered
    )?;
    if let (Some(threshold), Some((best, accuracy))) = (report.threshold, report.best_threshold) {
        writeln!(
            out,
            "major from {threshold} points; the best threshold here would be {best} (accuracy {accuracy:.3})"
        )?;
    }
    if report.cues_without_answer > 0 {
        writeln!(out, "{} cues have no answer and are left out", report.cues_without_answer)?;
    }
    let (by_id, realigned) = report.spans_named;
    if realigned > by_id + report.n / 10 && !args.realign {
        writeln!(
            out,
            "warning: {by_id} of {} answers name the span of their cue; {realigned} would if rows were lost and the ids renumbered; hint: --realign",
            report.n
        )?;
    }
    Ok(())
}

fn build_set(args: &BuildArgs) -> Result<()> {
    spare_runs(&args.out)?;
    let testset = TestSet::open(&args.testset, &args.pair)?;
    let set = match args.set.as_str() {
        "gen" => Set::Gen,
        "ptb" => Set::Ptb,
        "mis" => Set::Mis,
        other => bail!("there is no set `{other}`; hint: use gen, ptb or mis"),
    };
    let raters: Result<Vec<Ratings>> =
        testset.rating_files(&args.gold)?.into_iter().map(|(_, path)| Ok(ratings::read(&path)?)).collect();
    let raters = raters?;
    if raters.is_empty() {
        bail!(
            "`{}` has no ratings `{}` for `{}`; hint: --gold takes the NAME in `LP.NAME.RATER.seg.rating`",
            args.testset.display(),
            args.gold,
            args.pair
        );
    }
    let (source, target) = args.pair.split_once('-').context("a language pair is written like en-de")?;
    let plan = Plan {
        set,
        size: args.limit.unwrap_or(set.size()),
        seed: args.seed,
        source_lang: source.to_owned(),
        target_lang: target.to_owned(),
    };
    let reference = Rules::new(&testset, &args.testset, None, None)?.reference;
    let texts = Texts::read(&testset, &reference.context("the test set has no reference")?)?;
    let built = build(&texts.rated(&raters), &plan)?;
    let mut lines = Vec::new();
    for cue in &built.cues {
        writeln!(lines, "{}", serde_json::to_string(cue)?)?;
    }
    files::write(&args.out, |file| file.write_all(&lines))?;
    for cell in built.cells.iter().filter(|cell| cell.n < cell.wanted) {
        say!(
            "the ratings yield only {} of {} cues: {}, {}",
            cell.n,
            cell.wanted,
            cell.category,
            cell.severity
        );
    }
    say!("wrote {} cues to {}", built.cues.len(), args.out.display());
    Ok(())
}

/// The texts that rated translations borrow from.
struct Texts {
    sources: Vec<String>,
    reference: Vec<String>,
    outputs: Vec<(String, Vec<String>)>,
}

impl Texts {
    fn read(testset: &TestSet, reference: &str) -> Result<Self> {
        let machine = testset.machine_systems();
        let outputs: Result<Vec<_>> =
            machine.into_iter().map(|system| Ok((system.clone(), testset.output(&system)?))).collect();
        Ok(Self { sources: testset.sources()?, reference: testset.reference(reference)?, outputs: outputs? })
    }

    /// The translations that were rated; where several raters did, the first one's rating.
    fn rated<'a>(&'a self, raters: &'a [Ratings]) -> Vec<Rated<'a>> {
        let mut rated = Vec::new();
        for (system, output) in &self.outputs {
            for (segment, target) in output.iter().enumerate() {
                let errors = raters.iter().find_map(|rater| rater.get(system)?.get(segment)?.as_ref());
                if let Some(errors) = errors {
                    let (source, reference) = (&self.sources[segment], &self.reference[segment]);
                    rated.push(Rated { source, reference, target, errors });
                }
            }
        }
        rated
    }
}
