//! The optional parts of `tribunal meta`: slices, calibration, lint, distributions, raters, spans, plots.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use super::{Args, answers::Answers};
use crate::cli::raters;
use crate::files;
use crate::meta::align::Aligned;
use crate::meta::annotators::{self, RaterPair};
use crate::meta::average::Grouping;
use crate::meta::contents::Contents;
use crate::meta::correlation::Undefined;
use crate::meta::distribution::{Bins, ErrorShares, Summary, bins, error_shares, summary};
use crate::meta::eval_set::EvalSet as Direction;
use crate::meta::evaluate::SetResult;
use crate::meta::fit::{FitReport, examine};
use crate::meta::latent::{self, Latent};
use crate::meta::lint::{Finding, lint};
use crate::meta::scores::Scores;
use crate::meta::significance::williams;
use crate::meta::slices::By;
use crate::meta::spans::counts::Definition;
use crate::meta::spans::report::{SpanMeans, SpanReport, compare, means};
use crate::meta::statistic::{Measured, Statistic};
use crate::meta::verdicts::Verdict;
use crate::meta::{plot, units, verdicts};
use crate::mqm::ratings::{self, Ratings};

/// A part that is left out unless it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Tests of all differences between metrics by permutation, with ranks and clusters
    Significance,
    /// Held-out tie calibration, chance level and bootstrap interval of acc-eq
    Calibration,
    /// Williams' test for every two metrics' Pearson correlations, of systems and of segments
    Williams,
    /// Known mistakes in the scores
    Lint,
    /// Distributions of scores, and of errors by severity and type: the raters', and those of runs
    Distributions,
    /// Agreement of the human raters with each other
    Annotators,
    /// What the test set holds and how much of it is rated: segments, documents, systems, translations, by domain
    Testset,
    /// How long the answers of run folders are, and how many errors they name a second
    Answers,
}

/// The optional parts.
#[derive(Clone, Debug, clap::Args)]
pub struct ExtraArgs {
    /// More than the main table; may name several.
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',')]
    pub also: Vec<Part>,
    /// Compare the error spans of a run (or a verdicts file) with the raters', with `--by` also on each slice.
    #[arg(long, value_name = "NAME=DIR")]
    pub spans: Vec<String>,
    /// Definitions of span F1 to show: offsets (spans where the judge has them, translation and source apart), fsp (the
    /// FSP paper's: quotes placed where the raters' spans are), wmt-qe (the quality estimation task's); by default
    /// offsets, with `--task fsp` also fsp. JSON has all.
    #[arg(long, value_name = "DEFINITION", value_delimiter = ',')]
    pub span_f1: Vec<Definition>,
    /// Find out what a major error should cost from the errors of a run, such as one of eaprompt: the weight
    /// that makes the first --stat best (seg:acc-eq@item by default).
    #[arg(long, value_name = "NAME=DIR")]
    pub latent_weight: Vec<String>,
    /// Write plots as SVG files into this folder.
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
}

impl ExtraArgs {
    /// Whether a part was asked for.
    #[must_use]
    pub fn wants(&self, part: Part) -> bool {
        self.also.contains(&part)
    }
}

/// What was asked for.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Extras {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<Sliced>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calibration: Vec<Of<Result<FitReport, Undefined>>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub williams: Vec<Of<williams::Compared>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lint: Option<Vec<Finding>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub distributions: Vec<Of<Distribution>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Of<ErrorShares>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotators: Option<Vec<Of<RaterPair>>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub testset: Vec<Of<Contents>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Answers>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<Of<SpanReport>>,
    /// The same on the slices of `--by`; none where no verdict covers a rated segment.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub span_slices: Vec<SlicedSpans>,
    /// Means over language pairs, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub span_means: Vec<SpanMeans>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub latent: Vec<Of<Result<Latent, Undefined>>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plots: Vec<PathBuf>,
}

/// A finding about one metric (or about the raters) on one language pair.
#[derive(Clone, Debug, Serialize)]
pub struct Of<T> {
    pub lp: String,
    pub name: String,
    pub found: T,
}

/// One statistic of one metric on one slice.
#[derive(Clone, Debug, Serialize)]
pub struct Sliced {
    pub lp: String,
    pub slice: String,
    pub n_segments: usize,
    pub metric: String,
    pub statistic: String,
    pub value: Result<Measured, Undefined>,
}

/// The error spans of one run on one slice.
#[derive(Clone, Debug, Serialize)]
pub struct SlicedSpans {
    pub lp: String,
    pub slice: String,
    pub name: String,
    pub found: SpanReport,
}

/// How the scores of a metric, or of the raters, are distributed over rated translations.
#[derive(Clone, Debug, Serialize)]
pub struct Distribution {
    pub summary: Summary,
    /// `None` unless the scores are penalties: 0 best, negative worse.
    pub bins: Option<Bins>,
}

/// Statistics shown by slice unless others are named.
const SLICED: [&str; 3] = ["seg:pearson@none", "seg:kendall-b@none", "seg:acc-eq@item"];

/// What `--latent-weight` makes best unless a statistic is named.
const LATENT: &str = "seg:acc-eq@item";

/// Computes what was asked for.
///
/// # Errors
/// Files that cannot be read, or scores that do not fit.
pub fn compute(args: &Args, directions: &[Direction], result: &SetResult) -> Result<Extras> {
    let wants = |part| args.extra.wants(part);
    let mut extras = Extras { lint: wants(Part::Lint).then(Vec::new), ..Extras::default() };
    for direction in directions {
        if let Some(by) = &args.by {
            extras.slices.extend(sliced(args, direction, By::named(by)?)?);
        }
        if wants(Part::Calibration) {
            for (metric, scores) in aligned(direction)? {
                extras.calibration.push(of(direction, &metric.name, examine(&scores, args.seed)));
            }
        }
        if wants(Part::Williams) {
            let pairs = williams::compare_all(direction)?;
            extras.williams.extend(pairs.into_iter().map(|pair| of(direction, "pearson", pair)));
        }
        if let Some(findings) = &mut extras.lint {
            findings.extend(lint(direction)?);
        }
        if wants(Part::Distributions) {
            extras.distributions.extend(distributions(direction)?);
            extras.errors.extend(rated_errors(args, direction)?);
        }
        if wants(Part::Annotators) {
            extras.annotators.get_or_insert_default().extend(raters(args, direction)?);
        }
        if wants(Part::Testset) {
            let rows = Contents::of(&direction.testset, &direction.gold)?;
            extras.testset.extend(rows.into_iter().map(|row| of(direction, &args.gold, row)));
        }
        spans(args, direction, &mut extras)?;
        extras.latent.extend(latent_weights(args, direction)?);
    }
    let reports: Vec<&SpanReport> = extras.spans.iter().map(|of| &of.found).collect();
    if directions.len() > 1 {
        extras.span_means = means(&reports);
    }
    if wants(Part::Answers) {
        extras.answers = Answers::of(runs(args)?)?;
    }
    if let Some(dir) = &args.extra.plots {
        extras.plots = plots(dir, directions, result)?;
    }
    Ok(extras)
}

fn of<T>(direction: &Direction, name: &str, found: T) -> Of<T> {
    Of { lp: direction.lp().to_owned(), name: name.to_owned(), found }
}

fn aligned(direction: &Direction) -> Result<Vec<(&Scores, Aligned)>> {
    let mut all = Vec::new();
    for metric in &direction.metrics {
        if let Some(scores) = direction.segments(metric, false)? {
            all.push((metric, scores));
        }
    }
    Ok(all)
}

fn sliced(args: &Args, direction: &Direction, by: By) -> Result<Vec<Sliced>> {
    let names: Vec<&str> = if args.statistics.is_empty() {
        SLICED.to_vec()
    } else {
        args.statistics.iter().map(String::as_str).collect()
    };
    let slices = by.slices(&direction.testset)?;
    let mut rows = Vec::new();
    for (metric, scores) in aligned(direction)? {
        for (slice, segments) in &slices {
            // A document belongs to a slice that it lies wholly within.
            let within = metric.units.as_ref().map(|units| units.within(segments));
            let part = scores.select(within.as_ref().unwrap_or(segments));
            for name in &names {
                let statistic: Statistic = name.parse()?;
                rows.push(Sliced {
                    lp: direction.lp().into(),
                    slice: slice.clone(),
                    n_segments: part.coverage().rated_segments,
                    metric: metric.name.clone(),
                    statistic: statistic.to_string(),
                    value: statistic.over_segments(&part),
                });
            }
        }
    }
    Ok(rows)
}

fn distributions(direction: &Direction) -> Result<Vec<Of<Distribution>>> {
    let mut all = Vec::new();
    let mut gold_done = false;
    let mut metrics = aligned(direction)?;
    // The raters' own scores are those of segments, where any metric has those.
    metrics.sort_by_key(|(metric, _)| metric.units.is_some());
    for (metric, scores) in metrics {
        let cells = || scores.gold.iter().zip(&scores.metric).filter_map(|(g, m)| Some(((*g)?, (*m)?)));
        if !gold_done {
            let gold: Vec<f64> = scores.gold.iter().flatten().copied().collect();
            all.extend(distribution(&gold).map(|found| of(direction, "human", found)));
            gold_done = true;
        }
        let values: Vec<f64> = cells().map(|(_, metric)| metric).collect();
        all.extend(distribution(&values).map(|found| of(direction, &metric.name, found)));
    }
    Ok(all)
}

fn distribution(values: &[f64]) -> Option<Distribution> {
    Some(Distribution { summary: summary(values)?, bins: bins(values) })
}

fn ratings(args: &Args, direction: &Direction) -> Result<Vec<(String, Ratings)>> {
    let files = direction.testset.rating_files(&args.gold)?;
    files.into_iter().map(|(rater, path)| Ok((rater, ratings::read(&path)?))).collect()
}

/// Errors of the raters, then those of each run, on the segments that were rated.
fn rated_errors(args: &Args, direction: &Direction) -> Result<Vec<Of<ErrorShares>>> {
    let ratings = ratings(args, direction)?;
    let mut shares = Vec::new();
    if !ratings.is_empty() {
        let columns = ratings.iter().flat_map(|(_, rater)| rater.iter());
        let machine = columns.filter(|(system, _)| direction.machine.contains(*system));
        let errors = machine.flat_map(|(_, column)| column.iter().flatten().flatten());
        let named = errors.map(|error| (error.severity.as_str(), error.category.as_str()));
        shares.push(of(direction, "human", error_shares(named)));
    }
    let gold = direction.gold.segments.as_ref();
    for (name, path) in runs(args)? {
        let verdicts = verdicts_of(&path, direction)?;
        let units = units::run_units(&path, &verdicts, &direction.testset)?;
        let is_rated = |system: &str, seg: &usize| {
            let column = gold.map(|gold| gold.get(system));
            column.is_none_or(|column| column.is_some_and(|c| c.get(*seg).is_some_and(Option::is_some)))
        };
        let rated = verdicts.iter().zip(&units);
        let rated =
            rated.filter(|(verdict, unit)| unit.segs.iter().all(|seg| is_rated(&verdict.system, seg)));
        let errors = rated.flat_map(|(verdict, _)| &verdict.errors);
        let named = errors.map(|error| (error.severity.as_str(), error.category.as_str()));
        shares.push(of(direction, &name, error_shares(named)));
    }
    Ok(shares)
}

/// Runs whose errors can be read: those of `--spans`, and folders among `--scores`.
fn runs(args: &Args) -> Result<Vec<(String, PathBuf)>> {
    let mut runs: Vec<(String, PathBuf)> = Vec::new();
    for text in &args.extra.spans {
        let (name, path) = text.split_once('=').with_context(|| format!("`{text}` is not NAME=DIR"))?;
        runs.push((name.to_owned(), path.into()));
    }
    for (name, path) in args.scores.iter().filter_map(|text| text.split_once('=')) {
        if Path::new(path).is_dir() && !runs.iter().any(|(known, _)| known == name) {
            runs.push((name.to_owned(), path.into()));
        }
    }
    Ok(runs)
}

fn verdicts_of(path: &Path, direction: &Direction) -> Result<Vec<Verdict>> {
    let is_human = path.is_file() && raters::is_mqm_tsv(path);
    let mut verdicts = if is_human {
        raters::verdicts(path, Some(&direction.lp().parse()?))?
    } else {
        verdicts::read(path)?
    };
    verdicts.retain(|verdict| verdict.pair() == direction.lp());
    Ok(verdicts)
}

fn raters(args: &Args, direction: &Direction) -> Result<Vec<Of<RaterPair>>> {
    let systems: Vec<String> = direction.machine.iter().cloned().collect();
    let raters: Vec<_> = ratings(args, direction)?
        .iter()
        .map(|(name, ratings)| annotators::rater(name, ratings, &systems))
        .collect();
    let pairs = annotators::agreement(&raters);
    Ok(pairs.into_iter().map(|pair| of(direction, "human", pair)).collect())
}

/// The reports of all runs, over the whole pair and over each slice.
fn spans(args: &Args, direction: &Direction, extras: &mut Extras) -> Result<()> {
    if args.extra.spans.is_empty() {
        return Ok(());
    }
    let ratings: Vec<Ratings> = ratings(args, direction)?.into_iter().map(|(_, ratings)| ratings).collect();
    let documents: Vec<String> = direction.testset.places.iter().map(|place| place.doc.clone()).collect();
    let slices = match &args.by {
        Some(by) => By::named(by)?.slices(&direction.testset)?,
        None => Vec::new(),
    };
    for (name, path) in runs(args)?.into_iter().take(args.extra.spans.len()) {
        let verdicts = verdicts_of(&path, direction)?;
        if verdicts.is_empty() {
            continue;
        }
        let units = units::run_units(&path, &verdicts, &direction.testset)?;
        let report = compare(&name, &verdicts, &units, &ratings, &documents).with_context(|| {
            format!("no verdict of `{name}` on `{}` covers a segment that the raters marked", direction.lp())
        })?;
        extras.spans.push(of(direction, &name, report));
        for (slice, segments) in &slices {
            // A document belongs to a slice that it lies wholly within.
            let segments: BTreeSet<usize> = segments.iter().copied().collect();
            let part = verdicts.iter().zip(&units);
            let part = part.filter(|(_, unit)| unit.segs.iter().all(|seg| segments.contains(seg)));
            let (verdicts, units): (Vec<_>, Vec<_>) =
                part.map(|(verdict, unit)| (verdict.clone(), unit.clone())).unzip();
            let (lp, slice, name) = (direction.lp().to_owned(), slice.clone(), name.clone());
            let found = compare(&name, &verdicts, &units, &ratings, &documents);
            extras.span_slices.extend(found.map(|found| SlicedSpans { lp, slice, name, found }));
        }
    }
    Ok(())
}

fn latent_weights(args: &Args, direction: &Direction) -> Result<Vec<Of<Result<Latent, Undefined>>>> {
    let statistic = args.statistics.first().map_or(LATENT, String::as_str).parse()?;
    let mut found = Vec::new();
    for text in &args.extra.latent_weight {
        let (name, path) = text.split_once('=').with_context(|| format!("`{text}` is not NAME=DIR"))?;
        let verdicts = verdicts_of(Path::new(path), direction)?;
        if !verdicts.is_empty() {
            found.push(of(direction, name, latent::search(name, &verdicts, direction, statistic)?));
        }
    }
    Ok(found)
}

fn plots(dir: &Path, directions: &[Direction], result: &SetResult) -> Result<Vec<PathBuf>> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create `{}`", dir.display()))?;
    let mut written = Vec::new();
    let mut write = |name: String, svg: String| -> Result<()> {
        let path = dir.join(name.replace(['/', '+', ':', '@'], "_"));
        files::write(&path, |file| file.write_all(svg.as_bytes()))?;
        written.push(path);
        Ok(())
    };
    for direction in directions {
        for (metric, scores) in aligned(direction)? {
            let epsilon =
                Statistic::AccEq(Grouping::Item).over_segments(&scores).ok().and_then(|m| m.epsilon);
            let (gold, values): (Vec<f64>, Vec<f64>) =
                scores.gold.iter().zip(&scores.metric).filter_map(|(g, m)| Some(((*g)?, (*m)?))).unzip();
            let title = format!("{} · {}", direction.lp(), metric.name);
            write(
                format!("scatter_{}_{}.svg", direction.lp(), metric.name),
                plot::scatter(&title, &gold, &values, epsilon),
            )?;
            write(
                format!("scores_{}_{}.svg", direction.lp(), metric.name),
                plot::histogram(&title, &values),
            )?;
        }
    }
    for task in result.tasks.iter().filter(|task| !task.ranks.is_empty()) {
        let title = format!("{} · {}", task.pairs.join("+"), task.statistic);
        write(
            format!("ranks_{}_{}.svg", task.pairs.join("_"), task.statistic),
            plot::clusters(&title, &task.ranks),
        )?;
    }
    if !result.average.is_empty() {
        write(format!("ranks_{}.svg", result.name), plot::clusters(&result.name, &result.average))?;
    }
    Ok(written)
}
