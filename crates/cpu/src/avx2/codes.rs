//! The codes of a block of 32 in registers of eight outputs, each with four codes of them (see `layout` for
//! the lines). It handles no scales.

use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_loadu_si256,
    _mm256_or_si256, _mm256_set1_epi8, _mm256_shuffle_epi8, _mm256_slli_epi32, _mm256_srli_epi32,
};

use crate::layout;

/// Bytes of the codes of four values of 16 outputs.
pub(super) const LINE: usize = 64;

/// One kind of codes.
pub(super) trait Codes: Copy {
    /// Bytes of a block in the panel.
    const BYTES: usize;
    /// Lines that a block is unpacked to.
    const LINES: usize = 8;
    /// Rows whose sums stay in registers together.
    const ROWS: usize = 4;
    /// Number of products of two pairs of codes and activations, each up to twice the largest code by 127,
    /// whose sum fits 16 bits.
    const IN_16_BITS: usize;

    /// Eight outputs (the first or the second half) of a line.
    ///
    /// # Safety
    /// The machine has AVX2; `at` can be read for `BYTES` bytes; `line < LINES`.
    unsafe fn line(at: *const u8, line: usize, half: usize) -> __m256i;
}

/// Whole bytes.
#[derive(Clone, Copy)]
pub(super) struct Eight;
/// Bytes as two nibbles: the low ones in the first eight lines, the high ones in the others.
#[derive(Clone, Copy)]
pub(super) struct Split;
#[derive(Clone, Copy)]
pub(super) struct Four;
#[derive(Clone, Copy)]
pub(super) struct Five;
#[derive(Clone, Copy)]
pub(super) struct Six;
/// Nibbles that become bytes.
#[derive(Clone, Copy)]
pub(super) struct Uneven<const TABLE: usize>;
/// Nibbles that become these bytes, read as two nibbles each: in lines as those of [`Split`].
#[derive(Clone, Copy)]
pub(super) struct UnevenSplit<const TABLE: usize>;

/// # Safety
/// The machine has AVX2; line `i` from `at` can be read.
#[inline(always)]
unsafe fn load(at: *const u8, i: usize, half: usize) -> __m256i {
    // SAFETY: the 32 bytes are inside line `i`, 64 readable bytes of the panel; the load needs no alignment.
    unsafe { _mm256_loadu_si256(at.add(LINE * i + LINE / 2 * half).cast()) }
}

/// The low nibbles, or the high ones.
///
/// # Safety
/// As `load`.
#[inline(always)]
unsafe fn nibbles(at: *const u8, i: usize, half: usize, high: bool) -> __m256i {
    // SAFETY: line `i` is readable, as for `load`.
    unsafe {
        let both = load(at, i, half);
        _mm256_and_si256(if high { _mm256_srli_epi32::<4>(both) } else { both }, _mm256_set1_epi8(15))
    }
}

impl Codes for Eight {
    const BYTES: usize = layout::Codes::Eight.bytes();
    const IN_16_BITS: usize = 0;

    #[inline(always)]
    unsafe fn line(at: *const u8, line: usize, half: usize) -> __m256i {
        // SAFETY: a block has eight lines of 64 bytes, `Self::BYTES` in all, and `line < 8`.
        unsafe { load(at, line, half) }
    }
}

impl Codes for Split {
    const BYTES: usize = layout::Codes::Eight.bytes();
    const LINES: usize = 16;
    const ROWS: usize = 2;
    const IN_16_BITS: usize = 8;

    #[inline(always)]
    unsafe fn line(at: *const u8, line: usize, half: usize) -> __m256i {
        // SAFETY: a block has eight lines of 64 bytes, `Self::BYTES` in all, and `line % 8 < 8`.
        unsafe { nibbles(at, line % 8, half, line >= 8) }
    }
}

impl Codes for Four {
    const BYTES: usize = layout::Codes::Four.bytes();
    const IN_16_BITS: usize = 8;

    #[inline(always)]
    unsafe fn line(at: *const u8, line: usize, half: usize) -> __m256i {
        // SAFETY: a block has four lines of 64 bytes, `Self::BYTES` in all, and `line % 4 < 4`.
        unsafe { nibbles(at, line % 4, half, line >= 4) }
    }
}

impl Codes for Five {
    const BYTES: usize = layout::Codes::Five.bytes();
    const IN_16_BITS: usize = 4;

    #[inline(always)]
    unsafe fn line(at: *const u8, line: usize, half: usize) -> __m256i {
        // SAFETY: a block has five lines of 64 bytes, `Self::BYTES` in all: four of nibbles, which `Four`
        // reads, and line 4.
        unsafe {
            let bits = load(at, 4, half);
            let bits = match line {
                0 => _mm256_slli_epi32::<4>(bits),
                1 => _mm256_slli_epi32::<3>(bits),
                2 => _mm256_slli_epi32::<2>(bits),
                3 => _mm256_slli_epi32::<1>(bits),
                4 => bits,
                5 => _mm256_srli_epi32::<1>(bits),
                6 => _mm256_srli_epi32::<2>(bits),
                _ => _mm256_srli_epi32::<3>(bits),
            };
            let bits = _mm256_and_si256(bits, _mm256_set1_epi8(1 << 4));
            _mm256_or_si256(Four::line(at, line, half), bits)
        }
    }
}

impl Codes for Six {
    const BYTES: usize = layout::Codes::Six.bytes();
    const ROWS: usize = 2;
    const IN_16_BITS: usize = 2;

    #[inline(always)]
    unsafe fn line(at: *const u8, line: usize, half: usize) -> __m256i {
        // SAFETY: a block has six lines of 64 bytes, `Self::BYTES` in all: four of nibbles, which `Four`
        // reads, and lines 4 and 5 (`line < 8`).
        unsafe {
            let bits = load(at, 4 + line / 4, half);
            let bits = match line % 4 {
                0 => _mm256_slli_epi32::<4>(bits),
                1 => _mm256_slli_epi32::<2>(bits),
                2 => bits,
                _ => _mm256_srli_epi32::<2>(bits),
            };
            let bits = _mm256_and_si256(bits, _mm256_set1_epi8(3 << 4));
            _mm256_or_si256(Four::line(at, line, half), bits)
        }
    }
}

/// Bytes of a table by those of `codes`, which are below 16.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn looked_up(table: &[u8; 16], codes: __m256i) -> __m256i {
    // SAFETY: the table has the 16 bytes that are loaded; the load needs no alignment.
    unsafe { _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())), codes) }
}

/// The low nibbles of bytes, or the high ones.
const fn nibbles_of(bytes: [u8; 16], high: bool) -> [u8; 16] {
    let mut nibbles = [0; 16];
    let mut i = 0;
    while i < 16 {
        nibbles[i] = if high { bytes[i] >> 4 } else { bytes[i] & 15 };
        i += 1;
    }
    nibbles
}

impl<const TABLE: usize> Codes for Uneven<TABLE> {
    const BYTES: usize = layout::Codes::Uneven.bytes();
    const IN_16_BITS: usize = 0;

    #[inline(always)]
    unsafe fn line(at: *const u8, line: usize, half: usize) -> __m256i {
        // SAFETY: a block has four lines of 64 bytes, `Self::BYTES` in all, which `Four` reads.
        unsafe { looked_up(&layout::UNEVEN_BYTES[TABLE], Four::line(at, line, half)) }
    }
}

/// The low and the high nibbles of the bytes of each table.
const HALVES: [[[u8; 16]; 2]; 2] = {
    let [iq4, float4] = layout::UNEVEN_BYTES;
    [[nibbles_of(iq4, false), nibbles_of(iq4, true)], [nibbles_of(float4, false), nibbles_of(float4, true)]]
};

impl<const TABLE: usize> Codes for UnevenSplit<TABLE> {
    const BYTES: usize = layout::Codes::Uneven.bytes();
    const LINES: usize = 16;
    const ROWS: usize = 2;
    const IN_16_BITS: usize = 8;

    #[inline(always)]
    unsafe fn line(at: *const u8, line: usize, half: usize) -> __m256i {
        // SAFETY: a block has four lines of 64 bytes, `Self::BYTES` in all, which `Four` reads;
        // `line % 8 < 8`.
        unsafe { looked_up(&HALVES[TABLE][line / 8], Four::line(at, line % 8, half)) }
    }
}
