//! The product of one panel and one tile in plain Rust. It is the reference for all instruction sets and,
//! compiled for them with a `dot` of their own, the body of some of their kernels.

use super::input::Int8Tile;
use super::layout::{BLOCK, LANES, Panel, quantized};
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
    let (codes, scales) = quantized(panel.format).expect("floats are not multiplied by 8-bit activations");
    let offset = panel.format.offset();
    let mut block = Block([[0; LANES]; 8]);
    for b in 0..panel.k / BLOCK {
        unpack::codes(codes, panel, b, &mut block);
        let weights = unpack::scales(scales, panel, b);
        for (r, sums) in sums.iter_mut().enumerate() {
            let at = b * tile.height + r;
            let (x, s, facts) = (&tile.values[at].0, tile.scales[at], tile.sums[at]);
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
