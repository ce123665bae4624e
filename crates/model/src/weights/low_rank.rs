//! Low-rank matrices that are added to those of a checkpoint when these are read.

use std::{collections::BTreeMap, sync::Arc};

use super::{Format, Source, Weights, floats};
use crate::Error;

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

/// A matrix in its stored format, and what is added to it.
pub(super) struct Sum {
    pub inner: Source,
    dtype: Format,
    added: LowRank,
}

impl Weights {
    /// These weights with low-rank matrices added to some of them, which are f32 then.
    ///
    /// # Errors
    /// A matrix that is missing, of another shape, or in a format that cannot be added to.
    pub fn with_added(mut self, added: &BTreeMap<String, LowRank>) -> Result<Self, Error> {
        for (name, low_rank) in added {
            let Some(entry) = self.index.get(name) else { return Err(self.bad(name, "is missing")) };
            let LowRank { rank, a, b } = low_rank;
            let shape = [b.len() / rank.max(&1), a.len() / rank.max(&1)];
            if entry.shape != shape {
                let reason = format!("has shape {:?}, and {shape:?} is added to it", entry.shape);
                return Err(self.bad(name, &reason));
            }
            let is_read = entry.dtype == Format::Q4_0 || matches!(entry.dtype, Format::F32 | Format::Bf16);
            if !is_read || entry.rows.is_some() || self.seed.is_some() {
                return Err(self.bad(name, "is in a format that no other matrix can be added to"));
            }
            let sum = Sum { inner: entry.source.clone(), dtype: entry.dtype, added: low_rank.clone() };
            let mut entry = entry.clone();
            (entry.dtype, entry.source) = (Format::F32, Source::Sum(Arc::new(sum)));
            self.index.insert(name.clone(), entry);
        }
        Ok(self)
    }
}

impl Sum {
    /// The sum, from the stored bytes of a matrix with so many columns.
    pub fn bytes(&self, stored: &[u8], n_columns: usize) -> Result<Vec<u8>, String> {
        let values = match self.dtype {
            Format::Q4_0 => Some(q4_0(stored)),
            dtype => floats(dtype, stored),
        };
        let mut values = values.ok_or("is in a format that no other matrix can be added to")?;
        let LowRank { rank, a, b } = &self.added;
        for (row, weights) in values.chunks_exact_mut(n_columns).zip(b.chunks_exact(*rank)) {
            for (weight, of_a) in weights.iter().zip(a.chunks_exact(n_columns)) {
                row.iter_mut().zip(of_a).for_each(|(sum, x)| *sum += weight * x);
            }
        }
        Ok(values.into_iter().flat_map(f32::to_le_bytes).collect())
    }
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
