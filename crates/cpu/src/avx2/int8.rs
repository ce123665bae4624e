//! The loop over blocks of quantised weights: codes are unpacked once and serve all rows of the tile.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch, _mm256_loadu_ps, _mm256_store_si256, _mm256_storeu_ps};

use std::marker::PhantomData;

use super::codes::{Codes, LINE};
use super::dot::{Arithmetic, Packed, Unpacked};
use super::scales::{Floats, Rows, Scales};
use crate::input::Int8Tile;
use crate::layout::{BLOCK, Panel};
use crate::portable::Lanes;

/// Distance from a prefetched line of weights to the one in use. Unit: bytes.
const AHEAD: usize = 2048;

/// Some panels by one tile of any height, added to `sums` (the rows of the first panel, then of the next).
///
/// # Safety
/// The machine has the instruction set of `A`; the panels' format has codes `C` and scales `S`.
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
        // SAFETY: the machine has the instructions; the asserted lengths give each panel `blocks` blocks of
        // `C::BYTES` bytes and `sums` `height` rows. The tile's height is 1, 2 or a multiple of 4
        // (`Int8Tile`).
        unsafe {
            match height {
                1 => few_rows::<A, C, S, 1>(panel, tile, sums),
                2 => few_rows::<A, C, S, 2>(panel, tile, sums),
                _ if C::ROWS == 2 => many_rows::<A, C, S, 2>(panel, tile, sums),
                _ => many_rows::<A, C, S, 4>(panel, tile, sums),
            }
        }
    }
}

/// Prefetches the lines that the panel's later blocks will read: of this panel, or of the next one.
#[inline(always)]
fn expect_reads<C: Codes>(panel: &Panel, b: usize) {
    let at = |bytes: &[u8], at: usize| {
        // SAFETY: a hint, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(at).cast()) };
    };
    for line in (0..C::BYTES).step_by(LINE) {
        at(panel.values, b * C::BYTES + line + AHEAD);
    }
    at(panel.scales, b * panel.scales.len() * BLOCK / panel.k + AHEAD / 4);
}

/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn load(row: *const Lanes) -> Floats {
    let row: *const f32 = row.cast();
    // SAFETY: `row` points to 16 floats of `sums`; the load needs no alignment.
    unsafe { [_mm256_loadu_ps(row), _mm256_loadu_ps(row.add(8))] }
}

/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn store(row: *mut Lanes, sums: Floats) {
    let row: *mut f32 = row.cast();
    // SAFETY: `row` points to 16 floats of `sums`, which are borrowed exclusively; the store needs no
    // alignment.
    unsafe {
        _mm256_storeu_ps(row, sums[0]);
        _mm256_storeu_ps(row.add(8), sums[1]);
    }
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
    let sums = sums.as_mut_ptr();
    // SAFETY: `sums` and the tile have `R` rows, and `b` is below the number of blocks of the panel and of
    // each row, so that every pointer is inside its slice; these are borrowed for the whole call.
    unsafe {
        let mut local = [load(sums); R];
        for r in 1..R {
            local[r] = load(sums.add(r));
        }
        for b in 0..tile.values.len() / R {
            expect_reads::<C>(panel, b);
            let lines = Packed::<C>(panel.values.as_ptr().add(b * C::BYTES), PhantomData);
            let block = S::load(panel.scales.as_ptr(), b);
            S::add::<A, C, _, R>(lines, block, Rows::new(tile, b * R), &mut local);
        }
        for r in 0..R {
            store(sums.add(r), local[r]);
        }
    }
}

/// The lines of a block.
#[repr(align(64))]
struct UnpackedLines([u8; 16 * LINE]);

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
    let (height, sums) = (tile.height, sums.as_mut_ptr());
    let mut unpacked = UnpackedLines([0; 16 * LINE]);
    // SAFETY: rows `first..first + R` are below the height; `b` is below the number of blocks of the panel
    // and of each row; `unpacked` has 16 lines, at least `C::LINES`, and is aligned to 64 for the stores. All
    // slices are borrowed for the whole call.
    unsafe {
        for b in 0..tile.values.len() / height {
            if tile.is_first {
                expect_reads::<C>(panel, b);
            }
            let codes = panel.values.as_ptr().add(b * C::BYTES);
            let lines = if C::BYTES == C::LINES * LINE {
                Unpacked(codes)
            } else {
                let unpacked = unpacked.0.as_mut_ptr();
                for line in 0..C::LINES {
                    for half in 0..2 {
                        let at = unpacked.add(LINE * line + LINE / 2 * half);
                        _mm256_store_si256(at.cast(), C::line(codes, line, half));
                    }
                }
                Unpacked(unpacked)
            };
            let block = S::load(panel.scales.as_ptr(), b);
            for first in (0..height).step_by(R) {
                let mut local = [load(sums.add(first)); R];
                for r in 1..R {
                    local[r] = load(sums.add(first + r));
                }
                S::add::<A, C, _, R>(lines, block, Rows::new(tile, b * height + first), &mut local);
                for r in 0..R {
                    store(sums.add(first + r), local[r]);
                }
            }
        }
    }
}
