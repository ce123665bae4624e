//! The score head of a model, loaded: the outputs of a linear map of the last norm. It runs no layer; its one
//! product is small, and computed on the host in `f64`.

use crate::{Result, Weights, config::ScoreHead};

/// The last norm and the head behind it.
pub struct Head {
    /// Shape: `[hidden]`.
    norm: Vec<f32>,
    eps: f64,
    /// The norm subtracts the mean first.
    is_centred: bool,
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
            is_centred: config.norm_centred,
            weight: weights.float_tensor(ScoreHead::WEIGHT, &[head.n_outputs, config.hidden])?,
            bias: if has_bias { weights.floats(ScoreHead::BIAS, head.n_outputs)? } else { Vec::new() },
        }))
    }

    /// The outputs for a token's residual stream after all layers.
    ///
    /// Shape: `[hidden]` -> `[outputs]`.
    pub fn outputs(&self, state: &[f32]) -> Vec<f64> {
        let n = state.len() as f64;
        let mean = state.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
        let mean = if self.is_centred { mean } else { 0.0 };
        let state: Vec<f64> = state.iter().map(|x| f64::from(*x) - mean).collect();
        let square: f64 = state.iter().map(|x| x * x).sum();
        let scale = (square / n + self.eps).sqrt().recip();
        let normed: Vec<f64> = state.iter().zip(&self.norm).map(|(x, w)| x * scale * f64::from(*w)).collect();
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
        let (weight, bias) = (vec![1.0, 1.0, 0.0, -1.0], vec![0.5, 0.0]);
        let head = Head { norm: vec![1.0, 2.0], eps: 0.0, is_centred: false, weight, bias };
        // The mean square of the state is 4.
        assert_eq!(head.outputs(&[2.0, -2.0]), [1.0 - 2.0 + 0.5, 2.0]);
        let centred = Head { is_centred: true, ..head };
        assert_eq!(centred.outputs(&[5.0, 1.0]), [1.0 - 2.0 + 0.5, 2.0]);
    }
}
