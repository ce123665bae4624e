//! A judge's agreement with itself: the same units judged again, at another seed, order or granularity. No
//! file is read.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{
    agreement::Agreement,
    correlation::{Undefined, kendall_b, pearson},
    range::{scaled, unscaled},
    spans::{self, Overlap, located},
    verdicts::Verdict,
};

/// Two runs of one judge over the units that both scored.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Repeat {
    pub units: usize,
    /// Share of units with the same score. Range: 0 to 1, higher is better.
    pub same: f64,
    /// Mean absolute difference of the scores; lower is better.
    pub difference: f64,
    /// Range: -1 to 1, higher is better.
    pub pearson: Result<f64, Undefined>,
    /// Range: -1 to 1, higher is better.
    pub kendall: Result<f64, Undefined>,
}

/// Compares two runs' scores of the same units.
///
/// # Errors
/// There is no unit.
///
/// ```
/// use tribunal_meta::reliability::repeat;
/// // One of three scores is the same; the differences are 0, 1 and 2.
/// let repeat = repeat(&[1.0, 2.0, 3.0], &[1.0, 3.0, 5.0]).unwrap();
/// assert_eq!((repeat.same, repeat.difference), (1.0 / 3.0, 1.0));
/// assert!((repeat.pearson.unwrap() - 1.0).abs() < 1e-12);
/// ```
pub fn repeat(first: &[f64], second: &[f64]) -> Result<Repeat, Undefined> {
    let pairs: Vec<(f64, f64)> = first.iter().copied().zip(second.iter().copied()).collect();
    if pairs.is_empty() {
        return Err(Undefined::TooFew);
    }
    let n = pairs.len() as f64;
    Ok(Repeat {
        units: pairs.len(),
        same: pairs.iter().filter(|(a, b)| a.to_bits() == b.to_bits()).count() as f64 / n,
        difference: pairs.iter().map(|(a, b)| (a - b).abs()).sum::<f64>() / n,
        pearson: pearson(first, second).map(|correlation| correlation.value),
        kendall: kendall_b(first, second).map(|correlation| correlation.value),
    })
}

/// A unit of a run: system, languages, document, segment.
pub type Unit = (String, String, String, Option<usize>);

/// The verdicts of a run by unit.
pub type Verdicts = BTreeMap<Unit, Verdict>;

/// Verdicts by unit.
pub fn by_unit(verdicts: Vec<Verdict>) -> Verdicts {
    let unit = |v: &Verdict| (v.system.clone(), v.pair(), v.doc.clone(), v.seg);
    verdicts.into_iter().map(|verdict| (unit(&verdict), verdict)).collect()
}

/// Two runs of one judge.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunPair {
    #[serde(flatten)]
    pub repeat: Repeat,
    /// Share of the pairs of systems that both runs order alike. Range: 0 to 1; `None` with fewer than two
    /// systems, or where no unit is scored for all.
    pub systems: Option<f64>,
    /// Character F1 of the spans of one run against those of the other. Range: 0 to 1, higher is better.
    pub spans: f64,
}

impl RunPair {
    /// Compares two runs over the units that both scored.
    ///
    /// # Errors
    /// There is no such unit.
    pub fn new(first: &Verdicts, second: &Verdicts) -> Result<Self, Undefined> {
        let shared: Vec<(&Unit, &Verdict, &Verdict)> = first
            .iter()
            .filter_map(|(unit, verdict)| Some((unit, verdict, second.get(unit)?)))
            .filter(|(_, a, b)| a.score.is_some() && b.score.is_some())
            .collect();
        let (a, b): (Vec<f64>, Vec<f64>) = shared.iter().filter_map(|(_, a, b)| a.score.zip(b.score)).unzip();
        let mut overlap = Overlap::default();
        for (_, a, b) in &shared {
            overlap.add(&spans::characters(&located(&a.errors), &located(&b.errors)));
        }
        Ok(Self { repeat: repeat(&a, &b)?, systems: order_of_systems(&shared), spans: overlap.score().f1 })
    }
}

/// The share of the pairs of systems that both runs order alike, by means over the units that both runs
/// scored for every system.
fn order_of_systems(shared: &[(&Unit, &Verdict, &Verdict)]) -> Option<f64> {
    let mut units: BTreeMap<_, BTreeMap<&str, (f64, f64)>> = BTreeMap::new();
    let mut systems: BTreeSet<&str> = BTreeSet::new();
    for ((system, pair, doc, seg), a, b) in shared {
        let Some(scores) = a.score.zip(b.score) else { continue };
        systems.insert(system);
        units.entry((pair, doc, seg)).or_default().insert(system, scores);
    }
    units.retain(|_, scores| scores.len() == systems.len());
    let mean = |system: &str, side: fn(&(f64, f64)) -> f64| {
        units.values().map(|scores| side(&scores[system])).sum::<f64>() / units.len() as f64
    };
    let means = |side: fn(&(f64, f64)) -> f64| systems.iter().map(|s| mean(s, side)).collect::<Vec<_>>();
    if units.is_empty() {
        return None;
    }
    Agreement::pooled([Agreement::new(&means(|scores| scores.0), &means(|scores| scores.1))]).ok()
}

/// The scores that each unit has in any run.
pub fn scores_of_units<'a>(runs: impl IntoIterator<Item = &'a Verdicts>) -> Vec<Vec<f64>> {
    let mut units: BTreeMap<&Unit, Vec<f64>> = BTreeMap::new();
    for (unit, verdict) in runs.into_iter().flatten() {
        units.entry(unit).or_default().extend(verdict.score);
    }
    units.into_values().collect()
}

/// Krippendorff's alpha for intervals: how much less the scores of one unit differ than scores of any units
/// do. Each unit brings the scores of the runs that scored it; units with fewer than two are left out.
///
/// Range: at most 1 (runs agree); 0 is what chance would give.
///
/// # Errors
/// Fewer than two units with two scores, or all scores the same.
///
/// Source: Krippendorff, Content Analysis (2004), chapter 11.
///
/// ```
/// use tribunal_meta::reliability::alpha;
/// // Within units, ordered pairs differ by 0, 0, 1 and 1 (squares): 2 / 4 values. Over all of 1, 1, 2, 3 the
/// // six pairs' squares are 0, 1, 4, 1, 4, 1: 2 * 11 / (4 * 3). 1 - 0.5 / (22 / 12).
/// let found = alpha(&[vec![1.0, 1.0], vec![2.0, 3.0], vec![9.0]]).unwrap();
/// assert!((found - (1.0 - 0.5 / (22.0 / 12.0))).abs() < 1e-12);
/// assert_eq!(alpha(&[vec![1.0, 1.0], vec![2.0, 2.0]]).unwrap(), 1.0);
/// assert!(alpha(&[vec![1.0, 1.0], vec![1.0, 1.0]]).is_err());
/// ```
pub fn alpha(units: &[Vec<f64>]) -> Result<f64, Undefined> {
    let paired: Vec<&Vec<f64>> = units.iter().filter(|unit| unit.len() > 1).collect();
    if paired.len() < 2 {
        return Err(Undefined::TooFew);
    }
    let all: Vec<f64> = paired.iter().flat_map(|unit| unit.iter().copied()).collect();
    let n = all.len() as f64;
    let (all, exponent) = scaled(&all);
    let in_range = |unit: &&Vec<f64>| unit.iter().map(|x| unscaled(*x, -exponent)).collect::<Vec<_>>();
    let within = paired.iter().map(in_range).map(|unit| squares(&unit) / (unit.len() - 1) as f64);
    let within = within.sum::<f64>() / n;
    let between = squares(&all) / (n * (n - 1.0));
    if between == 0.0 { Err(Undefined::ConstantMetric) } else { Ok(1.0 - within / between) }
}

/// Sum of the squared differences of all ordered pairs.
fn squares(values: &[f64]) -> f64 {
    // About the mean, so that large values lose no digits.
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let (sum, sum_of_squares) = values
        .iter()
        .map(|value| value - mean)
        .fold((0.0, 0.0), |(sum, squares), d| (sum + d, squares + d * d));
    2.0 * (values.len() as f64 * sum_of_squares - sum * sum)
}
