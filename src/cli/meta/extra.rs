//! The optional parts of `tribunal meta`: their selection, and the plots. The statistics are `meta`'s.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::Args;
use crate::cli::{output::write_in, raters};
use crate::meta::Error;
use crate::meta::eval_set::EvalSet;
use crate::meta::evaluate::SetResult;
use crate::meta::parts::{Parts, Request};
use crate::meta::slices::By;
use crate::meta::spans::counts::Definition;
use crate::meta::statistic::Statistic;
use crate::meta::task::TaskSet;
use crate::meta::verdicts;
use crate::meta::verdicts::Verdict;
use crate::report::statistics::{answers::Answers, plots};

/// An optional part of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Tests of all differences between metrics by permutation, with ranks and clusters
    Significance,
    /// Held-out tie calibration, chance level and bootstrap interval of acc-eq
    Calibration,
    /// Williams' test for every two metrics' Pearson correlations, of systems and of segments
    Williams,
    /// Detection of error-free segments: MCC at a threshold calibrated on other documents
    ErrorFree,
    /// Distributions of scores, and of errors by severity and type: the raters', and those of runs
    Distributions,
    /// Agreement of the human raters with each other, and of metrics with each of them
    Annotators,
    /// What the test set holds and how much of it is rated: segments, documents, systems, translations, by
    /// domain
    Testset,
    /// How long the answers of run folders are, and how many errors are named per second
    Answers,
    /// The error spans of the runs among `--scores` beside the raters', with `--by` also on each slice
    Spans,
    /// What a major error should cost, from the errors of the runs among `--scores`, such as one of eaprompt:
    /// the weight that makes the first --stat best (seg:acc-eq@item by default)
    LatentWeight,
}

/// The optional parts.
#[derive(Clone, Debug, clap::Args)]
pub struct ExtraArgs {
    /// Additional tables, comma-separated.
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',')]
    pub also: Vec<Part>,
    /// The same as `--also spans`, for a run that is not among `--scores`.
    #[arg(long, hide = true, value_name = "NAME=DIR")]
    pub spans: Vec<String>,
    /// Definitions of span F1 to show, by default all: offsets (WMT25's: spans where the judge has them,
    /// translation and source apart), fsp (the FSP paper's: quotes placed where the raters' spans are),
    /// wmt-qe (the quality estimation task's), mpp (WMT26's: spans matched one to one with partial credit).
    /// JSON has all.
    #[arg(long, value_name = "DEFINITION", value_delimiter = ',')]
    pub span_f1: Vec<Definition>,
    /// The same as `--also latent-weight`, for a run that is not among `--scores`.
    #[arg(long, hide = true, value_name = "NAME=DIR")]
    pub latent_weight: Vec<String>,
    /// Write plots as SVG files into this folder.
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
}

impl ExtraArgs {
    /// Returns true if a part was selected.
    #[must_use]
    pub fn wants(&self, part: Part) -> bool {
        self.also.contains(&part)
    }
}

/// The selected optional parts.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Extras {
    #[serde(flatten)]
    pub parts: Parts,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Answers>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plots: Vec<PathBuf>,
}

/// Computes the selected optional parts.
///
/// # Errors
/// Files that cannot be read, or scores that do not fit.
pub fn compute(args: &Args, set: &TaskSet, eval_sets: &[EvalSet], result: &SetResult) -> Result<Extras> {
    let wants = |part| args.extra.wants(part);
    let statistics: Vec<Statistic> =
        args.statistics.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
    let (mut spans, mut latent) = (named(&args.extra.spans)?, named(&args.extra.latent_weight)?);
    let runs = runs(args, &spans);
    for (part, of) in [(Part::Spans, &mut spans), (Part::LatentWeight, &mut latent)] {
        if wants(part) && runs.is_empty() {
            bail!(
                "`--also` names a part that is about runs, and there is none\nhint: `--scores NAME=DIR` with a run folder"
            );
        }
        if wants(part) {
            of.clone_from(&runs);
        }
    }
    let by = args.by.as_deref().map(By::named).transpose()?;
    let request = Request {
        seed: args.seed,
        statistics: &statistics,
        task: args.task.as_ref().map(|_| set),
        by: by.as_ref(),
        calibration: wants(Part::Calibration),
        williams: wants(Part::Williams),
        error_free: wants(Part::ErrorFree),
        distributions: wants(Part::Distributions),
        annotators: wants(Part::Annotators),
        testset: wants(Part::Testset),
        spans: &spans,
        runs: &runs,
        latent: &latent,
        verdicts: &verdicts_of,
    };
    let parts = Parts::of(&request, eval_sets)?;
    let answers = if wants(Part::Answers) { Answers::of(runs)? } else { Vec::new() };
    let mut plots = Vec::new();
    if let Some(dir) = &args.extra.plots {
        for (name, svg) in plots::plots(eval_sets, result)? {
            plots.push(write_in(dir, name, &svg)?);
        }
    }
    Ok(Extras { parts, answers, plots })
}

/// `NAME=DIR`.
fn named(texts: &[String]) -> Result<Vec<(String, PathBuf)>> {
    let named = |text: &String| {
        let (name, path) = text.split_once('=').with_context(|| format!("`{text}` is not NAME=DIR"))?;
        Ok((name.to_owned(), path.into()))
    };
    texts.iter().map(named).collect()
}

/// Runs whose errors can be read: those of `--spans`, and folders among `--scores`.
fn runs(args: &Args, spans: &[(String, PathBuf)]) -> Vec<(String, PathBuf)> {
    let mut runs = spans.to_vec();
    for (name, path) in args.scores.iter().filter_map(|text| text.split_once('=')) {
        if Path::new(path).is_dir() && !runs.iter().any(|(known, _)| known == name) {
            runs.push((name.to_owned(), path.into()));
        }
    }
    runs
}

/// The verdicts of a run folder, of a file of verdicts, or of human raters.
fn verdicts_of(path: &Path, lp: &str) -> Result<Vec<Verdict>, Error> {
    if path.is_file() && raters::is_annotations(path) {
        let pair = lp.parse().map_err(|error| Error::Unsuitable(format!("{error}")))?;
        return raters::verdicts(path, Some(&pair)).map_err(|error| Error::Unsuitable(format!("{error:#}")));
    }
    verdicts::read(path)
}
