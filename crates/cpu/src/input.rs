//! Rows of activations, coded for the kernels and cut into tiles of at most 16 rows. It multiplies nothing.
//!
//! One [`Input`] serves every layer that reads the same activations (q, k and v; gate and up). A row is coded
//! from its own values alone. Within a tile the rows are side by side, so that a kernel reads one stream.

use std::ops::Range;

use half::bf16;
use rayon::prelude::*;

use super::isa::Isa;
use super::lanes::nearest_bf16;
use super::layout::BLOCK;

/// Rows in a full tile.
pub(super) const ROWS: usize = 16;
/// The heights that kernels are made for; the last tile is padded with rows of zeros up to one of them.
const HEIGHTS: [usize; 6] = [1, 2, 4, 8, 12, 16];

/// The number type of coded activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coding {
    /// 8-bit integers in -127..=127 with one `f32` scale per 32 values.
    Int8,
    /// `bf16`, rounded to nearest even.
    Bf16,
    /// Unchanged.
    F32,
}

/// Rows of activations `[m, k]`, coded.
#[derive(Debug)]
pub struct Input {
    m: usize,
    k: usize,
    pub(super) isa: Isa,
    pub(super) coded: Coded,
}

/// Each tile of `h` rows is `[k / 32][h]` blocks, `[ceil(k / 2)][h]` pairs or `[k][h]` values (an even number
/// of them where they are swapped).
#[derive(Debug)]
pub(super) enum Coded {
    Int8(Int8),
    Bf16(Vec<[bf16; 2]>),
    /// Rounded to `bf16`, of each pair of `k` the second value first: for instruction sets without products
    /// of pairs.
    Swapped(Vec<f32>),
    F32(Vec<f32>),
}

/// The values of a block, which no line of the cache cuts.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(32))]
pub(super) struct Values(pub [i8; BLOCK]);

/// A block of 32 activations is `scale * values`.
#[derive(Debug, Default)]
pub(super) struct Int8 {
    values: Vec<Values>,
    scales: Vec<f32>,
    facts: Vec<Sums>,
}

/// Sums of the 32 values of a block, which weights with an offset or a minimum need.
#[derive(Debug, Default, Clone, Copy)]
#[repr(C)]
pub(super) struct Sums {
    /// `scale` times the sum.
    pub scaled: f32,
    /// Minus the sum.
    pub negated: i32,
    /// Minus the sums of the first and the last 16.
    pub halves: [i32; 2],
}

/// Some rows of the input: `rows` of `height` are real, the others are zeros.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub first: usize,
    pub rows: usize,
    pub height: usize,
}

/// One tile of 8-bit activations, each slice `[k / 32][height]`.
#[derive(Clone, Copy)]
pub(super) struct Int8Tile<'a> {
    pub height: usize,
    /// True if no tile was multiplied by these weights just before, so that they are not in a cache yet.
    pub is_first: bool,
    pub values: &'a [Values],
    pub scales: &'a [f32],
    pub sums: &'a [Sums],
}

impl Int8 {
    /// The values `range` (whole blocks) of the rows of a span.
    pub(super) fn tile(&self, span: Span, is_first: bool, k: usize, range: &Range<usize>) -> Int8Tile<'_> {
        let first = span.first * (k / BLOCK) + range.start / BLOCK * span.height;
        let at = first..first + range.len() / BLOCK * span.height;
        Int8Tile {
            height: span.height,
            is_first,
            values: &self.values[at.clone()],
            scales: &self.scales[at.clone()],
            sums: &self.facts[at],
        }
    }
}

impl Input {
    /// Codes `m` rows of `k` values for the products of an instruction set.
    ///
    /// # Panics
    /// When `x` does not have `m k` values, or `k` is not a multiple of 32 under [`Coding::Int8`].
    pub fn new(x: &[f32], m: usize, k: usize, coding: Coding, isa: Isa) -> Self {
        assert_eq!(x.len(), m * k, "activations [{m}, {k}]");
        let rows = Rows { x, m, k };
        let coded = match coding {
            Coding::Int8 => Coded::Int8(quantize(&rows, isa)),
            Coding::Bf16 if isa.has_pairs() => Coded::Bf16(pairs(&rows)),
            Coding::Bf16 => Coded::Swapped(swapped(&rows)),
            Coding::F32 => Coded::F32(floats(&rows)),
        };
        Self { m, k, isa, coded }
    }

    /// Rows.
    pub fn m(&self) -> usize {
        self.m
    }

    /// Values in a row.
    pub fn k(&self) -> usize {
        self.k
    }

    /// The coding of the rows.
    pub fn coding(&self) -> Coding {
        match self.coded {
            Coded::Int8(_) => Coding::Int8,
            Coded::Bf16(_) | Coded::Swapped(_) => Coding::Bf16,
            Coded::F32(_) => Coding::F32,
        }
    }

    /// The tiles, in the order of their rows.
    pub(super) fn spans(&self) -> Vec<Span> {
        spans(self.m)
    }
}

fn spans(m: usize) -> Vec<Span> {
    (0..m)
        .step_by(ROWS)
        .map(|first| {
            let rows = ROWS.min(m - first);
            let height = *HEIGHTS.iter().find(|&&height| height >= rows).expect("a tile has at most 16 rows");
            Span { first, rows, height }
        })
        .collect()
}

/// Rows with padding: all rows of all tiles.
fn padded(m: usize) -> usize {
    spans(m).last().map_or(0, |last| last.first + last.height)
}

#[derive(Clone, Copy)]
struct Rows<'a> {
    x: &'a [f32],
    m: usize,
    k: usize,
}

fn floats(rows: &Rows) -> Vec<f32> {
    let mut values = vec![0.0; padded(rows.m) * rows.k];
    let tile = (ROWS * rows.k).max(1);
    values.par_chunks_mut(tile).zip(spans(rows.m)).for_each(|(tile, span)| {
        for r in 0..span.rows {
            let row = &rows.x[(span.first + r) * rows.k..][..rows.k];
            tile[r..].iter_mut().step_by(span.height).zip(row).for_each(|(value, &x)| *value = x);
        }
    });
    values
}

fn pairs(rows: &Rows) -> Vec<[bf16; 2]> {
    let n_pairs = rows.k.div_ceil(2);
    let mut values = vec![[bf16::ZERO; 2]; padded(rows.m) * n_pairs];
    let mut row = vec![bf16::ZERO; 2 * n_pairs];
    for span in spans(rows.m) {
        let tile = &mut values[span.first * n_pairs..][..span.height * n_pairs];
        for r in 0..span.rows {
            let x = &rows.x[(span.first + r) * rows.k..][..rows.k];
            row.iter_mut().zip(x).for_each(|(value, &x)| *value = nearest_bf16(x));
            let pairs = row.as_chunks::<2>().0;
            tile[r..].iter_mut().step_by(span.height).zip(pairs).for_each(|(pair, &x)| *pair = x);
        }
    }
    values
}

fn swapped(rows: &Rows) -> Vec<f32> {
    let k = rows.k.next_multiple_of(2);
    let mut values = vec![0.0; padded(rows.m) * k];
    let tile = (ROWS * k).max(1);
    values.par_chunks_mut(tile).zip(spans(rows.m)).for_each(|(tile, span)| {
        for r in 0..span.rows {
            for (i, &x) in rows.x[(span.first + r) * rows.k..][..rows.k].iter().enumerate() {
                tile[(i ^ 1) * span.height + r] = nearest_bf16(x).to_f32();
            }
        }
    });
    values
}

fn quantize(rows: &Rows, isa: Isa) -> Int8 {
    assert!(rows.k.is_multiple_of(BLOCK), "rows of `{}` values are no whole blocks of 32", rows.k);
    let blocks = rows.k / BLOCK;
    let n = padded(rows.m) * blocks;
    let mut int8 =
        Int8 { values: vec![Values([0; BLOCK]); n], scales: vec![0.0; n], facts: vec![Sums::default(); n] };
    let tile = (ROWS * blocks).max(1);
    let tiles = (int8.values.chunks_mut(tile).zip(int8.scales.chunks_mut(tile)))
        .zip(int8.facts.chunks_mut(tile))
        .zip(spans(rows.m))
        .map(|(((values, scales), facts), span)| (Blocks { values, scales, facts }, span));
    if rows.m <= ROWS {
        tiles.for_each(|(mut tile, span)| quantize_tile(rows, span, &mut tile, isa));
    } else {
        let tiles: Vec<_> = tiles.collect();
        tiles.into_par_iter().for_each(|(mut tile, span)| quantize_tile(rows, span, &mut tile, isa));
    }
    int8
}

/// One tile of [`Int8`], to be written.
struct Blocks<'a> {
    values: &'a mut [Values],
    scales: &'a mut [f32],
    facts: &'a mut [Sums],
}

fn quantize_tile(rows: &Rows, span: Span, tile: &mut Blocks, isa: Isa) {
    #[cfg(target_arch = "x86_64")]
    if isa.instructions() >= super::isa::Instructions::Avx2 {
        // SAFETY: an instruction set exists only on machines that have its instructions.
        return unsafe { quantize_tile_avx2(rows, span, tile) };
    }
    let _ = isa;
    quantize_tile_plain(rows, span, tile);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn quantize_tile_avx2(rows: &Rows, span: Span, tile: &mut Blocks) {
    quantize_tile_plain(rows, span, tile);
}

#[inline(always)]
fn quantize_tile_plain(rows: &Rows, span: Span, tile: &mut Blocks) {
    for r in 0..span.rows {
        let row = &rows.x[(span.first + r) * rows.k..][..rows.k];
        for (b, x) in row.as_chunks::<BLOCK>().0.iter().enumerate() {
            let at = b * span.height + r;
            (tile.scales[at], tile.facts[at]) = quantize_block(x, &mut tile.values[at].0);
        }
    }
}

/// Symmetric rounding to nearest even. A block of zeros (or of values so small that their scale has no
/// inverse) is zero; a block with an infinity or a NaN has a scale that is not finite, so that its products
/// are not finite either.
#[inline(always)]
fn quantize_block(x: &[f32; BLOCK], values: &mut [i8; BLOCK]) -> (f32, Sums) {
    /// Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the mantissa.
    const ROUND: f32 = 12_582_912.0;
    // As integers, so that a NaN is the greatest; in eight lanes, so that the order suits vectors.
    let mut lanes = [0i32; 8];
    for eight in x.as_chunks::<8>().0 {
        for (lane, x) in lanes.iter_mut().zip(eight) {
            *lane = (*lane).max((x.to_bits() & 0x7fff_ffff) as i32);
        }
    }
    let largest = f32::from_bits(lanes.into_iter().fold(0, i32::max) as u32);
    let inverse = 127.0 / largest;
    if inverse == f32::INFINITY {
        *values = [0; BLOCK];
        return (0.0, Sums::default());
    }
    let mut wide = [0i32; BLOCK];
    for (wide, x) in wide.iter_mut().zip(x) {
        let rounded = (x * inverse + ROUND).to_bits() as i32 - ROUND.to_bits() as i32;
        *wide = rounded.clamp(-127, 127);
    }
    for (value, wide) in values.iter_mut().zip(wide) {
        *value = wide as i8;
    }
    let halves = [-wide[..16].iter().sum::<i32>(), -wide[16..].iter().sum::<i32>()];
    let negated = halves[0] + halves[1];
    let scale = largest / 127.0;
    (scale, Sums { scaled: scale * -negated as f32, negated, halves })
}
