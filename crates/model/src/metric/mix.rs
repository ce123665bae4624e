//! The embedding of a sequence: a weighted sum of its layers' states, pooled over the tokens.
//!
//! Source: `layerwise_attention.py` and `pooling_utils.py` of COMET.

use super::settings::{Layers, Pool, Settings, Transform};
use crate::{Result, Weights};

/// Added to a variance before its root.
const EPSILON: f64 = 1e-12;

/// The layers of an embedding and their pooling.
pub(super) struct Mix {
    /// Depths with their weights; those with a weight of 0 are left out.
    weights: Vec<(u32, f64)>,
    /// Each layer is first normed by the mean and variance of all its numbers in the sequence.
    is_normed: bool,
    pool: Pool,
    hidden: usize,
}

impl Mix {
    pub fn load(weights: &Weights, settings: &Settings) -> Result<Self> {
        let (config, pool) = (weights.config(), settings.pool);
        let single = |layer: usize| vec![(layer as u32, 1.0)];
        let (weights, is_normed) = match settings.layers {
            Layers::Last => (single(config.n_layers), false),
            Layers::One(layer) if layer <= config.n_layers => (single(layer), false),
            Layers::One(layer) => {
                return Err(settings.bad("layer", format!("is {layer}, of {} layers", config.n_layers)));
            }
            Layers::Mix { transform, is_normed } => (mixed(weights, transform)?, is_normed),
        };
        Ok(Self { weights, is_normed, pool, hidden: config.hidden })
    }

    pub fn depths(&self) -> impl Iterator<Item = u32> {
        self.weights.iter().map(|(depth, _)| *depth)
    }

    /// Shape: `[depths][tokens * hidden]` -> `[hidden]`.
    pub fn embedding(&self, depths: &[u32], layers: &[Vec<f32>]) -> Vec<f64> {
        let n_values = layers.first().map_or(0, Vec::len);
        let mut mixed = vec![0.0; if self.pool == Pool::First { self.hidden } else { n_values }];
        for &(depth, weight) in &self.weights {
            let Some(layer) = depths.iter().position(|found| *found == depth).map(|at| &layers[at]) else {
                continue;
            };
            let [mean, scale] = if self.is_normed { mean_and_scale(layer) } else { [0.0, 1.0] };
            for (sum, x) in mixed.iter_mut().zip(layer) {
                *sum += weight * (f64::from(*x) - mean) * scale;
            }
        }
        let tokens = || mixed.chunks_exact(self.hidden);
        let over_tokens = |fold: fn(f64, f64) -> f64| {
            let first = tokens().next().unwrap_or_default().to_vec();
            tokens()
                .skip(1)
                .fold(first, |so_far, row| so_far.iter().zip(row).map(|(a, b)| fold(*a, *b)).collect())
        };
        match self.pool {
            Pool::First => mixed,
            Pool::Maximum => over_tokens(f64::max),
            Pool::Average => {
                let n = tokens().len() as f64;
                over_tokens(|a, b| a + b).into_iter().map(|sum| sum / n).collect()
            }
        }
    }
}

/// The weights of all layers, the embeddings first, times `gamma`.
fn mixed(weights: &Weights, transform: Transform) -> Result<Vec<(u32, f64)>> {
    let layers = 0..=weights.config().n_layers;
    let scalar = |name: String| Ok(f64::from(weights.floats(&name, 1)?[0]));
    let of_layers: Vec<f64> = layers
        .map(|layer| scalar(format!("layerwise_attention.scalar_parameters.{layer}")))
        .collect::<Result<_>>()?;
    let gamma = scalar("layerwise_attention.gamma".into())?;
    let of_layers = match transform {
        Transform::Softmax => softmax(&of_layers),
        Transform::Sparsemax => sparsemax(&of_layers),
    };
    let weighed = (0..).zip(of_layers.into_iter().map(|weight| gamma * weight));
    Ok(weighed.filter(|(_, weight)| weight.abs() > 0.0).collect())
}

pub(super) fn softmax(logits: &[f64]) -> Vec<f64> {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exponentials: Vec<f64> = logits.iter().map(|logit| (logit - most).exp()).collect();
    let sum: f64 = exponentials.iter().sum();
    exponentials.into_iter().map(|x| x / sum).collect()
}

/// The nearest point of the probability simplex.
///
/// Source: Martins and Astudillo 2016, algorithm 1.
fn sparsemax(logits: &[f64]) -> Vec<f64> {
    let mut sorted = logits.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let (mut sum, mut threshold) = (0.0, 0.0);
    for (i, logit) in sorted.iter().enumerate() {
        sum += logit;
        let n = (i + 1) as f64;
        if 1.0 + n * logit > sum {
            threshold = (sum - 1.0) / n;
        }
    }
    logits.iter().map(|logit| (logit - threshold).max(0.0)).collect()
}

/// The mean of all numbers, and the inverse of their standard deviation.
fn mean_and_scale(layer: &[f32]) -> [f64; 2] {
    let n = layer.len() as f64;
    let mean = layer.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
    let variance = layer.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n;
    [mean, (variance + EPSILON).sqrt().recip()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparsemax_has_zeros() {
        // The threshold of 1.0 and 0.6 is (1.6 - 1) / 2.
        let found = sparsemax(&[0.6, -3.0, 1.0]);
        let expected = [0.3, 0.0, 0.7];
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
    }
}
