//! Recurrent states of sequences, and the snapshots that they begin with and leave.

use super::{BLOCK, Batch, Match, Request, Scheduler, Sequence, SnapshotId, State};

/// The start of a sequence's recurrent state.
struct Start {
    n_tokens: usize,
    /// `None` for zeros.
    from: Option<SnapshotId>,
}

impl Scheduler {
    /// Allocates a sequence of a model with recurrent states. Of the prefix whose keys and values are known,
    /// it takes the part with the longest snapshot; where a running sequence will pass the end of a longer
    /// one, that one is planned. Where both end before the known prefix does, the sequence itself leaves a
    /// snapshot at its end. `None` if there are too few blocks or slots.
    pub(super) fn allocate_with_state(&mut self, request: &Request, known: &Match) -> Option<Sequence> {
        let start = self.start(request, known.n_tokens());
        if let Some(sequence) = self.allocate_from(request, &start, known.n_tokens()) {
            return Some(sequence);
        }
        // No running sequence will free blocks; the source block of a fork may be the one that is missing.
        let zeros = Start { n_tokens: 0, from: None };
        if self.running.is_empty() { self.allocate_from(request, &zeros, 0) } else { None }
    }

    fn start(&mut self, request: &Request, n_known: usize) -> Start {
        let Some(states) = &mut self.states else { return Start { n_tokens: 0, from: None } };
        let variant = request.variant;
        let (from, n_tokens) = states.longest(variant, &request.tokens, n_known).unzip();
        let found = Start { n_tokens: n_tokens.unwrap_or(0), from };
        let shared = |sequence: &Sequence| {
            let prompt = &sequence.tokens[..sequence.n_prompt];
            let same = prompt.iter().zip(&request.tokens[..n_known]).take_while(|(a, b)| a == b).count();
            (sequence.variant == variant && same >= sequence.n_done).then_some(same)
        };
        let running = self.running.iter_mut().filter_map(|sequence| Some((shared(sequence)?, sequence)));
        let Some((n_tokens, sequence)) =
            running.max_by_key(|(same, _)| *same).filter(|(same, _)| *same > found.n_tokens)
        else {
            return found;
        };
        let Some((state, id)) =
            sequence.state.as_mut().zip(states.plan(variant, &request.tokens[..n_tokens]))
        else {
            return found;
        };
        if sequence.n_done == n_tokens {
            self.snapshots.push((state.slot, states.slot(id)));
            states.set_ready(id);
        } else {
            let at = state.to_take.partition_point(|(before, _)| *before < n_tokens);
            state.to_take.insert(at, (n_tokens, id));
        }
        Start { n_tokens, from: Some(id) }
    }

    fn allocate_from(&mut self, request: &Request, start: &Start, n_known: usize) -> Option<Sequence> {
        let known = self.radix.match_prefix(request.variant, &request.tokens, start.n_tokens);
        let states = self.states.as_mut()?;
        if let Some(id) = start.from {
            states.lock(id);
        }
        let slot = states.start();
        let sequence = slot.and_then(|slot| Some((slot, self.allocate_after(request, known)?)));
        let states = self.states.as_mut()?;
        let Some((slot, mut sequence)) = sequence else {
            if let Some(slot) = slot {
                states.release(slot);
            }
            if let Some(id) = start.from {
                states.unlock(id);
            }
            return None;
        };
        let mut to_take = Vec::new();
        if self.limits.prefix_cache && n_known >= start.n_tokens + BLOCK {
            let planned = states.plan(request.variant, &request.tokens[..n_known]);
            to_take.extend(planned.map(|id| (n_known, id)));
        }
        to_take.extend(self.plan_kept(request, start.n_tokens));
        to_take.sort_unstable();
        sequence.state = Some(State { slot, from: start.from, is_ahead: false, to_take });
        Some(sequence)
    }

    /// Returns true if the snapshot that a sequence begins with has been taken.
    pub(super) fn has_its_state(&self, sequence: &Sequence) -> bool {
        let from = sequence.state.as_ref().and_then(|state| state.from);
        self.states.as_ref().zip(from).is_none_or(|(states, id)| states.is_ready(id))
    }

    /// Copies the snapshot that a sequence begins with to its own slot, once.
    pub(super) fn copy_state(&mut self, i: usize, batch: &mut Batch) {
        let (Some(states), Some(state)) = (&mut self.states, &mut self.running[i].state) else { return };
        assert!(!state.is_ahead, "a recurrent state has no way back");
        let Some(id) = state.from.take() else { return };
        batch.state_copies.push((states.slot(id), state.slot));
        states.unlock(id);
    }

    /// Schedules copies of the snapshots that a sequence has reached.
    pub(super) fn take_snapshots(&mut self, at: usize) {
        let sequence = &mut self.running[at];
        let (Some(states), Some(state)) = (&mut self.states, &mut sequence.state) else { return };
        let n_reached = state.to_take.partition_point(|(n_tokens, _)| *n_tokens <= sequence.n_done);
        for (_, id) in state.to_take.drain(..n_reached) {
            self.snapshots.push((state.slot, states.slot(id)));
            states.set_ready(id);
        }
    }

    /// Returns true if another sequence waits for a snapshot that a sequence is to take.
    pub(super) fn is_waited_for(&self, sequence: &Sequence) -> bool {
        let to_take = sequence.state.iter().flat_map(|state| &state.to_take);
        self.states.as_ref().is_some_and(|states| to_take.clone().any(|(_, id)| states.is_locked(*id)))
    }

    /// Releases a sequence's slot. Its state stays as a snapshot, for a next turn, where it is `kept`.
    pub(super) fn end_state(&mut self, sequence: &mut Sequence, is_kept: bool) {
        let (Some(states), Some(state)) = (&mut self.states, sequence.state.take()) else { return };
        if let Some(id) = state.from {
            states.unlock(id);
        }
        for (_, id) in state.to_take {
            states.drop_planned(id);
        }
        if is_kept && !state.is_ahead {
            states.keep(state.slot, sequence.variant, &sequence.tokens[..sequence.n_done]);
        } else {
            states.release(state.slot);
        }
    }

    pub(super) fn check_states(&self) -> Result<(), String> {
        let slots: Vec<u32> =
            self.running.iter().filter_map(|s| s.state.as_ref()).map(|state| state.slot).collect();
        self.states.as_ref().map_or(Ok(()), |states| states.check_integrity(&slots))
    }
}
