//! Tail probabilities of the distributions that the tests need. No random number is drawn.

/// Two-sided p-value of a correlation coefficient `r` over `n` pairs, by Student's t with `n - 2` degrees.
///
/// Range: 0 to 1. With two pairs it is 1: any two points lie on a line.
/// Source: `scipy.stats.pearsonr` and `spearmanr` (two-sided).
pub fn correlation_p(r: f64, n: usize) -> f64 {
    if n <= 2 {
        return 1.0;
    }
    let dof = n as f64 - 2.0;
    incomplete_beta(dof / 2.0, 0.5, (1.0 - r) * (1.0 + r))
}

/// Probability that Student's t with `dof` degrees of freedom is greater than `t`.
///
/// ```
/// use tribunal_meta::probability::student_t_tail;
/// // One degree of freedom is the Cauchy distribution: a quarter lies above 1.
/// assert!((student_t_tail(1.0, 1.0) - 0.25).abs() < 1e-12);
/// assert!((student_t_tail(0.0, 7.0) - 0.5).abs() < 1e-12);
/// ```
pub fn student_t_tail(t: f64, dof: f64) -> f64 {
    let two_sided = incomplete_beta(dof / 2.0, 0.5, dof / (dof + t * t));
    if t >= 0.0 { two_sided / 2.0 } else { 1.0 - two_sided / 2.0 }
}

/// Probability that a standard normal variable is greater than `z`.
pub fn normal_tail(z: f64) -> f64 {
    libm::erfc(z / std::f64::consts::SQRT_2) / 2.0
}

/// Regularised incomplete beta function `I_x(a, b)`.
///
/// Source: the continued fraction of DLMF 8.17.22, evaluated by Lentz's method.
pub fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges fast only on this side of the mode.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let log_beta = libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
    let front = (a * x.ln() + b * libm::log1p(-x) - log_beta).exp() / a;
    front * beta_fraction(a, b, x)
}

fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for step in 1..1000 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = fraction;
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            fraction *= c * d;
        }
        if (fraction - before).abs() <= f64::EPSILON * fraction.abs() {
            break;
        }
    }
    fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-12 * expected.abs().max(1e-12), "{found} is not {expected}");
    }

    #[test]
    fn incomplete_beta_has_its_closed_forms() {
        check(incomplete_beta(1.0, 1.0, 0.3), 0.3);
        check(incomplete_beta(2.0, 2.0, 0.5), 0.5);
        check(incomplete_beta(3.0, 1.0, 0.7), 0.343);
        check(incomplete_beta(0.5, 0.5, 0.5), 0.5);
    }

    #[test]
    fn normal_tail_is_symmetric() {
        check(normal_tail(0.0), 0.5);
        check(normal_tail(1.959_963_984_540_054), 0.025);
        check(normal_tail(-1.0) + normal_tail(1.0), 1.0);
    }
}
