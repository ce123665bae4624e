//! Root-mean-square norm of rows. A row is computed in f32 in one fixed order and reads nothing of another row.

use rayon::prelude::*;

/// Partial sums of one row.
const LANES: usize = 32;
/// A thread takes at least this many elements, so that small batches stay on one thread.
const MIN_ELEMENTS: usize = 1 << 14;

/// `x / sqrt(mean(x^2) + eps) * weight`, row by row.
///
/// Shape: `x` and the result `[rows, weight.len()]`.
pub(super) fn rows(x: &[f32], weight: &[f32], eps: f32) -> Vec<f32> {
    let cols = weight.len();
    let mut y = vec![0.0; x.len()];
    y.par_chunks_mut(cols)
        .zip(x.par_chunks(cols))
        .with_min_len(MIN_ELEMENTS.div_ceil(cols))
        .for_each(|(y, x)| row(x, weight, eps, y));
    y
}

fn row(x: &[f32], weight: &[f32], eps: f32, y: &mut [f32]) {
    let scale = scale(x, eps);
    for ((y, x), w) in y.iter_mut().zip(x).zip(weight) {
        *y = x * scale * w;
    }
}

/// Norms one row in place, with the bits of [`rows`].
pub(super) fn in_place(row: &mut [f32], weight: &[f32], eps: f32) {
    let scale = scale(row, eps);
    for (x, w) in row.iter_mut().zip(weight) {
        *x = *x * scale * w;
    }
}

/// `sums += more`, row by row; each row of `more` is normed first where there are weights for it.
///
/// Shape: both `[rows, cols]`.
pub(super) fn add(sums: &mut [f32], more: &mut [f32], cols: usize, norm: Option<(&[f32], f32)>) {
    sums.par_chunks_mut(cols)
        .zip(more.par_chunks_mut(cols))
        .with_min_len(MIN_ELEMENTS.div_ceil(cols))
        .for_each(|(sums, more)| {
            if let Some((weight, eps)) = norm {
                in_place(more, weight, eps);
            }
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += *more);
        });
}

/// `1 / sqrt(mean(x^2) + eps)`.
fn scale(x: &[f32], eps: f32) -> f32 {
    1.0 / (sum_of_squares(x) / x.len() as f32 + eps).sqrt()
}

fn sum_of_squares(x: &[f32]) -> f32 {
    let mut lanes = [0_f32; LANES];
    let whole = x.chunks_exact(LANES);
    let rest = whole.remainder();
    for chunk in whole.chain([rest]) {
        for (lane, v) in lanes.iter_mut().zip(chunk) {
            *lane += v * v;
        }
    }
    for distance in [16, 8, 4, 2, 1] {
        for lane in 0..distance {
            lanes[lane] += lanes[lane + distance];
        }
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Numbers in [-2, 2), neither round nor ordered.
    fn noise(n: usize, mut seed: u32) -> Vec<f32> {
        std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((seed >> 8) as f32 / 16_777_216.0 - 0.5) * 4.0
        })
        .take(n)
        .collect()
    }

    fn bits(x: &[f32]) -> Vec<u32> {
        x.iter().map(|x| x.to_bits()).collect()
    }

    #[test]
    fn agrees_with_f64_at_many_shapes() {
        for (n, cols) in
            [(3, 1), (3, 2), (3, 31), (3, 32), (3, 33), (3, 100), (3, 896), (3, 5120), (300, 576)]
        {
            let (x, weight) = (noise(n * cols, 1), noise(cols, 2));
            for (row, y) in x.chunks(cols).zip(rows(&x, &weight, 1e-5).chunks(cols)) {
                let squares: f64 = row.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
                let root = (squares / cols as f64 + 1e-5).sqrt();
                for ((&v, &w), &y) in row.iter().zip(&weight).zip(y) {
                    let wanted = f64::from(v) / root * f64::from(w);
                    let error = (f64::from(y) - wanted).abs();
                    assert!(error <= 1e-6 * wanted.abs().max(1e-2), "{y} for {wanted} at [{n}, {cols}]");
                }
            }
        }
    }

    #[test]
    fn a_row_of_equal_values_becomes_the_weight() {
        let weight = noise(64, 3);
        let expected: Vec<f32> = weight.iter().map(|w| -w).collect();
        assert_eq!(rows(&[-4.0; 64], &weight, 0.0), expected);
    }

    proptest! {
        #[test]
        fn a_row_has_the_same_bits_alone_and_in_place(n in 1_usize..40, cols in 1_usize..200, seed: u32) {
            let (x, weight) = (noise(n * cols, seed), noise(cols, seed ^ 7));
            let all = rows(&x, &weight, 1e-6);
            for (row, expected) in x.chunks(cols).zip(all.chunks(cols)) {
                prop_assert_eq!(bits(&rows(row, &weight, 1e-6)), bits(expected));
                let mut row = row.to_vec();
                in_place(&mut row, &weight, 1e-6);
                prop_assert_eq!(bits(&row), bits(expected));
            }
        }
    }
}
