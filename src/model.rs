//! The decoder: weights, layers and the forward pass over a paged KV cache that the caller owns.
//! It holds no cache and knows no request: rows come in with their positions and block tables.

pub mod config;

pub mod decoder;

pub mod layers;

pub mod cache;

pub mod weights;

pub mod cpu;

pub mod cuda;

pub mod device;

pub use cache::{BLOCK, KvCache, KvType};
pub use config::Config;
pub use decoder::{Decoder, Input, Span};
pub use device::device;
pub use layers::linear::Compute;
pub use weights::Weights;

/// Why a model cannot be loaded or run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{path}`: {source}")]
    Io { path: String, source: std::io::Error },
    #[error("`{path}`: {reason}; hint: {hint}")]
    File { path: String, reason: String, hint: String },
    #[error("`{path}`: architecture `{arch}` is not known; hint: known are {}", config::ARCHITECTURES.join(", "))]
    Architecture { path: String, arch: String },
    #[error("`{path}`: the model's `{key}` {reason}")]
    Config { path: String, key: String, reason: String },
    #[error("`{path}`: tensor `{name}` {reason}")]
    Tensor { path: String, name: String, reason: String },
    #[error(transparent)]
    Compute(#[from] candle_core::Error),
}
