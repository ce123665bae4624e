//! A layer's experts on a GPU: the router, the matrices of all experts one after another, and the shared
//! expert. It multiplies nothing.
//!
//! Rows of gates and ups are interleaved by eight, so that one block computes both and the gate needs no
//! memory of its own (`kernels/gemm_grouped.cuh`). A router's weights become sums of at most three bf16
//! matrices that have their values exactly: logits are products in f32, by the kernels of every other
//! product.

use std::{ops::Range, sync::Arc};

use half::bf16;

use super::{
    adapter::Adapters,
    arena::ROUTER_PARTS,
    memory::{Memory, WEIGHTS},
    products::{self, Kind, Way},
    quant_layout::{QuantLayout, STRIP},
    shard::Shard,
    weight_upload::WeightUpload,
    weights::{Linear, Part, round_to_bf16},
};
use tribunal_model::{
    Error, Weights,
    backend::{Cut, Matrices},
    config::{self, Routing, SharedExpert},
    weights::{Format, floats, seeded::Fill},
};

/// Rows of gates, and of ups, in a strip.
const HALF: usize = STRIP / 2;

/// The experts of one layer, or a card's shard of them: some columns of each.
pub struct Experts {
    pub(super) routing: Routing,
    pub(super) n: usize,
    /// `[parts, n]` outputs, or one more of each part for the gate of the shared expert.
    pub(super) router: Linear,
    pub(super) router_parts: usize,
    /// The correction bias, `[n]`.
    pub(super) bias: Option<Memory>,
    /// Factors on the weights of experts, `[n]`.
    pub(super) factors: Option<Memory>,
    pub(super) gate_up: Stack,
    pub(super) down: Stack,
    pub(super) shared: Option<Shared>,
}

/// The matrices of all experts, one after another.
pub(super) struct Stack {
    pub memory: Memory,
    pub way: Way,
    /// Outputs of one expert that this card computes, and inputs.
    pub n: usize,
    pub k: usize,
    /// `[experts, n]` f32, in the order of the outputs.
    pub bias: Option<Memory>,
}

/// The shared expert.
pub(super) struct Shared {
    pub gate_up: Linear,
    pub down: Linear,
    /// True if its output is multiplied by the sigmoid of the router's last logit.
    pub is_gated: bool,
    /// Columns between its products that this card computes.
    pub width: usize,
}

/// The source and destination of a stack.
struct Source<'a> {
    weights: &'a Weights,
    module: &'a str,
    n_experts: usize,
    has_biases: bool,
    shard: Shard,
    packs: bool,
}

impl Experts {
    /// Loads a card's shard of each expert.
    ///
    /// # Errors
    /// A missing tensor, another shape, a type that is not supported, experts of different types, or no
    /// memory.
    pub(super) fn load(
        weights: &Weights,
        module: &str,
        (experts, hidden): (&config::Experts, usize),
        shard: Shard,
        upload: &mut WeightUpload,
    ) -> Result<Self, Error> {
        let (n, width) = (experts.n, experts.width);
        let shared =
            experts.shared.map(|shared| Shared::load(weights, module, (shared, hidden), shard, upload));
        let shared = shared.transpose()?;
        let is_gated = shared.as_ref().is_some_and(|shared| shared.is_gated);
        let routing = experts.routing;
        let mut of_router = |is_there: bool, part: &str| {
            let values = is_there.then(|| weights.floats(&format!("{module}.gate.{part}"), n)).transpose()?;
            Ok::<_, Error>(values.map(|values| upload.floats(&values)).transpose()?)
        };
        let bias = of_router(routing.has_bias, "e_score_correction_bias")?;
        let factors = of_router(routing.expert_factors, "per_expert_scale")?;
        let (router, router_parts) = router(weights, module, (experts, is_gated, hidden), upload)?;
        let packs = upload.gpu().packs();
        let source = Source { weights, module, n_experts: n, has_biases: experts.biases, shard, packs };
        let gate_up = source.gate_up([width, hidden], upload)?;
        let down = source.down([hidden, width], upload)?;
        upload.finish()?;
        Ok(Self { routing, n, router, router_parts, bias, factors, gate_up, down, shared })
    }

    /// Logits of a row, of one part of the router.
    pub(super) fn n_logits(&self) -> usize {
        self.router.n / self.router_parts
    }
}

impl Shared {
    fn load(
        weights: &Weights,
        module: &str,
        (shared, hidden): (SharedExpert, usize),
        shard: Shard,
        upload: &mut WeightUpload,
    ) -> Result<Self, Error> {
        let at = |part: &str| format!("{module}.shared_experts.{part}_proj");
        let gate_up = [(at("gate"), shared.width), (at("up"), shared.width)];
        let down = [(at("down"), hidden)];
        let mut linear = |parts: &[(String, usize)], k| {
            Linear::load(weights, Matrices { parts, k, cut: Cut::Anywhere }, shard, None, upload)
        };
        Ok(Self {
            gate_up: linear(&gate_up, hidden)?,
            down: linear(&down, shared.width)?,
            is_gated: shared.is_gated,
            width: shard.outputs(shared.width, 1).len(),
        })
    }
}

/// The router on every card, and its number of parts.
fn router(
    weights: &Weights,
    module: &str,
    (experts, is_gated, hidden): (&config::Experts, bool, usize),
    upload: &mut WeightUpload,
) -> Result<(Linear, usize), Error> {
    let read = |name: &str, n: usize| {
        let stored = weights.get(name, &[n, hidden])?;
        let wrong = || weights.bad(name, &format!("is {:?}, floats were expected", stored.dtype));
        floats(stored.dtype, &stored.bytes).ok_or_else(wrong)
    };
    let name = format!("{module}.gate.weight");
    let mut values = read(&name, experts.n)?;
    weights.used(&name);
    if is_gated {
        values.extend(read(&format!("{module}.shared_expert_gate.weight"), 1)?);
    }
    let parts = exact_parts(&values);
    let (n, k) = (parts.len() * values.len() / hidden, hidden);
    products::check(n, k).map_err(|e| weights.bad(&name, &format!("is {e}")))?;
    let bytes: Vec<u8> = parts.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
    let memory = Arc::new(upload.bytes(&bytes, WEIGHTS)?);
    upload.finish()?;
    let way = Way::Direct(Kind::Bf16);
    let part = Part { memory, offset: 0, way, first: 0, n, k_slice: upload.gpu().k_slice(n, k) };
    let outputs = std::iter::once(0..n).collect();
    let bias = experts.routing.logit_bias.then(|| {
        // It is added to the logits' first part alone.
        let mut bias = weights.floats(&format!("{module}.gate.bias"), experts.n)?;
        bias.resize(n, 0.0);
        Ok::<_, Error>(upload.floats(&bias)?)
    });
    let bias = bias.transpose()?;
    let linear = Linear { parts: vec![part], n, k, bias, outputs, adapters: Adapters::default() };
    Ok((linear, parts.len()))
}

/// Numbers as sums of bf16 ones, the largest first: one where all are bf16, three where all bits of f32 are
/// in use.
fn exact_parts(values: &[f32]) -> Vec<Vec<bf16>> {
    let (mut parts, mut remainder) = (Vec::new(), values.to_vec());
    while parts.is_empty() || parts.len() < ROUTER_PARTS && remainder.iter().any(|x| *x != 0.0) {
        let part: Vec<bf16> = remainder.iter().map(|x| bf16::from_f32(*x)).collect();
        for (remainder, part) in remainder.iter_mut().zip(&part) {
            *remainder -= part.to_f32();
        }
        parts.push(part);
    }
    parts
}

/// The layout of a matrix's rows on the device.
#[derive(Clone, Copy)]
struct Encoding {
    format: Format,
    way: Way,
    k: usize,
}

impl Encoding {
    fn planes(self) -> Option<QuantLayout> {
        self.way.layout(self.format, self.k)
    }

    /// Bytes of 16 rows.
    fn strip_bytes(self) -> usize {
        let as_rows = STRIP * self.way.stored(self.format).row_bytes(self.k);
        self.planes().map_or(as_rows, |planes| planes.strip_bytes())
    }

    /// Whole strips of rows, in the layout for products.
    fn write(self, rows: &[u8], out: &mut [u8]) {
        match self.planes() {
            Some(planes) => planes.write(rows, out),
            None if self.way.stored(self.format) != self.format => round_to_bf16(self.format, rows, out),
            None => out.copy_from_slice(rows),
        }
    }
}

/// One expert's matrix in the file, or the seed of its numbers.
enum Matrix<'a> {
    File(std::borrow::Cow<'a, [u8]>),
    Seed(Fill),
}

/// The layout for a matrix's rows, and the matrix.
type Found<'a> = (Encoding, Matrix<'a>);

/// The loaded part of a stack: the layout of its rows, and its memory.
type Loaded = Option<(Encoding, Memory)>;

impl Source<'_> {
    fn name(&self, expert: usize, part: &str) -> String {
        format!("{}.experts.{expert}.{part}_proj.weight", self.module)
    }

    /// A matrix of this shape, with the layout for its rows on the device: that of those before it.
    fn find(&self, name: &str, [n, k]: [usize; 2], before: Option<Encoding>) -> Result<Found<'_>, Error> {
        let bad = |reason: &str| self.weights.bad(name, reason);
        products::check(n, k).map_err(|e| bad(&format!("is {e}")))?;
        let (format, matrix) = if let Some(fill) = self.weights.fill(name) {
            (Format::Bf16, Matrix::Seed(fill))
        } else {
            let stored = self.weights.get(name, &[n, k])?;
            (stored.dtype, Matrix::File(stored.bytes))
        };
        if let Some(Encoding { format: others, .. }) = before.filter(|before| before.format != format) {
            return Err(bad(&format!(
                "is {format:?}, and others of these experts are {others:?}; one type is supported on a GPU"
            )));
        }
        let way = Way::new(format, self.packs);
        if let Matrix::File(bytes) = &matrix {
            way.check(format, bytes).map_err(|e| bad(&format!("is {e}")))?;
        }
        Ok((Encoding { format, way, k }, matrix))
    }

    /// The destination of an expert's `n` rows, in memory for all of them.
    fn place(
        &self,
        stack: &mut Loaded,
        (encoding, n): (Encoding, usize),
        expert: usize,
        upload: &WeightUpload,
    ) -> Result<u64, Error> {
        let of_expert = n / STRIP * encoding.strip_bytes();
        let (_, memory) = match stack {
            Some(stack) => stack,
            none => none.insert((encoding, upload.memory(self.n_experts * of_expert)?)),
        };
        Ok(memory.at() + (expert * of_expert) as u64)
    }

    /// Gates and ups, interleaved.
    fn gate_up(&self, [n, k]: [usize; 2], upload: &mut WeightUpload) -> Result<Stack, Error> {
        let (outputs, mut stack) = (self.shard.outputs(n, 1), None);
        for expert in 0..self.n_experts {
            let names = ["gate", "up"].map(|part| self.name(expert, part));
            let before = stack.as_ref().map(|(encoding, _)| *encoding);
            let (encoding, gate) = self.find(&names[0], [n, k], before)?;
            let (_, up) = self.find(&names[1], [n, k], Some(encoding))?;
            let to = self.place(&mut stack, (encoding, 2 * outputs.len()), expert, upload)?;
            let n_strips = outputs.len() / HALF;
            match (gate, up) {
                (Matrix::File(gate), Matrix::File(up)) => {
                    let row_bytes = encoding.format.row_bytes(k);
                    upload.send_to(to, n_strips, encoding.strip_bytes(), &mut |strips, piece| {
                        let rows = interleaved([&gate, &up], strips, outputs.start, row_bytes);
                        encoding.write(&rows, piece);
                    })?;
                }
                (Matrix::Seed(gate), Matrix::Seed(up)) => {
                    for half in 0..2 * n_strips {
                        let fill = if half % 2 == 0 { gate } else { up };
                        let row = outputs.start + half / 2 * HALF;
                        upload.fill(to + (2 * half * HALF * k) as u64, row * k..(row + HALF) * k, fill)?;
                    }
                }
                _ => unreachable!("a checkpoint has files or a seed"),
            }
            for name in &names {
                self.weights.used(name);
            }
        }
        let mut stack = self.stack(stack, (2 * outputs.len(), k), "gate")?;
        stack.bias = self.biases(&["gate", "up"], n, upload)?;
        Ok(stack)
    }

    fn down(&self, [n, k]: [usize; 2], upload: &mut WeightUpload) -> Result<Stack, Error> {
        let (outputs, mut stack) = (self.shard.outputs(n, 1), None);
        for expert in 0..self.n_experts {
            let name = self.name(expert, "down");
            let before = stack.as_ref().map(|(encoding, _)| *encoding);
            let (encoding, matrix) = self.find(&name, [n, k], before)?;
            let to = self.place(&mut stack, (encoding, outputs.len()), expert, upload)?;
            match matrix {
                Matrix::File(bytes) => {
                    let row_bytes = encoding.format.row_bytes(k);
                    let rows = &bytes[outputs.start * row_bytes..outputs.end * row_bytes];
                    let (n_strips, strip) = (outputs.len() / STRIP, STRIP * row_bytes);
                    upload.send_to(to, n_strips, encoding.strip_bytes(), &mut |strips, piece| {
                        encoding.write(&rows[strips.start * strip..strips.end * strip], piece);
                    })?;
                }
                Matrix::Seed(fill) => upload.fill(to, outputs.start * k..outputs.end * k, fill)?,
            }
            self.weights.used(&name);
        }
        let mut stack = self.stack(stack, (outputs.len(), k), "down")?;
        stack.bias = self.biases(&["down"], n, upload)?;
        Ok(stack)
    }

    /// The biases of each expert's outputs that this card computes; those of several matrices are interleaved
    /// like their rows.
    fn biases(&self, parts: &[&str], n: usize, upload: &mut WeightUpload) -> Result<Option<Memory>, Error> {
        if !self.has_biases {
            return Ok(None);
        }
        let name = |part: &&str| format!("{}.experts.{part}_proj.bias", self.module);
        let read = |part| self.weights.float_tensor(&name(part), &[self.n_experts * n, 1]);
        let all = parts.iter().map(read).collect::<Result<Vec<Vec<f32>>, _>>()?;
        let outputs = self.shard.outputs(n, 1);
        let mut values = Vec::with_capacity(parts.len() * self.n_experts * outputs.len());
        for expert in 0..self.n_experts {
            for first in outputs.clone().step_by(HALF) {
                let at = expert * n + first;
                for of_part in &all {
                    values.extend_from_slice(&of_part[at..at + HALF]);
                }
            }
        }
        Ok(Some(upload.floats(&values)?))
    }

    fn stack(&self, loaded: Loaded, (n, k): (usize, usize), part: &str) -> Result<Stack, Error> {
        let Some((encoding, memory)) = loaded else {
            return Err(self.weights.bad(&self.name(0, part), "is missing"));
        };
        Ok(Stack { memory, way: encoding.way, n, k, bias: None })
    }
}

/// Eight rows of each matrix in turn, for some strips of the rows from `first` on.
fn interleaved(matrices: [&[u8]; 2], strips: Range<usize>, first: usize, row_bytes: usize) -> Vec<u8> {
    let rows = |strip: usize| {
        let at = (first + strip * HALF) * row_bytes;
        matrices.map(|matrix| &matrix[at..at + HALF * row_bytes]).concat()
    };
    strips.flat_map(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_is_the_sum_of_its_parts() {
        let sums = |values: &[f32]| {
            let parts = exact_parts(values);
            let sum = |i: usize| parts.iter().map(|part| part[i].to_f32()).sum::<f32>();
            (parts.len(), (0..values.len()).map(sum).collect::<Vec<f32>>())
        };
        let plain = [0.5, -3.25, 0.0, 1e-20];
        assert_eq!(sums(&plain[..3]), (1, plain[..3].to_vec()));
        let fine: Vec<f32> =
            (1..2000).map(|i| (i as f32).sqrt() * if i % 2 == 0 { -1e-3 } else { 1e3 }).collect();
        assert_eq!(sums(&fine), (3, fine.clone()));
        let halves: Vec<f32> = fine.iter().map(|x| half::f16::from_f32(*x * 1e-3).to_f32()).collect();
        assert_eq!(sums(&halves), (2, halves.clone()));
        assert!(sums(&[f32::NAN, 1.0]).1[0].is_nan());
    }

    #[test]
    fn gates_and_ups_take_turns_by_eight_rows() {
        let [gate, up]: [Vec<u8>; 2] = [0, 100].map(|first| (first..first + 48).collect());
        let rows = interleaved([&gate, &up], 1..2, 16, 1);
        assert_eq!(rows, [24, 25, 26, 27, 28, 29, 30, 31, 124, 125, 126, 127, 128, 129, 130, 131]);
    }
}
