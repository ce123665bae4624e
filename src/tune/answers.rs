//! Learning to give answers: the cross-entropy of their tokens, a few rows at a time, because the logits of a whole batch
//! would take gigabytes. It knows nothing of the layers below.

use std::ops::Range;

use rayon::prelude::*;

use super::{
    encoded::Encoded,
    forward::Upper,
    frozen::Product,
    lower::Text,
    task::{Gradient, Loss, Task},
};
use crate::model::cpu::{Tier, softmax::exponentials};

/// Rows whose logits are in memory together.
const ROWS: usize = 128;

/// Examples with their answers, which the last layer learns to give.
pub struct Answers(pub Vec<Encoded>);

impl Task for Answers {
    fn texts(&self) -> Vec<Text<'_>> {
        self.0.iter().map(Encoded::text).collect()
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn texts_of(&self, example: usize) -> Range<usize> {
        example..example + 1
    }

    fn loss(&self, upper: &Upper, rows: &[f32], examples: &[usize], gradient: Gradient) -> Loss {
        let head = upper.head().expect("answers are given by the last layer");
        let targets: Vec<u32> =
            examples.iter().flat_map(|&example| self.0[example].targets()).copied().collect();
        loss(head, rows, &targets, gradient)
    }
}

/// The loss of rows against the tokens that should follow them.
///
/// Shape: `rows` `[targets, hidden]`.
fn loss(head: &Product, rows: &[f32], targets: &[u32], with_gradient: Gradient) -> Loss {
    let mut loss = Loss { n: targets.len(), ..Loss::default() };
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
