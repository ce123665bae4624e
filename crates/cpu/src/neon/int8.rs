//! The loop over blocks of quantised weights: codes are unpacked once and serve all rows of the tile.

use std::arch::aarch64::vst1q_s8;
use std::marker::PhantomData;

use super::codes::{Codes, LINE};
use super::dot::{Arithmetic, Lines, Packed, Unpacked, each_quarter};
use super::scales::{Rows, Scales};
use crate::ahead;
use crate::input::Int8Tile;
use crate::lanes::{Lanes as _, Neon};
use crate::layout::{BLOCK, Panel};
use crate::portable::Lanes;

/// Distance from a prefetched line of weights to the one in use. Unit: bytes.
const AHEAD: usize = 2048;

/// Some panels by one tile of any height, added to `sums` (the rows of the first panel, then of the next).
///
/// # Safety
/// The machine has the instructions of `A`; the panels' format has codes `C` and scales `S`.
#[inline(always)]
pub(super) unsafe fn product<A: Arithmetic, C: Codes, S: Scales>(
    panels: &[Panel],
    tile: &Int8Tile,
    sums: &mut [Lanes],
) {
    let height = tile.height;
    let blocks = tile.values.len() / height;
    assert_eq!(sums.len(), panels.len() * height, "one row of sums for each row of the tile");
    assert!(panels.iter().all(|panel| panel.values.len() == C::BYTES * blocks), "the same k");
    for (panel, sums) in panels.iter().zip(sums.chunks_exact_mut(height)) {
        // SAFETY: the machine has the instructions; the asserted lengths give the panel `blocks` blocks of
        // `C::BYTES` bytes and `sums` `height` rows. The tile's height is 1, 2 or a multiple of 4
        // (`Int8Tile`).
        unsafe {
            match height {
                1 => few_rows::<A::Single, C, S, 1>(panel, tile, sums),
                2 => few_rows::<A, C, S, 2>(panel, tile, sums),
                _ => many_rows::<A, C, S, 4>(panel, tile, sums),
            }
        }
    }
}

/// Prefetches the lines that the panel's later blocks will read: of this panel, or of the next one.
#[inline(always)]
fn expect_reads<C: Codes>(panel: &Panel, b: usize) {
    for line in (0..C::BYTES).step_by(LINE) {
        ahead::read(panel.values.as_ptr().wrapping_add(b * C::BYTES + line + AHEAD));
    }
    let at = b * panel.scales.len() * BLOCK / panel.k + AHEAD / 4;
    ahead::read(panel.scales.as_ptr().wrapping_add(at));
}

/// Sums in registers, codes unpacked as they are used.
///
/// # Safety
/// As `product`; the tile has `R` rows, and the panel as many blocks as each of them.
#[inline(always)]
unsafe fn few_rows<A: Arithmetic, C: Codes, S: Scales, const R: usize>(
    panel: &Panel,
    tile: &Int8Tile,
    sums: &mut [Lanes],
) {
    let sums: &mut [Lanes; R] = sums.first_chunk_mut().expect("the tile's rows");
    let mut local = sums.each_ref().map(Neon::load);
    for b in 0..tile.values.len() / R {
        expect_reads::<C>(panel, b);
        // SAFETY: `b` is below the number of blocks of the panel and of each of the tile's `R` rows, which
        // are borrowed for the whole call.
        unsafe {
            let lines = Packed::<A, C>(panel.values.as_ptr().add(b * C::BYTES), PhantomData);
            let block = S::load(panel.scales.as_ptr(), b);
            S::add::<A, _, R>(lines, block, Rows::new(tile, b * R), &mut local);
        }
    }
    for (sums, local) in sums.iter_mut().zip(local) {
        local.store(sums);
    }
}

/// The codes of a block.
#[repr(align(64))]
struct UnpackedLines([i8; 8 * LINE]);

/// Sums and unpacked codes in memory (the first-level cache), `R` rows at a time.
///
/// # Safety
/// As `product`; the tile's height is a multiple of `R`, and the panel has as many blocks as each of its
/// rows.
#[inline(always)]
unsafe fn many_rows<A: Arithmetic, C: Codes, S: Scales, const R: usize>(
    panel: &Panel,
    tile: &Int8Tile,
    sums: &mut [Lanes],
) {
    let height = tile.height;
    let mut unpacked = UnpackedLines([0; 8 * LINE]);
    for b in 0..tile.values.len() / height {
        if tile.is_first {
            expect_reads::<C>(panel, b);
        }
        // SAFETY: `b` is below the number of blocks of the panel and of each row, rows `R i..R (i + 1)` are
        // below the height, and `unpacked` has the eight lines that are written and read.
        unsafe {
            let lines = Packed::<A, C>(panel.values.as_ptr().add(b * C::BYTES), PhantomData);
            unpack(lines, &mut unpacked);
            let block = S::load(panel.scales.as_ptr(), b);
            for (i, sums) in sums.as_chunks_mut::<R>().0.iter_mut().enumerate() {
                let mut local = sums.each_ref().map(Neon::load);
                let x = Rows::new(tile, b * height + R * i);
                S::add::<A, _, R>(Unpacked(unpacked.0.as_ptr()), block, x, &mut local);
                for (sums, local) in sums.iter_mut().zip(local) {
                    local.store(sums);
                }
            }
        }
    }
}

/// # Safety
/// The block can be read.
#[inline(always)]
unsafe fn unpack(lines: impl Lines, unpacked: &mut UnpackedLines) {
    let unpacked = unpacked.0.as_mut_ptr();
    // Both indices are literals, so that each format's shifts are too.
    each_quarter!(|pair| each_quarter!(|quarter| {
        let at = LINE * 2 * pair + LINE / 4 * quarter;
        // SAFETY: `pair < 4` and `quarter < 4`, so that both stores are inside the eight lines of `unpacked`;
        // the block is readable.
        unsafe {
            let [one, two] = lines.two(pair, quarter);
            vst1q_s8(unpacked.add(at), one);
            vst1q_s8(unpacked.add(at + LINE), two);
        }
    }));
}
