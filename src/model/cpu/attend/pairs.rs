//! Scores and sums of values by products of bf16 pairs, for caches of bf16: two neighbouring dimensions of a key,
//! or the values of two neighbouring keys, meet in one instruction. Queries and weights are rounded to bf16.

use half::bf16;

use crate::model::cpu::lanes::{Lanes, Stored, WIDTH};

use super::{BLOCK, SPLIT, Split, TOGETHER};

/// Dot products of queries with the keys of a split's blocks from `lo` on.
///
/// Shape: `queries` `[n, head_dim / 2]` pairs, `scores` `[n, SPLIT]`.
#[inline(always)]
pub(super) fn score<L: Lanes, S: Stored>(
    split: Split<'_, S>,
    lo: usize,
    queries: &[[bf16; 2]],
    scores: &mut [f32],
) {
    let dim = split.cached.head_dim / 2;
    let n = queries.len() / dim;
    let mut at = lo;
    while at < split.blocks.len() {
        let wide = if L::MANY { (split.blocks.len() - at).min(2) } else { 1 };
        let keys = |block: usize| pairs(split.keys(block));
        for first in (0..n).step_by(TOGETHER) {
            let (queries, scores) = (&queries[first * dim..], &mut scores[first * SPLIT + at * BLOCK..]);
            if wide == 2 {
                dots_of::<L, S, 2>([keys(at), keys(at + 1)], queries, n - first, scores);
            } else {
                dots_of::<L, S, 1>([keys(at)], queries, n - first, scores);
            }
        }
        at += wide;
    }
}

/// A block's pairs, a register of them at a time.
#[inline(always)]
fn pairs<S>(block: &[S]) -> &[[[S; 2]; WIDTH]] {
    block.as_chunks::<2>().0.as_chunks::<WIDTH>().0
}

/// [`dots`] of the first `n` queries, at most [`TOGETHER`].
#[inline(always)]
fn dots_of<L: Lanes, S: Stored, const B: usize>(
    keys: [&[[[S; 2]; WIDTH]]; B],
    queries: &[[bf16; 2]],
    n: usize,
    scores: &mut [f32],
) {
    match n {
        1 => dots::<L, S, B, 1>(keys, queries, scores),
        2 => dots::<L, S, B, 2>(keys, queries, scores),
        3 => dots::<L, S, B, 3>(keys, queries, scores),
        4 => dots::<L, S, B, 4>(keys, queries, scores),
        5 => dots::<L, S, B, 5>(keys, queries, scores),
        6 => dots::<L, S, B, 6>(keys, queries, scores),
        7 => dots::<L, S, B, 7>(keys, queries, scores),
        _ => dots::<L, S, B, TOGETHER>(keys, queries, scores),
    }
}

/// Dot products of `N` queries with the sixteen keys of each of `B` blocks, along the head in order.
///
/// Shape: `keys` `[B][head_dim / 2][16]` pairs, `queries` `[N, head_dim / 2]` pairs, `scores` `[N, SPLIT]` from
/// the first block's first key.
#[inline(always)]
fn dots<L: Lanes, S: Stored, const B: usize, const N: usize>(
    keys: [&[[[S; 2]; WIDTH]]; B],
    queries: &[[bf16; 2]],
    scores: &mut [f32],
) {
    let dim = keys[0].len();
    // Slices of one length, so that no bound is checked in the loop.
    let keys = keys.map(|keys| &keys[..dim]);
    let queries: [&[[bf16; 2]]; N] = std::array::from_fn(|i| &queries[i * dim..][..dim]);
    let mut sums = [[L::splat(0.0); B]; N];
    for d in 0..dim {
        let keys = keys.map(|keys| S::load_pairs::<L>(&keys[d]));
        for i in 0..N {
            let query = L::splat_pair(queries[i][d]);
            for b in 0..B {
                sums[i][b] = sums[i][b].add_pairs(query, keys[b]);
            }
        }
    }
    for (i, sums) in sums.into_iter().enumerate() {
        for (b, sum) in sums.into_iter().enumerate() {
            sum.store(scores[i * SPLIT + b * BLOCK..].first_chunk_mut().expect("a block's scores"));
        }
    }
}

/// Sums of values of keys `from..to` of a split under the weights of queries; the weights of keys beside them in
/// their pairs are 0.
///
/// Shape: `weights` `[n, SPLIT / 2]` pairs, `part` `[n, head_dim]`.
#[inline(always)]
pub(super) fn weigh<L: Lanes, S: Stored>(
    split: Split<'_, S>,
    keys: (usize, usize),
    weights: &[[bf16; 2]],
    part: &mut [f32],
) {
    let dim = split.cached.head_dim;
    for (weights, part) in weights.chunks(2 * SPLIT).zip(part.chunks_mut(4 * dim)) {
        match (weights.len() / (SPLIT / 2), dim / WIDTH % 4) {
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

/// The same for `N` queries, pair by pair of keys in order, `M` vectors of the head at a time in registers.
#[inline(always)]
fn sums<L: Lanes, S: Stored, const N: usize, const M: usize>(
    split: Split<'_, S>,
    (from, to): (usize, usize),
    weights: &[[bf16; 2]],
    part: &mut [f32],
) {
    const HALF: usize = BLOCK / 2;
    let dim = split.cached.head_dim;
    let weights: [&[[bf16; 2]; SPLIT / 2]; N] =
        std::array::from_fn(|i| weights[i * SPLIT / 2..].first_chunk().expect("a query's weights"));
    let (from, to) = (from / 2, to.div_ceil(2));
    for first in (0..dim / WIDTH).step_by(M) {
        let mut acc = [[L::splat(0.0); M]; N];
        for block_idx in from / HALF..to.div_ceil(HALF) {
            let block = pairs(split.values(block_idx));
            let base = block_idx * HALF;
            for pair in from.max(base)..to.min(base + HALF) {
                let row = &block[(pair - base) * (dim / WIDTH) + first..];
                let row: &[[[S; 2]; WIDTH]; M] = row.first_chunk().expect("the head's vectors");
                let row = row.each_ref().map(S::load_pairs::<L>);
                for i in 0..N {
                    let weight = L::splat_pair(weights[i][pair]);
                    for v in 0..M {
                        acc[i][v] = acc[i][v].add_pairs(weight, row[v]);
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
