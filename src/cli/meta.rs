//! `tribunal meta`: reads the arguments, loads a test set, prints tables or JSON. Every statistic is computed
//! in the crate `meta`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use super::{
    output::{Format, Printed},
    raters,
};

use crate::console::args::pair_name;
use crate::meta::coverage::CoveragePolicy;
use crate::meta::eval_set::EvalSet;
use crate::meta::evaluate;
use crate::meta::gold::Wanted;
use crate::meta::lexical::baseline::Baseline;
use crate::meta::scores::{is_metricx, units::Joining};
use crate::meta::selection::{Brought, Selection};
use crate::meta::significance::Resampling;
use crate::meta::standards::References;
use crate::meta::statistic::Statistic;
use crate::meta::task::TaskSet;
use crate::report::statistics::{
    long,
    notes::{NoteContext, trained_on_warnings},
};

mod extra;
pub mod hints;
mod text;

/// Agreement of metrics and judges with human raters.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Folder in the layout of mt-metrics-eval, or with MENT (`MENT.jsonl`, or its authors' workspace).
    #[arg(long, value_name = "DIR")]
    pub testset: PathBuf,
    /// Language pairs, separated by commas or spaces.
    #[arg(
        short = 'l',
        long = "language-pair",
        visible_alias = "lp",
        value_name = "SRC-TGT",
        value_delimiter = ',',
        value_parser = pair_name,
        num_args = 1..,
        required = true
    )]
    pub pairs: Vec<String>,
    /// Human scores to agree with: the NAME of `LP.NAME.seg.score`, or NAME,NAME for their mean;
    /// NAME@agreeing leaves out annotators who agree with no other one. `std_gold`: the shared task's own,
    /// elsewhere mqm.
    #[arg(long, default_value_t, value_name = "NAME")]
    pub gold: Wanted,
    /// Scores from outside the folder; PATTERN may hold {lp}, {level} (seg, sys) and {system}, or be a run's
    /// folder, or the MQM TSV of human raters.
    #[arg(long, value_name = "NAME=PATTERN")]
    pub scores: Vec<String>,
    /// Names of `--scores` where lower is better.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub negate: Vec<String>,
    /// The folder's metrics to show, by NAME or NAME-REF; default: those that score without a reference or
    /// against the standard one; `none` shows no metric of the folder.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub metrics: Vec<String>,
    /// Systems to compare; by default all machine systems that are not outliers.
    #[arg(long, value_name = "NAME", value_delimiter = ',', num_args = 1..)]
    pub systems: Vec<String>,
    /// Baselines to compute from the texts: bleu, bleu:TOKENIZER (13a, intl, zh, char, none), chrf, chrf++.
    #[arg(long, value_name = "METRIC", value_delimiter = ',')]
    pub lexical: Vec<String>,
    /// The reference to use instead of the shared task's, for one language pair or for all. Metrics that were
    /// given another one are not compared, and it is never a system itself.
    #[arg(long, value_name = "[LP=]NAME")]
    pub reference: Vec<String>,
    /// Translations that a metric is evaluated on: common (those that all metrics scored), each (all that it
    /// scored) or lowest (all; it gets its lowest score for those that it did not score). System scores are
    /// the metric's own, over all segments; those of a metric that lacks rated translations are means over
    /// what both sides scored, with official over all of either side. Default: common, with `--task fsp`
    /// official.
    #[arg(long, value_name = "POLICY")]
    pub coverage: Option<String>,
    /// The raters' score of a document, for judges that saw it as one text: the sum of its segments' scores,
    /// or their mean.
    #[arg(long, default_value = "sum", value_name = "sum|mean")]
    pub document_gold: Joining,
    /// Task set with its weights: wmt23, wmt24, wmt25, mmad, rate, fsp.
    #[arg(long, value_name = "SET")]
    pub task: Option<String>,
    /// Single statistics, LEVEL:NAME[@GROUPING], such as seg:acc-eq@item.
    #[arg(long = "stat", value_name = "STATISTIC", value_delimiter = ',')]
    pub statistics: Vec<String>,
    /// Statistics, and the average of `--task`, by slice: domain, doc, length (sources of up to 12, up to 27
    /// and more tokens) or length:N,N.
    #[arg(long, value_name = "SLICE")]
    pub by: Option<String>,
    /// Resamples of the tests.
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = crate::console::args::up_to::<10_000_000>)]
    pub resamples: usize,
    /// Random seed.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub seed: u64,
    #[command(flatten)]
    pub extra: extra::ExtraArgs,
    /// The terminal's columns; no limit where the output is not one.
    #[arg(skip)]
    pub width: Option<usize>,
    #[command(flatten)]
    pub printed: Printed,
}

/// Runs the command.
///
/// # Errors
/// Arguments or files that do not fit together.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<ExitCode> {
    check_format(args)?;
    let set = task_set(args)?;
    let selection = selection(args, &set)?;
    let eval_sets = load(args, &selection)?;
    let context = note_context(args);
    let result = evaluate::run(&set, &eval_sets, context.significance)?;
    let extras = extra::compute(args, &set, &eval_sets, &result, context.significance)?;
    if args.printed.is_json() {
        text::print_json(args, &context, &eval_sets, (&result, &extras), out)?;
    } else if args.printed.is_table() {
        // A table alone has no room for what stands below one.
        for warning in trained_on_warnings(&context, &eval_sets) {
            say!("warning: {warning}");
        }
        if args.printed.format() == Format::Latex {
            text::print_latex(&context, &eval_sets, (&result, &extras.0), out)?;
        } else {
            args.printed.table(&long::table(&result), out)?;
        }
    } else {
        text::print_tables(args, &context, &eval_sets, (&result, &extras), out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses parts with tables of their own where rows of one table are printed.
fn check_format(args: &Args) -> Result<()> {
    let part =
        args.extra.also.iter().find(|part| *part != "significance").map(|part| format!("--also {part}"));
    let part = part.or_else(|| args.by.as_ref().map(|by| format!("--by {by}")));
    match part.filter(|_| matches!(args.printed.format(), Format::Tsv | Format::Csv)) {
        None => Ok(()),
        Some(part) => bail!(
            "`{part}` prints tables of its own, and `--format tsv` or `csv` is one table\nhint: `--format json` has them all"
        ),
    }
}

/// The context of the notes below the tables.
fn note_context(args: &Args) -> NoteContext {
    let brought = args.scores.iter().filter_map(|scores| scores.split_once('='));
    NoteContext {
        brought: brought.map(|(name, path)| (name.to_owned(), path.to_owned())).collect(),
        significance: args
            .extra
            .also
            .iter()
            .any(|part| part == "significance")
            .then_some(Resampling { resamples: args.resamples.max(1), seed: args.seed }),
    }
}

fn selection(args: &Args, set: &TaskSet) -> Result<Selection> {
    let coverage = match args.coverage.as_deref() {
        None => set.coverage,
        Some("common") => CoveragePolicy::Common,
        Some("each") => CoveragePolicy::Each,
        Some("official") => CoveragePolicy::Official,
        Some("lowest") => CoveragePolicy::Lowest,
        Some(other) => bail!("unknown coverage `{other}`; hint: it can be common, each, official or lowest"),
    };
    let lexical: Result<Vec<Baseline>, _> = args.lexical.iter().map(|name| name.parse()).collect();
    let only_brought = args.metrics == ["none"];
    Ok(Selection {
        gold: args.gold.clone(),
        brought: brought(&args.scores, &args.negate)?,
        lexical: lexical?,
        metrics: if only_brought { Vec::new() } else { args.metrics.clone() },
        only_brought,
        systems: args.systems.clone(),
        coverage,
        joining: args.document_gold,
        references: References::parse(&args.reference, &args.pairs)?,
        seed: args.seed,
        known_as: set.testset().map(str::to_owned),
    })
}

/// Scores from outside the test set.
///
/// # Errors
/// A text that is not `NAME=PATTERN`, and a name of `negate` that no scores have.
pub fn brought(scores: &[String], negate: &[String]) -> Result<Vec<Brought>> {
    let mut brought = Vec::with_capacity(scores.len());
    for scores in scores {
        let (name, pattern) = scores.split_once('=').with_context(|| {
            let path = Path::new(scores);
            let example = if path.exists() {
                format!("NAME={scores}")
            } else {
                "'M-MAD=scores/{lp}.{level}.score', or NAME=DIR for the folder of a run".to_owned()
            };
            format!("`{scores}` is not NAME=PATTERN\nhint: `--scores {example}`")
        })?;
        brought.push(Brought {
            name: name.into(),
            pattern: pattern.into(),
            negate: negate.iter().any(|n| n == name),
            verdicts: None,
        });
    }
    match negate.iter().find(|name| !brought.iter().any(|one| one.name == **name)) {
        Some(unknown) => bail!("--negate names `{unknown}`, but no --scores has that name"),
        None => Ok(brought),
    }
}

fn task_set(args: &Args) -> Result<TaskSet> {
    if let Some(name) = &args.task {
        if !args.statistics.is_empty() {
            bail!("--task and --stat cannot be combined; hint: run twice");
        }
        return Ok(TaskSet::named(name, &args.pairs)?);
    }
    if args.statistics.is_empty() {
        return Ok(TaskSet::overview(&args.pairs));
    }
    let statistics: Result<Vec<Statistic>, _> = args.statistics.iter().map(|name| name.parse()).collect();
    Ok(TaskSet::from_statistics(&statistics?, &args.pairs))
}

/// Loads the selected pairs. Where there are several, a score file may be missing for some of them, but not
/// for all.
fn load(args: &Args, selection: &Selection) -> Result<Vec<EvalSet>> {
    let mut eval_sets = Vec::with_capacity(args.pairs.len());
    for lp in &args.pairs {
        let mut selection = selection.clone();
        if args.pairs.len() > 1 {
            selection.brought.retain(|one| brought_for(one, lp));
        }
        for one in &mut selection.brought {
            let path = PathBuf::from(one.pattern.replace("{lp}", lp));
            if is_metricx(&path) {
                say!(
                    "note: `{}` holds MetricX's `prediction`, where lower is better: read as its negative",
                    path.display()
                );
            }
            if path.is_file() && raters::is_annotations(&path) {
                one.verdicts = Some(raters::verdicts(&path, Some(&lp.parse()?))?);
            }
        }
        eval_sets.push(EvalSet::load(&args.testset, lp, &selection)?);
    }
    for one in &selection.brought {
        if !eval_sets.iter().any(|eval_set| eval_set.metric(&one.name).is_some()) {
            bail!("no score file for `{}` at `{}`{}", one.name, one.pattern, crate::meta::HOW_SCORES);
        }
    }
    if eval_sets.iter().all(|eval_set| eval_set.metrics.is_empty()) {
        bail!(
            "no metric to evaluate; hint: --scores NAME=PATTERN, --lexical bleu,chrf, or a test set with metric-scores"
        );
    }
    Ok(eval_sets)
}

fn brought_for(one: &Brought, lp: &str) -> bool {
    let pattern = one.pattern.replace("{lp}", lp);
    let exists = |level: &str| std::path::Path::new(&pattern.replace("{level}", level)).exists();
    pattern.contains("{system}") || exists("seg") || exists("sys")
}
