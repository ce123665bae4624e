//! AVX-512: one register of 512 bits holds a line of codes and the sums of 16 outputs.
#![expect(clippy::needless_range_loop, reason = "a group is a place in several arrays at once")]

mod pairs;
mod widen;

use std::arch::x86_64::{
    __m512i, _mm_cvtsi32_si128, _mm_loadu_si128, _mm512_add_epi32, _mm512_and_si512, _mm512_broadcast_i32x4,
    _mm512_cvtepi8_epi32, _mm512_cvtepi32_ps, _mm512_cvtepu8_epi32, _mm512_dpbusd_epi32, _mm512_loadu_si512,
    _mm512_or_si512, _mm512_set1_epi8, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_shuffle_epi8,
    _mm512_sll_epi32, _mm512_srl_epi32, _mm512_storeu_si512,
};
use std::ops::Range;

use super::Format;
use super::input::Int8Tile;
use super::int8::codes::{Codes, Register};
use super::int8::scales::Scales;
use super::int8::{self, Arithmetic, Buffer, GROUPS, Lines, Outputs, by_format};
use super::lanes::{Avx512, WIDTH};
use super::layout::Panel;
use super::portable::Lanes;

pub(super) use pairs::bf16_pairs;

// Registers exist only where AVX-512 F, BW and VNNI are enabled.
impl Register for __m512i {
    const PER_LINE: usize = 1;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: 64 bytes can be read; the load needs no alignment.
        unsafe { _mm512_loadu_si512(at.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut u8) {
        // SAFETY: 64 bytes can be written; the store needs no alignment.
        unsafe { _mm512_storeu_si512(at.cast(), self) }
    }

    #[inline(always)]
    fn and(self, mask: u8) -> Self {
        // SAFETY: the instructions are enabled; no memory is accessed.
        unsafe { _mm512_and_si512(self, _mm512_set1_epi8(mask.cast_signed())) }
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: the instructions are enabled; no memory is accessed.
        unsafe { _mm512_or_si512(self, other) }
    }

    #[inline(always)]
    fn shift(self, left: i32) -> Self {
        // SAFETY: the instructions are enabled; no memory is accessed.
        unsafe {
            let by = _mm_cvtsi32_si128(left.abs());
            if left < 0 { _mm512_srl_epi32(self, by) } else { _mm512_sll_epi32(self, by) }
        }
    }

    #[inline(always)]
    fn look_up(self, table: &[u8; 16]) -> Self {
        // SAFETY: the instructions are enabled; the table has the 16 bytes that are loaded.
        unsafe {
            let table = _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast()));
            _mm512_shuffle_epi8(table, self)
        }
    }
}

impl Outputs for Avx512 {
    type Integers = __m512i;

    #[inline(always)]
    fn from_integers(integers: __m512i) -> Self {
        // SAFETY: the instructions are enabled; no memory is accessed.
        Self(unsafe { _mm512_cvtepi32_ps(integers) })
    }

    #[inline(always)]
    fn unsigned(bytes: &[u8; WIDTH]) -> Self {
        // SAFETY: the instructions are enabled; 16 bytes are loaded.
        Self::from_integers(unsafe { _mm512_cvtepu8_epi32(_mm_loadu_si128(bytes.as_ptr().cast())) })
    }

    #[inline(always)]
    fn signed(bytes: &[u8; WIDTH]) -> Self {
        // SAFETY: the instructions are enabled; 16 bytes are loaded.
        Self::from_integers(unsafe { _mm512_cvtepi8_epi32(_mm_loadu_si128(bytes.as_ptr().cast())) })
    }
}

/// `vpdpbusd`, with a block of two panels in registers for any number of rows.
#[derive(Clone, Copy)]
struct Vnni;

/// The lines of a block in registers.
#[derive(Clone, Copy)]
struct Opened([__m512i; GROUPS]);

impl Lines<__m512i> for Opened {
    #[inline(always)]
    unsafe fn line(self, line: usize, _part: usize) -> __m512i {
        self.0[line]
    }
}

impl Arithmetic for Vnni {
    type Register = __m512i;
    type Outputs = Avx512;
    const PANELS: usize = 2;
    const ROWS: [usize; 2] = [1; 2];
    type Single = Self;
    type Opened = Opened;

    #[inline(always)]
    unsafe fn open<C: Codes>(at: *const u8, _buffer: &mut Buffer) -> Opened {
        // SAFETY: a block can be read, and has eight lines.
        unsafe {
            let mut lines = [C::line(at, 0, 0); GROUPS];
            for j in 1..GROUPS {
                lines[j] = C::line(at, j, 0);
            }
            Opened(lines)
        }
    }

    /// An activation is broadcast once for all panels: the processor loads one 512-bit register a cycle, as
    /// many as it multiplies.
    #[inline(always)]
    unsafe fn dot<C: Codes, L: Lines<__m512i>, const N: usize, const R: usize>(
        lines: &[L; N],
        x: [*const i32; R],
        groups: Range<usize>,
        start: [i32; R],
    ) -> [[__m512i; N]; R] {
        // SAFETY: a block has eight lines and eight groups of four activations, whose reads need no
        // alignment.
        unsafe {
            let zero = _mm512_setzero_si512();
            let mut codes = [[zero; GROUPS]; N];
            for p in 0..N {
                for j in groups.clone() {
                    codes[p][j] = lines[p].line(j, 0);
                }
            }
            let mut totals = [[zero; N]; R];
            for r in 0..R {
                // Two chains: each product waits for the one before it.
                let mut sums = [[_mm512_set1_epi32(start[r]), zero]; N];
                for j in groups.clone() {
                    let four = _mm512_set1_epi32(x[r].add(j).read_unaligned());
                    for p in 0..N {
                        sums[p][j % 2] = _mm512_dpbusd_epi32(sums[p][j % 2], codes[p][j], four);
                    }
                }
                for p in 0..N {
                    totals[r][p] = _mm512_add_epi32(sums[p][0], sums[p][1]);
                }
            }
            totals
        }
    }
}

/// Quantised weights by 8-bit activations.
///
/// # Safety
/// The machine has AVX-512 F, BW and VNNI, AVX2, FMA and F16C; the panels' format has codes `C` and scales
/// `S`.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2,fma,f16c")]
pub(super) unsafe fn int8<C: Codes, S: Scales>(panels: &[Panel], tile: &Int8Tile, sums: &mut [Lanes]) {
    // SAFETY: the conditions are those of this function.
    unsafe { int8::product::<Vnni, C, S>(panels, tile, sums) }
}

/// Quantised weights of a panel as `f32`.
///
/// # Safety
/// The machine has AVX-512 F, BW and VNNI, AVX2, FMA and F16C.
pub(super) unsafe fn widen(panel: &Panel, weights: &mut [Lanes]) {
    // SAFETY: the conditions are those of this function.
    unsafe {
        match panel.format {
            Format::Q2K => widen::two_bits(panel, weights),
            Format::F8E4M3 => widen::eight_bit_floats(panel, weights),
            format => by_format!(format, widen::blocks(panel, weights)),
        }
    }
}
