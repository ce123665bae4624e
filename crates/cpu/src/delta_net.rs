//! Gated DeltaNet on a CPU, token by token: convolution, norms of queries and keys, the pass over the state,
//! and the gated norm of the output. [`config::DeltaNet`] has the equations.
//!
//! The state of a value head lies in strips of columns: a strip of all rows stays in the first-level cache
//! while the tokens of a step pass over it, so that the state is read from memory and written to it once a
//! step. Every lane is one column, whose sums over the rows are taken in four partial sums, so that a token's
//! bits depend on the tokens before it alone, on every [`Isa`].

use std::ops::Range;

use rayon::prelude::*;

use super::{
    Isa, activate,
    lanes::{Lanes, WIDTH},
    norm, on_isa,
    shared::Shared,
    states::LayerStates,
};
use tribunal_model::{backend::DeltaNetWeights, config, step::Step};

/// Partial sums over the rows of a state.
const SUMS: usize = 4;

/// Heads that a task norms and gates, at least.
const HEADS_OF_TASK: usize = 32;

/// Added to the squared length of queries and keys.
const EPS: f32 = 1e-6;

/// The weights of one layer.
pub struct DeltaNet {
    /// Shape: `[taps, channels]`.
    conv: Vec<f32>,
    decay: Vec<f32>,
    dt_bias: Vec<f32>,
    norm: Vec<f32>,
}

/// The projections of the step's rows.
pub(super) struct Inputs<'a> {
    /// Shape: `[rows, channels]`.
    pub qkv: &'a [f32],
    /// The strength with which each value is corrected, from 0 to 1, and the times of the decay.
    ///
    /// Shape: `[rows, value heads]`, each.
    pub beta: &'a [f32],
    pub times: &'a [f32],
}

/// One layer over the rows of a step.
pub(super) struct Mixed<'a> {
    pub isa: Isa,
    pub shape: &'a config::DeltaNet,
    pub step: &'a Step,
    pub eps: f32,
}

/// The rows of one sequence, and the slot of its state.
struct Run {
    rows: Range<usize>,
    slot: usize,
    /// True if the state begins with zeros.
    is_first: bool,
}

/// One row's inputs of one value head.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    /// Shape: `[key_dim]`, a multiple of 16.
    pub q: &'a [f32],
    /// Shape: `[key_dim]`.
    pub k: &'a [f32],
    /// Shape: `[value_dim]`, a multiple of 16.
    pub v: &'a [f32],
    /// The factor by which the state decays; from 0 to 1.
    pub decay: f32,
    /// The strength with which the state's value for the key is corrected; from 0 to 1.
    pub beta: f32,
}

impl DeltaNet {
    /// `taps` is the length of the convolution.
    pub(super) fn new(weights: DeltaNetWeights, taps: usize) -> Self {
        let DeltaNetWeights { conv, decay, dt_bias, norm } = weights;
        let tap = |tap: usize| conv.iter().skip(tap).step_by(taps).copied();
        Self { conv: (0..taps).flat_map(tap).collect(), decay, dt_bias, norm }
    }
}

impl Mixed<'_> {
    /// Gates `z` by its silu and multiplies it by the normed values that every row reads from its state.
    ///
    /// Shape: `z` `[rows, value heads value_dim]`.
    pub(super) fn apply(&self, net: &DeltaNet, inputs: &Inputs<'_>, z: &mut [f32], states: LayerStates<'_>) {
        let LayerStates { values, size } = states;
        let runs = self.runs();
        for run in runs.iter().filter(|run| run.is_first) {
            values[run.slot * size..(run.slot + 1) * size].fill(0.0);
        }
        let mixed = self.convolved(net, inputs.qkv, &runs, (values, size));
        for run in &runs {
            let state = &mut values[run.slot * size..(run.slot + 1) * size];
            self.keep_inputs(inputs.qkv, run, state);
        }
        let mut read = self.read(net, (&mixed, inputs), &runs, (values, size));
        let n = self.shape.value_dim;
        let heads = z.par_chunks_mut(n).zip(read.par_chunks_mut(n)).with_min_len(HEADS_OF_TASK);
        heads.for_each(|(z, read)| {
            norm::in_place(self.isa, read, &net.norm, self.eps);
            activate::silu_mul(self.isa, z, read);
        });
    }

    fn runs(&self) -> Vec<Run> {
        let run = |(rows, &slot): (Range<usize>, &u32)| Run {
            is_first: rows.clone().next().is_some_and(|row| self.step.positions[row] == 0),
            rows,
            slot: slot as usize,
        };
        let runs = self.step.rows_of_sequences().into_iter().zip(&self.step.state_slots).map(run);
        runs.filter(|run| !run.rows.is_empty()).collect()
    }

    /// Queries, keys and values after convolution and silu; queries and keys of unit length, queries scaled.
    ///
    /// Shape: `[rows, channels]`.
    fn convolved(
        &self,
        net: &DeltaNet,
        qkv: &[f32],
        runs: &[Run],
        (states, size): (&[f32], usize),
    ) -> Vec<f32> {
        let (channels, taps) = (self.shape.channels(), self.shape.conv);
        let mut out = vec![0.0; qkv.len()];
        let mut place = vec![(0, 0); self.step.n_rows()]; // the run of a row, and its place there
        for (i, run) in runs.iter().enumerate() {
            run.rows.clone().enumerate().for_each(|(n, row)| place[row] = (i, n));
        }
        out.par_chunks_exact_mut(channels).enumerate().for_each(|(row, out)| {
            let (run, n) = (&runs[place[row].0], place[row].1);
            for (tap, weights) in net.conv.chunks_exact(channels).enumerate() {
                // The last tap is the row's own.
                let input = match (n + tap + 1).checked_sub(taps) {
                    Some(n) => &qkv[(run.rows.start + n) * channels..][..channels],
                    None => &states[run.slot * size + (n + tap) * channels..][..channels],
                };
                add_tap(self.isa, out, input, weights);
            }
            activate::silu(self.isa, out);
            let (keys, scale) = (self.shape.widths()[0], 1.0 / (self.shape.key_dim as f32).sqrt());
            for (head, scale) in [(0..keys, scale), (keys..2 * keys, 1.0)] {
                for head in out[head].chunks_exact_mut(self.shape.key_dim) {
                    norm::unit(self.isa, head, EPS, scale);
                }
            }
        });
        out
    }

    /// Leaves a run's last inputs for the convolution of the tokens after it.
    fn keep_inputs(&self, qkv: &[f32], run: &Run, state: &mut [f32]) {
        let (channels, n_kept) = (self.shape.channels(), self.shape.conv - 1);
        let n_new = run.rows.len().min(n_kept);
        state.copy_within(n_new * channels..n_kept * channels, 0);
        let new = &qkv[(run.rows.end - n_new) * channels..run.rows.end * channels];
        state[(n_kept - n_new) * channels..n_kept * channels].copy_from_slice(new);
    }

    /// The values that each row's value heads read from their states, which advance.
    ///
    /// Shape: `[rows, value heads value_dim]`.
    fn read(
        &self,
        net: &DeltaNet,
        (mixed, inputs): (&[f32], &Inputs<'_>),
        runs: &[Run],
        (states, size): (&mut [f32], usize),
    ) -> Vec<f32> {
        let config::DeltaNet { n_value_heads, key_dim, value_dim, .. } = *self.shape;
        let ([keys, _, values], channels) = (self.shape.widths(), self.shape.channels());
        let (matrix, first) = (key_dim * value_dim, (self.shape.conv - 1) * channels);
        let mut out = vec![0.0; self.step.n_rows() * values];
        let (places, states) = (Shared::new(&mut out), Shared::new(states));
        let tasks: Vec<(&Run, usize)> =
            runs.iter().flat_map(|run| (0..n_value_heads).map(move |head| (run, head))).collect();
        tasks.par_iter().for_each(|&(run, head)| {
            let at = run.slot * size + first + head * matrix;
            // SAFETY: sequences have slots of their own (`Step::check_states`), and each head one matrix in
            // it, so that no two tasks get overlapping ranges; a range outside the slice panics.
            let state = unsafe { states.part(at..at + matrix) };
            let (q, v) = (self.shape.key_head(head) * key_dim, 2 * keys + head * value_dim);
            let token = |row: usize| {
                let (of_row, gate) = (&mixed[row * channels..][..channels], row * n_value_heads + head);
                Token {
                    q: &of_row[q..q + key_dim],
                    k: &of_row[keys + q..keys + q + key_dim],
                    v: &of_row[v..v + value_dim],
                    decay: decay(net.decay[head], inputs.times[gate] + net.dt_bias[head]),
                    beta: inputs.beta[gate],
                }
            };
            let tokens: Vec<Token<'_>> = run.rows.clone().map(token).collect();
            let mut outs = vec![0.0; tokens.len() * value_dim];
            pass(self.isa, state, &tokens, &mut outs);
            for (row, read) in run.rows.clone().zip(outs.chunks_exact(value_dim)) {
                let at = row * values + head * value_dim;
                // SAFETY: each row and head belongs to one task, so that no two tasks write the same range; a
                // range outside the slice panics.
                unsafe { places.part(at..at + value_dim) }.copy_from_slice(read);
            }
        });
        out
    }
}

/// The factor by which a state decays: `exp(decay softplus(time))`.
///
/// In f64, so that the system's functions round alike in f32.
fn decay(decay: f32, time: f32) -> f32 {
    let time = f64::from(time);
    let softplus = if time > 20.0 { time } else { time.exp().ln_1p() };
    (f64::from(decay) * softplus).exp() as f32
}

/// `out += weights * input`.
fn add_tap(isa: Isa, out: &mut [f32], input: &[f32], weights: &[f32]) {
    on_isa!(isa, tap<>(out: &mut [f32], input: &[f32], weights: &[f32]));
}

#[inline(always)]
fn tap<L: Lanes>(out: &mut [f32], input: &[f32], weights: &[f32]) {
    // Whole vectors: heads are multiples of their width.
    let vectors = out.as_chunks_mut::<WIDTH>().0.iter_mut().zip(input.as_chunks::<WIDTH>().0);
    for ((out, input), weights) in vectors.zip(weights.as_chunks::<WIDTH>().0) {
        L::load(input).mul_add(L::load(weights), L::load(out)).store(out);
    }
}

/// Advances one head's state over some tokens; returns the values that each reads from it.
///
/// Shape: `state` `[strips][key_dim, columns of a strip]`, `outs` `[tokens, value_dim]`.
pub fn pass(isa: Isa, state: &mut [f32], tokens: &[Token<'_>], outs: &mut [f32]) {
    on_isa!(isa, pass_over<>(state: &mut [f32], tokens: &[Token<'_>], outs: &mut [f32]));
}

#[inline(always)]
fn pass_over<L: Lanes>(state: &mut [f32], tokens: &[Token<'_>], outs: &mut [f32]) {
    let Some(first) = tokens.first() else { return };
    let (n, rows) = (first.v.len(), first.k.len());
    // Two vectors a strip where the columns are whole pairs of them.
    if n.is_multiple_of(2 * WIDTH) {
        let strips = state.as_chunks_mut::<WIDTH>().0.as_chunks_mut::<2>().0.chunks_exact_mut(rows);
        strips.enumerate().for_each(|(i, strip)| strip_over::<L, 2>(strip, i * 2 * WIDTH, tokens, outs));
    } else {
        let strips = state.as_chunks_mut::<WIDTH>().0.as_chunks_mut::<1>().0.chunks_exact_mut(rows);
        strips.enumerate().for_each(|(i, strip)| strip_over::<L, 1>(strip, i * WIDTH, tokens, outs));
    }
}

/// A strip of `V` vectors of columns from `column` on.
#[inline(always)]
fn strip_over<L: Lanes, const V: usize>(
    strip: &mut [[[f32; WIDTH]; V]],
    column: usize,
    tokens: &[Token<'_>],
    outs: &mut [f32],
) {
    let n = tokens.first().map_or(0, |token| token.v.len());
    for (token, out) in tokens.iter().zip(outs.chunks_exact_mut(n)) {
        let (decay, beta) = (L::splat(token.decay), L::splat(token.beta));
        // The state's value for the key.
        let mut sums = [[L::splat(0.0); V]; SUMS];
        for (rows, keys) in strip.as_chunks::<SUMS>().0.iter().zip(token.k.as_chunks::<SUMS>().0) {
            for i in 0..SUMS {
                for v in 0..V {
                    sums[i][v] = L::load(&rows[i][v]).mul_add(L::splat(keys[i]), sums[i][v]);
                }
            }
        }
        let values = &token.v[column..column + V * WIDTH].as_chunks::<WIDTH>().0;
        let mut delta = [L::splat(0.0); V];
        for v in 0..V {
            let held = sums[0][v].add(sums[1][v]).add(sums[2][v].add(sums[3][v])).mul(decay);
            delta[v] = L::load(&values[v]).sub(held).mul(beta);
        }
        let mut sums = [[L::splat(0.0); V]; SUMS];
        let pairs = token.k.as_chunks::<SUMS>().0.iter().zip(token.q.as_chunks::<SUMS>().0);
        for (rows, (keys, queries)) in strip.as_chunks_mut::<SUMS>().0.iter_mut().zip(pairs) {
            for i in 0..SUMS {
                for v in 0..V {
                    let state = delta[v].mul_add(L::splat(keys[i]), L::load(&rows[i][v]).mul(decay));
                    state.store(&mut rows[i][v]);
                    sums[i][v] = state.mul_add(L::splat(queries[i]), sums[i][v]);
                }
            }
        }
        let out = out[column..column + V * WIDTH].as_chunks_mut::<WIDTH>().0;
        for v in 0..V {
            sums[0][v].add(sums[1][v]).add(sums[2][v].add(sums[3][v])).store(&mut out[v]);
        }
    }
}
