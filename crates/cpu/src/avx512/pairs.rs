//! The `bf16` kernel: one weight register (16 outputs) is multiplied with each row of the tile, whose sums
//! stay in registers.

use std::arch::x86_64::{
    __m512, __m512bh, __m512i, _mm512_dpbf16_ps, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_set1_epi32,
    _mm512_setzero_ps, _mm512_storeu_ps,
};

use half::bf16;

use super::{AHEAD, expect_read};
use crate::layout::Panel;
use crate::portable::Lanes;

/// Rows whose sums stay in registers together.
const ROWS: usize = 8;

/// Runs `$kernel::<N, R>` over the rows of a tile, `ROWS` at a time. A height is 1, 2 or a multiple of 4.
macro_rules! in_rows {
    ($kernel:ident, $n:literal, $height:expr, ($($argument:expr),+)) => {
        for first in (0..$height).step_by(ROWS) {
            match $height - first {
                1 => $kernel::<$n, 1>($($argument),+, first),
                2 => $kernel::<$n, 2>($($argument),+, first),
                4 => $kernel::<$n, 4>($($argument),+, first),
                _ => $kernel::<$n, ROWS>($($argument),+, first),
            }
        }
    };
}

/// # Safety
/// The machine has AVX-512 F.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load<const N: usize, const R: usize>(
    sums: &[Lanes],
    height: usize,
    first: usize,
) -> [[__m512; N]; R] {
    let mut local = [[_mm512_setzero_ps(); N]; R];
    for (r, local) in local.iter_mut().enumerate() {
        for (p, local) in local.iter_mut().enumerate() {
            // SAFETY: a row has 16 values.
            *local = unsafe { _mm512_loadu_ps(sums[p * height + first + r].as_ptr()) };
        }
    }
    local
}

/// # Safety
/// The machine has AVX-512 F.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store<const N: usize, const R: usize>(
    local: &[[__m512; N]; R],
    sums: &mut [Lanes],
    height: usize,
    first: usize,
) {
    for (r, local) in local.iter().enumerate() {
        for (p, &local) in local.iter().enumerate() {
            // SAFETY: a row has 16 values.
            unsafe { _mm512_storeu_ps(sums[p * height + first + r].as_mut_ptr(), local) };
        }
    }
}

/// `bf16` weights `[k / 2][lane][2]` of one or two panels by activations `[k / 2][height][2]`. Where
/// `is_first`, the weights are not in a cache yet and are prefetched.
///
/// # Safety
/// The machine has AVX-512 F and BF16.
#[target_feature(enable = "avx512f,avx512bf16")]
pub(crate) unsafe fn bf16_pairs(panels: &[Panel], x: &[[bf16; 2]], is_first: bool, sums: &mut [Lanes]) {
    let height = sums.len() / panels.len();
    let n_pairs = x.len() / height;
    assert!(panels.iter().all(|panel| panel.values.len() >= n_pairs * 64), "the same k");
    // SAFETY: the machine has the instructions; each panel has the asserted 64 bytes a pair; `in_rows` calls
    // with `first + R <= height`.
    unsafe {
        match panels {
            [one] => in_rows!(pair_rows, 1, height, ([one], x, is_first, sums)),
            [one, two] => in_rows!(pair_rows, 2, height, ([one, two], x, is_first, sums)),
            _ => unreachable!("one or two panels"),
        }
    }
}

/// # Safety
/// The machine has AVX-512 F and BF16; `sums` has `height` rows for each panel, `x` has `height` pairs for
/// each 64 bytes that can be read of each panel, and `first + R <= height`.
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn pair_rows<const N: usize, const R: usize>(
    panels: [&Panel; N],
    x: &[[bf16; 2]],
    is_first: bool,
    sums: &mut [Lanes],
    first: usize,
) {
    let height = sums.len() / N;
    let n_pairs = x.len() / height;
    let x: *const i32 = x.as_ptr().cast();
    // SAFETY: `first + R <= height`, so that rows of `sums` and `x` are inside their slices, and each panel
    // has 64 bytes a pair. A pair is as wide as an `i32`, read without alignment, and any bits are a vector
    // of `bf16`.
    unsafe {
        let pairs = |bits: __m512i| std::mem::transmute::<__m512i, __m512bh>(bits);
        let mut local = load::<N, R>(sums, height, first);
        for k in 0..n_pairs {
            if is_first && first == 0 {
                for panel in panels {
                    expect_read(panel.values, panel.pitch.0, 64 * k + AHEAD);
                }
            }
            let line = |panel: &Panel| _mm512_loadu_si512(panel.values.as_ptr().add(64 * k).cast());
            let weights = panels.map(|panel| pairs(line(panel)));
            for (r, sums) in local.iter_mut().enumerate() {
                let x = pairs(_mm512_set1_epi32(x.add(k * height + first + r).read_unaligned()));
                for (sum, &weights) in sums.iter_mut().zip(&weights) {
                    *sum = _mm512_dpbf16_ps(*sum, weights, x);
                }
            }
        }
        store(&local, sums, height, first);
    }
}
