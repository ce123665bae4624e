//! The codes of a block of 32 for 16 outputs, as eight registers (see `layout` for the lines). It handles no
//! scales.

use std::arch::x86_64::{
    __m512i, _mm_loadu_si128, _mm512_and_si512, _mm512_broadcast_i32x4, _mm512_loadu_si512, _mm512_set1_epi8,
    _mm512_shuffle_epi8, _mm512_slli_epi32, _mm512_srli_epi32, _mm512_ternarylogic_epi32,
};

use crate::layout;

/// One kind of codes.
pub(crate) trait Codes {
    /// Bytes of a block.
    const BYTES: usize;

    /// Group `j` in register `j`: four codes of each of the 16 outputs.
    ///
    /// # Safety
    /// The machine has AVX-512 F and BW; `at` can be read for `BYTES` bytes.
    unsafe fn unpack(at: *const u8) -> [__m512i; 8];
}

pub(crate) struct Eight;
pub(crate) struct Four;
pub(crate) struct Five;
pub(crate) struct Six;
/// Nibbles that become bytes.
pub(crate) struct Uneven<const TABLE: usize>;

/// # Safety
/// Line `i` from `at` can be read.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn line(at: *const u8, i: usize) -> __m512i {
    // SAFETY: line `i`, 64 bytes, can be read at `at`; the load needs no alignment.
    unsafe { _mm512_loadu_si512(at.add(64 * i).cast()) }
}

/// `low | (bits & mask)` in one instruction.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn with_high(low: __m512i, bits: __m512i, mask: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0b1111_1000>(low, bits, mask)
}

impl Codes for Eight {
    const BYTES: usize = layout::Codes::Eight.bytes();

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn unpack(at: *const u8) -> [__m512i; 8] {
        // SAFETY: a block has eight lines of 64 bytes, `Self::BYTES` in all.
        unsafe {
            let line = |i| line(at, i);
            [line(0), line(1), line(2), line(3), line(4), line(5), line(6), line(7)]
        }
    }
}

impl Codes for Four {
    const BYTES: usize = layout::Codes::Four.bytes();

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn unpack(at: *const u8) -> [__m512i; 8] {
        let mask = _mm512_set1_epi8(15);
        let mut groups = [mask; 8];
        for j in 0..4 {
            // SAFETY: a block has four lines of 64 bytes, `Self::BYTES` in all, and `j < 4`.
            let both = unsafe { line(at, j) };
            groups[j] = _mm512_and_si512(both, mask);
            groups[j + 4] = _mm512_and_si512(_mm512_srli_epi32::<4>(both), mask);
        }
        groups
    }
}

impl Codes for Five {
    const BYTES: usize = layout::Codes::Five.bytes();

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn unpack(at: *const u8) -> [__m512i; 8] {
        // SAFETY: a block has five lines of 64 bytes, `Self::BYTES` in all: four of nibbles and line 4.
        let (low, bits) = unsafe { (Four::unpack(at), line(at, 4)) };
        let mask = _mm512_set1_epi8(1 << 4);
        [
            with_high(low[0], _mm512_slli_epi32::<4>(bits), mask),
            with_high(low[1], _mm512_slli_epi32::<3>(bits), mask),
            with_high(low[2], _mm512_slli_epi32::<2>(bits), mask),
            with_high(low[3], _mm512_slli_epi32::<1>(bits), mask),
            with_high(low[4], bits, mask),
            with_high(low[5], _mm512_srli_epi32::<1>(bits), mask),
            with_high(low[6], _mm512_srli_epi32::<2>(bits), mask),
            with_high(low[7], _mm512_srli_epi32::<3>(bits), mask),
        ]
    }
}

impl Codes for Six {
    const BYTES: usize = layout::Codes::Six.bytes();

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn unpack(at: *const u8) -> [__m512i; 8] {
        // SAFETY: a block has six lines of 64 bytes, `Self::BYTES` in all: four of nibbles and lines 4 and 5.
        let (low, first, last) = unsafe { (Four::unpack(at), line(at, 4), line(at, 5)) };
        let mask = _mm512_set1_epi8(3 << 4);
        [
            with_high(low[0], _mm512_slli_epi32::<4>(first), mask),
            with_high(low[1], _mm512_slli_epi32::<2>(first), mask),
            with_high(low[2], first, mask),
            with_high(low[3], _mm512_srli_epi32::<2>(first), mask),
            with_high(low[4], _mm512_slli_epi32::<4>(last), mask),
            with_high(low[5], _mm512_slli_epi32::<2>(last), mask),
            with_high(low[6], last, mask),
            with_high(low[7], _mm512_srli_epi32::<2>(last), mask),
        ]
    }
}

impl<const TABLE: usize> Codes for Uneven<TABLE> {
    const BYTES: usize = layout::Codes::Uneven.bytes();

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn unpack(at: *const u8) -> [__m512i; 8] {
        // SAFETY: a block has four lines of 64 bytes, `Self::BYTES` in all, which `Four` reads; the table has
        // 16 bytes, and its load needs no alignment.
        unsafe {
            let bytes = _mm512_broadcast_i32x4(_mm_loadu_si128(layout::UNEVEN_BYTES[TABLE].as_ptr().cast()));
            let mut groups = Four::unpack(at);
            for group in &mut groups {
                *group = _mm512_shuffle_epi8(bytes, *group);
            }
            groups
        }
    }
}
