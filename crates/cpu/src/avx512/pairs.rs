//! The `bf16` kernel: one weight register (16 outputs) is multiplied with each row of the tile, whose sums
//! stay in registers.

use half::bf16;

use crate::ahead;
use crate::int8::{AHEAD, line_ahead, load, store};
use crate::lanes::{Avx512, Lanes as _};
use crate::layout::{PAIR, Panel};
use crate::portable::Lanes;

/// Rows whose sums stay in registers together.
const ROWS: usize = 8;

/// `bf16` weights `[k / 2][lane][2]` of one or two panels by activations `[k / 2][height][2]`. Where
/// `is_first`, the weights are not in a cache yet and are prefetched.
///
/// # Safety
/// The machine has AVX-512 F and BF16.
#[target_feature(enable = "avx512f,avx512bf16")]
pub(crate) unsafe fn bf16_pairs(panels: &[Panel], x: &[[bf16; 2]], is_first: bool, sums: &mut [Lanes]) {
    match panels {
        [one] => rows([one], x, is_first, sums),
        [one, two] => rows([one, two], x, is_first, sums),
        _ => unreachable!("one or two panels"),
    }
}

/// The rows of a tile, `ROWS` at a time. A height is 1, 2 or a multiple of 4.
#[inline(always)]
fn rows<const N: usize>(panels: [&Panel; N], x: &[[bf16; 2]], is_first: bool, sums: &mut [Lanes]) {
    let height = sums.len() / N;
    for first in (0..height).step_by(ROWS) {
        let is_first = is_first && first == 0;
        match height - first {
            1 => some_rows::<N, 1>(panels, x, is_first, sums, first),
            2 => some_rows::<N, 2>(panels, x, is_first, sums, first),
            4 => some_rows::<N, 4>(panels, x, is_first, sums, first),
            _ => some_rows::<N, ROWS>(panels, x, is_first, sums, first),
        }
    }
}

/// Rows `first..first + R`.
#[inline(always)]
fn some_rows<const N: usize, const R: usize>(
    panels: [&Panel; N],
    x: &[[bf16; 2]],
    is_first: bool,
    sums: &mut [Lanes],
    first: usize,
) {
    let height = sums.len() / N;
    let n_pairs = x.len() / height;
    let weights = panels.map(|panel| &panel.pairs()[..n_pairs]);
    assert!(first + R <= height, "rows of the tile");
    // SAFETY: there are `height` rows of sums for each panel, and as many as these.
    let mut local = unsafe { load::<Avx512, N, R>(sums, height, first) };
    for (k, x) in x.chunks_exact(height).enumerate() {
        if is_first {
            for panel in panels {
                let at = size_of::<Lanes>() * k + AHEAD;
                ahead::read(line_ahead(panel.values, PAIR * panel.pitch.0, at));
            }
        }
        let x: &[[bf16; 2]; R] = x[first..].first_chunk().expect("the tile's rows");
        let mut pairs = [Avx512::load_pairs(&weights[0][k]); N];
        for p in 1..N {
            pairs[p] = Avx512::load_pairs(&weights[p][k]);
        }
        for r in 0..R {
            let x = Avx512::splat_pair(Avx512::pair(x[r]));
            for p in 0..N {
                local[r][p] = local[r][p].add_pairs(pairs[p], x);
            }
        }
    }
    // SAFETY: there are `height` rows of sums for each panel, and as many as these.
    unsafe { store(&local, sums, height, first) };
}
