//! The decoder's operations on a GPU: each a launch or two of the kernels of that name. Activations stay on
//! the device; only choices are copied back.

#![expect(unsafe_code, reason = "kernel launches and copies trust their arguments")]

mod adapt;
mod attend;
mod begin;
mod cache;
mod experts;
pub(crate) use experts::GroupedInput;

mod gate;
mod heads;
mod latent;
mod mix;
mod multiply;
mod norm;
mod room;
mod runtime;
mod tail;
mod values;

pub(super) use experts::Merged;
pub use latent::Latent;
pub(super) use multiply::inputs;
pub(super) use norm::Add;
pub use values::{Queries, Values};

use std::sync::Arc;

use cudarc::driver::CudaStream;
use parking_lot::Mutex;

use super::{
    Error, Gpu,
    arena::{Arena, Extra, Slot},
    delta_net::{self, DeltaNet, States},
    driver::failed,
    experts::Experts,
    graphs::{Graphs, Run},
    launch::{Argument, Shape, Start},
    memory::Memory,
    plan::Plan,
    rope_table::RopeTable,
    shard::Shard,
    step_upload::StepUpload,
    tensor_map::TensorMap,
    tiles,
    weight_upload::WeightUpload,
    weights::{Linear, Table, embed_kernel},
};
use tribunal_model::{
    Config, Result, Weights,
    backend::{
        Added, After, Backend, Beside, DeltaNetWeights, HeadNorms, LayerNorm, LogitsStatus, Matrices, Normed,
        Pointwise, Rows, StepStatus,
    },
    config::{self, Attention, AttentionKind},
    step::Step,
};

/// A GPU with one model's cache and the current step.
pub struct Cuda {
    /// The GPU with the kernels of the current step; `own` has those of the run.
    gpu: Gpu,
    own: Gpu,
    stream: Arc<CudaStream>,
    /// The buffers of a step.
    arena: Option<Arena>,
    /// True if the arena was allocated for the largest step.
    prepared: bool,
    extra: Mutex<Extra>,
    /// The configuration of this card's part of the model.
    config: Config,
    shard: Shard,
    weight_upload: Mutex<WeightUpload>,
    /// `[layers that attend][keys, values][n_blocks][kv heads][BLOCK][head_dim]`, bf16; of latent
    /// attention the keys alone.
    cache: Option<Memory>,
    n_blocks: usize,
    /// `None` of a model without recurrent layers.
    states: Option<States>,
    angles: RopeTable,
    sliding_angles: Option<RopeTable>,
    plan: Plan,
    step_upload: StepUpload,
    /// `None` where kernels are launched one by one, and on a card with a shard: recordings are of all cards.
    graphs: Option<Graphs>,
    /// True if memory that recordings refer to has moved since [`Cuda::take_moved`].
    moved: bool,
    /// `[wanted, vocab]`.
    logits: Option<u64>,
    noted: tail::Noted,
    /// Locked while logits are sampled from.
    staging: Mutex<tail::Staging>,
}

impl Cuda {
    /// A GPU without a cache.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn new(gpu: &Gpu, config: &Config) -> Result<Self, Error> {
        Self::sharded(gpu, config, Shard::WHOLE)
    }

    /// A GPU that has a shard of a model.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn sharded(gpu: &Gpu, config: &Config, shard: Shard) -> Result<Self, Error> {
        let computes = |dims: usize| dims <= tiles::MOST_DIMS && dims.is_multiple_of(16);
        if let Some(heads) = config.attentions().find(|heads| !computes(heads.head_dim)) {
            return Err(Error::Heads { dims: heads.head_dim, most: tiles::MOST_DIMS });
        }
        config.delta_net.as_ref().map(delta_net::rule).transpose()?;
        let context = gpu.context();
        context.bind_to_thread().map_err(failed("use the device"))?;
        // SAFETY: all work on this context's memory is on `stream`, or on streams that `stream` waits for by
        // events of its own.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().map_err(failed("a stream"))?;
        let rope_table = |attention: &Attention| RopeTable::new(&attention.rope, attention.rotary_dim);
        Ok(Self {
            weight_upload: Mutex::new(WeightUpload::new(gpu, &stream)?),
            arena: None,
            prepared: false,
            extra: Mutex::new(Extra { shard: shard.buffers(config), ..Extra::default() }),
            cache: None,
            n_blocks: 0,
            states: None,
            angles: rope_table(&config.full),
            sliding_angles: config.sliding.as_ref().filter(|_| config.has_sliding_angles()).map(rope_table),
            plan: Plan::default(),
            step_upload: StepUpload::new(gpu)?,
            graphs: (gpu.graphs && shard == Shard::WHOLE).then(|| Graphs::new(&stream)),
            moved: false,
            logits: None,
            noted: tail::Noted::default(),
            staging: Mutex::new(tail::Staging::new(context)?),
            config: shard.config(config),
            shard,
            gpu: gpu.clone(),
            own: gpu.clone(),
            stream,
        })
    }

    pub(super) fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    pub(super) fn here(&self) -> Result<(), Error> {
        self.gpu.here()
    }

    /// Launches a kernel of the file `names.0`.
    ///
    /// # Safety
    /// The conditions of [`super::launch::Kernels::launch`].
    pub(super) unsafe fn launch(
        &self,
        names: (&'static str, &'static str),
        shape: Shape,
        arguments: &[Argument],
    ) -> Result<(), Error> {
        // SAFETY: the same conditions on `arguments`: length, alignment and lifetime of the memory at its
        // addresses.
        unsafe { self.launch_over(names, shape, &[], arguments) }
    }

    /// Launches a kernel whose first arguments are maps of matrices.
    ///
    /// # Safety
    /// The conditions of [`super::launch::Kernels::launch_over`].
    pub(super) unsafe fn launch_over(
        &self,
        names: (&'static str, &'static str),
        shape: Shape,
        maps: &[TensorMap],
        arguments: &[Argument],
    ) -> Result<(), Error> {
        // Where several GPUs share a model, kernels wait for other GPUs' too.
        let start =
            if self.gpu.dependent_launch && self.shard == Shard::WHOLE { Start::Early } else { Start::After };
        let stream = (self.stream.cu_stream(), start);
        // SAFETY: the same conditions on `maps` and `arguments`; `stream` is alive as long as this backend.
        unsafe { self.gpu.kernels().launch_over(stream, names, shape, maps, arguments) }
    }

    /// The address of the step's numbers.
    fn numbers(&self) -> Result<u64, Error> {
        self.slot(Slot::Numbers, 4 * self.plan.numbers.values.len())
    }

    fn eps(&self) -> Argument {
        Argument::Float(self.config.norm_eps as f32)
    }

    fn forget_recordings(&mut self) {
        self.moved = true;
        if let Some(graphs) = &mut self.graphs {
            graphs.forget();
        }
    }

    /// Waits until the device has finished all work.
    pub(super) fn finish(&self) -> Result<(), Error> {
        self.here()?;
        self.stream.synchronize().map_err(failed("run a step"))
    }

    /// Sets the address of the step's logits.
    pub(super) fn set_logits(&mut self, at: u64) {
        self.logits = Some(at);
    }
}

impl Backend for Cuda {
    type Stream = Values;
    type Input = Values;
    type Product = Values;
    type Queries = Queries;
    type Vector = Memory;
    type Linear = Linear;
    type Table = Table;
    type Experts = Experts;
    type DeltaNet = DeltaNet;
    type Latent = Latent;

    fn vector(&self, values: Vec<f32>) -> Result<Self::Vector> {
        Ok(self.weight_upload.lock().floats(&values)?)
    }

    fn table(&self, weights: &Weights, name: &str, shape: [usize; 2]) -> Result<Self::Table> {
        Table::load(weights, name, shape, self.shard, &mut self.weight_upload.lock())
    }

    fn linear(&self, weights: &Weights, matrices: Matrices<'_>) -> Result<Self::Linear> {
        let delta_net = self.config.delta_net.as_ref();
        let linear = Linear::load(weights, matrices, self.shard, delta_net, &mut self.weight_upload.lock())?;
        self.add_linear(&linear);
        Ok(linear)
    }

    fn experts(&self, weights: &Weights, module: &str, experts: &config::Experts) -> Result<Self::Experts> {
        let shape = (experts, self.config.hidden);
        let experts = Experts::load(weights, module, shape, self.shard, &mut self.weight_upload.lock())?;
        self.add_experts(&experts);
        Ok(experts)
    }

    fn delta_net(&self, weights: DeltaNetWeights) -> Result<Self::DeltaNet> {
        self.delta_net_weights(&weights)
    }

    fn latent(&self, weights: &Weights, module: &str) -> Result<Self::Latent> {
        self.latent_weights(weights, module)
    }

    fn project_latent(
        &mut self,
        layer: usize,
        h: &Self::Input,
        latent: &Self::Latent,
    ) -> Result<Self::Queries> {
        self.latent_queries(layer, h, latent)
    }

    fn expand(&mut self, attended: &Self::Input, latent: &Self::Latent) -> Result<Self::Input> {
        Ok(self.expanded(attended, latent)?)
    }

    fn tied(&self, table: &Self::Table) -> Result<Self::Linear> {
        let linear = Linear::tied(table, &self.gpu);
        self.add_linear(&linear);
        Ok(linear)
    }

    fn adapt(&mut self, to: &mut Self::Linear, parts: &[Option<Added<'_>>]) -> Result<()> {
        self.forget_recordings(); // they name a table that moves
        to.adapters.push(parts, &to.outputs, &mut self.weight_upload.lock())?;
        self.adapts(to);
        Ok(())
    }

    fn begin(&mut self, step: Step) -> Result<StepStatus> {
        self.expect(&step)?;
        let plan = self.plan(&step);
        self.start(plan)?;
        let (Some(graphs), Some(layout)) = (&mut self.graphs, &self.plan.layout) else {
            return Ok(StepStatus::Execute);
        };
        let Run::Whole(at) = graphs.begin(layout)? else { return Ok(StepStatus::Execute) };
        self.set_whole(at);
        Ok(StepStatus::Replayed)
    }

    fn embed(&mut self, table: &Self::Table) -> Result<Self::Stream> {
        let n = self.plan.n_rows;
        let out = self.values(Slot::Stream, n, 4 * table.k)?;
        let pointers = [table.memory.at(), self.plan.tokens.from(self.numbers()?), out.at()];
        let sizes = [n, table.k, table.n].map(Argument::size);
        let scale = [Argument::Float(self.config.embedding_scale.unwrap_or(1.0))];
        let arguments = [&pointers.map(Argument::At)[..], &sizes, &scale].concat();
        let shape = Shape::new([n, table.k.div_ceil(256)], 256);
        // SAFETY: the table has `table.n` rows of k values in its format, out `n` rows of k f32, and the plan
        // `n` tokens; all are 256-byte aligned and freed only after the stream is synchronised.
        unsafe { self.launch(("embed", embed_kernel(table.format)), shape, &arguments)? };
        Ok(out)
    }

    fn norm(&mut self, x: &Self::Stream, weight: Option<&Self::Vector>) -> Result<Self::Input> {
        Ok(self.residual_norm(x, (Add::Nothing, 1.0), weight)?)
    }

    fn product(&mut self, x: &Self::Input, w: &Self::Linear) -> Result<Self::Product> {
        let y = self.values(Slot::Product, x.n_rows, 4 * w.n)?;
        self.multiply(x, w, (y.at(), w.n), false)?;
        Ok(y)
    }

    fn add_product(
        &mut self,
        x: &mut Self::Stream,
        h: &Self::Input,
        w: &Self::Linear,
        After { norm, factor, next }: After<'_, Self::Vector>,
    ) -> Result<Self::Input> {
        if let Some(weight) = norm {
            let values = &self.product(h, w)?;
            return Ok(self.residual_norm(x, (Add::Normed { values, weight }, factor), next)?);
        }
        if let Some(sums) = self.multiply_apart(h, w)? {
            return Ok(self.residual_norm(x, (Add::Sums(sums), factor), next)?);
        }
        self.multiply(h, w, (x.at(), w.n), true)?;
        Ok(self.residual_norm(x, (Add::Nothing, factor), next)?)
    }

    fn accumulate(&mut self, x: &mut Self::Stream, h: &Self::Input, w: &Self::Linear) -> Result<()> {
        Ok(self.multiply(h, w, (x.at(), w.n), true)?)
    }

    fn project(
        &mut self,
        layer: usize,
        h: &Self::Input,
        qkv: &Self::Linear,
        norms: HeadNorms<'_, Self::Vector>,
        kind: AttentionKind,
    ) -> Result<Self::Queries> {
        let norms = [norms.q, norms.k, norms.v];
        if norms.iter().all(Option::is_none)
            && let Some(queries) = self.multiply_heads(layer, h, qkv, kind)?
        {
            return Ok(queries);
        }
        let width = qkv.n;
        let qkv = self.product(h, qkv)?;
        let norms = self.norm_heads(&qkv, norms, width, kind)?;
        Ok(self.rotate(layer, &qkv, norms, kind)?)
    }

    fn take_wanted(
        &mut self,
        x: Self::Stream,
        queries: Self::Queries,
    ) -> Result<(Self::Stream, Self::Queries)> {
        if self.plan.takes_all() {
            return Ok((x, queries));
        }
        Ok(self.take_wanted_rows(&x, queries)?)
    }

    fn attend(
        &mut self,
        layer: usize,
        queries: Self::Queries,
        rows: Rows,
        _kind: AttentionKind,
        sinks: Option<&Self::Vector>,
    ) -> Result<Self::Input> {
        Ok(self.attention(layer, &queries, rows, sinks)?)
    }

    fn mix(
        &mut self,
        layer: usize,
        h: &Self::Input,
        projections: &Self::Linear,
        delta_net: &Self::DeltaNet,
    ) -> Result<Self::Input> {
        Ok(self.mixed(layer, h, projections, delta_net)?)
    }

    fn gated_product(&mut self, x: &Self::Input, gate_up: &Self::Linear) -> Result<Self::Input> {
        Ok(self.gated_of(x, gate_up, self.config.intermediate)?)
    }

    fn pointwise_product(
        &mut self,
        x: &Self::Input,
        up: &Self::Linear,
        function: Pointwise,
    ) -> Result<Self::Input> {
        Ok(self.pointwise_of(x, up, function)?)
    }

    fn add_positions(&mut self, x: &mut Self::Stream, table: &Self::Vector) -> Result<()> {
        Ok(self.add_rows_at_places(x, table)?)
    }

    fn layer_norm(
        &mut self,
        x: &mut Self::Stream,
        norm: LayerNorm<'_, Self::Vector>,
        to: Normed,
    ) -> Result<Self::Input> {
        Ok(self.norm_with_bias(x, norm, to)?)
    }

    fn add_experts(
        &mut self,
        x: &mut Self::Stream,
        h: &Self::Input,
        experts: &Self::Experts,
        after: After<'_, Self::Vector>,
    ) -> Result<Self::Input> {
        Ok(self.sum_of_experts(x, h, experts, after)?)
    }

    fn add_beside(
        &mut self,
        x: &mut Self::Stream,
        beside: Beside<'_, Self>,
        after: After<'_, Self::Vector>,
    ) -> Result<Self::Input> {
        Ok(self.dense_and_experts(x, &beside, &after)?)
    }

    fn floats(&self, x: &Self::Stream) -> Result<Vec<f32>> {
        self.here()?;
        let bytes = self.fetch(x.at(), x.n_rows * self.config.hidden * 4)?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
    }

    fn note(&mut self, x: &Self::Stream) -> Result<()> {
        Ok(self.gather(x)?)
    }

    fn noted(&mut self) -> Result<Vec<Vec<f32>>> {
        Ok(self.gathered()?)
    }

    fn keep_logits(&mut self, logits: Self::Product) -> Result<LogitsStatus> {
        self.cap_logits(&logits)?;
        if let Some(graphs) = &mut self.graphs
            && graphs.end(logits.at())? == LogitsStatus::Rerun
        {
            return Ok(LogitsStatus::Rerun);
        }
        self.logits = Some(logits.at());
        Ok(LogitsStatus::Ready)
    }
}
