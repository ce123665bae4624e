//! Head norm and rotary embedding of queries and keys, and the cache's writes.

use std::ops::Range;

use rayon::prelude::*;

use super::{
    Isa,
    attend::{key_at, value_at},
    lanes::{Lanes, Stored, WIDTH},
    norm, on_isa,
    shared::Shared,
};
use tribunal_model::{BLOCK, Config, angles::Angles, config::Attention, step::Step};

/// Rotates the two halves of one head by the angles of a position.
pub(super) fn rotate(isa: Isa, (cos, sin): (&[f32], &[f32]), head: &mut [f32]) {
    on_isa!(isa, rotate_lanes<>(cos: &[f32], sin: &[f32], head: &mut [f32]));
}

#[inline(always)]
fn rotate_lanes<L: Lanes>(cos: &[f32], sin: &[f32], head: &mut [f32]) {
    let (low, high) = head.split_at_mut(cos.len());
    let ((xs, x_tail), (ys, y_tail)) = (low.as_chunks_mut::<WIDTH>(), high.as_chunks_mut::<WIDTH>());
    let ((cs, c_tail), (ss, s_tail)) = (cos.as_chunks::<WIDTH>(), sin.as_chunks::<WIDTH>());
    for (((low, high), c), s) in xs.iter_mut().zip(ys).zip(cs).zip(ss) {
        let (x, y, c, s) = (L::load(low), L::load(high), L::load(c), L::load(s));
        x.mul(c).sub(y.mul(s)).store(low);
        y.mul(c).add(x.mul(s)).store(high);
    }
    for (((x, y), c), s) in x_tail.iter_mut().zip(y_tail).zip(c_tail).zip(s_tail) {
        (*x, *y) = (*x * c - *y * s, *y * c + *x * s);
    }
}

/// A layer's head norms and rotary embedding.
pub(super) struct Rotary<'a> {
    pub isa: Isa,
    pub config: &'a Config,
    pub attention: &'a Attention,
    pub angles: &'a Angles,
    pub q_norm: Option<&'a [f32]>,
    pub k_norm: Option<&'a [f32]>,
    pub v_norm: Option<&'a [f32]>,
}

/// The rows' queries, keys and values.
///
/// Shape: `q` `[rows, heads head_dim]`, `k` and `v` `[rows, kv heads head_dim]`.
pub(super) struct Heads<'a> {
    pub q: &'a mut [f32],
    pub k: &'a mut [f32],
    pub v: &'a mut [f32],
}

/// One layer of the cache.
pub(super) struct LayerCache<'a, S> {
    pub keys: &'a mut [S],
    pub values: &'a mut [S],
}

impl Rotary<'_> {
    /// Norms, rotates and scales the queries in place; writes the keys, normed and rotated, and the values,
    /// normed, to their slots.
    pub(super) fn apply<S: Stored>(
        &self,
        step: &Step,
        runs: &[Range<usize>],
        heads: &mut Heads<'_>,
        cache: &mut LayerCache<'_, S>,
    ) {
        let (q_width, kv_width) = (self.config.n_heads * self.attention.head_dim, self.attention.kv_width());
        let (q, k, v) = (Shared::new(heads.q), Shared::new(heads.k), Shared::new(heads.v));
        let (keys, values) = (Shared::new(cache.keys), Shared::new(cache.values));
        let block_size = kv_width * BLOCK;
        runs.par_iter().for_each(|rows| {
            let block = step.slots[rows.start] as usize / BLOCK;
            let block = block * block_size..(block + 1) * block_size;
            // SAFETY: runs have no row in common, and `Step::check` has checked that each block is written by
            // one run, so that no two tasks get overlapping ranges; each range is inside its slice, which
            // panics otherwise.
            let (q, k, v, keys, values) = unsafe {
                (
                    q.part(rows.start * q_width..rows.end * q_width),
                    k.part(rows.start * kv_width..rows.end * kv_width),
                    v.part(rows.start * kv_width..rows.end * kv_width),
                    keys.part(block.clone()),
                    values.part(block),
                )
            };
            for (i, row) in rows.clone().enumerate() {
                let (position, offset) = (step.positions[row], step.slots[row] as usize % BLOCK);
                self.queries(position, &mut q[i * q_width..][..q_width]);
                self.keys(position, offset, &mut k[i * kv_width..][..kv_width], keys);
                self.values(offset, &mut v[i * kv_width..][..kv_width], values);
            }
        });
    }

    fn queries(&self, position: u32, row: &mut [f32]) {
        let growth = self.config.query_growth.map_or(1.0, |growth| growth.at(position));
        for head in row.chunks_exact_mut(self.attention.head_dim) {
            self.norm_and_rotate(self.q_norm, position, head);
            for x in head {
                *x *= self.config.attention_scale;
                *x *= growth;
            }
        }
    }

    fn keys<S: Stored>(&self, position: u32, offset: usize, row: &mut [f32], block: &mut [S]) {
        let dim = self.attention.head_dim;
        for (key, cached) in row.chunks_exact_mut(dim).zip(block.chunks_exact_mut(dim * BLOCK)) {
            self.norm_and_rotate(self.k_norm, position, key);
            for (d, &x) in key.iter().enumerate() {
                cached[key_at::<S>(offset, d)] = S::narrow(x);
            }
        }
    }

    fn values<S: Stored>(&self, offset: usize, row: &mut [f32], block: &mut [S]) {
        let dim = self.attention.head_dim;
        for (value, cached) in row.chunks_exact_mut(dim).zip(block.chunks_exact_mut(dim * BLOCK)) {
            if let Some(weight) = self.v_norm {
                norm::in_place(self.isa, value, weight, self.config.norm_eps as f32);
            }
            for (d, &x) in value.iter().enumerate() {
                let at = value_at::<S>(offset, d, dim);
                cached[at] = S::narrow(x);
                if offset % S::UNIT + 1 < S::UNIT {
                    // The unit's other value is read, with a weight of 0, before it is written.
                    cached[at + 1] = S::narrow(0.0);
                }
            }
        }
    }

    fn norm_and_rotate(&self, norm: Option<&[f32]>, position: u32, head: &mut [f32]) {
        let normed = |head: &mut [f32]| {
            if let Some(weight) = norm {
                norm::in_place(self.isa, head, weight, self.config.norm_eps as f32);
            }
        };
        if !self.config.norm_after_rotation {
            normed(head);
        }
        // The values behind the rotated ones are unchanged.
        rotate(self.isa, self.angles.at(position), &mut head[..2 * self.angles.half()]);
        if self.config.norm_after_rotation {
            normed(head);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_rotated_alike_on_every_isa() {
        for half in [1, 8, 16, 20, 32, 48] {
            let angles: Vec<f32> = (0..half).map(|i| 0.37 * i as f32).collect();
            let (cos, sin): (Vec<f32>, Vec<f32>) = angles.iter().map(|x| (x.cos(), x.sin())).unzip();
            let head: Vec<f32> = (0..2 * half).map(|i| (i as f32 * 0.73).sin()).collect();
            let rotated: Vec<f32> = (0..half)
                .map(|i| head[i] * cos[i] - head[half + i] * sin[i])
                .chain((0..half).map(|i| head[half + i] * cos[i] + head[i] * sin[i]))
                .collect();
            for isa in Isa::available() {
                let mut here = head.clone();
                rotate(isa, (&cos, &sin), &mut here);
                assert_eq!(here, rotated, "{isa:?}, {half} pairs");
            }
        }
    }
}
