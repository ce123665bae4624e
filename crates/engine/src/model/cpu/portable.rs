//! The product of one panel and one tile in plain Rust. It is the portable tier, the definition of what
//! every tier computes, and (compiled with their instructions, with their own `dot`) the body of other tiers.

use half::bf16;

use super::input::Int8Tile;
use super::layout::{BLOCK, LANES, Panel};
use super::unpack::{self, Block};

/// The sums of one row: one for each lane of the panel.
pub(super) type Lanes = [f32; LANES];

/// Half a block of codes times 16 activations, exactly: `dot(four groups, activations)`.
pub(super) trait Dot {
    fn dot(&self, codes: &[[u32; LANES]], activations: &[i8]) -> [i32; LANES];
}

/// Quantised weights of some panels by 8-bit activations; `sums` are the rows of the first panel, then of the
/// next.
///
/// For each block in turn, with `c` the codes, `a` the activations and `s` their scale:
/// `sum = fma(c·a - offset Σa, d s, sum)`, then, where there is a minimum, `sum = fma(m, s Σa, sum)`. The
/// first operand is an exact integer of at most 24 bits; `Q6_K` multiplies its two halves by their integer
/// scales before they are added.
#[inline(always)]
pub(super) fn int8(panels: &[Panel], tile: &Int8Tile, sums: &mut [Lanes], dot: &impl Dot) {
    for (panel, sums) in panels.iter().zip(sums.chunks_mut(tile.height)) {
        int8_panel(panel, tile, sums, dot);
    }
}

#[inline(always)]
fn int8_panel(panel: &Panel, tile: &Int8Tile, sums: &mut [Lanes], dot: &impl Dot) {
    let (codes, scales) = panel.format.quantized().expect("floats are not multiplied by 8-bit activations");
    let offset = panel.format.offset();
    let mut block = Block([[0; LANES]; 8]);
    for b in 0..panel.k / BLOCK {
        unpack::codes(codes, panel, b, &mut block);
        let weights = unpack::scales(scales, panel, b);
        for (r, sums) in sums.iter_mut().enumerate() {
            let at = b * tile.height + r;
            let (x, s, facts) = (&tile.values[at], tile.scales[at], tile.sums[at]);
            let low = dot.dot(&block.0[..4], &x[..16]);
            let high = dot.dot(&block.0[4..], &x[16..]);
            let total: [i32; LANES] = match weights.halves {
                None => std::array::from_fn(|o| low[o] + high[o] + offset * facts.negated),
                Some([first, last]) => std::array::from_fn(|o| {
                    (low[o] + offset * facts.halves[0]) * first[o]
                        + (high[o] + offset * facts.halves[1]) * last[o]
                }),
            };
            for o in 0..LANES {
                sums[o] = (total[o] as f32).mul_add(weights.d[o] * s, sums[o]);
            }
            if let Some(minimum) = weights.minimum {
                for o in 0..LANES {
                    sums[o] = minimum[o].mul_add(facts.scaled, sums[o]);
                }
            }
        }
    }
}

/// [`Dot`] in plain Rust.
pub(super) struct Plain;

impl Dot for Plain {
    #[inline(always)]
    fn dot(&self, codes: &[[u32; LANES]], activations: &[i8]) -> [i32; LANES] {
        let mut sum = [0; LANES];
        for (group, x) in codes.iter().zip(activations.chunks_exact(4)) {
            for (sum, word) in sum.iter_mut().zip(group) {
                for (code, &x) in word.to_le_bytes().into_iter().zip(x) {
                    *sum += i32::from(code) * i32::from(x);
                }
            }
        }
        sum
    }
}

/// Weights `[k][lane]` of some panels by `f32` activations `[k][height]`, one fused operation per value along
/// `k`. `sums` go on from what they hold.
#[inline(always)]
pub(super) fn floats(panels: &[&[Lanes]], x: &[f32], sums: &mut [Lanes]) {
    let height = sums.len() / panels.len();
    panels.iter().zip(sums.chunks_mut(height)).for_each(|(weights, sums)| float_panel(weights, x, sums));
}

#[inline(always)]
fn float_panel(weights: &[Lanes], x: &[f32], sums: &mut [Lanes]) {
    let height = sums.len();
    let mut first = 0;
    while first < height {
        first += match height - first {
            1 => float_rows::<1>(weights, &x[first..], height, &mut sums[first..]),
            2 | 3 => float_rows::<2>(weights, &x[first..], height, &mut sums[first..]),
            _ => float_rows::<4>(weights, &x[first..], height, &mut sums[first..]),
        };
    }
}

#[inline(always)]
fn float_rows<const R: usize>(weights: &[Lanes], x: &[f32], height: usize, sums: &mut [Lanes]) -> usize {
    let sums = &mut sums[..R];
    let mut local: [Lanes; R] = std::array::from_fn(|r| sums[r]);
    for (weights, x) in weights.iter().zip(x.chunks(height)) {
        for (local, &x) in local.iter_mut().zip(&x[..R]) {
            for o in 0..LANES {
                local[o] = weights[o].mul_add(x, local[o]);
            }
        }
    }
    sums.copy_from_slice(&local);
    R
}

/// Values of `k` that are widened at a time, if a block has no more: two panels of them fit the first-level cache
/// beside what they are read from.
pub(super) const CHUNK: usize = 128;

/// `bf16` weights by `bf16` activations `[k / 2][height]`, in the order of `vdpbf16ps`: of each pair the
/// second product first, each fused with the sum.
#[inline(always)]
pub(super) fn bf16_pairs(panels: &[Panel], x: &[[bf16; 2]], sums: &mut [Lanes]) {
    let height = sums.len() / panels.len();
    panels.iter().zip(sums.chunks_mut(height)).for_each(|(panel, sums)| bf16_panel(panel, x, sums));
}

#[inline(always)]
fn bf16_panel(panel: &Panel, x: &[[bf16; 2]], sums: &mut [Lanes]) {
    let height = sums.len();
    let k = panel.k.next_multiple_of(2);
    let mut weights = [[0.0; LANES]; CHUNK];
    let mut wide = Vec::with_capacity(CHUNK * height);
    for k0 in (0..k).step_by(CHUNK) {
        let weights = &mut weights[..CHUNK.min(k - k0)];
        unpack::floats(panel, k0, weights);
        weights.as_chunks_mut::<2>().0.iter_mut().for_each(|pair| pair.reverse());
        wide.clear();
        for pairs in x[k0 / 2 * height..][..weights.len() / 2 * height].chunks_exact(height) {
            wide.extend(pairs.iter().map(|pair| pair[1].to_f32()));
            wide.extend(pairs.iter().map(|pair| pair[0].to_f32()));
        }
        float_panel(weights, &wide, sums);
    }
}
