//! The lanes of NEON: four registers. The operations are defined in [`super::Lanes`].
//!
//! Not used: `fmax`, which gives NaN where one side is NaN (the other instruction sets give the second side),
//! and the products of bf16 pairs (`bfdot`, `bfmmla`), which round as no other instruction set does.

use std::arch::aarch64::{
    float32x4_t, uint32x4_t, vaddq_f32, vaddq_u32, vandq_u32, vbslq_f32, vcgeq_f32, vcgtq_f32, vcvt_f32_f16,
    vdivq_f32, vdupq_n_f32, vdupq_n_u32, vfmaq_f32, vld1_u16, vld1q_f32, vld1q_u32, vmulq_f32,
    vreinterpret_f16_u16, vreinterpretq_f32_u32, vreinterpretq_u32_f32, vrev64q_f32, vshlq_n_u32,
    vshrq_n_u32, vst1q_f32, vsubq_f32,
};

use super::{Lanes, WIDTH, bf16, f16, widened};

/// Four 128-bit registers. Every processor of this architecture has NEON, so that its instructions are
/// enabled everywhere.
#[derive(Clone, Copy)]
pub struct Neon(pub(crate) [float32x4_t; 4]);

/// Applies an operation to all four registers.
macro_rules! each {
    ($operation:ident, $($argument:expr),+) => {
        // SAFETY: NEON is everywhere; loads and stores stay inside their arrays.
        unsafe {
            Self([
                $operation($($argument.0[0]),+),
                $operation($($argument.0[1]),+),
                $operation($($argument.0[2]),+),
                $operation($($argument.0[3]),+),
            ])
        }
    };
}

/// Gathers the four registers from an expression of their number. No loop: the compiler does not always
/// unroll it.
macro_rules! four {
    (|$i:ident| $of:expr) => {
        // SAFETY: NEON is everywhere; loads and stores stay inside their arrays.
        unsafe {
            Self([
                {
                    let $i = 0;
                    $of
                },
                {
                    let $i = 1;
                    $of
                },
                {
                    let $i = 2;
                    $of
                },
                {
                    let $i = 3;
                    $of
                },
            ])
        }
    };
}

/// The larger; `b` where either is NaN, or both are zeros.
#[inline]
#[target_feature(enable = "neon")]
fn larger(a: float32x4_t, b: float32x4_t) -> float32x4_t {
    vbslq_f32(vcgtq_f32(a, b), a, b)
}

/// `a * 2^s` for whole numbers in the low bits of `s`.
#[inline]
#[target_feature(enable = "neon")]
fn scaled(a: float32x4_t, s: float32x4_t) -> float32x4_t {
    let by = vshlq_n_u32::<23>(vreinterpretq_u32_f32(s));
    vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(a), by))
}

/// `a` where `test >= bound`.
#[inline]
#[target_feature(enable = "neon")]
fn kept(a: float32x4_t, test: float32x4_t, bound: float32x4_t) -> float32x4_t {
    vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(a), vcgeq_f32(test, bound)))
}

/// The upper halves of the words.
#[inline]
#[target_feature(enable = "neon")]
fn upper(words: uint32x4_t) -> float32x4_t {
    vreinterpretq_f32_u32(vandq_u32(words, vdupq_n_u32(0xffff_0000)))
}

/// Finite numbers to the nearest bf16, to even, as floats.
#[inline]
#[target_feature(enable = "neon")]
fn rounded(x: float32x4_t) -> float32x4_t {
    let bits = vreinterpretq_u32_f32(x);
    let odd = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
    upper(vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff))))
}

// SAFETY (every block below): NEON is everywhere; loads and stores take arrays of exactly one vector's
// length.
impl Lanes for Neon {
    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: NEON is everywhere; no memory is accessed.
        Self([unsafe { vdupq_n_f32(x) }; 4])
    }
    #[inline(always)]
    fn load(x: &[f32; WIDTH]) -> Self {
        four!(|i| vld1q_f32(x.as_ptr().add(4 * i)))
    }
    #[inline(always)]
    fn store(self, out: &mut [f32; WIDTH]) {
        let out = out.as_mut_ptr();
        // SAFETY: NEON is everywhere; loads and stores stay inside their arrays.
        unsafe {
            vst1q_f32(out, self.0[0]);
            vst1q_f32(out.add(4), self.0[1]);
            vst1q_f32(out.add(8), self.0[2]);
            vst1q_f32(out.add(12), self.0[3]);
        }
    }
    #[inline(always)]
    fn load_f16(x: &[f16; WIDTH]) -> Self {
        let at: *const u16 = x.as_ptr().cast();
        four!(|i| vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(at.add(4 * i)))))
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        each!(vaddq_f32, self, other)
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        each!(vsubq_f32, self, other)
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        each!(vmulq_f32, self, other)
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        each!(vdivq_f32, self, other)
    }
    #[inline(always)]
    fn mul_add(self, by: Self, plus: Self) -> Self {
        each!(vfmaq_f32, plus, self, by)
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        each!(larger, self, other)
    }
    #[inline(always)]
    fn scale_exponent(self, shift: Self) -> Self {
        each!(scaled, self, shift)
    }
    #[inline(always)]
    fn keep_at_least(self, test: Self, bound: Self) -> Self {
        each!(kept, self, test, bound)
    }
    pairs_as_floats!();
    #[inline(always)]
    fn load_swapped(x: &[[bf16; 2]; WIDTH]) -> [Self; 2] {
        let at: *const u32 = x.as_ptr().cast();
        // Four pairs are 128 bits.
        let second = four!(|i| upper(vld1q_u32(at.add(4 * i))));
        [second, four!(|i| vreinterpretq_f32_u32(vshlq_n_u32::<16>(vld1q_u32(at.add(4 * i)))))]
    }
    #[inline(always)]
    fn store_pairs(self, out: &mut [[f32; 2]]) -> Self {
        let out: &mut [f32; WIDTH] = out.as_flattened_mut().first_chunk_mut().expect("eight pairs");
        let rounded = each!(rounded, self);
        each!(vrev64q_f32, rounded).store(out);
        rounded
    }
}
