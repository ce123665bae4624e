//! The gated activation of the feed-forward layer (SwiGLU, GeGLU), on CPU lanes.

use super::{
    Isa,
    lanes::{Lanes, WIDTH, sigmoid},
    on_isa,
};
use tribunal_model::config::Activation;

/// `x = silu(x)`.
pub fn silu(isa: Isa, x: &mut [f32]) {
    on_isa!(isa, silu_alone<>(x: &mut [f32]));
}

/// `gate = silu(gate) * up`.
///
/// Shape: both of the same length, a multiple of 16 or not.
pub fn silu_mul(isa: Isa, gate: &mut [f32], up: &[f32]) {
    on_isa!(isa, silu_times<>(gate: &mut [f32], up: &[f32]));
}

/// `gate = gelu(gate) * up`, with GELU's tanh approximation.
///
/// Shape: as [`silu_mul`].
pub fn gelu_mul(isa: Isa, gate: &mut [f32], up: &[f32]) {
    on_isa!(isa, gelu<>(gate: &mut [f32], up: &[f32]));
}

/// `gate = (up + 1) gate logistic(alpha gate)`, with `gate` cut at `limit` and `up` at `-limit` and `limit`.
///
/// Shape: as [`silu_mul`].
pub fn clamped_silu_mul(isa: Isa, gate: &mut [f32], up: &[f32], alpha: f32, limit: f32) {
    on_isa!(isa, clamped<>(gate: &mut [f32], up: &[f32], alpha: f32, limit: f32));
}

/// `gate = activation(gate, up)`.
///
/// Shape: as [`silu_mul`].
pub fn apply(activation: Activation, isa: Isa, gate: &mut [f32], up: &[f32]) {
    match activation {
        Activation::Silu => silu_mul(isa, gate, up),
        Activation::GeluTanh => gelu_mul(isa, gate, up),
        Activation::ClampedSilu { alpha, limit } => clamped_silu_mul(isa, gate, up, alpha, limit),
    }
}

/// `gate = logistic(gate) * up`.
///
/// Shape: as [`silu_mul`].
pub fn logistic_mul(isa: Isa, gate: &mut [f32], up: &[f32]) {
    on_isa!(isa, logistic<>(gate: &mut [f32], up: &[f32]));
}

/// A nonlinearity. A type, not a closure: only code inlined into a function that enables the instructions may
/// use them, and calls through `Fn` are not inlined.
trait Nonlinearity {
    fn apply<L: Lanes>(x: L) -> L;
}

struct Silu;

impl Nonlinearity for Silu {
    #[inline(always)]
    fn apply<L: Lanes>(x: L) -> L {
        x.mul(sigmoid(x))
    }
}

struct Logistic;

impl Nonlinearity for Logistic {
    #[inline(always)]
    fn apply<L: Lanes>(x: L) -> L {
        sigmoid(x)
    }
}

struct GeluTanh;

impl Nonlinearity for GeluTanh {
    /// 0.5 x (1 + tanh u) is x times the logistic function of 2 u.
    #[inline(always)]
    fn apply<L: Lanes>(x: L) -> L {
        let cubic = x.mul(x).mul(x).mul_add(L::splat(0.044_715), x);
        x.mul(sigmoid(cubic.mul(L::splat(1.595_769))))
    }
}

#[inline(always)]
fn silu_times<L: Lanes>(gate: &mut [f32], up: &[f32]) {
    by_lanes::<L, Silu>(gate, up);
}

#[inline(always)]
fn logistic<L: Lanes>(gate: &mut [f32], up: &[f32]) {
    by_lanes::<L, Logistic>(gate, up);
}

/// The smaller of `x` and `limit`; NaN stays NaN.
#[inline(always)]
fn at_most<L: Lanes>(x: L, limit: f32) -> L {
    let zero = L::splat(0.0);
    zero.sub(L::splat(-limit).max(zero.sub(x)))
}

#[inline(always)]
fn clamped<L: Lanes>(gate: &mut [f32], up: &[f32], alpha: f32, limit: f32) {
    let one = |gate: &[f32; WIDTH], up: &[f32; WIDTH]| {
        let gate = at_most(L::load(gate), limit);
        let up = L::splat(-limit).max(at_most(L::load(up), limit));
        up.add(L::splat(1.0)).mul(gate.mul(sigmoid(gate.mul(L::splat(alpha)))))
    };
    let (gates, gate_tail) = gate.as_chunks_mut::<WIDTH>();
    let (ups, up_tail) = up.as_chunks::<WIDTH>();
    for (gate, up) in gates.iter_mut().zip(ups) {
        one(gate, up).store(gate);
    }
    let mut padded = [[0.0; WIDTH]; 2];
    padded[0][..gate_tail.len()].copy_from_slice(gate_tail);
    padded[1][..up_tail.len()].copy_from_slice(up_tail);
    let mut last = [0.0; WIDTH];
    one(&padded[0], &padded[1]).store(&mut last);
    gate_tail.copy_from_slice(&last[..gate_tail.len()]);
}

#[inline(always)]
fn silu_alone<L: Lanes>(x: &mut [f32]) {
    let (whole, tail) = x.as_chunks_mut::<WIDTH>();
    let mut last = [0.0; WIDTH];
    last[..tail.len()].copy_from_slice(tail);
    for lanes in whole.iter_mut().chain([&mut last]) {
        Silu::apply(L::load(lanes)).store(lanes);
    }
    tail.copy_from_slice(&last[..tail.len()]);
}

#[inline(always)]
fn gelu<L: Lanes>(gate: &mut [f32], up: &[f32]) {
    by_lanes::<L, GeluTanh>(gate, up);
}

/// `gate = f(gate) * up`, the tail padded with zeros so that every element takes the same path.
#[inline(always)]
fn by_lanes<L: Lanes, F: Nonlinearity>(gate: &mut [f32], up: &[f32]) {
    let (gates, gate_tail) = gate.as_chunks_mut::<WIDTH>();
    let (ups, up_tail) = up.as_chunks::<WIDTH>();
    for (gate, up) in gates.iter_mut().zip(ups) {
        F::apply(L::load(gate)).mul(L::load(up)).store(gate);
    }
    let mut padded = [[0.0; WIDTH]; 2];
    padded[0][..gate_tail.len()].copy_from_slice(gate_tail);
    padded[1][..up_tail.len()].copy_from_slice(up_tail);
    let mut last = [0.0; WIDTH];
    F::apply(L::load(&padded[0])).mul(L::load(&padded[1])).store(&mut last);
    gate_tail.copy_from_slice(&last[..gate_tail.len()]);
}
