//! Queries by keys and weights by values, in the units of the cache's number type. Each sum has a fixed
//! order.

use crate::lanes::{Lanes, Stored, WIDTH};

use super::{BLOCK, SPLIT, Split, TOGETHER};

/// Runs a kernel for `$n` queries, at most eight.
macro_rules! for_queries {
    ($n:expr, $kernel:ident<$l:ty, $s:ty, $b:literal>($($argument:expr),*)) => {
        match $n {
            1 => $kernel::<$l, $s, $b, 1>($($argument),*),
            2 => $kernel::<$l, $s, $b, 2>($($argument),*),
            3 => $kernel::<$l, $s, $b, 3>($($argument),*),
            4 => $kernel::<$l, $s, $b, 4>($($argument),*),
            5 => $kernel::<$l, $s, $b, 5>($($argument),*),
            6 => $kernel::<$l, $s, $b, 6>($($argument),*),
            7 => $kernel::<$l, $s, $b, 7>($($argument),*),
            _ => $kernel::<$l, $s, $b, TOGETHER>($($argument),*),
        }
    };
}

/// Up to so many queries take keys and values in their stored type; with more, where no instruction
/// multiplies that type, it is widened once for all of them.
const FEW: usize = 4;

#[inline(always)]
fn widens<L: Lanes>(n_queries: usize) -> bool {
    !L::PAIRED && n_queries > FEW
}

/// Queries at a time, so that all passes have about as many.
#[inline(always)]
fn together<L: Lanes>(n_queries: usize) -> usize {
    n_queries.div_ceil(n_queries.div_ceil(L::ROWS).max(1)).max(1)
}

/// Dot products of queries with the keys of a split's blocks from `lo` on.
///
/// Shape: `queries` `[n, head_dim]` in units, `scores` `[n, SPLIT]`.
#[inline(always)]
pub(super) fn score<L: Lanes, S: Stored>(
    split: Split<'_, S>,
    lo: usize,
    queries: &[f32],
    scores: &mut [f32],
    wide: &mut Vec<[f32; WIDTH]>,
) {
    let dim = split.cached.head_dim;
    let n = queries.len() / S::words::<L>(dim);
    let step = together::<L>(n);
    if widens::<L>(n) {
        wide.resize(dim.max(wide.len()), [0.0; WIDTH]);
        let wide = &mut wide[..dim];
        for at in lo..split.blocks.len() {
            for (cells, wide) in S::cells(split.keys(at)).iter().zip(wide.chunks_exact_mut(S::UNIT)) {
                S::widen::<L>(cells, wide);
            }
            for first in (0..n).step_by(step) {
                let (queries, scores) = (&queries[first * dim..], &mut scores[first * SPLIT + at * BLOCK..]);
                for_queries!(
                    step.min(n - first),
                    dots < L,
                    f32,
                    1 > ([wide], (queries, dim), (scores, SPLIT))
                );
            }
        }
        return;
    }
    let (queries, dim) = (S::view::<L>(queries), dim / S::UNIT);
    let mut at = lo;
    while at < split.blocks.len() {
        let many = if L::MANY { (split.blocks.len() - at).min(2) } else { 1 };
        let keys = |block: usize| S::cells(split.keys(block));
        for first in (0..n).step_by(step) {
            let queries = (&queries[first * dim..], dim);
            let scores = (&mut scores[first * SPLIT + at * BLOCK..], SPLIT);
            let n = step.min(n - first);
            if many == 2 {
                for_queries!(n, dots < L, S, 2 > ([keys(at), keys(at + 1)], queries, scores));
            } else {
                for_queries!(n, dots < L, S, 1 > ([keys(at)], queries, scores));
            }
        }
        at += many;
    }
}

/// Dot products of `N` queries with the sixteen keys of each of `B` blocks, along the head in order; or of
/// the weights of `N` queries with sixteen dimensions of values, key after key.
///
/// Shape: `keys` `[B][dim][16]` and `queries` `[N, dim]` in units, `scores` `[N]` times `[B][16]`; the
/// strides between queries are given beside them.
#[inline(always)]
fn dots<L: Lanes, S: Stored, const B: usize, const N: usize>(
    keys: [&[[S::Cell; WIDTH]]; B],
    (queries, query_pitch): (&[S::Unit<L>], usize),
    (scores, score_pitch): (&mut [f32], usize),
) {
    let dim = keys[0].len();
    // Slices of one length.
    let keys = keys.map(|keys| &keys[..dim]);
    let queries: [&[S::Unit<L>]; N] = std::array::from_fn(|i| &queries[i * query_pitch..][..dim]);
    let mut sums = [[L::splat(0.0); B]; N];
    for d in 0..dim {
        let keys = keys.map(|keys| S::load::<L>(&keys[d]));
        for i in 0..N {
            // SAFETY: `dim` units, as they were sliced. Checking it for each query would cost a third of the
            // time.
            let query = S::splat::<L>(unsafe { *queries[i].get_unchecked(d) });
            for b in 0..B {
                sums[i][b] = S::add(sums[i][b], query, keys[b]);
            }
        }
    }
    for (i, sums) in sums.into_iter().enumerate() {
        for (b, sum) in sums.into_iter().enumerate() {
            sum.store(scores[i * score_pitch + b * BLOCK..].first_chunk_mut().expect("a block's scores"));
        }
    }
}

/// Sums of values of keys `from..to` of a split under the weights of queries; keys that share a unit with
/// them have the weight 0.
///
/// Shape: `weights` `[n, SPLIT]` in units, `part` `[n, value_dim]`.
#[inline(always)]
pub(super) fn weigh<L: Lanes, S: Stored>(
    split: Split<'_, S>,
    keys: (usize, usize),
    weights: &[f32],
    part: &mut [f32],
    wide: &mut Vec<[f32; WIDTH]>,
) {
    let (dim, width) = (split.cached.value_dim, SPLIT / S::UNIT);
    if widens::<L>(part.len() / dim) {
        return weigh_widened::<L, S>(split, keys, weights, part, wide);
    }
    let weights = S::view::<L>(weights);
    for (weights, part) in weights.chunks(4 * width).zip(part.chunks_mut(4 * dim)) {
        let n = weights.len() / width;
        // Enough sums to hide the latency of each, and no more than there are registers.
        let vectors = if L::MANY || n == 1 { dim / WIDTH % 4 } else { dim / WIDTH % 2 + 2 };
        match (n, vectors) {
            (4, 0) => sums::<L, S, 4, 4>(split, keys, weights, part),
            (4, 2) if L::MANY => sums::<L, S, 4, 2>(split, keys, weights, part),
            (4, _) => sums::<L, S, 4, 1>(split, keys, weights, part),
            (3, 0) => sums::<L, S, 3, 4>(split, keys, weights, part),
            (3, 2) if L::MANY => sums::<L, S, 3, 2>(split, keys, weights, part),
            (3, _) => sums::<L, S, 3, 1>(split, keys, weights, part),
            (2, 0) => sums::<L, S, 2, 4>(split, keys, weights, part),
            (2, 2) => sums::<L, S, 2, 2>(split, keys, weights, part),
            (2, _) => sums::<L, S, 2, 1>(split, keys, weights, part),
            (_, 0) => sums::<L, S, 1, 4>(split, keys, weights, part),
            (_, 2) => sums::<L, S, 1, 2>(split, keys, weights, part),
            _ => sums::<L, S, 1, 1>(split, keys, weights, part),
        }
    }
}

/// Sums as in `weigh`, sixteen dimensions at a time: their values of all keys are widened once and stay in
/// the first-level cache for all queries.
#[inline(always)]
fn weigh_widened<L: Lanes, S: Stored>(
    split: Split<'_, S>,
    (from, to): (usize, usize),
    weights: &[f32],
    part: &mut [f32],
    wide: &mut Vec<[f32; WIDTH]>,
) {
    let dim = split.cached.value_dim;
    let (from, to) = (from / S::UNIT * S::UNIT, to.next_multiple_of(S::UNIT));
    wide.resize(SPLIT.max(wide.len()), [0.0; WIDTH]);
    let n = part.len() / dim;
    let step = together::<L>(n);
    for vector in 0..dim / WIDTH {
        for block_idx in from / BLOCK..to.div_ceil(BLOCK) {
            let cells = S::cells(split.values(block_idx)).iter().skip(vector).step_by(dim / WIDTH);
            for (cells, wide) in cells.zip(wide[block_idx * BLOCK..].chunks_exact_mut(S::UNIT)) {
                S::widen::<L>(cells, wide);
            }
        }
        let values = &wide[from..to];
        for first in (0..n).step_by(step) {
            let weights = (&weights[first * SPLIT + from..], SPLIT);
            let part = (&mut part[first * dim + vector * WIDTH..], dim);
            for_queries!(step.min(n - first), dots < L, f32, 1 > ([values], weights, part));
        }
    }
}

/// Sums as in `weigh` for `N` queries, unit by unit of keys in order, `M` vectors of the head at a time in
/// registers.
#[inline(always)]
fn sums<L: Lanes, S: Stored, const N: usize, const M: usize>(
    split: Split<'_, S>,
    (from, to): (usize, usize),
    weights: &[S::Unit<L>],
    part: &mut [f32],
) {
    let (dim, width, in_block) = (split.cached.value_dim, SPLIT / S::UNIT, BLOCK / S::UNIT);
    let weights: [&[S::Unit<L>]; N] = std::array::from_fn(|i| &weights[i * width..][..width]);
    let (from, to) = (from / S::UNIT, to.div_ceil(S::UNIT));
    for first in (0..dim / WIDTH).step_by(M) {
        let mut acc = [[L::splat(0.0); M]; N];
        for block_idx in from / in_block..to.div_ceil(in_block) {
            let block = S::cells(split.values(block_idx));
            let base = block_idx * in_block;
            for unit in from.max(base)..to.min(base + in_block) {
                let row = &block[(unit - base) * (dim / WIDTH) + first..];
                let row: &[[S::Cell; WIDTH]; M] = row.first_chunk().expect("the head's vectors");
                let row = row.each_ref().map(S::load::<L>);
                for i in 0..N {
                    let weight = S::splat::<L>(weights[i][unit]);
                    for v in 0..M {
                        acc[i][v] = S::add(acc[i][v], weight, row[v]);
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
