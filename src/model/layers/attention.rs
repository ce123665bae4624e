//! Attention of a step's queries over the paged cache.

use candle_core::{CpuStorage, CustomOp3, Layout, Result, Shape};
use half::{bf16, f16};
use rayon::prelude::*;

use super::{floats, rotary::Heads};
use crate::model::cpu::{
    Tier,
    attend::{Cached, Row, Scratch, TOGETHER, attend},
    lanes::Stored,
};

/// Rows of a tile: their queries fill whole registers' worth, many share one reading of the keys, and their
/// scores stay in the second-level cache.
fn rows_a_tile(group: usize) -> usize {
    let whole = (1..=TOGETHER).find(|rows| (rows * group).is_multiple_of(TOGETHER)).unwrap_or(TOGETHER);
    whole * (24_usize.div_ceil(whole * group)).max(1)
}

/// Softmax of queries and keys, times values.
///
/// Shape: queries `[tokens, H head_dim]`, caches as in [`crate::model::KvCache`], out as the queries.
pub struct Attend<'a> {
    pub heads: Heads,
    pub window: Option<usize>,
    /// One for each token; rows that share blocks side by side are read together.
    pub rows: &'a [Row<'a>],
    pub tier: Tier,
}

impl CustomOp3 for Attend<'_> {
    fn name(&self) -> &'static str {
        "paged-attention"
    }

    fn cpu_fwd(
        &self,
        queries: &CpuStorage,
        layout: &Layout,
        keys: &CpuStorage,
        _: &Layout,
        values: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let queries = floats(queries, layout)?;
        let out = match (keys, values) {
            (CpuStorage::BF16(k), CpuStorage::BF16(v)) => self.attend::<bf16>(queries, k, v),
            (CpuStorage::F16(k), CpuStorage::F16(v)) => self.attend::<f16>(queries, k, v),
            (CpuStorage::F32(k), CpuStorage::F32(v)) => self.attend::<f32>(queries, k, v),
            _ => candle_core::bail!("the cache holds floats of one type"),
        };
        Ok((CpuStorage::F32(out), layout.shape().clone()))
    }
}

impl Attend<'_> {
    fn attend<S: Stored>(&self, queries: &[f32], keys: &[S], values: &[S]) -> Vec<f32> {
        let Heads { n_heads, n_kv_heads, head_dim } = self.heads;
        let (group, width) = (n_heads / n_kv_heads, n_heads * head_dim);
        let cached = Cached { keys, values, n_kv_heads, head_dim, window: self.window };
        let rows_a_tile = rows_a_tile(group);
        let tasks: Vec<(usize, usize)> = (0..self.rows.len())
            .step_by(rows_a_tile)
            .flat_map(|first| (0..n_kv_heads).map(move |head| (first, head)))
            .collect();
        let part = group * head_dim;
        let run = |scratch: &mut Scratch<S>, &(first, head): &(usize, usize)| {
            let rows = &self.rows[first..self.rows.len().min(first + rows_a_tile)];
            // The queries of one kv head, side by side: [rows, group, head_dim].
            scratch.queries.clear();
            for row in first..first + rows.len() {
                scratch.queries.extend_from_slice(&queries[row * width + head * part..][..part]);
            }
            let mut out = vec![0.0; rows.len() * part];
            attend(self.tier, cached, head, rows, scratch, &mut out);
            out
        };
        let parts: Vec<Vec<f32>> = tasks.par_iter().map_init(Scratch::default, run).collect();
        let mut out = vec![0.0; queries.len()];
        for (&(first, head), rows) in tasks.iter().zip(&parts) {
            for (i, row) in rows.chunks_exact(part).enumerate() {
                out[(first + i) * width + head * part..][..part].copy_from_slice(row);
            }
        }
        out
    }
}
