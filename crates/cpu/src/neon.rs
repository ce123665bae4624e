//! NEON: four registers of 128 bits hold a line of codes and the sums of 16 outputs.
//!
//! The instructions that not every processor has are written in assembly: the standard library's names for
//! them are not stable.
#![expect(clippy::needless_range_loop, reason = "a row and a quarter are places in several arrays at once")]

use std::arch::aarch64::{
    int8x16_t, int32x4_t, uint8x16_t, vandq_u8, vcvtq_f32_s32, vdupq_n_s32, vdupq_n_u8, veorq_u8,
    vget_low_s8, vget_low_s16, vget_low_u8, vget_low_u16, vld1q_dup_s32, vld1q_s8, vld1q_u8, vmovl_high_s8,
    vmovl_high_s16, vmovl_high_u8, vmovl_high_u16, vmovl_s8, vmovl_s16, vmovl_u8, vmovl_u16, vmull_high_s8,
    vmull_s8, vorrq_u8, vpadalq_s16, vpaddq_s16, vqtbl1q_u8, vreinterpretq_s8_s32, vreinterpretq_s8_s64,
    vreinterpretq_s8_u8, vreinterpretq_s32_u32, vreinterpretq_s64_s8, vreinterpretq_u8_u32,
    vreinterpretq_u32_u8, vshlq_n_u8, vshrq_n_u8, vst1q_u8, vuzp1q_s32, vuzp2q_s32, vzip1q_s32, vzip1q_s64,
    vzip1q_u32, vzip2q_s32, vzip2q_s64, vzip2q_u32,
};
use std::arch::asm;
use std::ops::Range;

use super::input::Int8Tile;
use super::int8::codes::{Codes, Register};
use super::int8::scales::Scales;
use super::int8::{self, Arithmetic, Buffer, Lines, Outputs, Unpacked, in_memory};
use super::lanes::{Neon, WIDTH};
use super::layout::Panel;
use super::portable::Lanes;

// SAFETY (every block below): NEON is everywhere.
impl Register for uint8x16_t {
    const PER_LINE: usize = 4;
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: 16 bytes can be read; the load needs no alignment.
        unsafe { vld1q_u8(at) }
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut u8) {
        // SAFETY: 16 bytes can be written; the store needs no alignment.
        unsafe { vst1q_u8(at, self) }
    }

    #[inline(always)]
    fn and(self, mask: u8) -> Self {
        // SAFETY: NEON is everywhere; no memory is accessed.
        unsafe { vandq_u8(self, vdupq_n_u8(mask)) }
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: NEON is everywhere; no memory is accessed.
        unsafe { vorrq_u8(self, other) }
    }

    #[inline(always)]
    fn shift(self, left: i32) -> Self {
        // SAFETY: NEON is everywhere; no memory is accessed.
        unsafe {
            match left {
                4 => vshlq_n_u8::<4>(self),
                3 => vshlq_n_u8::<3>(self),
                2 => vshlq_n_u8::<2>(self),
                1 => vshlq_n_u8::<1>(self),
                0 => self,
                -1 => vshrq_n_u8::<1>(self),
                -2 => vshrq_n_u8::<2>(self),
                -3 => vshrq_n_u8::<3>(self),
                _ => vshrq_n_u8::<4>(self),
            }
        }
    }

    #[inline(always)]
    fn look_up(self, table: &[u8; 16]) -> Self {
        // SAFETY: NEON is everywhere; the table has the 16 bytes that are loaded.
        unsafe { vqtbl1q_u8(vld1q_u8(table.as_ptr()), self) }
    }

    #[inline(always)]
    fn signed(self) -> Self {
        // SAFETY: NEON is everywhere; no memory is accessed.
        unsafe { veorq_u8(self, vdupq_n_u8(128)) }
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

impl Outputs for Neon {
    type Integers = [int32x4_t; 4];

    #[inline(always)]
    fn from_integers([a, b, c, d]: [int32x4_t; 4]) -> Self {
        // SAFETY: NEON is everywhere; no memory is accessed.
        Self(unsafe { [vcvtq_f32_s32(a), vcvtq_f32_s32(b), vcvtq_f32_s32(c), vcvtq_f32_s32(d)] })
    }

    #[inline(always)]
    fn unsigned(bytes: &[u8; WIDTH]) -> Self {
        // SAFETY: NEON is everywhere; 16 bytes are loaded.
        Self::from_integers(unsafe {
            let bytes = vld1q_u8(bytes.as_ptr());
            let (low, high) = (vmovl_u8(vget_low_u8(bytes)), vmovl_high_u8(bytes));
            let (first, third) = (vmovl_u16(vget_low_u16(low)), vmovl_u16(vget_low_u16(high)));
            [first, vmovl_high_u16(low), third, vmovl_high_u16(high)]
                .map(|words| vreinterpretq_s32_u32(words))
        })
    }

    #[inline(always)]
    fn signed(bytes: &[u8; WIDTH]) -> Self {
        // SAFETY: NEON is everywhere; 16 bytes are loaded.
        Self::from_integers(unsafe {
            let bytes = vld1q_s8(bytes.as_ptr().cast());
            let (low, high) = (vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes));
            let (first, third) = (vmovl_s16(vget_low_s16(low)), vmovl_s16(vget_low_s16(high)));
            [first, vmovl_high_s16(low), third, vmovl_high_s16(high)]
        })
    }
}

/// Integers of 16 outputs for each of some rows.
type Integers<const R: usize> = [[int32x4_t; 4]; R];

/// Products of one panel: all that an instruction set has of its own.
pub(super) trait Products: Copy {
    type Single: Products;

    /// A register of codes as `add_half` takes it.
    ///
    /// # Safety
    /// The conditions of [`Codes::line`].
    #[inline(always)]
    unsafe fn line<C: Codes>(at: *const u8, line: usize, quarter: usize) -> uint8x16_t {
        // SAFETY: the conditions are those of this function.
        unsafe { C::line(at, line, quarter) }
    }

    /// Integers of all outputs, rearranged for adding.
    #[inline(always)]
    fn open<const R: usize>(sums: Integers<R>) -> Integers<R> {
        sums
    }

    /// Integers of all outputs, rearranged for reading.
    #[inline(always)]
    fn close<const R: usize>(sums: Integers<R>) -> Integers<R> {
        sums
    }

    /// Adds the products of half a block (0 or 1) with each row.
    ///
    /// # Safety
    /// The machine has the instructions; there are 32 activations in each row.
    unsafe fn add_half<L: Lines<uint8x16_t>, const R: usize>(
        lines: L,
        x: [*const i8; R],
        half: usize,
        sums: &mut Integers<R>,
    );
}

impl<P: Products> Arithmetic for P {
    type Register = uint8x16_t;
    type Outputs = Neon;
    const ROWS: [usize; 2] = [4; 2];
    type Single = P::Single;
    type Opened = Unpacked;

    #[inline(always)]
    unsafe fn line<C: Codes>(at: *const u8, line: usize, quarter: usize) -> uint8x16_t {
        // SAFETY: the conditions are those of this function.
        unsafe { <P as Products>::line::<C>(at, line, quarter) }
    }

    #[inline(always)]
    unsafe fn open<C: Codes>(at: *const u8, buffer: &mut Buffer) -> Unpacked {
        // SAFETY: the conditions are those of this function.
        unsafe { in_memory::<Self, C>(at, buffer) }
    }

    #[inline(always)]
    unsafe fn dot<C: Codes, L: Lines<uint8x16_t>, const N: usize, const R: usize>(
        lines: &[L; N],
        x: [*const i32; R],
        groups: Range<usize>,
        start: [i32; R],
    ) -> [[[int32x4_t; 4]; N]; R] {
        let x = x.map(<*const i32>::cast);
        // SAFETY: the conditions are those of this function; each row has 32 activations, so that both halves
        // are inside it.
        unsafe {
            let mut totals = [[[vdupq_n_s32(0); 4]; N]; R];
            for p in 0..N {
                let mut sums = <P as Products>::open(start.map(|start| [vdupq_n_s32(start); 4]));
                if groups.start == 0 {
                    P::add_half(lines[p], x, 0, &mut sums);
                }
                if groups.end == int8::GROUPS {
                    P::add_half(lines[p], x, 1, &mut sums);
                }
                let sums = P::close(sums);
                for r in 0..R {
                    totals[r][p] = sums[r];
                }
            }
            totals
        }
    }
}

/// Four neighbouring lines, from line `4 half` on, as signed bytes.
///
/// # Safety
/// The block can be read.
#[inline(always)]
unsafe fn four<L: Lines<uint8x16_t>>(lines: L, half: usize, quarter: usize) -> [int8x16_t; 4] {
    let i = 4 * half;
    // SAFETY: a block has eight lines of four registers.
    unsafe {
        [
            vreinterpretq_s8_u8(lines.line(i, quarter)),
            vreinterpretq_s8_u8(lines.line(i + 1, quarter)),
            vreinterpretq_s8_u8(lines.line(i + 2, quarter)),
            vreinterpretq_s8_u8(lines.line(i + 3, quarter)),
        ]
    }
}

/// `smull`, whose 16-bit products are added in pairs: those of a code of 8 bits and an activation are at most
/// 128 by 127, and two of them fit.
#[derive(Clone, Copy)]
pub(super) struct Pairs;

/// `sdot`.
#[derive(Clone, Copy)]
pub(super) struct Fours;

/// `smmla`: two outputs by two rows, eight values of each.
#[derive(Clone, Copy)]
pub(super) struct Matrices;

impl Pairs {
    /// `sum` and the products of four bytes in each lane.
    #[inline]
    #[target_feature(enable = "neon")]
    pub(super) fn add(sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
        let (low, high) = (vmull_s8(vget_low_s8(a), vget_low_s8(b)), vmull_high_s8(a, b));
        vpadalq_s16(sum, vpaddq_s16(low, high))
    }
}

impl Products for Pairs {
    type Single = Self;

    #[inline(always)]
    unsafe fn add_half<L: Lines<uint8x16_t>, const R: usize>(
        lines: L,
        x: [*const i8; R],
        half: usize,
        sums: &mut Integers<R>,
    ) {
        // SAFETY: each row has 32 activations: from `16 half` on four groups of four.
        unsafe {
            let group =
                |r: usize, i: usize| vreinterpretq_s8_s32(vld1q_dup_s32(x[r].add(16 * half + 4 * i).cast()));
            each_quarter!(|quarter| {
                let [one, two, three, last] = four(lines, half, quarter);
                for r in 0..R {
                    let sum = Self::add(sums[r][quarter], one, group(r, 0));
                    let sum = Self::add(sum, two, group(r, 1));
                    let sum = Self::add(sum, three, group(r, 2));
                    sums[r][quarter] = Self::add(sum, last, group(r, 3));
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
    pub(super) unsafe fn add(mut sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
        // SAFETY: no memory is accessed; the machine has `dotprod`, as this function requires.
        unsafe { sdot!(sum, a, b, 0) };
        sum
    }
}

impl Products for Fours {
    type Single = Self;

    #[inline(always)]
    unsafe fn add_half<L: Lines<uint8x16_t>, const R: usize>(
        lines: L,
        x: [*const i8; R],
        half: usize,
        sums: &mut Integers<R>,
    ) {
        // SAFETY: each row has 32 activations, 16 of them from `16 half` on.
        unsafe {
            let x = x.map(|x| vld1q_s8(x.add(16 * half)));
            each_quarter!(|quarter| {
                let [one, two, three, last] = four(lines, half, quarter);
                for r in 0..R {
                    let mut sum = sums[r][quarter];
                    sdot!(sum, one, x[r], 0);
                    sdot!(sum, two, x[r], 1);
                    sdot!(sum, three, x[r], 2);
                    sdot!(sum, last, x[r], 3);
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
    pub(super) unsafe fn add(mut sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
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
impl Products for Matrices {
    type Single = Fours;

    /// Of each two lines, both groups of the first two outputs, then those of the two others.
    #[inline(always)]
    unsafe fn line<C: Codes>(at: *const u8, line: usize, quarter: usize) -> uint8x16_t {
        // SAFETY: a block has an even number of lines; the conditions are those of this function.
        unsafe {
            let one = vreinterpretq_u32_u8(C::line(at, line & !1, quarter));
            let two = vreinterpretq_u32_u8(C::line(at, line | 1, quarter));
            vreinterpretq_u8_u32(if line.is_multiple_of(2) {
                vzip1q_u32(one, two)
            } else {
                vzip2q_u32(one, two)
            })
        }
    }

    #[inline(always)]
    fn open<const R: usize>(mut sums: Integers<R>) -> Integers<R> {
        debug_assert!(R.is_multiple_of(2), "rows in twos");
        for r in 0..R / 2 {
            let (one, two) = (sums[2 * r], sums[2 * r + 1]);
            // SAFETY: NEON is everywhere; no memory is accessed.
            each_quarter!(|quarter| unsafe {
                sums[2 * r][quarter] = vzip1q_s32(one[quarter], two[quarter]);
                sums[2 * r + 1][quarter] = vzip2q_s32(one[quarter], two[quarter]);
            });
        }
        sums
    }

    #[inline(always)]
    fn close<const R: usize>(mut sums: Integers<R>) -> Integers<R> {
        for r in 0..R / 2 {
            let (low, high) = (sums[2 * r], sums[2 * r + 1]);
            // SAFETY: NEON is everywhere; no memory is accessed.
            each_quarter!(|quarter| unsafe {
                sums[2 * r][quarter] = vuzp1q_s32(low[quarter], high[quarter]);
                sums[2 * r + 1][quarter] = vuzp2q_s32(low[quarter], high[quarter]);
            });
        }
        sums
    }

    #[inline(always)]
    unsafe fn add_half<L: Lines<uint8x16_t>, const R: usize>(
        lines: L,
        x: [*const i8; R],
        half: usize,
        sums: &mut Integers<R>,
    ) {
        // SAFETY: each row has 32 activations, 16 of them from `16 half` on.
        unsafe {
            let x = side_by_side(x.map(|x| vld1q_s8(x.add(16 * half))));
            each_quarter!(|quarter| {
                let [low, high, last_low, last_high] = four(lines, half, quarter);
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
#[inline(always)]
fn side_by_side<const R: usize>(mut rows: [int8x16_t; R]) -> [int8x16_t; R] {
    for r in 0..R / 2 {
        // SAFETY: NEON is everywhere; no memory is accessed.
        unsafe {
            let (one, two) = (vreinterpretq_s64_s8(rows[2 * r]), vreinterpretq_s64_s8(rows[2 * r + 1]));
            rows[2 * r] = vreinterpretq_s8_s64(vzip1q_s64(one, two));
            rows[2 * r + 1] = vreinterpretq_s8_s64(vzip2q_s64(one, two));
        }
    }
    rows
}

/// The kernel of a format for one kind of products.
macro_rules! kernel {
    ($name:ident, $products:ty, $features:literal) => {
        /// Quantised weights by 8-bit activations.
        ///
        /// # Safety
        /// The machine has the instructions that the attribute enables; the panels' format has codes `C` and
        /// scales `S`.
        #[inline(never)]
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $name<C: Codes, S: Scales>(
            panels: &[Panel],
            tile: &Int8Tile,
            sums: &mut [Lanes],
        ) {
            // SAFETY: the conditions are those of this function.
            unsafe { int8::product::<$products, C, S>(panels, tile, sums) }
        }
    };
}

kernel!(int8, Pairs, "neon");
kernel!(int8_dotprod, Fours, "dotprod");
kernel!(int8_i8mm, Matrices, "dotprod,i8mm");
