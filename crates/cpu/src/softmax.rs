//! Exponentials of a row of logits and the logarithm of their sum, on CPU lanes.

use super::{
    Isa,
    lanes::{self, Lanes, WIDTH},
    on_isa,
};

/// Logits whose exponentials are summed in f32 before the sum goes on in f64.
const CHUNK: usize = 1024;

/// `ln(sum(exp(x)))`; negative infinity for an empty row, NaN for one with NaN
/// beside a number. Accurate to about 1e-7 relative to the sum.
pub fn log_sum_exp(isa: Isa, x: &[f32]) -> f64 {
    let peak = largest(isa, x);
    if peak == f32::NEG_INFINITY {
        return f64::NEG_INFINITY;
    }
    let mut total = 0.0;
    for chunk in x.chunks(CHUNK) {
        let mut sum = 0.0;
        let out = &mut sum;
        on_isa!(isa, chunk_sum<>(chunk: &[f32], peak: f32, out: &mut f32));
        total += f64::from(sum);
    }
    f64::from(peak) + total.ln()
}

/// The largest number, ignoring NaNs; negative infinity without any number.
pub fn largest(isa: Isa, x: &[f32]) -> f32 {
    let mut peak = f32::NEG_INFINITY;
    let out = &mut peak;
    on_isa!(isa, largest_lane<>(x: &[f32], out: &mut f32));
    peak
}

#[inline(always)]
fn largest_lane<L: Lanes>(x: &[f32], out: &mut f32) {
    let (chunks, tail) = x.as_chunks::<WIDTH>();
    let mut last = [f32::NEG_INFINITY; WIDTH];
    last[..tail.len()].copy_from_slice(tail);
    let mut peaks = L::load(&last).max(L::splat(f32::NEG_INFINITY));
    for lanes in chunks {
        peaks = L::load(lanes).max(peaks);
    }
    *out = lanes::largest(peaks);
}

#[inline(always)]
fn chunk_sum<L: Lanes>(x: &[f32], peak: f32, out: &mut f32) {
    let peak = L::splat(peak);
    let (chunks, tail) = x.as_chunks::<WIDTH>();
    let mut last = [f32::NEG_INFINITY; WIDTH];
    last[..tail.len()].copy_from_slice(tail);
    let mut sums = L::splat(0.0);
    for lanes in chunks.iter().chain(std::iter::once(&last)) {
        sums = sums.add(lanes::exp(L::load(lanes).sub(peak)));
    }
    *out = lanes::sum(sums);
}

/// `exp((x - peak) / temperature)` of logits that are at most `peak`; results below e^-87 are 0.
pub fn exponentials(isa: Isa, x: &[f32], peak: f32, temperature: f32) -> Vec<f32> {
    let mut out = x.to_vec();
    let (values, by) = (&mut out[..], 1.0 / temperature);
    on_isa!(isa, scaled_exp<>(values: &mut [f32], peak: f32, by: f32));
    out
}

/// `x = cap tanh(x / cap)`.
pub fn softcap(isa: Isa, x: &mut [f32], cap: f32) {
    use lanes::softcap as capped;
    on_isa!(isa, capped<>(x: &mut [f32], cap: f32));
}

#[inline(always)]
fn scaled_exp<L: Lanes>(x: &mut [f32], peak: f32, by: f32) {
    let (peak, by) = (L::splat(peak), L::splat(by));
    let (chunks, tail) = x.as_chunks_mut::<WIDTH>();
    for lanes in chunks {
        lanes::exp(L::load(lanes).sub(peak).mul(by)).store(lanes);
    }
    let mut last = [f32::NEG_INFINITY; WIDTH];
    last[..tail.len()].copy_from_slice(tail);
    lanes::exp(L::load(&last).sub(peak).mul(by)).store(&mut last);
    tail.copy_from_slice(&last[..tail.len()]);
}
