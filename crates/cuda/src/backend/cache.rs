//! The KV cache: of the layers that attend, all blocks of a layer's keys, then of its values. Layers of one
//! kind of attention lie side by side, since their blocks have one size; a block's number is the same in all
//! of them.

use super::{
    super::{
        Error,
        launch::{Argument, Shape},
        memory::Memory,
    },
    Cuda,
};
use tribunal_model::{BLOCK, config::AttentionKind};

impl Cuda {
    /// The keys and values of a layer that attends.
    pub(super) fn cached(&self, layer: usize) -> (u64, u64) {
        let kind = self.config.kind_of(layer);
        let attends = |&before: &usize| {
            self.config.delta_net_of(before).is_none() && self.config.kind_of(before) == kind
        };
        let (half, parts) = (self.half_bytes(kind), self.config.attention(kind).cached_parts());
        let layers_before = (0..layer).filter(attends).count();
        let keys = self.cached_layers(kind) + (parts * layers_before) as u64 * half;
        // The values of compressed rows are among their keys.
        (keys, if parts == 1 { keys } else { keys + half })
    }

    /// The offset of the first layer of a kind: full ones precede those with a window.
    fn cached_layers(&self, kind: AttentionKind) -> u64 {
        let first = self.cache.as_ref().map_or(0, Memory::at);
        let parts = self.config.full.cached_parts();
        let full = (parts * self.config.n_layers_of(AttentionKind::Full)) as u64;
        first + if kind == AttentionKind::Full { 0 } else { full * self.half_bytes(AttentionKind::Full) }
    }

    /// Bytes of a layer's keys, or of its values.
    fn half_bytes(&self, kind: AttentionKind) -> u64 {
        (self.n_blocks * self.block_elements(kind) * 2) as u64
    }

    /// Numbers of a block in one layer's keys, or in its values.
    fn block_elements(&self, kind: AttentionKind) -> usize {
        self.config.attention(kind).kv_width() * BLOCK
    }

    /// Copies the step's blocks.
    pub(super) fn copy_blocks(&self) -> Result<(), Error> {
        for kind in [AttentionKind::Full, AttentionKind::Sliding] {
            self.copy_blocks_of(kind)?;
        }
        Ok(())
    }

    fn copy_blocks_of(&self, kind: AttentionKind) -> Result<(), Error> {
        let parts = self.config.attention(kind).cached_parts();
        let (n, halves) = (self.plan.n_copies, parts * self.config.n_layers_of(kind));
        if halves == 0 {
            return Ok(());
        }
        let sizes = [n, self.block_elements(kind), self.n_blocks, halves].map(Argument::size);
        let pointers = [self.cached_layers(kind), self.plan.copies.from(self.numbers()?)].map(Argument::At);
        let shape = Shape::new([n, halves], 256);
        // SAFETY: the step was checked: its copies are pairs of blocks of the cache, whose halves are
        // 256-byte aligned; a block is a multiple of 16 bytes.
        unsafe { self.launch(("copy_blocks", "copy_blocks"), shape, &[&pointers[..], &sizes].concat()) }
    }
}
