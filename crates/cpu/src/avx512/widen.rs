//! Weights as `f32`, for products with exact activations: a product and a sum for each value, not fused, as
//! `unpack::floats` defines them.

use std::arch::x86_64::{
    __m512, __m512i, _mm_cvtsi32_si128, _mm_loadu_si128, _mm512_add_ps, _mm512_and_si512,
    _mm512_castps_si512, _mm512_castsi512_ps, _mm512_cvtepi32_ps, _mm512_cvtepu8_epi32, _mm512_loadu_ps,
    _mm512_loadu_si512, _mm512_mul_ps, _mm512_or_si512, _mm512_set1_epi32, _mm512_slli_epi32,
    _mm512_srl_epi32, _mm512_srli_epi32, _mm512_storeu_ps, _mm512_sub_epi32, _mm512_sub_ps,
};

use super::codes::Codes;
use super::scales::{Scales, halves};
use crate::layout::{self, BLOCK, Panel, SUPER};
use crate::portable::Lanes;

/// # Safety
/// The machine has AVX-512 F and BW.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store(out: &mut Lanes, values: __m512) {
    // SAFETY: `out` is 16 values, borrowed exclusively; the store needs no alignment.
    unsafe { _mm512_storeu_ps(out.as_mut_ptr(), values) };
}

/// Quantised weights from `k0` on, whole blocks.
///
/// # Safety
/// The machine has AVX-512 F, BW and VNNI; the panel's format has codes `C` and scales `S`.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn blocks<C: Codes, S: Scales>(panel: &Panel, k0: usize, out: &mut [Lanes]) {
    assert!(k0.is_multiple_of(BLOCK) && out.len().is_multiple_of(BLOCK), "whole blocks");
    assert!(
        k0 + out.len() <= panel.k && panel.values.len() == panel.k / BLOCK * C::BYTES,
        "values of the panel"
    );
    let offset = _mm512_set1_epi32(panel.format.offset());
    let mask = _mm512_set1_epi32(0xff);
    for (i, out) in out.chunks_exact_mut(BLOCK).enumerate() {
        let b = k0 / BLOCK + i;
        // SAFETY: block `b` is in the panel, by the assertions above.
        unsafe {
            let codes = C::unpack(panel.values.as_ptr().add(b * C::BYTES));
            let block = S::load(panel.scales.as_ptr(), b);
            for (j, out) in out.chunks_exact_mut(4).enumerate() {
                let (d, minimum) = S::factors(block, j / 4);
                let mut group = codes[j];
                for out in out {
                    let code = _mm512_sub_epi32(_mm512_and_si512(group, mask), offset);
                    store(out, _mm512_add_ps(_mm512_mul_ps(d, _mm512_cvtepi32_ps(code)), minimum));
                    group = _mm512_srli_epi32::<8>(group);
                }
            }
        }
    }
}

/// 8-bit floats from `k0` on, whole blocks.
///
/// # Safety
/// The machine has AVX-512 F and BW; the panel is of `F8E4M3`.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn eight_bit_floats(panel: &Panel, k0: usize, out: &mut [Lanes]) {
    const CODES: usize = layout::Codes::Eight.bytes();
    const SCALES: usize = layout::Scales::Float.bytes();
    check(panel, k0, out, (CODES, SCALES));
    let (magnitude, sign) = (_mm512_set1_epi32(0x7f), _mm512_set1_epi32(0x80));
    // The scale of `unpack::of_eight_bits`.
    let scale = _mm512_castsi512_ps(_mm512_set1_epi32(0x7b80_0000));
    for (i, out) in out.chunks_exact_mut(BLOCK).enumerate() {
        let b = k0 / BLOCK + i;
        // SAFETY: block `b` is in the panel, by the assertions of `check`: eight lines of codes and one of
        // scales.
        unsafe {
            let d = _mm512_loadu_ps(panel.scales.as_ptr().add(b * SCALES).cast());
            for (j, out) in out.chunks_exact_mut(4).enumerate() {
                let mut group = line(panel.values.as_ptr().add(b * CODES + 64 * j));
                for out in out {
                    let bits = _mm512_slli_epi32::<20>(_mm512_and_si512(group, magnitude));
                    let value = _mm512_castps_si512(_mm512_mul_ps(_mm512_castsi512_ps(bits), scale));
                    let signed =
                        _mm512_or_si512(value, _mm512_slli_epi32::<24>(_mm512_and_si512(group, sign)));
                    store(out, _mm512_mul_ps(d, _mm512_castsi512_ps(signed)));
                    group = _mm512_srli_epi32::<8>(group);
                }
            }
        }
    }
}

/// `Q2_K` from `k0` on, whole blocks.
///
/// # Safety
/// The machine has AVX-512 F and BW; the panel is of `Q2K`.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn two_bits(panel: &Panel, k0: usize, out: &mut [Lanes]) {
    const CODES: usize = layout::Codes::Two.bytes();
    const SCALES: usize = layout::Scales::Fours.bytes();
    check(panel, k0, out, (CODES, SCALES / SUPER));
    let (pair, nibble) = (_mm512_set1_epi32(3), _mm512_set1_epi32(15));
    for (i, out) in out.chunks_exact_mut(BLOCK).enumerate() {
        let b = k0 / BLOCK + i;
        // SAFETY: block `b` is in the panel, by the assertions of `check`: two lines of codes, and its scales
        // in the group of eight blocks.
        unsafe {
            let group = panel.scales.as_ptr().add(b / SUPER * SCALES);
            let (d, dmin) = (halves(group), halves(group.add(32)));
            for (half, out) in out.chunks_exact_mut(BLOCK / 2).enumerate() {
                let both = group.add(64 + (b % SUPER * 2 + half) * 16);
                let both = _mm512_cvtepu8_epi32(_mm_loadu_si128(both.cast()));
                let scale = _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_and_si512(both, nibble)));
                let minimum = _mm512_mul_ps(dmin, _mm512_cvtepi32_ps(_mm512_srli_epi32::<4>(both)));
                let codes = line(panel.values.as_ptr().add(b * CODES + 64 * half));
                for (j, out) in out.chunks_exact_mut(4).enumerate() {
                    let mut codes = _mm512_srl_epi32(codes, _mm_cvtsi32_si128(2 * j as i32));
                    for out in out {
                        let code = _mm512_cvtepi32_ps(_mm512_and_si512(codes, pair));
                        store(out, _mm512_sub_ps(_mm512_mul_ps(scale, code), minimum));
                        codes = _mm512_srli_epi32::<8>(codes);
                    }
                }
            }
        }
    }
}

/// Checks that the blocks from `k0` on are in the panel, of which each has so many bytes of codes and of
/// scales.
fn check(panel: &Panel, k0: usize, out: &[Lanes], (codes, scales): (usize, usize)) {
    assert!(k0.is_multiple_of(BLOCK) && out.len().is_multiple_of(BLOCK), "whole blocks");
    let n = panel.k / BLOCK;
    assert!(k0 + out.len() <= panel.k, "blocks of the panel");
    assert!(panel.values.len() >= n * codes && panel.scales.len() >= n * scales, "bytes of the panel");
}

/// # Safety
/// 64 bytes can be read.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn line(at: *const u8) -> __m512i {
    // SAFETY: 64 bytes can be read at `at`; the load needs no alignment.
    unsafe { _mm512_loadu_si512(at.cast()) }
}
