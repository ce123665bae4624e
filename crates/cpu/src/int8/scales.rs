//! From the exact integers of a block to the sum of one row: the scales, in the order that `portable::int8`
//! defines, written once for all instruction sets.

use super::Outputs;
use crate::input;
use crate::lanes::WIDTH;
use crate::layout::{self, SUPER};

/// The factors of a block of one panel; a kind of scales uses the first [`Scales::FACTORS`].
pub(crate) type Factors<F> = [F; 3];

/// The scale of a block of activations, and their scaled sum.
#[derive(Clone, Copy)]
pub(crate) struct Scaled {
    pub scale: f32,
    pub sum: f32,
}

/// One kind of scales.
pub(crate) trait Scales: Copy {
    const KIND: layout::Scales;
    /// Codes are `1 << SHIFT` above their value; `None` where they have no offset.
    const SHIFT: Option<u32> = None;
    /// Integers of a block: one, or one for each half.
    const INTEGERS: usize = 1;
    const FACTORS: usize;

    /// # Safety
    /// Block `b` is in the scales that start at `at`.
    unsafe fn load<F: Outputs>(at: *const u8, b: usize) -> Factors<F>;

    /// `sum` and one block of one row: `fma(minimum, sum of activations, fma(integer, d scale, sum))` where
    /// there is a minimum.
    #[inline(always)]
    fn add<F: Outputs>([integer, _]: [F; 2], [d, minimum, _]: Factors<F>, x: Scaled, sum: F) -> F {
        minimum.mul_add(F::splat(x.sum), scaled(integer, d, x.scale, sum))
    }

    /// The factor of the codes of one half of the block, less their offset, and the addend.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "AVX-512 alone widens by factors"))]
    #[inline(always)]
    fn linear<F: Outputs>([d, addend, last]: Factors<F>, half: usize) -> [F; 2] {
        match Self::FACTORS {
            1 => [d, F::splat(0.0)],
            2 => [d, addend],
            _ => [d.mul(if half == 0 { addend } else { last }), F::splat(0.0)],
        }
    }

    /// The start of an integer, which takes the offset of the codes from it.
    #[inline(always)]
    fn start(sums: &input::Sums, integer: usize) -> i32 {
        let negated = if Self::INTEGERS == 1 { sums.negated } else { sums.halves[integer] };
        Self::SHIFT.map_or(0, |shift| negated << shift)
    }
}

/// One scale.
#[derive(Clone, Copy)]
pub(crate) struct Plain<const SHIFT: u32>;
/// A scale and a minimum.
#[derive(Clone, Copy)]
pub(crate) struct Minimum;
/// A scale and a zero point.
#[derive(Clone, Copy)]
pub(crate) struct Zero;
/// A scale and a minimum of 256 values, and integer factors of both for 32.
#[derive(Clone, Copy)]
pub(crate) struct Super;
/// A scale of 256 values and integer scales of 16.
#[derive(Clone, Copy)]
pub(crate) struct Sixteen<const SHIFT: u32>;

/// # Safety
/// 32 bytes can be read at `at`, which is even.
#[inline(always)]
pub(crate) unsafe fn halves<F: Outputs>(at: *const u8) -> F {
    // SAFETY: 16 halves can be read at `at`, which is aligned for them.
    F::load_f16(unsafe { &*at.cast() })
}

/// # Safety
/// 16 bytes can be read at `at`.
#[inline(always)]
unsafe fn bytes<'a>(at: *const u8) -> &'a [u8; WIDTH] {
    // SAFETY: 16 bytes can be read at `at`.
    unsafe { &*at.cast() }
}

/// `fma(integer, d scale, sum)`
#[inline(always)]
fn scaled<F: Outputs>(integer: F, d: F, scale: f32, sum: F) -> F {
    integer.mul_add(d.mul(F::splat(scale)), sum)
}

/// `-a b`
#[inline(always)]
fn negated<F: Outputs>(a: F, b: F) -> F {
    a.mul(b).mul(F::splat(-1.0))
}

impl<const SHIFT: u32> Scales for Plain<SHIFT> {
    const KIND: layout::Scales = layout::Scales::Plain;
    const SHIFT: Option<u32> = Some(SHIFT);
    const FACTORS: usize = 1;

    #[inline(always)]
    unsafe fn load<F: Outputs>(at: *const u8, b: usize) -> Factors<F> {
        // SAFETY: the group of block `b` can be read.
        [unsafe { halves(at.add(b * Self::KIND.bytes())) }; 3]
    }

    #[inline(always)]
    fn add<F: Outputs>([integer, _]: [F; 2], [d, ..]: Factors<F>, x: Scaled, sum: F) -> F {
        scaled(integer, d, x.scale, sum)
    }
}

impl Scales for Minimum {
    const KIND: layout::Scales = layout::Scales::Minimum;
    const FACTORS: usize = 2;

    #[inline(always)]
    unsafe fn load<F: Outputs>(at: *const u8, b: usize) -> Factors<F> {
        // SAFETY: the group of block `b` can be read.
        unsafe {
            let at = at.add(b * Self::KIND.bytes());
            let d = halves(at);
            [d, halves(at.add(32)), d]
        }
    }
}

impl Scales for Zero {
    const KIND: layout::Scales = layout::Scales::Zero;
    const FACTORS: usize = 2;

    #[inline(always)]
    unsafe fn load<F: Outputs>(at: *const u8, b: usize) -> Factors<F> {
        // SAFETY: the group of block `b` can be read.
        unsafe {
            let at = at.add(b * Self::KIND.bytes());
            let d = halves(at);
            [d, negated(d, F::unsigned(bytes(at.add(32)))), d]
        }
    }
}

impl Scales for Super {
    const KIND: layout::Scales = layout::Scales::Super;
    const FACTORS: usize = 2;

    #[inline(always)]
    unsafe fn load<F: Outputs>(at: *const u8, b: usize) -> Factors<F> {
        // SAFETY: the group of block `b` can be read.
        unsafe {
            let group = at.add(b / SUPER * Self::KIND.bytes());
            let part = group.add(64 + b % SUPER * 32);
            let d = halves::<F>(group).mul(F::unsigned(bytes(part)));
            [d, negated(halves(group.add(32)), F::unsigned(bytes(part.add(16)))), d]
        }
    }
}

impl<const SHIFT: u32> Scales for Sixteen<SHIFT> {
    const KIND: layout::Scales = layout::Scales::Sixteen;
    const SHIFT: Option<u32> = Some(SHIFT);
    const INTEGERS: usize = 2;
    const FACTORS: usize = 3;

    #[inline(always)]
    unsafe fn load<F: Outputs>(at: *const u8, b: usize) -> Factors<F> {
        // SAFETY: the group of block `b` can be read.
        unsafe {
            let group = at.add(b / SUPER * Self::KIND.bytes());
            let part = group.add(32 + b % SUPER * 32);
            [halves(group), F::signed(bytes(part)), F::signed(bytes(part.add(16)))]
        }
    }

    /// The products of halves with their integer scales, and the sum of both, are whole numbers of at most 24
    /// bits, which floats represent exactly. They start from zero, so that an empty product is not a negative
    /// zero.
    #[inline(always)]
    fn add<F: Outputs>([one, two]: [F; 2], [d, first, last]: Factors<F>, x: Scaled, sum: F) -> F {
        let integer = two.mul_add(last, one.mul_add(first, F::splat(0.0)));
        scaled(integer, d, x.scale, sum)
    }
}
