//! AVX2 and AVX-VNNI: the kernel of each quantised format. The kernels are in `avx2/`; those of floats are
//! the same on all instruction sets.
#![expect(clippy::needless_range_loop, reason = "a row and a half are places in several arrays at once")]

mod codes;
mod dot;
mod int8;
mod scales;

use super::Format;
use super::input::Int8Tile;
use super::layout::{FLOAT4, IQ4, Panel};
use super::portable::Lanes;
use super::unpack;
use codes::{Codes, Eight, Five, Four, Six, Split, Uneven, UnevenSplit};
use dot::{Arithmetic, Fours, Pairs};
use scales::{Minimum, Plain, Scales, Sixteen, Super, Zero};

/// The kernel of a product with the instructions of an instruction set. Each format has a function of its
/// own: one of them all had 0.6 of the speed of 4-bit products in programs with one thread, for a reason that
/// was not found.
macro_rules! kernel {
    ($name:ident, $features:literal) => {
        #[inline(never)]
        #[target_feature(enable = $features)]
        unsafe fn $name<A: Arithmetic, C: Codes, S: Scales>(
            panels: &[Panel],
            tile: &Int8Tile,
            sums: &mut [Lanes],
        ) {
            // SAFETY: the machine has the instructions that the attribute enables; the arm of `by_format`
            // gives the codes and scales of the panels' format.
            unsafe { int8::product::<A, C, S>(panels, tile, sums) }
        }
    };
}

kernel!(pairs, "avx2,fma,f16c");
kernel!(fours, "avx2,fma,f16c,avxvnni");

/// Runs the kernel of a format: `$eight` are the codes of 8 bits, `$uneven` those that are looked up to 8
/// bits.
macro_rules! by_format {
    ($kernel:ident, $arithmetic:ty, $eight:ty, $uneven:ident, $panels:expr, $tile:expr, $sums:expr) => {
        match $panels[0].format {
            Format::Q8_0 => $kernel::<$arithmetic, $eight, Plain<7>>($panels, $tile, $sums),
            Format::Q4_0 => $kernel::<$arithmetic, Four, Plain<3>>($panels, $tile, $sums),
            Format::Q5_0 => $kernel::<$arithmetic, Five, Plain<4>>($panels, $tile, $sums),
            Format::Q4_1 => $kernel::<$arithmetic, Four, Minimum>($panels, $tile, $sums),
            Format::Q5_1 => $kernel::<$arithmetic, Five, Minimum>($panels, $tile, $sums),
            Format::Q4K => $kernel::<$arithmetic, Four, Super>($panels, $tile, $sums),
            Format::Q5K => $kernel::<$arithmetic, Five, Super>($panels, $tile, $sums),
            Format::Q6K => $kernel::<$arithmetic, Six, Sixteen<5>>($panels, $tile, $sums),
            Format::Q3K => $kernel::<$arithmetic, Four, Sixteen<2>>($panels, $tile, $sums),
            Format::Iq4Nl => $kernel::<$arithmetic, $uneven<IQ4>, Plain<7>>($panels, $tile, $sums),
            Format::Iq4Xs => $kernel::<$arithmetic, $uneven<IQ4>, Sixteen<7>>($panels, $tile, $sums),
            Format::Mxfp4 => $kernel::<$arithmetic, $uneven<FLOAT4>, Plain<7>>($panels, $tile, $sums),
            Format::U4 => $kernel::<$arithmetic, Four, Zero>($panels, $tile, $sums),
            format => unreachable!("{format:?} is multiplied as floats"),
        }
    };
}

/// Quantised weights by 8-bit activations.
///
/// # Safety
/// The machine has AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn int8(panels: &[Panel], tile: &Int8Tile, sums: &mut [Lanes]) {
    // SAFETY: the machine has AVX2, FMA and F16C, as this function requires; each arm has the codes and
    // scales of its format.
    unsafe { by_format!(pairs, Pairs, Split, UnevenSplit, panels, tile, sums) }
}

/// Quantised weights by 8-bit activations, with AVX-VNNI.
///
/// # Safety
/// The machine has AVX2, FMA, F16C and AVX-VNNI.
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
pub(super) unsafe fn int8_vnni(panels: &[Panel], tile: &Int8Tile, sums: &mut [Lanes]) {
    // SAFETY: the machine has AVX-VNNI too, as this function requires; each arm has the codes and scales of
    // its format.
    unsafe { by_format!(fours, Fours, Eight, Uneven, panels, tile, sums) }
}

/// Quantised weights of a panel from `k0` on as `f32`.
///
/// # Safety
/// The machine has AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn widen(panel: &Panel, k0: usize, weights: &mut [Lanes]) {
    unpack::floats(panel, k0, weights);
}
