//! Linear maps of a metric's head, in `f64`: a row's sums have a fixed order.

use super::settings::{Activation, Settings};
use crate::{Result, Weights};

/// A linear map with a bias.
pub(super) struct Linear {
    /// Shape: `[outputs, inputs]`.
    weight: Vec<f32>,
    /// Shape: `[outputs]`.
    bias: Vec<f32>,
}

/// The tensors `NAME.weight` and `NAME.bias`.
pub(super) fn load_linear(weights: &Weights, name: &str, shape: [usize; 2]) -> Result<Linear> {
    let weight = weights.float_tensor(&format!("{name}.weight"), &shape)?;
    Ok(Linear { weight, bias: weights.floats(&format!("{name}.bias"), shape[0])? })
}

impl Linear {
    pub fn n_inputs(&self) -> usize {
        self.weight.len() / self.bias.len().max(1)
    }

    /// Shape: `[inputs]` -> `[outputs]`.
    pub fn apply(&self, x: &[f64]) -> Vec<f64> {
        let rows = self.weight.chunks_exact(x.len()).zip(&self.bias);
        rows.map(|(row, bias)| f64::from(*bias) + dot(row, x)).collect()
    }
}

/// The dot product, by eight sums that run side by side.
fn dot(weights: &[f32], x: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    for (weights, x) in weights.chunks(sums.len()).zip(x.chunks(sums.len())) {
        for ((sum, weight), x) in sums.iter_mut().zip(weights).zip(x) {
            *sum += f64::from(*weight) * x;
        }
    }
    sums.iter().sum()
}

/// The regression head: linear maps, each but the last one with an activation behind it.
pub(super) struct FeedForward {
    layers: Vec<Linear>,
    activation: Activation,
    last: Option<Activation>,
}

impl FeedForward {
    /// Reads `estimator.ff.0`, `.3`, ... (the modules between them have no tensors), whose sizes are their
    /// own.
    pub fn load(weights: &Weights, settings: &Settings, n_features: usize) -> Result<Self> {
        let shape_of = |name: &str| {
            let shape =
                weights.tensors().find(|(found, ..)| *found == name).map(|(_, _, shape)| shape.to_vec());
            shape.and_then(|shape| <[usize; 2]>::try_from(shape).ok())
        };
        let (mut layers, mut width) = (Vec::new(), n_features);
        loop {
            let name = format!("estimator.ff.{}", 3 * layers.len());
            let Some([n_outputs, _]) = shape_of(&format!("{name}.weight")) else { break };
            layers.push(load_linear(weights, &name, [n_outputs, width])?);
            width = n_outputs;
        }
        let n_tensors = weights.tensors().filter(|(name, ..)| name.starts_with("estimator.")).count();
        if width != 1 || layers.is_empty() || n_tensors != 2 * layers.len() {
            let reason = "is not the last of a regression head with one output";
            let last = 3 * layers.len().saturating_sub(1);
            return Err(weights.bad(&format!("estimator.ff.{last}.weight"), reason));
        }
        Ok(Self { layers, activation: settings.activation, last: settings.last_activation })
    }

    /// Shape: `[features]` -> one number.
    pub fn apply(&self, features: &[f64]) -> f64 {
        let mut x = features.to_vec();
        for (i, layer) in self.layers.iter().enumerate() {
            let activation = if i + 1 < self.layers.len() { Some(self.activation) } else { self.last };
            x = layer.apply(&x);
            for x in &mut x {
                *x = activation.map_or(*x, |activation| activation.of(*x));
            }
        }
        x.first().copied().unwrap_or(f64::NAN)
    }
}
