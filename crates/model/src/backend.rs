//! The interface between the decoder and a device: loading weights, the KV cache, and the operations of one
//! step. `cpu` and `cuda` implement it; the decoder depends on neither.
//!
//! A backend is made for one model's [`super::Config`]. It holds the cache and the current step. A row's
//! result depends on that row's own values alone, bit for bit, whatever else is in the step.

mod arguments;

use super::{
    KvType, Result, Weights,
    config::{AttentionKind, Experts},
    sampler::{SampleRequest, SampledToken},
    step::{Step, StepLimits},
};

pub use arguments::{
    Added, After, BesideNorms, Cut, DeltaNetWeights, HeadNorms, LayerNorm, Matrices, Normed, Pointwise, Xielu,
};

/// Experts beside a dense half. All of it starts from the residual stream.
pub struct Beside<'a, B: Backend> {
    /// The dense half before its second product, and the weights of that product.
    pub gated: &'a B::Input,
    pub down: &'a B::Linear,
    pub experts: &'a B::Experts,
    pub norms: &'a BesideNorms<B::Vector>,
}

/// The rows of a step that an operation gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    All,
    /// The rows with logits.
    Wanted,
}

/// The status of a step: to be executed, or replayed from a captured graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum StepStatus {
    /// The decoder executes its operations.
    Execute,
    /// The backend has launched the captured graph of such a step. Its logits are ready.
    Replayed,
}

/// The status of the logits of an executed step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum LogitsStatus {
    /// The operations were executed or launched, and the logits are ready.
    Ready,
    /// The backend captured the operations and could not keep the graph: the decoder executes them again.
    Rerun,
}

/// The kernels by which a step is computed a second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recheck {
    /// The proven kernels.
    Proven,
    /// The proven kernels with plain attention, which is slow.
    PlainAttention,
}

/// The cache, the buffers and the logits of the last step on a device. Every operation fails when the device
/// does.
pub trait Runtime: Send + Sync {
    /// Allocates the cache of `n_blocks` blocks, uninitialised.
    ///
    /// # Errors
    /// No memory, or a number type that this backend does not cache.
    fn reserve(&mut self, n_blocks: usize, kv: KvType) -> Result<()>;

    /// Allocates room for the recurrent states of so many sequences and snapshots, uninitialised. Only models
    /// with Gated DeltaNet need any.
    ///
    /// # Errors
    /// No memory.
    fn reserve_states(&mut self, n_slots: usize) -> Result<()>;

    /// Bytes of the buffers of steps within these limits, beside weights and cache; 0 if buffers are
    /// allocated as needed.
    fn step_bytes(&self, _most: StepLimits) -> usize {
        0
    }

    /// Allocates the buffers of steps within these limits. Larger steps are an error from then on.
    ///
    /// # Errors
    /// No memory on the device.
    fn prepare(&mut self, _most: StepLimits) -> Result<()> {
        Ok(())
    }

    /// Selects the kernels of later steps: those of a recheck, each launched by itself, or those of the
    /// device's options. The choice moves no bit unless a kernel is wrong. A backend with one kernel for
    /// each operation has no choice.
    fn take_kernels(&mut self, _recheck: Option<Recheck>) {}

    /// The bytes of these blocks of the cache, one after the other, and of the recurrent state in a slot, in
    /// this backend's own layout, for [`Runtime::write_prefix`]. `None` where a prefix is computed about as
    /// fast as it can be read from a file.
    fn read_prefix(&self, _blocks: &[u32], _state: Option<u32>) -> Option<Vec<u8>> {
        None
    }

    /// Writes the bytes from [`Runtime::read_prefix`] to as many blocks and a slot, in a process with the
    /// same weights and the same options.
    fn write_prefix(&mut self, _blocks: &[u32], _state: Option<u32>, _bytes: &[u8]) {}

    /// Answers a [`SampleRequest`] for each row of the step's logits, or for the first of them. `None` if
    /// nothing is requested, the mask allows no token, or the logits are NaN.
    ///
    /// # Errors
    /// The device fails.
    fn take(&self, wants: &[SampleRequest]) -> Result<Vec<Option<SampledToken>>>;

    /// The log-probabilities of tokens after some rows of the step's logits, each with the bits that
    /// [`SampleRequest::Weigh`] gives; `None` where the logits are NaN or there is no such token or row.
    ///
    /// # Errors
    /// The device fails.
    fn logprobs(&self, rows: &[(usize, &[u32])]) -> Result<Vec<Option<Vec<f64>>>>;

    /// Calls `visit` with each row of the step's logits, in order, with few of them in memory at a time.
    ///
    /// # Errors
    /// The device fails.
    fn each_logits(&self, visit: &mut dyn FnMut(&[f32])) -> Result<()>;

    /// The step's logits, for tests and measurements.
    ///
    /// Shape: `[wanted, vocab]`.
    ///
    /// # Errors
    /// The device fails.
    fn logits(&self) -> Result<Vec<Vec<f32>>> {
        let mut rows = Vec::new();
        self.each_logits(&mut |row| rows.push(row.to_vec()))?;
        Ok(rows)
    }

    /// Rows up to which a step takes hardly longer than with one row, because it is bound by reading the
    /// weights.
    fn cheap_rows(&self) -> usize;

    /// Returns true if steps are computed on the threads of the calling rayon pool.
    fn computes_on_threads(&self) -> bool;
}

/// A device with one model's cache and the current step. Every operation fails when the device does.
pub trait Backend: Runtime + Sized + 'static {
    /// The residual stream, f32.
    ///
    /// Shape: `[rows, hidden]`.
    type Stream: Send;
    /// The input of a linear layer: normed rows, attended values, gated values.
    type Input: Send;
    /// The output of a linear layer: its parts, f32.
    type Product: Send;
    /// Queries, normed, rotated and scaled, with the gate of the attention where it has one.
    type Queries: Send;
    /// Weights of a norm.
    type Vector: Send + Sync;
    /// Weight matrices of one input.
    type Linear: Send + Sync;
    /// The embedding table.
    type Table: Send + Sync;
    /// Router, experts and shared expert of one layer.
    type Experts: Send + Sync;
    /// Convolution, decay and norm of one layer of Gated DeltaNet.
    type DeltaNet: Send + Sync;
    /// The projections of one layer of latent attention, but for that of the output.
    type Latent: Send + Sync;

    /// # Errors
    /// No memory on the device.
    fn vector(&self, values: Vec<f32>) -> Result<Self::Vector>;

    /// # Errors
    /// A missing tensor, another shape, a type that is not supported, or no memory.
    fn table(&self, weights: &Weights, name: &str, shape: [usize; 2]) -> Result<Self::Table>;

    /// # Errors
    /// Those of [`Backend::table`].
    fn linear(&self, weights: &Weights, matrices: Matrices<'_>) -> Result<Self::Linear>;

    /// The experts of a layer, in the form of [`super::Config::experts_of`]. `module` is the checkpoint's
    /// name of the feed-forward half: `model.layers.3.mlp`.
    ///
    /// # Errors
    /// Those of [`Backend::table`], and experts of different types.
    fn experts(&self, weights: &Weights, module: &str, experts: &Experts) -> Result<Self::Experts>;

    /// # Errors
    /// No memory on the device.
    fn delta_net(&self, weights: DeltaNetWeights) -> Result<Self::DeltaNet>;

    /// The projections of a layer's [`super::config::Latent`] attention. `module` is the checkpoint's name of
    /// it: `model.layers.3.self_attn`.
    ///
    /// # Errors
    /// Those of [`Backend::table`], and a device without latent attention.
    fn latent(&self, weights: &Weights, module: &str) -> Result<Self::Latent>;

    /// The output matrix of a model whose output matrix is its embedding table.
    ///
    /// # Errors
    /// No memory on the device.
    fn tied(&self, table: &Self::Table) -> Result<Self::Linear>;

    /// Adds an adapter to weight matrices: its update of each part, `None` for parts without one. Products
    /// with them add it to the rows that take this adapter. Every adapter is added to every
    /// [`Backend::Linear`] of the layers, so that all number them alike.
    ///
    /// # Errors
    /// No memory on the device.
    fn adapt(&mut self, linear: &mut Self::Linear, parts: &[Option<Added<'_>>]) -> Result<()>;

    /// Begins a step and copies its blocks and states. All later operations are on its rows.
    ///
    /// # Errors
    /// The step names blocks or tokens that do not exist, or writes one block from two places.
    fn begin(&mut self, step: Step) -> Result<StepStatus>;

    /// The tokens' rows of the table, scaled by the model's factor.
    ///
    /// # Errors
    /// The device fails.
    fn embed(&mut self, table: &Self::Table) -> Result<Self::Stream>;

    /// Adds the rows of a table at the step's places to the stream.
    ///
    /// Shape: the table `[positions, hidden]`.
    ///
    /// # Errors
    /// The device fails.
    fn add_positions(&mut self, x: &mut Self::Stream, table: &Self::Vector) -> Result<()>;

    /// The norm of each row with a bias.
    ///
    /// # Errors
    /// The device fails.
    fn layer_norm(
        &mut self,
        x: &mut Self::Stream,
        norm: LayerNorm<'_, Self::Vector>,
        to: Normed,
    ) -> Result<Self::Input>;

    /// `x / sqrt(mean(x^2) + eps) * weight`, row by row, of rows whose mean is subtracted first where the
    /// model's norms are centred; x itself without a weight.
    /// Source: Zhang and Sennrich (2019), Root Mean Square Layer Normalization, equation 4.
    ///
    /// # Errors
    /// The device fails.
    fn norm(&mut self, x: &Self::Stream, weight: Option<&Self::Vector>) -> Result<Self::Input>;

    /// `x w^T + b` for each part, plus the update of a row's adapter.
    ///
    /// # Errors
    /// The device fails.
    fn product(&mut self, x: &Self::Input, w: &Self::Linear) -> Result<Self::Product>;

    /// Adds `h w^T + b`, plus the update of a row's adapter, to the stream as defined by [`After`].
    ///
    /// # Errors
    /// The device fails.
    fn add_product(
        &mut self,
        x: &mut Self::Stream,
        h: &Self::Input,
        w: &Self::Linear,
        after: After<'_, Self::Vector>,
    ) -> Result<Self::Input>;

    /// Adds `h w^T + b`, plus the update of a row's adapter, to the stream. Inputs made of the stream keep
    /// their values.
    ///
    /// # Errors
    /// The device fails.
    fn accumulate(&mut self, x: &mut Self::Stream, h: &Self::Input, w: &Self::Linear) -> Result<()>;

    /// The fused QKV projection of normed rows, with the gate as its fourth part where attention is gated:
    /// queries and keys are normed as defined by [`super::config::QkNorm`] and rotated, values normed, where
    /// the model has such norms; keys and values are written to one layer of the cache. Returns the queries.
    ///
    /// # Errors
    /// The device fails.
    fn project(
        &mut self,
        layer: usize,
        h: &Self::Input,
        qkv: &Self::Linear,
        norms: HeadNorms<'_, Self::Vector>,
        kind: AttentionKind,
    ) -> Result<Self::Queries>;

    /// The queries of latent attention from normed rows, in the space of the cached rows; the rows'
    /// compressed values, normed, and rotated ones are written to one layer of the cache, which then is that
    /// of one head whose values are the first ones of its keys.
    ///
    /// # Errors
    /// The device fails.
    fn project_latent(
        &mut self,
        layer: usize,
        h: &Self::Input,
        latent: &Self::Latent,
    ) -> Result<Self::Queries>;

    /// The heads' outputs of latent attention from the compressed values of [`Backend::attend`].
    ///
    /// Shape: `[rows, heads rank]` -> `[rows, heads value_dim]`.
    ///
    /// # Errors
    /// The device fails.
    fn expand(&mut self, attended: &Self::Input, latent: &Self::Latent) -> Result<Self::Input>;

    /// The rows of the stream and of the queries that have logits.
    ///
    /// # Errors
    /// The device fails.
    fn take_wanted(
        &mut self,
        x: Self::Stream,
        queries: Self::Queries,
    ) -> Result<(Self::Stream, Self::Queries)>;

    /// Softmax of queries and one layer's cached keys, times its cached values; times the logistic function
    /// of the gate where attention is gated. Sinks, one for each query head, join the softmax as scores of
    /// keys without a value: a query's running softmax starts at its sink, with a total of 1.
    ///
    /// # Errors
    /// The device fails.
    fn attend(
        &mut self,
        layer: usize,
        queries: Self::Queries,
        rows: Rows,
        kind: AttentionKind,
        sinks: Option<&Self::Vector>,
    ) -> Result<Self::Input>;

    /// Gated DeltaNet over normed rows: each row's queries, keys and values are convolved with those of
    /// earlier rows of its sequence, its state is advanced and read, and the value read is normed and gated.
    /// `projections` has four parts: queries, keys and values (`[channels]`), the gates of the output
    /// (`[value heads value_dim]`), the logits of the strength with which a value is corrected, and the times
    /// of the decay (`[value heads]`, each). A sequence whose first row has position 0 begins with zeros,
    /// every other one with the state in its slot; the slot then holds the state after its last row. Always
    /// in recurrent form, token by token, so that no chunk moves a bit.
    ///
    /// Shape: `[rows, hidden]` -> `[rows, value heads value_dim]`.
    ///
    /// # Errors
    /// The device fails.
    fn mix(
        &mut self,
        layer: usize,
        h: &Self::Input,
        projections: &Self::Linear,
        delta_net: &Self::DeltaNet,
    ) -> Result<Self::Input>;

    /// The fused gate and up projections: the model's activation of the first part, times the second.
    ///
    /// # Errors
    /// The device fails.
    fn gated_product(&mut self, x: &Self::Input, gate_up: &Self::Linear) -> Result<Self::Input>;

    /// The nonlinearity of a product with the matrix of a half without a gate.
    ///
    /// # Errors
    /// The device fails.
    fn pointwise_product(
        &mut self,
        x: &Self::Input,
        up: &Self::Linear,
        function: Pointwise,
    ) -> Result<Self::Input>;

    /// Adds y to the stream as defined by [`After`]. For each row, y is the sum of its chosen experts'
    /// outputs, each times its weight, in the order of their numbers, in f32, and then that of the shared
    /// expert.
    ///
    /// The step's pairs of row and expert are sorted by expert, so that each expert's weights are read once.
    /// Logits of the router are products in f32, whatever its stored type. A row with NaN logits has a NaN
    /// output.
    ///
    /// # Errors
    /// The device fails.
    fn add_experts(
        &mut self,
        x: &mut Self::Stream,
        h: &Self::Input,
        experts: &Self::Experts,
        after: After<'_, Self::Vector>,
    ) -> Result<Self::Input>;

    /// Adds the normed output of a dense half and that of the experts beside it,
    /// `norms.dense(gated down^T) + norms.experts(y)`, to the stream as defined by [`After`]; y as in
    /// [`Backend::add_experts`], from the stream normed by `norms.input`, routed by the stream normed by
    /// `norms.router`.
    ///
    /// # Errors
    /// The device fails.
    fn add_beside(
        &mut self,
        x: &mut Self::Stream,
        beside: Beside<'_, Self>,
        after: After<'_, Self::Vector>,
    ) -> Result<Self::Input>;

    /// The values of a stream.
    ///
    /// Shape: `[rows, hidden]`.
    ///
    /// # Errors
    /// The device fails.
    fn floats(&self, x: &Self::Stream) -> Result<Vec<f32>>;

    /// Captures the hidden states of the rows that the step names.
    ///
    /// # Errors
    /// The device fails.
    fn note(&mut self, x: &Self::Stream) -> Result<()>;

    /// The hidden states captured since the step began, an entry for each capture.
    ///
    /// Shape: `[notes][noted, hidden]`.
    ///
    /// # Errors
    /// The device fails.
    fn noted(&mut self) -> Result<Vec<Vec<f32>>>;

    /// Stores the step's logits, a row for each row that has them.
    ///
    /// # Errors
    /// The device fails.
    fn keep_logits(&mut self, logits: Self::Product) -> Result<LogitsStatus>;
}
