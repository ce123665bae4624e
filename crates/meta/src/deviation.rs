//! Mean absolute and mean squared error between human and metric scores. They are meaningful
//! only on a common scale, so the normalisation is always reported.

use serde::Serialize;

use super::align::Aligned;
use super::correlation::Undefined;
use super::range::scaled;

/// Normalisation that puts both sides on one scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normalisation {
    /// Scores unchanged.
    Raw,
    /// Each side mapped to 0..1 by its own smallest and greatest score on the compared cells.
    MinMax,
    /// Penalties from -25 to 0 mapped to 0..1 on both sides; scores beyond are clipped.
    Mqm25,
}

/// Both errors over all compared cells.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Deviation {
    /// Mean absolute error; lower is better.
    pub mae: f64,
    /// Mean squared error; lower is better.
    pub mse: f64,
    pub n: usize,
}

/// Errors of the metric's scores as estimates of the human ones.
///
/// # Errors
/// No cell has both scores; with [`Normalisation::MinMax`], also a side that is constant; raw scores whose
/// squares have no finite sum.
///
/// Source: the measures of HiMATE's Table 1, whose normalisation the paper does not name.
///
/// ```
/// use tribunal_meta::align::Aligned;
/// use tribunal_meta::deviation::{Normalisation, deviation};
/// // Mapped to 0..1: gold (0, 0.5, 1), metric (0, 1, 1), so one cell is off by a half.
/// let scores = Aligned {
///     systems: vec!["a".into()],
///     n_segments: 3,
///     gold: [-10.0, -5.0, 0.0].map(Some).to_vec(),
///     metric: [20.0, 80.0, 80.0].map(Some).to_vec(),
/// };
/// let errors = deviation(&scores, Normalisation::MinMax).unwrap();
/// assert!((errors.mae - 0.5 / 3.0).abs() < 1e-15 && (errors.mse - 0.25 / 3.0).abs() < 1e-15);
/// ```
pub fn deviation(scores: &Aligned, normalisation: Normalisation) -> Result<Deviation, Undefined> {
    let cells = scores.gold.iter().zip(&scores.metric);
    let (gold, metric): (Vec<f64>, Vec<f64>) = cells.filter_map(|(g, m)| Some(((*g)?, (*m)?))).unzip();
    if gold.is_empty() {
        return Err(Undefined::TooFew);
    }
    let gold = normalisation.apply(&gold).ok_or(Undefined::ConstantGold)?;
    let metric = normalisation.apply(&metric).ok_or(Undefined::ConstantMetric)?;
    let n = gold.len();
    let sum = |power: i32| gold.iter().zip(&metric).map(|(g, m)| (g - m).abs().powi(power)).sum::<f64>();
    let (mae, mse) = (sum(1) / n as f64, sum(2) / n as f64);
    if mae.is_finite() && mse.is_finite() { Ok(Deviation { mae, mse, n }) } else { Err(Undefined::TooLarge) }
}

impl Normalisation {
    fn apply(self, scores: &[f64]) -> Option<Vec<f64>> {
        match self {
            Self::Raw => Some(scores.to_vec()),
            Self::Mqm25 => Some(scores.iter().map(|x| 1.0 + x.clamp(-25.0, 0.0) / 25.0).collect()),
            Self::MinMax => {
                let (scores, _) = scaled(scores);
                let least = scores.iter().copied().fold(f64::INFINITY, f64::min);
                let greatest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let range = greatest - least;
                (range > 0.0).then(|| scores.iter().map(|x| (x - least) / range).collect())
            }
        }
    }
}
