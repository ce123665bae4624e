//! The loop over blocks of quantised weights: codes are unpacked once and serve all rows of the tile, whose
//! sums stay in registers.

use std::arch::x86_64::{__m512i, _mm512_loadu_ps, _mm512_setzero_ps, _mm512_storeu_ps};

use super::codes::Codes;
use super::scales::{Activations, Scales};
use super::{AHEAD, expect_read};
use crate::input::Int8Tile;
use crate::layout::{BLOCK, Panel};
use crate::portable::Lanes;

/// One or two panels by one tile of any height, added to `sums` (the rows of the first panel, then of the
/// second).
///
/// # Safety
/// The machine has AVX-512 F, BW and VNNI; the panels' format has codes `C` and scales `S`.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn product<C: Codes, S: Scales>(panels: &[Panel], tile: &Int8Tile, sums: &mut [Lanes]) {
    let blocks = tile.values.len() / tile.height;
    assert_eq!(sums.len(), panels.len() * tile.height, "one row of sums for each row of the tile");
    assert!(panels.iter().all(|panel| panel.values.len() == C::BYTES * blocks), "the same k");
    // SAFETY: the machine has the instructions; the asserted lengths give each panel `blocks` blocks of
    // `C::BYTES` bytes and `sums` `height` rows a panel.
    unsafe {
        match panels {
            [one] => rows::<C, S, 1>([one], tile, sums),
            [one, two] => rows::<C, S, 2>([one, two], tile, sums),
            _ => unreachable!("one or two panels"),
        }
    }
}

/// # Safety
/// As `product`.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn rows<C: Codes, S: Scales, const N: usize>(
    panels: [&Panel; N],
    tile: &Int8Tile,
    sums: &mut [Lanes],
) {
    // SAFETY: as `product`, which has checked the lengths; each arm's number of rows is the tile's height.
    unsafe {
        match tile.height {
            1 => few_rows::<C, S, N, 1>(panels, tile, sums),
            2 => few_rows::<C, S, N, 2>(panels, tile, sums),
            _ => many_rows::<C, S, N>(panels, tile, sums),
        }
    }
}

/// # Safety
/// As `product`; `b` is a block of the panels.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn unpack<C: Codes, S: Scales, const N: usize>(
    panels: [&Panel; N],
    b: usize,
) -> [([__m512i; 8], S::Block); N] {
    // SAFETY: `b` is below the number of blocks of each panel, so that its `C::BYTES` bytes of codes and its
    // scales are readable.
    let one = |panel: &Panel| unsafe {
        (C::unpack(panel.values.as_ptr().add(b * C::BYTES)), S::load(panel.scales.as_ptr(), b))
    };
    let mut blocks = [one(panels[0]); N];
    for p in 1..N {
        blocks[p] = one(panels[p]);
    }
    blocks
}

/// Prefetches the lines that the panel's later blocks will read.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn expect_reads<C: Codes>(panel: &Panel, b: usize) {
    for line in (0..C::BYTES).step_by(64) {
        expect_read(panel.values, panel.pitch.0, b * C::BYTES + line + AHEAD);
    }
    expect_read(panel.scales, panel.pitch.1, b * panel.scales.len() * BLOCK / panel.k + AHEAD / 4);
}

/// Sums in registers.
///
/// # Safety
/// As `product`; the tile has `R` rows.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn few_rows<C: Codes, S: Scales, const N: usize, const R: usize>(
    panels: [&Panel; N],
    tile: &Int8Tile,
    sums: &mut [Lanes],
) {
    let mut local = [[_mm512_setzero_ps(); N]; R];
    // SAFETY: `sums` has `R` rows of 16 values for each panel; a panel has as many blocks as each row.
    unsafe {
        for (r, local) in local.iter_mut().enumerate() {
            for (p, local) in local.iter_mut().enumerate() {
                *local = _mm512_loadu_ps(sums[p * R + r].as_ptr());
            }
        }
        for b in 0..tile.values.len() / R {
            for panel in panels {
                expect_reads::<C>(panel, b);
            }
            let blocks = unpack::<C, S, N>(panels, b);
            for (r, sums) in local.iter_mut().enumerate() {
                S::add(&blocks, Activations::new(tile, b * R + r), sums);
            }
        }
        for (r, local) in local.iter().enumerate() {
            for (p, &sum) in local.iter().enumerate() {
                _mm512_storeu_ps(sums[p * R + r].as_mut_ptr(), sum);
            }
        }
    }
}

/// Sums in memory (the first-level cache), so that the registers are free for the codes, which then serve any
/// number of rows.
///
/// # Safety
/// As `product`.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn many_rows<C: Codes, S: Scales, const N: usize>(
    panels: [&Panel; N],
    tile: &Int8Tile,
    sums: &mut [Lanes],
) {
    let height = tile.height;
    let sums = sums.as_mut_ptr();
    for b in 0..tile.values.len() / height {
        // SAFETY: block `b` is in the panels and in each row of the tile; `sums` has `height` rows for each
        // panel.
        unsafe {
            if tile.is_first {
                for panel in panels {
                    expect_reads::<C>(panel, b);
                }
            }
            let blocks = unpack::<C, S, N>(panels, b);
            for r in 0..height {
                let mut local = [_mm512_setzero_ps(); N];
                for (p, local) in local.iter_mut().enumerate() {
                    *local = _mm512_loadu_ps(sums.add(p * height + r).cast());
                }
                S::add(&blocks, Activations::new(tile, b * height + r), &mut local);
                for (p, sum) in local.into_iter().enumerate() {
                    _mm512_storeu_ps(sums.add(p * height + r).cast(), sum);
                }
            }
        }
    }
}
