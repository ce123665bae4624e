//! Ridge regression in closed form from sums of products, which add up over batches. A fold is left out by
//! subtracting its sums. Sums are f64, in a fixed order.

use candle_core::{Device, Tensor};

use super::{Error, Result};

/// Sums over rows of inputs `x` and targets `y`.
#[derive(Clone, Debug)]
pub struct Sums {
    /// Inputs.
    width: usize,
    /// Targets.
    n_targets: usize,
    pub n: f64,
    /// Shape: `[width]` and `[targets]`.
    x: Vec<f64>,
    y: Vec<f64>,
    /// Shape: `[width, width]`, `[width, targets]` and `[targets]`.
    xx: Vec<f64>,
    xy: Vec<f64>,
    yy: Vec<f64>,
}

/// A fitted linear map.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// Shape: `[targets][width]`.
    pub weights: Vec<Vec<f64>>,
    /// Shape: `[targets]`.
    pub biases: Vec<f64>,
}

impl Sums {
    pub fn new(width: usize, n_targets: usize) -> Self {
        let zeros = |n: usize| vec![0.0; n];
        Self {
            width,
            n_targets,
            n: 0.0,
            x: zeros(width),
            y: zeros(n_targets),
            xx: zeros(width * width),
            xy: zeros(width * n_targets),
            yy: zeros(n_targets),
        }
    }

    /// Adds rows: `[rows * width]` inputs and `[rows * targets]` targets.
    ///
    /// # Errors
    /// Rows of another width.
    pub fn add(&mut self, x: &[f64], y: &[f64]) -> Result<()> {
        let rows = x.len() / self.width;
        if rows == 0 {
            return Ok(());
        }
        let x = Tensor::from_slice(x, (rows, self.width), &Device::Cpu)?;
        let y = Tensor::from_slice(y, (rows, self.n_targets), &Device::Cpu)?;
        let transposed = x.t()?.contiguous()?;
        self.n += rows as f64;
        accumulate(&mut self.x, &x.sum(0)?)?;
        accumulate(&mut self.y, &y.sum(0)?)?;
        accumulate(&mut self.xx, &transposed.matmul(&x)?)?;
        accumulate(&mut self.xy, &transposed.matmul(&y)?)?;
        accumulate(&mut self.yy, &y.sqr()?.sum(0)?)
    }

    /// Adds other sums, `sign` times.
    pub fn add_sums(&mut self, other: &Self, sign: f64) {
        let both = [
            (&mut self.x, &other.x),
            (&mut self.y, &other.y),
            (&mut self.xx, &other.xx),
            (&mut self.xy, &other.xy),
            (&mut self.yy, &other.yy),
        ];
        for (sum, other) in both {
            sum.iter_mut().zip(other).for_each(|(sum, other)| *sum += sign * other);
        }
        self.n += sign * other.n;
    }

    /// The ridge solution: the least squares per row, with a penalty of `lambda` times the square of every
    /// weight of an input scaled to a variance of 1.
    ///
    /// # Errors
    /// Fewer than two rows.
    pub fn solve(&self, lambda: f64) -> Result<Map> {
        if self.n < 2.0 {
            return Err(Error::Unsuitable("too few rated translations to fit anything on".into()));
        }
        let (d, n) = (self.width, self.n);
        let mean: Vec<f64> = self.x.iter().map(|x| x / n).collect();
        let scale: Vec<f64> = (0..d)
            .map(|i| (self.xx[i * d + i] / n - mean[i] * mean[i]).max(0.0).sqrt())
            .map(|deviation| if deviation > 1e-9 { 1.0 / deviation } else { 0.0 })
            .collect();
        let mut gram: Vec<f64> = vec![0.0; d * d];
        for i in 0..d {
            for j in 0..d {
                gram[i * d + j] = (self.xx[i * d + j] - n * mean[i] * mean[j]) * scale[i] * scale[j];
            }
            gram[i * d + i] += lambda * n;
        }
        let t = self.n_targets;
        let mut right: Vec<f64> = vec![0.0; d * t];
        for i in 0..d {
            for k in 0..t {
                right[i * t + k] = (self.xy[i * t + k] - mean[i] * self.y[k]) * scale[i];
            }
        }
        solve_in_place(&mut gram, &mut right, d, t);
        let weights: Vec<Vec<f64>> =
            (0..t).map(|k| (0..d).map(|i| right[i * t + k] * scale[i]).collect()).collect();
        let dot = |weights: &Vec<f64>| weights.iter().zip(&mean).map(|(w, m)| w * m).sum::<f64>();
        let biases = weights.iter().zip(&self.y).map(|(weights, y)| y / n - dot(weights)).collect();
        Ok(Map { weights, biases })
    }

    /// The residual sum of squares of each target, computed from the sums alone.
    pub fn residuals(&self, map: &Map) -> Vec<f64> {
        let d = self.width;
        let of = |(k, weights): (usize, &Vec<f64>)| {
            let bias = map.biases[k];
            let quadratic: f64 = (0..d)
                .map(|i| {
                    weights[i]
                        * self.xx[i * d..(i + 1) * d].iter().zip(weights).map(|(g, w)| g * w).sum::<f64>()
                })
                .sum();
            let cross: f64 = (0..d).map(|i| weights[i] * self.xy[i * self.n_targets + k]).sum();
            let linear: f64 = weights.iter().zip(&self.x).map(|(w, x)| w * x).sum();
            self.yy[k] + quadratic + self.n * bias * bias + 2.0 * bias * linear
                - 2.0 * cross
                - 2.0 * bias * self.y[k]
        };
        map.weights.iter().enumerate().map(of).collect()
    }
}

impl Map {
    /// Applies the map to one row.
    pub fn of(&self, x: &[f64]) -> Vec<f64> {
        let value = |(weights, bias): (&Vec<f64>, &f64)| {
            bias + weights.iter().zip(x).map(|(weight, x)| weight * x).sum::<f64>()
        };
        self.weights.iter().zip(&self.biases).map(value).collect()
    }
}

fn accumulate(sums: &mut [f64], more: &Tensor) -> Result<()> {
    let more: Vec<f64> = more.flatten_all()?.to_vec1()?;
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    Ok(())
}

/// Solves `a x = b` for a positive definite `a` by Cholesky's method; `b` becomes `x`.
///
/// Shape: `a [n, n]`, `b [n, t]`.
fn solve_in_place(a: &mut [f64], b: &mut [f64], n: usize, t: usize) {
    // a = l l^T, column by column: what a column takes from the rest is a plain sweep over rows.
    for j in 0..n {
        let pivot = a[j * n + j].max(f64::MIN_POSITIVE).sqrt();
        a[j * n + j] = pivot;
        let column: Vec<f64> = (j + 1..n).map(|i| a[i * n + j] / pivot).collect();
        for (i, value) in (j + 1..n).zip(&column) {
            a[i * n + j] = *value;
        }
        for (i, value) in (j + 1..n).zip(&column) {
            let row = &mut a[i * n + j + 1..=i * n + i];
            row.iter_mut().zip(&column).for_each(|(x, other)| *x -= value * other);
        }
    }
    for k in 0..t {
        for i in 0..n {
            let known: f64 = (0..i).map(|j| a[i * n + j] * b[j * t + k]).sum();
            b[i * t + k] = (b[i * t + k] - known) / a[i * n + i];
        }
        for i in (0..n).rev() {
            let known: f64 = (i + 1..n).map(|j| a[j * n + i] * b[j * t + k]).sum();
            b[i * t + k] = (b[i * t + k] - known) / a[i * n + i];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw;

    /// Rows of three inputs, of which the third is constant, and two targets that are linear in them.
    fn rows(n: u64, noise: f64) -> (Vec<f64>, Vec<f64>) {
        let draw = |i: u64, stream| f64::from(draw::unit(1, stream, i)) - 0.5;
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for i in 0..n {
            let (a, b) = (10.0 * draw(i, 0), draw(i, 1));
            x.extend([a, b, 7.0]);
            y.extend([2.0 * a - 3.0 * b + 1.0 + noise * draw(i, 2), 5.0 - a]);
        }
        (x, y)
    }

    fn sums(n: u64, noise: f64) -> Sums {
        let (x, y) = rows(n, noise);
        let mut sums = Sums::new(3, 2);
        for (x, y) in x.chunks(3 * 7).zip(y.chunks(2 * 7)) {
            sums.add(x, y).unwrap();
        }
        sums
    }

    #[test]
    fn a_linear_target_is_found_again() {
        let map = sums(50, 0.0).solve(1e-9).unwrap();
        for (weights, expected) in map.weights.iter().zip([[2.0, -3.0, 0.0], [-1.0, 0.0, 0.0]]) {
            for (weight, expected) in weights.iter().zip(expected) {
                assert!((weight - expected).abs() < 1e-5, "{map:?}");
            }
        }
        assert!((map.biases[0] - 1.0).abs() < 1e-5 && (map.biases[1] - 5.0).abs() < 1e-5);
        assert!((map.of(&[1.0, 1.0, 7.0])[0] - 0.0).abs() < 1e-5);
    }

    #[test]
    fn what_a_map_leaves_is_what_its_rows_say() {
        let (x, y) = rows(40, 3.0);
        let sums = sums(40, 3.0);
        let map = sums.solve(0.5).unwrap();
        let mut left = [0.0; 2];
        for (x, y) in x.chunks(3).zip(y.chunks(2)) {
            for (left, (y, guess)) in left.iter_mut().zip(y.iter().zip(map.of(x))) {
                *left += (y - guess).powi(2);
            }
        }
        for (a, b) in sums.residuals(&map).iter().zip(left) {
            assert!((a - b).abs() < 1e-6 * b, "{a} {b}");
        }
    }

    #[test]
    fn a_fold_is_subtracted_and_a_penalty_shrinks() {
        let (x, y) = rows(60, 1.0);
        let mut fold = Sums::new(3, 2);
        fold.add(&x[..3 * 20], &y[..2 * 20]).unwrap();
        let mut rest = sums(60, 1.0);
        rest.add_sums(&fold, -1.0);
        let mut direct = Sums::new(3, 2);
        direct.add(&x[3 * 20..], &y[2 * 20..]).unwrap();
        let (a, b) = (rest.solve(0.1).unwrap(), direct.solve(0.1).unwrap());
        assert!((a.weights[0][0] - b.weights[0][0]).abs() < 1e-9);
        let strong = direct.solve(100.0).unwrap();
        assert!(strong.weights[0][0].abs() < 0.1 * b.weights[0][0].abs());
        assert!(Sums::new(3, 2).solve(1.0).is_err());
    }
}
