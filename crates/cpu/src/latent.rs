//! Latent attention's projections around a cache of compressed rows. Attention over the rows themselves is
//! that of one head of keys, in [`super::attend`].
//!
//! The projection of keys is absorbed into the queries and that of values into the output: a product for each
//! token and head, as large as expanding the token's keys and values would be. A cached row has `rank +
//! rotary_dim` numbers instead of `2 heads head_dim`. A query and a key take `2 rank + rotary_dim`
//! multiplications in each head (1,088 in DeepSeek-V3) instead of 320: long prompts pay for the small cache.

use std::ops::Range;

use rayon::prelude::*;

use super::{
    Format, Input, Packed,
    attend::key_at,
    coding,
    lanes::Stored,
    linear::{Compute, Linear, encode, encoded},
    norm,
    rotary::rotate,
    schedule::{Item, gemm_each},
    shared::Shared,
};
use tribunal_model::{
    BLOCK, Config, Error, Result, Weights,
    angles::Angles,
    backend::{Cut, Matrices},
    config,
    step::Step,
    weights::values,
};

/// Rows of heads whose products are in memory at a time.
const ROWS_AT_ONCE: usize = 4096;

/// The projections of one layer.
pub struct Latent {
    /// Queries, or their compressed rows, and the row that is cached.
    down: Linear,
    /// The norm of compressed queries, and their projection to heads.
    queries: Option<(Vec<f32>, Linear)>,
    norm: Vec<f32>,
    /// For each head, `[rank, plain_dim]`, which takes a query to the compressed rows.
    keys: Vec<Packed>,
    /// For each head, `[value_dim, rank]`.
    values: Vec<Packed>,
}

/// The sizes of a model's latent attention.
fn shape(config: &Config) -> Result<(&config::Attention, &config::Latent)> {
    let latent = config.full.latent.as_ref();
    let missing = || Error::Step("expected a model with latent attention".into());
    Ok((&config.full, latent.ok_or_else(missing)?))
}

impl Latent {
    /// # Errors
    /// A missing tensor, another shape, or a type that cannot be packed.
    pub(super) fn load(weights: &Weights, module: &str, config: &Config, compute: Compute) -> Result<Self> {
        let (attention, latent) = shape(config)?;
        let at = |part: &str| format!("{module}.{part}");
        let linear = |parts: &[(String, usize)], k: usize| {
            Linear::load(weights, Matrices { parts, k, cut: Cut::Anywhere }, compute)
        };
        let (hidden, width) = (config.hidden, config.n_heads * attention.query_dim());
        let row = (at("kv_a_proj_with_mqa"), attention.head_dim);
        let (down, queries) = match latent.query_rank {
            None => (linear(&[(at("q_proj"), width), row], hidden)?, None),
            Some(rank) => {
                let norm = weights.floats(&at("q_a_layernorm.weight"), rank)?;
                let up = linear(&[(at("q_b_proj"), width)], rank)?;
                (linear(&[(at("q_a_proj"), rank), row], hidden)?, Some((norm, up)))
            }
        };
        let norm = weights.floats(&at("kv_a_layernorm.weight"), latent.rank)?;
        let [keys, values] = heads(weights, module, config, compute)?;
        Ok(Self { down, queries, norm, keys, values })
    }

    /// The output of each head from the compressed values that it attends to.
    ///
    /// Shape: `[rows, heads rank]` -> `[rows, heads value_dim]`.
    pub(super) fn expand(&self, attended: &[f32], config: &Config, compute: Compute) -> Result<Vec<f32>> {
        let (_, latent) = shape(config)?;
        let n_rows = attended.len() / (latent.rank * config.n_heads);
        let mut out = vec![0.0; n_rows * config.n_heads * latent.value_dim];
        by_head(&self.values, (attended, latent.rank), (&mut out, latent.value_dim), compute);
        Ok(out)
    }
}

/// The matrices of each head's keys and values: rows in turns of one tensor, or two tensors as llama.cpp's
/// converter splits them, in which the keys' are transposed already.
fn heads(weights: &Weights, module: &str, config: &Config, compute: Compute) -> Result<[Vec<Packed>; 2]> {
    let (_, &config::Latent { rank, plain_dim, value_dim, .. }) = shape(config)?;
    let n = config.n_heads;
    let both = format!("{module}.kv_b_proj.weight");
    if weights.contains(&both) {
        let each = plain_dim + value_dim;
        let (format, bytes) = encoded(weights, &both, [n * each, rank], compute.floats)?;
        let row_bytes = format.row_bytes(rank);
        let heads = bytes.chunks_exact(each * row_bytes).map(|head| head.split_at(plain_dim * row_bytes));
        let heads = heads.map(|(keys, values)| {
            Ok((transposed(format, [plain_dim, rank], keys)?, Packed::pack(format, value_dim, rank, values)?))
        });
        let heads: Result<(Vec<_>, Vec<_>), super::Error> = heads.collect();
        let (keys, values) = heads.map_err(|error| weights.bad(&both, &error.to_string()))?;
        weights.used(&both);
        return Ok([keys, values]);
    }
    let split = |part: &str, [rows, k]: [usize; 2]| {
        let name = format!("{module}.{part}.weight");
        let (format, bytes) = encoded(weights, &name, [n * rows, k], compute.floats)?;
        let heads = bytes.chunks_exact(rows * format.row_bytes(k));
        let heads: Result<Vec<_>, _> = heads.map(|head| Packed::pack(format, rows, k, head)).collect();
        weights.used(&name);
        heads.map_err(|error| weights.bad(&name, &error.to_string()))
    };
    Ok([split("k_b_proj", [rank, plain_dim])?, split("v_b_proj", [value_dim, rank])?])
}

/// The transpose of a matrix `[n, k]`: in its own format where that is a float, else in f32, which holds the
/// same numbers.
fn transposed(format: Format, [n, k]: [usize; 2], blocks: &[u8]) -> Result<Packed, super::Error> {
    let numbers = values(format, blocks);
    let columns: Vec<f32> = (0..k).flat_map(|j| numbers.iter().skip(j).step_by(k)).copied().collect();
    let format = if format.is_float() { format } else { Format::F32 };
    Packed::pack(format, k, n, &encode(format, &columns))
}

/// Multiplies the first values of each head's part of a row with the head's own matrix, and writes the
/// product to the first values of the head's part of a row of `out`.
///
/// Shape: `x` `[rows, heads, pitch]`, `out` `[rows, heads, out_pitch]`.
fn by_head(
    matrices: &[Packed],
    (x, pitch): (&[f32], usize),
    (out, out_pitch): (&mut [f32], usize),
    compute: Compute,
) {
    let n_heads = matrices.len();
    let together = (ROWS_AT_ONCE / (x.len() / (n_heads * pitch)).max(1)).max(1);
    for first in (0..n_heads).step_by(together) {
        let group = &matrices[first..n_heads.min(first + together)];
        let inputs: Vec<Input> = group
            .par_iter()
            .enumerate()
            .map(|(i, matrix)| {
                let (k, head) = (matrix.k(), first + i);
                let of_head = x.chunks_exact(pitch).skip(head).step_by(n_heads);
                let part: Vec<f32> = of_head.flat_map(|part| &part[..k]).copied().collect();
                Input::new(
                    &part,
                    part.len() / k,
                    k,
                    coding(matrix.format(), compute.activations),
                    compute.tier,
                )
            })
            .collect();
        let items = group.iter().zip(&inputs);
        let items: Vec<Item<'_>> =
            items.map(|(weights, input)| Item { weights, outputs: 0..weights.n(), input }).collect();
        let products = gemm_each(&items);
        out.par_chunks_exact_mut(n_heads * out_pitch).enumerate().for_each(|(row, out)| {
            for (product, out) in products.iter().zip(out.chunks_exact_mut(out_pitch).skip(first)) {
                let n = group[0].n();
                out[..n].copy_from_slice(&product[row * n..][..n]);
            }
        });
    }
}

/// A step's queries and cached rows.
pub(super) struct Projection<'a> {
    pub compute: Compute,
    pub config: &'a Config,
    pub angles: &'a Angles,
    pub step: &'a Step,
    /// Rows by the block that they write to.
    pub runs: &'a [Range<usize>],
}

impl Projection<'_> {
    /// The queries of normed rows, in the space of the cached rows, rotated and scaled; writes the rows' own
    /// compressed values, normed, and their rotated ones to the cache.
    ///
    /// Shape: `[rows, hidden]` -> `[rows, heads (rank + rotary_dim)]`.
    pub(super) fn apply<S: Stored>(&self, latent: &Latent, h: &[f32], keys: &mut [S]) -> Result<Vec<f32>> {
        let (attention, sizes) = shape(self.config)?;
        let (m, isa, eps) = (self.step.n_rows(), self.compute.tier, sizes.norm_eps as f32);
        let Ok([queries, mut rows]) = <[Vec<f32>; 2]>::try_from(latent.down.forward(h, m, &[], self.compute))
        else {
            return Err(Error::Step("expected the projections of queries and of the cached row".into()));
        };
        let queries = match &latent.queries {
            None => queries,
            Some((weight, up)) => {
                let normed = norm::rows(isa, &queries, weight, eps);
                up.forward(&normed, m, &[], self.compute).pop().unwrap_or_default()
            }
        };
        let width = attention.head_dim;
        rows.par_chunks_exact_mut(width).zip(&self.step.positions).for_each(|(row, &position)| {
            let (compressed, rotated) = row.split_at_mut(sizes.rank);
            norm::in_place(isa, compressed, &latent.norm, eps);
            self.rotate(sizes, position, rotated);
        });
        self.write(&rows, width, keys);
        let (n, from) = (self.config.n_heads, attention.query_dim());
        let mut out = vec![0.0; m * n * width];
        by_head(&latent.keys, (&queries, from), (&mut out, width), self.compute);
        let of_rows = out.par_chunks_exact_mut(n * width).zip(queries.par_chunks_exact(n * from));
        of_rows.zip(&self.step.positions).for_each(|((out, queries), &position)| {
            let growth = self.config.query_growth.map_or(1.0, |growth| growth.at(position));
            for (out, query) in out.chunks_exact_mut(width).zip(queries.chunks_exact(from)) {
                let rotated = &mut out[sizes.rank..];
                rotated.copy_from_slice(&query[sizes.plain_dim..]);
                self.rotate(sizes, position, rotated);
                for x in out {
                    *x *= self.config.attention_scale;
                    *x *= growth;
                }
            }
        });
        Ok(out)
    }

    /// Rotates a head, whose pairs become halves. Queries and keys are reordered alike.
    fn rotate(&self, sizes: &config::Latent, position: u32, head: &mut [f32]) {
        if sizes.is_interleaved {
            let pairs = head.to_vec();
            let (low, high) = head.split_at_mut(pairs.len() / 2);
            for ((low, high), pair) in low.iter_mut().zip(high).zip(pairs.as_chunks::<2>().0) {
                [*low, *high] = *pair;
            }
        }
        rotate(self.compute.tier, self.angles.at(position), head);
    }

    /// Writes rows to their slots of the cache.
    fn write<S: Stored>(&self, rows: &[f32], width: usize, keys: &mut [S]) {
        let keys = Shared::new(keys);
        self.runs.par_iter().for_each(|run| {
            let block = self.step.slots[run.start] as usize / BLOCK * width * BLOCK;
            // SAFETY: `Step::check` has checked that each block is written by one run, so that no two tasks
            // get overlapping ranges; the range is inside the slice, else `part` panics.
            let block = unsafe { keys.part(block..block + width * BLOCK) };
            for row in run.clone() {
                let offset = self.step.slots[row] as usize % BLOCK;
                for (d, &x) in rows[row * width..][..width].iter().enumerate() {
                    block[key_at::<S>(offset, d)] = S::narrow(x);
                    if offset % S::UNIT + 1 < S::UNIT {
                        // As a value it shares a unit with the next key, which is read, with a weight of 0,
                        // before it is written.
                        block[key_at::<S>(offset + 1, d)] = S::narrow(0.0);
                    }
                }
            }
        });
    }
}
