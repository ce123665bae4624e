//! The state of one sequence: its tokens, the number of computed ones, and its blocks. Integers only: it
//! handles no text and no grammar.

use std::sync::Arc;

use crate::model::BLOCK;

use super::{
    radix::{NodeId, Variant},
    states::SnapshotId,
};

/// The id of a sequence, unique in its engine.
pub type SeqId = u64;

/// A sequence that the scheduler has admitted.
#[derive(Clone, Debug)]
pub struct Sequence {
    pub id: SeqId,
    /// Prompts of lower rank are computed first.
    pub rank: usize,
    /// Prompt, then the answer as far as it is chosen, forced or guessed.
    pub tokens: Vec<u32>,
    pub n_prompt: usize,
    pub variant: Variant,
    /// Tokens whose keys and values are in the cache.
    pub n_done: usize,
    /// Prompt tokens that came from the cache.
    pub n_cached: usize,
    /// Tokens of the answer that are final.
    pub n_settled: usize,
    /// The first position whose next-token logits are computed.
    pub logits_from: usize,
    /// The first position whose hidden states are captured.
    pub states_from: usize,
    /// One entry per block of the sequence, shared ones first.
    pub blocks: Arc<[u32]>,
    /// Tree nodes of the first blocks: shared ones, then the prompt's own.
    pub path: Vec<NodeId>,
    /// Number of nodes of `path` that existed before.
    pub n_shared: usize,
    /// Tokens that must be copied from another node's block before anything is computed.
    pub fork: Option<Fork>,
    /// Its recurrent state, for a model that has one.
    pub state: Option<State>,
}

/// The recurrent state of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub slot: u32,
    /// The snapshot that is to be copied to the slot before anything is computed.
    pub from: Option<SnapshotId>,
    /// True if the state has passed tokens that the answer does not have: an answer that ended among forced
    /// ones. It has no way back, so such a sequence computes nothing more.
    pub is_ahead: bool,
    /// Snapshots to take, each after so many tokens; ascending.
    pub to_take: Vec<(usize, SnapshotId)>,
}

/// The first tokens of a partial block, copied from a node of the tree (copy on write).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork {
    pub from: NodeId,
    pub n_tokens: usize,
}

impl Sequence {
    /// Tokens that are not computed yet.
    pub fn n_pending(&self) -> usize {
        self.tokens.len() - self.n_done
    }

    /// Pending tokens before the first whose logits are computed.
    pub fn n_before_logits(&self) -> usize {
        self.logits_from.saturating_sub(self.n_done)
    }

    /// Pending tokens before the next snapshot of its recurrent state.
    pub fn n_before_snapshot(&self) -> usize {
        let next = self.state.as_ref().and_then(|state| state.to_take.first());
        next.map_or(usize::MAX, |(n_tokens, _)| n_tokens - self.n_done)
    }

    /// Returns true if the whole prompt is computed, so that each pending token is one of the answer.
    pub fn is_answering(&self) -> bool {
        self.n_done >= self.n_prompt
    }

    /// The known tokens of one block.
    pub fn block_tokens(&self, block_idx: usize) -> &[u32] {
        let end = self.tokens.len().min((block_idx + 1) * BLOCK);
        &self.tokens[block_idx * BLOCK..end]
    }
}

/// A new sequence.
#[derive(Clone, Debug)]
pub struct Request {
    pub id: SeqId,
    /// The sequence's [`Sequence::rank`].
    pub rank: usize,
    /// Prompt, then the tokens that the form forces at the start of the answer.
    pub tokens: Vec<u32>,
    /// Tokens that are computed unconditionally: the prompt, and all of a given text.
    pub n_prompt: usize,
    pub variant: Variant,
    /// Tokens that may still be added.
    pub n_more: usize,
    /// The first position whose next-token logits are computed.
    pub logits_from: usize,
    /// The first position whose hidden states are captured.
    pub states_from: usize,
}

impl Request {
    /// A prompt alone: no logits, no states, no answer.
    pub fn new(tokens: Vec<u32>, variant: Variant) -> Self {
        let n_prompt = tokens.len();
        let (logits_from, states_from) = (usize::MAX, usize::MAX);
        Self { id: 0, rank: 0, tokens, n_prompt, variant, n_more: 0, logits_from, states_from }
    }

    /// Blocks that the whole sequence may come to need.
    pub fn n_blocks(&self) -> usize {
        (self.tokens.len() + self.n_more).div_ceil(BLOCK)
    }
}
