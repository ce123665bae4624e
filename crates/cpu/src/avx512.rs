//! AVX-512: the kernel of each format. The kernels are in `avx512/`.

pub(super) mod codes;
pub(super) mod int8;
mod pairs;
pub(super) mod scales;
mod widen;

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use super::Format;
use super::input::Int8Tile;
use super::layout::{FLOAT4, IQ4, Panel};
use super::portable::Lanes;
use codes::{Eight, Five, Four, Six, Uneven};
use scales::{Minimum, Plain, Sixteen, Super, Zero};

pub(super) use pairs::bf16_pairs;

/// Distance from a prefetched line of weights to the one in use. Unit: bytes.
const AHEAD: usize = 2048;

/// Prefetches the line at `at` of a panel's bytes; past their end, one of the panel after next: panels go in
/// pairs, `pitch` bytes apart. The hardware prefetcher stops at each page.
#[inline]
#[target_feature(enable = "avx512f")]
fn expect_read(bytes: &[u8], pitch: usize, at: usize) {
    let at = if at < bytes.len() { at } else { at - bytes.len() + 2 * pitch };
    _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(at).cast());
}

/// Quantised weights by 8-bit activations.
///
/// # Safety
/// The machine has AVX-512 F, BW and VNNI.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn int8(panels: &[Panel], tile: &Int8Tile, sums: &mut [Lanes]) {
    // SAFETY: the machine has the instructions that the attribute enables; each arm has the codes and scales
    // of its format.
    unsafe {
        match panels[0].format {
            Format::Q8_0 => int8::product::<Eight, Plain<7>>(panels, tile, sums),
            Format::Q4_0 => int8::product::<Four, Plain<3>>(panels, tile, sums),
            Format::Q5_0 => int8::product::<Five, Plain<4>>(panels, tile, sums),
            Format::Q4_1 => int8::product::<Four, Minimum>(panels, tile, sums),
            Format::Q5_1 => int8::product::<Five, Minimum>(panels, tile, sums),
            Format::Q4K => int8::product::<Four, Super>(panels, tile, sums),
            Format::Q5K => int8::product::<Five, Super>(panels, tile, sums),
            Format::Q6K => int8::product::<Six, Sixteen<5>>(panels, tile, sums),
            Format::Q3K => int8::product::<Four, Sixteen<2>>(panels, tile, sums),
            Format::Iq4Nl => int8::product::<Uneven<IQ4>, Plain<7>>(panels, tile, sums),
            Format::Mxfp4 => int8::product::<Uneven<FLOAT4>, Plain<7>>(panels, tile, sums),
            Format::Iq4Xs => int8::product::<Uneven<IQ4>, Sixteen<7>>(panels, tile, sums),
            Format::U4 => int8::product::<Four, Zero>(panels, tile, sums),
            format => unreachable!("{format:?} is multiplied as floats"),
        }
    }
}

/// Quantised weights of a panel from `k0` on as `f32`.
///
/// # Safety
/// The machine has AVX-512 F, BW and VNNI.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn widen(panel: &Panel, k0: usize, weights: &mut [Lanes]) {
    // SAFETY: the machine has the instructions that the attribute enables; each arm has the codes and scales
    // of its format.
    unsafe {
        match panel.format {
            Format::Q8_0 => widen::blocks::<Eight, Plain<7>>(panel, k0, weights),
            Format::Q4_0 => widen::blocks::<Four, Plain<3>>(panel, k0, weights),
            Format::Q5_0 => widen::blocks::<Five, Plain<4>>(panel, k0, weights),
            Format::Q4_1 => widen::blocks::<Four, Minimum>(panel, k0, weights),
            Format::Q5_1 => widen::blocks::<Five, Minimum>(panel, k0, weights),
            Format::Q4K => widen::blocks::<Four, Super>(panel, k0, weights),
            Format::Q5K => widen::blocks::<Five, Super>(panel, k0, weights),
            Format::Q6K => widen::blocks::<Six, Sixteen<5>>(panel, k0, weights),
            Format::Q3K => widen::blocks::<Four, Sixteen<2>>(panel, k0, weights),
            Format::Iq4Nl => widen::blocks::<Uneven<IQ4>, Plain<7>>(panel, k0, weights),
            Format::Mxfp4 => widen::blocks::<Uneven<FLOAT4>, Plain<7>>(panel, k0, weights),
            Format::Iq4Xs => widen::blocks::<Uneven<IQ4>, Sixteen<7>>(panel, k0, weights),
            Format::U4 => widen::blocks::<Four, Zero>(panel, k0, weights),
            Format::Q2K => widen::two_bits(panel, k0, weights),
            Format::F8E4M3 => widen::eight_bit_floats(panel, k0, weights),
            Format::F32 | Format::F16 | Format::Bf16 => unreachable!("floats have no codes"),
        }
    }
}
