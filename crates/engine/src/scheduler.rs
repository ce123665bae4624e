//! Continuous batching: admission, chunked prefill, decoding, and the bookkeeping of the prefix tree.
//! Integers only: it uses no tensor, no text and no clock.

use std::{collections::VecDeque, sync::Arc};

use crate::model::BLOCK;

use super::{
    radix::{Match, Parent, Prefix, Radix, Variant},
    sequence::{Fork, Request, SeqId, Sequence, State},
    states::{SnapshotId, States},
};

/// Limits of a step.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Sequences in flight.
    pub n_rows: usize,
    /// Prompt tokens of a step, over all sequences; pending answer tokens come on top.
    pub n_tokens: usize,
    /// Rows of a step in which answers go on: prompts are read in shorter pieces meanwhile, at least
    /// [`LEAST_TOKENS`] long.
    pub n_beside_answers: usize,
    /// Rows of a step, and those of them with logits, for which the device has room: at least one. Rows
    /// beyond that are left to the next step.
    pub max_rows: usize,
    pub max_logits: usize,
    /// Look for known prefixes.
    pub prefix_cache: bool,
    /// A prompt is computed in one step, which may then have more prompt tokens (encoders).
    pub whole_prompts: bool,
}

/// Prompt tokens of a step in which answers go on, at least.
const LEAST_TOKENS: usize = 16;

/// Steps in which the first answer goes on alone, after a prompt that is read alone, so that it is complete
/// early and shows how long the others will take.
const STEPS_FOR_FIRST: usize = 64;

/// The scheduler: admits sequences and selects the tokens of each step.
#[derive(Debug)]
pub struct Scheduler {
    limits: Limits,
    radix: Radix,
    waiting: VecDeque<Waiting>,
    /// Number of further steps reserved for the first answer.
    steps_for_first: usize,
    /// By id, which is the order of arrival.
    running: Vec<Sequence>,
    /// Recurrent states, for a model that has them.
    states: Option<States>,
    /// Snapshots to copy before anything else of the next step, `(from, to)`.
    snapshots: Vec<(u32, u32)>,
    /// Prefixes whose recurrent states are kept once a sequence reaches them.
    kept_after: Vec<Prefix>,
}

#[derive(Debug)]
struct Waiting {
    request: Request,
    /// The part of the prompt that was in the tree when the request arrived, hinted.
    hinted: Match,
}

/// The work of one step.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Cache copies to make first.
    pub copies: Vec<BlockCopy>,
    /// Recurrent states to copy, `(from, to)`, one after the other.
    pub state_copies: Vec<(u32, u32)>,
    pub chunks: Vec<Chunk>,
}

/// The first tokens of one block copied to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCopy {
    pub from: u32,
    pub to: u32,
}

/// Tokens of one sequence that a step computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub id: SeqId,
    pub position: usize,
    pub tokens: Vec<u32>,
    pub blocks: Arc<[u32]>,
    /// The first of the chunk's tokens with logits; the chunk's length when none has.
    pub logits_from: usize,
    /// The first of the chunk's tokens with hidden states; the chunk's length when none has.
    pub states_from: usize,
    pub variant: Variant,
    /// The slot of the sequence's recurrent state.
    pub state: Option<u32>,
}

impl Chunk {
    /// Number of tokens with logits.
    pub fn n_logits(&self) -> usize {
        self.tokens.len() - self.logits_from
    }

    /// Number of tokens with hidden states.
    pub fn n_states(&self) -> usize {
        self.tokens.len() - self.states_from
    }
}

impl Scheduler {
    /// A scheduler over `n_blocks` blocks of cache.
    pub fn new(limits: Limits, n_blocks: usize) -> Self {
        Self {
            limits,
            radix: Radix::new(n_blocks),
            waiting: VecDeque::new(),
            steps_for_first: STEPS_FOR_FIRST,
            running: Vec::new(),
            states: None,
            snapshots: Vec::new(),
            kept_after: Vec::new(),
        }
    }

    /// This scheduler for a model with recurrent states, which have `n_slots` slots.
    #[must_use]
    pub fn with_states(self, n_slots: usize) -> Self {
        Self { states: Some(States::new(n_slots)), ..self }
    }

    /// Queues a sequence. It must fit the cache on its own, and its id must be greater than all before.
    pub fn add(&mut self, request: Request) {
        let hinted = self.match_prefix(&request);
        self.radix.hint(&nodes(&hinted));
        self.waiting.push_back(Waiting { request, hinted });
    }

    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// The cached prefix of a sequence; tokens whose logits or states are needed are computed in any case.
    fn match_prefix(&self, request: &Request) -> Match {
        if !self.limits.prefix_cache {
            return Match::default();
        }
        let needed = request.logits_from.min(request.states_from).min(request.tokens.len() - 1);
        self.radix.match_prefix(request.variant, &request.tokens, needed)
    }

    /// Tokens of the next step. Beside answers those of prompts are few, so that an answer waits for no long
    /// prompt; with [`Limits::n_beside_answers`] rows a device takes no longer for each row than with more.
    fn budget(&mut self) -> usize {
        let answers = self.running.iter().filter(|sequence| sequence.is_answering());
        let n_rows: usize = answers.map(Sequence::n_pending).sum();
        if n_rows == 0 || self.limits.n_beside_answers == usize::MAX {
            return self.limits.n_tokens;
        }
        if self.steps_for_first > 0 {
            self.steps_for_first -= 1;
            return n_rows;
        }
        self.limits.n_tokens.min(self.limits.n_beside_answers.max(n_rows + LEAST_TOKENS))
    }

    /// Returns true if the prompt of the first answer is read alone. Devices on which a step of few rows
    /// takes as long as one of many read others beside it.
    fn reads_first_alone(&self) -> bool {
        self.steps_for_first == STEPS_FOR_FIRST
            && self.limits.n_beside_answers != usize::MAX
            && !self.running.iter().any(Sequence::is_answering)
    }

    /// The next step: every row that can advance gets a share of the step's tokens, decoding rows first, then
    /// prompts by rank.
    pub fn next_batch(&mut self) -> Batch {
        self.admit();
        let mut batch = Batch { state_copies: std::mem::take(&mut self.snapshots), ..Batch::default() };
        let alone = self.reads_first_alone();
        let mut budget = self.budget();
        let (mut rows, mut logits) = (self.limits.max_rows, self.limits.max_logits);
        let mut order: Vec<usize> = (0..self.running.len()).collect();
        order.sort_by_key(|&i| {
            let sequence = &self.running[i];
            (!sequence.is_answering(), sequence.rank, sequence.id)
        });
        for i in order {
            if alone && !batch.chunks.is_empty() {
                break;
            }
            if !self.is_ready(&self.running[i]) {
                continue;
            }
            self.copy_fork(i, &mut batch);
            self.copy_state(i, &mut batch);
            let sequence = &self.running[i];
            let pending = sequence.n_pending();
            let n = if sequence.is_answering() { pending } else { pending.min(budget) };
            let n = n.min(rows).min(sequence.n_before_logits().saturating_add(logits));
            let n = n.min(sequence.n_before_snapshot());
            // A whole prompt waits for a step in which it fits, or has one of its own.
            let is_cut = self.limits.whole_prompts && n < pending;
            let n =
                if is_cut && batch.chunks.is_empty() { pending.min(rows) } else { n * usize::from(!is_cut) };
            budget = budget.saturating_sub(n);
            if n > 0 {
                let chunk = chunk(sequence, n);
                (rows, logits) = (rows - n, logits - chunk.n_logits());
                batch.chunks.push(chunk);
            }
        }
        batch
    }

    /// Admits waiting sequences by rank, then in order, while there are rows and blocks.
    fn admit(&mut self) {
        while self.running.len() < self.limits.n_rows {
            let ranked = self.waiting.iter().enumerate();
            let Some((first, _)) =
                ranked.min_by_key(|(_, Waiting { request, .. })| (request.rank, request.id))
            else {
                return;
            };
            let Some(Waiting { request, hinted }) = self.waiting.remove(first) else { return };
            let Some(sequence) = self.allocate(&request) else {
                self.waiting.insert(first, Waiting { request, hinted });
                return;
            };
            self.radix.unhint(&nodes(&hinted));
            let at = self.running.partition_point(|running| running.id < sequence.id);
            self.running.insert(at, sequence);
        }
    }

    /// Allocates a sequence's blocks and inserts its prompt into the tree at once: sequences that share it
    /// wait until it is computed instead of computing it again. Tokens that are forced at the start of an
    /// answer are inserted only at the end, because the sequence may end before all of them are computed.
    /// `None` if there are too few blocks.
    fn allocate(&mut self, request: &Request) -> Option<Sequence> {
        let known = self.match_prefix(request);
        if self.states.is_some() {
            return self.allocate_with_state(request, &known);
        }
        let whole_blocks = Match { tail: None, ..known.clone() };
        match self.allocate_after(request, known) {
            // No running sequence will free blocks; the source block of a fork may be the one that is
            // missing.
            None if self.running.is_empty() => self.allocate_after(request, whole_blocks),
            allocated => allocated,
        }
    }

    /// Allocates the blocks after a cached prefix, which it locks.
    fn allocate_after(&mut self, request: &Request, known: Match) -> Option<Sequence> {
        let held = nodes(&known);
        self.radix.lock(&held);
        let n_shared = known.path.len();
        let Some(new) = self.radix.allocate(request.n_blocks() - n_shared) else {
            self.radix.unlock(&held);
            return None;
        };
        let mut blocks: Vec<u32> = known.path.iter().map(|&id| self.radix.block(id)).collect();
        blocks.extend(new);
        let mut sequence = Sequence {
            id: request.id,
            rank: request.rank,
            tokens: request.tokens.clone(),
            n_prompt: request.n_prompt,
            variant: request.variant,
            n_done: known.n_tokens(),
            n_cached: known.n_tokens(),
            n_settled: 0,
            logits_from: request.logits_from,
            states_from: request.states_from,
            blocks: blocks.into(),
            path: known.path,
            n_shared,
            fork: known.tail.map(|(from, n_tokens)| Fork { from, n_tokens }),
            state: None,
        };
        if self.limits.prefix_cache {
            self.grow_path(&mut sequence, request.n_prompt);
        }
        Some(sequence)
    }

    /// Inserts the first `n_tokens` of the sequence into the tree, block by block.
    fn grow_path(&mut self, sequence: &mut Sequence, n_tokens: usize) {
        for idx in sequence.path.len()..n_tokens.div_ceil(BLOCK) {
            let before = idx.checked_sub(1).map(|i| sequence.path[i]);
            let parent = before.map_or(Parent::Root(sequence.variant), Parent::Node);
            let tokens = &sequence.tokens[idx * BLOCK..n_tokens.min((idx + 1) * BLOCK)];
            let node = self.radix.insert_prefix(parent, tokens, sequence.blocks[idx]);
            sequence.path.push(node);
        }
    }

    /// Returns true if the sequence's shared prefix has been computed.
    fn is_ready(&self, sequence: &Sequence) -> bool {
        if sequence.is_answering() {
            return true; // its prompt's blocks are locked as long as it runs
        }
        let is_full = |&id: &u32| self.radix.n_ready(id) == BLOCK;
        sequence.path[..sequence.n_shared].iter().rev().all(is_full)
            && sequence.fork.is_none_or(|fork| self.radix.n_ready(fork.from) >= fork.n_tokens)
            && self.has_its_state(sequence)
    }

    /// Copies the shared tokens of a partial block to the sequence's own block, once (copy on write).
    fn copy_fork(&mut self, i: usize, batch: &mut Batch) {
        let sequence = &mut self.running[i];
        let Some(fork) = sequence.fork.take() else { return };
        batch
            .copies
            .push(BlockCopy { from: self.radix.block(fork.from), to: sequence.blocks[sequence.n_shared] });
        self.radix.unlock(&[fork.from]);
    }

    /// Records a step as computed.
    ///
    /// # Panics
    /// When the step is of a sequence that has ended.
    pub fn computed(&mut self, batch: &Batch) {
        for chunk in &batch.chunks {
            let at = self.place(chunk.id).expect("a chunk of a running row");
            let sequence = &mut self.running[at];
            sequence.n_done += chunk.tokens.len();
            let first = chunk.position / BLOCK;
            let last = (sequence.n_done - 1) / BLOCK;
            for (idx, &node) in sequence.path.iter().enumerate().take(last + 1).skip(first) {
                self.radix.set_ready(node, sequence.n_done - idx * BLOCK);
            }
            self.take_snapshots(at);
        }
    }

    /// The index of a running sequence in `running`.
    fn place(&self, id: SeqId) -> Option<usize> {
        self.running.binary_search_by_key(&id, |sequence| sequence.id).ok()
    }

    /// Number of settled tokens in a running sequence's answer: they stay.
    ///
    /// # Panics
    /// When it has ended.
    pub fn n_settled(&self, id: SeqId) -> usize {
        self.running[self.place(id).expect("a running row")].n_settled
    }

    /// Sets the answer of a running sequence after its tokens that are [settled](Self::n_settled) already:
    /// `further` settled ones until there are `n_settled`, then those that are forced or guessed to follow.
    /// Tokens computed after the last settled one, or from other tokens, are computed again.
    ///
    /// # Panics
    /// When it has ended.
    pub fn set_answer(&mut self, id: SeqId, further: &[u32], n_settled: usize) {
        let at = self.place(id).expect("a running row");
        let sequence = &mut self.running[at];
        let n_prompt = sequence.n_prompt;
        let first = n_prompt + sequence.n_settled;
        let old = &sequence.tokens[first..];
        let n_same = first + old.iter().zip(further).take_while(|(old, new)| old == new).count();
        sequence.tokens.truncate(n_same);
        sequence.tokens.extend_from_slice(&further[n_same - first..]);
        sequence.n_settled = n_settled;
        // The logits after the last settled token are still to come.
        let n_done = sequence.n_done.min(n_same).min(n_prompt + n_settled.max(1) - 1);
        if let Some(state) = &mut sequence.state {
            state.is_ahead |= n_done < sequence.n_done;
        }
        sequence.n_done = n_done;
    }

    /// Ends a sequence: its computed blocks stay in the tree until they are needed.
    ///
    /// # Panics
    /// When it has ended already.
    pub fn finish(&mut self, id: SeqId) -> Sequence {
        let at = self.place(id).expect("a running row");
        let mut sequence = self.running.remove(at);
        self.steps_for_first = 0;
        if self.limits.prefix_cache {
            self.insert_answer(&mut sequence);
        }
        self.radix.unlock(&sequence.path);
        self.radix.release(&sequence.blocks[sequence.path.len()..]);
        self.end_state(&mut sequence, self.limits.prefix_cache);
        sequence
    }

    /// Removes cancelled sequences, waiting or running, and returns their ids. The others continue for now,
    /// since sequences that are not cancelled wait for blocks that they compute.
    pub fn cancel_all(&mut self, ids: impl IntoIterator<Item = SeqId>) -> Vec<SeqId> {
        let (mut left, mut removed): (Vec<SeqId>, _) = (ids.into_iter().collect(), Vec::new());
        // Each may wait for blocks of another, mostly a later one for those of an earlier one.
        left.sort_unstable_by(|a, b| b.cmp(a));
        loop {
            let (gone, stay): (Vec<SeqId>, Vec<SeqId>) = left.into_iter().partition(|id| self.cancel(*id));
            if gone.is_empty() {
                return removed;
            }
            (left, removed) = (stay, [removed, gone].concat());
        }
    }

    /// Removes a cancelled sequence, waiting or running. Its computed blocks stay in the tree. Returns false
    /// if other sequences wait for blocks that it computes: it then continues, and can be removed later.
    fn cancel(&mut self, id: SeqId) -> bool {
        if let Some(at) = self.waiting.iter().position(|waiting| waiting.request.id == id) {
            if let Some(Waiting { hinted, .. }) = self.waiting.remove(at) {
                self.radix.unhint(&nodes(&hinted));
            }
            return true;
        }
        let Some(at) = self.place(id) else { return true };
        if self.running[at].is_answering() {
            self.finish(id);
            return true;
        }
        let sequence = &self.running[at];
        let unshared = &sequence.path[sequence.n_shared..];
        let n_ready = unshared.iter().take_while(|&&node| self.radix.is_ready(node)).count();
        if !unshared[n_ready..].iter().all(|&node| self.radix.is_own(node)) || self.is_waited_for(sequence) {
            return false;
        }
        let mut sequence = self.running.remove(at);
        let (ready, unready) = sequence.path.split_at(sequence.n_shared + n_ready);
        unready.iter().rev().for_each(|&node| self.radix.remove(node));
        self.radix.unlock(ready);
        if let Some(fork) = sequence.fork {
            self.radix.unlock(&[fork.from]);
        }
        self.radix.release(&sequence.blocks[sequence.path.len()..]);
        self.end_state(&mut sequence, false);
        true
    }

    /// Inserts the computed part of the answer into the tree, so that the conversation's next turn finds it.
    fn insert_answer(&mut self, sequence: &mut Sequence) {
        // A last token may have been chosen but never computed. The prompt, which the path holds, always is.
        sequence.tokens.truncate(sequence.n_done);
        if let Some(&leaf) = sequence.path.last() {
            let tokens = sequence.block_tokens(sequence.path.len() - 1);
            self.radix.extend(leaf, &tokens[self.radix.n_tokens(leaf)..]);
        }
        self.grow_path(sequence, sequence.tokens.len());
        for (idx, &node) in sequence.path.iter().enumerate().skip(sequence.n_shared) {
            self.radix.set_ready(node, sequence.n_done - idx * BLOCK);
        }
    }

    /// Checks the bookkeeping.
    ///
    /// # Errors
    /// The first inconsistency.
    pub fn check_integrity(&self) -> Result<(), String> {
        let private: Vec<u32> =
            self.running.iter().flat_map(|s| s.blocks[s.path.len()..].iter().copied()).collect();
        self.check_states()?;
        self.radix.check_integrity(&private)
    }
}

fn nodes(known: &Match) -> Vec<u32> {
    known.path.iter().copied().chain(known.tail.map(|tail| tail.0)).collect()
}

fn chunk(sequence: &Sequence, n: usize) -> Chunk {
    let position = sequence.n_done;
    Chunk {
        id: sequence.id,
        position,
        tokens: sequence.tokens[position..position + n].to_vec(),
        blocks: sequence.blocks.clone(),
        logits_from: sequence.logits_from.saturating_sub(position).min(n),
        states_from: sequence.states_from.saturating_sub(position).min(n),
        variant: sequence.variant,
        state: sequence.state.as_ref().map(|state| state.slot),
    }
}

mod restored;
pub use restored::Stored;
mod snapshots;

#[cfg(test)]
mod tests;
