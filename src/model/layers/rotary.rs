//! Head norm and rotary embedding of queries and keys, and the cache's writes.

use candle_core::{CpuStorage, CustomOp1, InplaceOp2, Layout, Result, Shape, WithDType};
use half::{bf16, f16};
use rayon::prelude::*;

use super::{floats, norm::normalise};
use crate::model::cpu::{
    attend::{BLOCK, key_at, value_at},
    lanes::Stored,
};

/// Cosines and sines of a step's positions under one rope.
pub struct Angles {
    /// Shape: `[tokens, head_dim / 2]`.
    cos: Vec<f32>,
    sin: Vec<f32>,
    half: usize,
}

impl Angles {
    /// `frequencies` in radians per position; cos and sin are multiplied by `scale`.
    #[must_use]
    pub fn new(positions: &[u32], frequencies: &[f32], scale: f32) -> Self {
        let angles = positions.iter().flat_map(|&p| frequencies.iter().map(move |f| p as f32 * f));
        let (cos, sin) = angles.map(|a| (a.cos() * scale, a.sin() * scale)).unzip();
        Self { cos, sin, half: frequencies.len() }
    }

    /// Turns the halves of one head of one token.
    fn rotate(&self, token: usize, head: &mut [f32]) {
        let at = token * self.half..(token + 1) * self.half;
        let (low, high) = head.split_at_mut(self.half);
        for (((x, y), c), s) in low.iter_mut().zip(high).zip(&self.cos[at.clone()]).zip(&self.sin[at]) {
            (*x, *y) = (*x * c - *y * s, *y * c + *x * s);
        }
    }
}

/// How many heads, and how wide.
#[derive(Clone, Copy)]
pub struct Heads {
    pub n_heads: usize,
    pub n_kv_heads: usize,
    pub head_dim: usize,
}

/// The norm of each head of q or k, where the architecture has one.
pub struct HeadNorm {
    pub weight: Vec<f32>,
    pub eps: f32,
}

/// Norm and rope of one kind of head.
pub struct Turn<'a> {
    pub heads: Heads,
    pub norm: Option<&'a HeadNorm>,
    pub angles: &'a Angles,
}

impl Turn<'_> {
    fn apply(&self, token: usize, head: &mut [f32]) {
        if let Some(norm) = self.norm {
            normalise(head, &norm.weight, norm.eps);
        }
        self.angles.rotate(token, head);
    }
}

/// Queries, normed, turned and multiplied by the attention scale.
///
/// Shape: `[tokens, H head_dim]`.
pub struct Queries<'a> {
    pub turn: Turn<'a>,
    pub scale: f32,
}

impl CustomOp1 for Queries<'_> {
    fn name(&self) -> &'static str {
        "rotary-queries"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let Heads { n_heads, head_dim, .. } = self.turn.heads;
        let mut out = floats(storage, layout)?.to_vec();
        out.par_chunks_mut(n_heads * head_dim).enumerate().for_each(|(token, row)| {
            for head in row.chunks_exact_mut(head_dim) {
                self.turn.apply(token, head);
                for x in head.iter_mut() {
                    *x *= self.scale;
                }
            }
        });
        Ok((CpuStorage::F32(out), layout.shape().clone()))
    }
}

/// Writes a step's keys, normed and turned, to their slots.
///
/// Shape: cache `[n_blocks, KV]` blocks as in [`key_at`], rows `[tokens, KV head_dim]`; a slot is
/// `block * BLOCK + offset`.
pub struct WriteKeys<'a> {
    pub turn: Turn<'a>,
    pub slots: &'a [u32],
}

impl InplaceOp2 for WriteKeys<'_> {
    fn name(&self) -> &'static str {
        "write-keys"
    }

    fn cpu_fwd(&self, cache: &mut CpuStorage, _: &Layout, rows: &CpuStorage, layout: &Layout) -> Result<()> {
        let rows = floats(rows, layout)?;
        match cache {
            CpuStorage::BF16(cache) => self.write::<bf16>(cache, rows),
            CpuStorage::F16(cache) => self.write::<f16>(cache, rows),
            CpuStorage::F32(cache) => self.write::<f32>(cache, rows),
            _ => candle_core::bail!("the cache holds floats"),
        }
        Ok(())
    }
}

impl WriteKeys<'_> {
    fn write<S: Stored + WithDType>(&self, cache: &mut [S], rows: &[f32]) {
        let Heads { n_kv_heads, head_dim, .. } = self.turn.heads;
        let mut head = vec![0.0; head_dim];
        for (token, (row, &slot)) in rows.chunks_exact(n_kv_heads * head_dim).zip(self.slots).enumerate() {
            let (block, offset) = (slot as usize / BLOCK, slot as usize % BLOCK);
            for (kv, key) in row.chunks_exact(head_dim).enumerate() {
                head.copy_from_slice(key);
                self.turn.apply(token, &mut head);
                let at = (block * n_kv_heads + kv) * head_dim * BLOCK;
                let cached = &mut cache[at..at + head_dim * BLOCK];
                for (d, &x) in head.iter().enumerate() {
                    cached[key_at::<S>(offset, d)] = S::narrow(x);
                }
            }
        }
    }
}

/// Writes a step's values to their slots.
///
/// Shape: cache `[n_blocks, KV]` blocks as in [`value_at`], rows `[tokens, KV head_dim]`.
pub struct WriteValues<'a> {
    pub heads: Heads,
    pub slots: &'a [u32],
}

impl InplaceOp2 for WriteValues<'_> {
    fn name(&self) -> &'static str {
        "write-values"
    }

    fn cpu_fwd(&self, cache: &mut CpuStorage, _: &Layout, rows: &CpuStorage, layout: &Layout) -> Result<()> {
        let rows = floats(rows, layout)?;
        match cache {
            CpuStorage::BF16(cache) => self.write::<bf16>(cache, rows),
            CpuStorage::F16(cache) => self.write::<f16>(cache, rows),
            CpuStorage::F32(cache) => self.write::<f32>(cache, rows),
            _ => candle_core::bail!("the cache holds floats"),
        }
        Ok(())
    }
}

impl WriteValues<'_> {
    fn write<S: Stored + WithDType>(&self, cache: &mut [S], rows: &[f32]) {
        let Heads { n_kv_heads, head_dim, .. } = self.heads;
        for (row, &slot) in rows.chunks_exact(n_kv_heads * head_dim).zip(self.slots) {
            let (block, offset) = (slot as usize / BLOCK, slot as usize % BLOCK);
            for (kv, value) in row.chunks_exact(head_dim).enumerate() {
                let at = (block * n_kv_heads + kv) * BLOCK * head_dim;
                let cached = &mut cache[at..at + BLOCK * head_dim];
                for (d, &x) in value.iter().enumerate() {
                    let at = value_at::<S>(offset, d, head_dim);
                    cached[at] = S::narrow(x);
                    if offset % S::UNIT + 1 < S::UNIT {
                        // The unit's other value is read before it is written, under a weight of 0.
                        cached[at + 1] = S::narrow(0.0);
                    }
                }
            }
        }
    }
}
