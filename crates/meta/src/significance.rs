//! Significance tests of the difference of two metrics, or of two systems. They are seeded: the same scores
//! and seed give the same p-value on every machine and with every number of threads.

use schemars::JsonSchema;
use serde::Serialize;
use tribunal_core::random;

pub mod paired;
pub mod permutation;
pub mod ranks;
pub mod swapped;
pub mod williams;

/// Number and seed of resamples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Resampling {
    pub resamples: usize,
    pub seed: u64,
}

impl Default for Resampling {
    fn default() -> Self {
        Self { resamples: 1000, seed: 0 }
    }
}

/// A difference between two metrics and the probability of as large a one by chance.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// Statistic of the first less that of the second; not negative.
    pub delta: f64,
    /// One-sided: the share of resamples with a difference of at least `delta`. Range: 0 to 1.
    pub p: f64,
    /// The differences under the null hypothesis, in the order drawn.
    #[serde(skip)]
    pub null: Vec<f64>,
}

impl Comparison {
    pub(crate) fn new(delta: f64, null: Vec<f64>) -> Self {
        let n_reached = null.iter().filter(|difference| **difference >= delta).count();
        Self { delta, p: n_reached as f64 / null.len().max(1) as f64, null }
    }
}

impl Resampling {
    /// The resampling of a task: with random numbers of its own, so that an average over tasks does not add
    /// up the same swaps.
    #[must_use]
    pub fn of_task(self, idx: usize) -> Self {
        Self { seed: random::at(self.seed, idx as u64), ..self }
    }

    /// Draws `one(index)` for each resample, in parallel.
    pub(crate) fn draw(&self, one: impl Fn(u64) -> f64 + Sync) -> Vec<f64> {
        use rayon::prelude::*;
        (0..self.resamples as u64).into_par_iter().map(&one).collect()
    }
}
