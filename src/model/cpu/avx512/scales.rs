//! From codes and activations of one block to the sum of one row: the integer product, then its scales, in
//! the order that `portable::int8` defines.

use std::arch::x86_64::{
    __m512, __m512i, _mm_loadu_si128, _mm256_loadu_si256, _mm512_add_epi32, _mm512_cvtepi8_epi32,
    _mm512_cvtepi32_ps, _mm512_cvtepu8_epi32, _mm512_cvtph_ps, _mm512_dpbusd_epi32, _mm512_fmadd_ps,
    _mm512_mul_ps, _mm512_mullo_epi32, _mm512_set1_epi32, _mm512_set1_ps, _mm512_setzero_ps,
    _mm512_setzero_si512, _mm512_slli_epi32, _mm512_sub_ps,
};

use crate::model::cpu::input::{Int8Tile, Sums};
use crate::model::cpu::layout::{self, SUPER};

/// One kind of scales.
pub(super) trait Scales {
    /// What serves all rows of one block.
    type Block: Copy;

    /// # Safety
    /// The machine has AVX-512 F, BW and VNNI; block `b` is in the scales that start at `at`.
    unsafe fn load(at: *const u8, b: usize) -> Self::Block;

    /// `sum` and the block's product with one row.
    ///
    /// # Safety
    /// The machine has AVX-512 F, BW and VNNI; `x` is a block of a tile.
    unsafe fn add(block: Self::Block, codes: &[__m512i; 8], x: Activations, sum: __m512) -> __m512;
}

/// One block of one row of a tile.
#[derive(Clone, Copy)]
pub(super) struct Activations {
    values: *const i32,
    scale: *const f32,
    sums: *const Sums,
}

impl Activations {
    /// # Safety
    /// `at` is below the number of blocks of the tile.
    #[inline]
    pub(super) unsafe fn new(tile: &Int8Tile, at: usize) -> Self {
        debug_assert!(at < tile.values.len(), "a block of the tile");
        // SAFETY: the three slices have the same length, and `at` is below it.
        unsafe {
            Self {
                values: tile.values.as_ptr().add(at).cast(),
                scale: tile.scales.as_ptr().add(at),
                sums: tile.sums.as_ptr().add(at),
            }
        }
    }
}

/// `start` and the product of some groups with the activations from group `first` on.
///
/// # Safety
/// `x` is a block of a tile and `first + codes.len() <= 8`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn dot(start: __m512i, codes: &[__m512i], x: Activations, first: usize) -> __m512i {
    codes.iter().enumerate().fold(start, |sum, (j, &codes)| {
        // SAFETY: eight groups of four activations in a block.
        let four = unsafe { x.values.add(first + j).read_unaligned() };
        _mm512_dpbusd_epi32(sum, codes, _mm512_set1_epi32(four))
    })
}

/// # Safety
/// 32 bytes can be read.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn halves(at: *const u8) -> __m512 {
    // SAFETY: the caller's promise.
    _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(at.cast()) })
}

/// `fma(integer, d scale, sum)`.
///
/// # Safety
/// `x` is a block of a tile.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn scaled(integer: __m512i, d: __m512, x: Activations, sum: __m512) -> __m512 {
    // SAFETY: the caller's promise.
    let scale = unsafe { *x.scale };
    _mm512_fmadd_ps(_mm512_cvtepi32_ps(integer), _mm512_mul_ps(d, _mm512_set1_ps(scale)), sum)
}

/// One scale; codes stand `1 << SHIFT` above their value.
pub(super) struct Plain<const SHIFT: u32>;

impl<const SHIFT: u32> Scales for Plain<SHIFT> {
    type Block = __m512;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn load(at: *const u8, b: usize) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { halves(at.add(b * layout::Scales::Plain.bytes())) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn add(d: __m512, codes: &[__m512i; 8], x: Activations, sum: __m512) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe {
            let start = _mm512_slli_epi32::<SHIFT>(_mm512_set1_epi32((*x.sums).negated));
            scaled(dot(start, codes, x, 0), d, x, sum)
        }
    }
}

/// A scale and a minimum.
#[derive(Clone, Copy)]
pub(super) struct Affine {
    d: __m512,
    minimum: __m512,
}

impl Affine {
    /// # Safety
    /// `x` is a block of a tile.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn add(self, codes: &[__m512i; 8], x: Activations, sum: __m512) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe {
            let sum = scaled(dot(_mm512_setzero_si512(), codes, x, 0), self.d, x, sum);
            _mm512_fmadd_ps(self.minimum, _mm512_set1_ps((*x.sums).scaled), sum)
        }
    }
}

pub(super) struct Minimum;

impl Scales for Minimum {
    type Block = Affine;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn load(at: *const u8, b: usize) -> Affine {
        // SAFETY: the caller's promise.
        unsafe {
            let at = at.add(b * layout::Scales::Minimum.bytes());
            Affine { d: halves(at), minimum: halves(at.add(32)) }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn add(block: Affine, codes: &[__m512i; 8], x: Activations, sum: __m512) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { block.add(codes, x, sum) }
    }
}

pub(super) struct Super;

impl Scales for Super {
    type Block = Affine;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn load(at: *const u8, b: usize) -> Affine {
        // SAFETY: the caller's promise.
        unsafe {
            let group = at.add(b / SUPER * layout::Scales::Super.bytes());
            let part = group.add(64 + b % SUPER * 32);
            let bytes = |at: *const u8| _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(at.cast())));
            let minimum = _mm512_mul_ps(halves(group.add(32)), bytes(part.add(16)));
            Affine {
                d: _mm512_mul_ps(halves(group), bytes(part)),
                minimum: _mm512_sub_ps(_mm512_setzero_ps(), minimum),
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn add(block: Affine, codes: &[__m512i; 8], x: Activations, sum: __m512) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { block.add(codes, x, sum) }
    }
}

/// A scale of 256 values and integer scales of 16; codes stand 32 above their value.
pub(super) struct Sixteen;

#[derive(Clone, Copy)]
pub(super) struct Pair {
    d: __m512,
    first: __m512i,
    last: __m512i,
}

impl Scales for Sixteen {
    type Block = Pair;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn load(at: *const u8, b: usize) -> Pair {
        // SAFETY: the caller's promise.
        unsafe {
            let group = at.add(b / SUPER * layout::Scales::Sixteen.bytes());
            let part = group.add(32 + b % SUPER * 32);
            let bytes = |at: *const u8| _mm512_cvtepi8_epi32(_mm_loadu_si128(at.cast()));
            Pair { d: halves(group), first: bytes(part), last: bytes(part.add(16)) }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn add(block: Pair, codes: &[__m512i; 8], x: Activations, sum: __m512) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe {
            let start = |half: usize| _mm512_slli_epi32::<5>(_mm512_set1_epi32((*x.sums).halves[half]));
            let first = dot(start(0), &codes[..4], x, 0);
            let last = dot(start(1), &codes[4..], x, 4);
            let first = _mm512_mullo_epi32(first, block.first);
            let last = _mm512_mullo_epi32(last, block.last);
            scaled(_mm512_add_epi32(first, last), block.d, x, sum)
        }
    }
}
