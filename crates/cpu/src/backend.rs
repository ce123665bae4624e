//! The decoder's operations on a CPU, on plain slices; parallel loops run in the rayon pool of the caller.

use std::ops::Range;

use rayon::prelude::*;

use super::{
    activate, attention,
    cache::{Cache, with_halves},
    delta_net::{self, DeltaNet, Mixed},
    experts::{self, Experts, How},
    latent::{Latent, Projection},
    linear::{Compute, Linear, Table},
    norm,
    rotary::{Heads, LayerCache, Rotary},
    routing,
    rows::{Floats, Queries, RowOrder},
    sampler, softmax,
    states::States,
};
use tribunal_model::{
    Config, Error, KvType, Result, Weights,
    angles::Angles,
    backend::{
        Added, After, Backend, Beside, DeltaNetWeights, HeadNorms, LayerNorm, LogitsStatus, Matrices, Normed,
        Pointwise, Rows, Runtime, StepStatus,
    },
    config::{self, Attention, AttentionKind},
    sampler::{SampleRequest, SampledToken},
    step::{Adapted, Step},
};

/// Tokens of a step up to which reading the weights costs more than computing with them.
const CHEAP_ROWS: usize = 8;

/// This machine's processor with one model's cache.
pub struct Cpu {
    config: Config,
    compute: Compute,
    cache: Cache,
    n_blocks: usize,
    states: States,
    step: Step,
    /// The step's rows by the block that they write to.
    runs: Vec<Range<usize>>,
    angles: Angles,
    sliding_angles: Option<Angles>,
    /// All rows, and those with logits, in the order for attention.
    all: RowOrder,
    wanted: RowOrder,
    /// The current rows that take adapters: all rows, and from `take_wanted` on those with logits.
    adapted: Vec<Adapted>,
    /// Shape: `[wanted, vocab]`.
    logits: Vec<f32>,
    /// Shape: `[notes][noted, hidden]`.
    noted: Vec<Vec<f32>>,
}

impl Cpu {
    /// A processor without a cache.
    pub fn new(config: &Config, compute: Compute) -> Self {
        let angles = |attention: &Attention| Angles::new(&attention.rope, attention.rotary_dim);
        Self {
            compute,
            cache: Cache::new(config, 0, KvType::default()),
            n_blocks: 0,
            states: States::new(config, 0),
            step: Step::default(),
            runs: Vec::new(),
            angles: angles(&config.full),
            sliding_angles: config.sliding.as_ref().filter(|_| config.has_sliding_angles()).map(angles),
            all: RowOrder::default(),
            wanted: RowOrder::default(),
            adapted: Vec::new(),
            logits: Vec::new(),
            noted: Vec::new(),
            config: config.clone(),
        }
    }

    fn eps(&self) -> f32 {
        self.config.norm_eps as f32
    }

    fn centred_norm<'a>(&self, weight: &'a [f32]) -> norm::Norm<'a> {
        norm::Norm { isa: self.compute.tier, weight, eps: self.eps(), is_centred: self.config.norm_centred }
    }

    /// Adds the output of a half layer to the stream.
    fn add(&mut self, x: &mut Floats, mut y: Vec<f32>, after: &After<'_, Vec<f32>>) -> Result<Floats> {
        let (isa, norm) = (self.compute.tier, after.norm.map(|weight| (weight.as_slice(), self.eps())));
        norm::add(isa, &mut x.values, &mut y, x.width, norm);
        // A factor of 1 changes no bit.
        if after.factor.to_bits() != 1.0_f32.to_bits() {
            norm::scale(isa, &mut x.values, x.width, after.factor);
        }
        self.norm(x, after.next)
    }

    /// The sums of rows' experts.
    ///
    /// Shape: `[rows, hidden]`.
    fn mixed(&self, experts: &Experts, input: &Floats, router: &[f32]) -> Vec<f32> {
        let how = How { activation: self.config.activation, compute: self.compute };
        experts.forward(experts::Rows { x: &input.values, m: input.n_rows(), router }, how)
    }
}

impl Runtime for Cpu {
    fn reserve(&mut self, n_blocks: usize, kv: KvType) -> Result<()> {
        self.cache = Cache::new(&self.config, n_blocks, kv);
        self.n_blocks = n_blocks;
        Ok(())
    }

    fn reserve_states(&mut self, n_slots: usize) -> Result<()> {
        self.states = States::new(&self.config, n_slots);
        Ok(())
    }

    fn read_prefix(&self, blocks: &[u32], state: Option<u32>) -> Option<Vec<u8>> {
        let mut bytes = self.cache.read_blocks(blocks);
        bytes.extend(state.into_iter().flat_map(|slot| self.states.read(slot)));
        Some(bytes)
    }

    fn write_prefix(&mut self, blocks: &[u32], state: Option<u32>, bytes: &[u8]) {
        let n_state = state.map_or(0, |_| self.config.state_bytes());
        let (of_blocks, of_state) = bytes.split_at(bytes.len() - n_state);
        self.cache.write_blocks(blocks, of_blocks);
        if let Some(slot) = state {
            self.states.write(slot, of_state);
        }
    }

    fn take(&self, wants: &[SampleRequest]) -> Result<Vec<Option<SampledToken>>> {
        let rows = self.logits.par_chunks_exact(self.config.vocab).zip(wants);
        Ok(rows.map(|(row, request)| sampler::sample(row, request, self.compute.tier)).collect())
    }

    fn logprobs(&self, rows: &[(usize, &[u32])]) -> Result<Vec<Option<Vec<f64>>>> {
        let of_row = |&(row, ids): &(usize, &[u32])| {
            let logits = self.logits.chunks_exact(self.config.vocab).nth(row);
            logits.and_then(|logits| sampler::logprobs(logits, ids, self.compute.tier))
        };
        Ok(rows.par_iter().map(of_row).collect())
    }

    fn each_logits(&self, visit: &mut dyn FnMut(&[f32])) -> Result<()> {
        self.logits.chunks_exact(self.config.vocab).for_each(visit);
        Ok(())
    }

    fn cheap_rows(&self) -> usize {
        CHEAP_ROWS
    }

    fn computes_on_threads(&self) -> bool {
        true
    }
}

impl Backend for Cpu {
    type Stream = Floats;
    type Input = Floats;
    type Product = Vec<Floats>;
    type Queries = Queries;
    type Vector = Vec<f32>;
    type Linear = Linear;
    type Table = Table;
    type Experts = Experts;
    type DeltaNet = DeltaNet;
    type Latent = Latent;

    fn vector(&self, values: Vec<f32>) -> Result<Self::Vector> {
        Ok(values)
    }

    fn table(&self, weights: &Weights, name: &str, shape: [usize; 2]) -> Result<Self::Table> {
        Table::load(weights, name, shape, self.compute)
    }

    fn linear(&self, weights: &Weights, matrices: Matrices<'_>) -> Result<Self::Linear> {
        Linear::load(weights, matrices, self.compute)
    }

    fn experts(&self, weights: &Weights, module: &str, experts: &config::Experts) -> Result<Self::Experts> {
        Experts::load(weights, module, (experts, self.config.hidden), self.compute)
    }

    fn delta_net(&self, weights: DeltaNetWeights) -> Result<Self::DeltaNet> {
        let taps = self.config.delta_net.as_ref().map_or(0, |delta| delta.conv);
        Ok(DeltaNet::new(weights, taps))
    }

    fn latent(&self, weights: &Weights, module: &str) -> Result<Self::Latent> {
        Latent::load(weights, module, &self.config, self.compute)
    }

    fn tied(&self, table: &Self::Table) -> Result<Self::Linear> {
        Ok(Linear::tied(table))
    }

    fn adapt(&mut self, linear: &mut Self::Linear, parts: &[Option<Added<'_>>]) -> Result<()> {
        linear.adapt(parts)
    }

    fn begin(&mut self, step: Step) -> Result<StepStatus> {
        self.noted.clear();
        step.check(self.n_blocks, self.config.vocab)?;
        self.runs = step.runs();
        if self.config.delta_net.is_some() {
            step.check_states(self.states.n_slots())?;
        }
        for &(from, to) in &step.copies {
            self.cache.copy_block(from, to);
        }
        for &(from, to) in &step.state_copies {
            self.states.copy(from, to);
        }
        let furthest = step.positions.iter().max().map_or(0, |&position| position as usize + 1);
        self.angles.reach(furthest);
        if let Some(angles) = &mut self.sliding_angles {
            angles.reach(furthest);
        }
        self.all = RowOrder { rows: (0..step.n_rows() as u32).collect(), order: step.order.clone() };
        self.wanted = RowOrder { rows: step.wanted.clone(), order: step.wanted_order() };
        self.adapted = step.adapted();
        self.logits.clear();
        self.step = step;
        Ok(StepStatus::Execute)
    }

    fn embed(&mut self, table: &Self::Table) -> Result<Self::Stream> {
        let mut values = table.rows(&self.step.tokens);
        if let Some(scale) = self.config.embedding_scale {
            for x in &mut values {
                *x *= scale;
            }
        }
        Ok(Floats { values, width: self.config.hidden })
    }

    fn add_positions(&mut self, x: &mut Self::Stream, table: &Self::Vector) -> Result<()> {
        for (sums, &place) in x.values.chunks_exact_mut(x.width).zip(&self.step.places) {
            let more = &table[place as usize * x.width..][..x.width];
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        Ok(())
    }

    fn layer_norm(
        &mut self,
        x: &mut Self::Stream,
        LayerNorm { weight, bias }: LayerNorm<'_, Self::Vector>,
        to: Normed,
    ) -> Result<Self::Input> {
        let mut values = x.values.clone();
        self.centred_norm(weight).with_bias(&mut values, bias);
        if to == Normed::StreamToo {
            x.values.copy_from_slice(&values);
        }
        Ok(Floats { values, width: x.width })
    }

    fn norm(&mut self, x: &Self::Stream, weight: Option<&Self::Vector>) -> Result<Self::Input> {
        let mut values = x.values.clone();
        if let Some(weight) = weight {
            self.centred_norm(weight).groups(&mut values, x.width);
        }
        Ok(Floats { values, width: x.width })
    }

    fn product(&mut self, x: &Self::Input, w: &Self::Linear) -> Result<Self::Product> {
        let m = x.n_rows();
        let parts = w.forward(&x.values, m, &self.adapted, self.compute);
        Ok(parts.into_iter().map(|values| Floats { width: values.len() / m.max(1), values }).collect())
    }

    fn add_product(
        &mut self,
        x: &mut Self::Stream,
        h: &Self::Input,
        w: &Self::Linear,
        after: After<'_, Self::Vector>,
    ) -> Result<Self::Input> {
        let product = w.forward(&h.values, h.n_rows(), &self.adapted, self.compute).pop().unwrap_or_default();
        self.add(x, product, &after)
    }

    fn accumulate(&mut self, x: &mut Self::Stream, h: &Self::Input, w: &Self::Linear) -> Result<()> {
        let product = w.forward(&h.values, h.n_rows(), &self.adapted, self.compute).pop();
        norm::add(self.compute.tier, &mut x.values, &mut product.unwrap_or_default(), x.width, None);
        Ok(())
    }

    fn project(
        &mut self,
        layer: usize,
        h: &Self::Input,
        qkv: &Self::Linear,
        norms: HeadNorms<'_, Self::Vector>,
        kind: AttentionKind,
    ) -> Result<Self::Queries> {
        let mut qkv = self.product(h, qkv)?;
        let gate = if self.config.gated_attention { qkv.pop() } else { None };
        let Ok([mut q, mut k, mut v]) = <[Floats; 3]>::try_from(qkv) else {
            return Err(Error::Step("expected the fused query, key and value projections".into()));
        };
        let angles = if kind == AttentionKind::Sliding { self.sliding_angles.as_ref() } else { None };
        let attention = self.config.attention(kind);
        let mut of_heads = [norms.q, norms.k].map(|norm| norm.map(Vec::as_slice));
        for ((norm, values), n_heads) in
            of_heads.iter_mut().zip([&mut q, &mut k]).zip([self.config.n_heads, attention.n_kv_heads])
        {
            if let Some(group) = self.config.qk_norm.group(n_heads, attention.head_dim)
                && let Some(weight) = norm.take()
            {
                self.centred_norm(weight).groups(&mut values.values, group);
            }
        }
        let [q_norm, k_norm] = of_heads;
        let rotary = Rotary {
            isa: self.compute.tier,
            config: &self.config,
            attention,
            angles: angles.unwrap_or(&self.angles),
            q_norm,
            k_norm,
            v_norm: norms.v.map(Vec::as_slice),
        };
        let mut heads = Heads { q: &mut q.values, k: &mut k.values, v: &mut v.values };
        with_halves!(&mut self.cache, halves => {
            let mut cache = LayerCache { keys: &mut halves.keys[layer], values: &mut halves.values[layer] };
            rotary.apply(&self.step, &self.runs, &mut heads, &mut cache);
        });
        Ok(Queries { values: q, gate })
    }

    fn project_latent(
        &mut self,
        layer: usize,
        h: &Self::Input,
        latent: &Self::Latent,
    ) -> Result<Self::Queries> {
        let projection = Projection {
            compute: self.compute,
            config: &self.config,
            angles: &self.angles,
            step: &self.step,
            runs: &self.runs,
        };
        let values = with_halves!(&mut self.cache, halves => {
            projection.apply(latent, &h.values, &mut halves.keys[layer])
        })?;
        let width = self.config.query_width(AttentionKind::Full);
        Ok(Queries { values: Floats { values, width }, gate: None })
    }

    fn expand(&mut self, attended: &Self::Input, latent: &Self::Latent) -> Result<Self::Input> {
        let values = latent.expand(&attended.values, &self.config, self.compute)?;
        Ok(Floats { values, width: self.config.n_heads * self.config.full.output_dim() })
    }

    fn take_wanted(
        &mut self,
        x: Self::Stream,
        queries: Self::Queries,
    ) -> Result<(Self::Stream, Self::Queries)> {
        if self.wanted.rows.len() == self.all.rows.len() {
            return Ok((x, queries));
        }
        self.adapted = self.step.wanted_adapted();
        let take = |rows: &Floats| rows.take(&self.wanted.rows);
        let queries = Queries { values: take(&queries.values), gate: queries.gate.as_ref().map(take) };
        Ok((take(&x), queries))
    }

    fn attend(
        &mut self,
        layer: usize,
        queries: Self::Queries,
        rows: Rows,
        kind: AttentionKind,
        sinks: Option<&Self::Vector>,
    ) -> Result<Self::Input> {
        let places = if rows == Rows::Wanted { &self.wanted } else { &self.all };
        let Queries { values: queries, gate } = queries;
        let tile = attention::Queries { values: &queries.values, rows: &places.rows, order: &places.order };
        let values = with_halves!(&self.cache, halves => {
            let cache = (halves.keys[layer].as_slice(), halves.values[layer].as_slice());
            attention::attended((&self.config, kind, sinks.map(Vec::as_slice)), self.compute.tier, &self.step, &tile, cache)
        });
        let width = self.config.n_heads * self.config.attention(kind).attended_dim();
        let attended = Floats { values, width };
        let Some(mut gate) = gate else { return Ok(attended) };
        let (n, isa) = (gate.width, self.compute.tier);
        let rows = gate.values.par_chunks_mut(n).zip(attended.values.par_chunks(n));
        rows.for_each(|(gate, attended)| activate::logistic_mul(isa, gate, attended));
        Ok(gate)
    }

    fn mix(
        &mut self,
        layer: usize,
        h: &Self::Input,
        projections: &Self::Linear,
        delta_net: &Self::DeltaNet,
    ) -> Result<Self::Input> {
        let parts = self.product(h, projections)?;
        let (Ok([qkv, z, mut beta, times]), Some(shape)) =
            (<[Floats; 4]>::try_from(parts), &self.config.delta_net)
        else {
            return Err(Error::Step("expected the four projections of linear attention".into()));
        };
        routing::logistic(self.compute.tier, &mut beta.values);
        let mixed = Mixed { isa: self.compute.tier, shape, step: &self.step, eps: self.eps() };
        let inputs = delta_net::Inputs { qkv: &qkv.values, beta: &beta.values, times: &times.values };
        let (width, mut gate) = (z.width, z.values);
        mixed.apply(delta_net, &inputs, &mut gate, self.states.layer(layer));
        Ok(Floats { values: gate, width })
    }

    fn gated_product(&mut self, x: &Self::Input, gate_up: &Self::Linear) -> Result<Self::Input> {
        let gate_up = self.product(x, gate_up)?; // [rows, 2 intermediate]
        let Ok([mut gate, up]) = <[Floats; 2]>::try_from(gate_up) else {
            return Err(Error::Step("expected the fused gate and up projections".into()));
        };
        let (n, isa, activation) = (gate.width, self.compute.tier, self.config.activation);
        let rows = gate.values.par_chunks_mut(n).zip(up.values.par_chunks(n));
        rows.for_each(|(gate, up)| activate::apply(activation, isa, gate, up));
        Ok(gate)
    }

    fn pointwise_product(
        &mut self,
        x: &Self::Input,
        up: &Self::Linear,
        function: Pointwise,
    ) -> Result<Self::Input> {
        let mut up = self.product(x, up)?.pop().unwrap_or(Floats { values: Vec::new(), width: 1 });
        let (n, isa) = (up.width, self.compute.tier);
        up.values.par_chunks_mut(n).for_each(|row| activate::pointwise(function, isa, row));
        Ok(up)
    }

    fn add_experts(
        &mut self,
        x: &mut Self::Stream,
        h: &Self::Input,
        experts: &Self::Experts,
        after: After<'_, Self::Vector>,
    ) -> Result<Self::Input> {
        let sums = self.mixed(experts, h, &h.values);
        self.add(x, sums, &after)
    }

    fn add_beside(
        &mut self,
        x: &mut Self::Stream,
        Beside { gated, down, experts, norms }: Beside<'_, Self>,
        after: After<'_, Self::Vector>,
    ) -> Result<Self::Input> {
        let (input, router) = (self.norm(x, Some(&norms.input))?, self.norm(x, Some(&norms.router))?);
        let mut sums = self.mixed(experts, &input, &router.values);
        let dense = down.forward(&gated.values, gated.n_rows(), &self.adapted, self.compute);
        let dense = dense.into_iter().next().unwrap_or_default();
        let mut both = norm::rows(self.compute.tier, &dense, &norms.dense, self.eps());
        let norm = Some((norms.experts.as_slice(), self.eps()));
        norm::add(self.compute.tier, &mut both, &mut sums, x.width, norm);
        self.add(x, both, &after)
    }

    fn floats(&self, x: &Self::Stream) -> Result<Vec<f32>> {
        Ok(x.values.clone())
    }

    fn note(&mut self, x: &Self::Stream) -> Result<()> {
        let row = |&row: &u32| &x.values[row as usize * x.width..][..x.width];
        self.noted.push(self.step.noted.iter().flat_map(row).copied().collect());
        Ok(())
    }

    fn noted(&mut self) -> Result<Vec<Vec<f32>>> {
        Ok(std::mem::take(&mut self.noted))
    }

    fn keep_logits(&mut self, logits: Self::Product) -> Result<LogitsStatus> {
        self.logits = logits.into_iter().next().map(|logits| logits.values).unwrap_or_default();
        if let Some(cap) = self.config.logit_softcap {
            let isa = self.compute.tier;
            self.logits.par_chunks_mut(self.config.vocab).for_each(|row| softmax::softcap(isa, row, cap));
        }
        Ok(LogitsStatus::Ready)
    }
}
