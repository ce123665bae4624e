//! Significance tests of the difference of two metrics, or of two systems. They are seeded: the same scores
//! and seed give the same p-value on every machine and with every number of threads.

use serde::Serialize;
use tribunal_core::random;

pub mod paired;
pub mod permutation;
pub mod ranks;
pub mod swapped;
pub mod williams;

/// Number of resamples, and the rule for an early stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Resampling {
    pub resamples: usize,
    /// After every so many resamples, stop when p is already below 0.02 or above 0.5. The official results
    /// of the shared tasks used 100; `None` draws all.
    pub block: Option<usize>,
    pub seed: u64,
}

impl Default for Resampling {
    fn default() -> Self {
        Self { resamples: 1000, block: None, seed: 0 }
    }
}

/// A difference between two metrics and the probability of as large a one by chance.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
        let p = share_of(&null, |difference| difference >= delta);
        Self { delta, p, null }
    }
}

fn share_of(values: &[f64], hit: impl Fn(f64) -> bool) -> f64 {
    values.iter().filter(|value| hit(**value)).count() as f64 / values.len().max(1) as f64
}

impl Resampling {
    /// The resampling of a task: with random numbers of its own, so that an average over tasks does not add
    /// up the same swaps.
    #[must_use]
    pub fn of_task(self, idx: usize) -> Self {
        Self { seed: random::at(self.seed, idx as u64), ..self }
    }

    /// Draws `one(index)` for each resample, in parallel, with an early stop at block ends where one is set.
    pub(crate) fn draw(&self, delta: f64, one: impl Fn(u64) -> f64 + Sync) -> Vec<f64> {
        use rayon::prelude::*;
        let block = self.block.unwrap_or(self.resamples).max(1);
        let mut null = Vec::with_capacity(self.resamples);
        while null.len() < self.resamples {
            let end = (null.len() + block).min(self.resamples);
            let drawn: Vec<f64> = (null.len() as u64..end as u64).into_par_iter().map(&one).collect();
            null.extend(drawn);
            let p = share_of(&null, |difference| difference >= delta);
            if self.block.is_some() && !(0.02..=0.5).contains(&p) {
                break;
            }
        }
        null
    }
}
