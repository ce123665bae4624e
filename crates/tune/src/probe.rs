//! Fits the judge `probe`: linear maps from a model's hidden states to raters' annotations, by ridge
//! regression. The penalty is selected by four-fold cross-validation over the training documents; the
//! held-out documents are for evaluation only.
//!
//! Three regressions on the same hidden states:
//! - for each token, which share of the raters marked it, and as a major error;
//! - for each translation, what people took off, from its tokens' mean state and its [`Facts`]. Beside rated
//!   translations it learns from [corrupted](super::corruption) ones that each is worse than it was. Each
//!   rated translation stands there twice: as the difference from its corpus's mean, which teaches which
//!   texts are badly translated (Pearson), and as the difference from the mean of the translations of its
//!   source, which teaches which of them is better (acc-t ranks within a source). Each corpus has its own
//!   scale, as do direct assessments: each rating is measured by the deviation of its corpus, and the map has
//!   the mean one of those that are penalties.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use super::{
    Error, Result,
    corruption::Corrupted,
    rated::{Document, Rated},
    readings::{Readings, TokenStates},
    ridge::{Map, Sums},
    sample,
};
use crate::{
    judges::{
        probe::{
            self,
            facts::Facts,
            fit::{self, Chance, Fit, HeldOut, Made, Readout, Score},
        },
        prompt::Prompts,
    },
    mqm::{ErrorSpan, Severity, Side, weights::Weights},
    segment::{Segment, trained},
};

pub mod evaluation;
pub mod export;

mod scoring;

use scoring::Scoring;

/// Folds of the training documents.
const FOLDS: usize = 4;

/// Strengths that are tried.
const LAMBDAS: [f64; 6] = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0];

/// Rows of one batch of sums.
const ROWS: usize = 1024;

/// A rated translation, and where it belongs.
struct Example<'a> {
    rated: &'a Rated,
    pair: String,
    /// `PAIR`, or `PAIR CORPUS` where corpora have names: what is on one scale.
    scale: String,
    /// `CORPUS PAIR/DOC/SEGMENT`: translations of one source have the same.
    source: String,
    fold: usize,
}

impl Example<'_> {
    /// The human rating. Unit: MQM points, or deviations of a direct assessment.
    fn target(&self, weights: &Weights) -> f64 {
        self.rated.assessment.unwrap_or_else(|| self.rated.score(weights))
    }

    fn is_penalty(&self) -> bool {
        self.rated.assessment.is_none()
    }
}

/// Returns true if a segment can be fitted on.
pub fn is_usable(rated: &Rated) -> bool {
    let is_rated = !rated.opinions.is_empty() || rated.assessment.is_some();
    is_rated && !rated.segment.hypothesis.trim().is_empty()
}

fn examples(documents: &[Document]) -> Vec<Example<'_>> {
    documents.iter().flat_map(of_document).collect()
}

fn of_document(document: &Document) -> Vec<Example<'_>> {
    let fold = fold(document);
    let usable = document.segments.iter().filter(|rated| is_usable(rated));
    usable
        .map(|rated| {
            let pair = probe::pair(&rated.segment);
            let scale = scale(document, rated);
            let source = format!("{} {}", document.corpus, sample::key(&pair, rated));
            Example { rated, pair, scale, source, fold }
        })
        .collect()
}

/// The cross-validation fold of a document.
fn fold(document: &Document) -> usize {
    Sha256::digest(format!("fold/{}", document.name()))[0] as usize % FOLDS
}

/// Name of a rating's scale: `PAIR`, or `PAIR CORPUS`.
fn scale(document: &Document, rated: &Rated) -> String {
    format!("{} {}", probe::pair(&rated.segment), document.corpus).trim_end().to_owned()
}

/// The share of the raters that marked each token, and that marked it as major: from 0 to 1.
fn marks(rated: &Rated, ends: &[usize]) -> Vec<[f64; 2]> {
    let share = 1.0 / rated.opinions.len().max(1) as f64;
    let mut marks = vec![[0.0; 2]; ends.len()];
    for opinion in &rated.opinions {
        let of_rater = marks_of(&opinion.errors, &rated.segment.hypothesis, ends);
        for (sum, [any, major]) in marks.iter_mut().zip(of_rater) {
            *sum = [sum[0] + share * any, sum[1] + share * major];
        }
    }
    marks
}

/// Returns true if the error is placed in the translation.
fn is_marked(error: &ErrorSpan) -> bool {
    error.side == Side::Target && error.start.is_some()
}

fn is_major(error: &ErrorSpan) -> bool {
    matches!(error.severity, Severity::Major | Severity::Critical)
}

/// For each token, 1 or 0 for marked by a rater, and for marked as major. Spaces count for nothing.
fn marks_of(errors: &[ErrorSpan], text: &str, ends: &[usize]) -> Vec<[f64; 2]> {
    let spans: Vec<(usize, usize, bool)> = errors
        .iter()
        .filter(|error| is_marked(error))
        .filter_map(|error| Some((error.start?, error.end?, is_major(error))))
        .collect();
    // By byte of ` TRANSLATION`: whether a span covers the character there.
    let mut covered: Vec<[bool; 2]> = vec![[false; 2]];
    for (at, c) in text.chars().enumerate() {
        let mut is_marked = [false; 2];
        for (_, _, is_major) in
            spans.iter().filter(|(start, end, _)| (*start..*end).contains(&at) && !c.is_whitespace())
        {
            is_marked[0] = true;
            is_marked[1] |= is_major;
        }
        covered.extend(std::iter::repeat_n(is_marked, c.len_utf8()));
    }
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let mark = |(start, end): (usize, &usize)| {
        let bytes = covered.get(start..*end).unwrap_or_default();
        [0, 1].map(|which| f64::from(u8::from(bytes.iter().any(|byte| byte[which]))))
    };
    starts.zip(ends).map(mark).collect()
}

/// The inputs of the tokens' regression, `[tokens * hidden]`.
fn token_inputs(reading: &TokenStates) -> Vec<f64> {
    reading.features.iter().map(|x| f64::from(*x)).collect()
}

/// The inputs of a translation's regression, `[hidden + facts]`.
fn inputs(reading: &TokenStates, segment: &Segment) -> Vec<f64> {
    let n = reading.ends.len().max(1);
    let width = reading.features.len() / n;
    let mut mean = vec![0.0; width];
    for row in reading.features.chunks_exact(width.max(1)) {
        mean.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x));
    }
    for x in &mut mean {
        *x /= n as f64;
    }
    let Facts(facts) = Facts::new(reading.ends.len(), segment);
    [&mean[..], &facts].concat()
}

/// The model and settings of a fit.
pub struct Subject<'a> {
    pub model: String,
    pub sha256: String,
    pub prompts: &'a Prompts,
    pub depth: usize,
    pub weights: &'static Weights,
    pub hold_out: HeldOut,
    pub seed: u64,
}

/// Makes a fit from documents, and corrupted translations of them, which have all been read.
///
/// # Errors
/// Too few of them, or readings that cannot be read.
pub fn fit(
    documents: &[Document],
    corrupted: &[Corrupted<'_>],
    readings: &mut Readings,
    subject: &Subject<'_>,
) -> Result<Fit> {
    let examples = examples(documents);
    if !examples.iter().any(Example::is_penalty) {
        let reason = "nobody marked errors; hint: direct assessments alone teach no errors, add MQM ratings";
        return Err(Error::Unsuitable(reason.into()));
    }
    let marked: Vec<&Example<'_>> = examples.iter().filter(|example| example.is_penalty()).collect();
    let marking = Marking::fit(&marked, readings, subject)?;
    let scoring = Scoring::fit(&examples, corrupted, readings, subject)?;
    let mut pairs: Vec<String> =
        scoring.calibrations.keys().filter(|pair| *pair != fit::ANY_PAIR).cloned().collect();
    pairs.sort();
    let names: BTreeSet<String> = documents.iter().map(Document::name).collect();
    let sources: BTreeSet<String> =
        examples.iter().flat_map(|example| trained::short_hashes(&example.rated.segment.source)).collect();
    let (mean, facts) = scoring.split_map();
    let f32s = |values: &[f64]| values.iter().map(|x| *x as f32).collect::<Vec<_>>();
    let chance =
        |which: usize| Chance { bias: marking.map.biases[which], map: f32s(&marking.map.weights[which]) };
    let fit = Fit {
        format: fit::FORMAT.into(),
        model: subject.model.clone(),
        sha256: subject.sha256.clone(),
        prompts: subject.prompts.hash().into(),
        depth: subject.depth,
        made: Made {
            pairs,
            segments: examples.len(),
            corrupted: corrupted.len(),
            corpora: corpora(&examples),
            documents: names.len(),
            hold_out: subject.hold_out.clone(),
            seed: subject.seed,
            strengths: [marking.lambda, scoring.lambda],
            sources: sources.into_iter().collect(),
            figures: BTreeMap::new(),
        },
        any: chance(0),
        major: chance(1),
        score: Score { mean: f32s(mean), facts },
        major_from: marking.major_from,
        calibrations: scoring.calibrations,
        ..Fit::default()
    };
    Ok(fit.ready()?)
}

/// The judge's readout of a translation through a fit's probe.
pub fn seen(fit: &Fit, reading: &TokenStates, segment: &Segment) -> Readout {
    let width = (reading.features.len() / reading.ends.len().max(1)).max(1);
    let value = |map: &Vec<f32>, row: &[f32]| -> f64 {
        map.iter().zip(row).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let maps = &fit.probe().maps;
    let values = reading.features.chunks_exact(width).map(|row| [0, 1, 2].map(|i| value(&maps[i], row)));
    Readout {
        ends: reading.ends.iter().map(|end| end.saturating_sub(1)).collect(),
        facts: Facts::new(reading.ends.len(), segment),
        values: values.collect(),
    }
}

/// The ridge penalty with the lowest cross-validated residual, each target relative to its variance, and the
/// maps that were fitted without each fold.
fn best(folds: &[Sums], all: &Sums) -> Result<(f64, Vec<Map>)> {
    let mut found: Option<(f64, f64, Vec<Map>)> = None;
    let variance: Vec<f64> = {
        let none = all.solve(1e12)?;
        all.residuals(&none)
    };
    for lambda in LAMBDAS {
        let mut residual = 0.0;
        let mut maps = Vec::new();
        for fold in folds {
            let mut others = all.clone();
            others.add_sums(fold, -1.0);
            let map = others.solve(lambda)?;
            residual += fold.residuals(&map).iter().zip(&variance).map(|(a, b)| a / b.max(1e-9)).sum::<f64>();
            maps.push(map);
        }
        if found.as_ref().is_none_or(|(least, _, _)| residual < *least) {
            found = Some((residual, lambda, maps));
        }
    }
    found.map(|(_, lambda, maps)| (lambda, maps)).ok_or_else(|| Error::Unsuitable("no ridge penalty".into()))
}

/// The sums of all folds.
fn total(folds: &[Sums], width: usize, n_targets: usize) -> Sums {
    let mut all = Sums::new(width, n_targets);
    for fold in folds {
        all.add_sums(fold, 1.0);
    }
    all
}

/// The tokens' regression.
struct Marking {
    map: Map,
    lambda: f64,
    /// By pair, and for all.
    major_from: BTreeMap<String, f64>,
}

/// The chances of a pair's tokens, the number of those that raters marked, and of errors that raters found,
/// and major ones.
#[derive(Default)]
struct Tokens {
    chances: Vec<[f64; 2]>,
    n_marked: f64,
    n_errors: usize,
    n_major: usize,
}

impl Tokens {
    /// The chance above which a token is major: of those most likely to be marked, as many as raters mark,
    /// the share of raters' errors that are major.
    fn major_from(mut self) -> f64 {
        self.chances.sort_by(|a, b| b[0].total_cmp(&a[0]));
        self.chances.truncate(self.n_marked as usize);
        let mut major: Vec<f64> = self.chances.iter().map(|chances| chances[1]).collect();
        major.sort_by(f64::total_cmp);
        let at = (major.len() * (self.n_errors - self.n_major)) / self.n_errors.max(1);
        major.get(at.min(major.len().saturating_sub(1))).copied().unwrap_or(1.0)
    }
}

impl Marking {
    fn fit(examples: &[&Example<'_>], readings: &mut Readings, subject: &Subject<'_>) -> Result<Self> {
        let width = readings.width();
        let mut folds: Vec<Sums> = (0..FOLDS).map(|_| Sums::new(width, 2)).collect();
        let mut waiting: Vec<(Vec<f64>, Vec<f64>)> = vec![Default::default(); FOLDS];
        let mut tokens: BTreeMap<&str, Tokens> = BTreeMap::new();
        for example in examples {
            let reading = readings.of(subject.prompts, &example.rated.segment)?;
            let (x, y) = &mut waiting[example.fold];
            x.extend(token_inputs(&reading));
            let marks = marks(example.rated, &reading.ends);
            let opinions = example.rated.opinions.iter();
            let errors: Vec<&ErrorSpan> =
                opinions.flat_map(|opinion| &opinion.errors).filter(|error| is_marked(error)).collect();
            for pair in [&example.pair, fit::ANY_PAIR] {
                let of = tokens.entry(pair).or_default();
                of.n_marked += marks.iter().map(|mark| mark[0]).sum::<f64>();
                of.n_errors += errors.len();
                of.n_major += errors.iter().filter(|error| is_major(error)).count();
            }
            y.extend(marks.into_iter().flatten());
            if y.len() >= 2 * ROWS {
                folds[example.fold].add(x, y)?;
                x.clear();
                y.clear();
            }
        }
        for (fold, (x, y)) in folds.iter_mut().zip(&waiting) {
            fold.add(x, y)?;
        }
        let all = total(&folds, width, 2);
        let (lambda, maps) = best(&folds, &all)?;
        for example in examples {
            let reading = readings.of(subject.prompts, &example.rated.segment)?;
            let map = &maps[example.fold];
            let chances: Vec<Vec<f64>> =
                token_inputs(&reading).chunks_exact(width).map(|x| map.of(x)).collect();
            for pair in [&example.pair, fit::ANY_PAIR] {
                let of = tokens.entry(pair).or_default();
                of.chances.extend(chances.iter().map(|chances| [chances[0], chances[1]]));
            }
        }
        let major_from = tokens.into_iter().map(|(pair, of)| (pair.to_owned(), of.major_from())).collect();
        Ok(Self { map: all.solve(lambda)?, lambda, major_from })
    }
}

/// Number of translations of each corpus.
fn corpora(examples: &[Example<'_>]) -> BTreeMap<String, usize> {
    let mut corpora = BTreeMap::new();
    for example in examples {
        *corpora.entry(example.scale.clone()).or_default() += 1;
    }
    corpora
}
