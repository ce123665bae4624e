//! ReMedy's calibration of a score head: of the temperatures that the distribution of a file's outputs
//! selects, the one at which their logistic function fills a histogram most evenly. Every output of a file
//! moves it, so it is a statistic of a set and not part of a verdict. No order of translations changes, but
//! means do.
//!
//! Source: Tan and Monz 2025, "ReMedy"; `remedy/toolbox/calibration.py` at 6f1519c.

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::Serialize;

use super::{
    Error, Result,
    correlation::{Undefined, mean},
    verdicts::Verdict,
};

/// Bins of the histogram over 0 to 1.
const BINS: usize = 20;
/// Points at which the density is computed, and the distance in points below which of two peaks the higher
/// one counts.
const POINTS: usize = 1000;
const APART: usize = 50;
/// The least height of a peak, as a share of the highest one.
const HEIGHT: f64 = 0.1;

/// The outputs of a score head on one language pair.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// Divisor of the outputs. Range: 0.15 to 1.9.
    pub temperature: f64,
    pub all: Means,
    pub systems: BTreeMap<String, Means>,
}

/// Means over translations. Higher is better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Means {
    pub translations: usize,
    /// The head's outputs.
    pub output: f64,
    /// Their logistic function. Range: 0 to 1.
    pub sigmoid: f64,
    /// That of the outputs divided by the temperature. Range: 0 to 1.
    pub calibrated: f64,
}

impl Calibration {
    /// Calibrates the outputs of a run. Verdicts without a score are left out.
    ///
    /// # Errors
    /// Outer: scores that are not the logistic function of a head's output. Inner: outputs that do not
    /// differ.
    pub fn from_verdicts(name: &str, verdicts: &[Verdict]) -> Result<Result<Self, Undefined>> {
        let mut systems: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for verdict in verdicts {
            let Some(score) = verdict.usable_score() else { continue };
            let output =
                verdict.raw.filter(|raw| (logistic(*raw) - score).abs() < 1e-9).ok_or_else(|| {
                    Error::Unsuitable(format!(
                        "the scores of `{name}` are not the logistic function of a score head's output\n\
                     hint: a run of `remedy` or `reward` with `score=sigmoid`"
                    ))
                })?;
            systems.entry(verdict.system.clone()).or_default().push(output);
        }
        let all = systems.values().flatten().copied().collect::<Vec<f64>>();
        Ok(temperature(&all).map(|temperature| Self {
            temperature,
            all: Means::of(&all, temperature),
            systems: systems
                .into_iter()
                .map(|(system, outputs)| (system, Means::of(&outputs, temperature)))
                .collect(),
        }))
    }
}

impl Means {
    fn of(outputs: &[f64], temperature: f64) -> Self {
        let at = |temperature| mean(&outputs.iter().map(|x| logistic(x / temperature)).collect::<Vec<_>>());
        let (sigmoid, calibrated) = (at(1.0), at(temperature));
        Self { translations: outputs.len(), output: mean(outputs), sigmoid, calibrated }
    }
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Returns the temperature of a file's outputs.
///
/// # Errors
/// Fewer than two outputs, or outputs that do not differ.
pub fn temperature(outputs: &[f64]) -> Result<f64, Undefined> {
    if outputs.len() < 2 {
        return Err(Undefined::TooFew);
    }
    let share = |from: f64| outputs.iter().filter(|x| **x > from).count() as f64 / outputs.len() as f64;
    let negative = outputs.iter().filter(|x| **x < 0.0).count() as f64 / outputs.len() as f64;
    let least = outputs.iter().copied().fold(f64::INFINITY, f64::min);
    let is_bimodal = n_peaks(outputs)? >= 2;
    let is_spread = negative > 0.05 && least < -1.0 && share(1.0) > 0.3;
    let (from, to, n) = if share(4.0) > 0.7 && mean(outputs) > 4.0 && share(5.0) > 0.3 {
        (1.4, 1.9, 6)
    } else if is_bimodal && is_spread {
        (0.15, 0.35, 5)
    } else if share(4.0) > 0.5 {
        (0.8, 1.5, 8)
    } else if is_bimodal {
        (0.3, 0.7, 8)
    } else {
        (0.4, 1.2, 8)
    };
    let step = (to - from) / f64::from(n - 1);
    let temperatures = (0..n).map(|i| if i == n - 1 { to } else { f64::from(i) * step + from });
    // Of equal ones the lowest.
    let at = temperatures.map(|temperature| (entropy(outputs, temperature), temperature));
    let best = at.reduce(|best, next| if next.0 > best.0 { next } else { best });
    Ok(best.map_or(to, |(_, temperature)| temperature))
}

/// Entropy of the histogram of the calibrated outputs, in bits.
fn entropy(outputs: &[f64], temperature: f64) -> f64 {
    let mut counts = [0_usize; BINS];
    for output in outputs {
        counts[((logistic(output / temperature) * BINS as f64) as usize).min(BINS - 1)] += 1;
    }
    let shares = counts.map(|count| count as f64 / outputs.len() as f64);
    -shares.iter().map(|share| share * (share + 1e-10).log2()).sum::<f64>()
}

/// Number of peaks of the outputs' density: Gaussian kernels of Silverman's width, as scipy's `gaussian_kde`,
/// and its `find_peaks` with a height and a distance.
fn n_peaks(outputs: &[f64]) -> Result<usize, Undefined> {
    let n = outputs.len() as f64;
    let centre = mean(outputs);
    let variance = outputs.iter().map(|x| (x - centre).powi(2)).sum::<f64>() / (n - 1.0);
    let width = variance * (n * 0.75).powf(-0.4);
    if !(width > 0.0 && width.is_finite()) {
        return Err(Undefined::ConstantMetric);
    }
    let least = outputs.iter().copied().fold(f64::INFINITY, f64::min) - 0.5;
    let most = outputs.iter().copied().fold(f64::NEG_INFINITY, f64::max) + 0.5;
    let density = |point: usize| {
        let x = least + (most - least) * point as f64 / (POINTS - 1) as f64;
        outputs.iter().map(|y| (-(x - y).powi(2) / (2.0 * width)).exp()).sum::<f64>()
    };
    let density: Vec<f64> = (0..POINTS).into_par_iter().map(density).collect();
    let highest = density.iter().copied().fold(0.0, f64::max);
    // A plateau is one point, its middle.
    let mut start = 0;
    let plateaus = density.chunk_by(|a, b| a == b).map(|equal| {
        start += equal.len();
        (start - equal.len() + (equal.len() - 1) / 2, equal[0])
    });
    let points: Vec<(usize, f64)> = plateaus.collect();
    let is_peak = |points: &&[(usize, f64)]| points[0].1 < points[1].1 && points[1].1 > points[2].1;
    let mut peaks: Vec<(usize, f64)> = points.windows(3).filter(is_peak).map(|points| points[1]).collect();
    peaks.retain(|(_, height)| *height >= HEIGHT * highest);
    peaks.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut kept: Vec<usize> = Vec::new();
    for (point, _) in peaks {
        if kept.iter().all(|other| other.abs_diff(point) >= APART) {
            kept.push(point);
        }
    }
    Ok(kept.len())
}
