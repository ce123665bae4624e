//! The gated feed-forward nonlinearity.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape};
use rayon::prelude::*;

use super::floats;
use crate::model::{
    config::Activation,
    cpu::{Tier, activate},
};

/// `act(gate) * up`.
///
/// Shape: all `[tokens, n]`.
pub struct Gated {
    pub activation: Activation,
    pub tier: Tier,
}

impl CustomOp2 for Gated {
    fn name(&self) -> &'static str {
        "gated-activation"
    }

    fn cpu_fwd(
        &self,
        gate: &CpuStorage,
        gate_layout: &Layout,
        up: &CpuStorage,
        up_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (gate, up) = (floats(gate, gate_layout)?, floats(up, up_layout)?);
        let n = gate_layout.shape().dims2()?.1;
        let mut out = vec![0.0; gate.len()];
        out.par_chunks_mut(n).zip(gate.par_chunks(n)).zip(up.par_chunks(n)).for_each(|((out, gate), up)| {
            match self.activation {
                Activation::Silu => activate::silu_mul(self.tier, gate, up, out),
                Activation::GeluTanh => activate::gelu_mul(self.tier, gate, up, out),
            }
        });
        Ok((CpuStorage::F32(out), gate_layout.shape().clone()))
    }
}
