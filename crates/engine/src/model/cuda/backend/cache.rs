//! The KV cache: of the layers that attend, all blocks of a layer's keys, then of its values.

use super::{
    super::{
        Error, delta_net,
        launch::{Argument, Shape},
        memory::{CACHE, Memory},
    },
    Cuda,
};
use crate::model::{BLOCK, KvType};

impl Cuda {
    /// Allocates the cache.
    pub(super) fn make_cache(&mut self, n_blocks: usize, kv: KvType) -> Result<(), Error> {
        if kv != KvType::Bf16 {
            return Err(Error::Cache(kv.name()));
        }
        self.here()?;
        self.forget_recordings();
        self.cache = None;
        let bytes = n_blocks * kv.block_bytes(&self.config);
        self.cache = Some(Memory::new(self.gpu.context(), bytes, CACHE)?);
        self.n_blocks = n_blocks;
        Ok(())
    }

    /// The keys and values of a layer that attends.
    pub(super) fn cached(&self, layer: usize) -> (u64, u64) {
        let half = (self.n_blocks * self.block_elements() * 2) as u64;
        let first = self.cache.as_ref().map_or(0, Memory::at);
        let keys = first + 2 * (layer - delta_net::layers_before(&self.config, layer)) as u64 * half;
        (keys, keys + half)
    }

    /// Numbers of a block in one layer's keys, or in its values.
    fn block_elements(&self) -> usize {
        self.config.full.kv_width() * BLOCK
    }

    /// Copies the step's blocks.
    pub(super) fn copy_blocks(&self) -> Result<(), Error> {
        let (n, halves) = (self.plan.n_copies, 2 * self.config.n_attention_layers());
        let cache = self.cache.as_ref().map_or(0, Memory::at);
        let sizes = [n, self.block_elements(), self.n_blocks, halves].map(Argument::size);
        let pointers = [cache, self.plan.copies.from(self.numbers()?)].map(Argument::At);
        let shape = Shape::new([n, halves], 256);
        // SAFETY: the step was checked: its copies are pairs of blocks of the cache, whose halves are 256-byte aligned;
        // a block is a multiple of 16 bytes.
        unsafe { self.launch(("copy_blocks", "copy_blocks"), shape, &[&pointers[..], &sizes].concat()) }
    }
}
