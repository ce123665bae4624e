//! The limits of this machine, measured: arithmetic of each kind and memory. No model is needed.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use rayon::prelude::*;
use serde::Serialize;

use super::{Error, Result};
use crate::cpu::{
    Isa,
    peak::{Memory, Peak},
};

/// Bytes that are read to measure memory: more than any cache holds.
const MEMORY: usize = 256 << 20;

/// Rates that all threads of the pool reach together.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Limits {
    pub threads: usize,
    /// Operations per second; a multiplication and an addition count as two.
    pub int8: f64,
    pub bf16: f64,
    pub f32: f64,
    /// Bytes read per second.
    pub memory: f64,
}

/// Measures the limits of the current rayon pool with the instructions of a tier, each for `during`.
///
/// # Errors
/// If there is too little memory to read from.
pub fn limits(tier: Isa, during: Duration) -> Result<Limits> {
    let threads = rayon::current_num_threads();
    let operations = |peak: Peak| {
        const ROUNDS: usize = 100_000;
        let done = peak.run(ROUNDS, tier) as f64;
        let time = least(during, || {
            on_all(threads, |_| {
                black_box(peak.run(ROUNDS, tier));
            });
        });
        threads as f64 * done / time
    };
    let memory = Memory::new(MEMORY).map_err(Error::Memory)?;
    let time = least(4 * during, || {
        on_all(threads, |i| {
            black_box(memory.read(i, threads));
        });
    });
    let (int8, bf16, f32) = (operations(Peak::Int8), operations(Peak::Bf16), operations(Peak::F32));
    Ok(Limits { threads, int8, bf16, f32, memory: memory.bytes() as f64 / time })
}

/// Does the same work on all threads at once.
pub fn on_all(n_threads: usize, work: impl Fn(usize) + Sync + Send) {
    (0..n_threads).into_par_iter().with_max_len(1).for_each(work);
}

/// The fewest seconds that `work` took in as many repeats as fit in `during`, but at least three: the machine
/// may be shared.
pub fn least(during: Duration, mut work: impl FnMut()) -> f64 {
    let (start, mut least, mut repeats) = (Instant::now(), f64::INFINITY, 0);
    while repeats < 3 || start.elapsed() < during {
        let begin = Instant::now();
        work();
        least = least.min(begin.elapsed().as_secs_f64());
        repeats += 1;
    }
    least
}
