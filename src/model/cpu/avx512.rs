//! The AVX-512 tier: which kernel serves which format and height. The kernels are in `avx512/`.

mod codes;
mod floats;
mod int8;
mod scales;

use super::input::Int8Tile;
use super::layout::Panel;
use super::portable::Lanes;
use super::{Format, unpack};

pub(super) use floats::{bf16_pairs, floats};

/// Weights `k0..` of a panel as `f32`.
///
/// # Safety
/// The machine has AVX-512 F and BW.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn widen(panel: &Panel, k0: usize, weights: &mut [Lanes]) {
    unpack::floats(panel, k0, weights);
}

/// Quantised weights by 8-bit activations.
///
/// # Safety
/// The machine has AVX-512 F, BW and VNNI.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn int8(panel: &Panel, tile: &Int8Tile, sums: &mut [Lanes]) {
    use codes::{Eight, Five, Four, Six};
    use scales::{Minimum, Plain, Sixteen, Super};
    // SAFETY: the caller's promise.
    unsafe {
        match panel.format {
            Format::Q8_0 => int8::product::<Eight, Plain<7>>(panel, tile, sums),
            Format::Q4_0 => int8::product::<Four, Plain<3>>(panel, tile, sums),
            Format::Q5_0 => int8::product::<Five, Plain<4>>(panel, tile, sums),
            Format::Q4_1 => int8::product::<Four, Minimum>(panel, tile, sums),
            Format::Q5_1 => int8::product::<Five, Minimum>(panel, tile, sums),
            Format::Q4K => int8::product::<Four, Super>(panel, tile, sums),
            Format::Q5K => int8::product::<Five, Super>(panel, tile, sums),
            Format::Q6K => int8::product::<Six, Sixteen>(panel, tile, sums),
            Format::F32 | Format::F16 | Format::Bf16 => unreachable!("floats have no codes"),
        }
    }
}
