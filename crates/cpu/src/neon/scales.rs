//! From codes and activations of one block to the sums of some rows: the integer products, then their scales,
//! in the order that `portable::int8` defines.

use std::arch::aarch64::{
    int32x4_t, vcvtq_f32_s32, vcvtq_f32_u32, vdupq_n_s32, vget_low_s8, vget_low_s16, vget_low_u8,
    vget_low_u16, vld1q_s8, vld1q_u8, vmlaq_s32, vmovl_high_s8, vmovl_high_s16, vmovl_high_u8,
    vmovl_high_u16, vmovl_s8, vmovl_s16, vmovl_u8, vmovl_u16, vmulq_s32, vnegq_f32,
};

use super::dot::{Arithmetic, Half, Integers, Lines, dot, each_quarter};
use crate::input::{Int8Tile, Sums};
use crate::lanes::{Lanes, Neon};
use crate::layout::{self, SUPER};

/// One kind of scales.
pub(super) trait Scales {
    /// The scales of one block, for all rows.
    type Block: Copy;

    /// # Safety
    /// Block `b` is in the scales that start at `at`.
    unsafe fn load(at: *const u8, b: usize) -> Self::Block;

    /// `sums` and the products of some rows with a block.
    ///
    /// # Safety
    /// The machine has the instructions of `A`; the lines are those of the block; `x` are blocks of a tile.
    unsafe fn add<A: Arithmetic, L: Lines, const R: usize>(
        lines: L,
        block: Self::Block,
        x: Rows<R>,
        sums: &mut [Neon; R],
    );
}

/// One block of some neighbouring rows of a tile.
#[derive(Clone, Copy)]
pub(super) struct Rows<const R: usize> {
    values: [*const i8; R],
    scales: [*const f32; R],
    sums: [*const Sums; R],
}

impl<const R: usize> Rows<R> {
    /// # Safety
    /// `at + R` blocks are in the tile.
    #[inline(always)]
    pub(super) unsafe fn new(tile: &Int8Tile, at: usize) -> Self {
        debug_assert!(at + R <= tile.values.len(), "blocks of the tile");
        // SAFETY: the three slices have the same length, and `at + R` is at most that; they are borrowed by
        // the tile.
        unsafe {
            Self {
                values: std::array::from_fn(|r| tile.values.as_ptr().add(at + r).cast()),
                scales: std::array::from_fn(|r| tile.scales.as_ptr().add(at + r)),
                sums: std::array::from_fn(|r| tile.sums.as_ptr().add(at + r)),
            }
        }
    }
}

/// # Safety
/// 32 bytes can be read.
#[inline(always)]
unsafe fn halves(at: *const u8) -> Neon {
    // SAFETY: 32 bytes can be read at `at`: 16 halves, whose alignment is that of `[f16; 16]`, since groups
    // begin at even addresses.
    Neon::load_f16(unsafe { &*at.cast() })
}

/// # Safety
/// 16 bytes can be read.
#[inline(always)]
unsafe fn unsigned(at: *const u8) -> Neon {
    // SAFETY: 16 bytes can be read at `at`; the load needs no alignment.
    unsafe {
        let bytes = vld1q_u8(at);
        let (low, high) = (vmovl_u8(vget_low_u8(bytes)), vmovl_high_u8(bytes));
        Neon([
            vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))),
            vcvtq_f32_u32(vmovl_high_u16(low)),
            vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))),
            vcvtq_f32_u32(vmovl_high_u16(high)),
        ])
    }
}

/// # Safety
/// 16 bytes can be read.
#[inline(always)]
unsafe fn signed(at: *const u8) -> [int32x4_t; 4] {
    // SAFETY: 16 bytes can be read at `at`; the load needs no alignment.
    unsafe {
        let bytes = vld1q_s8(at.cast());
        let (low, high) = (vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes));
        let (first, third) = (vmovl_s16(vget_low_s16(low)), vmovl_s16(vget_low_s16(high)));
        [first, vmovl_high_s16(low), third, vmovl_high_s16(high)]
    }
}

/// `fma(integer, d scale, sum)` for each row.
///
/// # Safety
/// The rows are of a tile.
#[inline(always)]
unsafe fn add_scaled<const R: usize>(integers: Integers<R>, d: Neon, x: Rows<R>, sums: &mut [Neon; R]) {
    for r in 0..R {
        // SAFETY: `x` points to a block of each of `R` rows of the tile (`Rows::new`), which is borrowed for
        // the whole call.
        unsafe {
            let integers = Neon(integers[r].map(|integers| vcvtq_f32_s32(integers)));
            sums[r] = integers.mul_add(d.mul(Neon::splat(*x.scales[r])), sums[r]);
        }
    }
}

/// One scale; codes are `OFFSET` above their value.
pub(super) struct Plain<const OFFSET: i32>;

impl<const OFFSET: i32> Scales for Plain<OFFSET> {
    type Block = Neon;

    #[inline(always)]
    unsafe fn load(at: *const u8, b: usize) -> Neon {
        // SAFETY: block `b` is in the scales, so that its group of `layout::Scales::Plain.bytes()` bytes is
        // readable.
        unsafe { halves(at.add(b * layout::Scales::Plain.bytes())) }
    }

    #[inline(always)]
    unsafe fn add<A: Arithmetic, L: Lines, const R: usize>(
        lines: L,
        d: Neon,
        x: Rows<R>,
        sums: &mut [Neon; R],
    ) {
        // SAFETY: `x` points to a block of each of `R` rows of the tile (`Rows::new`), which is borrowed for
        // the whole call; `lines` are those of the block.
        unsafe {
            let start = x.sums.map(|sums| (*sums).negated * OFFSET);
            add_scaled(dot::<A, L, R>(lines, x.values, Half::Both, start), d, x, sums);
        }
    }
}

/// A scale and a minimum.
#[derive(Clone, Copy)]
pub(super) struct Affine {
    d: Neon,
    minimum: Neon,
}

/// # Safety
/// The conditions of [`Scales::add`].
#[inline(always)]
unsafe fn add_affine<A: Arithmetic, L: Lines, const R: usize>(
    lines: L,
    block: Affine,
    x: Rows<R>,
    sums: &mut [Neon; R],
) {
    // SAFETY: `x` points to a block of each of `R` rows of the tile (`Rows::new`), which is borrowed for the
    // whole call; `lines` are those of the block.
    unsafe {
        add_scaled(dot::<A, L, R>(lines, x.values, Half::Both, [0; R]), block.d, x, sums);
        for r in 0..R {
            sums[r] = block.minimum.mul_add(Neon::splat((*x.sums[r]).scaled), sums[r]);
        }
    }
}

pub(super) struct Minimum;

impl Scales for Minimum {
    type Block = Affine;

    #[inline(always)]
    unsafe fn load(at: *const u8, b: usize) -> Affine {
        // SAFETY: block `b` is in the scales, so that its group of `layout::Scales::Minimum.bytes()` bytes is
        // readable.
        unsafe {
            let at = at.add(b * layout::Scales::Minimum.bytes());
            Affine { d: halves(at), minimum: halves(at.add(32)) }
        }
    }

    #[inline(always)]
    unsafe fn add<A: Arithmetic, L: Lines, const R: usize>(
        lines: L,
        block: Affine,
        x: Rows<R>,
        sums: &mut [Neon; R],
    ) {
        // SAFETY: as `add_affine`, whose conditions are those of this function.
        unsafe { add_affine::<A, L, R>(lines, block, x, sums) };
    }
}

/// A scale and a zero point.
pub(super) struct Zero;

impl Scales for Zero {
    type Block = Affine;

    #[inline(always)]
    unsafe fn load(at: *const u8, b: usize) -> Affine {
        // SAFETY: block `b` is in the scales, so that its group of `layout::Scales::Zero.bytes()` bytes is
        // readable.
        unsafe {
            let at = at.add(b * layout::Scales::Zero.bytes());
            let d = halves(at);
            let product = d.mul(unsigned(at.add(32)));
            Affine { d, minimum: Neon(product.0.map(|product| vnegq_f32(product))) }
        }
    }

    #[inline(always)]
    unsafe fn add<A: Arithmetic, L: Lines, const R: usize>(
        lines: L,
        block: Affine,
        x: Rows<R>,
        sums: &mut [Neon; R],
    ) {
        // SAFETY: as `add_affine`, whose conditions are those of this function.
        unsafe { add_affine::<A, L, R>(lines, block, x, sums) };
    }
}

pub(super) struct Super;

impl Scales for Super {
    type Block = Affine;

    #[inline(always)]
    unsafe fn load(at: *const u8, b: usize) -> Affine {
        // SAFETY: block `b` is in the scales, so that its group of `layout::Scales::Super.bytes()` bytes is
        // readable.
        unsafe {
            let group = at.add(b / SUPER * layout::Scales::Super.bytes());
            let part = group.add(64 + b % SUPER * 32);
            let minimum = halves(group.add(32)).mul(unsigned(part.add(16)));
            Affine {
                d: halves(group).mul(unsigned(part)),
                minimum: Neon(minimum.0.map(|minimum| vnegq_f32(minimum))),
            }
        }
    }

    #[inline(always)]
    unsafe fn add<A: Arithmetic, L: Lines, const R: usize>(
        lines: L,
        block: Affine,
        x: Rows<R>,
        sums: &mut [Neon; R],
    ) {
        // SAFETY: as `add_affine`, whose conditions are those of this function.
        unsafe { add_affine::<A, L, R>(lines, block, x, sums) };
    }
}

/// A scale of 256 values and integer scales of 16; codes are `OFFSET` above their value.
pub(super) struct Sixteen<const OFFSET: i32>;

#[derive(Clone, Copy)]
pub(super) struct Pair {
    d: Neon,
    first: [int32x4_t; 4],
    last: [int32x4_t; 4],
}

impl<const OFFSET: i32> Scales for Sixteen<OFFSET> {
    type Block = Pair;

    #[inline(always)]
    unsafe fn load(at: *const u8, b: usize) -> Pair {
        // SAFETY: block `b` is in the scales, so that its group of `layout::Scales::Sixteen.bytes()` bytes is
        // readable.
        unsafe {
            let group = at.add(b / SUPER * layout::Scales::Sixteen.bytes());
            let part = group.add(32 + b % SUPER * 32);
            Pair { d: halves(group), first: signed(part), last: signed(part.add(16)) }
        }
    }

    #[inline(always)]
    unsafe fn add<A: Arithmetic, L: Lines, const R: usize>(
        lines: L,
        block: Pair,
        x: Rows<R>,
        sums: &mut [Neon; R],
    ) {
        // SAFETY: `x` points to a block of each of `R` rows of the tile (`Rows::new`), which is borrowed for
        // the whole call; `lines` are those of the block.
        unsafe {
            let start = |half: usize| x.sums.map(|sums| (*sums).halves[half] * OFFSET);
            let first = dot::<A, L, R>(lines, x.values, Half::First, start(0));
            let last = dot::<A, L, R>(lines, x.values, Half::Last, start(1));
            let mut totals = [[vdupq_n_s32(0); 4]; R];
            for r in 0..R {
                each_quarter!(|quarter| {
                    let total = vmulq_s32(first[r][quarter], block.first[quarter]);
                    totals[r][quarter] = vmlaq_s32(total, last[r][quarter], block.last[quarter]);
                });
            }
            add_scaled(totals, block.d, x, sums);
        }
    }
}
