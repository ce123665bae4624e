//! The optional parts of a meta-evaluation: slices, held-out calibration, Williams' test, known mistakes,
//! distributions, agreement of raters, error spans, the weight of a major error.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{
    Error, Result,
    align::Aligned,
    average::Grouping,
    contents::Contents,
    correlation::Undefined,
    distribution::{Bins, ErrorShares, Summary, bins, error_shares, summary},
    eval_set::EvalSet,
    fit::{FitReport, examine},
    latent::{self, Latent},
    scores::Scores,
    significance::williams,
    slices::By,
    spans::{
        baseline::marks,
        report::{SpanMeans, SpanReport, compare, means},
    },
    statistic::Statistic,
    task::TaskSet,
    temperature::Calibration,
    units::{self, Unit},
    verdicts::{self, Verdict},
};
use crate::mqm::ratings::Ratings;

pub mod human;
mod sliced;

pub use sliced::{Sliced, slices};

/// Reads the verdicts of a run on a language pair.
pub type ReadVerdicts<'a> = dyn Fn(&Path, &str) -> Result<Vec<Verdict>> + 'a;

/// Inputs of the parts.
pub struct Request<'a> {
    pub seed: u64,
    /// Statistics on slices; empty: those of the task set, or Pearson, Kendall's tau-b and acc-eq. Weights
    /// are searched for the first.
    pub statistics: &'a [Statistic],
    /// The task set whose statistics and average are shown on slices.
    pub task: Option<&'a TaskSet>,
    /// The criterion of the slices; `None`: no slices.
    pub by: Option<&'a By>,
    /// Runs by name whose errors can be read.
    pub runs: &'a [(String, PathBuf)],
    pub verdicts: &'a ReadVerdicts<'a>,
}

/// A finding about one metric (or about the raters) on one language pair.
#[derive(Clone, Debug, Serialize)]
pub struct Of<T> {
    pub lp: String,
    pub name: String,
    pub found: T,
}

/// The error spans of one run on one slice.
#[derive(Clone, Debug, Serialize)]
pub struct SlicedSpans {
    pub lp: String,
    pub slice: String,
    pub name: String,
    pub found: SpanReport,
}

/// Distribution of the scores of a metric, or of the raters, over rated translations.
#[derive(Clone, Debug, Serialize)]
pub struct Distribution {
    pub summary: Summary,
    /// `None` unless the scores are penalties: 0 best, negative worse.
    pub bins: Option<Bins>,
}

/// Statistic that a weight is searched for unless one is named.
const LATENT: Statistic = Statistic::AccEq(Grouping::Item);

/// The held-out calibration of each metric's tie threshold.
///
/// # Errors
/// Scores that do not fit.
pub fn calibration(request: &Request<'_>, set: &EvalSet) -> Result<Vec<Of<Result<FitReport, Undefined>>>> {
    let metrics = aligned(set)?.into_iter();
    Ok(metrics.map(|(metric, scores)| of(set, &metric.name, examine(&scores, request.seed))).collect())
}

/// Williams' test of every two metrics.
///
/// # Errors
/// Scores that do not fit.
pub fn williams(set: &EvalSet) -> Result<Vec<Of<williams::Compared>>> {
    Ok(williams::compare_all(set)?.into_iter().map(|pair| of(set, "pearson", pair)).collect())
}

/// Number of systems, documents and segments in the test set, and how many of them are rated.
///
/// # Errors
/// Files that cannot be read.
pub fn contents(set: &EvalSet) -> Result<Vec<Of<Contents>>> {
    let rows = Contents::from_testset(&set.testset, &set.gold)?;
    Ok(rows.into_iter().map(|row| of(set, &set.gold.name, row)).collect())
}

fn of<T>(set: &EvalSet, name: &str, found: T) -> Of<T> {
    Of { lp: set.lp().to_owned(), name: name.to_owned(), found }
}

/// The segment scores of each metric that has some, then those of the baselines.
///
/// # Errors
/// Scores that do not fit the human ones.
pub fn aligned(set: &EvalSet) -> Result<Vec<(&Scores, Aligned)>> {
    let mut all = Vec::new();
    for metric in set.with_baselines() {
        if let Some(scores) = set.segments(metric, false)? {
            all.push((metric, scores));
        }
    }
    Ok(all)
}

/// Distributions of the scores of the raters and of each metric.
///
/// # Errors
/// Scores that do not fit.
pub fn distributions(set: &EvalSet) -> Result<Vec<Of<Distribution>>> {
    let mut all = Vec::new();
    let mut gold_done = false;
    let mut metrics = aligned(set)?;
    metrics.retain(|(metric, _)| set.metric(&metric.name).is_some());
    // The raters' own scores are those of segments, where any metric has those.
    metrics.sort_by_key(|(metric, _)| metric.units.is_some());
    for (metric, scores) in metrics {
        let cells = || scores.gold.iter().zip(&scores.metric).filter_map(|(g, m)| Some(((*g)?, (*m)?)));
        if !gold_done {
            let gold: Vec<f64> = scores.gold.iter().flatten().copied().collect();
            all.extend(distribution(&gold).map(|found| of(set, "human", found)));
            gold_done = true;
        }
        let values: Vec<f64> = cells().map(|(_, metric)| metric).collect();
        all.extend(distribution(&values).map(|found| of(set, &metric.name, found)));
    }
    Ok(all)
}

fn distribution(values: &[f64]) -> Option<Distribution> {
    Some(Distribution { summary: summary(values)?, bins: bins(values) })
}

/// The verdicts of a run on a language pair.
fn verdicts_of(request: &Request<'_>, path: &Path, set: &EvalSet) -> Result<Vec<Verdict>> {
    let mut verdicts = (request.verdicts)(path, set.lp())?;
    verdicts.retain(|verdict| verdict.pair() == set.lp());
    Ok(verdicts::placed(verdicts, &set.testset))
}

/// Errors of the raters, then those of each run, on the segments that were rated.
///
/// # Errors
/// Files that cannot be read.
pub fn rated_errors(request: &Request<'_>, set: &EvalSet) -> Result<Vec<Of<ErrorShares>>> {
    let ratings = set.gold_source.ratings(&set.testset)?;
    let mut shares = Vec::new();
    if !ratings.is_empty() {
        let columns = ratings.iter().flat_map(|(_, rater)| rater.iter());
        let machine = columns.filter(|(system, _)| set.machine.contains(*system));
        let errors = machine.flat_map(|(_, column)| column.iter().flatten().flatten());
        let named = errors.map(|error| (error.severity.as_str(), error.category.as_str()));
        shares.push(of(set, "human", error_shares(named)));
    }
    let gold = set.gold.segments.as_ref();
    for (name, path) in request.runs {
        let verdicts = verdicts_of(request, path, set)?;
        let units = units::run_units(path, &verdicts, &set.testset)?;
        let is_rated = |system: &str, seg: &usize| {
            let column = gold.map(|gold| gold.get(system));
            column.is_none_or(|column| column.is_some_and(|c| c.get(*seg).is_some_and(Option::is_some)))
        };
        let rated = verdicts.iter().zip(&units);
        let rated =
            rated.filter(|(verdict, unit)| unit.segs.iter().all(|seg| is_rated(&verdict.system, seg)));
        let errors = rated.flat_map(|(verdict, _)| &verdict.errors);
        let named = errors.map(|error| (error.severity.as_str(), error.category.as_str()));
        shares.push(of(set, name, error_shares(named)));
    }
    Ok(shares)
}

/// The verdicts of a run or a baseline, with the unit that each covers.
struct Judged {
    name: String,
    verdicts: Vec<Verdict>,
    units: Vec<Unit>,
}

/// The error spans of runs and of baselines beside the raters'.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    pub reports: Vec<Of<SpanReport>>,
    /// The reports on each slice; empty where no verdict covers a rated segment.
    pub slices: Vec<SlicedSpans>,
    /// Means over language pairs, where there are several.
    pub means: Vec<SpanMeans>,
}

/// The reports of all runs, then of the baselines, over each language pair and over each of its slices.
///
/// # Errors
/// Files that cannot be read, and runs without a verdict on a segment that the raters marked.
pub fn spans(request: &Request<'_>, sets: &[EvalSet]) -> Result<Spans> {
    let mut found = Spans::default();
    sets.iter().try_for_each(|set| spans_of_pair(request, set, &mut found))?;
    if sets.len() > 1 {
        found.means = means(&found.reports.iter().map(|of| &of.found).collect::<Vec<_>>());
    }
    Ok(found)
}

fn spans_of_pair(request: &Request<'_>, set: &EvalSet, all: &mut Spans) -> Result<()> {
    let ratings: Vec<Ratings> =
        set.gold_source.ratings(&set.testset)?.into_iter().map(|(_, ratings)| ratings).collect();
    let documents: Vec<String> = set.testset.places.iter().map(|place| place.doc.clone()).collect();
    let slices = request.by.map(|by| by.slices(&set.testset)).transpose()?.unwrap_or_default();
    let mut judged = Vec::new();
    for (name, path) in request.runs {
        let verdicts = verdicts_of(request, path, set)?;
        if !verdicts.is_empty() {
            let units = units::run_units(path, &verdicts, &set.testset)?;
            judged.push(Judged { name: name.clone(), verdicts, units });
        }
    }
    if judged.is_empty() {
        return Ok(());
    }
    let mut outputs = BTreeMap::new();
    for system in &set.machine {
        outputs.insert(system.clone(), set.testset.output(system)?);
    }
    let baselines = marks(&outputs, &ratings, set.lp(), request.seed).into_iter();
    judged.extend(baselines.map(|(name, verdicts, units)| Judged { name: name.into(), verdicts, units }));
    for Judged { name, verdicts, units } in &judged {
        let report = compare(name, verdicts, units, &ratings, &documents).ok_or_else(|| {
            Error::Unsuitable(format!(
                "no verdict of `{name}` on `{}` covers a segment that the raters marked",
                set.lp()
            ))
        })?;
        all.reports.push(of(set, name, report));
        for (slice, segments) in &slices {
            // A document belongs to a slice that contains all of it.
            let segments: BTreeSet<usize> = segments.iter().copied().collect();
            let part = verdicts.iter().zip(units);
            let part = part.filter(|(_, unit)| unit.segs.iter().all(|seg| segments.contains(seg)));
            let (verdicts, units): (Vec<_>, Vec<_>) =
                part.map(|(verdict, unit)| (verdict.clone(), unit.clone())).unzip();
            let (lp, slice, name) = (set.lp().to_owned(), slice.clone(), name.clone());
            let found = compare(&name, &verdicts, &units, &ratings, &documents);
            all.slices.extend(found.map(|found| SlicedSpans { lp, slice, name, found }));
        }
    }
    Ok(())
}

/// ReMedy's calibration of each run of a score head.
///
/// # Errors
/// Files that cannot be read, and runs of other methods.
pub fn temperatures(request: &Request<'_>, set: &EvalSet) -> Result<Vec<Of<Result<Calibration, Undefined>>>> {
    let mut found = Vec::new();
    for (name, path) in request.runs {
        let verdicts = verdicts_of(request, path, set)?;
        if !verdicts.is_empty() {
            found.push(of(set, name, Calibration::from_verdicts(name, &verdicts)?));
        }
    }
    Ok(found)
}

/// The weight of a major error that agrees best, for each run.
///
/// # Errors
/// Files that cannot be read, and runs over documents.
pub fn latent_weights(request: &Request<'_>, set: &EvalSet) -> Result<Vec<Of<Result<Latent, Undefined>>>> {
    let statistic = request.statistics.first().copied().unwrap_or(LATENT);
    let mut found = Vec::new();
    for (name, path) in request.runs {
        let verdicts = verdicts_of(request, path, set)?;
        if !verdicts.is_empty() {
            found.push(of(set, name, latent::search(name, &verdicts, set, statistic)?));
        }
    }
    Ok(found)
}
