//! Prefixes whose keys and values, and recurrent state, come from a file or go to one.

use crate::{
    model::BLOCK,
    radix::{Parent, Prefix, Variant},
    states::{SnapshotId, States},
};

use super::{Request, Scheduler};

/// A prefix's blocks and state on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub blocks: Vec<u32>,
    /// The slot of the state after it, for a model with recurrent states.
    pub state: Option<u32>,
}

impl Scheduler {
    /// Puts a prefix of whole blocks into the tree, after those of its blocks that are computed already.
    /// Returns the number of these, and the place to which the caller writes the remaining blocks before the
    /// next step. `None`, without any change, where too few blocks or slots are free.
    ///
    /// # Panics
    /// The tokens are not those of whole blocks.
    pub fn restore(&mut self, prefix: &Prefix) -> Option<(usize, Stored)> {
        let Prefix { variant, tokens } = prefix;
        assert!(tokens.len().is_multiple_of(BLOCK), "tokens of whole blocks");
        let known = self.radix.match_prefix(*variant, tokens, tokens.len()).path;
        let n_blocks = tokens.len() / BLOCK - known.len();
        let is_computed = known.iter().all(|&id| self.radix.is_ready(id));
        if !self.limits.prefix_cache || !is_computed || self.radix.n_free() < n_blocks {
            return None;
        }
        let state = match &mut self.states {
            None => None,
            Some(states) => {
                // The state is written before the copies that wait for the next step.
                let waits = |slot| self.snapshots.iter().any(|&(from, to)| from == slot || to == slot);
                let id = states.plan_in(*variant, tokens, |slot| !waits(slot))?;
                states.set_ready(id);
                Some(states.slot(id))
            }
        };
        self.radix.lock(&known);
        let (n_known, mut path) = (known.len(), known);
        let blocks = self.radix.allocate(n_blocks)?;
        for (tokens, &block) in tokens.chunks(BLOCK).skip(n_known).zip(&blocks) {
            let parent = path.last().map_or(Parent::Root(*variant), |&id| Parent::Node(id));
            let node = self.radix.insert_prefix(parent, tokens, block);
            self.radix.set_ready(node, BLOCK);
            path.push(node);
        }
        self.radix.unlock(&path);
        Some((n_known, Stored { blocks, state }))
    }

    /// Keeps the recurrent state after a prefix once a sequence reaches it.
    pub fn keep_state_after(&mut self, prefix: &Prefix) {
        if self.states.is_some() && self.limits.prefix_cache && !self.kept_after.contains(prefix) {
            self.kept_after.push(prefix.clone());
        }
    }

    /// The place of a prefix of whole blocks on the device. `None` until all of it is computed and its
    /// recurrent state is kept.
    pub fn stored(&mut self, prefix: &Prefix) -> Option<Stored> {
        let Prefix { variant, tokens } = prefix;
        let path = self.radix.match_prefix(*variant, tokens, tokens.len()).path;
        if path.len() * BLOCK < tokens.len() || !path.iter().all(|&id| self.radix.is_ready(id)) {
            return None;
        }
        let state = match &self.states {
            None => None,
            Some(states) => {
                let slot =
                    states.slot(snapshot_of(states, *variant, tokens).filter(|id| states.is_ready(*id))?);
                // Copied with the next step.
                if self.snapshots.iter().any(|(_, to)| *to == slot) {
                    return None;
                }
                Some(slot)
            }
        };
        self.kept_after.retain(|other| other != prefix);
        Some(Stored { blocks: path.iter().map(|&id| self.radix.block(id)).collect(), state })
    }

    /// Plans snapshots of the prefixes whose states are to be kept and that a request reaches after its first
    /// `start` tokens; with their lengths.
    pub(super) fn plan_kept(&mut self, request: &Request, start: usize) -> Vec<(usize, SnapshotId)> {
        let Some(states) = &mut self.states else { return Vec::new() };
        let is_ahead = |prefix: &&Prefix| {
            prefix.variant == request.variant
                && (start + 1..=request.n_prompt).contains(&prefix.tokens.len())
                && request.tokens.starts_with(&prefix.tokens)
        };
        let mut planned = Vec::new();
        for Prefix { variant, tokens } in self.kept_after.iter().filter(is_ahead) {
            if snapshot_of(states, *variant, tokens).is_none() {
                planned.extend(states.plan(*variant, tokens).map(|id| (tokens.len(), id)));
            }
        }
        planned
    }
}

/// The snapshot of exactly these tokens, taken or planned.
fn snapshot_of(states: &States, variant: Variant, tokens: &[u32]) -> Option<SnapshotId> {
    let longest = states.longest(variant, tokens, tokens.len());
    longest.filter(|(_, n_tokens)| *n_tokens == tokens.len()).map(|(id, _)| id)
}
