//! The paged KV cache in this machine's memory: storage only.

use half::{bf16, f16, vec::HalfBitsVecExt};

use crate::model::{BLOCK, Config, KvType};

/// Keys and values of every layer in blocks of [`BLOCK`] tokens.
///
/// Shape: for each layer `[n_blocks, n_kv_heads]` blocks of keys, laid out as [`super::attend::key_at`] says, and as
/// many of values, as [`super::attend::value_at`] says.
pub(super) enum Cache {
    Bf16(Halves<bf16>),
    F16(Halves<f16>),
    F32(Halves<f32>),
}

/// The keys and the values of each layer.
pub(super) struct Halves<S> {
    pub keys: Vec<Vec<S>>,
    pub values: Vec<Vec<S>>,
    /// Numbers that a block takes in each layer's keys, or in its values; 0 for a layer that has none.
    blocks: Vec<usize>,
}

/// Does the same with a cache of any type.
macro_rules! with_halves {
    ($cache:expr, $halves:ident => $what:expr) => {
        match $cache {
            $crate::model::cpu::cache::Cache::Bf16($halves) => $what,
            $crate::model::cpu::cache::Cache::F16($halves) => $what,
            $crate::model::cpu::cache::Cache::F32($halves) => $what,
        }
    };
}
pub(super) use with_halves;

impl Cache {
    /// Zeros that take no memory until they are written to: the system hands out such pages lazily.
    pub(super) fn new(config: &Config, n_blocks: usize, kv: KvType) -> Self {
        let block = |layer| match config.delta_net_of(layer) {
            Some(_) => 0,
            None => config.attention_of(layer).kv_width() * BLOCK,
        };
        let blocks: Vec<usize> = (0..config.n_layers).map(block).collect();
        match kv {
            KvType::Bf16 => {
                Self::Bf16(Halves::new(blocks, |block| vec![0_u16; n_blocks * block].reinterpret_into()))
            }
            KvType::F16 => {
                Self::F16(Halves::new(blocks, |block| vec![0_u16; n_blocks * block].reinterpret_into()))
            }
            KvType::F32 => Self::F32(Halves::new(blocks, |block| vec![0.0; n_blocks * block])),
        }
    }

    /// Copies one block over another, in every layer.
    pub(super) fn copy_block(&mut self, from: u32, to: u32) {
        with_halves!(self, halves => halves.copy_block(from as usize, to as usize));
    }
}

impl<S: Copy> Halves<S> {
    fn new(blocks: Vec<usize>, zeros: impl Fn(usize) -> Vec<S>) -> Self {
        let layers = || blocks.iter().map(|&block| zeros(block)).collect();
        Self { keys: layers(), values: layers(), blocks }
    }

    fn copy_block(&mut self, from: usize, to: usize) {
        for half in [&mut self.keys, &mut self.values] {
            for (layer, &block) in half.iter_mut().zip(&self.blocks) {
                layer.copy_within(from * block..(from + 1) * block, to * block);
            }
        }
    }
}
