//! The lanes of AVX-512 and of AVX2: one register, and two. What an operation means is said in [`super::Lanes`].

use std::arch::x86_64::{
    __m256, __m256bh, __m256i, __m512, __m512bh, __m512i, _CMP_GE_OQ, _mm_loadu_si128, _mm256_add_epi32,
    _mm256_add_ps, _mm256_and_ps, _mm256_castps_si256, _mm256_castsi256_ps, _mm256_cmp_ps,
    _mm256_cvtepu16_epi32, _mm256_cvtph_ps, _mm256_div_ps, _mm256_fmadd_ps, _mm256_loadu_ps,
    _mm256_loadu_si256, _mm256_max_ps, _mm256_mul_ps, _mm256_set1_epi32, _mm256_set1_ps, _mm256_slli_epi32,
    _mm256_storeu_ps, _mm256_storeu_si256, _mm256_sub_ps, _mm512_add_epi32, _mm512_add_ps,
    _mm512_castps_si512, _mm512_castsi512_ps, _mm512_cmp_ps_mask, _mm512_cvtepu16_epi32, _mm512_cvtneps_pbh,
    _mm512_cvtph_ps, _mm512_div_ps, _mm512_dpbf16_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_loadu_si512,
    _mm512_maskz_mov_ps, _mm512_max_ps, _mm512_mul_ps, _mm512_set1_epi32, _mm512_set1_ps, _mm512_slli_epi32,
    _mm512_storeu_ps, _mm512_sub_ps,
};

use std::mem::transmute;

use super::{Lanes, WIDTH, bf16, f16};

/// One 512-bit register. Made only inside functions that enable AVX-512F.
#[derive(Clone, Copy)]
pub struct Avx512(__m512);

/// Two 256-bit registers. Made only inside functions that enable AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub struct Avx2([__m256; 2]);

// SAFETY (every block below): the types' contracts say that the features are enabled where they are used;
// loads and stores take arrays of exactly one vector's length.
impl Lanes for Avx512 {
    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: see above the impl.
        Self(unsafe { _mm512_set1_ps(x) })
    }
    #[inline(always)]
    fn load(x: &[f32; WIDTH]) -> Self {
        // SAFETY: see above the impl.
        Self(unsafe { _mm512_loadu_ps(x.as_ptr()) })
    }
    #[inline(always)]
    fn store(self, out: &mut [f32; WIDTH]) {
        // SAFETY: see above the impl.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), self.0) }
    }
    #[inline(always)]
    fn load_bf16(x: &[bf16; WIDTH]) -> Self {
        // SAFETY: see above the impl.
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(x.as_ptr().cast()));
            Self(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide)))
        }
    }
    #[inline(always)]
    fn load_f16(x: &[f16; WIDTH]) -> Self {
        // SAFETY: see above the impl.
        unsafe { Self(_mm512_cvtph_ps(_mm256_loadu_si256(x.as_ptr().cast()))) }
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: see above the impl.
        Self(unsafe { _mm512_add_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: see above the impl.
        Self(unsafe { _mm512_sub_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: see above the impl.
        Self(unsafe { _mm512_mul_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        // SAFETY: see above the impl.
        Self(unsafe { _mm512_div_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn mul_add(self, by: Self, plus: Self) -> Self {
        // SAFETY: see above the impl.
        Self(unsafe { _mm512_fmadd_ps(self.0, by.0, plus.0) })
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        // SAFETY: see above the impl.
        Self(unsafe { _mm512_max_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn scale_exponent(self, shift: Self) -> Self {
        // SAFETY: see above the impl.
        unsafe {
            let by = _mm512_slli_epi32::<23>(_mm512_castps_si512(shift.0));
            Self(_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(self.0), by)))
        }
    }
    #[inline(always)]
    fn keep_at_least(self, test: Self, bound: Self) -> Self {
        // SAFETY: see above the impl.
        unsafe {
            let keep = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(test.0, bound.0);
            Self(_mm512_maskz_mov_ps(keep, self.0))
        }
    }
    const MANY: bool = true;
    type Pairs = __m512bh;
    #[inline(always)]
    fn load_pairs(x: &[[bf16; 2]; WIDTH]) -> __m512bh {
        // SAFETY: see above the impl; any bits are a vector of bf16.
        unsafe { transmute::<__m512i, __m512bh>(_mm512_loadu_si512(x.as_ptr().cast())) }
    }
    #[inline(always)]
    fn splat_pair(x: [bf16; 2]) -> __m512bh {
        let bits = u32::from(x[1].to_bits()) << 16 | u32::from(x[0].to_bits());
        // SAFETY: see above the impl; any bits are a vector of bf16.
        unsafe { transmute::<__m512i, __m512bh>(_mm512_set1_epi32(bits.cast_signed())) }
    }
    #[inline(always)]
    fn add_pairs(self, x: __m512bh, y: __m512bh) -> Self {
        // SAFETY: see above the impl.
        Self(unsafe { _mm512_dpbf16_ps(self.0, x, y) })
    }
    #[inline(always)]
    fn store_bf16(self, out: &mut [bf16; WIDTH]) -> Self {
        // SAFETY: see above the impl; 256 bits are sixteen bf16.
        unsafe {
            let half = transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(self.0));
            _mm256_storeu_si256(out.as_mut_ptr().cast(), half);
        }
        Self::load_bf16(out)
    }
}

impl Avx2 {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(__m256, __m256) -> __m256) -> Self {
        Self([f(self.0[0], other.0[0]), f(self.0[1], other.0[1])])
    }
}

impl Lanes for Avx2 {
    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: see above the first impl.
        Self([unsafe { _mm256_set1_ps(x) }; 2])
    }
    #[inline(always)]
    fn load(x: &[f32; WIDTH]) -> Self {
        // SAFETY: see above the first impl.
        unsafe { Self([_mm256_loadu_ps(x.as_ptr()), _mm256_loadu_ps(x.as_ptr().add(8))]) }
    }
    #[inline(always)]
    fn store(self, out: &mut [f32; WIDTH]) {
        // SAFETY: see above the first impl.
        unsafe {
            _mm256_storeu_ps(out.as_mut_ptr(), self.0[0]);
            _mm256_storeu_ps(out.as_mut_ptr().add(8), self.0[1]);
        }
    }
    #[inline(always)]
    fn load_bf16(x: &[bf16; WIDTH]) -> Self {
        // SAFETY: see above the first impl.
        let half = |at: usize| unsafe {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(x.as_ptr().add(at).cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
        };
        Self([half(0), half(8)])
    }
    #[inline(always)]
    fn load_f16(x: &[f16; WIDTH]) -> Self {
        // SAFETY: see above the first impl.
        let half = |at: usize| unsafe { _mm256_cvtph_ps(_mm_loadu_si128(x.as_ptr().add(at).cast())) };
        Self([half(0), half(8)])
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: see above the first impl.
        self.zip(other, |a, b| unsafe { _mm256_add_ps(a, b) })
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: see above the first impl.
        self.zip(other, |a, b| unsafe { _mm256_sub_ps(a, b) })
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: see above the first impl.
        self.zip(other, |a, b| unsafe { _mm256_mul_ps(a, b) })
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        // SAFETY: see above the first impl.
        self.zip(other, |a, b| unsafe { _mm256_div_ps(a, b) })
    }
    #[inline(always)]
    fn mul_add(self, by: Self, plus: Self) -> Self {
        // SAFETY: see above the first impl.
        let half = |i: usize| unsafe { _mm256_fmadd_ps(self.0[i], by.0[i], plus.0[i]) };
        Self([half(0), half(1)])
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        // SAFETY: see above the first impl.
        self.zip(other, |a, b| unsafe { _mm256_max_ps(a, b) })
    }
    #[inline(always)]
    fn scale_exponent(self, shift: Self) -> Self {
        // SAFETY: see above the first impl.
        self.zip(shift, |a, s| unsafe {
            let by = _mm256_slli_epi32::<23>(_mm256_castps_si256(s));
            _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), by))
        })
    }
    #[inline(always)]
    fn keep_at_least(self, test: Self, bound: Self) -> Self {
        // SAFETY: see above the first impl.
        let half = |i: usize| unsafe {
            _mm256_and_ps(self.0[i], _mm256_cmp_ps::<_CMP_GE_OQ>(test.0[i], bound.0[i]))
        };
        Self([half(0), half(1)])
    }
    /// First halves, second halves.
    type Pairs = [Self; 2];
    #[inline(always)]
    fn load_pairs(x: &[[bf16; 2]; WIDTH]) -> [Self; 2] {
        // SAFETY: see above the first impl; eight pairs are 256 bits.
        unsafe {
            let both = [0, 8].map(|at| _mm256_loadu_si256(x.as_ptr().add(at).cast()));
            let first = both.map(|both| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(both)));
            let high = _mm256_castsi256_ps(_mm256_set1_epi32(0xffff_0000_u32.cast_signed()));
            let second = both.map(|both| _mm256_and_ps(_mm256_castsi256_ps(both), high));
            [Self(first), Self(second)]
        }
    }
    #[inline(always)]
    fn splat_pair(x: [bf16; 2]) -> [Self; 2] {
        x.map(|half| Self::splat(super::widened(half)))
    }
    #[inline(always)]
    fn add_pairs(self, x: [Self; 2], y: [Self; 2]) -> Self {
        x[0].mul_add(y[0], x[1].mul_add(y[1], self))
    }
    #[inline(always)]
    fn store_bf16(self, out: &mut [bf16; WIDTH]) -> Self {
        let mut lanes = [0.0; WIDTH];
        self.store(&mut lanes);
        let super::Portable(rounded) = super::Portable(lanes).store_bf16(out);
        Self::load(&rounded)
    }
}
