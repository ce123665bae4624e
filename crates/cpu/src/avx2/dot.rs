//! Products of unsigned codes and signed activations in 256 bits, with exact 32-bit sums.

use std::arch::asm;
use std::arch::x86_64::{
    __m256i, _mm256_add_epi16, _mm256_add_epi32, _mm256_dpbusd_avx_epi32, _mm256_loadu_si256,
    _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_setzero_si256,
};

use super::codes::{Codes, LINE};
use crate::layout::BLOCK;

/// Groups of four values in a block.
const N_GROUPS: usize = BLOCK / 4;

/// Integers of 16 outputs for each of some rows.
pub(super) type Integers<const R: usize> = [[__m256i; 2]; R];

/// The source of a block's lines.
pub(super) trait Lines: Copy {
    /// # Safety
    /// The machine has AVX2; the block has such a line.
    unsafe fn line(self, line: usize, half: usize) -> __m256i;
}

/// A block of a panel, unpacked line by line as it is used.
#[derive(Clone, Copy)]
pub(super) struct Packed<C>(pub *const u8, pub std::marker::PhantomData<C>);

/// A block that was unpacked into memory.
#[derive(Clone, Copy)]
pub(super) struct Unpacked(pub *const u8);

impl<C: Codes> Lines for Packed<C> {
    #[inline(always)]
    unsafe fn line(self, line: usize, half: usize) -> __m256i {
        // SAFETY: `self.0` points to a block of `C::BYTES` bytes inside the panel, which outlives the
        // product, and `line < C::LINES`.
        unsafe { C::line(self.0, line, half) }
    }
}

impl Lines for Unpacked {
    #[inline(always)]
    unsafe fn line(self, line: usize, half: usize) -> __m256i {
        // SAFETY: `self.0` points to at least `line + 1` lines of 64 bytes, of a panel or of `UnpackedLines`,
        // which outlive the product; the load needs no alignment.
        unsafe { _mm256_loadu_si256(self.0.add(LINE * line + LINE / 2 * half).cast()) }
    }
}

/// The way from 8-bit products to 32-bit sums.
pub(super) trait Arithmetic {
    /// For each row its start, plus the product of groups `first..first + N` with it, exactly.
    ///
    /// # Safety
    /// The machine has the instructions; the block's codes are `C`, and there are eight activations of four
    /// in each row.
    unsafe fn dot<C: Codes, L: Lines, const R: usize, const N: usize>(
        lines: L,
        x: [*const i32; R],
        first: usize,
        start: [i32; R],
    ) -> Integers<R>;
}

/// `vpmaddubsw` adds pairs of products in 16 bits, and would saturate beyond them: as many are added in 16
/// bits as fit.
pub(super) struct Pairs;

/// `vpdpbusd` of AVX-VNNI.
pub(super) struct Fours;

/// # Safety
/// The machine has AVX2; the row has group `j`.
#[inline(always)]
unsafe fn four(x: *const i32, j: usize) -> __m256i {
    // SAFETY: a row of a block has eight groups of four bytes and `j < 8`; the read needs no alignment.
    unsafe { _mm256_set1_epi32(x.add(j).read_unaligned()) }
}

/// The sum unchanged, with its origin hidden from the compiler, which would otherwise add products as a tree,
/// whose parts do not fit the registers.
///
/// # Safety
/// The machine has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn in_turn(mut sum: __m256i) -> __m256i {
    // SAFETY: no instruction.
    unsafe { asm!("/* {} */", inout(ymm_reg) sum, options(pure, nomem, nostack, preserves_flags)) };
    sum
}

impl Arithmetic for Pairs {
    #[inline(always)]
    unsafe fn dot<C: Codes, L: Lines, const R: usize, const N: usize>(
        lines: L,
        x: [*const i32; R],
        first: usize,
        start: [i32; R],
    ) -> Integers<R> {
        // SAFETY: `lines` has `C::LINES` lines and each row eight groups; `first + N <= 8`, so that all reads
        // are inside them.
        unsafe {
            let mut sums = [[_mm256_setzero_si256(); 2]; R];
            let mut j = first;
            while j < first + N {
                let n = C::IN_16_BITS.min(first + N - j);
                if C::LINES > 8 {
                    let [low, high] = pairs::<C, L, R, 2>(lines, x, j, n);
                    add_fours(low, 1, &mut sums);
                    add_fours(high, 16, &mut sums);
                } else {
                    let [all] = pairs::<C, L, R, 1>(lines, x, j, n);
                    add_fours(all, 1, &mut sums);
                }
                j += n;
            }
            // Last, so that no register holds a start while the products need them all.
            for r in 0..R {
                for half in 0..2 {
                    sums[r][half] = _mm256_add_epi32(sums[r][half], _mm256_set1_epi32(start[r]));
                }
            }
            sums
        }
    }
}

/// Adds 16-bit sums, by a weight, to those of 32 bits.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn add_fours<const R: usize>(pairs: Integers<R>, weight: i16, sums: &mut Integers<R>) {
    // SAFETY: no memory is accessed; the machine has AVX2, as this function requires.
    unsafe {
        for r in 0..R {
            for half in 0..2 {
                let fours = _mm256_madd_epi16(pairs[r][half], _mm256_set1_epi16(weight));
                sums[r][half] = _mm256_add_epi32(sums[r][half], fours);
            }
        }
    }
}

/// Products of `n` groups from `j` on, added in 16 bits: those of each eight lines apart.
///
/// # Safety
/// The machine has AVX2; they fit 16 bits together.
#[inline(always)]
unsafe fn pairs<C: Codes, L: Lines, const R: usize, const PLANES: usize>(
    lines: L,
    x: [*const i32; R],
    j: usize,
    n: usize,
) -> [Integers<R>; PLANES] {
    // SAFETY: `j + n <= 8`, so that lines `8 plane + j + i` are among the `C::LINES` and groups `j + i` in
    // each row.
    unsafe {
        let mut sums = [[[_mm256_setzero_si256(); 2]; R]; PLANES];
        for i in 0..n {
            for plane in 0..PLANES {
                for half in 0..2 {
                    let codes = lines.line(8 * plane + j + i, half);
                    for r in 0..R {
                        let product = _mm256_maddubs_epi16(codes, four(x[r], j + i));
                        let sum = &mut sums[plane][r][half];
                        *sum = match i {
                            0 => product,
                            // Few products fit 16 bits: without an order, parts of one sum would be in
                            // registers together with parts of the next.
                            _ if C::IN_16_BITS < N_GROUPS => in_turn(_mm256_add_epi16(*sum, product)),
                            _ => _mm256_add_epi16(*sum, product),
                        };
                    }
                }
            }
        }
        sums
    }
}

impl Arithmetic for Fours {
    #[inline(always)]
    unsafe fn dot<C: Codes, L: Lines, const R: usize, const N: usize>(
        lines: L,
        x: [*const i32; R],
        first: usize,
        start: [i32; R],
    ) -> Integers<R> {
        // SAFETY: `lines` has eight lines and each row eight groups; `first + N <= 8`, so that all reads are
        // inside them.
        unsafe {
            let mut sums = [[_mm256_setzero_si256(); 2]; R];
            for r in 0..R {
                sums[r] = [_mm256_set1_epi32(start[r]); 2];
            }
            for j in first..first + N {
                let codes = [lines.line(j, 0), lines.line(j, 1)];
                for r in 0..R {
                    let x = four(x[r], j);
                    for half in 0..2 {
                        sums[r][half] = _mm256_dpbusd_avx_epi32(sums[r][half], codes[half], x);
                    }
                }
            }
            sums
        }
    }
}
