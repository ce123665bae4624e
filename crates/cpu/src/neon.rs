//! NEON: the kernel of each quantised format. The kernels are in `neon/`; those of floats are the same on all
//! instruction sets.
#![expect(clippy::needless_range_loop, reason = "a row and a quarter are places in several arrays at once")]

mod codes;
mod dot;
mod int8;
mod scales;

use super::Format;
use super::input::Int8Tile;
use super::layout::{FLOAT4, IQ4, Panel};
use super::portable::Lanes;
use codes::{Eight, Five, Four, Six, Uneven};
use scales::{Minimum, Plain, Sixteen, Super, Zero};

pub(super) use dot::{Fours, Matrices, Pairs};

/// Runs the kernel of a format.
macro_rules! by_format {
    ($arithmetic:ty, $panels:expr, $tile:expr, $sums:expr) => {
        match $panels[0].format {
            Format::Q8_0 => int8::product::<$arithmetic, Eight, Plain<0>>($panels, $tile, $sums),
            Format::Q4_0 => int8::product::<$arithmetic, Four, Plain<8>>($panels, $tile, $sums),
            Format::Q5_0 => int8::product::<$arithmetic, Five, Plain<16>>($panels, $tile, $sums),
            Format::Q4_1 => int8::product::<$arithmetic, Four, Minimum>($panels, $tile, $sums),
            Format::Q5_1 => int8::product::<$arithmetic, Five, Minimum>($panels, $tile, $sums),
            Format::Q4K => int8::product::<$arithmetic, Four, Super>($panels, $tile, $sums),
            Format::Q5K => int8::product::<$arithmetic, Five, Super>($panels, $tile, $sums),
            Format::Q6K => int8::product::<$arithmetic, Six, Sixteen<32>>($panels, $tile, $sums),
            Format::Q3K => int8::product::<$arithmetic, Four, Sixteen<4>>($panels, $tile, $sums),
            Format::Iq4Nl => int8::product::<$arithmetic, Uneven<IQ4>, Plain<0>>($panels, $tile, $sums),
            Format::Mxfp4 => int8::product::<$arithmetic, Uneven<FLOAT4>, Plain<0>>($panels, $tile, $sums),
            Format::Iq4Xs => int8::product::<$arithmetic, Uneven<IQ4>, Sixteen<0>>($panels, $tile, $sums),
            Format::U4 => int8::product::<$arithmetic, Four, Zero>($panels, $tile, $sums),
            format => unreachable!("{format:?} is multiplied as floats"),
        }
    };
}

/// Quantised weights by 8-bit activations.
pub(super) fn int8(panels: &[Panel], tile: &Int8Tile, sums: &mut [Lanes]) {
    // SAFETY: the instructions are everywhere.
    unsafe { by_format!(Pairs, panels, tile, sums) }
}

/// Quantised weights by 8-bit activations, with products of four bytes.
///
/// # Safety
/// The machine has `dotprod`.
#[target_feature(enable = "dotprod")]
pub(super) unsafe fn int8_dotprod(panels: &[Panel], tile: &Int8Tile, sums: &mut [Lanes]) {
    // SAFETY: the machine has `dotprod`, as this function requires; each arm has the codes and scales of its
    // format.
    unsafe { by_format!(Fours, panels, tile, sums) }
}

/// Quantised weights by 8-bit activations, with products of matrices.
///
/// # Safety
/// The machine has `dotprod` and `i8mm`.
#[target_feature(enable = "dotprod,i8mm")]
pub(super) unsafe fn int8_i8mm(panels: &[Panel], tile: &Int8Tile, sums: &mut [Lanes]) {
    // SAFETY: the machine has `i8mm` and `dotprod`, as this function requires; each arm has the codes and
    // scales of its format.
    unsafe { by_format!(Matrices, panels, tile, sums) }
}
