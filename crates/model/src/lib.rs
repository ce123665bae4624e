//! Decoders and encoders: weights, layers and the forward pass over a paged KV cache, with the operations of
//! a backend. It handles no requests: a step has rows with positions and block tables, and the caller manages
//! the blocks.
//!
//! In reading order: a [`step`] describes the rows to compute; the [`decoder`], or an [`encoder`], runs the
//! layers with the operations of a [`backend`]; the [`sampler`] defines the use of the logits. [`Weights`]
//! are read from safetensors or from [`gguf`].

use tribunal_core::{files, panics};

pub mod gguf;

pub mod step;

pub mod sampler;

pub mod decoder;

pub mod encoder;

pub mod backend;

pub mod angles;

pub mod cache;

pub mod config;

pub mod families;

pub mod small_file;

pub mod weights;

pub mod score_head;

pub mod metric;

pub mod estimator;

pub mod adapter;

pub use adapter::Adapter;
pub use cache::{BLOCK, KvType};
pub use config::Config;
pub use decoder::{Decoder, Model};
pub use encoder::Encoder;
pub use step::{Part, Step, StepLimits};
pub use weights::Weights;

/// The result of an operation of a model.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of loading or running a model.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{path}`: {source}")]
    Io { path: String, source: std::io::Error },
    #[error("`{path}`: {reason}; hint: {hint}")]
    File { path: String, reason: String, hint: String },
    #[error("`{path}`: architecture `{arch}` is not known; hint: known are {}", families::names())]
    Architecture { path: String, arch: String },
    #[error("`{path}`: the model's `{key}` {reason}")]
    Config { path: String, key: String, reason: String },
    #[error("`{path}`: tensor `{name}` {reason}")]
    Tensor { path: String, name: String, reason: String },
    #[error("the adapter is one for another model: {reason}; hint: it was trained on `{base}`")]
    Adapter { reason: String, base: String },
    #[error("token id {id} is past the vocabulary of {vocab}")]
    Token { id: u32, vocab: usize },
    #[error("hidden states after {depth} layers of a model with {n_layers}; hint: ask for fewer")]
    Depth { depth: u32, n_layers: usize },
    #[error("the step cannot be run: {0}")]
    Step(String),
    #[error(transparent)]
    Gguf(#[from] gguf::Error),
    #[error(transparent)]
    Checkpoint(#[from] candle_core::Error),
    /// An error of the backend.
    #[error(transparent)]
    Backend(Box<dyn std::error::Error + Send + Sync>),
}
