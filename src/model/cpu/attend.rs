//! Attention of one tile of queries over the paged cache, on CPU lanes.
//!
//! Keys are split every [`SPLIT`] absolute positions; each split's softmax is taken apart and the splits are
//! merged in order. A query's bits therefore depend on its own keys alone: not on the chunk it came in, not
//! on the other queries of the tile, not on which blocks they share. It writes no cache.

use super::{
    Tier,
    lanes::{self, Lanes, Stored, WIDTH},
    on_tier,
};

/// Tokens of a block of the cache.
pub const BLOCK: usize = 16;

/// Keys of one split.
pub const SPLIT: usize = 256;

const SPLIT_BLOCKS: usize = SPLIT / BLOCK;

/// Queries that share one pass over the keys in registers: enough sums in flight to hide the latency of each.
pub const TOGETHER: usize = 8;

/// One layer's cache and shape.
#[derive(Clone, Copy)]
pub struct Cached<'a, S> {
    /// `[n_blocks, n_kv_heads, head_dim, BLOCK]`
    pub keys: &'a [S],
    /// `[n_blocks, n_kv_heads, BLOCK, head_dim]`
    pub values: &'a [S],
    pub n_kv_heads: usize,
    pub head_dim: usize,
    /// Keys that a query sees, its own included; `None` for all.
    pub window: Option<usize>,
}

impl<'a, S> Cached<'a, S> {
    fn block(&self, data: &'a [S], block: u32, head: usize) -> &'a [S] {
        let size = self.head_dim * BLOCK;
        let at = (block as usize * self.n_kv_heads + head) * size;
        &data[at..at + size]
    }
}

/// One row of the step: its absolute position and the blocks of its sequence.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    pub position: usize,
    pub blocks: &'a [u32],
}

impl<'a> Row<'a> {
    /// The first key that the row sees.
    fn first(&self, window: Option<usize>) -> usize {
        window.map_or(0, |w| (self.position + 1).saturating_sub(w))
    }

    /// The blocks of one split that hold keys of this row.
    fn split(&self, split: usize) -> &'a [u32] {
        let end = (self.position / BLOCK + 1).min((split + 1) * SPLIT_BLOCKS);
        self.blocks.get(split * SPLIT_BLOCKS..end).unwrap_or(&[])
    }
}

/// One thread's buffers, reused between its tiles.
#[derive(Default)]
pub struct Scratch {
    /// The tile's queries, already scaled: `[rows, group, head_dim]`.
    pub queries: Vec<f32>,
    /// `[n_queries, SPLIT]`
    scores: Vec<f32>,
    /// `[n_queries, head_dim]`, of the split at hand.
    part: Vec<f32>,
    /// Running maximum and denominator of each query.
    peak: Vec<f32>,
    total: Vec<f32>,
}

/// Attends the queries in `scratch` to the keys of one kv head.
///
/// Shape: `out` is `[rows, group, head_dim]`.
pub fn attend<S: Stored>(
    tier: Tier,
    cached: Cached<'_, S>,
    head: usize,
    rows: &[Row<'_>],
    scratch: &mut Scratch,
    out: &mut [f32],
) {
    on_tier!(tier, tile<S>(
        cached: Cached<'_, S>,
        head: usize,
        rows: &[Row<'_>],
        scratch: &mut Scratch,
        out: &mut [f32],
    ));
}

#[inline(always)]
fn tile<L: Lanes, S: Stored>(
    cached: Cached<'_, S>,
    head: usize,
    rows: &[Row<'_>],
    scratch: &mut Scratch,
    out: &mut [f32],
) {
    let queries = std::mem::take(&mut scratch.queries);
    let n_queries = queries.len() / cached.head_dim;
    scratch.scores.resize(n_queries * SPLIT, 0.0);
    scratch.part.resize(n_queries * cached.head_dim, 0.0);
    scratch.peak.clear();
    scratch.peak.resize(n_queries, f32::NEG_INFINITY);
    scratch.total.clear();
    scratch.total.resize(n_queries, 0.0);
    out.fill(0.0);
    let group = n_queries / rows.len();
    let last = rows.iter().map(|row| row.position / SPLIT).max().unwrap_or(0);
    for split in 0..=last {
        let mut from = 0;
        while from < rows.len() {
            let same = sharing(&rows[from..], split);
            let run =
                Run { cached, head, split, rows: &rows[from..from + same], group, first_query: from * group };
            run.attend::<L>(&queries, out, scratch);
            from += same;
        }
    }
    for (query, total) in out.chunks_exact_mut(cached.head_dim).zip(&scratch.total) {
        let by = L::splat(1.0 / total);
        for lanes in query.as_chunks_mut::<WIDTH>().0 {
            L::load(lanes).mul(by).store(lanes);
        }
    }
    scratch.queries = queries;
}

/// How many of the first rows have this split's keys in the same blocks, to read them once, together.
fn sharing(rows: &[Row<'_>], split: usize) -> usize {
    let mut longest = rows[0].split(split);
    for (i, row) in rows.iter().enumerate() {
        let blocks = row.split(split);
        let n = blocks.len().min(longest.len());
        if blocks[..n] != longest[..n] || (n == 0 && blocks.len() != longest.len()) {
            return i;
        }
        if blocks.len() > n {
            longest = blocks;
        }
    }
    rows.len()
}

/// Neighbouring rows whose keys of one split lie in the same blocks.
struct Run<'a, S> {
    cached: Cached<'a, S>,
    head: usize,
    split: usize,
    rows: &'a [Row<'a>],
    group: usize,
    first_query: usize,
}

impl<S: Stored> Run<'_, S> {
    /// Adds this split to the running softmax of the run's queries.
    #[inline(always)]
    fn attend<L: Lanes>(&self, queries: &[f32], out: &mut [f32], scratch: &mut Scratch) {
        let base = self.split * SPLIT;
        let first = self.rows.iter().map(|row| row.first(self.cached.window)).min().unwrap_or(0).max(base);
        let longest = self.rows.iter().max_by_key(|row| row.position).expect("a run has rows");
        let end = (longest.position + 1).min(base + SPLIT);
        if first >= end {
            return;
        }
        let blocks = longest.split(self.split);
        // Keys of the split that any row of the run sees, in whole blocks.
        let (lo, hi) = ((first - base) / BLOCK, (end - base).div_ceil(BLOCK));
        self.score::<L>(&blocks[..hi], lo, queries, &mut scratch.scores);
        let merges = self.soften::<L>(lo, hi, scratch);
        self.weigh_values::<L>(blocks, (first - base, end - base), scratch);
        self.merge::<L>(&merges, out, scratch);
    }

    /// Dot products of every query with every key of blocks `lo..`.
    #[inline(always)]
    fn score<L: Lanes>(&self, blocks: &[u32], lo: usize, queries: &[f32], scores: &mut [f32]) {
        let dim = self.cached.head_dim;
        let n = self.rows.len() * self.group;
        for (at, &block) in blocks.iter().enumerate().skip(lo) {
            let keys = self.cached.block(self.cached.keys, block, self.head).as_chunks::<WIDTH>().0;
            for first in (0..n).step_by(TOGETHER) {
                let q = self.first_query + first;
                let (queries, scores) = (&queries[q * dim..], &mut scores[q * SPLIT + at * BLOCK..]);
                match n - first {
                    1 => dots::<L, S, 1>(keys, queries, dim, scores),
                    2 => dots::<L, S, 2>(keys, queries, dim, scores),
                    3 => dots::<L, S, 3>(keys, queries, dim, scores),
                    4 => dots::<L, S, 4>(keys, queries, dim, scores),
                    5 => dots::<L, S, 5>(keys, queries, dim, scores),
                    6 => dots::<L, S, 6>(keys, queries, dim, scores),
                    7 => dots::<L, S, 7>(keys, queries, dim, scores),
                    _ => dots::<L, S, TOGETHER>(keys, queries, dim, scores),
                }
            }
        }
    }

    /// Turns scores into weights, and gives for each query the factors on what was and on what comes; `None`
    /// when it sees no key of the split.
    #[inline(always)]
    fn soften<L: Lanes>(&self, lo: usize, hi: usize, scratch: &mut Scratch) -> Vec<Option<(f32, f32)>> {
        let base = self.split * SPLIT;
        let mut factors = Vec::with_capacity(self.rows.len() * self.group);
        for i in 0..self.rows.len() * self.group {
            let (row, query) = (&self.rows[i / self.group], self.first_query + i);
            let scores = &mut scratch.scores[query * SPLIT + lo * BLOCK..query * SPLIT + hi * BLOCK];
            let seen = row.first(self.cached.window)..row.position + 1;
            for (j, score) in scores.iter_mut().enumerate() {
                if !seen.contains(&(base + lo * BLOCK + j)) {
                    *score = f32::NEG_INFINITY;
                }
            }
            let scores = scores.as_chunks_mut::<WIDTH>().0;
            let mut top = L::splat(f32::NEG_INFINITY);
            for lanes in scores.iter() {
                top = L::load(lanes).max(top);
            }
            let peak = lanes::largest(top);
            if peak == f32::NEG_INFINITY {
                scores.as_flattened_mut().fill(0.0);
                factors.push(None);
                continue;
            }
            let mut sums = L::splat(0.0);
            for lanes in scores {
                let weights = lanes::exp(L::load(lanes).sub(L::splat(peak)));
                weights.store(lanes);
                sums = sums.add(weights);
            }
            let (was, total) = (scratch.peak[query], lanes::sum(sums));
            let now = if peak > was { peak } else { was };
            let (keep, take) = (scalar_exp::<L>(was - now), scalar_exp::<L>(peak - now));
            scratch.peak[query] = now;
            scratch.total[query] = scratch.total[query].mul_add(keep, total * take);
            factors.push(Some((keep, take)));
        }
        factors
    }

    /// Sums of values under the weights, into `scratch.part`.
    #[inline(always)]
    fn weigh_values<L: Lanes>(&self, blocks: &[u32], keys: (usize, usize), scratch: &mut Scratch) {
        let dim = self.cached.head_dim;
        let n = self.rows.len() * self.group;
        for first in (0..n).step_by(4) {
            let (q, wide) = (self.first_query + first, 4.min(n - first));
            let weights = &scratch.scores[q * SPLIT..(q + wide) * SPLIT];
            let part = &mut scratch.part[q * dim..(q + wide) * dim];
            let values = Values { cached: self.cached, head: self.head, blocks };
            match (wide, dim / WIDTH % 4) {
                (4, 0) => sums::<L, S, 4, 4>(values, keys, weights, part),
                (4, 2) => sums::<L, S, 4, 2>(values, keys, weights, part),
                (4, _) => sums::<L, S, 4, 1>(values, keys, weights, part),
                (3, 0) => sums::<L, S, 3, 4>(values, keys, weights, part),
                (3, 2) => sums::<L, S, 3, 2>(values, keys, weights, part),
                (3, _) => sums::<L, S, 3, 1>(values, keys, weights, part),
                (2, 0) => sums::<L, S, 2, 4>(values, keys, weights, part),
                (2, 2) => sums::<L, S, 2, 2>(values, keys, weights, part),
                (2, _) => sums::<L, S, 2, 1>(values, keys, weights, part),
                (_, 0) => sums::<L, S, 1, 4>(values, keys, weights, part),
                (_, 2) => sums::<L, S, 1, 2>(values, keys, weights, part),
                _ => sums::<L, S, 1, 1>(values, keys, weights, part),
            }
        }
    }

    /// `out = out * keep + part * take`.
    #[inline(always)]
    fn merge<L: Lanes>(&self, factors: &[Option<(f32, f32)>], out: &mut [f32], scratch: &Scratch) {
        let dim = self.cached.head_dim;
        for (i, &factors) in factors.iter().enumerate() {
            let Some((keep, take)) = factors else { continue };
            let at = (self.first_query + i) * dim;
            let (part, out) = (&scratch.part[at..at + dim], &mut out[at..at + dim]);
            for (part, out) in part.as_chunks::<WIDTH>().0.iter().zip(out.as_chunks_mut::<WIDTH>().0) {
                let scaled = L::load(part).mul(L::splat(take));
                L::load(out).mul_add(L::splat(keep), scaled).store(out);
            }
        }
    }
}

#[inline(always)]
fn scalar_exp<L: Lanes>(x: f32) -> f32 {
    let mut lanes = [0.0; WIDTH];
    lanes::exp(L::splat(x)).store(&mut lanes);
    lanes[0]
}

/// Dot products of `N` queries with the sixteen keys of a block, along the head in order.
///
/// Shape: `keys` `[head_dim][16]`, `queries` `[N, dim]`, `scores` `[N, SPLIT]` from the block's first key.
#[inline(always)]
fn dots<L: Lanes, S: Stored, const N: usize>(
    keys: &[[S; WIDTH]],
    queries: &[f32],
    dim: usize,
    scores: &mut [f32],
) {
    let keys = &keys[..dim];
    // Slices of the keys' own length, so that no bound is checked in the loop.
    let queries: [&[f32]; N] = std::array::from_fn(|i| &queries[i * dim..][..keys.len()]);
    let mut sums = [L::splat(0.0); N];
    for d in 0..keys.len() {
        let key: L = S::load(&keys[d]);
        for i in 0..N {
            sums[i] = L::splat(queries[i][d]).mul_add(key, sums[i]);
        }
    }
    for (i, sum) in sums.into_iter().enumerate() {
        sum.store(scores[i * SPLIT..].first_chunk_mut().expect("a block's scores"));
    }
}

/// The values of one split under one head.
#[derive(Clone, Copy)]
struct Values<'a, S> {
    cached: Cached<'a, S>,
    head: usize,
    blocks: &'a [u32],
}

/// Sums of values of keys `from..to` of a split under the weights of `N` queries, key by key in order, `M`
/// vectors of the head at a time in registers.
///
/// Shape: `weights` `[N, SPLIT]`, `part` `[N, head_dim]`.
#[inline(always)]
fn sums<L: Lanes, S: Stored, const N: usize, const M: usize>(
    values: Values<'_, S>,
    (from, to): (usize, usize),
    weights: &[f32],
    part: &mut [f32],
) {
    let dim = values.cached.head_dim;
    for first in (0..dim / WIDTH).step_by(M) {
        let mut acc = [[L::splat(0.0); M]; N];
        for block_idx in from / BLOCK..to.div_ceil(BLOCK) {
            let block = values.cached.block(values.cached.values, values.blocks[block_idx], values.head);
            let base = block_idx * BLOCK;
            for key in from.max(base)..to.min(base + BLOCK) {
                let row = block[(key - base) * dim + first * WIDTH..].as_chunks::<WIDTH>().0;
                let row: &[[S; WIDTH]; M] = row.first_chunk().expect("the head's vectors");
                for i in 0..N {
                    let weight = L::splat(weights[i * SPLIT + key]);
                    for v in 0..M {
                        acc[i][v] = weight.mul_add(S::load(&row[v]), acc[i][v]);
                    }
                }
            }
        }
        for (i, acc) in acc.iter().enumerate() {
            for (v, lanes) in acc.iter().enumerate() {
                let at = i * dim + (first + v) * WIDTH;
                lanes.store(part[at..].first_chunk_mut().expect("a vector of the head"));
            }
        }
    }
}
