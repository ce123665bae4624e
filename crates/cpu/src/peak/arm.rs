//! The limits of NEON. Each function returns the products of a round.

use std::arch::aarch64::{vdupq_n_f32, vdupq_n_s8, vdupq_n_s32, vfmaq_f32};
use std::hint::black_box;

use super::CHAINS;
use crate::neon::{Fours, Matrices, Pairs};

/// Rounds of integer products, `$products` in each of them.
macro_rules! integers {
    ($rounds:expr, $products:literal, |$sum:ident, $a:ident, $b:ident| $add:expr) => {{
        let ($a, $b) = (black_box(vdupq_n_s8(1)), black_box(vdupq_n_s8(3)));
        let mut sums = [vdupq_n_s32(0); CHAINS];
        for _ in 0..$rounds {
            for sum in &mut sums {
                let $sum = *sum;
                *sum = $add;
            }
        }
        black_box(sums);
        CHAINS * $products
    }};
}

/// # Safety
/// Any machine of this architecture will do.
pub(super) unsafe fn int8(rounds: usize) -> usize {
    // SAFETY: NEON is everywhere; a reference is read. The volatile read keeps the compiler from reusing one
    // product for all rounds.
    unsafe { integers!(rounds, 16, |sum, a, b| Pairs::add(sum, a, std::ptr::read_volatile(&raw const b))) }
}

/// # Safety
/// The machine has `dotprod`.
#[target_feature(enable = "dotprod")]
pub(super) unsafe fn int8_dotprod(rounds: usize) -> usize {
    // SAFETY: no memory is accessed; the machine has `dotprod`, as this function requires.
    unsafe { integers!(rounds, 16, |sum, a, b| Fours::add(sum, a, b)) }
}

/// # Safety
/// The machine has `i8mm`.
#[target_feature(enable = "i8mm")]
pub(super) unsafe fn int8_i8mm(rounds: usize) -> usize {
    // SAFETY: no memory is accessed; the machine has `i8mm`, as this function requires.
    unsafe { integers!(rounds, 32, |sum, a, b| Matrices::add(sum, a, b)) }
}

/// # Safety
/// Any machine of this architecture will do.
pub(super) unsafe fn f32(rounds: usize) -> usize {
    // SAFETY: NEON is everywhere.
    unsafe {
        let one = black_box(vdupq_n_f32(1.0));
        let mut sums = [vdupq_n_f32(0.0); CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = vfmaq_f32(*sum, one, one);
            }
        }
        black_box(sums);
        CHAINS * 4
    }
}
