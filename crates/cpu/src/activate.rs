//! The gated activation of the feed-forward layer (SwiGLU, GeGLU), on CPU lanes.

use super::{
    Isa,
    lanes::{Lanes, WIDTH, exp, polynomial, sigmoid},
    on_isa,
};
use tribunal_model::{
    backend::{Pointwise, Xielu},
    config::Activation,
};

/// `x = silu(x)`.
pub fn silu(isa: Isa, x: &mut [f32]) {
    alone(isa, Silu, x);
}

/// `x = function(x)`.
pub fn pointwise(function: Pointwise, isa: Isa, x: &mut [f32]) {
    match function {
        Pointwise::Xielu(xielu) => alone(isa, xielu, x),
        Pointwise::Gelu => alone(isa, Gelu, x),
    }
}

/// `gate = silu(gate) * up`.
///
/// Shape: both of the same length, a multiple of 16 or not.
pub fn silu_mul(isa: Isa, gate: &mut [f32], up: &[f32]) {
    gate_with(isa, Silu, gate, up);
}

/// `gate = gelu(gate) * up`, with GELU's tanh approximation.
///
/// Shape: as [`silu_mul`].
pub fn gelu_mul(isa: Isa, gate: &mut [f32], up: &[f32]) {
    gate_with(isa, GeluTanh, gate, up);
}

/// `gate = (up + 1) gate logistic(alpha gate)`, with `gate` cut at `limit` and `up` at `-limit` and `limit`.
///
/// Shape: as [`silu_mul`].
pub fn clamped_silu_mul(isa: Isa, gate: &mut [f32], up: &[f32], alpha: f32, limit: f32) {
    gate_with(isa, ClampedSilu { alpha, limit }, gate, up);
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
    gate_with(isa, Logistic, gate, up);
}

/// A nonlinearity of values that gate nothing.
fn alone<G: Gate>(isa: Isa, function: G, x: &mut [f32]) {
    on_isa!(isa, alone_by_lanes<G: Gate>(function: G, x: &mut [f32]));
}

fn gate_with<G: Gate>(isa: Isa, function: G, gate: &mut [f32], up: &[f32]) {
    on_isa!(isa, by_lanes<G: Gate>(function: G, gate: &mut [f32], up: &[f32]));
}

/// A gated nonlinearity. A type, not a closure: only code inlined into a function that enables the
/// instructions may use them, and calls through `Fn` are not inlined.
trait Gate: Copy {
    fn apply<L: Lanes>(self, gate: L, up: L) -> L;
}

#[derive(Clone, Copy)]
struct Silu;
#[derive(Clone, Copy)]
struct Logistic;
#[derive(Clone, Copy)]
struct GeluTanh;
#[derive(Clone, Copy)]
struct Gelu;
#[derive(Clone, Copy)]
struct ClampedSilu {
    alpha: f32,
    limit: f32,
}

impl Gate for Silu {
    #[inline(always)]
    fn apply<L: Lanes>(self, gate: L, up: L) -> L {
        gate.mul(sigmoid(gate)).mul(up)
    }
}

impl Gate for Logistic {
    #[inline(always)]
    fn apply<L: Lanes>(self, gate: L, up: L) -> L {
        sigmoid(gate).mul(up)
    }
}

impl Gate for GeluTanh {
    /// 0.5 x (1 + tanh u) is x times the logistic function of 2 u.
    #[inline(always)]
    fn apply<L: Lanes>(self, gate: L, up: L) -> L {
        let cubic = gate.mul(gate).mul(gate).mul_add(L::splat(0.044_715), gate);
        gate.mul(sigmoid(cubic.mul(L::splat(1.595_769)))).mul(up)
    }
}

impl Gate for Gelu {
    /// The part of x that is kept is the normal distribution's below x: for x above 0 all but the tail `q`
    /// above it, else the tail below it. `q = t p(t) e^(-x^2 / 2)` with `t = 1 / (1 + 0.36 |x|)`; `p` is
    /// fitted, with a relative error under 1e-6.
    #[inline(always)]
    fn apply<L: Lanes>(self, x: L, _up: L) -> L {
        const P: [f32; 7] = [
            0.047_057_834,
            -0.179_769_02,
            0.180_958_43,
            0.026_547_344,
            0.139_719_64,
            0.141_772_43,
            0.143_713_04,
        ];
        let zero = L::splat(0.0);
        let size = x.max(zero.sub(x));
        let t = L::splat(1.0).div(size.mul_add(L::splat(0.36), L::splat(1.0)));
        let tail = polynomial(t, P).mul(t).mul(exp(x.mul(x).mul(L::splat(-0.5))));
        zero.max(x).sub(size.mul(tail))
    }
}

impl Gate for ClampedSilu {
    #[inline(always)]
    fn apply<L: Lanes>(self, gate: L, up: L) -> L {
        let gate = at_most(gate, self.limit);
        let up = L::splat(-self.limit).max(at_most(up, self.limit));
        up.add(L::splat(1.0)).mul(gate.mul(sigmoid(gate.mul(L::splat(self.alpha)))))
    }
}

impl Gate for Xielu {
    #[inline(always)]
    fn apply<L: Lanes>(self, x: L, _up: L) -> L {
        let zero = L::splat(0.0);
        let above = zero.max(x);
        // The smaller of both; NaN in either stays one of the sum.
        let least = zero.sub(zero.sub(x).max(L::splat(-self.eps)));
        let below = exp(least).sub(L::splat(1.0)).sub(x).mul(L::splat(self.negative));
        let curved =
            above.mul(above).mul(L::splat(self.positive)).add(below.keep_at_least(zero.sub(x), zero));
        x.mul_add(L::splat(self.beta), curved)
    }
}

/// The smaller of `x` and `limit`; NaN stays NaN.
#[inline(always)]
fn at_most<L: Lanes>(x: L, limit: f32) -> L {
    let zero = L::splat(0.0);
    zero.sub(L::splat(-limit).max(zero.sub(x)))
}

#[inline(always)]
fn alone_by_lanes<L: Lanes, G: Gate>(function: G, x: &mut [f32]) {
    let (chunks, tail) = x.as_chunks_mut::<WIDTH>();
    let mut last = [0.0; WIDTH];
    last[..tail.len()].copy_from_slice(tail);
    for lanes in chunks.iter_mut().chain([&mut last]) {
        function.apply(L::load(lanes), L::splat(1.0)).store(lanes);
    }
    tail.copy_from_slice(&last[..tail.len()]);
}

/// `gate = function(gate, up)`, the tail padded with zeros so that every element takes the same path.
#[inline(always)]
fn by_lanes<L: Lanes, G: Gate>(function: G, gate: &mut [f32], up: &[f32]) {
    let (gates, gate_tail) = gate.as_chunks_mut::<WIDTH>();
    let (ups, up_tail) = up.as_chunks::<WIDTH>();
    for (gate, up) in gates.iter_mut().zip(ups) {
        function.apply(L::load(gate), L::load(up)).store(gate);
    }
    let mut padded = [[0.0; WIDTH]; 2];
    padded[0][..gate_tail.len()].copy_from_slice(gate_tail);
    padded[1][..up_tail.len()].copy_from_slice(up_tail);
    let mut last = [0.0; WIDTH];
    function.apply(L::load(&padded[0]), L::load(&padded[1])).store(&mut last);
    gate_tail.copy_from_slice(&last[..gate_tail.len()]);
}
