//! Weights as `f32`, for products with exact activations: a product and a sum for each value, not fused, as
//! `unpack::floats` defines them.

use std::arch::x86_64::{
    __m512, _mm512_add_ps, _mm512_and_si512, _mm512_cvtepi32_ps, _mm512_mul_ps, _mm512_set1_epi32,
    _mm512_srli_epi32, _mm512_storeu_ps, _mm512_sub_epi32,
};

use super::codes::Codes;
use super::scales::Scales;
use crate::model::cpu::layout::{BLOCK, Panel};
use crate::model::cpu::portable::Lanes;

/// # Safety
/// The machine has AVX-512 F and BW.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store(out: &mut Lanes, values: __m512) {
    // SAFETY: 16 values.
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
