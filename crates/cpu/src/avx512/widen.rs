//! Weights as `f32`, for products with exact activations: a product and a sum for each value, not fused, as
//! `unpack::floats` defines them.

use std::arch::x86_64::{
    __m512i, _mm_loadu_si128, _mm512_and_si512, _mm512_castps_si512, _mm512_castsi512_ps,
    _mm512_cvtepu8_epi32, _mm512_or_si512, _mm512_set1_epi32, _mm512_slli_epi32, _mm512_srli_epi32,
    _mm512_sub_epi32,
};

use crate::int8::codes::{Codes, Register};
use crate::int8::scales::{Scales, halves};
use crate::int8::{LINE, Outputs};
use crate::lanes::{Avx512, Lanes as _};
use crate::layout::{self, BLOCK, Panel, SUPER};
use crate::portable::Lanes;

/// Quantised weights, whole blocks.
///
/// # Safety
/// The machine has AVX-512 F, BW and VNNI; the panel's format has codes `C` and scales `S`.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2,fma,f16c")]
pub(super) unsafe fn blocks<C: Codes, S: Scales>(panel: &Panel, out: &mut [Lanes]) {
    check(panel, out, C::BYTES, S::KIND.bytes() / S::KIND.blocks());
    let (offset, mask) = (_mm512_set1_epi32(panel.format.offset()), _mm512_set1_epi32(0xff));
    for (b, out) in out.chunks_exact_mut(BLOCK).enumerate() {
        // SAFETY: block `b` is in the panel, by the assertions of `check`.
        unsafe {
            let codes = panel.values.as_ptr().add(b * C::BYTES);
            let factors = S::load::<Avx512>(panel.scales.as_ptr(), b);
            for (j, out) in out.chunks_exact_mut(4).enumerate() {
                let [d, addend] = S::linear(factors, j / 4);
                let mut group: __m512i = C::line(codes, j, 0);
                for out in out {
                    let code = _mm512_sub_epi32(_mm512_and_si512(group, mask), offset);
                    d.mul(Avx512::from_integers(code)).add(addend).store(out);
                    group = _mm512_srli_epi32::<8>(group);
                }
            }
        }
    }
}

/// 8-bit floats, whole blocks.
///
/// # Safety
/// The machine has AVX-512 F and BW; the panel is of `F8E4M3`.
#[target_feature(enable = "avx512f,avx512bw,avx2,fma,f16c")]
pub(super) unsafe fn eight_bit_floats(panel: &Panel, out: &mut [Lanes]) {
    const CODES: usize = layout::Codes::Eight.bytes();
    const SCALES: usize = layout::Scales::Float.bytes();
    check(panel, out, CODES, SCALES);
    let (magnitude, sign) = (_mm512_set1_epi32(0x7f), _mm512_set1_epi32(0x80));
    // The scale of `unpack::of_eight_bits`.
    let scale = Avx512(_mm512_castsi512_ps(_mm512_set1_epi32(0x7b80_0000)));
    for (b, out) in out.chunks_exact_mut(BLOCK).enumerate() {
        // SAFETY: block `b` is in the panel, by the assertions of `check`: eight lines of codes and one of
        // scales, which are aligned to 64.
        unsafe {
            let d = Avx512::load(&*panel.scales.as_ptr().add(b * SCALES).cast());
            for (j, out) in out.chunks_exact_mut(4).enumerate() {
                let mut group = __m512i::load(panel.values.as_ptr().add(b * CODES + LINE * j));
                for out in out {
                    let bits = _mm512_slli_epi32::<20>(_mm512_and_si512(group, magnitude));
                    let value = _mm512_castps_si512(Avx512(_mm512_castsi512_ps(bits)).mul(scale).0);
                    let sign = _mm512_slli_epi32::<24>(_mm512_and_si512(group, sign));
                    d.mul(Avx512(_mm512_castsi512_ps(_mm512_or_si512(value, sign)))).store(out);
                    group = _mm512_srli_epi32::<8>(group);
                }
            }
        }
    }
}

/// `Q2_K`, whole blocks.
///
/// # Safety
/// The machine has AVX-512 F and BW; the panel is of `Q2K`.
#[target_feature(enable = "avx512f,avx512bw,avx2,fma,f16c")]
pub(super) unsafe fn two_bits(panel: &Panel, out: &mut [Lanes]) {
    const CODES: usize = layout::Codes::Two.bytes();
    const SCALES: usize = layout::Scales::Fours.bytes();
    check(panel, out, CODES, SCALES / SUPER);
    let (pair, nibble) = (_mm512_set1_epi32(3), _mm512_set1_epi32(15));
    for (b, out) in out.chunks_exact_mut(BLOCK).enumerate() {
        // SAFETY: block `b` is in the panel, by the assertions of `check`: two lines of codes, and its scales
        // in the group of eight blocks.
        unsafe {
            let group = panel.scales.as_ptr().add(b / SUPER * SCALES);
            let (d, dmin): (Avx512, Avx512) = (halves(group), halves(group.add(32)));
            for (half, out) in out.chunks_exact_mut(BLOCK / 2).enumerate() {
                let both = group.add(64 + (b % SUPER * 2 + half) * 16);
                let both = _mm512_cvtepu8_epi32(_mm_loadu_si128(both.cast()));
                let scale = d.mul(Avx512::from_integers(_mm512_and_si512(both, nibble)));
                let minimum = dmin.mul(Avx512::from_integers(_mm512_srli_epi32::<4>(both)));
                let codes = __m512i::load(panel.values.as_ptr().add(b * CODES + LINE * half));
                for (j, out) in out.chunks_exact_mut(4).enumerate() {
                    let mut codes = codes.shift(-2 * j as i32);
                    for out in out {
                        let code = Avx512::from_integers(_mm512_and_si512(codes, pair));
                        scale.mul(code).sub(minimum).store(out);
                        codes = _mm512_srli_epi32::<8>(codes);
                    }
                }
            }
        }
    }
}

/// Checks that the blocks are in the panel, of which each has so many bytes of codes and of scales.
fn check(panel: &Panel, out: &[Lanes], codes: usize, scales: usize) {
    let n = panel.k / BLOCK;
    assert!(out.len().is_multiple_of(BLOCK) && out.len() <= panel.k, "whole blocks of the panel");
    assert!(panel.values.len() >= n * codes && panel.scales.len() >= n * scales, "bytes of the panel");
}
