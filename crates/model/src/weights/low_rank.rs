//! Low-rank matrices that are added to those of a checkpoint when these are read: the arithmetic.

use super::ggml::{Format, floats};

/// Values of a block of `Q4_0`.
const BLOCK: usize = 32;

/// The product of two narrow matrices, as LoRA's with a scale of 1.
#[derive(Clone, Debug, PartialEq)]
pub struct LowRank {
    pub rank: usize,
    /// Shape: `[rank, inputs]`.
    pub a: Vec<f32>,
    /// Shape: `[outputs, rank]`.
    pub b: Vec<f32>,
}

impl LowRank {
    /// Outputs and inputs.
    pub(super) fn shape(&self) -> [usize; 2] {
        [&self.b, &self.a].map(|side| side.len() / self.rank.max(1))
    }

    /// The sum with a matrix of the same shape.
    pub(super) fn added_to(&self, mut values: Vec<f32>) -> Vec<f32> {
        let [_, n_columns] = self.shape();
        for (row, weights) in values.chunks_exact_mut(n_columns).zip(self.b.chunks_exact(self.rank)) {
            for (weight, of_a) in weights.iter().zip(self.a.chunks_exact(n_columns)) {
                row.iter_mut().zip(of_a).for_each(|(sum, x)| *sum += weight * x);
            }
        }
        values
    }
}

/// The values of a matrix; `None` in formats that are not supported here.
pub(super) fn values(dtype: Format, bytes: &[u8]) -> Option<Vec<f32>> {
    if dtype == Format::Q4_0 { Some(q4_0(bytes)) } else { floats(dtype, bytes) }
}

fn q4_0(bytes: &[u8]) -> Vec<f32> {
    let block = |block: &[u8]| -> [f32; BLOCK] {
        let scale = half::f16::from_le_bytes([block[0], block[1]]).to_f32();
        let codes = &block[2..];
        std::array::from_fn(|i| {
            let both = codes[i % (BLOCK / 2)];
            let code = if i < BLOCK / 2 { both & 15 } else { both >> 4 };
            scale * (f32::from(code) - 8.0)
        })
    };
    bytes.chunks_exact(Format::Q4_0.block_bytes()).flat_map(block).collect()
}
