//! Products of signed codes and activations, with exact 32-bit sums.
//!
//! The instructions that not every processor has are written in assembly: the standard library's names for
//! them are not stable.

use std::arch::aarch64::{
    int8x16_t, int32x4_t, vdupq_n_s32, vget_low_s8, vld1q_dup_s32, vld1q_s8, vmull_high_s8, vmull_s8,
    vpadalq_s16, vpaddq_s16, vreinterpretq_s8_s32, vreinterpretq_s8_s64, vreinterpretq_s32_s8,
    vreinterpretq_s64_s8, vuzp1q_s32, vuzp2q_s32, vzip1q_s32, vzip1q_s64, vzip2q_s32, vzip2q_s64,
};
use std::arch::asm;
use std::marker::PhantomData;

use super::codes::{Codes, LINE};

/// Integers of 16 outputs for each of some rows.
pub(super) type Integers<const R: usize> = [[int32x4_t; 4]; R];

/// The source of a block's codes.
pub(super) trait Lines: Copy {
    /// Groups `2 pair` and `2 pair + 1` of four outputs, in the arithmetic's arrangement.
    ///
    /// # Safety
    /// `pair < 4`, `quarter < 4`, and the block can be read.
    unsafe fn two(self, pair: usize, quarter: usize) -> [int8x16_t; 2];
}

/// A block of a panel, unpacked group by group as it is used.
pub(super) struct Packed<A, C>(pub *const u8, pub PhantomData<(A, C)>);

impl<A, C> Clone for Packed<A, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A, C> Copy for Packed<A, C> {}

/// A block that was unpacked into memory: eight lines.
#[derive(Clone, Copy)]
pub(super) struct Unpacked(pub *const i8);

impl<A: Arithmetic, C: Codes> Lines for Packed<A, C> {
    #[inline(always)]
    unsafe fn two(self, pair: usize, quarter: usize) -> [int8x16_t; 2] {
        // SAFETY: `self.0` points to a block of `C::BYTES` bytes inside the panel, which outlives the
        // product; `pair < 4` and `quarter < 4`.
        unsafe { A::arrange([C::group(self.0, 2 * pair, quarter), C::group(self.0, 2 * pair + 1, quarter)]) }
    }
}

impl Lines for Unpacked {
    #[inline(always)]
    unsafe fn two(self, pair: usize, quarter: usize) -> [int8x16_t; 2] {
        // SAFETY: `self.0` points to eight lines of 64 bytes, which outlive the product; `pair < 4` and
        // `quarter < 4`.
        unsafe {
            let at = self.0.add(LINE * 2 * pair + LINE / 4 * quarter);
            [vld1q_s8(at), vld1q_s8(at.add(LINE))]
        }
    }
}

/// Repeats a statement for each quarter of 16 outputs. No loop: the compiler does not always unroll it.
macro_rules! each_quarter {
    (|$quarter:ident| $act:expr) => {{
        each_quarter!(@ 0, $quarter, $act);
        each_quarter!(@ 1, $quarter, $act);
        each_quarter!(@ 2, $quarter, $act);
        each_quarter!(@ 3, $quarter, $act);
    }};
    (@ $i:literal, $quarter:ident, $act:expr) => {{
        let $quarter: usize = $i;
        $act
    }};
}
pub(super) use each_quarter;

/// Some halves of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    First,
    Last,
    Both,
}

/// The way from 8-bit products to 32-bit sums.
pub(crate) trait Arithmetic {
    /// The arithmetic of a single row.
    type Single: Arithmetic;

    /// Two groups of four outputs in the order in which `add_half` takes their codes.
    ///
    /// # Safety
    /// The machine has NEON.
    #[inline(always)]
    unsafe fn arrange(groups: [int8x16_t; 2]) -> [int8x16_t; 2] {
        groups
    }

    /// Integers of all outputs, rearranged for adding.
    ///
    /// # Safety
    /// The machine has NEON.
    #[inline(always)]
    unsafe fn open<const R: usize>(sums: Integers<R>) -> Integers<R> {
        sums
    }

    /// Integers of all outputs, rearranged for reading.
    ///
    /// # Safety
    /// The machine has NEON.
    #[inline(always)]
    unsafe fn close<const R: usize>(sums: Integers<R>) -> Integers<R> {
        sums
    }

    /// Adds the products of a half of the block (0 or 1) with each row.
    ///
    /// # Safety
    /// The machine has the instructions; there are 32 activations in each row.
    unsafe fn add_half<L: Lines, const R: usize>(
        lines: L,
        x: [*const i8; R],
        half: usize,
        sums: &mut Integers<R>,
    );
}

/// For each row its start and the products with some halves of a block, exactly.
///
/// # Safety
/// The conditions of [`Arithmetic::add_half`].
#[inline(always)]
pub(super) unsafe fn dot<A: Arithmetic, L: Lines, const R: usize>(
    lines: L,
    x: [*const i8; R],
    halves: Half,
    start: [i32; R],
) -> Integers<R> {
    // SAFETY: the machine has the instructions of `A`; each row has 32 activations, so that both halves are
    // inside it.
    unsafe {
        let mut sums = A::open(start.map(|start| [vdupq_n_s32(start); 4]));
        if halves != Half::Last {
            A::add_half(lines, x, 0, &mut sums);
        }
        if halves != Half::First {
            A::add_half(lines, x, 1, &mut sums);
        }
        A::close(sums)
    }
}

/// `smull`, whose 16-bit products are added in pairs: those of a code of 8 bits and an activation are at most
/// 128 by 127, and two of them fit.
pub(crate) struct Pairs;

/// `sdot`.
pub(crate) struct Fours;

/// `smmla`: two outputs by two rows, eight values of each.
pub(crate) struct Matrices;

impl Pairs {
    /// `sum` and the products of four bytes in each lane.
    #[inline]
    #[target_feature(enable = "neon")]
    pub(crate) fn add(sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
        let (low, high) = (vmull_s8(vget_low_s8(a), vget_low_s8(b)), vmull_high_s8(a, b));
        vpadalq_s16(sum, vpaddq_s16(low, high))
    }
}

impl Arithmetic for Pairs {
    type Single = Self;

    #[inline(always)]
    unsafe fn add_half<L: Lines, const R: usize>(
        lines: L,
        x: [*const i8; R],
        half: usize,
        sums: &mut Integers<R>,
    ) {
        // SAFETY: each row has 32 activations: from `16 half` on four groups of four. Lines `2 half` and
        // `2 half + 1` are pairs below 4.
        unsafe {
            let group =
                |r: usize, i: usize| vreinterpretq_s8_s32(vld1q_dup_s32(x[r].add(16 * half + 4 * i).cast()));
            each_quarter!(|quarter| {
                let [one, two] = lines.two(2 * half, quarter);
                let [three, four] = lines.two(2 * half + 1, quarter);
                for r in 0..R {
                    let sum = Self::add(sums[r][quarter], one, group(r, 0));
                    let sum = Self::add(sum, two, group(r, 1));
                    let sum = Self::add(sum, three, group(r, 2));
                    sums[r][quarter] = Self::add(sum, four, group(r, 3));
                }
            });
        }
    }
}

/// `sum` and, in each lane, the products of its four codes with group `$group` of 16 activations.
macro_rules! sdot {
    ($sum:expr, $codes:expr, $x:expr, $group:literal) => {
        asm!(
            concat!("sdot {0:v}.4s, {1:v}.16b, {2:v}.4b[", $group, "]"),
            inlateout(vreg) $sum, in(vreg) $codes, in(vreg) $x,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
}

impl Fours {
    /// `sum` and the products of four bytes in each lane with the first four of `b`.
    ///
    /// # Safety
    /// The machine has `dotprod`.
    #[inline(always)]
    pub(crate) unsafe fn add(mut sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
        // SAFETY: no memory is accessed; the machine has `dotprod`, as this function requires.
        unsafe { sdot!(sum, a, b, 0) };
        sum
    }
}

impl Arithmetic for Fours {
    type Single = Self;

    #[inline(always)]
    unsafe fn add_half<L: Lines, const R: usize>(
        lines: L,
        x: [*const i8; R],
        half: usize,
        sums: &mut Integers<R>,
    ) {
        // SAFETY: each row has 32 activations, 16 of them from `16 half` on; `lines.two` is called with pairs
        // below 4.
        unsafe {
            let x = x.map(|x| vld1q_s8(x.add(16 * half)));
            each_quarter!(|quarter| {
                let [one, two] = lines.two(2 * half, quarter);
                let [three, four] = lines.two(2 * half + 1, quarter);
                for r in 0..R {
                    let mut sum = sums[r][quarter];
                    sdot!(sum, one, x[r], 0);
                    sdot!(sum, two, x[r], 1);
                    sdot!(sum, three, x[r], 2);
                    sdot!(sum, four, x[r], 3);
                    sums[r][quarter] = sum;
                }
            });
        }
    }
}

impl Matrices {
    /// `sum` and the products of the two rows of `a` with the two of `b`: `[a0 b0, a0 b1, a1 b0, a1 b1]`.
    ///
    /// # Safety
    /// The machine has `i8mm`.
    #[inline(always)]
    pub(crate) unsafe fn add(mut sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
        // SAFETY: no memory is accessed; the machine has `i8mm`, as this function requires.
        unsafe {
            asm!(
                "smmla {0:v}.4s, {1:v}.16b, {2:v}.16b",
                inlateout(vreg) sum, in(vreg) a, in(vreg) b,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        sum
    }
}

/// Rows go in twos. During the additions, the sums of two rows with the first two outputs of a quarter are in
/// the first row's register, and those with its last two outputs in the second's.
impl Arithmetic for Matrices {
    type Single = Fours;

    /// Both groups of two outputs, then those of the two others.
    #[inline(always)]
    unsafe fn arrange([one, two]: [int8x16_t; 2]) -> [int8x16_t; 2] {
        // SAFETY: no memory is accessed; the machine has NEON, as this function requires.
        unsafe {
            let (one, two) = (vreinterpretq_s32_s8(one), vreinterpretq_s32_s8(two));
            [vreinterpretq_s8_s32(vzip1q_s32(one, two)), vreinterpretq_s8_s32(vzip2q_s32(one, two))]
        }
    }

    #[inline(always)]
    unsafe fn open<const R: usize>(mut sums: Integers<R>) -> Integers<R> {
        const { assert!(R.is_multiple_of(2), "rows in twos") };
        for r in 0..R / 2 {
            let (one, two) = (sums[2 * r], sums[2 * r + 1]);
            // SAFETY: no memory is accessed; the machine has NEON, as this function requires.
            each_quarter!(|quarter| unsafe {
                sums[2 * r][quarter] = vzip1q_s32(one[quarter], two[quarter]);
                sums[2 * r + 1][quarter] = vzip2q_s32(one[quarter], two[quarter]);
            });
        }
        sums
    }

    #[inline(always)]
    unsafe fn close<const R: usize>(mut sums: Integers<R>) -> Integers<R> {
        for r in 0..R / 2 {
            let (low, high) = (sums[2 * r], sums[2 * r + 1]);
            // SAFETY: no memory is accessed; the machine has NEON, as this function requires.
            each_quarter!(|quarter| unsafe {
                sums[2 * r][quarter] = vuzp1q_s32(low[quarter], high[quarter]);
                sums[2 * r + 1][quarter] = vuzp2q_s32(low[quarter], high[quarter]);
            });
        }
        sums
    }

    #[inline(always)]
    unsafe fn add_half<L: Lines, const R: usize>(
        lines: L,
        x: [*const i8; R],
        half: usize,
        sums: &mut Integers<R>,
    ) {
        // SAFETY: each row has 32 activations, 16 of them from `16 half` on; `lines.two` is called with pairs
        // below 4.
        unsafe {
            let x = side_by_side(x.map(|x| vld1q_s8(x.add(16 * half))));
            each_quarter!(|quarter| {
                let [low, high] = lines.two(2 * half, quarter);
                let [last_low, last_high] = lines.two(2 * half + 1, quarter);
                for r in 0..R / 2 {
                    let (first, last) = (x[2 * r], x[2 * r + 1]);
                    let sum = Self::add(sums[2 * r][quarter], low, first);
                    sums[2 * r][quarter] = Self::add(sum, last_low, last);
                    let sum = Self::add(sums[2 * r + 1][quarter], high, first);
                    sums[2 * r + 1][quarter] = Self::add(sum, last_high, last);
                }
            });
        }
    }
}

/// Of each two rows the first eight bytes of both, then the last eight.
///
/// # Safety
/// The machine has NEON.
#[inline(always)]
unsafe fn side_by_side<const R: usize>(mut rows: [int8x16_t; R]) -> [int8x16_t; R] {
    for r in 0..R / 2 {
        // SAFETY: no memory is accessed; the machine has NEON, as this function requires.
        unsafe {
            let (one, two) = (vreinterpretq_s64_s8(rows[2 * r]), vreinterpretq_s64_s8(rows[2 * r + 1]));
            rows[2 * r] = vreinterpretq_s8_s64(vzip1q_s64(one, two));
            rows[2 * r + 1] = vreinterpretq_s8_s64(vzip2q_s64(one, two));
        }
    }
    rows
}
