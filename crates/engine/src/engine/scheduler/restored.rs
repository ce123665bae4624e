//! Prefixes whose keys and values come from a file, or go to one.

use crate::{
    engine::radix::{Parent, Variant},
    model::BLOCK,
};

use super::Scheduler;

impl Scheduler {
    /// Puts a prefix of whole blocks into the tree, behind those of its blocks that are computed already. Returns how many
    /// these are, and the others, whose keys and values the caller writes before the next step. `None`, and nothing is
    /// changed, where too few blocks are free.
    ///
    /// # Panics
    /// The tokens are not those of whole blocks.
    pub fn restore(&mut self, variant: Variant, tokens: &[u32]) -> Option<(usize, Vec<u32>)> {
        assert!(tokens.len().is_multiple_of(BLOCK), "tokens of whole blocks");
        let known = self.radix.match_prefix(variant, tokens, tokens.len()).path;
        let n_blocks = tokens.len() / BLOCK - known.len();
        let is_computed = known.iter().all(|&id| self.radix.is_ready(id));
        if !self.limits.prefix_cache || !is_computed || self.radix.n_free() < n_blocks {
            return None;
        }
        self.radix.lock(&known);
        let (n_known, mut path) = (known.len(), known);
        let blocks = self.radix.allocate(n_blocks)?;
        for (tokens, &block) in tokens.chunks(BLOCK).skip(n_known).zip(&blocks) {
            let parent = path.last().map_or(Parent::Root(variant), |&id| Parent::Node(id));
            let node = self.radix.insert_prefix(parent, tokens, block);
            self.radix.set_ready(node, BLOCK);
            path.push(node);
        }
        self.radix.unlock(&path);
        Some((n_known, blocks))
    }

    /// The blocks of a prefix of whole blocks, once all of it is computed.
    #[must_use]
    pub fn computed_blocks(&self, variant: Variant, tokens: &[u32]) -> Option<Vec<u32>> {
        let path = self.radix.match_prefix(variant, tokens, tokens.len()).path;
        let is_there = path.len() * BLOCK == tokens.len() && path.iter().all(|&id| self.radix.is_ready(id));
        is_there.then(|| path.iter().map(|&id| self.radix.block(id)).collect())
    }
}
