//! A layer's weight matrices from the checkpoint, packed; and the embedding that may share their storage.

use std::{borrow::Cow, sync::Arc};

use super::{
    Activations, Format, Input, Isa, Packed,
    adapter::{Narrow, Sums},
    coding, gemm,
    layout::BLOCK,
};
use tribunal_model::{
    Result, Weights,
    backend::{Added, Matrices},
    step::Adapted,
    weights,
};

/// The arithmetic of products on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compute {
    pub tier: Isa,
    pub activations: Activations,
    /// The format to which weights stored as floats are converted: other floats, or `Q8_0` where their rows
    /// are whole blocks.
    pub floats: Option<Format>,
}

impl Default for Compute {
    fn default() -> Self {
        Self { tier: Isa::detect(), activations: Activations::Q8, floats: None }
    }
}

/// Weight matrices of one input.
pub struct Linear {
    parts: Vec<Part>,
    /// The adapters, by number.
    adapters: Vec<Narrow>,
}

struct Part {
    weights: Arc<Packed>,
    bias: Option<Vec<f32>>,
}

/// The embedding table.
pub struct Table(Arc<Packed>);

impl Linear {
    /// # Errors
    /// A missing tensor, another shape, or a type that cannot be packed.
    pub(super) fn load(weights: &Weights, matrices: Matrices<'_>, compute: Compute) -> Result<Self> {
        let part = |(name, n): &(String, usize)| {
            let bias_name = format!("{name}.bias");
            let bias =
                if weights.contains(&bias_name) { Some(weights.floats(&bias_name, *n)?) } else { None };
            let packed = packed(weights, &format!("{name}.weight"), [*n, matrices.k], compute.floats)?;
            Ok(Part { weights: Arc::new(packed), bias })
        };
        let parts = matrices.parts.iter().map(part).collect::<Result<_>>()?;
        Ok(Self { parts, adapters: Vec::new() })
    }

    /// The product with the embedding table.
    pub(super) fn tied(table: &Table) -> Self {
        Self { parts: vec![Part { weights: table.0.clone(), bias: None }], adapters: Vec::new() }
    }

    /// # Errors
    /// No memory.
    pub(super) fn adapt(&mut self, parts: &[Option<Added<'_>>]) -> Result<()> {
        self.adapters.push(Narrow::pack(parts)?);
        Ok(())
    }

    /// The products of [`Linear::plain`], plus the updates of some rows' adapters.
    ///
    /// Shape: `[m, k]` -> for each part `[m, n]`.
    pub(super) fn forward(
        &self,
        x: &[f32],
        m: usize,
        adapted: &[Adapted],
        compute: Compute,
    ) -> Vec<Vec<f32>> {
        let mut outs = self.plain(x, m, compute);
        for of_one in adapted {
            if let Some(adapter) = self.adapters.get(of_one.adapter as usize) {
                adapter.add(&mut Sums { x, m, outs: &mut outs }, of_one, compute.tier);
            }
        }
        outs
    }

    /// `x w^T + b` for each part, the input coded once for all parts with the same coding.
    ///
    /// Shape: `[m, k]` -> for each part `[m, n]`.
    fn plain(&self, x: &[f32], m: usize, compute: Compute) -> Vec<Vec<f32>> {
        let Compute { tier: isa, activations, .. } = compute;
        let coding = |part: &Part| coding(part.weights.format(), activations);
        let mut outs: Vec<Vec<f32>> = self.parts.iter().map(|_| Vec::new()).collect();
        let mut waiting: Vec<usize> = (0..self.parts.len()).collect();
        while let Some(&first) = waiting.first() {
            let format_of_first = coding(&self.parts[first]);
            let (now, later): (Vec<_>, Vec<_>) =
                waiting.into_iter().partition(|&i| coding(&self.parts[i]) == format_of_first);
            waiting = later;
            let layers: Vec<&Packed> = now.iter().map(|&i| &*self.parts[i].weights).collect();
            let input = Input::new(x, m, layers[0].k(), format_of_first, isa);
            now.into_iter().zip(gemm(&layers, &input)).for_each(|(i, product)| outs[i] = product);
        }
        for (part, out) in self.parts.iter().zip(&mut outs) {
            let Some(bias) = &part.bias else { continue };
            for row in out.chunks_exact_mut(bias.len()) {
                row.iter_mut().zip(bias).for_each(|(y, b)| *y += b);
            }
        }
        outs
    }
}

impl Table {
    /// # Errors
    /// A missing tensor or another shape than `[n, k]`.
    pub(super) fn load(weights: &Weights, name: &str, shape: [usize; 2], compute: Compute) -> Result<Self> {
        Ok(Self(Arc::new(packed(weights, name, shape, compute.floats)?)))
    }

    /// Shape: `[rows]` -> `[rows, k]`.
    pub(super) fn rows(&self, ids: &[u32]) -> Vec<f32> {
        let k = self.0.k();
        let mut out = vec![0.0; ids.len() * k];
        for (&id, row) in ids.iter().zip(out.chunks_exact_mut(k)) {
            self.0.dequantize_row(id as usize, row);
        }
        out
    }
}

pub(super) fn packed(
    weights: &Weights,
    name: &str,
    [n, k]: [usize; 2],
    floats: Option<Format>,
) -> Result<Packed> {
    let (format, bytes) = encoded(weights, name, [n, k], floats)?;
    let packed = Packed::pack(format, n, k, &bytes).map_err(|e| weights.bad(name, &e.to_string()))?;
    weights.used(name);
    Ok(packed)
}

/// A tensor's format and bytes, with floats converted to their format in memory.
///
/// Shape: that of the tensor, its rows last.
pub(super) fn encoded<'a>(
    weights: &'a Weights,
    name: &str,
    shape: [usize; 2],
    floats: Option<Format>,
) -> Result<(Format, Cow<'a, [u8]>)> {
    let stored = weights.get(name, &shape)?;
    let format = stored.dtype;
    let is_whole = |format: &Format| shape.last().is_some_and(|k| k.is_multiple_of(format.block()));
    Ok(match (floats.filter(is_whole), weights::floats(stored.dtype, &stored.bytes)) {
        (Some(wanted), Some(values)) if wanted != format => (wanted, encode(wanted, &values).into()),
        _ => (format, stored.bytes),
    })
}

/// Values in a format: little-endian floats, or blocks of `Q8_0`.
pub(super) fn encode(format: Format, values: &[f32]) -> Vec<u8> {
    match format {
        Format::Bf16 => values.iter().flat_map(|&x| half::bf16::from_f32(x).to_le_bytes()).collect(),
        Format::F16 => values.iter().flat_map(|&x| half::f16::from_f32(x).to_le_bytes()).collect(),
        Format::Q8_0 => values.chunks_exact(BLOCK).flat_map(eight_bits).collect(),
        _ => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
    }
}

/// A block of `Q8_0`: the scale, with which the largest value becomes 127 or -127, and the rounded values.
fn eight_bits(values: &[f32]) -> Vec<u8> {
    let largest = values.iter().fold(0.0, |largest: f32, x| largest.max(x.abs()));
    let scale = largest / 127.0;
    let by = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    let codes = values.iter().map(|x| (x * by).round() as i8 as u8);
    half::f16::from_f32(scale).to_le_bytes().into_iter().chain(codes).collect()
}
