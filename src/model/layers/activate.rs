//! The gated feed-forward nonlinearity over `[gate | up]`.

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape};
use rayon::prelude::*;

use super::floats;
use crate::model::{
    config::Activation,
    cpu::{Tier, activate},
};

/// `act(gate) * up`.
///
/// Shape: `[tokens, 2 n]` -> `[tokens, n]`.
pub struct Gated {
    pub activation: Activation,
    pub tier: Tier,
}

impl CustomOp1 for Gated {
    fn name(&self) -> &'static str {
        "gated-activation"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let x = floats(storage, layout)?;
        let (n_tokens, width) = layout.shape().dims2()?;
        let n = width / 2;
        let mut out = vec![0.0; n_tokens * n];
        out.par_chunks_mut(n).zip(x.par_chunks(width)).for_each(|(out, row)| {
            let (gate, up) = row.split_at(n);
            match self.activation {
                Activation::Silu => activate::silu_mul(self.tier, gate, up, out),
                Activation::GeluTanh => activate::gelu_mul(self.tier, gate, up, out),
            }
        });
        Ok((CpuStorage::F32(out), (n_tokens, n).into()))
    }
}
