//! An NVIDIA GPU. Every item exists in builds without CUDA too, where no GPU can be opened, so that the rest of the
//! crate is the same text in both.

#[cfg(not(feature = "cuda"))]
mod absent;
#[cfg(not(feature = "cuda"))]
pub use absent::Gpu;

/// Whether this binary has the CUDA kernels. It may still find no device.
pub const BUILT_IN: bool = cfg!(feature = "cuda");

/// Why a GPU cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    #[error("this binary was built without CUDA")]
    NotBuilt,
}
