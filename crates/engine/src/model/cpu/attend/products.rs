//! Queries by keys and weights by values, in the units of the cache's number type. Each sum is taken in one order,
//! whatever stands beside it.

use crate::model::cpu::lanes::{Lanes, Stored, WIDTH};

use super::{BLOCK, SPLIT, Split, TOGETHER};

/// Runs a kernel for the first `$n` queries, at most eight.
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

/// Dot products of queries with the keys of a split's blocks from `lo` on.
///
/// Shape: `queries` `[n, head_dim]` in units, `scores` `[n, SPLIT]`.
#[inline(always)]
pub(super) fn score<L: Lanes, S: Stored>(
    split: Split<'_, S>,
    lo: usize,
    queries: &[S::Unit],
    scores: &mut [f32],
) {
    let dim = split.cached.head_dim / S::UNIT;
    let n = queries.len() / dim;
    let mut at = lo;
    while at < split.blocks.len() {
        let wide = if L::MANY { (split.blocks.len() - at).min(2) } else { 1 };
        let keys = |block: usize| S::cells(split.keys(block));
        for first in (0..n).step_by(TOGETHER) {
            let (queries, scores) = (&queries[first * dim..], &mut scores[first * SPLIT + at * BLOCK..]);
            if wide == 2 {
                for_queries!(n - first, dots < L, S, 2 > ([keys(at), keys(at + 1)], queries, scores));
            } else {
                for_queries!(n - first, dots < L, S, 1 > ([keys(at)], queries, scores));
            }
        }
        at += wide;
    }
}

/// Dot products of `N` queries with the sixteen keys of each of `B` blocks, along the head in order.
///
/// Shape: `keys` `[B][head_dim][16]` and `queries` `[N, head_dim]` in units, `scores` `[N, SPLIT]` from the first
/// block's first key.
#[inline(always)]
fn dots<L: Lanes, S: Stored, const B: usize, const N: usize>(
    keys: [&[[S::Cell; WIDTH]]; B],
    queries: &[S::Unit],
    scores: &mut [f32],
) {
    let dim = keys[0].len();
    // Slices of one length, so that no bound is checked in the loop.
    let keys = keys.map(|keys| &keys[..dim]);
    let queries: [&[S::Unit]; N] = std::array::from_fn(|i| &queries[i * dim..][..dim]);
    let mut sums = [[L::splat(0.0); B]; N];
    for d in 0..dim {
        let keys = keys.map(|keys| S::load::<L>(&keys[d]));
        for i in 0..N {
            let query = S::splat::<L>(queries[i][d]);
            for b in 0..B {
                sums[i][b] = S::add(sums[i][b], query, keys[b]);
            }
        }
    }
    for (i, sums) in sums.into_iter().enumerate() {
        for (b, sum) in sums.into_iter().enumerate() {
            sum.store(scores[i * SPLIT + b * BLOCK..].first_chunk_mut().expect("a block's scores"));
        }
    }
}

/// Sums of values of keys `from..to` of a split under the weights of queries; keys that share a unit with them have
/// the weight 0.
///
/// Shape: `weights` `[n, SPLIT]` in units, `part` `[n, head_dim]`.
#[inline(always)]
pub(super) fn weigh<L: Lanes, S: Stored>(
    split: Split<'_, S>,
    keys: (usize, usize),
    weights: &[S::Unit],
    part: &mut [f32],
) {
    let (dim, width) = (split.cached.head_dim, SPLIT / S::UNIT);
    for (weights, part) in weights.chunks(4 * width).zip(part.chunks_mut(4 * dim)) {
        match (weights.len() / width, dim / WIDTH % 4) {
            (4, 0) => sums::<L, S, 4, 4>(split, keys, weights, part),
            (4, 2) => sums::<L, S, 4, 2>(split, keys, weights, part),
            (4, _) => sums::<L, S, 4, 1>(split, keys, weights, part),
            (3, 0) => sums::<L, S, 3, 4>(split, keys, weights, part),
            (3, 2) => sums::<L, S, 3, 2>(split, keys, weights, part),
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

/// The same for `N` queries, unit by unit of keys in order, `M` vectors of the head at a time in registers.
#[inline(always)]
fn sums<L: Lanes, S: Stored, const N: usize, const M: usize>(
    split: Split<'_, S>,
    (from, to): (usize, usize),
    weights: &[S::Unit],
    part: &mut [f32],
) {
    let (dim, width, in_block) = (split.cached.head_dim, SPLIT / S::UNIT, BLOCK / S::UNIT);
    let weights: [&[S::Unit]; N] = std::array::from_fn(|i| &weights[i * width..][..width]);
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
