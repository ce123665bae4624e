//! Kernels against the limits of the machine, both measured in the same run. Results are checked by the
//! tests, not here.

use std::{hint::black_box, time::Duration};

use half::bf16;
use rayon::prelude::*;
use serde::Serialize;

use super::machine::{Limits, least, on_all};
use crate::{
    cpu::{
        Activations, Isa, Packed,
        attend::{BLOCK, Cached, Row, Scratch, attend},
        delta_net::{Token, pass},
        softmax::log_sum_exp,
    },
    model::weights::Format,
};

/// More than any cache holds, in bytes.
const COLD: usize = 160 << 20;

/// One product `[m, k] x [n, k]ᵀ`.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    pub format: String,
    pub activations: &'static str,
    pub n: usize,
    pub k: usize,
    pub m: usize,
    /// Operations per second.
    pub speed: f64,
    /// Fraction of the peak that the tier's arithmetic has for the format.
    pub of_peak: f64,
    /// Fraction of the memory bandwidth that reading the weights takes.
    pub of_memory: f64,
}

/// A product to be timed: its formats and its shape.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    pub format: Format,
    pub n: usize,
    pub k: usize,
    pub activations: Activations,
    pub tier: Isa,
    /// True if the weights stay in the cache from one product to the next. If not, enough copies take turns
    /// to exceed any cache, as a model's layers do.
    pub cached: bool,
}

/// Times one matrix with several numbers of rows, each for `during`.
///
/// # Panics
/// If `k` is not a whole number of the format's blocks.
pub fn product(product: Product, rows: &[usize], limits: &Limits, during: Duration) -> Vec<Cell> {
    let Product { format, n, k, activations, tier, cached } = product;
    let blocks = blocks(format, n, k);
    let pack = || Packed::pack(format, n, k, &blocks).expect("whole blocks");
    let n_copies = if cached { 1 } else { COLD.div_ceil(blocks.len()) };
    let packed: Vec<Packed> = (0..n_copies).map(|_| pack()).collect();
    let cell = |&m: &usize| {
        let x = inputs(m, k);
        let mut out = vec![0.0; m * n];
        let mut layers = packed.iter().cycle();
        let time = least(during, || {
            let layer = layers.next().expect("there is a copy");
            layer.matmul(&x, m, black_box(&mut out), activations, tier);
        });
        let speed = 2.0 * (m * n * k) as f64 / time;
        Cell {
            format: format!("{format:?}").to_lowercase(),
            activations: if activations == Activations::Q8 { "q8" } else { "float" },
            n,
            k,
            m,
            speed,
            of_peak: speed / peak(format, activations, limits),
            of_memory: packed[0].bytes() as f64 / time / limits.memory,
        }
    };
    rows.iter().map(cell).collect()
}

/// The peak of the arithmetic that a product runs on.
fn peak(format: Format, activations: Activations, limits: &Limits) -> f64 {
    match (activations, format) {
        (Activations::Float, _) | (_, Format::F32 | Format::F16) => limits.f32,
        (_, Format::Bf16) => limits.bf16,
        _ => limits.int8,
    }
}

/// Rows of activations.
pub fn inputs(m: usize, k: usize) -> Vec<f32> {
    (0..m * k).map(|i| ((i * 7919) % 255) as f32 / 127.0 - 1.0).collect()
}

/// Blocks with plausible scales: every byte is 0x2c, which makes an `f16` scale 0.07. The values have no
/// influence on the time.
pub fn blocks(format: Format, n: usize, k: usize) -> Vec<u8> {
    let mut bytes = vec![0x2c; n * format.row_bytes(k)];
    if format.block() == 1 {
        bytes.iter_mut().step_by(7).for_each(|byte| *byte = 0x2a);
    }
    bytes
}

/// Attention of neighbouring rows of one sequence under one kv head, on every thread.
#[derive(Clone, Debug, Serialize)]
pub struct Attention {
    pub keys: usize,
    pub rows: usize,
    /// Query heads per kv head.
    pub group: usize,
    pub head_dim: usize,
    /// Operations per second: dot products and weighted sums, without the softmax.
    pub speed: f64,
    pub of_peak: f64,
}

/// Times attention over `keys` cached keys.
pub fn attention(keys: usize, rows: usize, tier: Isa, limits: &Limits, during: Duration) -> Attention {
    let (group, head_dim) = (7, 64);
    let n_blocks = keys.div_ceil(BLOCK);
    let cache: Vec<bf16> =
        inputs(n_blocks * BLOCK, head_dim).into_iter().map(|x| bf16::from_f32(x / 8.0)).collect();
    let blocks: Vec<u32> = (0..n_blocks as u32).collect();
    let cached = Cached {
        keys: &cache,
        values: &cache,
        n_kv_heads: 1,
        head_dim,
        value_dim: head_dim,
        window: None,
        softcap: None,
        sinks: None,
    };
    let places: Vec<Row<'_>> =
        (0..rows).map(|i| Row { position: keys - rows + i, blocks: &blocks }).collect();
    let queries = inputs(rows * group, head_dim);
    let time = least(during, || {
        on_all(limits.threads, |_| {
            let mut scratch = Scratch::default();
            scratch.queries.extend_from_slice(&queries);
            let mut out = vec![0.0; rows * group * head_dim];
            attend(tier, cached, 0, &places, &mut scratch, &mut out);
            black_box(out);
        });
    });
    let speed = (limits.threads * rows * group * head_dim * keys * 4) as f64 / time;
    Attention { keys, rows, group, head_dim, speed, of_peak: speed / limits.f32 }
}

/// The pass of Gated DeltaNet over the states of a layer with 32 heads of 128 by 128, on every thread.
#[derive(Clone, Debug, Serialize)]
pub struct StatePass {
    pub tokens: usize,
    /// Seconds of one layer.
    pub seconds: f64,
    /// Fraction of the memory bandwidth that reading and writing the states takes.
    pub of_memory: f64,
}

/// Times the pass of `tokens` tokens of one sequence; layers take turns, so that none is in a cache.
pub fn state_pass(tokens: usize, tier: Isa, limits: &Limits, during: Duration) -> StatePass {
    const HEADS: usize = 32;
    const DIM: usize = 128;
    let size = HEADS * DIM * DIM;
    let n_layers = COLD.div_ceil(size * size_of::<f32>());
    let mut layers: Vec<Vec<f32>> = (0..n_layers).map(|_| inputs(HEADS, DIM * DIM)).collect();
    let values = inputs(1, DIM);
    let token = Token { q: &values, k: &values, v: &values, decay: 0.9, beta: 0.5 };
    let (tokens_of_head, mut next) = (vec![token; tokens], 0);
    let seconds = least(during, || {
        let layer = &mut layers[next % n_layers];
        next += 1;
        layer.par_chunks_exact_mut(DIM * DIM).with_max_len(HEADS.div_ceil(limits.threads)).for_each(
            |state| {
                let mut outs = vec![0.0; tokens * DIM];
                pass(tier, state, &tokens_of_head, &mut outs);
                black_box(outs);
            },
        );
    });
    let of_memory = 2.0 * (size * size_of::<f32>()) as f64 / seconds / limits.memory;
    StatePass { tokens, seconds, of_memory }
}

/// Seconds for the log-sum-exp of one row of logits on one thread.
pub fn softmax(n_vocab: usize, tier: Isa, during: Duration) -> f64 {
    let logits = inputs(1, n_vocab);
    least(during, || {
        black_box(log_sum_exp(tier, &logits));
    })
}
