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
    /// Numbers that a block takes in one layer's keys, or in its values.
    block: usize,
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
        let block = config.n_kv_heads * config.head_dim * BLOCK;
        let n = n_blocks * block;
        let layers: Vec<bool> =
            (0..config.n_layers).map(|layer| config.delta_net_of(layer).is_none()).collect();
        match kv {
            KvType::Bf16 => Self::Bf16(Halves::new(&layers, block, || vec![0_u16; n].reinterpret_into())),
            KvType::F16 => Self::F16(Halves::new(&layers, block, || vec![0_u16; n].reinterpret_into())),
            KvType::F32 => Self::F32(Halves::new(&layers, block, || vec![0.0; n])),
        }
    }

    /// Copies one block over another, in every layer.
    pub(super) fn copy_block(&mut self, from: u32, to: u32) {
        with_halves!(self, halves => halves.copy_block(from as usize, to as usize));
    }
}

impl<S: Copy> Halves<S> {
    /// `layers` says which of them have keys and values.
    fn new(layers: &[bool], block: usize, zeros: impl Fn() -> Vec<S>) -> Self {
        let layers = || layers.iter().map(|has| if *has { zeros() } else { Vec::new() }).collect();
        Self { keys: layers(), values: layers(), block }
    }

    fn copy_block(&mut self, from: usize, to: usize) {
        let (from, to) = (from * self.block..(from + 1) * self.block, to * self.block);
        for layer in self.keys.iter_mut().chain(&mut self.values).filter(|layer| !layer.is_empty()) {
            layer.copy_within(from.clone(), to);
        }
    }
}
