//! From codes and activations of one block to the sums of some rows: the integer products, then their scales,
//! in the order that `portable::int8` defines.

use std::arch::x86_64::{
    __m128i, __m256, _mm_loadl_epi64, _mm_loadu_si128, _mm256_cvtepi8_epi32, _mm256_cvtepi32_ps,
    _mm256_cvtepu8_epi32, _mm256_cvtph_ps, _mm256_fmadd_ps, _mm256_mul_ps, _mm256_set1_ps, _mm256_xor_ps,
};

use super::codes::Codes;
use super::dot::{Arithmetic, Integers, Lines};
use crate::input::{Int8Tile, Sums};
use crate::layout::{self, SUPER};

/// Floats of 16 outputs.
pub(super) type Floats = [__m256; 2];

/// One kind of scales.
pub(super) trait Scales {
    /// The scales of one block, for all rows.
    type Block: Copy;

    /// # Safety
    /// The machine has the AVX2 instruction set; block `b` is in the scales that start at `at`.
    unsafe fn load(at: *const u8, b: usize) -> Self::Block;

    /// `sums` and the products of some rows with a block.
    ///
    /// # Safety
    /// The machine has the instruction set of `A`; the lines are those of codes `C`; `x` are blocks of a
    /// tile.
    unsafe fn add<A: Arithmetic, C: Codes, L: Lines, const R: usize>(
        lines: L,
        block: Self::Block,
        x: Rows<R>,
        sums: &mut [Floats; R],
    );
}

/// One block of some neighbouring rows of a tile.
#[derive(Clone, Copy)]
pub(super) struct Rows<const R: usize> {
    values: [*const i32; R],
    scales: [*const f32; R],
    sums: [*const Sums; R],
}

impl<const R: usize> Rows<R> {
    /// # Safety
    /// `at + R` blocks are in the tile.
    #[inline(always)]
    pub(super) unsafe fn new(tile: &Int8Tile, at: usize) -> Self {
        debug_assert!(at + R <= tile.values.len(), "blocks of the tile");
        let mut rows = Self {
            values: [std::ptr::null(); R],
            scales: [std::ptr::null(); R],
            sums: [std::ptr::null(); R],
        };
        for r in 0..R {
            // SAFETY: the three slices have the same length, and `at + R` is at most that; they are borrowed
            // by the tile.
            unsafe {
                rows.values[r] = tile.values.as_ptr().add(at + r).cast();
                rows.scales[r] = tile.scales.as_ptr().add(at + r);
                rows.sums[r] = tile.sums.as_ptr().add(at + r);
            }
        }
        rows
    }
}

/// # Safety
/// The machine has the AVX2 instruction set; 32 bytes can be read.
#[inline(always)]
unsafe fn halves(at: *const u8) -> Floats {
    let at: *const __m128i = at.cast();
    // SAFETY: 32 bytes, 16 halves, can be read at `at`; the loads need no alignment.
    unsafe { [_mm256_cvtph_ps(_mm_loadu_si128(at)), _mm256_cvtph_ps(_mm_loadu_si128(at.add(1)))] }
}

/// Bytes `8 half..8 half + 8`, as floats.
///
/// # Safety
/// The machine has the AVX2 instruction set; 16 bytes can be read.
#[inline(always)]
unsafe fn bytes<const SIGNED: bool>(at: *const u8, half: usize) -> __m256 {
    // SAFETY: 16 bytes can be read at `at`, of which 8 from `8 half` on are; the load needs no alignment.
    unsafe {
        let eight = _mm_loadl_epi64(at.add(8 * half).cast());
        _mm256_cvtepi32_ps(if SIGNED { _mm256_cvtepi8_epi32(eight) } else { _mm256_cvtepu8_epi32(eight) })
    }
}

/// `fma(integer, d scale, sum)` for each row.
///
/// # Safety
/// The machine has the AVX2 instruction set; the rows are of a tile.
#[inline(always)]
unsafe fn add_scaled<const R: usize>(integers: Integers<R>, d: Floats, x: Rows<R>, sums: &mut [Floats; R]) {
    // SAFETY: `x` points to a block of each of `R` rows of the tile (`Rows::new`), which is borrowed for the
    // whole call.
    unsafe {
        for r in 0..R {
            let scale = _mm256_set1_ps(*x.scales[r]);
            for half in 0..2 {
                let integer = _mm256_cvtepi32_ps(integers[r][half]);
                sums[r][half] = _mm256_fmadd_ps(integer, _mm256_mul_ps(d[half], scale), sums[r][half]);
            }
        }
    }
}

/// One scale; codes are `1 << SHIFT` above their value.
pub(super) struct Plain<const SHIFT: u32>;

impl<const SHIFT: u32> Scales for Plain<SHIFT> {
    type Block = Floats;

    #[inline(always)]
    unsafe fn load(at: *const u8, b: usize) -> Floats {
        // SAFETY: block `b` is in the scales, so that its group of `layout::Scales::Plain.bytes()` bytes is
        // readable.
        unsafe { halves(at.add(b * layout::Scales::Plain.bytes())) }
    }

    #[inline(always)]
    unsafe fn add<A: Arithmetic, C: Codes, L: Lines, const R: usize>(
        lines: L,
        d: Floats,
        x: Rows<R>,
        sums: &mut [Floats; R],
    ) {
        // SAFETY: `x` points to a block of each of `R` rows of the tile (`Rows::new`), which is borrowed for
        // the whole call; `lines` are those of the block.
        unsafe {
            let mut start = [0; R];
            for r in 0..R {
                start[r] = (*x.sums[r]).negated << SHIFT;
            }
            let integers = A::dot::<C, L, R, 8>(lines, x.values, 0, start);
            add_scaled(integers, d, x, sums);
        }
    }
}

/// A scale and a minimum.
#[derive(Clone, Copy)]
pub(super) struct Affine {
    d: Floats,
    minimum: Floats,
}

/// # Safety
/// The conditions of [`Scales::add`].
#[inline(always)]
unsafe fn add_affine<A: Arithmetic, C: Codes, L: Lines, const R: usize>(
    lines: L,
    block: Affine,
    x: Rows<R>,
    sums: &mut [Floats; R],
) {
    // SAFETY: `x` points to a block of each of `R` rows of the tile (`Rows::new`), which is borrowed for the
    // whole call; `lines` are those of the block.
    unsafe {
        let integers = A::dot::<C, L, R, 8>(lines, x.values, 0, [0; R]);
        add_scaled(integers, block.d, x, sums);
        for r in 0..R {
            let sum = _mm256_set1_ps((*x.sums[r]).scaled);
            for half in 0..2 {
                sums[r][half] = _mm256_fmadd_ps(block.minimum[half], sum, sums[r][half]);
            }
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
    unsafe fn add<A: Arithmetic, C: Codes, L: Lines, const R: usize>(
        lines: L,
        block: Affine,
        x: Rows<R>,
        sums: &mut [Floats; R],
    ) {
        // SAFETY: as `add_affine`, whose conditions are those of this function.
        unsafe { add_affine::<A, C, L, R>(lines, block, x, sums) };
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
            let mut minimum = d;
            for half in 0..2 {
                let product = _mm256_mul_ps(d[half], bytes::<false>(at.add(32), half));
                minimum[half] = _mm256_xor_ps(product, _mm256_set1_ps(-0.0));
            }
            Affine { d, minimum }
        }
    }

    #[inline(always)]
    unsafe fn add<A: Arithmetic, C: Codes, L: Lines, const R: usize>(
        lines: L,
        block: Affine,
        x: Rows<R>,
        sums: &mut [Floats; R],
    ) {
        // SAFETY: as `add_affine`, whose conditions are those of this function.
        unsafe { add_affine::<A, C, L, R>(lines, block, x, sums) };
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
            let (mut d, mut minimum) = (halves(group), halves(group.add(32)));
            for half in 0..2 {
                d[half] = _mm256_mul_ps(d[half], bytes::<false>(part, half));
                let product = _mm256_mul_ps(minimum[half], bytes::<false>(part.add(16), half));
                minimum[half] = _mm256_xor_ps(product, _mm256_set1_ps(-0.0));
            }
            Affine { d, minimum }
        }
    }

    #[inline(always)]
    unsafe fn add<A: Arithmetic, C: Codes, L: Lines, const R: usize>(
        lines: L,
        block: Affine,
        x: Rows<R>,
        sums: &mut [Floats; R],
    ) {
        // SAFETY: as `add_affine`, whose conditions are those of this function.
        unsafe { add_affine::<A, C, L, R>(lines, block, x, sums) };
    }
}

/// A scale of 256 values and integer scales of 16; codes are `1 << SHIFT` above their value.
pub(super) struct Sixteen<const SHIFT: u32>;

#[derive(Clone, Copy)]
pub(super) struct Pair {
    d: Floats,
    first: Floats,
    last: Floats,
}

impl<const SHIFT: u32> Scales for Sixteen<SHIFT> {
    type Block = Pair;

    #[inline(always)]
    unsafe fn load(at: *const u8, b: usize) -> Pair {
        // SAFETY: block `b` is in the scales, so that its group of `layout::Scales::Sixteen.bytes()` bytes is
        // readable.
        unsafe {
            let group = at.add(b / SUPER * layout::Scales::Sixteen.bytes());
            let part = group.add(32 + b % SUPER * 32);
            let last = part.add(16);
            Pair {
                d: halves(group),
                first: [bytes::<true>(part, 0), bytes::<true>(part, 1)],
                last: [bytes::<true>(last, 0), bytes::<true>(last, 1)],
            }
        }
    }

    /// The halves of a block, by their scales, and their sum are whole numbers of at most 24 bits, so that
    /// floats represent them exactly.
    #[inline(always)]
    unsafe fn add<A: Arithmetic, C: Codes, L: Lines, const R: usize>(
        lines: L,
        block: Pair,
        x: Rows<R>,
        sums: &mut [Floats; R],
    ) {
        // SAFETY: `x` points to a block of each of `R` rows of the tile (`Rows::new`), which is borrowed for
        // the whole call; `lines` are those of the block.
        unsafe {
            let mut start = [[0; R]; 2];
            for r in 0..R {
                start[0][r] = (*x.sums[r]).halves[0] << SHIFT;
                start[1][r] = (*x.sums[r]).halves[1] << SHIFT;
            }
            let first = A::dot::<C, L, R, 4>(lines, x.values, 0, start[0]);
            let last = A::dot::<C, L, R, 4>(lines, x.values, 4, start[1]);
            for r in 0..R {
                let scale = _mm256_set1_ps(*x.scales[r]);
                for half in 0..2 {
                    let last = _mm256_mul_ps(_mm256_cvtepi32_ps(last[r][half]), block.last[half]);
                    let total = _mm256_fmadd_ps(_mm256_cvtepi32_ps(first[r][half]), block.first[half], last);
                    let by = _mm256_mul_ps(block.d[half], scale);
                    sums[r][half] = _mm256_fmadd_ps(total, by, sums[r][half]);
                }
            }
        }
    }
}
