//! The AVX2 tier: the plain loops compiled for AVX2 and FMA, with its own integer product.
//! `vpmaddubsw` adds pairs of products in 16 bits and would saturate; no operand here lets it.

use std::arch::x86_64::{
    __m256i, _mm256_abs_epi8, _mm256_add_epi16, _mm256_add_epi32, _mm256_loadu_si256, _mm256_madd_epi16,
    _mm256_maddubs_epi16, _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_setzero_si256,
    _mm256_sign_epi8, _mm256_storeu_si256, _mm256_xor_si256,
};

use super::input::Int8Tile;
use super::layout::{Codes, LANES, Panel};
use super::portable::{self, Dot, Lanes};
use super::unpack;

/// # Safety
/// The machine has AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn int8(panels: &[Panel], tile: &Int8Tile, sums: &mut [Lanes]) {
    match panels[0].format.quantized() {
        Some((Codes::Eight, _)) => portable::int8(panels, tile, sums, &Bytes),
        _ => portable::int8(panels, tile, sums, &SixBits),
    }
}

/// # Safety
/// The machine has AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn widen(panel: &Panel, k0: usize, weights: &mut [Lanes]) {
    unpack::floats(panel, k0, weights);
}

/// Codes of at most 6 bits: two products of at most `2 * 63 * 127 = 16,002` fit 16 bits together.
struct SixBits;

/// Codes of 8 bits, offset by 128. The value's sign goes to the activation, so that a pair is at most
/// `2 * 128 * 127 = 32,512`.
struct Bytes;

impl Dot for SixBits {
    #[inline(always)]
    fn dot(&self, codes: &[[u32; LANES]], activations: &[i8]) -> [i32; LANES] {
        // SAFETY: only `int8` uses this, on a machine with AVX2.
        unsafe { six_bits(codes, activations) }
    }
}

impl Dot for Bytes {
    #[inline(always)]
    fn dot(&self, codes: &[[u32; LANES]], activations: &[i8]) -> [i32; LANES] {
        // SAFETY: only `int8` uses this, on a machine with AVX2.
        unsafe { bytes(codes, activations) }
    }
}

/// Lanes `0..8` or `8..16` of one group.
#[inline]
#[target_feature(enable = "avx2")]
fn group(group: &[u32; LANES], half: usize) -> __m256i {
    // SAFETY: 8 of the 16 words, from word 0 or 8.
    unsafe { _mm256_loadu_si256(group[half * 8..][..8].as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn four(activations: &[i8]) -> __m256i {
    _mm256_set1_epi32(i32::from_le_bytes([0, 1, 2, 3].map(|i| activations[i] as u8)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn lanes(halves: [__m256i; 2]) -> [i32; LANES] {
    let mut out = [0; LANES];
    for (out, half) in out.chunks_exact_mut(8).zip(halves) {
        // SAFETY: 8 words.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), half) };
    }
    out
}

#[inline]
#[target_feature(enable = "avx2")]
fn six_bits(codes: &[[u32; LANES]], activations: &[i8]) -> [i32; LANES] {
    let mut sums = [_mm256_setzero_si256(); 2];
    for (groups, x) in codes.as_chunks::<2>().0.iter().zip(activations.as_chunks::<8>().0) {
        for (half, sum) in sums.iter_mut().enumerate() {
            let first = _mm256_maddubs_epi16(group(&groups[0], half), four(&x[..4]));
            let second = _mm256_maddubs_epi16(group(&groups[1], half), four(&x[4..]));
            let pairs = _mm256_madd_epi16(_mm256_add_epi16(first, second), _mm256_set1_epi16(1));
            *sum = _mm256_add_epi32(*sum, pairs);
        }
    }
    lanes(sums)
}

/// The codes' product, as other tiers have it: the value's product and `128 Σa`.
#[inline]
#[target_feature(enable = "avx2")]
fn bytes(codes: &[[u32; LANES]], activations: &[i8]) -> [i32; LANES] {
    let offset: i32 = 128 * activations.iter().map(|&x| i32::from(x)).sum::<i32>();
    let mut sums = [_mm256_set1_epi32(offset); 2];
    for (codes, x) in codes.iter().zip(activations.as_chunks::<4>().0) {
        let x = four(x);
        for (half, sum) in sums.iter_mut().enumerate() {
            let value = _mm256_xor_si256(group(codes, half), _mm256_set1_epi8(-128));
            let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(value), _mm256_sign_epi8(x, value));
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
        }
    }
    lanes(sums)
}
