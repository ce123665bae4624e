//! The lanes of AVX-512 and of AVX2: one register, and two. The operations are defined in [`super::Lanes`].

use std::arch::x86_64::{
    __m128i, __m256, __m256bh, __m256i, __m512, __m512bh, __m512i, _CMP_GE_OQ, _mm_loadu_si128,
    _mm256_add_epi32, _mm256_add_ps, _mm256_and_ps, _mm256_and_si256, _mm256_castps_si256,
    _mm256_castsi256_ps, _mm256_cmp_ps, _mm256_cvtph_ps, _mm256_div_ps, _mm256_fmadd_ps, _mm256_loadu_ps,
    _mm256_loadu_si256, _mm256_max_ps, _mm256_mul_ps, _mm256_permute_ps, _mm256_set1_epi32, _mm256_set1_ps,
    _mm256_slli_epi32, _mm256_srli_epi32, _mm256_storeu_ps, _mm256_storeu_si256, _mm256_sub_ps,
    _mm512_add_epi32, _mm512_add_ps, _mm512_and_si512, _mm512_castps_si512, _mm512_castsi512_ps,
    _mm512_cmp_ps_mask, _mm512_cvtepu16_epi32, _mm512_cvtneps_pbh, _mm512_cvtph_ps, _mm512_div_ps,
    _mm512_dpbf16_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_maskz_mov_ps,
    _mm512_max_ps, _mm512_mul_ps, _mm512_permute_ps, _mm512_set1_epi32, _mm512_set1_ps, _mm512_slli_epi32,
    _mm512_storeu_ps, _mm512_sub_ps,
};

use std::mem::transmute;

use super::{Lanes, WIDTH, bf16, f16, widened};

/// One 512-bit register. Made only inside functions that enable AVX-512F.
#[derive(Clone, Copy)]
pub struct Avx512(__m512);

/// One 512-bit register, for processors that multiply floats twice as fast as pairs of bf16. Made only inside
/// functions that enable AVX-512F.
#[derive(Clone, Copy)]
pub struct Avx512Floats(__m512);

/// Two 256-bit registers. Made only inside functions that enable AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub struct Avx2([__m256; 2]);

/// The operations of one register of 512 bits that do not depend on how pairs are multiplied.
macro_rules! of_one_register {
    () => {
        #[inline(always)]
        fn splat(x: f32) -> Self {
            // SAFETY: the type exists only where AVX-512F is enabled; no memory is accessed.
            Self(unsafe { _mm512_set1_ps(x) })
        }
        #[inline(always)]
        fn load(x: &[f32; WIDTH]) -> Self {
            // SAFETY: the type exists only where AVX-512F is enabled; the array has 16 floats.
            Self(unsafe { _mm512_loadu_ps(x.as_ptr()) })
        }
        #[inline(always)]
        fn store(self, out: &mut [f32; WIDTH]) {
            // SAFETY: the type exists only where AVX-512F is enabled; the array has 16 floats.
            unsafe { _mm512_storeu_ps(out.as_mut_ptr(), self.0) }
        }
        #[inline(always)]
        fn load_f16(x: &[f16; WIDTH]) -> Self {
            // SAFETY: the type exists only where AVX-512F is enabled; the array has 16 halves.
            unsafe { Self(_mm512_cvtph_ps(_mm256_loadu_si256(x.as_ptr().cast()))) }
        }
        #[inline(always)]
        fn add(self, other: Self) -> Self {
            // SAFETY: the type exists only where AVX-512F is enabled; no memory is accessed.
            Self(unsafe { _mm512_add_ps(self.0, other.0) })
        }
        #[inline(always)]
        fn sub(self, other: Self) -> Self {
            // SAFETY: the type exists only where AVX-512F is enabled; no memory is accessed.
            Self(unsafe { _mm512_sub_ps(self.0, other.0) })
        }
        #[inline(always)]
        fn mul(self, other: Self) -> Self {
            // SAFETY: the type exists only where AVX-512F is enabled; no memory is accessed.
            Self(unsafe { _mm512_mul_ps(self.0, other.0) })
        }
        #[inline(always)]
        fn div(self, other: Self) -> Self {
            // SAFETY: the type exists only where AVX-512F is enabled; no memory is accessed.
            Self(unsafe { _mm512_div_ps(self.0, other.0) })
        }
        #[inline(always)]
        fn mul_add(self, by: Self, plus: Self) -> Self {
            // SAFETY: the type exists only where AVX-512F is enabled; no memory is accessed.
            Self(unsafe { _mm512_fmadd_ps(self.0, by.0, plus.0) })
        }
        #[inline(always)]
        fn max(self, other: Self) -> Self {
            // SAFETY: the type exists only where AVX-512F is enabled; no memory is accessed.
            Self(unsafe { _mm512_max_ps(self.0, other.0) })
        }
        #[inline(always)]
        fn scale_exponent(self, shift: Self) -> Self {
            // SAFETY: the type exists only where AVX-512F is enabled; no memory is accessed.
            unsafe {
                let by = _mm512_slli_epi32::<23>(_mm512_castps_si512(shift.0));
                Self(_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(self.0), by)))
            }
        }
        #[inline(always)]
        fn keep_at_least(self, test: Self, bound: Self) -> Self {
            // SAFETY: the type exists only where AVX-512F is enabled; no memory is accessed.
            unsafe {
                let keep = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(test.0, bound.0);
                Self(_mm512_maskz_mov_ps(keep, self.0))
            }
        }
        const ROWS: usize = 8;
        const MANY: bool = true;
        #[inline(always)]
        fn load_swapped(x: &[[bf16; 2]; WIDTH]) -> [Self; 2] {
            // SAFETY: the type exists only where AVX-512F is enabled; sixteen pairs are 512 bits.
            unsafe {
                let pairs = _mm512_loadu_si512(x.as_ptr().cast());
                let high = _mm512_set1_epi32(0xffff_0000_u32.cast_signed());
                let second = _mm512_castsi512_ps(_mm512_and_si512(pairs, high));
                [Self(second), Self(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs)))]
            }
        }
    };
}

// SAFETY (every block below): the types' contracts say that the features are enabled where they are used;
// loads and stores take arrays of exactly one vector's length.
impl Lanes for Avx512 {
    of_one_register!();
    const PAIRED: bool = true;
    type Pairs = __m512bh;
    type Pair = f32;
    #[inline(always)]
    fn load_pairs(x: &[[bf16; 2]; WIDTH]) -> __m512bh {
        // SAFETY: the type exists only where its features are enabled; any bits are a vector of bf16.
        unsafe { transmute::<__m512i, __m512bh>(_mm512_loadu_si512(x.as_ptr().cast())) }
    }
    #[inline(always)]
    fn pair(x: [bf16; 2]) -> f32 {
        f32::from_bits(u32::from(x[1].to_bits()) << 16 | u32::from(x[0].to_bits()))
    }
    #[inline(always)]
    fn pairs(words: &[f32]) -> &[f32] {
        words
    }
    #[inline(always)]
    fn pairs_mut(words: &mut [f32]) -> &mut [f32] {
        words
    }
    #[inline(always)]
    fn splat_pair(x: f32) -> __m512bh {
        // SAFETY: the type exists only where its features are enabled; any bits are a vector of bf16.
        unsafe { transmute::<__m512i, __m512bh>(_mm512_set1_epi32(x.to_bits().cast_signed())) }
    }
    #[inline(always)]
    fn add_pairs(self, x: __m512bh, y: __m512bh) -> Self {
        // SAFETY: the type exists only where its features are enabled; no memory is accessed.
        Self(unsafe { _mm512_dpbf16_ps(self.0, x, y) })
    }
    #[inline(always)]
    fn store_pairs(self, out: &mut [f32]) -> Self {
        let out: &mut [f32; WIDTH / 2] = out.first_chunk_mut().expect("eight pairs");
        // SAFETY: the type exists only where its features are enabled; 256 bits are eight pairs.
        unsafe {
            let half = transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(self.0));
            _mm256_storeu_si256(out.as_mut_ptr().cast(), half);
            Self(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(half))))
        }
    }
}

impl Lanes for Avx512Floats {
    of_one_register!();
    pairs_as_floats!();
    #[inline(always)]
    fn store_pairs(self, out: &mut [[f32; 2]]) -> Self {
        let out: &mut [f32; WIDTH] = out.as_flattened_mut().first_chunk_mut().expect("eight pairs");
        // SAFETY: the type exists only where its features are enabled; loads and stores stay inside their
        // arrays.
        unsafe {
            let half = transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(self.0));
            let rounded = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(half)));
            Self(_mm512_permute_ps::<0b10_11_00_01>(rounded)).store(out);
            Self(rounded)
        }
    }
}

/// Applies an operation to both registers. No closures: only code inlined into a function that enables the
/// instructions may use them.
macro_rules! both {
    ($operation:ident, $($argument:expr),+) => {
        // SAFETY: the type exists only where AVX2, FMA and F16C are enabled; no memory is accessed.
        unsafe { Self([$operation($($argument.0[0]),+), $operation($($argument.0[1]),+)]) }
    };
}

/// `a * 2^s` for whole numbers in the low bits of `s`.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn scaled(a: __m256, s: __m256) -> __m256 {
    // SAFETY: no memory is accessed; the machine has AVX2, as this function requires.
    unsafe {
        let by = _mm256_slli_epi32::<23>(_mm256_castps_si256(s));
        _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), by))
    }
}

/// `a` where `test >= bound`.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn kept(a: __m256, test: __m256, bound: __m256) -> __m256 {
    // SAFETY: no memory is accessed; the machine has AVX2, as this function requires.
    unsafe { _mm256_and_ps(a, _mm256_cmp_ps::<_CMP_GE_OQ>(test, bound)) }
}

/// Finite numbers to the nearest bf16, to even, as floats.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn rounded(x: __m256) -> __m256 {
    // SAFETY: no memory is accessed; the machine has AVX2, as this function requires.
    unsafe {
        let bits = _mm256_castps_si256(x);
        let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        let up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
        _mm256_castsi256_ps(_mm256_and_si256(up, _mm256_set1_epi32(0xffff_0000_u32.cast_signed())))
    }
}

impl Lanes for Avx2 {
    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: the type exists only where AVX2, FMA and F16C are enabled; no memory is accessed.
        Self([unsafe { _mm256_set1_ps(x) }; 2])
    }
    #[inline(always)]
    fn load(x: &[f32; WIDTH]) -> Self {
        // SAFETY: the type exists only where AVX2, FMA and F16C are enabled; the array has 16 floats.
        unsafe { Self([_mm256_loadu_ps(x.as_ptr()), _mm256_loadu_ps(x.as_ptr().add(8))]) }
    }
    #[inline(always)]
    fn store(self, out: &mut [f32; WIDTH]) {
        // SAFETY: the type exists only where AVX2, FMA and F16C are enabled; the array has 16 floats.
        unsafe {
            _mm256_storeu_ps(out.as_mut_ptr(), self.0[0]);
            _mm256_storeu_ps(out.as_mut_ptr().add(8), self.0[1]);
        }
    }
    #[inline(always)]
    fn load_f16(x: &[f16; WIDTH]) -> Self {
        let at: *const __m128i = x.as_ptr().cast();
        // SAFETY: the type exists only where AVX2, FMA and F16C are enabled; the array has 16 halves.
        unsafe { Self([_mm256_cvtph_ps(_mm_loadu_si128(at)), _mm256_cvtph_ps(_mm_loadu_si128(at.add(1)))]) }
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        both!(_mm256_add_ps, self, other)
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        both!(_mm256_sub_ps, self, other)
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        both!(_mm256_mul_ps, self, other)
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        both!(_mm256_div_ps, self, other)
    }
    #[inline(always)]
    fn mul_add(self, by: Self, plus: Self) -> Self {
        both!(_mm256_fmadd_ps, self, by, plus)
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        both!(_mm256_max_ps, self, other)
    }
    #[inline(always)]
    fn scale_exponent(self, shift: Self) -> Self {
        both!(scaled, self, shift)
    }
    #[inline(always)]
    fn keep_at_least(self, test: Self, bound: Self) -> Self {
        both!(kept, self, test, bound)
    }
    const ROWS: usize = 6;
    pairs_as_floats!();
    #[inline(always)]
    fn load_swapped(x: &[[bf16; 2]; WIDTH]) -> [Self; 2] {
        let at: *const __m256i = x.as_ptr().cast();
        // SAFETY: the type exists only where AVX2, FMA and F16C are enabled; eight pairs are 256 bits.
        unsafe {
            let (low, high) = (_mm256_loadu_si256(at), _mm256_loadu_si256(at.add(1)));
            let mask = _mm256_set1_epi32(0xffff_0000_u32.cast_signed());
            let second = [_mm256_and_si256(low, mask), _mm256_and_si256(high, mask)];
            let first = [_mm256_slli_epi32::<16>(low), _mm256_slli_epi32::<16>(high)];
            [
                Self([_mm256_castsi256_ps(second[0]), _mm256_castsi256_ps(second[1])]),
                Self([_mm256_castsi256_ps(first[0]), _mm256_castsi256_ps(first[1])]),
            ]
        }
    }
    #[inline(always)]
    fn store_pairs(self, out: &mut [[f32; 2]]) -> Self {
        let out: &mut [f32; WIDTH] = out.as_flattened_mut().first_chunk_mut().expect("eight pairs");
        let rounded = both!(rounded, self);
        // SAFETY: the type exists only where AVX2, FMA and F16C are enabled; loads stay inside their arrays.
        let swapped = unsafe {
            let [low, high] = rounded.0;
            Self([_mm256_permute_ps::<0b10_11_00_01>(low), _mm256_permute_ps::<0b10_11_00_01>(high)])
        };
        swapped.store(out);
        rounded
    }
}
