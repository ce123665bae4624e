//! A feed-forward half of experts on a CPU: the router's choice, the rows of each expert side by side, and
//! their sums.
//!
//! A layer's experts are three stacks of matrices: all gates, all ups, all downs. The step's pairs of row and
//! expert are sorted by expert; each expert's rows are multiplied together, so that its weights are read
//! once. A row's sums are taken in the order of the experts' numbers, and each product gives a row the same
//! bits in any company, so that its output depends on that row alone.

use std::{ops::Range, sync::Arc};

use rayon::prelude::*;

use super::{
    Coding, Format, Input, Isa, Packed, activate, coding,
    lanes::{Lanes, WIDTH},
    linear::{Compute, Linear, encoded, packed},
    on_isa,
    routing::{Chosen, choose, logistic},
    schedule::{Item, gemm, gemm_each},
};
use tribunal_model::{
    Result, Weights,
    backend::{Cut, Matrices},
    config::{self, Activation, Routing, SharedExpert},
};

/// Pairs of row and expert that are computed at a time, unless one expert has more: a bound on memory.
const PAIRS: usize = 2048;

/// The experts of one layer.
pub struct Experts {
    pub(super) routing: Routing,
    /// In f32, whatever its stored type: rounding could change the choice of experts.
    pub(super) router: Packed,
    /// The correction bias; empty where there is none.
    pub(super) bias: Vec<f32>,
    pub(super) gate: Stack,
    pub(super) up: Stack,
    pub(super) down: Stack,
    pub(super) shared: Option<Shared>,
    /// Added to the router's logits; empty where there are none.
    pub(super) logit_bias: Vec<f32>,
    /// The factor of each expert's weight; empty without factors.
    pub(super) factors: Vec<f32>,
}

/// The matrices of all experts, one after another.
pub(super) struct Stack {
    pub weights: Packed,
    /// Outputs of one matrix.
    pub n: usize,
    /// Shape: `[experts, n]`; empty where there are none.
    pub bias: Vec<f32>,
}

/// The shared expert.
pub(super) struct Shared {
    gate_up: Linear,
    down: Linear,
    /// One row, in f32.
    gate: Option<Packed>,
}

/// The activation between the products, and their arithmetic.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub activation: Activation,
    pub compute: Compute,
}

/// Normed rows.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    /// Shape: `[m, hidden]`.
    pub x: &'a [f32],
    pub m: usize,
    /// The rows normed for the router.
    pub router: &'a [f32],
}

impl Experts {
    /// # Errors
    /// A missing tensor, another shape, a type that cannot be packed, or experts of different types.
    pub(super) fn load(
        weights: &Weights,
        module: &str,
        (experts, hidden): (&config::Experts, usize),
        compute: Compute,
    ) -> Result<Self> {
        let (n, width) = (experts.n, experts.width);
        let all = format!("{module}.experts");
        let stack = |part: &str, shape| Stack::load(weights, (&all, part), (n, shape), compute);
        let routing = experts.routing;
        let of_router = |is_present: bool, part: &str| {
            if is_present { weights.floats(&format!("{module}.gate.{part}"), n) } else { Ok(Vec::new()) }
        };
        let stack = |part: &str, shape: [usize; 2]| -> Result<Stack> {
            let mut stack = stack(part, shape)?;
            if experts.biases {
                let name = format!("{all}.{part}.bias");
                stack.bias = weights.float_tensor(&name, &[n * shape[0], 1])?;
            }
            Ok(stack)
        };
        let shared = experts.shared.map(|shared| Shared::load(weights, module, (shared, hidden), compute));
        Ok(Self {
            routing: experts.routing,
            router: exact(weights, &format!("{module}.gate.weight"), [n, hidden])?,
            bias: of_router(routing.has_bias, "e_score_correction_bias")?,
            logit_bias: of_router(routing.logit_bias, "bias")?,
            factors: of_router(routing.expert_factors, "per_expert_scale")?,
            gate: stack("gate_proj", [width, hidden])?,
            up: stack("up_proj", [width, hidden])?,
            down: stack("down_proj", [hidden, width])?,
            shared: shared.transpose()?,
        })
    }

    /// The sum of each row's experts.
    ///
    /// Shape: `[m, hidden]`.
    pub(super) fn forward(&self, rows: Rows<'_>, how: How) -> Vec<f32> {
        let chosen = self.route(rows, how.compute.tier); // [m, top_k]
        let (hidden, top_k) = (self.down.n, self.routing.top_k);
        let pairs = Pairs::new(&chosen, top_k, self.router.n());
        let mut sums = vec![0.0; rows.m * hidden];
        for experts in pairs.groups() {
            let outs = self.outputs(rows, &pairs, experts.clone(), how);
            let of_rows = chosen.par_chunks_exact(top_k).zip(pairs.places.par_chunks_exact(top_k));
            sums.par_chunks_exact_mut(hidden).zip(of_rows).for_each(|(sum, (chosen, places))| {
                for (chosen, &place) in chosen.iter().zip(places) {
                    let expert = chosen.expert as usize;
                    if experts.contains(&expert) {
                        let out = &outs[expert - experts.start][place as usize * hidden..][..hidden];
                        add_weighted(how.compute.tier, sum, out, chosen.weight);
                    }
                }
            });
        }
        if let Some(shared) = &self.shared {
            shared.add(&mut sums, rows, how);
        }
        sums
    }

    /// The experts of each row, row after row.
    fn route(&self, rows: Rows<'_>, isa: Isa) -> Vec<Chosen> {
        let input = Input::new(rows.router, rows.m, self.router.k(), Coding::F32, isa);
        let mut logits = gemm(&[&self.router], &input).pop().unwrap_or_default(); // [m, experts]
        let choose = |logits: &mut [f32]| {
            add_bias(logits, &self.logit_bias);
            let mut chosen = choose(&self.routing, logits, &self.bias, isa);
            if !self.factors.is_empty() {
                for chosen in &mut chosen {
                    chosen.weight *= self.factors[chosen.expert as usize];
                }
            }
            chosen
        };
        logits.par_chunks_exact_mut(self.router.n()).flat_map_iter(choose).collect()
    }

    /// The outputs of some experts, each for its rows; empty for an expert without rows.
    ///
    /// Shape: `[experts][rows of the expert, hidden]`.
    fn outputs(&self, rows: Rows<'_>, pairs: &Pairs, experts: Range<usize>, how: How) -> Vec<Vec<f32>> {
        let active: Vec<usize> = experts.clone().filter(|&expert| !pairs.rows(expert).is_empty()).collect();
        let gated = self.gated(rows, pairs, &active, how);
        let items = self.down.items(&active, &gated);
        let mut products = gemm_each(&items).into_iter();
        let mut outs = vec![Vec::new(); experts.len()];
        for &expert in &active {
            let mut out = products.next().unwrap_or_default();
            add_bias(&mut out, self.down.bias_of(expert));
            outs[expert - experts.start] = out;
        }
        outs
    }

    /// The inputs of the second product, for each of these experts.
    fn gated(&self, rows: Rows<'_>, pairs: &Pairs, active: &[usize], how: How) -> Vec<Arc<Input>> {
        let How { activation, compute: Compute { tier: isa, activations, .. } } = how;
        let coding = |stack: &Stack| coding(stack.weights.format(), activations);
        let for_gate = gathered(rows, pairs, active, (coding(&self.gate), isa));
        let is_same = coding(&self.up) == coding(&self.gate);
        let for_up =
            if is_same { for_gate.clone() } else { gathered(rows, pairs, active, (coding(&self.up), isa)) };
        let items: Vec<Item> =
            self.gate.items(active, &for_gate).into_iter().chain(self.up.items(active, &for_up)).collect();
        let mut gates = gemm_each(&items);
        let ups = gates.split_off(active.len());
        let (width, coding) = (self.gate.n, coding(&self.down));
        let gated = |((mut gate, mut up), &expert): ((Vec<f32>, Vec<f32>), &usize)| {
            let m = gate.len() / width;
            add_bias(&mut gate, self.gate.bias_of(expert));
            add_bias(&mut up, self.up.bias_of(expert));
            let gated = gate_mul(activation, isa, gate, &up, m);
            Arc::new(Input::new(&gated, m, width, coding, isa))
        };
        gates.into_par_iter().zip(ups).zip(active).map(gated).collect()
    }
}

/// The rows of some experts, coded; all rows are coded once for all experts that take all of them.
fn gathered(
    rows: Rows<'_>,
    pairs: &Pairs,
    active: &[usize],
    (coding, isa): (Coding, Isa),
) -> Vec<Arc<Input>> {
    let width = rows.x.len() / rows.m.max(1);
    let input = |x: &[f32]| Arc::new(Input::new(x, x.len() / width, width, coding, isa));
    let all_rows = active.iter().any(|&expert| pairs.rows(expert).len() == rows.m).then(|| input(rows.x));
    let of_expert = |&expert: &usize| match &all_rows {
        Some(all_rows) if pairs.rows(expert).len() == rows.m => all_rows.clone(),
        _ => {
            let row = |&row: &u32| &rows.x[row as usize * width..][..width];
            input(&pairs.rows(expert).iter().flat_map(row).copied().collect::<Vec<f32>>())
        }
    };
    active.par_iter().map(of_expert).collect()
}

impl Stack {
    fn load(
        weights: &Weights,
        names: (&str, &str),
        (n_experts, [n, k]): (usize, [usize; 2]),
        compute: Compute,
    ) -> Result<Self> {
        let (module, part) = names;
        let name = |expert: usize| format!("{module}.{expert}.{part}.weight");
        let mut stack: Option<Packed> = None;
        for expert in 0..n_experts {
            let name = name(expert);
            let bad = |reason: String| weights.bad(&name, &reason);
            let (format, bytes) = encoded(weights, &name, [n, k], compute.floats)?;
            let stack = match &mut stack {
                Some(stack) => stack,
                none => none.insert(Packed::stack(format, n_experts * n, k).map_err(|e| bad(e.to_string()))?),
            };
            if stack.format() != format {
                let first = stack.format();
                return Err(bad(format!(
                    "is {format:?}, and that of expert 0 is {first:?}; one type is supported"
                )));
            }
            stack.fill(expert * n, n, &bytes).map_err(|e| bad(e.to_string()))?;
            weights.used(&name);
        }
        let weights = stack.ok_or_else(|| weights.bad(&name(0), "is missing"))?;
        Ok(Self { weights, n, bias: Vec::new() })
    }

    /// The biases of one expert, or nothing.
    fn bias_of(&self, expert: usize) -> &[f32] {
        self.bias.get(expert * self.n..(expert + 1) * self.n).unwrap_or(&[])
    }

    /// The products of some experts with their inputs.
    fn items<'a>(&'a self, active: &[usize], inputs: &'a [Arc<Input>]) -> Vec<Item<'a>> {
        let item = |(&expert, input): (&usize, &'a Arc<Input>)| Item {
            weights: &self.weights,
            outputs: expert * self.n..(expert + 1) * self.n,
            input,
        };
        active.iter().zip(inputs).map(item).collect()
    }
}

/// Adds a bias to each row of its length.
fn add_bias(rows: &mut [f32], bias: &[f32]) {
    if !bias.is_empty() {
        rows.chunks_exact_mut(bias.len()).for_each(|row| row.iter_mut().zip(bias).for_each(|(x, b)| *x += b));
    }
}

/// A matrix as f32, whatever its format.
fn exact(weights: &Weights, name: &str, [n, k]: [usize; 2]) -> Result<Packed> {
    let stored = packed(weights, name, [n, k], Some(Format::F32))?;
    if stored.format() == Format::F32 {
        return Ok(stored);
    }
    let mut values = vec![0.0; n * k];
    values.chunks_exact_mut(k).enumerate().for_each(|(i, row)| stored.dequantize_row(i, row));
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    Packed::pack(Format::F32, n, k, &bytes).map_err(|e| weights.bad(name, &e.to_string()))
}

/// The step's pairs of row and expert, sorted by expert, those of one expert by row.
struct Pairs {
    /// The start of each expert's pairs, and the end of the last one's.
    starts: Vec<usize>,
    /// Shape: `[pairs]`.
    rows: Vec<u32>,
    /// Shape: `[m, top_k]`; the index of each pair among those of its expert.
    places: Vec<u32>,
}

impl Pairs {
    fn new(chosen: &[Chosen], top_k: usize, n_experts: usize) -> Self {
        let mut counts = vec![0_u32; n_experts];
        let place = |chosen: &Chosen| {
            let count = &mut counts[chosen.expert as usize];
            *count += 1;
            *count - 1
        };
        let places: Vec<u32> = chosen.iter().map(place).collect();
        let mut starts = vec![0];
        for count in counts {
            starts.push(starts[starts.len() - 1] + count as usize);
        }
        let mut rows = vec![0; chosen.len()];
        for (i, (chosen, &place)) in chosen.iter().zip(&places).enumerate() {
            rows[starts[chosen.expert as usize] + place as usize] = (i / top_k) as u32;
        }
        Self { starts, rows, places }
    }

    /// The rows of an expert, ascending.
    fn rows(&self, expert: usize) -> &[u32] {
        &self.rows[self.starts[expert]..self.starts[expert + 1]]
    }

    /// Neighbouring experts that together have [`PAIRS`] pairs at most, or one that has more.
    fn groups(&self) -> Vec<Range<usize>> {
        let mut groups: Vec<Range<usize>> = Vec::new();
        for expert in 0..self.starts.len() - 1 {
            let end = self.starts[expert + 1];
            match groups.last_mut() {
                Some(group) if end - self.starts[group.start] <= PAIRS => group.end = expert + 1,
                _ => groups.push(expert..expert + 1),
            }
        }
        groups
    }
}

/// `sums += weight * out`, each product rounded before it is added.
fn add_weighted(isa: Isa, sums: &mut [f32], out: &[f32], weight: f32) {
    on_isa!(isa, weighted<>(sums: &mut [f32], out: &[f32], weight: f32));
}

#[inline(always)]
fn weighted<L: Lanes>(sums: &mut [f32], out: &[f32], weight: f32) {
    // Whole vectors: the hidden size is a multiple of their width.
    for (sum, out) in sums.as_chunks_mut::<WIDTH>().0.iter_mut().zip(out.as_chunks::<WIDTH>().0) {
        L::load(sum).add(L::load(out).mul(L::splat(weight))).store(sum);
    }
}

impl Shared {
    fn load(
        weights: &Weights,
        module: &str,
        (shared, hidden): (SharedExpert, usize),
        compute: Compute,
    ) -> Result<Self> {
        let at = |part: &str| format!("{module}.shared_experts.{part}_proj");
        let gate_up = [(at("gate"), shared.width), (at("up"), shared.width)];
        let down = [(at("down"), hidden)];
        let linear = |parts: &[(String, usize)], k| {
            Linear::load(weights, Matrices { parts, k, cut: Cut::Anywhere }, compute)
        };
        let gate = format!("{module}.shared_expert_gate.weight");
        Ok(Self {
            gate_up: linear(&gate_up, hidden)?,
            down: linear(&down, shared.width)?,
            gate: shared.is_gated.then(|| exact(weights, &gate, [1, hidden])).transpose()?,
        })
    }

    /// Adds the shared expert's output to each row's sum.
    fn add(&self, sums: &mut [f32], Rows { x, m, .. }: Rows<'_>, How { activation, compute }: How) {
        let isa = compute.tier;
        let Ok([gate, up]) = <[Vec<f32>; 2]>::try_from(self.gate_up.forward(x, m, &[], compute)) else {
            return;
        };
        let gated = gate_mul(activation, isa, gate, &up, m);
        let out = self.down.forward(&gated, m, &[], compute).pop().unwrap_or_default(); // [m, hidden]
        let factors = self.gate.as_ref().map(|gate| {
            let input = Input::new(x, m, gate.k(), Coding::F32, isa);
            let mut factors = gemm(&[gate], &input).pop().unwrap_or_default(); // [m]
            logistic(isa, &mut factors);
            factors
        });
        let hidden = out.len() / m.max(1);
        sums.par_chunks_exact_mut(hidden).zip(out.par_chunks_exact(hidden)).enumerate().for_each(
            |(row, (sum, out))| {
                add_weighted(isa, sum, out, factors.as_ref().map_or(1.0, |factors| factors[row]));
            },
        );
    }
}

/// `activation(gate) * up`, row by row.
fn gate_mul(activation: Activation, isa: Isa, mut gate: Vec<f32>, up: &[f32], m: usize) -> Vec<f32> {
    let width = (up.len() / m.max(1)).max(1);
    gate.par_chunks_mut(width)
        .zip(up.par_chunks(width))
        .for_each(|(gate, up)| activate::apply(activation, isa, gate, up));
    gate
}
