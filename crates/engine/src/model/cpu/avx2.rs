//! The AVX2 and AVX-VNNI tiers: which kernel serves which quantised format. The kernels are in `avx2/`; those of floats are
//! the same on all tiers.
#![expect(clippy::needless_range_loop, reason = "a row and a half are places in several arrays at once")]

mod codes;
mod dot;
mod int8;
mod scales;

use super::Format;
use super::input::Int8Tile;
use super::layout::Panel;
use super::portable::Lanes;
use super::unpack;
use codes::{Eight, Five, Four, Six, Split};
use dot::{Fours, Pairs};
use scales::{Minimum, Plain, Sixteen, Super};

/// Runs the kernel of a format: `$eight` are the codes of 8 bits.
macro_rules! by_format {
    ($arithmetic:ty, $eight:ty, $panels:expr, $tile:expr, $sums:expr) => {
        match $panels[0].format {
            Format::Q8_0 => int8::product::<$arithmetic, $eight, Plain<7>>($panels, $tile, $sums),
            Format::Q4_0 => int8::product::<$arithmetic, Four, Plain<3>>($panels, $tile, $sums),
            Format::Q5_0 => int8::product::<$arithmetic, Five, Plain<4>>($panels, $tile, $sums),
            Format::Q4_1 => int8::product::<$arithmetic, Four, Minimum>($panels, $tile, $sums),
            Format::Q5_1 => int8::product::<$arithmetic, Five, Minimum>($panels, $tile, $sums),
            Format::Q4K => int8::product::<$arithmetic, Four, Super>($panels, $tile, $sums),
            Format::Q5K => int8::product::<$arithmetic, Five, Super>($panels, $tile, $sums),
            Format::Q6K => int8::product::<$arithmetic, Six, Sixteen>($panels, $tile, $sums),
            Format::F32 | Format::F16 | Format::Bf16 => unreachable!("floats have no codes"),
        }
    };
}

/// Quantised weights by 8-bit activations.
///
/// # Safety
/// The machine has AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn int8(panels: &[Panel], tile: &Int8Tile, sums: &mut [Lanes]) {
    // SAFETY: the caller's promise.
    unsafe { by_format!(Pairs, Split, panels, tile, sums) }
}

/// The same with AVX-VNNI.
///
/// # Safety
/// The machine has AVX2, FMA, F16C and AVX-VNNI.
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
pub(super) unsafe fn int8_vnni(panels: &[Panel], tile: &Int8Tile, sums: &mut [Lanes]) {
    // SAFETY: the caller's promise.
    unsafe { by_format!(Fours, Eight, panels, tile, sums) }
}

/// Quantised weights of a panel from `k0` on as `f32`.
///
/// # Safety
/// The machine has AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn widen(panel: &Panel, k0: usize, weights: &mut [Lanes]) {
    unpack::floats(panel, k0, weights);
}
