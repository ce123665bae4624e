//! `f32` and `bf16` kernels: one weight register (16 outputs) meets each row of the tile, whose sums stay in
//! registers.

use std::arch::x86_64::{
    __m512, __m512bh, _mm512_dpbf16_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_loadu_si512,
    _mm512_set1_epi32, _mm512_set1_ps, _mm512_storeu_ps,
};

use half::bf16;

use crate::model::cpu::layout::Panel;
use crate::model::cpu::portable::Lanes;

/// Weights `[k][lane]` by activations `[k][height]`; `sums` goes on from what it holds.
///
/// # Safety
/// The machine has AVX-512 F.
#[target_feature(enable = "avx512f")]
pub(in crate::model::cpu) unsafe fn floats(weights: &[Lanes], x: &[f32], sums: &mut [Lanes]) {
    assert_eq!(x.len(), weights.len() * sums.len(), "the same k");
    // SAFETY: the caller's promise and the lengths above.
    unsafe {
        match sums.len() {
            1 => float_rows::<1>(weights, x, sums),
            2 => float_rows::<2>(weights, x, sums),
            4 => float_rows::<4>(weights, x, sums),
            8 => float_rows::<8>(weights, x, sums),
            12 => float_rows::<12>(weights, x, sums),
            16 => float_rows::<16>(weights, x, sums),
            height => unreachable!("no tile has {height} rows"),
        }
    }
}

/// # Safety
/// The machine has AVX-512 F; `sums` has `R` rows and `x` has `R` values for each weight.
#[target_feature(enable = "avx512f")]
unsafe fn float_rows<const R: usize>(weights: &[Lanes], x: &[f32], sums: &mut [Lanes]) {
    // SAFETY: the caller's promise; a row of sums and a row of weights have 16 values.
    unsafe {
        let mut local: [__m512; R] = std::array::from_fn(|r| _mm512_loadu_ps(sums[r].as_ptr()));
        for (k, weights) in weights.iter().enumerate() {
            let weights = _mm512_loadu_ps(weights.as_ptr());
            for (r, sum) in local.iter_mut().enumerate() {
                *sum = _mm512_fmadd_ps(weights, _mm512_set1_ps(*x.get_unchecked(k * R + r)), *sum);
            }
        }
        for (sums, sum) in sums.iter_mut().zip(local) {
            _mm512_storeu_ps(sums.as_mut_ptr(), sum);
        }
    }
}

/// `bf16` weights `[k / 2][lane][2]` by activations `[k / 2][height][2]`.
///
/// # Safety
/// The machine has AVX-512 F and BF16.
#[target_feature(enable = "avx512f,avx512bf16")]
pub(in crate::model::cpu) unsafe fn bf16_pairs(panel: &Panel, x: &[[bf16; 2]], sums: &mut [Lanes]) {
    let n_pairs = panel.k.div_ceil(2);
    assert!(x.len() == n_pairs * sums.len() && panel.values.len() >= n_pairs * 64, "the same k");
    let weights = panel.values.as_ptr();
    // SAFETY: the caller's promise and the lengths above.
    unsafe {
        match sums.len() {
            1 => pair_rows::<1>(weights, n_pairs, x, sums),
            2 => pair_rows::<2>(weights, n_pairs, x, sums),
            4 => pair_rows::<4>(weights, n_pairs, x, sums),
            8 => pair_rows::<8>(weights, n_pairs, x, sums),
            12 => pair_rows::<12>(weights, n_pairs, x, sums),
            16 => pair_rows::<16>(weights, n_pairs, x, sums),
            height => unreachable!("no tile has {height} rows"),
        }
    }
}

/// # Safety
/// The machine has AVX-512 F and BF16; `weights` can be read for `64 n_pairs` bytes, `sums` has `R` rows and
/// `x` has `R` pairs for each of the weights.
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn pair_rows<const R: usize>(weights: *const u8, n_pairs: usize, x: &[[bf16; 2]], sums: &mut [Lanes]) {
    let x: *const i32 = x.as_ptr().cast();
    // SAFETY: the caller's promise; a pair is as wide as an `i32`, whose alignment is not assumed; any bits are
    // a vector of `bf16`.
    unsafe {
        let mut local: [__m512; R] = std::array::from_fn(|r| _mm512_loadu_ps(sums[r].as_ptr()));
        for k in 0..n_pairs {
            let weights: __m512bh = std::mem::transmute(_mm512_loadu_si512(weights.add(64 * k).cast()));
            for (r, sum) in local.iter_mut().enumerate() {
                let pair = _mm512_set1_epi32(x.add(k * R + r).read_unaligned());
                *sum = _mm512_dpbf16_ps(*sum, weights, std::mem::transmute::<_, __m512bh>(pair));
            }
        }
        for (sums, sum) in sums.iter_mut().zip(local) {
            _mm512_storeu_ps(sums.as_mut_ptr(), sum);
        }
    }
}
