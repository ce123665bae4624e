//! The loop over blocks of quantised weights: codes are unpacked once and serve all rows of the tile, whose
//! sums stay in registers.

use std::arch::x86_64::{__m512, _mm512_loadu_ps, _mm512_storeu_ps};

use super::codes::Codes;
use super::scales::{Activations, Scales};
use crate::model::cpu::input::Int8Tile;
use crate::model::cpu::layout::{BLOCK, Panel};
use crate::model::cpu::portable::Lanes;

/// One panel by one tile of any height.
///
/// # Safety
/// The machine has AVX-512 F, BW and VNNI; the panel's format has codes `C` and scales `S`.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn product<C: Codes, S: Scales>(panel: &Panel, tile: &Int8Tile, sums: &mut [Lanes]) {
    // SAFETY: the caller's promise.
    unsafe {
        match tile.height {
            1 => rows::<C, S, 1>(panel, tile, sums),
            2 => rows::<C, S, 2>(panel, tile, sums),
            4 => rows::<C, S, 4>(panel, tile, sums),
            8 => rows::<C, S, 8>(panel, tile, sums),
            12 => rows::<C, S, 12>(panel, tile, sums),
            16 => rows::<C, S, 16>(panel, tile, sums),
            height => unreachable!("no tile has {height} rows"),
        }
    }
}

/// # Safety
/// As `product`.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn rows<C: Codes, S: Scales, const R: usize>(panel: &Panel, tile: &Int8Tile, sums: &mut [Lanes]) {
    let blocks = panel.k / BLOCK;
    assert_eq!(sums.len(), R, "one row of sums for each row of the tile");
    assert!(tile.values.len() == R * blocks && panel.values.len() == C::BYTES * blocks, "the same k");
    // SAFETY: `sums` has `R` rows of 16 values; the panel has `blocks` blocks and the tile `R` times as many.
    unsafe {
        let mut local: [__m512; R] = std::array::from_fn(|r| _mm512_loadu_ps(sums[r].as_ptr()));
        for b in 0..blocks {
            let codes = C::unpack(panel.values.as_ptr().add(b * C::BYTES));
            let block = S::load(panel.scales.as_ptr(), b);
            for (r, sum) in local.iter_mut().enumerate() {
                *sum = S::add(block, &codes, Activations::new(tile, b * R + r), *sum);
            }
        }
        for (sums, sum) in sums.iter_mut().zip(local) {
            _mm512_storeu_ps(sums.as_mut_ptr(), sum);
        }
    }
}
