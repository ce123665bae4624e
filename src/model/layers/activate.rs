//! The gated feed-forward nonlinearity.

use candle_core::{CpuStorage, InplaceOp2, Layout, Result};
use rayon::prelude::*;

use super::{floats, floats_mut};
use crate::model::{
    config::Activation,
    cpu::{Tier, activate},
};

/// `gate = act(gate) * up`.
///
/// Shape: both `[tokens, n]`. `gate` must share its storage with no other tensor that is still read.
pub struct Gated {
    pub activation: Activation,
    pub tier: Tier,
}

impl InplaceOp2 for Gated {
    fn name(&self) -> &'static str {
        "gated-activation"
    }

    fn cpu_fwd(
        &self,
        gate: &mut CpuStorage,
        gate_layout: &Layout,
        up: &CpuStorage,
        up_layout: &Layout,
    ) -> Result<()> {
        let (gate, up) = (floats_mut(gate, gate_layout)?, floats(up, up_layout)?);
        let n = gate_layout.shape().dims2()?.1;
        gate.par_chunks_mut(n).zip(up.par_chunks(n)).for_each(|(gate, up)| match self.activation {
            Activation::Silu => activate::silu_mul(self.tier, gate, up),
            Activation::GeluTanh => activate::gelu_mul(self.tier, gate, up),
        });
        Ok(())
    }
}
