//! Arithmetic of small vectors and linear maps in `f32`. Sums have a fixed order.

use candle_core::cpu::erf::erf_f64;

/// Sums that run side by side.
const LANES: usize = 16;

/// A linear map with a bias.
#[derive(Debug)]
pub(super) struct Linear {
    /// Shape: `[outputs, inputs]`.
    weight: Vec<f32>,
    /// Shape: `[outputs]`.
    bias: Vec<f32>,
    n_inputs: usize,
}

impl Linear {
    pub fn new(weight: Vec<f32>, bias: Vec<f32>, n_inputs: usize) -> Self {
        Self { weight, bias, n_inputs }
    }

    pub fn n_inputs(&self) -> usize {
        self.n_inputs
    }

    /// Shape: `[inputs]` -> `[outputs]`.
    pub fn apply(&self, x: &[f32]) -> Vec<f32> {
        let rows = self.weight.chunks_exact(self.n_inputs).zip(&self.bias);
        rows.map(|(row, bias)| bias + dot(row, x)).collect()
    }
}

/// The dot product of two vectors of one length.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    let ((a, a_end), (b, b_end)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    let end: f32 = a_end.iter().zip(b_end).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + end
}

/// The vector with a length of 1.
pub(super) fn normed(x: &[f32]) -> Vec<f32> {
    let length = dot(x, x).sqrt().max(1e-12);
    x.iter().map(|x| x / length).collect()
}

pub(super) fn softmax(x: &[f32], sharpness: f32) -> Vec<f32> {
    let greatest = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f32> = x.iter().map(|x| (sharpness * (x - greatest)).exp()).collect();
    let sum: f32 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// GELU by the error function.
pub(super) fn gelu(x: f32) -> f32 {
    let exact = f64::from(x);
    (0.5 * exact * (1.0 + erf_f64(exact * std::f64::consts::FRAC_1_SQRT_2))) as f32
}

/// Of each column.
pub(super) fn mean(rows: &[Vec<f32>]) -> Vec<f32> {
    let sums = folded(rows, |a, b| a + b);
    sums.into_iter().map(|sum| sum / rows.len() as f32).collect()
}

/// The greatest number of each column.
pub(super) fn most(rows: &[Vec<f32>]) -> Vec<f32> {
    folded(rows, f32::max)
}

fn folded(rows: &[Vec<f32>], fold: fn(f32, f32) -> f32) -> Vec<f32> {
    let mut rows = rows.iter();
    let mut so_far = rows.next().cloned().unwrap_or_default();
    for row in rows {
        so_far.iter_mut().zip(row).for_each(|(so_far, x)| *so_far = fold(*so_far, *x));
    }
    so_far
}
