//! AVX2 and AVX-VNNI: two registers of 256 bits hold a line of codes and the sums of 16 outputs.
#![expect(clippy::needless_range_loop, reason = "a row and a half are places in several arrays at once")]

use std::arch::asm;
use std::arch::x86_64::{
    __m256i, _mm_cvtsi32_si128, _mm_loadl_epi64, _mm_loadu_si128, _mm256_abs_epi8, _mm256_add_epi16,
    _mm256_add_epi32, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_cvtepi8_epi32,
    _mm256_cvtepi32_ps, _mm256_cvtepu8_epi32, _mm256_dpbusd_avx_epi32, _mm256_loadu_si256, _mm256_madd_epi16,
    _mm256_maddubs_epi16, _mm256_or_si256, _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_epi32,
    _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_sign_epi8, _mm256_sll_epi32, _mm256_srl_epi32,
    _mm256_storeu_si256, _mm256_xor_si256,
};
use std::ops::Range;

use super::input::Int8Tile;
use super::int8::codes::{Codes, Register};
use super::int8::scales::Scales;
use super::int8::{self, Arithmetic, Buffer, GROUPS, Lines, Outputs, Unpacked, in_memory};
use super::lanes::{Avx2, WIDTH};
use super::layout::Panel;
use super::portable::Lanes;

// Registers exist only where AVX2, FMA and F16C are enabled.
impl Register for __m256i {
    const PER_LINE: usize = 2;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: 32 bytes can be read; the load needs no alignment.
        unsafe { _mm256_loadu_si256(at.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut u8) {
        // SAFETY: 32 bytes can be written; the store needs no alignment.
        unsafe { _mm256_storeu_si256(at.cast(), self) }
    }

    #[inline(always)]
    fn and(self, mask: u8) -> Self {
        // SAFETY: the instructions are enabled; no memory is accessed.
        unsafe { _mm256_and_si256(self, _mm256_set1_epi8(mask.cast_signed())) }
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: the instructions are enabled; no memory is accessed.
        unsafe { _mm256_or_si256(self, other) }
    }

    #[inline(always)]
    fn shift(self, left: i32) -> Self {
        // SAFETY: the instructions are enabled; no memory is accessed.
        unsafe {
            let by = _mm_cvtsi32_si128(left.abs());
            if left < 0 { _mm256_srl_epi32(self, by) } else { _mm256_sll_epi32(self, by) }
        }
    }

    #[inline(always)]
    fn look_up(self, table: &[u8; 16]) -> Self {
        // SAFETY: the instructions are enabled; the table has the 16 bytes that are loaded.
        unsafe {
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
            _mm256_shuffle_epi8(table, self)
        }
    }
}

impl Outputs for Avx2 {
    type Integers = [__m256i; 2];

    #[inline(always)]
    fn from_integers([low, high]: [__m256i; 2]) -> Self {
        // SAFETY: the instructions are enabled; no memory is accessed.
        Self(unsafe { [_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)] })
    }

    #[inline(always)]
    fn unsigned(bytes: &[u8; WIDTH]) -> Self {
        // SAFETY: the instructions are enabled; two times 8 of 16 bytes are loaded.
        Self::from_integers(unsafe {
            let at = bytes.as_ptr();
            [
                _mm256_cvtepu8_epi32(_mm_loadl_epi64(at.cast())),
                _mm256_cvtepu8_epi32(_mm_loadl_epi64(at.add(8).cast())),
            ]
        })
    }

    #[inline(always)]
    fn signed(bytes: &[u8; WIDTH]) -> Self {
        // SAFETY: the instructions are enabled; two times 8 of 16 bytes are loaded.
        Self::from_integers(unsafe {
            let at = bytes.as_ptr();
            [
                _mm256_cvtepi8_epi32(_mm_loadl_epi64(at.cast())),
                _mm256_cvtepi8_epi32(_mm_loadl_epi64(at.add(8).cast())),
            ]
        })
    }
}

/// Integers of 16 outputs for each of some rows.
type Integers<const R: usize> = [[__m256i; 2]; R];

/// `vpmaddubsw` adds pairs of products in 16 bits, and would saturate beyond them: as many are added in 16
/// bits as fit.
#[derive(Clone, Copy)]
struct Pairs;

/// `vpdpbusd` of AVX-VNNI.
#[derive(Clone, Copy)]
struct Fours;

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
    type Register = __m256i;
    type Outputs = Avx2;
    const TAKES_VALUES: bool = true;
    const ROWS: [usize; 2] = [4, 2];
    type Single = Self;
    type Opened = Unpacked;

    #[inline(always)]
    unsafe fn open<C: Codes>(at: *const u8, buffer: &mut Buffer) -> Unpacked {
        // SAFETY: the conditions are those of this function.
        unsafe { in_memory::<Self, C>(at, buffer) }
    }

    #[inline(always)]
    unsafe fn dot<C: Codes, L: Lines<__m256i>, const N: usize, const R: usize>(
        lines: &[L; N],
        x: [*const i32; R],
        groups: Range<usize>,
        start: [i32; R],
    ) -> [[[__m256i; 2]; N]; R] {
        // SAFETY: the conditions are those of this function; all groups are inside each row.
        unsafe {
            let mut totals = [[[_mm256_setzero_si256(); 2]; N]; R];
            for p in 0..N {
                let mut sums = [[_mm256_setzero_si256(); 2]; R];
                // No loop: the compiler does not always unroll it.
                turn::<C, L, R>(lines[p], x, &groups, 0, &mut sums);
                turn::<C, L, R>(lines[p], x, &groups, 1, &mut sums);
                turn::<C, L, R>(lines[p], x, &groups, 2, &mut sums);
                turn::<C, L, R>(lines[p], x, &groups, 3, &mut sums);
                turn::<C, L, R>(lines[p], x, &groups, 4, &mut sums);
                turn::<C, L, R>(lines[p], x, &groups, 5, &mut sums);
                turn::<C, L, R>(lines[p], x, &groups, 6, &mut sums);
                turn::<C, L, R>(lines[p], x, &groups, 7, &mut sums);
                // Last, so that no register holds a start while the products need them all.
                for r in 0..R {
                    for half in 0..2 {
                        totals[r][p][half] = _mm256_add_epi32(sums[r][half], _mm256_set1_epi32(start[r]));
                    }
                }
            }
            totals
        }
    }
}

/// Number of products of two pairs of codes and activations, each up to twice the largest magnitude of a code
/// by 127, whose sum fits 16 bits.
const fn in_16_bits<C: Codes>() -> usize {
    let magnitude = if C::BITS == 8 { 128 } else { (1 << C::BITS) - 1 };
    let n = i16::MAX as usize / (2 * magnitude * 127);
    if n < GROUPS { n } else { GROUPS }
}

/// Adds the products of as many groups from `j` on as fit 16 bits together, if a turn begins there.
///
/// # Safety
/// The conditions of [`Arithmetic::dot`].
#[inline(always)]
unsafe fn turn<C: Codes, L: Lines<__m256i>, const R: usize>(
    lines: L,
    x: [*const i32; R],
    groups: &Range<usize>,
    j: usize,
    sums: &mut Integers<R>,
) {
    let n = in_16_bits::<C>().min(groups.len());
    if !groups.contains(&j) || !j.is_multiple_of(n) {
        return;
    }
    // SAFETY: the conditions are those of this function; a turn ends with the groups.
    unsafe {
        if C::BITS == 8 {
            return of_bytes(lines, x, j, sums);
        }
        let pairs = pairs::<C, L, R>(lines, x, j, n);
        for r in 0..R {
            for half in 0..2 {
                sums[r][half] = _mm256_add_epi32(sums[r][half], fours(pairs[r][half]));
            }
        }
    }
}

/// Adds the products of group `j` with codes of 8 bits: magnitudes by activations that have the codes' signs.
/// Two of them fit 16 bits.
///
/// # Safety
/// The machine has AVX2; the lines and rows have group `j`.
#[inline(always)]
unsafe fn of_bytes<L: Lines<__m256i>, const R: usize>(
    lines: L,
    x: [*const i32; R],
    j: usize,
    sums: &mut Integers<R>,
) {
    // SAFETY: the conditions are those of this function.
    unsafe {
        for half in 0..2 {
            let values = _mm256_xor_si256(lines.line(j, half), _mm256_set1_epi8(i8::MIN));
            let magnitudes = _mm256_abs_epi8(values);
            for r in 0..R {
                let product = _mm256_maddubs_epi16(magnitudes, _mm256_sign_epi8(four(x[r], j), values));
                sums[r][half] = in_turn(_mm256_add_epi32(sums[r][half], fours(product)));
            }
        }
    }
}

/// The sums of neighbouring pairs.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn fours(pairs: __m256i) -> __m256i {
    // SAFETY: no memory is accessed; the machine has AVX2, as this function requires.
    unsafe { _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)) }
}

/// Products of `n` groups from `j` on, added in 16 bits.
///
/// # Safety
/// The machine has AVX2; they fit 16 bits together.
#[inline(always)]
unsafe fn pairs<C: Codes, L: Lines<__m256i>, const R: usize>(
    lines: L,
    x: [*const i32; R],
    j: usize,
    n: usize,
) -> Integers<R> {
    // SAFETY: `j + n <= 8`, so that the lines and the rows have groups `j + i`.
    unsafe {
        let mut sums = [[_mm256_setzero_si256(); 2]; R];
        for i in 0..n {
            for half in 0..2 {
                let codes = lines.line(j + i, half);
                for r in 0..R {
                    let product = _mm256_maddubs_epi16(codes, four(x[r], j + i));
                    let sum = &mut sums[r][half];
                    *sum = match i {
                        0 => product,
                        // Few products fit 16 bits: without an order, parts of one sum would be in registers
                        // together with parts of the next.
                        _ if in_16_bits::<C>() < GROUPS => in_turn(_mm256_add_epi16(*sum, product)),
                        _ => _mm256_add_epi16(*sum, product),
                    };
                }
            }
        }
        sums
    }
}

impl Arithmetic for Fours {
    type Register = __m256i;
    type Outputs = Avx2;
    const ROWS: [usize; 2] = [4, 2];
    type Single = Self;
    type Opened = Unpacked;

    #[inline(always)]
    unsafe fn open<C: Codes>(at: *const u8, buffer: &mut Buffer) -> Unpacked {
        // SAFETY: the conditions are those of this function.
        unsafe { in_memory::<Self, C>(at, buffer) }
    }

    #[inline(always)]
    unsafe fn dot<C: Codes, L: Lines<__m256i>, const N: usize, const R: usize>(
        lines: &[L; N],
        x: [*const i32; R],
        groups: Range<usize>,
        start: [i32; R],
    ) -> [[[__m256i; 2]; N]; R] {
        // SAFETY: the conditions are those of this function; all groups are inside each row.
        unsafe {
            let mut sums = [[[_mm256_setzero_si256(); 2]; N]; R];
            for r in 0..R {
                sums[r] = [[_mm256_set1_epi32(start[r]); 2]; N];
            }
            for j in groups {
                for p in 0..N {
                    let codes = [lines[p].line(j, 0), lines[p].line(j, 1)];
                    for r in 0..R {
                        let x = four(x[r], j);
                        for half in 0..2 {
                            sums[r][p][half] = _mm256_dpbusd_avx_epi32(sums[r][p][half], codes[half], x);
                        }
                    }
                }
            }
            sums
        }
    }
}

/// Quantised weights by 8-bit activations. Each format has a function of its own: one of them all had 0.6 of
/// the speed of 4-bit products in programs with one thread, for a reason that was not found.
///
/// # Safety
/// The machine has AVX2, FMA and F16C; the panels' format has codes `C` and scales `S`.
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn int8<C: Codes, S: Scales>(panels: &[Panel], tile: &Int8Tile, sums: &mut [Lanes]) {
    // SAFETY: the conditions are those of this function.
    unsafe { int8::product::<Pairs, C, S>(panels, tile, sums) }
}

/// Quantised weights by 8-bit activations, with AVX-VNNI.
///
/// # Safety
/// The machine has AVX2, FMA, F16C and AVX-VNNI; the panels' format has codes `C` and scales `S`.
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
pub(super) unsafe fn int8_vnni<C: Codes, S: Scales>(panels: &[Panel], tile: &Int8Tile, sums: &mut [Lanes]) {
    // SAFETY: the conditions are those of this function.
    unsafe { int8::product::<Fours, C, S>(panels, tile, sums) }
}
