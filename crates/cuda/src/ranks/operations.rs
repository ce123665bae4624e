//! Each operation of the decoder on all cards: the card's own part, then the gathering of the results that
//! others need.

use super::{
    super::{
        arena::Slot,
        backend::{Add, Latent, Queries, Values},
        delta_net::DeltaNet,
        experts::Experts,
        graphs::Graphs,
        memory::Memory,
        weights::{Linear, Table},
    },
    Ranks,
    exchange::Columns,
};
use tribunal_model::{
    KvType, Result, Weights,
    backend::{
        Added, After, Backend, Beside, DeltaNetWeights, HeadNorms, LayerNorm, LogitsStatus, Matrices, Normed,
        Pointwise, Recheck, Rows, Runtime, StepStatus,
    },
    config::{self, AttentionKind},
    sampler::{SampleRequest, SampledToken},
    step::{Step, StepLimits},
};

impl Ranks {
    /// Gathers rows of bf16 on every card, as a product's input.
    pub(super) fn whole_rows(&mut self, pieces: &[Values], ends: Vec<usize>) -> Result<Vec<Values>> {
        let (row_bytes, in_place) = (ends.last().copied().unwrap_or(0), false);
        let full_rows = self.each(|i, cuda| cuda.values(Slot::Whole, pieces[i].n_rows(), row_bytes))?;
        self.exchange(&Columns { pieces, ends, in_place }, &full_rows)?;
        Ok(full_rows)
    }

    /// Writes each card's columns of a product to rows of the hidden size, or adds them, and gathers the
    /// others'.
    fn whole_sums(&mut self, h: &[Values], w: &[Linear], to: &[Values], add: bool) -> Result<()> {
        let hidden = self.whole.hidden;
        self.each(|i, cuda| {
            let first = w[i].outputs[0].start;
            cuda.multiply(&h[i], &w[i], (to[i].at() + 4 * first as u64, hidden), add)
        })?;
        self.exchange(&Columns { pieces: to, ends: self.ends(hidden, 4), in_place: true }, to)
    }
}

impl Ranks {
    /// Adds the norm of whole rows; returns the norm of the sum.
    fn add_normed(
        &mut self,
        x: &[Values],
        y: &[Values],
        norm: &[Memory],
        (factor, next): (f32, Option<&Vec<Memory>>),
    ) -> Result<Vec<Values>> {
        self.await_readers()?;
        self.each(|i, cuda| {
            let add = Add::Normed { values: &y[i], weight: &norm[i] };
            cuda.residual_norm(&x[i], (add, factor), next.map(|next| &next[i]))
        })
    }

    /// Waits for the other cards' reads of the last product before the next one overwrites it.
    fn await_readers(&self) -> Result<()> {
        if self.detour.is_none() { self.synchronize() } else { Ok(()) }
    }

    /// The norm of whole rows with all terms added, times a factor.
    fn norm_times(&self, x: &[Values], (factor, next): (f32, Option<&Vec<Memory>>)) -> Result<Vec<Values>> {
        self.each(|i, cuda| cuda.residual_norm(&x[i], (Add::Nothing, factor), next.map(|next| &next[i])))
    }
}

impl Runtime for Ranks {
    fn reserve(&mut self, n_blocks: usize, kv: KvType) -> Result<()> {
        self.finish()?;
        self.each_mut(|_, cuda| cuda.reserve(n_blocks, kv)).map(|_| ())
    }

    fn reserve_states(&mut self, n_slots: usize) -> Result<()> {
        self.finish()?;
        self.each_mut(|_, cuda| cuda.reserve_states(n_slots)).map(|_| ())
    }

    fn step_bytes(&self, most: StepLimits) -> usize {
        self.cards.iter().map(|card| card.cuda.step_bytes(most)).max().unwrap_or(0)
    }

    fn prepare(&mut self, most: StepLimits) -> Result<()> {
        self.finish()?;
        self.each_mut(|_, cuda| cuda.prepare(most)).map(|_| ())
    }

    fn take_kernels(&mut self, recheck: Option<Recheck>) {
        self.cards.iter_mut().for_each(|card| card.cuda.take_kernels(recheck));
    }

    fn take(&self, wants: &[SampleRequest]) -> Result<Vec<Option<SampledToken>>> {
        self.cards[0].cuda.take(wants)
    }

    fn logprobs(&self, rows: &[(usize, &[u32])]) -> Result<Vec<Option<Vec<f64>>>> {
        self.cards[0].cuda.logprobs(rows)
    }

    fn each_logits(&self, visit: &mut dyn FnMut(&[f32])) -> Result<()> {
        self.cards[0].cuda.each_logits(visit)
    }

    fn cheap_rows(&self) -> usize {
        self.cards[0].cuda.cheap_rows()
    }

    fn computes_on_threads(&self) -> bool {
        false
    }
}

impl Backend for Ranks {
    type Stream = Vec<Values>;
    type Input = Vec<Values>;
    type Product = Vec<Values>;
    type Queries = Vec<Queries>;
    type Vector = Vec<Memory>;
    type Linear = Vec<Linear>;
    type Table = Vec<Table>;
    type Experts = Vec<Experts>;
    type DeltaNet = Vec<DeltaNet>;
    type Latent = Vec<Latent>;

    fn vector(&self, values: Vec<f32>) -> Result<Self::Vector> {
        self.each(|_, cuda| cuda.vector(values.clone()))
    }

    fn table(&self, weights: &Weights, name: &str, shape: [usize; 2]) -> Result<Self::Table> {
        self.each(|_, cuda| cuda.table(weights, name, shape))
    }

    fn linear(&self, weights: &Weights, matrices: Matrices<'_>) -> Result<Self::Linear> {
        self.each(|_, cuda| cuda.linear(weights, matrices))
    }

    fn experts(&self, weights: &Weights, module: &str, experts: &config::Experts) -> Result<Self::Experts> {
        self.each(|_, cuda| cuda.experts(weights, module, experts))
    }

    fn delta_net(&self, weights: DeltaNetWeights) -> Result<Self::DeltaNet> {
        self.each(|_, cuda| cuda.delta_net(weights.clone()))
    }

    fn latent(&self, weights: &Weights, module: &str) -> Result<Self::Latent> {
        self.each(|_, cuda| cuda.latent(weights, module))
    }

    fn project_latent(
        &mut self,
        layer: usize,
        h: &Self::Input,
        latent: &Self::Latent,
    ) -> Result<Self::Queries> {
        self.each_mut(|i, cuda| cuda.project_latent(layer, &h[i], &latent[i]))
    }

    fn expand(&mut self, attended: &Self::Input, latent: &Self::Latent) -> Result<Self::Input> {
        let expanded = self.each_mut(|i, cuda| cuda.expand(&attended[i], &latent[i]))?;
        let of_card = 2 * self.whole.n_heads * self.whole.full.output_dim() / self.cards.len();
        self.whole_rows(&expanded, (1..=self.cards.len()).map(|n| n * of_card).collect())
    }

    fn tied(&self, table: &Self::Table) -> Result<Self::Linear> {
        self.each(|i, cuda| cuda.tied(&table[i]))
    }

    fn adapt(&mut self, to: &mut Self::Linear, parts: &[Option<Added<'_>>]) -> Result<()> {
        self.finish()?;
        self.each_mut(|i, cuda| cuda.adapt(&mut to[i], parts)).map(|_| ())
    }

    fn begin(&mut self, step: Step) -> Result<StepStatus> {
        if let Some(graphs) = &mut self.graphs {
            graphs.abandon();
        }
        self.each_mut(|_, cuda| cuda.expect(&step))?;
        // The last step's rows may still be read by others.
        self.synchronize()?;
        if let Some(detour) = &mut self.detour {
            detour.begin();
        }
        let plan = self.cards[0].cuda.plan(&step); // all have as many heads
        if !self.cards.iter().all(|card| card.cuda.holds(plan.extent())) {
            self.finish()?;
        }
        self.each_mut(|_, cuda| cuda.start(plan.clone()))?;
        self.begin_recorded()
    }

    fn embed(&mut self, table: &Self::Table) -> Result<Self::Stream> {
        self.each_mut(|i, cuda| cuda.embed(&table[i]))
    }

    fn norm(&mut self, x: &Self::Stream, weight: Option<&Self::Vector>) -> Result<Self::Input> {
        self.each_mut(|i, cuda| cuda.norm(&x[i], weight.map(|weight| &weight[i])))
    }

    fn product(&mut self, x: &Self::Input, w: &Self::Linear) -> Result<Self::Product> {
        self.each_mut(|i, cuda| cuda.product(&x[i], &w[i]))
    }

    fn add_product(
        &mut self,
        x: &mut Self::Stream,
        h: &Self::Input,
        w: &Self::Linear,
        After { norm, factor, next }: After<'_, Self::Vector>,
    ) -> Result<Self::Input> {
        let Some(norm) = norm else {
            self.whole_sums(h, w, x, true)?;
            return self.norm_times(x, (factor, next));
        };
        let row_bytes = 4 * self.whole.hidden;
        let y = self.each(|i, cuda| cuda.values(Slot::Product, h[i].n_rows(), row_bytes))?;
        self.whole_sums(h, w, &y, false)?;
        self.add_normed(x, &y, norm, (factor, next))
    }

    fn accumulate(&mut self, x: &mut Self::Stream, h: &Self::Input, w: &Self::Linear) -> Result<()> {
        self.whole_sums(h, w, x, true)
    }

    fn project(
        &mut self,
        layer: usize,
        h: &Self::Input,
        qkv: &Self::Linear,
        HeadNorms { q, k, v }: HeadNorms<'_, Self::Vector>,
        kind: AttentionKind,
    ) -> Result<Self::Queries> {
        self.each_mut(|i, cuda| {
            let [q, k, v] = [q, k, v].map(|norm| norm.map(|norm| &norm[i]));
            let norms = HeadNorms { q, k, v };
            cuda.project(layer, &h[i], &qkv[i], norms, kind)
        })
    }

    fn take_wanted(
        &mut self,
        x: Self::Stream,
        queries: Self::Queries,
    ) -> Result<(Self::Stream, Self::Queries)> {
        Ok(self.each_mut(|i, cuda| cuda.take_wanted(x[i], queries[i]))?.into_iter().unzip())
    }

    fn attend(
        &mut self,
        layer: usize,
        queries: Self::Queries,
        rows: Rows,
        kind: AttentionKind,
        sinks: Option<&Self::Vector>,
    ) -> Result<Self::Input> {
        let attended = self.each_mut(|i, cuda| {
            let sinks = sinks.map(|sinks| &sinks[i]);
            cuda.attend(layer, queries[i], rows, kind, sinks)
        })?;
        if self.whole.full.latent.is_some() {
            return Ok(attended); // rows are whole once they are expanded
        }
        let of_card = 2 * self.whole.query_width(kind) / self.cards.len();
        self.whole_rows(&attended, (1..=self.cards.len()).map(|n| n * of_card).collect())
    }

    fn mix(
        &mut self,
        layer: usize,
        h: &Self::Input,
        projections: &Self::Linear,
        delta_net: &Self::DeltaNet,
    ) -> Result<Self::Input> {
        let mixed = self.each_mut(|i, cuda| cuda.mix(layer, &h[i], &projections[i], &delta_net[i]))?;
        let values = self.whole.delta_net.as_ref().map_or(0, |delta_net| delta_net.widths()[2]);
        let of_card = 2 * values / self.cards.len();
        self.whole_rows(&mixed, (1..=self.cards.len()).map(|n| n * of_card).collect())
    }

    fn gated_product(&mut self, x: &Self::Input, gate_up: &Self::Linear) -> Result<Self::Input> {
        let gated = self.each_mut(|i, cuda| cuda.gated_product(&x[i], &gate_up[i]))?;
        self.whole_rows(&gated, self.ends(self.whole.intermediate, 2))
    }

    fn add_positions(&mut self, x: &mut Self::Stream, table: &Self::Vector) -> Result<()> {
        self.each_mut(|i, cuda| cuda.add_positions(&mut x[i], &table[i])).map(drop)
    }

    fn layer_norm(
        &mut self,
        x: &mut Self::Stream,
        LayerNorm { weight, bias }: LayerNorm<'_, Self::Vector>,
        to: Normed,
    ) -> Result<Self::Input> {
        self.await_readers()?;
        self.each_mut(|i, cuda| {
            cuda.layer_norm(&mut x[i], LayerNorm { weight: &weight[i], bias: &bias[i] }, to)
        })
    }

    fn pointwise_product(
        &mut self,
        x: &Self::Input,
        up: &Self::Linear,
        function: Pointwise,
    ) -> Result<Self::Input> {
        let activated = self.each_mut(|i, cuda| cuda.pointwise_product(&x[i], &up[i], function))?;
        self.whole_rows(&activated, self.ends(self.whole.intermediate, 2))
    }

    fn add_experts(
        &mut self,
        x: &mut Self::Stream,
        h: &Self::Input,
        experts: &Self::Experts,
        After { norm, factor, next }: After<'_, Self::Vector>,
    ) -> Result<Self::Input> {
        self.sum_of_experts(h, experts)?;
        let Some(norm) = norm else {
            self.whole_experts(experts, x, true)?;
            return self.norm_times(x, (factor, next));
        };
        let row_bytes = 4 * self.whole.hidden;
        let y = self.each(|i, cuda| cuda.values(Slot::Product, h[i].n_rows(), row_bytes))?;
        self.whole_experts(experts, &y, false)?;
        self.add_normed(x, &y, norm, (factor, next))
    }

    fn add_beside(
        &mut self,
        x: &mut Self::Stream,
        Beside { gated, down, experts, norms }: Beside<'_, Self>,
        After { norm, factor, next }: After<'_, Self::Vector>,
    ) -> Result<Self::Input> {
        let row_bytes = 4 * self.whole.hidden;
        let rows_in = |ranks: &Self, slot| ranks.each(|i, cuda| cuda.values(slot, x[i].n_rows(), row_bytes));
        let dense = rows_in(self, Slot::Beside)?;
        self.whole_sums(gated, down, &dense, false)?;
        self.each(|i, cuda| {
            let router = cuda.residual_norm(&x[i], (Add::Nothing, 1.0), Some(&norms.router[i]))?;
            cuda.route(&router, &experts[i])
        })?;
        let h = self.norm(x, Some(&norms.input))?;
        self.sum_of_routed(&h, experts)?;
        let y = rows_in(self, Slot::Product)?;
        self.whole_experts(experts, &y, false)?;
        self.await_readers()?;
        self.each(|i, cuda| {
            let norms = [&norms.dense[i], &norms.experts[i]];
            let after = (norm.map(|norm| &norm[i]), factor, next.map(|next| &next[i]));
            cuda.add_both(&x[i], [&dense[i], &y[i]], norms, after)
        })
    }

    fn floats(&self, x: &Self::Stream) -> Result<Vec<f32>> {
        self.cards[0].cuda.floats(&x[0])
    }

    fn note(&mut self, x: &Self::Stream) -> Result<()> {
        let first = &mut self.cards[0];
        first.cuda.here()?;
        first.cuda.note(&x[0])
    }

    fn noted(&mut self) -> Result<Vec<Vec<f32>>> {
        let first = &mut self.cards[0];
        first.cuda.here()?;
        first.cuda.noted()
    }

    fn keep_logits(&mut self, logits: Self::Product) -> Result<LogitsStatus> {
        let columns = Columns { pieces: &logits, ends: self.ends(self.whole.vocab, 4), in_place: false };
        let all = self.cards[0].cuda.values(Slot::Logits, logits[0].n_rows(), 4 * self.whole.vocab)?;
        self.exchange(&columns, &[all])?;
        self.cards[0].cuda.here()?;
        self.cards[0].cuda.cap_logits(&all)?;
        if self.graphs.as_ref().is_some_and(Graphs::is_recording) {
            self.join_capture()?;
        }
        self.cards[0].cuda.here()?;
        self.cards[0].cuda.set_logits(all.at());
        let status = self.graphs.as_mut().map_or(Ok(LogitsStatus::Ready), |graphs| graphs.end(all.at()));
        status.map_err(|error| self.attribute(error))
    }
}
