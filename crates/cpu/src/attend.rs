//! Attention of one tile of queries over the paged cache, on CPU lanes.
//!
//! Keys are split every [`SPLIT`] absolute positions; each split has a softmax of its own, and the splits are
//! merged in order (as in FlashDecoding). A query's bits therefore depend on its own keys alone: not on its
//! chunk, on the other queries of the tile, or on the blocks they share. It writes no cache.
//!
//! A cache of f32 or f16 is read in f32. Against one of bf16, queries and softmax weights are rounded to bf16
//! too and go through the machine's products of bf16 pairs, or as floats in the same order; their sums are
//! f32; numbers close to zero become zero ([`Stored`]), so that no sum is subnormal and every instruction set
//! has the same bits.

mod products;

use super::{
    Isa,
    lanes::{self, Lanes, Stored, WIDTH},
    on_isa,
};

pub use tribunal_model::BLOCK;

/// Keys of one split.
pub const SPLIT: usize = 256;

const SPLIT_BLOCKS: usize = SPLIT / BLOCK;

/// Queries that share one pass over the keys in registers: enough sums in flight to hide the latency of each.
pub const TOGETHER: usize = 8;

/// One layer's cache and shape.
#[derive(Clone, Copy)]
pub struct Cached<'a, S> {
    /// `[n_blocks, n_kv_heads]` blocks of keys, each in the layout of [`key_at`].
    pub keys: &'a [S],
    /// `[n_blocks, n_kv_heads]` blocks of values, each in the layout of [`value_at`]; empty where the values
    /// are the first dimensions of the keys.
    pub values: &'a [S],
    pub n_kv_heads: usize,
    pub head_dim: usize,
    /// Dimensions of a value: those of a key, or fewer where `values` is empty.
    pub value_dim: usize,
    /// Keys that a query sees, its own included; `None` for all.
    pub window: Option<usize>,
    /// Scores become `c tanh(score / c)`.
    pub softcap: Option<f32>,
    /// A score for each query head that joins the softmax without a value.
    pub sinks: Option<&'a [f32]>,
}

/// The index of dimension `d` of the key at `offset` in its block: `[head_dim / UNIT][BLOCK][UNIT]`.
pub fn key_at<S: Stored>(offset: usize, d: usize) -> usize {
    (d / S::UNIT * BLOCK + offset) * S::UNIT + d % S::UNIT
}

/// The index of dimension `d` of the value at `offset` in its block: `[BLOCK / UNIT][head_dim][UNIT]`.
pub fn value_at<S: Stored>(offset: usize, d: usize, head_dim: usize) -> usize {
    (offset / S::UNIT * head_dim + d) * S::UNIT + offset % S::UNIT
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
pub struct Scratch<S> {
    /// The tile's queries, already scaled: `[rows, group, head_dim]`.
    pub queries: Vec<f32>,
    /// The queries in units.
    units: Vec<f32>,
    /// `[n_queries, SPLIT]`
    scores: Vec<f32>,
    /// `[n_queries, SPLIT]` in units.
    weights: Vec<f32>,
    /// Keys or values as floats.
    wide: Vec<[f32; WIDTH]>,
    /// The values of the current split where they are dimensions of the keys: blocks in the layout of
    /// [`value_at`].
    values: Vec<S>,
    /// `[n_queries, value_dim]`, of the current split.
    part: Vec<f32>,
    /// Running maximum and denominator of each query.
    peak: Vec<f32>,
    total: Vec<f32>,
}

/// Attends the queries in `scratch` to the keys of one kv head.
///
/// Shape: `out` is `[rows, group, value_dim]`.
pub fn attend<S: Stored>(
    isa: Isa,
    cached: Cached<'_, S>,
    head: usize,
    rows: &[Row<'_>],
    scratch: &mut Scratch<S>,
    out: &mut [f32],
) {
    on_isa!(isa, tile<S: Stored>(
        cached: Cached<'_, S>,
        head: usize,
        rows: &[Row<'_>],
        scratch: &mut Scratch<S>,
        out: &mut [f32],
    ));
}

#[inline(always)]
fn tile<L: Lanes, S: Stored>(
    cached: Cached<'_, S>,
    head: usize,
    rows: &[Row<'_>],
    scratch: &mut Scratch<S>,
    out: &mut [f32],
) {
    let n_queries = scratch.queries.len() / cached.head_dim;
    scratch.scores.resize(n_queries * SPLIT, 0.0);
    scratch.part.resize(n_queries * cached.value_dim, 0.0);
    scratch.weights.resize(n_queries * S::words::<L>(SPLIT), 0.0);
    scratch.units.clear();
    S::units::<L>(&scratch.queries, &mut scratch.units);
    scratch.peak.clear();
    scratch.peak.resize(n_queries, f32::NEG_INFINITY);
    scratch.total.clear();
    scratch.total.resize(n_queries, 0.0);
    out.fill(0.0);
    let group = n_queries / rows.len();
    if let Some(sinks) = cached.sinks {
        let of_group = &sinks[head * group..][..group];
        scratch.peak.chunks_exact_mut(group).for_each(|peaks| peaks.copy_from_slice(of_group));
        scratch.total.fill(1.0);
    }
    let last = rows.iter().map(|row| row.position / SPLIT).max().unwrap_or(0);
    for split in 0..=last {
        let mut from = 0;
        while from < rows.len() {
            let same = sharing(&rows[from..], split);
            let run =
                Run { cached, head, split, rows: &rows[from..from + same], group, first_query: from * group };
            run.attend::<L>(out, scratch);
            from += same;
        }
    }
    for (query, total) in out.chunks_exact_mut(cached.value_dim).zip(&scratch.total) {
        let by = L::splat(1.0 / total);
        for lanes in query.as_chunks_mut::<WIDTH>().0 {
            L::load(lanes).mul(by).store(lanes);
        }
    }
}

/// Number of first rows that have this split's keys in the same blocks, to read them once, together.
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
    fn attend<L: Lanes>(&self, out: &mut [f32], scratch: &mut Scratch<S>) {
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
        let split = Split { cached: self.cached, head: self.head, blocks: &blocks[..hi], turned: &[] };
        let n = self.rows.len() * self.group;
        let (these, dim) = (self.first_query..self.first_query + n, self.cached.head_dim);
        let queries = &scratch.units[S::words::<L>(these.start * dim)..S::words::<L>(these.end * dim)];
        let scores = &mut scratch.scores[these.start * SPLIT..these.end * SPLIT];
        products::score::<L, S>(split, lo, queries, scores, &mut scratch.wide);
        let merges = self.softmax::<L>(lo, hi, scratch);
        let weights = &scratch.weights[S::words::<L>(these.start * SPLIT)..S::words::<L>(these.end * SPLIT)];
        let dim = self.cached.value_dim;
        let part = &mut scratch.part[these.start * dim..these.end * dim];
        if self.cached.values.is_empty() {
            split.turn(lo, &mut scratch.values);
        }
        let split = Split { turned: &scratch.values, ..split };
        products::weigh::<L, S>(split, (first - base, end - base), weights, part, &mut scratch.wide);
        self.merge::<L>(&merges, out, scratch);
    }

    /// Turns scores into weights; returns for each query the factors of its earlier sum and of this split's;
    /// `None` when it sees no key of the split.
    #[inline(always)]
    fn softmax<L: Lanes>(&self, lo: usize, hi: usize, scratch: &mut Scratch<S>) -> Vec<Option<(f32, f32)>> {
        let base = self.split * SPLIT;
        let mut factors = Vec::with_capacity(self.rows.len() * self.group);
        for i in 0..self.rows.len() * self.group {
            let (row, query) = (&self.rows[i / self.group], self.first_query + i);
            let scores = &mut scratch.scores[query * SPLIT + lo * BLOCK..query * SPLIT + hi * BLOCK];
            let weights = &mut scratch.weights[S::words::<L>(query * SPLIT)..];
            let weights = &mut weights[S::words::<L>(lo * BLOCK)..S::words::<L>(hi * BLOCK)];
            if let Some(cap) = self.cached.softcap {
                lanes::softcap::<L>(scores, cap);
            }
            let (first, end) = (row.first(self.cached.window), row.position + 1);
            let keys = base + lo * BLOCK..base + hi * BLOCK;
            if keys.start < first || end < keys.end {
                for (score, key) in scores.iter_mut().zip(keys) {
                    if key < first || end <= key {
                        *score = f32::NEG_INFINITY;
                    }
                }
            }
            let scores = scores.as_chunks::<WIDTH>().0;
            let mut top = L::splat(f32::NEG_INFINITY);
            for lanes in scores {
                top = L::load(lanes).max(top);
            }
            let peak = lanes::largest(top);
            // Scores that are all NaN have no peak either.
            if peak == f32::NEG_INFINITY && !scores.as_flattened().iter().any(|score| score.is_nan()) {
                weights.fill(0.0);
                factors.push(None);
                continue;
            }
            let mut sums = L::splat(0.0);
            let less = L::splat(peak);
            for (lanes, weights) in scores.iter().zip(weights.chunks_exact_mut(S::words::<L>(WIDTH))) {
                sums = sums.add(S::softmax(L::load(lanes).sub(less), S::view_mut::<L>(weights)));
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

    /// `out = out * keep + part * take`.
    #[inline(always)]
    fn merge<L: Lanes>(&self, factors: &[Option<(f32, f32)>], out: &mut [f32], scratch: &Scratch<S>) {
        let dim = self.cached.value_dim;
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

/// One split under one head.
#[derive(Clone, Copy)]
struct Split<'a, S> {
    cached: Cached<'a, S>,
    head: usize,
    blocks: &'a [u32],
    /// [`Scratch::values`].
    turned: &'a [S],
}

impl<'a, S: Stored> Split<'a, S> {
    /// The keys of the split's block `at`.
    #[inline(always)]
    fn keys(&self, at: usize) -> &'a [S] {
        self.cached.block(self.cached.keys, self.blocks[at], self.head)
    }

    /// The values of the split's block `at`.
    #[inline(always)]
    fn values(&self, at: usize) -> &'a [S] {
        if self.cached.values.is_empty() {
            let size = self.cached.value_dim * BLOCK;
            return &self.turned[at * size..][..size];
        }
        self.cached.block(self.cached.values, self.blocks[at], self.head)
    }

    /// The first dimensions of the keys of blocks from `lo` on, in the layout of values.
    #[inline(always)]
    fn turn(&self, lo: usize, out: &mut Vec<S>) {
        let dim = self.cached.value_dim;
        out.resize(out.len().max(self.blocks.len() * dim * BLOCK), S::default());
        for at in lo..self.blocks.len() {
            let (keys, values) = (self.keys(at), &mut out[at * dim * BLOCK..][..dim * BLOCK]);
            // `[dim / UNIT][BLOCK / UNIT][UNIT keys][UNIT dims]` to
            // `[BLOCK / UNIT][dim / UNIT][UNIT dims][UNIT keys]`.
            for (d, cells) in keys[..dim * BLOCK].chunks_exact(BLOCK * S::UNIT).enumerate() {
                for (unit, cell) in cells.chunks_exact(S::UNIT * S::UNIT).enumerate() {
                    let to = &mut values[(unit * dim + d * S::UNIT) * S::UNIT..][..S::UNIT * S::UNIT];
                    for (i, x) in to.iter_mut().enumerate() {
                        *x = cell[i % S::UNIT * S::UNIT + i / S::UNIT];
                    }
                }
            }
        }
    }
}
