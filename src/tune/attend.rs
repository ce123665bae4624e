//! Attention over packed rows, as an operation of candle with its gradient: what it keeps for the way back is queries,
//! keys and values, and the weights of each head are computed again. Candle's graph would keep every one of them.
//!
//! Source: Dao et al. 2022, "FlashAttention", Appendix B.2 (the gradient without the stored weights).

use std::{ops::Range, sync::Arc};

use candle_core::{CpuStorage, CustomOp3, Device, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::frozen::contiguous;
use crate::model::cpu::{Tier, softmax::exponentials};

/// The heads of a layer.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    pub n_heads: usize,
    pub n_kv_heads: usize,
    pub head_dim: usize,
    /// Products of queries and keys are multiplied by this.
    pub scale: f32,
    /// Keys that a query sees, its own included; `None` for all before it.
    pub window: Option<usize>,
}

/// Queries that see the same keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Sight {
    /// Rows of the queries, and the position of each in its sequence.
    pub queries: Range<usize>,
    pub positions: Vec<usize>,
    /// Rows of the keys: those that sequences share, and the sequence's own. The j-th of them is at position j.
    pub keys: [Range<usize>; 2],
}

/// Attention of all queries of a batch.
#[derive(Clone)]
pub struct Attend {
    pub heads: Heads,
    pub sights: Arc<Vec<Sight>>,
}

/// One head of keys with the queries that read it, of one sight.
struct Tile {
    /// `[group queries, head_dim]`, `[keys, head_dim]`, `[keys, head_dim]`.
    q: Tensor,
    k: Tensor,
    v: Tensor,
    /// `[group queries, keys]`.
    weights: Vec<f32>,
}

impl Attend {
    /// Softmax of queries and keys, times values.
    ///
    /// Shape: `[queries, heads head_dim]`, `[rows, kv heads head_dim]` twice -> `[queries, heads head_dim]`.
    ///
    /// # Errors
    /// Other shapes, or not f32 on a CPU.
    pub fn apply(self, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
        q.contiguous()?.apply_op3(&k.contiguous()?, &v.contiguous()?, self)
    }

    fn group(&self) -> usize {
        self.heads.n_heads / self.heads.n_kv_heads
    }

    /// Every sight with every head of keys.
    fn tiles(&self) -> Vec<(&Sight, usize)> {
        let heads = 0..self.heads.n_kv_heads;
        self.sights.iter().flat_map(|sight| heads.clone().map(move |head| (sight, head))).collect()
    }

    /// The rows of the queries that read a head of keys.
    fn queries_of(&self, rows: &[f32], sight: &Sight, kv_head: usize) -> Vec<f32> {
        let (dim, group) = (self.heads.head_dim, self.group());
        let width = self.heads.n_heads * dim;
        let row = |head: usize| {
            sight
                .queries
                .clone()
                .flat_map(move |row| &rows[row * width + (kv_head * group + head) * dim..][..dim])
        };
        (0..group).flat_map(row).copied().collect()
    }

    fn keys_of(&self, rows: &[f32], sight: &Sight, kv_head: usize) -> Vec<f32> {
        let (dim, width) = (self.heads.head_dim, self.heads.n_kv_heads * self.heads.head_dim);
        let keys = sight.keys.iter().flat_map(Clone::clone);
        keys.flat_map(|row| &rows[row * width + kv_head * dim..][..dim]).copied().collect()
    }

    fn tile(&self, (q, k, v): (&[f32], &[f32], &[f32]), sight: &Sight, kv_head: usize) -> Result<Tile> {
        let dim = self.heads.head_dim;
        let rows =
            |values: Vec<f32>| Tensor::from_vec(values.clone(), (values.len() / dim, dim), &Device::Cpu);
        let q = rows(self.queries_of(q, sight, kv_head))?;
        let (k, v) = (rows(self.keys_of(k, sight, kv_head))?, rows(self.keys_of(v, sight, kv_head))?);
        let mut weights = q.matmul(&k.t()?)?.flatten_all()?.to_vec1::<f32>()?;
        let n_keys = k.dim(0)?;
        let n_queries = sight.positions.len();
        weights.par_chunks_mut(n_keys).enumerate().for_each(|(row, scores)| {
            self.soften(sight.positions[row % n_queries], scores);
        });
        Ok(Tile { q, k, v, weights })
    }

    /// Scores of one query become weights.
    fn soften(&self, position: usize, scores: &mut [f32]) {
        let first = self.heads.window.map_or(0, |window| (position + 1).saturating_sub(window));
        let seen = first..position + 1;
        let peak = scores[seen.clone()].iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights = exponentials(Tier::detect(), &scores[seen.clone()], peak, 1.0 / self.heads.scale);
        let sum: f32 = weights.iter().sum();
        scores.fill(0.0);
        scores[seen].iter_mut().zip(weights).for_each(|(score, weight)| *score = weight / sum);
    }

    /// Adds the rows of a tile's queries to where they belong.
    fn put_queries(&self, out: &mut [f32], sight: &Sight, kv_head: usize, values: &[f32]) {
        let (dim, group) = (self.heads.head_dim, self.group());
        let (width, n) = (self.heads.n_heads * dim, sight.positions.len());
        for (i, value) in values.chunks_exact(dim).enumerate() {
            let (head, row) = (kv_head * group + i / n, sight.queries.start + i % n);
            let place = &mut out[row * width + head * dim..][..dim];
            place.iter_mut().zip(value).for_each(|(a, b)| *a += b);
        }
    }

    fn put_keys(&self, out: &mut [f32], sight: &Sight, kv_head: usize, values: &[f32]) {
        let (dim, width) = (self.heads.head_dim, self.heads.n_kv_heads * self.heads.head_dim);
        let keys = sight.keys.iter().flat_map(Clone::clone);
        for (row, value) in keys.zip(values.chunks_exact(dim)) {
            let place = &mut out[row * width + kv_head * dim..][..dim];
            place.iter_mut().zip(value).for_each(|(a, b)| *a += b);
        }
    }

    /// The gradients of a tile's queries, keys and values.
    fn tile_gradients(&self, tile: &Tile, grad: Vec<f32>) -> Result<[Vec<f32>; 3]> {
        let (dim, n_keys) = (self.heads.head_dim, tile.k.dim(0)?);
        let shape = (grad.len() / dim, dim);
        let grad = Tensor::from_vec(grad, shape, &Device::Cpu)?;
        let weights = Tensor::from_slice(&tile.weights, (shape.0, n_keys), &Device::Cpu)?;
        let dv = weights.t()?.contiguous()?.matmul(&grad)?;
        let mut ds = grad.matmul(&tile.v.t()?)?.flatten_all()?.to_vec1::<f32>()?;
        ds.par_chunks_mut(n_keys).zip(tile.weights.par_chunks(n_keys)).for_each(|(dp, p)| {
            let mean: f32 = dp.iter().zip(p).map(|(dp, p)| dp * p).sum();
            dp.iter_mut().zip(p).for_each(|(dp, p)| *dp = p * (*dp - mean) * self.heads.scale);
        });
        let ds = Tensor::from_vec(ds, (shape.0, n_keys), &Device::Cpu)?;
        let (dq, dk) = (ds.matmul(&tile.k)?, ds.t()?.contiguous()?.matmul(&tile.q)?);
        let [dq, dk, dv] = [dq, dk, dv].map(|tensor| tensor.flatten_all()?.to_vec1::<f32>());
        Ok([dq?, dk?, dv?])
    }
}

impl CustomOp3 for Attend {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn cpu_fwd(
        &self,
        q: &CpuStorage,
        q_layout: &Layout,
        k: &CpuStorage,
        k_layout: &Layout,
        v: &CpuStorage,
        v_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let rows = (contiguous(q, q_layout)?, contiguous(k, k_layout)?, contiguous(v, v_layout)?);
        let tiles = self.tiles();
        let attended = |&(sight, head): &(&Sight, usize)| {
            let Tile { v, weights, .. } = self.tile(rows, sight, head)?;
            let shape = (weights.len() / v.dim(0)?, v.dim(0)?);
            Tensor::from_vec(weights, shape, &Device::Cpu)?.matmul(&v)?.flatten_all()?.to_vec1::<f32>()
        };
        let attended: Vec<Vec<f32>> = tiles.par_iter().map(attended).collect::<Result<_>>()?;
        let mut out = vec![0.0; rows.0.len()];
        for ((sight, head), values) in tiles.into_iter().zip(&attended) {
            self.put_queries(&mut out, sight, head, values);
        }
        Ok((CpuStorage::F32(out), Shape::from(q_layout.dims().to_vec())))
    }

    fn bwd(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let [q_rows, k_rows, v_rows, grad] = [q, k, v, grad].map(|t| t.flatten_all()?.to_vec1::<f32>());
        let (q_rows, k_rows, v_rows, grad) = (q_rows?, k_rows?, v_rows?, grad?);
        let tiles = self.tiles();
        let gradients = |&(sight, head): &(&Sight, usize)| {
            let tile = self.tile((&q_rows, &k_rows, &v_rows), sight, head)?;
            self.tile_gradients(&tile, self.queries_of(&grad, sight, head))
        };
        let gradients: Vec<[Vec<f32>; 3]> = tiles.par_iter().map(gradients).collect::<Result<_>>()?;
        let mut sums = [&q_rows, &k_rows, &v_rows].map(|rows| vec![0.0; rows.len()]);
        // One after another, so that the sums of shared keys have one order.
        for ((sight, head), [dq, dk, dv]) in tiles.into_iter().zip(&gradients) {
            self.put_queries(&mut sums[0], sight, head, dq);
            self.put_keys(&mut sums[1], sight, head, dk);
            self.put_keys(&mut sums[2], sight, head, dv);
        }
        let [dq, dk, dv] = sums;
        let like = |values, tensor: &Tensor| Tensor::from_vec(values, tensor.shape(), &Device::Cpu).map(Some);
        Ok((like(dq, q)?, like(dk, k)?, like(dv, v)?))
    }
}
