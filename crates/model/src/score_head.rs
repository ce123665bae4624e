//! The score head of a model, loaded: the outputs of a linear map of the last norm. It runs no layer; its one
//! product is small, and computed on the host in `f64`.

use crate::{Result, Weights, config::ScoreHead};

/// The last norm and the head behind it.
pub struct Head {
    /// Shape: `[hidden]`.
    norm: Vec<f32>,
    eps: f64,
    /// Shape: `[outputs, hidden]`.
    weight: Vec<f32>,
    /// Shape: `[outputs]`; empty without one.
    bias: Vec<f32>,
}

impl Head {
    /// The head of a checkpoint; `None` of a language model.
    ///
    /// # Errors
    /// Tensors that are missing or of another shape.
    pub fn load(weights: &Weights) -> Result<Option<Self>> {
        let config = weights.config();
        let Some(head) = config.score_head else { return Ok(None) };
        let plus = if config.norm_plus_one { 1.0 } else { 0.0 };
        let norm = weights.floats("model.norm.weight", config.hidden)?;
        let has_bias = weights.contains(ScoreHead::BIAS);
        Ok(Some(Self {
            norm: norm.into_iter().map(|weight| weight + plus).collect(),
            eps: config.norm_eps,
            weight: weights.float_tensor(ScoreHead::WEIGHT, &[head.n_outputs, config.hidden])?,
            bias: if has_bias { weights.floats(ScoreHead::BIAS, head.n_outputs)? } else { Vec::new() },
        }))
    }

    /// The outputs for a token's residual stream after all layers.
    ///
    /// Shape: `[hidden]` -> `[outputs]`.
    #[must_use]
    pub fn outputs(&self, state: &[f32]) -> Vec<f64> {
        let square: f64 = state.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
        let scale = (square / state.len() as f64 + self.eps).sqrt().recip();
        let normed: Vec<f64> =
            state.iter().zip(&self.norm).map(|(x, w)| f64::from(*x) * scale * f64::from(*w)).collect();
        let rows = self.weight.chunks_exact(state.len()).enumerate();
        rows.map(|(i, row)| {
            let sum: f64 = row.iter().zip(&normed).map(|(w, x)| f64::from(*w) * x).sum();
            sum + self.bias.get(i).map_or(0.0, |bias| f64::from(*bias))
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_products_with_the_normed_state() {
        let head =
            Head { norm: vec![1.0, 2.0], eps: 0.0, weight: vec![1.0, 1.0, 0.0, -1.0], bias: vec![0.5, 0.0] };
        // The mean square of the state is 4.
        assert_eq!(head.outputs(&[2.0, -2.0]), [1.0 - 2.0 + 0.5, 2.0]);
    }
}
