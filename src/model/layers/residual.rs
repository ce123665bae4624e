//! The residual stream: each half of a layer adds what it found to it, in place.

use candle_core::{CpuStorage, InplaceOp2, Layout, Result, Tensor};
use rayon::prelude::*;

use super::{floats, floats_mut};

/// Values that one thread adds at a time.
const PART: usize = 1 << 14;

/// `x += h`.
///
/// Shape: both the same. `x` must share its storage with no other tensor that is still read.
///
/// # Errors
/// As candle's.
pub fn add_to(x: &Tensor, h: &Tensor) -> Result<()> {
    x.inplace_op2(h, &AddTo)
}

struct AddTo;

impl InplaceOp2 for AddTo {
    fn name(&self) -> &'static str {
        "add-to"
    }

    fn cpu_fwd(
        &self,
        sums: &mut CpuStorage,
        sums_layout: &Layout,
        more: &CpuStorage,
        more_layout: &Layout,
    ) -> Result<()> {
        let more = floats(more, more_layout)?;
        let sums = floats_mut(sums, sums_layout)?;
        sums.par_chunks_mut(PART).zip(more.par_chunks(PART)).for_each(|(sums, more)| {
            for (sum, more) in sums.iter_mut().zip(more) {
                *sum += more;
            }
        });
        Ok(())
    }
}
