//! The decoder's operations as candle custom ops, CPU and CUDA side by side.
//! An op sees tensors and integers of one step; it owns no weights but what it is given.

pub mod activate;

pub mod attention;

pub mod linear;

pub mod norm;

pub mod residual;

pub mod rotary;

use candle_core::{CpuStorage, Layout, Result};

/// The contiguous f32 values of a CPU tensor.
fn floats<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&storage.as_slice::<f32>()?[start..end]),
        None => candle_core::bail!("a contiguous tensor was expected"),
    }
}

/// The contiguous f32 values of a CPU tensor, to be changed.
fn floats_mut<'a>(storage: &'a mut CpuStorage, layout: &Layout) -> Result<&'a mut [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(values), Some((start, end))) => Ok(&mut values[start..end]),
        _ => candle_core::bail!("a contiguous f32 tensor was expected"),
    }
}
