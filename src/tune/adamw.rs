//! The optimizer: `AdamW` over the adapters' values, on one thread in one order.
//!
//! Source: Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization", Algorithm 2.

use candle_core::{Device, Result, Tensor, Var};

/// The share of old gradients in the running means, and what keeps a division finite: as `PyTorch` has them.
const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPS: f64 = 1e-8;

/// The running means of one tensor's gradients and of their squares.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moments {
    pub mean: Vec<f32>,
    pub square: Vec<f32>,
}

/// How far a step goes.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Steps so far, this one included: from 1.
    pub step: usize,
    pub rate: f64,
    pub decay: f64,
}

/// Scales gradients down to a common length of at most `most`; gives the length before.
pub fn clip(gradients: &mut [Vec<f32>], most: f64) -> f64 {
    let squares = gradients.iter().flatten().map(|g| f64::from(*g) * f64::from(*g));
    let norm = squares.sum::<f64>().sqrt();
    if norm > most {
        let by = (most / norm) as f32;
        gradients.iter_mut().flatten().for_each(|g| *g *= by);
    }
    norm
}

/// Moves a tensor against its gradient.
///
/// # Errors
/// A gradient of another length.
pub fn update(var: &Var, gradient: &[f32], moments: &mut Moments, pace: Pace) -> Result<()> {
    let mut values = var.flatten_all()?.to_vec1::<f32>()?;
    moments.mean.resize(values.len(), 0.0);
    moments.square.resize(values.len(), 0.0);
    let corrected = [BETA1, BETA2].map(|beta| 1.0 - beta.powi(pace.step as i32));
    for (i, value) in values.iter_mut().enumerate() {
        let g = f64::from(gradient[i]);
        let mean = BETA1 * f64::from(moments.mean[i]) + (1.0 - BETA1) * g;
        let square = BETA2 * f64::from(moments.square[i]) + (1.0 - BETA2) * g * g;
        (moments.mean[i], moments.square[i]) = (mean as f32, square as f32);
        let step = mean / corrected[0] / ((square / corrected[1]).sqrt() + EPS);
        *value = (f64::from(*value) * (1.0 - pace.rate * pace.decay) - pace.rate * step) as f32;
    }
    var.set(&Tensor::from_vec(values, var.shape(), &Device::Cpu)?)
}

/// The rate of a step: a line up from 0 in the warm-up, then a line down to 0 after the last step.
///
/// ```
/// use tribunal::tune::adamw::rate;
/// let rates: Vec<f64> = (1..=5).map(|step| rate(step, 5, 2, 1.0)).collect();
/// assert_eq!(rates, [0.5, 1.0, 1.0, 2.0 / 3.0, 1.0 / 3.0]);
/// ```
#[must_use]
pub fn rate(step: usize, n_steps: usize, warm_up: usize, peak: f64) -> f64 {
    if step <= warm_up {
        return peak * step as f64 / warm_up as f64;
    }
    let rest = n_steps.saturating_sub(warm_up).max(1);
    peak * (n_steps + 1).saturating_sub(step) as f64 / rest as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the formulas by hand: at the first step the corrected means are the gradient and its square.
    #[test]
    fn the_first_step_goes_as_far_as_the_rate() {
        let var = Var::from_vec(vec![1.0_f32, -2.0], 2, &Device::Cpu).unwrap();
        let mut moments = Moments::default();
        let pace = Pace { step: 1, rate: 0.1, decay: 0.5 };
        update(&var, &[3.0, -0.5], &mut moments, pace).unwrap();
        let values = var.to_vec1::<f32>().unwrap();
        assert!(
            (values[0] - (0.95 - 0.1)).abs() < 1e-6 && (values[1] - (-1.9 + 0.1)).abs() < 1e-6,
            "{values:?}"
        );
        assert!((moments.mean[0] - 0.3).abs() < 1e-6 && (moments.square[0] - 0.009).abs() < 1e-6);
    }

    #[test]
    fn long_gradients_are_cut() {
        let mut gradients = vec![vec![3.0], vec![4.0]];
        assert!((clip(&mut gradients, 10.0) - 5.0).abs() < 1e-6);
        assert_eq!(gradients, [[3.0], [4.0]]);
        assert!((clip(&mut gradients, 1.0) - 5.0).abs() < 1e-6);
        assert_eq!(gradients, [[0.6], [0.8]]);
    }
}
