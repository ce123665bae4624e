//! The optional parts of `tribunal meta`: their selection, and the plots. The parts are `report`'s.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use super::Args;
use crate::{
    cli::{output::write_in, raters},
    meta::{
        Error,
        eval_set::EvalSet,
        evaluate::SetResult,
        parts::Request,
        significance::Resampling,
        slices::By,
        spans::counts::Definition,
        statistic::Statistic,
        task::TaskSet,
        verdicts::{self, Verdict},
    },
    report::statistics::{
        self,
        parts::{Context, Findings, PARTS},
        plots,
    },
};

/// The optional parts.
#[derive(Clone, Debug, clap::Args)]
pub struct ExtraArgs {
    /// Additional tables, comma-separated.
    #[arg(long, value_parser = part_name(), value_name = "PART", value_delimiter = ',')]
    pub also: Vec<String>,
    /// Definitions of span F1 to show, by default all: offsets (WMT25's: spans where the judge has them,
    /// translation and source apart), fsp (the FSP paper's: quotes placed where the raters' spans are),
    /// wmt-qe (the quality estimation task's), mpp (WMT26's: spans matched one to one with partial credit).
    /// JSON has all.
    #[arg(long, value_name = "DEFINITION", value_delimiter = ',')]
    pub span_f1: Vec<Definition>,
    /// Write plots as SVG files into this folder.
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
}

/// The names of the parts; slices are selected by `--by`.
fn part_name() -> impl TypedValueParser<Value = String> {
    let named = PARTS.iter().filter(|part| part.name != "slices");
    PossibleValuesParser::new(named.map(|part| PossibleValue::new(part.name).help(part.about)))
}

/// Computes the selected parts, and writes the plots; their paths are returned beside the findings.
///
/// # Errors
/// Files that cannot be read or written, or scores that do not fit.
pub fn compute(
    args: &Args,
    set: &TaskSet,
    sets: &[EvalSet],
    result: &SetResult,
    significance: Option<Resampling>,
) -> Result<(Findings, Vec<PathBuf>)> {
    let statistics: Vec<Statistic> =
        args.statistics.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
    let by = args.by.as_deref().map(By::named).transpose()?;
    let is_listed = |name: &str| args.extra.also.iter().any(|also| also == name);
    let runs = runs(args);
    if runs.is_empty() && ["spans", "latent-weight", "temperature"].into_iter().any(is_listed) {
        bail!(
            "`--also` names a part that is about runs, and there is none\nhint: `--scores NAME=DIR` with a run folder"
        );
    }
    let definitions = &args.extra.span_f1;
    let span_f1: Vec<Definition> = Definition::ALL
        .into_iter()
        .filter(|one| definitions.is_empty() || definitions.contains(one))
        .collect();
    let request = Request {
        seed: args.seed,
        statistics: &statistics,
        task: args.task.as_ref().map(|_| set),
        by: by.as_ref(),
        runs: &runs,
        verdicts: &verdicts_of,
    };
    let context = Context { request, sets, result, significance, span_f1: &span_f1 };
    let findings =
        context.compute(|name| is_listed(name) || name == "slices").map_err(|error| match error {
            statistics::Error::Meta(error) => anyhow::Error::from(error),
            other @ statistics::Error::Calls { .. } => other.into(),
        })?;
    let mut written = Vec::new();
    if let Some(dir) = &args.extra.plots {
        for (name, svg) in plots::plots(sets, result)? {
            written.push(write_in(dir, name, &svg)?);
        }
    }
    Ok((findings, written))
}

/// Runs whose errors can be read: the folders among `--scores`.
fn runs(args: &Args) -> Vec<(String, PathBuf)> {
    let scores = args.scores.iter().filter_map(|text| text.split_once('='));
    let folders = scores.filter(|(_, path)| Path::new(path).is_dir());
    folders.map(|(name, path)| (name.to_owned(), path.into())).collect()
}

/// The verdicts of a run folder, of a file of verdicts, or of human raters.
fn verdicts_of(path: &Path, lp: &str) -> Result<Vec<Verdict>, Error> {
    if path.is_file() && raters::is_annotations(path) {
        let pair = lp.parse().map_err(|error| Error::Unsuitable(format!("{error}")))?;
        return raters::verdicts(path, Some(&pair)).map_err(|error| Error::Unsuitable(format!("{error:#}")));
    }
    verdicts::read(path)
}
