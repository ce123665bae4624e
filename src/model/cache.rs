//! The paged KV cache: storage only. Which block belongs to whom is the engine's business.

use candle_core::{CpuStorage, DType, Device, InplaceOp1, Layout, Tensor};

pub use super::cpu::attend::BLOCK;
use half::{bf16, f16, vec::HalfBitsVecExt};

use super::{Config, Error};

/// Number type of the cached keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvType {
    #[default]
    Bf16,
    F16,
    F32,
}

impl KvType {
    /// As flags and signatures spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::F32 => "f32",
        }
    }

    /// Zeros that take no memory until they are written to: the system hands out such pages lazily.
    fn zeros(self, shape: (usize, usize, usize, usize), device: &Device) -> candle_core::Result<Tensor> {
        let n = shape.0 * shape.1 * shape.2 * shape.3;
        match self {
            Self::Bf16 => Tensor::from_vec(vec![0_u16; n].reinterpret_into::<bf16>(), shape, device),
            Self::F16 => Tensor::from_vec(vec![0_u16; n].reinterpret_into::<f16>(), shape, device),
            Self::F32 => Tensor::from_vec(vec![0_f32; n], shape, device),
        }
    }

    fn dtype(self) -> DType {
        match self {
            Self::Bf16 => DType::BF16,
            Self::F16 => DType::F16,
            Self::F32 => DType::F32,
        }
    }
}

/// Keys and values of every layer in blocks of [`BLOCK`] tokens.
pub struct KvCache {
    /// Per layer; shape `[n_blocks, n_kv_heads, head_dim, BLOCK]`: a block's keys side by side for each
    /// dimension, so that sixteen dot products run in sixteen lanes. In bf16 each place holds a pair
    /// ([`super::cpu::attend::key_at`]).
    pub(super) keys: Vec<Tensor>,
    /// Per layer; shape `[n_blocks, n_kv_heads, BLOCK, head_dim]`.
    pub(super) values: Vec<Tensor>,
    n_blocks: usize,
}

impl KvCache {
    /// Room for `n_blocks` blocks.
    ///
    /// # Errors
    /// The device has not that much memory.
    pub fn new(config: &Config, n_blocks: usize, kind: KvType, device: &Device) -> Result<Self, Error> {
        let (heads, dim) = (config.n_kv_heads, config.head_dim);
        let layers = |shape: (usize, usize, usize, usize)| -> Result<Vec<Tensor>, Error> {
            (0..config.n_layers).map(|_| Ok(kind.zeros(shape, device)?)).collect()
        };
        let keys = layers((n_blocks, heads, dim, BLOCK))?;
        Ok(Self { keys, values: layers((n_blocks, heads, BLOCK, dim))?, n_blocks })
    }

    /// Bytes that one block takes over all layers.
    #[must_use]
    pub fn block_bytes(config: &Config, kind: KvType) -> usize {
        2 * config.n_layers * config.n_kv_heads * config.head_dim * BLOCK * kind.dtype().size_in_bytes()
    }

    #[must_use]
    pub fn n_blocks(&self) -> usize {
        self.n_blocks
    }

    /// Copies one block over another, in every layer.
    ///
    /// # Errors
    /// As candle's.
    pub fn copy_block(&mut self, from: u32, to: u32) -> Result<(), Error> {
        for layer in self.keys.iter().chain(&self.values) {
            layer.inplace_op1(&CopyBlock { from: from as usize, to: to as usize })?;
        }
        Ok(())
    }
}

struct CopyBlock {
    from: usize,
    to: usize,
}

impl InplaceOp1 for CopyBlock {
    fn name(&self) -> &'static str {
        "copy-block"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
        let size: usize = layout.dims()[1..].iter().product();
        let (from, to) = (self.from * size..(self.from + 1) * size, self.to * size);
        match storage {
            CpuStorage::BF16(cache) => cache.copy_within(from, to),
            CpuStorage::F16(cache) => cache.copy_within(from, to),
            CpuStorage::F32(cache) => cache.copy_within(from, to),
            _ => candle_core::bail!("the cache holds floats"),
        }
        Ok(())
    }
}
