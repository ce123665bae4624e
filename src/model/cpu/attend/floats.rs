//! Scores and sums of values in f32, for caches of f32 and f16.

use crate::model::cpu::lanes::{Lanes, Stored, WIDTH};

use super::{BLOCK, SPLIT, Split, TOGETHER};

/// Dot products of queries with the keys of a split's blocks from `lo` on.
///
/// Shape: `queries` `[n, head_dim]`, `scores` `[n, SPLIT]`.
#[inline(always)]
pub(super) fn score<L: Lanes, S: Stored>(
    split: Split<'_, S>,
    lo: usize,
    queries: &[f32],
    scores: &mut [f32],
) {
    let dim = split.cached.head_dim;
    let n = queries.len() / dim;
    for at in lo..split.blocks.len() {
        let keys = split.keys(at).as_chunks::<WIDTH>().0;
        for first in (0..n).step_by(TOGETHER) {
            let (queries, scores) = (&queries[first * dim..], &mut scores[first * SPLIT + at * BLOCK..]);
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

/// Sums of values of keys `from..to` of a split under the weights of queries.
///
/// Shape: `weights` `[n, SPLIT]`, `part` `[n, head_dim]`.
#[inline(always)]
pub(super) fn weigh<L: Lanes, S: Stored>(
    split: Split<'_, S>,
    keys: (usize, usize),
    weights: &[f32],
    part: &mut [f32],
) {
    let dim = split.cached.head_dim;
    for (weights, part) in weights.chunks(4 * SPLIT).zip(part.chunks_mut(4 * dim)) {
        match (weights.len() / SPLIT, dim / WIDTH % 4) {
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

/// Sums of values of keys `from..to` of a split under the weights of `N` queries, key by key in order, `M`
/// vectors of the head at a time in registers.
///
/// Shape: `weights` `[N, SPLIT]`, `part` `[N, head_dim]`.
#[inline(always)]
fn sums<L: Lanes, S: Stored, const N: usize, const M: usize>(
    split: Split<'_, S>,
    (from, to): (usize, usize),
    weights: &[f32],
    part: &mut [f32],
) {
    let dim = split.cached.head_dim;
    for first in (0..dim / WIDTH).step_by(M) {
        let mut acc = [[L::splat(0.0); M]; N];
        for block_idx in from / BLOCK..to.div_ceil(BLOCK) {
            let block = split.values(block_idx);
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
