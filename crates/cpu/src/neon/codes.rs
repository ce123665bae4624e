//! The codes of a block of 32 in registers of four outputs, each with four codes of them (see `layout` for
//! the lines), as signed bytes. It handles no scales.

use std::arch::aarch64::{
    int8x16_t, uint8x16_t, vandq_u8, vdupq_n_u8, veorq_u8, vld1q_s8, vld1q_u8, vorrq_u8, vqtbl1q_s8,
    vreinterpretq_s8_u8, vshlq_n_u8, vshrq_n_u8,
};

use tribunal_model::{
    cpu::layout,
    weights::ggml::{FP4, UNEVEN},
};

/// Bytes of the codes of four values of 16 outputs.
pub(super) const LINE: usize = 64;

/// One kind of codes.
pub(super) trait Codes: Copy {
    /// Bytes of a block in the panel.
    const BYTES: usize;

    /// Four outputs of group `j`: the first, second, third or last quarter.
    ///
    /// # Safety
    /// `at` can be read for `BYTES` bytes; `j < 8`; `quarter < 4`.
    unsafe fn group(at: *const u8, j: usize, quarter: usize) -> int8x16_t;
}

/// Whole bytes, less their offset of 128.
#[derive(Clone, Copy)]
pub(super) struct Eight;
#[derive(Clone, Copy)]
pub(super) struct Four;
#[derive(Clone, Copy)]
pub(super) struct Five;
#[derive(Clone, Copy)]
pub(super) struct Six;
/// Nibbles that stand for uneven values, looked up to these values.
#[derive(Clone, Copy)]
pub(super) struct Uneven<const TABLE: usize>;

/// # Safety
/// Line `i` from `at` can be read.
#[inline(always)]
unsafe fn load(at: *const u8, i: usize, quarter: usize) -> uint8x16_t {
    // SAFETY: the 16 bytes are inside line `i`, 64 readable bytes of the panel; the load needs no alignment.
    unsafe { vld1q_u8(at.add(LINE * i + LINE / 4 * quarter)) }
}

/// Nibbles of the first four lines: the low ones, then the high ones.
///
/// # Safety
/// As `load`.
#[inline(always)]
unsafe fn nibbles(at: *const u8, j: usize, quarter: usize) -> uint8x16_t {
    // SAFETY: line `j % 4` is readable, as for `load`.
    unsafe {
        let both = load(at, j % 4, quarter);
        if j < 4 { vandq_u8(both, vdupq_n_u8(15)) } else { vshrq_n_u8::<4>(both) }
    }
}

/// `low | (bits & mask)`
#[inline]
#[target_feature(enable = "neon")]
fn with_high(low: uint8x16_t, bits: uint8x16_t, mask: u8) -> int8x16_t {
    vreinterpretq_s8_u8(vorrq_u8(low, vandq_u8(bits, vdupq_n_u8(mask))))
}

impl Codes for Eight {
    const BYTES: usize = layout::Codes::Eight.bytes();

    #[inline(always)]
    unsafe fn group(at: *const u8, j: usize, quarter: usize) -> int8x16_t {
        // SAFETY: a block has eight lines of 64 bytes, `Self::BYTES` in all, and `j < 8`.
        unsafe { vreinterpretq_s8_u8(veorq_u8(load(at, j, quarter), vdupq_n_u8(128))) }
    }
}

impl Codes for Four {
    const BYTES: usize = layout::Codes::Four.bytes();

    #[inline(always)]
    unsafe fn group(at: *const u8, j: usize, quarter: usize) -> int8x16_t {
        // SAFETY: a block has four lines of 64 bytes, `Self::BYTES` in all.
        unsafe { vreinterpretq_s8_u8(nibbles(at, j, quarter)) }
    }
}

impl Codes for Five {
    const BYTES: usize = layout::Codes::Five.bytes();

    #[inline(always)]
    unsafe fn group(at: *const u8, j: usize, quarter: usize) -> int8x16_t {
        // SAFETY: a block has five lines of 64 bytes, `Self::BYTES` in all: four of nibbles and line 4.
        unsafe {
            let bits = load(at, 4, quarter);
            let bits = match j {
                0 => vshlq_n_u8::<4>(bits),
                1 => vshlq_n_u8::<3>(bits),
                2 => vshlq_n_u8::<2>(bits),
                3 => vshlq_n_u8::<1>(bits),
                4 => bits,
                5 => vshrq_n_u8::<1>(bits),
                6 => vshrq_n_u8::<2>(bits),
                _ => vshrq_n_u8::<3>(bits),
            };
            with_high(nibbles(at, j, quarter), bits, 1 << 4)
        }
    }
}

impl Codes for Six {
    const BYTES: usize = layout::Codes::Six.bytes();

    #[inline(always)]
    unsafe fn group(at: *const u8, j: usize, quarter: usize) -> int8x16_t {
        // SAFETY: a block has six lines of 64 bytes, `Self::BYTES` in all: four of nibbles and lines 4 and 5
        // (`j < 8`).
        unsafe {
            let bits = load(at, 4 + j / 4, quarter);
            let bits = match j % 4 {
                0 => vshlq_n_u8::<4>(bits),
                1 => vshlq_n_u8::<2>(bits),
                2 => bits,
                _ => vshrq_n_u8::<2>(bits),
            };
            with_high(nibbles(at, j, quarter), bits, 3 << 4)
        }
    }
}

/// The values of each table.
const TABLES: [[i8; 16]; 2] = [UNEVEN, FP4];

impl<const TABLE: usize> Codes for Uneven<TABLE> {
    const BYTES: usize = layout::Codes::Uneven.bytes();

    #[inline(always)]
    unsafe fn group(at: *const u8, j: usize, quarter: usize) -> int8x16_t {
        // SAFETY: a block has four lines of 64 bytes, `Self::BYTES` in all; the table has 16 values.
        unsafe { vqtbl1q_s8(vld1q_s8(TABLES[TABLE].as_ptr()), nibbles(at, j, quarter)) }
    }
}
