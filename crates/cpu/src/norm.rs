//! Root-mean-square norm of rows, centred or not. A row is computed in f32 in one fixed order, independent of
//! other rows.

use rayon::prelude::*;

use super::{
    Isa,
    lanes::{Lanes, WIDTH, sum},
    on_isa,
};

/// A thread takes at least this many elements, so that small batches stay on one thread.
const MIN_ELEMENTS: usize = 1 << 14;

/// The rows of a norm.
#[derive(Clone, Copy)]
pub(super) struct Norm<'a> {
    pub isa: Isa,
    pub weight: &'a [f32],
    pub eps: f32,
    /// The mean is subtracted first.
    pub is_centred: bool,
}

impl Norm<'_> {
    /// Norms of neighbouring `group` values of each row, by the weights at their places.
    ///
    /// Shape: `[rows, weight.len()]`.
    pub(super) fn groups(self, x: &mut [f32], group: usize) {
        let Self { isa, weight, eps, is_centred } = self;
        let cols = weight.len();
        x.par_chunks_mut(cols).with_min_len(MIN_ELEMENTS.div_ceil(cols)).for_each(|row| {
            for (values, weight) in row.chunks_exact_mut(group).zip(weight.chunks_exact(group)) {
                if is_centred {
                    on_isa!(isa, centred<>(values: &mut [f32]));
                }
                in_place(isa, values, weight, eps);
            }
        });
    }
}

impl Norm<'_> {
    /// Norms of whole rows, with a bias added.
    ///
    /// Shape: `x` `[rows, cols]`, weight and bias `[cols]`.
    pub(super) fn with_bias(self, x: &mut [f32], bias: &[f32]) {
        let (Self { isa, .. }, cols) = (self, bias.len());
        self.groups(x, cols);
        x.par_chunks_mut(cols)
            .with_min_len(MIN_ELEMENTS.div_ceil(cols))
            .for_each(|row| on_isa!(isa, added<>(row: &mut [f32], bias: &[f32])));
    }
}

/// `x / sqrt(mean(x^2) + eps) * weight`, row by row.
///
/// Shape: `x` and the result `[rows, weight.len()]`.
pub(super) fn rows(isa: Isa, x: &[f32], weight: &[f32], eps: f32) -> Vec<f32> {
    let mut y = x.to_vec();
    Norm { isa, weight, eps, is_centred: false }.groups(&mut y, weight.len());
    y
}

/// Norms one row in place.
pub(super) fn in_place(isa: Isa, row: &mut [f32], weight: &[f32], eps: f32) {
    on_isa!(isa, normed<>(row: &mut [f32], weight: &[f32], eps: f32));
}

/// `scale * head / sqrt(sum(head^2) + eps)`, in place.
pub(super) fn unit(isa: Isa, head: &mut [f32], eps: f32, scale: f32) {
    on_isa!(isa, to_unit<>(head: &mut [f32], eps: f32, scale: f32));
}

/// `sums *= factor`, row by row of `cols` values.
pub(super) fn scale(isa: Isa, sums: &mut [f32], cols: usize, factor: f32) {
    sums.par_chunks_mut(cols)
        .with_min_len(MIN_ELEMENTS.div_ceil(cols))
        .for_each(|sums| on_isa!(isa, scaled<>(sums: &mut [f32], factor: f32)));
}

/// `sums += more`, row by row; each row of `more` is normed first where there are weights for it.
///
/// Shape: both `[rows, cols]`.
pub(super) fn add(isa: Isa, sums: &mut [f32], more: &mut [f32], cols: usize, norm: Option<(&[f32], f32)>) {
    sums.par_chunks_mut(cols)
        .zip(more.par_chunks_mut(cols))
        .with_min_len(MIN_ELEMENTS.div_ceil(cols))
        .for_each(|(sums, more)| {
            if let Some((weight, eps)) = norm {
                in_place(isa, more, weight, eps);
            }
            on_isa!(isa, added<>(sums: &mut [f32], more: &[f32]));
        });
}

#[inline(always)]
fn normed<L: Lanes>(row: &mut [f32], weight: &[f32], eps: f32) {
    let scale = 1.0 / (sum_of_squares::<L>(row) / row.len() as f32 + eps).sqrt();
    let ((chunks, tail), (weights, last)) = (row.as_chunks_mut::<WIDTH>(), weight.as_chunks::<WIDTH>());
    for (x, w) in chunks.iter_mut().zip(weights) {
        L::load(x).mul(L::splat(scale)).mul(L::load(w)).store(x);
    }
    for (x, w) in tail.iter_mut().zip(last) {
        *x = *x * scale * w;
    }
}

/// `x -= mean(x)`.
#[inline(always)]
fn centred<L: Lanes>(values: &mut [f32]) {
    let n = values.len() as f32;
    let (chunks, tail) = values.as_chunks_mut::<WIDTH>();
    let mut last = [0.0; WIDTH];
    last[..tail.len()].copy_from_slice(tail);
    let total = chunks.iter().chain([&last]).fold(L::splat(0.0), |total, x| total.add(L::load(x)));
    let mean = sum(total) / n;
    for x in chunks {
        L::load(x).sub(L::splat(mean)).store(x);
    }
    for x in tail {
        *x -= mean;
    }
}

#[inline(always)]
fn to_unit<L: Lanes>(head: &mut [f32], eps: f32, scale: f32) {
    let by = scale / (sum_of_squares::<L>(head) + eps).sqrt();
    let (chunks, tail) = head.as_chunks_mut::<WIDTH>();
    for x in chunks {
        L::load(x).mul(L::splat(by)).store(x);
    }
    for x in tail {
        *x *= by;
    }
}

#[inline(always)]
fn scaled<L: Lanes>(sums: &mut [f32], factor: f32) {
    let (chunks, tail) = sums.as_chunks_mut::<WIDTH>();
    for lanes in chunks {
        L::load(lanes).mul(L::splat(factor)).store(lanes);
    }
    for x in tail {
        *x *= factor;
    }
}

#[inline(always)]
fn added<L: Lanes>(sums: &mut [f32], more: &[f32]) {
    let ((chunks, tail), (values, last)) = (sums.as_chunks_mut::<WIDTH>(), more.as_chunks::<WIDTH>());
    for (sum, more) in chunks.iter_mut().zip(values) {
        L::load(sum).add(L::load(more)).store(sum);
    }
    tail.iter_mut().zip(last).for_each(|(sum, more)| *sum += *more);
}

/// The sum of squares in 32 partial sums, which are added as a tree.
#[inline(always)]
fn sum_of_squares<L: Lanes>(x: &[f32]) -> f32 {
    let mut sums = [L::splat(0.0); 2];
    let (chunks, tail) = x.as_chunks::<{ 2 * WIDTH }>();
    let mut last = [0.0; 2 * WIDTH];
    last[..tail.len()].copy_from_slice(tail);
    for both in chunks.iter().chain([&last]) {
        let (halves, _) = both.as_chunks::<WIDTH>();
        let (first, second) = (L::load(&halves[0]), L::load(&halves[1]));
        sums = [sums[0].add(first.mul(first)), sums[1].add(second.mul(second))];
    }
    sum(sums[0].add(sums[1]))
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
            for (row, y) in x.chunks(cols).zip(rows(Isa::detect(), &x, &weight, 1e-5).chunks(cols)) {
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
        assert_eq!(rows(Isa::detect(), &[-4.0; 64], &weight, 0.0), expected);
    }

    #[test]
    fn groups_are_centred_and_normed_by_weights_of_their_own() {
        let (cols, group) = (96, 24);
        let (mut x, weight) = (noise(2 * cols, 4), noise(cols, 5));
        let before = x.clone();
        Norm { isa: Isa::detect(), weight: &weight, eps: 1e-5, is_centred: true }.groups(&mut x, group);
        for (at, (values, normed)) in before.chunks(group).zip(x.chunks(group)).enumerate() {
            let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / group as f64;
            let square = |&v: &f32| (f64::from(v) - mean).powi(2);
            let root = (values.iter().map(square).sum::<f64>() / group as f64 + 1e-5).sqrt();
            let weights = &weight[at * group % cols..][..group];
            for ((&v, &w), &y) in values.iter().zip(weights).zip(normed) {
                let expected = (f64::from(v) - mean) / root * f64::from(w);
                assert!((f64::from(y) - expected).abs() < 1e-5, "{y} for {expected}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_row_has_the_same_bits_alone_and_on_every_isa(n in 1_usize..40, cols in 1_usize..200, seed: u32) {
            let (x, weight) = (noise(n * cols, seed), noise(cols, seed ^ 7));
            let all = rows(Isa::PORTABLE, &x, &weight, 1e-6);
            for isa in Isa::available() {
                for (row, expected) in x.chunks(cols).zip(all.chunks(cols)) {
                    prop_assert_eq!(bits(&rows(isa, row, &weight, 1e-6)), bits(expected));
                }
                let mut sums = noise(n * cols, seed ^ 9);
                let expected: Vec<f32> = sums.iter().zip(&all).map(|(sum, y)| sum + y).collect();
                add(isa, &mut sums, &mut x.clone(), cols, Some((&weight, 1e-6)));
                prop_assert_eq!(bits(&sums), bits(&expected));
                let centred = |isa: Isa, x: &[f32]| {
                    let mut x = x.to_vec();
                    Norm { isa, weight: &weight, eps: 1e-6, is_centred: true }.groups(&mut x, cols);
                    bits(&x)
                };
                prop_assert_eq!(centred(isa, &x[..cols]), centred(Isa::PORTABLE, &x)[..cols].to_vec());
            }
        }
    }
}
