//! An NVIDIA GPU, by cudarc alone: the driver is opened with the first GPU, and no other library is needed.
//! The feature `cuda` decides only whether the kernels are in the program; without them no GPU can be opened.
//!
//! In reading order: a [`Gpu`] is opened; its `backend` runs the decoder's operations, each a launch of the
//! kernel of that name in `kernels/`, with weights stored by `weights` in the layouts of [`quant_layout`].
//! [`products`] chooses the kernel of a matrix product. The buffers of steps lie in one `arena`, which never
//! grows. No arithmetic is here.

mod gpu;
pub use gpu::{Gpu, KernelSet};

mod check;
pub use check::Difference;

mod arena;
pub use arena::{AttentionSizes, DeltaNetSizes, ExpertSizes, Sizes, step_bytes};

mod group;
pub use group::Group;

mod shard;
pub use shard::{MOST_CARDS, SharedHeads};

mod adapter;
mod backend;
mod delta_net;
mod experts;
mod graphs;
mod peers;
mod plan;
mod ranks;
mod rope_table;
mod step_upload;
mod tail;
mod tensor_map;
mod weight_upload;
mod weights;

mod agreement;
mod driver;
mod image;
mod launch;
pub use launch::KernelTime;

mod memory;
mod probe;

pub mod products;
pub mod quant_layout;
pub mod tiles;
pub mod work_tiles;

use tribunal_model::{Decoder, Encoder, Model, Result, Weights};

/// True if this binary has the CUDA kernels. It may still find no device.
pub const BUILT_IN: bool = cfg!(feature = "cuda");

/// The most rows of a step that is recorded, and replayed as a whole for later steps of the same layout.
pub const RECORDED_ROWS: usize = 256;

/// Loads a checkpoint's weights onto a GPU.
///
/// # Errors
/// Tensors that are missing or have no product on a GPU, or too little memory.
pub fn load(gpu: &Gpu, weights: &Weights) -> Result<Box<dyn Model>> {
    let cuda = backend::Cuda::new(gpu, weights.config())?;
    if weights.config().encoder.is_some() {
        return Ok(Box::new(Encoder::load(weights, cuda)?));
    }
    Ok(Box::new(Decoder::load(weights, cuda)?))
}

/// Loads a checkpoint's weights onto several GPUs, each its shard.
///
/// # Errors
/// Those of [`load`], and a number of GPUs that the model cannot be sharded over.
pub fn load_on_group(group: &Group, weights: &Weights) -> Result<Box<dyn Model>> {
    Ok(Box::new(Decoder::load(weights, ranks::Ranks::new(group, weights.config())?)?))
}

/// Numbers as a sentence lists them: "1, 2 or 4".
fn in_words(numbers: &[usize]) -> String {
    let words: Vec<String> = numbers.iter().map(usize::to_string).collect();
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => words.concat(),
    }
}

/// A version of the driver's interface as CUDA's: "12.2".
fn in_cuda(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// Measured limits of a GPU.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Peak {
    /// bf16 operations per second of `mma.sync` on registers; a multiplication and an addition count as two.
    pub operations: f64,
    /// Bytes read and written per second by a copy within the device's memory.
    pub bytes: f64,
}

/// The amount of work of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds of the tensor core, bytes of a copy, repeats of each.
    pub rounds: usize,
    pub copy_bytes: usize,
    pub repeats: usize,
}

/// Errors of using a GPU.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    #[error("this binary was built without CUDA")]
    NotBuilt,
    #[error("there is no NVIDIA driver (`libcuda.so.1`)")]
    NoDriver,
    /// Versions as the driver counts them: 12,020 is CUDA 12.2.
    #[error(
        "the driver supports CUDA {}, and this binary needs {}{}; hint: install a driver of version {} or later",
        in_cuda(*version),
        in_cuda(*needed),
        gpu.as_ref().map(|gpu| format!(" on `{gpu}`")).unwrap_or_default(),
        image::release(*needed)
    )]
    OldDriver { version: i32, needed: i32, gpu: Option<String> },
    #[error("there are {0} devices, counted from 0")]
    NoDevice(usize),
    #[error("`{name}` has compute capability {major}.{minor}, and the kernels need 8.0 or later")]
    OldDevice { name: String, major: i32, minor: i32 },
    #[error(
        "this binary has no kernels for `{name}` (compute capability {major}.{minor}); hint: `scripts/cuda/build.sh` \
         without `--generations` builds one with all"
    )]
    NoKernels { name: String, major: i32, minor: i32 },
    /// Unit: MiB.
    #[error("out of GPU memory for {what}: need {wanted} MiB, {free} MiB free; hint: {hint}")]
    Memory { what: String, wanted: usize, free: usize, hint: String },
    #[error(
        "`{name}` ({ordinal}) and `{first_name}` ({first}) differ; hint: one model is spread over GPUs of one kind"
    )]
    Unequal { first: usize, first_name: String, ordinal: usize, name: String },
    #[error(
        "a model with {heads}, cannot be spread over {n_cards} GPUs; hint: `--tensor-parallel` {}",
        in_words(possible)
    )]
    Cards { n_cards: usize, heads: Box<SharedHeads>, possible: Vec<usize> },
    #[error("GPU {ordinal}: {source}")]
    Card { ordinal: usize, source: Box<Self> },
    /// A GPU of several that share a model.
    #[error(
        "GPU {ordinal}: {failure}; hint: if this GPU is lost, go on with `--device {others}`; the scores are the same"
    )]
    Lost { ordinal: usize, failure: Box<Self>, others: String },
    #[error("a step is larger than the room that was made for it: {0}")]
    Room(String),
    #[error("the KV cache of a GPU holds bf16, not {0}; hint: leave out `--kv-dtype`")]
    Cache(&'static str),
    #[error(transparent)]
    Product(#[from] products::Error),
    #[error("the CUDA kernel `{kernel}` takes other arguments than this binary gives it")]
    Arguments { kernel: &'static str },
    #[error(
        "heads of {dims} dimensions; the CUDA kernels take multiples of 16 up to {most}; hint: `--device cpu` runs the model"
    )]
    Heads { dims: usize, most: usize },
    #[error(
        "DeltaNet heads of {key_dim} and {value_dim} dimensions; the CUDA kernels take keys of 16, 32, 64, 128 or 256 and \
         values of a multiple of 8 up to 256; hint: `--device cpu` runs the model"
    )]
    DeltaNetHeads { key_dim: usize, value_dim: usize },
    #[error("a convolution of {rows} rows; the CUDA kernels take 4; hint: `--device cpu` runs the model")]
    Convolution { rows: usize },
    #[error(
        "the CUDA kernel `{kernel}` was to be launched over {grid:?} blocks; a grid has at most 65535 in y and z"
    )]
    Grid { kernel: &'static str, grid: [u32; 3] },
    #[error("the GPU failed: {what}: {reason}")]
    Driver { what: &'static str, reason: String },
}

impl From<Error> for tribunal_model::Error {
    fn from(error: Error) -> Self {
        Self::Backend(Box::new(error))
    }
}

impl Error {
    /// The error of a GPU in an error of a model, if it is one.
    pub fn of_model(error: &tribunal_model::Error) -> Option<&Self> {
        match error {
            tribunal_model::Error::Backend(source) => source.downcast_ref(),
            _ => None,
        }
    }

    /// Too little memory; sizes in bytes.
    pub fn memory(purpose: &str, needed: usize, free: usize, hint: &str) -> Self {
        let mib = |bytes: usize| bytes >> 20;
        // Rounded so that the needed memory never reads equal to the free memory.
        let (needed, free) = (needed.div_ceil(1 << 20), mib(free));
        Self::Memory { what: purpose.to_owned(), wanted: needed, free, hint: hint.to_owned() }
    }

    /// This error with the number of the GPU, one of several.
    #[must_use]
    pub fn on_card(self, ordinal: usize) -> Self {
        match self {
            Self::Memory { what, wanted, free, hint } => {
                Self::Memory { what: format!("{what} on GPU {ordinal}"), wanted, free, hint }
            }
            error => Self::Card { ordinal, source: Box::new(error) },
        }
    }

    /// Too little memory for weights; sizes in bytes.
    pub fn weights(needed: usize, free: usize) -> Self {
        Self::memory(memory::WEIGHTS.name, needed, free, memory::WEIGHTS.hint)
    }
}
