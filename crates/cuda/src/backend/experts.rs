//! A feed-forward half of experts: the router's choice, the pairs of row and expert sorted by expert, grouped
//! products over them, and the sum of each row's experts. The shape of every launch follows from the number
//! of rows, so that a step can be recorded; the rows of an expert are known on the device alone.

use super::{
    super::{
        Error, Gpu,
        arena::Slot,
        experts::{Experts, Stack},
        launch::{Argument, Shape},
        memory::Memory,
        products::{
            Tile,
            grouped::{self, Grouped},
        },
        tensor_map::TensorMap,
    },
    Cuda, Values,
    norm::Add,
};
use tribunal_model::{
    backend::{After, Beside},
    config::{Activation, Routing, Scoring},
};

/// Most rows of `kernels/pairs.cuh`, whose pairs are sorted by the kernel that routes them.
const MOST_FEW: usize = 64;
/// Threads of a block in `kernels/route.cu` and of `sort_pairs`.
const ROUTE_THREADS: u32 = 128;
const SORT_THREADS: u32 = 1024;

/// Destination of a row's sum of experts.
#[derive(Clone, Copy)]
pub(crate) struct Merged {
    /// Address of the first column that this card computes, in rows of the hidden size.
    pub to: u64,
    /// True if the sum is added to the values at `to`.
    pub adds: bool,
}

/// Addresses of a grouped product's operands, as in `kernels/gemm_grouped.cuh`.
pub(crate) struct GroupedInput {
    pub x: u64,
    /// 0: the rows of x are those of the pairs.
    pub rows: u64,
    pub weights: u64,
    pub n_experts: usize,
    pub tiles: u64,
    pub n_tiles: usize,
    /// 0: none.
    pub bias: u64,
    pub out: u64,
}

impl GroupedInput {
    /// The launch of a product with experts `[n, k]`: its shape, tensor maps and first arguments.
    pub(crate) fn launch(
        self,
        by: &Grouped,
        [n, k]: [usize; 2],
        gpu: &Gpu,
    ) -> Result<(Shape, Vec<TensorMap>, Vec<Argument>), Error> {
        let Self { x, rows, weights, n_experts, tiles, n_tiles, bias, out } = self;
        let blocks = by.blocks(n_tiles, n, gpu.multiprocessors());
        let Tile { threads, shared_bytes, outputs, .. } = *by.tile;
        let shape = Shape { shared_bytes, ..Shape::new([blocks, 1], threads) };
        if by.by_tma() {
            let maps = vec![TensorMap::experts(weights, n_experts, [n, k], outputs)?];
            let pointers = [x, rows, tiles, bias, out].map(Argument::At);
            let sizes = [n, k, n_tiles].map(Argument::size);
            return Ok((shape, maps, [&pointers[..], &sizes].concat()));
        }
        let pointers = [x, rows, weights, tiles, bias, out].map(Argument::At);
        Ok((shape, Vec::new(), [&pointers[..], &[n, k].map(Argument::size)].concat()))
    }
}

/// The gate in `kernels/gate.cuh`, with its limit and alpha.
fn gate_of(activation: Activation) -> (i32, [f32; 2]) {
    match activation {
        Activation::Silu => (0, [0.0; 2]),
        Activation::GeluTanh => (1, [0.0; 2]),
        Activation::ClampedSilu { alpha, limit } => (2, [limit, alpha]),
    }
}

impl Cuda {
    /// `x += norm(sum of experts)`, and the norm of the new x.
    pub(super) fn sum_of_experts(
        &self,
        x: &Values,
        h: &Values,
        experts: &Experts,
        After { norm, factor, next }: After<'_, Memory>,
    ) -> Result<Values, Error> {
        self.route(h, experts)?;
        if let Some(gated) = self.shared_gated(h, experts)? {
            self.shared_output(&gated, experts)?;
        }
        let gated = self.gated_experts(h, experts)?;
        self.expert_outputs(&gated, experts)?;
        if self.gpu.new_kernels {
            return self.residual_norm(x, (Add::Experts { experts, norm }, factor), next);
        }
        let Some(weight) = norm else {
            self.merge_experts(h.n_rows, experts, Merged { to: x.at(), adds: true })?;
            return self.residual_norm(x, (Add::Nothing, factor), next);
        };
        let values = self.values(Slot::Product, h.n_rows, 4 * self.config.hidden)?;
        self.merge_experts(h.n_rows, experts, Merged { to: values.at(), adds: false })?;
        self.residual_norm(x, (Add::Normed { values: &values, weight }, factor), next)
    }

    /// `x += norm(norm(dense half) + norm(experts))`, and the norm of the new x. The dense half goes first:
    /// its input and those of the experts and of their router share memory.
    pub(super) fn dense_and_experts(
        &self,
        x: &Values,
        &Beside { gated, down, experts, norms }: &Beside<'_, Self>,
        &After { norm, factor, next }: &After<'_, Memory>,
    ) -> Result<Values, Error> {
        let hidden = 4 * self.config.hidden;
        let dense = self.values(Slot::Beside, x.n_rows, hidden)?;
        self.multiply(gated, down, (dense.at(), down.n), false)?;
        self.route(&self.residual_norm(x, (Add::Nothing, 1.0), Some(&norms.router))?, experts)?;
        let h = self.residual_norm(x, (Add::Nothing, 1.0), Some(&norms.input))?;
        let gated = self.gated_experts(&h, experts)?;
        self.expert_outputs(&gated, experts)?;
        let values = self.values(Slot::Product, x.n_rows, hidden)?;
        self.merge_experts(x.n_rows, experts, Merged { to: values.at(), adds: false })?;
        self.add_both(x, [&dense, &values], [&norms.dense, &norms.experts], (norm, factor, next))
    }

    /// The experts of each row and their weights, and the pairs sorted by expert.
    pub(crate) fn route(&self, h: &Values, experts: &Experts) -> Result<(), Error> {
        let (rows, n) = (h.n_rows, experts.n);
        let logits = self.values(Slot::Product, rows, 4 * experts.router.n)?; // [rows, parts, n or n + 1]
        self.multiply(h, &experts.router, (logits.at(), experts.router.n), false)?;
        let Routing { scoring, top_k, n_groups, top_groups, best_of_group, normalised, scale, .. } =
            experts.routing;
        let slots = if self.plan.layout.is_some() { self.plan.slots.from(self.numbers()?) } else { 0 };
        let pairs = rows * top_k;
        let [chosen, weights, places] = self.choices(pairs)?;
        let factors = self.slot(Slot::SharedFactors, 4 * rows)?;
        let [bias, by_expert] = [&experts.bias, &experts.factors].map(|of| of.as_ref().map_or(0, Memory::at));
        let pointers =
            [logits.at(), bias, by_expert, slots, factors, places, weights, chosen].map(Argument::At);
        let sizes = [rows, n, experts.router_parts, experts.n_logits(), top_k].map(Argument::size);
        let is_sigmoid = Argument::Int(i32::from(scoring == Scoring::Sigmoid));
        let is_normalised = Argument::Int(i32::from(normalised.is_some()));
        let groups = [n_groups, top_groups, best_of_group].map(Argument::size);
        let floats = [normalised.unwrap_or(0.0), scale].map(Argument::Float);
        let how = [&[is_sigmoid][..], &groups, &[is_normalised], &floats].concat();
        let shared_bytes = (16 * n + 8 * top_k) as u32;
        let shape = Shape { shared_bytes, ..Shape::new([rows, 1], ROUTE_THREADS) };
        let (to, tiles) = self.sorted(rows, experts)?;
        let semaphore = [Argument::At(self.slot(Slot::Semaphores, 4)?)];
        let few = rows <= MOST_FEW && self.gpu.new_kernels;
        let (kernel, more) = if few {
            ("route_and_sort", [&to[..], &tiles, &semaphore].concat())
        } else {
            ("route", Vec::new())
        };
        // SAFETY: the logits are [rows, parts, n_logits], bias and factors of experts [n] f32, the plan has a
        // slot for each padded row, the slots have `pairs` and `rows` numbers, and those of sorted pairs are
        // as for `sort_pairs`; all are 256-byte aligned and freed only after the stream is synchronised.
        unsafe { self.launch(("route", kernel), shape, &[&pointers[..], &sizes, &how, &more].concat())? };
        if few {
            return Ok(());
        }
        let sizes = [rows, top_k, n].map(Argument::size);
        let arguments = [&[chosen, places].map(Argument::At)[..], &to, &sizes, &tiles].concat();
        let shape = Shape { shared_bytes: 4 * n as u32, ..Shape::new([n, 1], SORT_THREADS) };
        // SAFETY: the slots have `pairs` choices, places and rows, n + 1 starts and the tiles' numbers; all
        // are 256-byte aligned places of the arena.
        unsafe { self.launch(("experts", "sort_pairs"), shape, &arguments) }
    }

    /// Experts, weights and pairs of each row's choices.
    fn choices(&self, pairs: usize) -> Result<[u64; 3], Error> {
        let slot = |slot| self.slot(slot, 4 * pairs);
        Ok([slot(Slot::Chosen)?, slot(Slot::ChosenWeights)?, slot(Slot::PairPlaces)?])
    }

    /// Destinations of sorted pairs: rows of pairs, experts' starts, and the tiles of both products; and the
    /// tokens and the number of each product's tiles.
    fn sorted(&self, rows: usize, experts: &Experts) -> Result<([Argument; 4], [Argument; 4]), Error> {
        let (n, pairs) = (experts.n, rows * experts.routing.top_k);
        let of_pairs = self.slot(Slot::PairRows, 4 * pairs)?;
        let starts = self.slot(Slot::ExpertStarts, 4 * (n + 1))?;
        let [first, second] = [&experts.gate_up, &experts.down].map(|stack| {
            let tokens = self.tile_of(stack, pairs, n).tile.tokens;
            [tokens, grouped::most_tiles(pairs, n, tokens)]
        });
        let tiles = [self.slot(Slot::GateTiles, 16 * first[1])?, self.slot(Slot::DownTiles, 16 * second[1])?];
        let sizes = [first[0], first[1], second[0], second[1]].map(Argument::size);
        Ok(([of_pairs, starts, tiles[0], tiles[1]].map(Argument::At), sizes))
    }

    fn tile_of(&self, stack: &Stack, pairs: usize, n_experts: usize) -> Grouped {
        let kind = stack.way.kind(pairs.div_ceil(n_experts.max(1)));
        grouped::choose(self.gpu.products_by, kind, (pairs, n_experts), self.gpu.takes_new_tma())
    }

    /// The gated values of each pair of row and expert, of the columns that this card computes.
    pub(crate) fn gated_experts(&self, h: &Values, experts: &Experts) -> Result<Values, Error> {
        let (pairs, stack) = (h.n_rows * experts.routing.top_k, &experts.gate_up);
        let out = self.values(Slot::ExpertGated, pairs, stack.n)?; // [pairs, n / 2]
        let rows = self.slot(Slot::PairRows, 4 * pairs)?;
        let by = self.tile_of(stack, pairs, experts.n);
        let (which, [limit, alpha]) = gate_of(self.config.activation);
        let how = [Argument::Int(which), Argument::Float(limit), Argument::Float(alpha)];
        let tiles = (Slot::GateTiles, experts.n);
        self.grouped(stack, (by, by.gated, tiles), [h.at(), rows, out.at()], pairs, &how)?;
        Ok(out)
    }

    /// The outputs of each pair, of the columns that this card computes.
    pub(crate) fn expert_outputs(&self, gated: &Values, experts: &Experts) -> Result<(), Error> {
        let (pairs, stack) = (gated.n_rows, &experts.down);
        let out = self.slot(Slot::ExpertOutputs, 4 * pairs * stack.n)?;
        let by = self.tile_of(stack, pairs, experts.n);
        self.grouped(stack, (by, by.sums, (Slot::DownTiles, experts.n)), [gated.at(), 0, out], pairs, &[])
    }

    /// A grouped product: `kernel` with x, the rows of x that the pairs have, and its destination.
    fn grouped(
        &self,
        stack: &Stack,
        (by, kernel, (tiles, n_experts)): (Grouped, &'static str, (Slot, usize)),
        [x, rows, out]: [u64; 3],
        pairs: usize,
        more: &[Argument],
    ) -> Result<(), Error> {
        let n_tiles = grouped::most_tiles(pairs, n_experts, by.tile.tokens);
        let tiles = self.slot(tiles, 16 * n_tiles)?;
        let weights = self.weights_of_stack(stack, n_experts, pairs)?;
        let bias = stack.bias.as_ref().map_or(0, Memory::at);
        let of_experts = GroupedInput { x, rows, weights, n_experts, tiles, n_tiles, bias, out };
        let (shape, maps, arguments) = of_experts.launch(&by, [stack.n, stack.k], &self.gpu)?;
        // SAFETY: x has rows of k bf16 for all pairs, the weights are [n_experts, n, k] of their kind, the
        // bias [n_experts, n] f32, the slots have the rows of all pairs and the tiles, and `out` room for n
        // columns of all pairs (n / 2 gated ones); all are 16-byte aligned and freed only after the stream is
        // synchronised.
        unsafe { self.launch_over((by.module(), kernel), shape, &maps, &[&arguments[..], more].concat()) }
    }

    /// The address of a stack's weights in a format that has products: its own, or a panel with those of the
    /// experts that have rows.
    fn weights_of_stack(&self, stack: &Stack, n_experts: usize, pairs: usize) -> Result<u64, Error> {
        let average = pairs.div_ceil(n_experts.max(1));
        let Some(kernel) = stack.way.panel(average) else { return Ok(stack.memory.at()) };
        let starts = self.slot(Slot::ExpertStarts, 4 * (n_experts + 1))?;
        self.panel(kernel, stack.memory.at(), [n_experts * stack.n, stack.k], (starts, stack.n))
    }

    /// The gated values of the shared expert.
    pub(crate) fn shared_gated(&self, h: &Values, experts: &Experts) -> Result<Option<Values>, Error> {
        let Some(shared) = &experts.shared else { return Ok(None) };
        self.gated_of(h, &shared.gate_up, shared.width).map(Some)
    }

    /// The shared expert's outputs, in the columns of [`Slot::Product`] that this card computes.
    pub(crate) fn shared_output(&self, gated: &Values, experts: &Experts) -> Result<(), Error> {
        let Some(shared) = &experts.shared else { return Ok(()) };
        let at = self.shared_columns(gated.n_rows, experts)?;
        self.multiply(gated, &shared.down, (at, self.config.hidden), false)
    }

    /// The address of the shared expert's first column that this card computes; 0 without a shared expert.
    fn shared_columns(&self, n_rows: usize, experts: &Experts) -> Result<u64, Error> {
        let Some(shared) = &experts.shared else { return Ok(0) };
        let product = self.slot(Slot::Product, 4 * n_rows * self.config.hidden)?;
        Ok(product + 4 * shared.down.outputs[0].start as u64)
    }

    /// The sum of each row's experts, of the columns that this card computes.
    pub(crate) fn merge_experts(
        &self,
        n_rows: usize,
        experts: &Experts,
        Merged { to, adds }: Merged,
    ) -> Result<(), Error> {
        let (top_k, cols) = (experts.routing.top_k, experts.down.n);
        let from = self.outputs_of(n_rows, experts)?;
        let sizes = [n_rows, top_k, cols, self.config.hidden, usize::from(adds)].map(Argument::size);
        let shape = Shape::new([n_rows, cols.div_ceil(1024)], 256);
        let arguments = [&from[..], &[Argument::At(to)], &sizes].concat();
        // SAFETY: the outputs are [pairs, cols], weights and places [rows, top_k], the shared expert's
        // outputs and `to` rows of the hidden size from the card's first column on, a multiple of 16; all are
        // 16-byte aligned and freed only after the stream is synchronised.
        unsafe { self.launch(("experts", "merge_experts"), shape, &arguments) }
    }

    /// The operands of a sum of experts (`kernels/expert_sum.cuh`).
    pub(super) fn outputs_of(&self, n_rows: usize, experts: &Experts) -> Result<[Argument; 5], Error> {
        let pairs = n_rows * experts.routing.top_k;
        let [_, weights, places] = self.choices(pairs)?;
        let outputs = self.slot(Slot::ExpertOutputs, 4 * pairs * experts.down.n)?;
        let is_gated = experts.shared.as_ref().is_some_and(|shared| shared.is_gated);
        let factors = if is_gated { self.slot(Slot::SharedFactors, 4 * n_rows)? } else { 0 };
        let shared = self.shared_columns(n_rows, experts)?;
        Ok([outputs, places, weights, shared, factors].map(Argument::At))
    }
}
