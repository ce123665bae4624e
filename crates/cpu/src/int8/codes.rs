//! The codes of a block of 32 in registers (see `layout` for the lines), written once for all instruction
//! sets. It handles no scales.

use super::LINE;
use crate::layout::{self, FP4_BYTES, IQ4_BYTES, IQ4_VALUES};

/// A register of codes: a line, or an equal part of one.
pub(crate) trait Register: Copy {
    /// Registers of a line.
    const PER_LINE: usize;
    /// True if products take signed codes: those of 8 bits are then their values, otherwise 128 above.
    const SIGNED: bool = false;

    /// # Safety
    /// A register can be read at `at`.
    unsafe fn load(at: *const u8) -> Self;
    /// # Safety
    /// A register can be written at `at`.
    unsafe fn store(self, at: *mut u8);
    /// Some bits of each byte.
    fn and(self, mask: u8) -> Self;
    fn or(self, other: Self) -> Self;
    /// Shifted left by `-6..=4` bits. Bits of the neighbouring bytes may come in.
    fn shift(self, left: i32) -> Self;
    /// The bytes of a table at indices below 16.
    fn look_up(self, table: &[u8; 16]) -> Self;
    /// Bytes from 128 above their value to their value, where codes are signed.
    #[must_use]
    #[inline(always)]
    fn signed(self) -> Self {
        self
    }
}

/// One kind of codes.
pub(crate) trait Codes: Copy {
    const KIND: layout::Codes;
    /// Bytes of a block in the panel.
    const BYTES: usize = Self::KIND.bytes();
    /// Bits of a code in a line.
    const BITS: u32;
    /// True if codes and their products take so many registers that fewer rows fit beside them.
    const IS_LARGE: bool = false;

    /// Register `part` of one of the eight lines of a block.
    ///
    /// # Safety
    /// `at` can be read for `BYTES` bytes; `line < GROUPS` and `part < V::PER_LINE`.
    unsafe fn line<V: Register>(at: *const u8, line: usize, part: usize) -> V;
}

/// Whole bytes.
#[derive(Clone, Copy)]
pub(crate) struct Eight;
#[derive(Clone, Copy)]
pub(crate) struct Four;
#[derive(Clone, Copy)]
pub(crate) struct Five;
#[derive(Clone, Copy)]
pub(crate) struct Six;
/// Nibbles that become the bytes of `IQ4`'s values.
#[derive(Clone, Copy)]
pub(crate) struct Uneven;
/// Nibbles that become 4-bit floats, doubled.
#[derive(Clone, Copy)]
pub(crate) struct Fp4;

/// # Safety
/// Line `i` from `at` can be read.
#[inline(always)]
unsafe fn load<V: Register>(at: *const u8, i: usize, part: usize) -> V {
    // SAFETY: the register is inside line `i`.
    unsafe { V::load(at.add(LINE * i + LINE / V::PER_LINE * part)) }
}

/// The low or the high nibbles of line `i`.
///
/// # Safety
/// Line `i` from `at` can be read.
#[inline(always)]
unsafe fn nibbles<V: Register>(at: *const u8, i: usize, part: usize, high: bool) -> V {
    // SAFETY: line `i` can be read.
    let both: V = unsafe { load(at, i, part) };
    if high { both.shift(-4).and(15) } else { both.and(15) }
}

impl Codes for Eight {
    const KIND: layout::Codes = layout::Codes::Eight;
    const BITS: u32 = 8;

    #[inline(always)]
    unsafe fn line<V: Register>(at: *const u8, line: usize, part: usize) -> V {
        // SAFETY: a block has eight lines.
        unsafe { load::<V>(at, line, part) }.signed()
    }
}

impl Codes for Four {
    const KIND: layout::Codes = layout::Codes::Four;
    const BITS: u32 = 4;

    #[inline(always)]
    unsafe fn line<V: Register>(at: *const u8, line: usize, part: usize) -> V {
        // SAFETY: a block has four lines.
        unsafe { nibbles(at, line % 4, part, line >= 4) }
    }
}

impl Codes for Five {
    const KIND: layout::Codes = layout::Codes::Five;
    const BITS: u32 = 5;

    #[inline(always)]
    unsafe fn line<V: Register>(at: *const u8, line: usize, part: usize) -> V {
        // SAFETY: a block has five lines: four of nibbles, and line 4.
        let (low, bits) = unsafe { (Four::line::<V>(at, line, part), load::<V>(at, 4, part)) };
        low.or(bits.shift(4 - line as i32).and(1 << 4))
    }
}

impl Codes for Six {
    const KIND: layout::Codes = layout::Codes::Six;
    const BITS: u32 = 6;
    const IS_LARGE: bool = true;

    #[inline(always)]
    unsafe fn line<V: Register>(at: *const u8, line: usize, part: usize) -> V {
        // SAFETY: a block has six lines: four of nibbles, and lines 4 and 5.
        let (low, bits) = unsafe { (Four::line::<V>(at, line, part), load::<V>(at, 4 + line / 4, part)) };
        low.or(bits.shift(4 - 2 * (line % 4) as i32).and(3 << 4))
    }
}

impl Codes for Fp4 {
    const KIND: layout::Codes = layout::Codes::Fp4;
    const BITS: u32 = 5;

    #[inline(always)]
    unsafe fn line<V: Register>(at: *const u8, line: usize, part: usize) -> V {
        // SAFETY: a block has four lines, which `Four` reads.
        unsafe { Four::line::<V>(at, line, part) }.look_up(&FP4_BYTES)
    }
}

impl Codes for Uneven {
    const KIND: layout::Codes = layout::Codes::Uneven;
    const BITS: u32 = 8;

    #[inline(always)]
    unsafe fn line<V: Register>(at: *const u8, line: usize, part: usize) -> V {
        let table = if V::SIGNED { &IQ4_VALUES } else { &IQ4_BYTES };
        // SAFETY: a block has four lines, which `Four` reads.
        unsafe { Four::line::<V>(at, line, part) }.look_up(table)
    }
}
