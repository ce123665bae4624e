//! An NVIDIA GPU: opening it, and one file per operation that launches the kernel of that name in kernels/.
//! No arithmetic is here. Every item exists in builds without CUDA too, where it says that CUDA is missing, so
//! that the rest of the crate is the same text in both.

#[cfg(feature = "cuda")]
mod rms_norm;
#[cfg(feature = "cuda")]
pub use rms_norm::rms_norm;

#[cfg(not(feature = "cuda"))]
mod absent;
#[cfg(not(feature = "cuda"))]
pub use absent::rms_norm;

pub mod planes;
pub mod products;

use candle_core::Device;

/// Whether this binary has the CUDA kernels. It may still find no device.
pub const BUILT_IN: bool = cfg!(feature = "cuda");

/// The GPU with this number.
///
/// # Errors
/// The binary was built without CUDA, there is no driver or no such device, or a CUDA library is missing.
pub fn open(ordinal: usize) -> candle_core::Result<Device> {
    Device::new_cuda(ordinal)
}
