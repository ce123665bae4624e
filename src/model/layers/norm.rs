//! Root-mean-square norm of rows.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::floats;

/// `x / sqrt(mean(x^2) + eps) * weight`, row by row.
///
/// Shape: `x` `[tokens, n]`, `weight` `[n]`.
///
/// # Errors
/// Shapes that do not fit.
pub fn rms_norm(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    x.apply_op2_no_bwd(weight, &RmsNorm { eps: eps as f32 })
}

struct RmsNorm {
    eps: f32,
}

impl CustomOp2 for RmsNorm {
    fn name(&self) -> &'static str {
        "rms-norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, weight) = (floats(x, x_layout)?, floats(weight, weight_layout)?);
        let mut out = x.to_vec();
        out.par_chunks_mut(weight.len()).for_each(|row| normalise(row, weight, self.eps));
        Ok((CpuStorage::F32(out), x_layout.shape().clone()))
    }
}

/// Normalises one row in place: the sum of squares runs over sixteen lanes and folds as a fixed tree.
pub fn normalise(row: &mut [f32], weight: &[f32], eps: f32) {
    let mut lanes = [0.0_f32; 16];
    for chunk in row.chunks(16) {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane += x * x;
        }
    }
    let mut width = 8;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    let scale = 1.0 / (lanes[0] / row.len() as f32 + eps).sqrt();
    for (x, w) in row.iter_mut().zip(weight) {
        *x = *x * scale * w;
    }
}
