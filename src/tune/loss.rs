//! The loss of the wanted rows and its gradient, a few rows at a time: logits of a whole batch would take gigabytes.
//! It knows nothing of the layers below.

use super::frozen::Product;
use crate::model::cpu::{Tier, softmax::exponentials};
use rayon::prelude::*;

/// Rows whose logits are in memory together.
const ROWS: usize = 128;

/// The cross-entropy of rows, and where it falls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loss {
    /// The sum over rows, in nats.
    pub sum: f64,
    /// The gradient of the sum. Empty when it was not asked for.
    ///
    /// Shape: `[rows, hidden]`.
    pub gradient: Vec<f32>,
}

/// The loss of rows against the tokens that should follow them.
///
/// Shape: `rows` `[targets, hidden]`.
#[must_use]
pub fn loss(head: &Product, rows: &[f32], targets: &[u32], with_gradient: Gradient) -> Loss {
    let mut loss = Loss::default();
    let hidden = rows.len() / targets.len().max(1);
    for (rows, targets) in rows.chunks(ROWS * hidden.max(1)).zip(targets.chunks(ROWS)) {
        let mut logits = head.forward(rows); // [rows, vocab]
        let vocab = logits.len() / targets.len();
        let losses: Vec<f64> = (logits.par_chunks_mut(vocab).zip(targets))
            .map(|(row, &target)| soften(row, target as usize))
            .collect();
        loss.sum += losses.iter().sum::<f64>();
        if with_gradient == Gradient::Wanted {
            loss.gradient.extend(head.backward(&logits));
        }
    }
    loss
}

/// Whether a loss is wanted with its gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gradient {
    Wanted,
    Unwanted,
}

/// Logits become their gradient, `p - 1` at the target and `p` elsewhere; gives the loss.
fn soften(row: &mut [f32], target: usize) -> f64 {
    let peak = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let logit = f64::from(row[target]);
    let weights = exponentials(Tier::detect(), row, peak, 1.0);
    let sum: f64 = weights.iter().map(|w| f64::from(*w)).sum();
    let by = (1.0 / sum) as f32;
    row.iter_mut().zip(weights).for_each(|(p, weight)| *p = weight * by);
    row[target] -= 1.0;
    f64::from(peak) + sum.ln() - logit
}
