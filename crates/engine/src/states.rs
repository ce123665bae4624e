//! Slots of recurrent states: those of running sequences, and snapshots of prefixes that further sequences
//! may share. Integers only; the backend owns the states.
//!
//! The keys and values of a prefix are part of those of every longer one; a recurrent state is that of one
//! length alone. So a cached prefix is of use up to the longest snapshot in it, and a snapshot is planned
//! wherever prompts are known to diverge: before the sequence that computes the prefix reaches that position.

use std::collections::BTreeMap;

use super::radix::Variant;

/// The id of a snapshot, unique in its scheduler.
pub type SnapshotId = u64;

/// All slots.
#[derive(Debug)]
pub struct States {
    n_slots: usize,
    free: Vec<u32>,
    n_running: usize,
    snapshots: BTreeMap<SnapshotId, Snapshot>,
    last_id: SnapshotId,
    clock: u64,
}

/// The state after a prefix.
#[derive(Debug)]
struct Snapshot {
    variant: Variant,
    prefix: Vec<u32>,
    slot: u32,
    /// True if the state has been copied, or will be copied before anything else.
    is_ready: bool,
    /// Sequences that will begin with it.
    n_locks: u32,
    /// True if two sequences have had the prefix.
    is_shared: bool,
    last_use: u64,
}

impl States {
    /// `n_slots` free slots, at least two.
    pub fn new(n_slots: usize) -> Self {
        let free = (0..n_slots as u32).rev().collect();
        Self { n_slots, free, n_running: 0, snapshots: BTreeMap::new(), last_id: 0, clock: 0 }
    }

    /// Number of sequences that may run at a time: a quarter of the slots, one at least, is left to
    /// snapshots.
    pub fn max_running(&self) -> usize {
        (self.n_slots - (self.n_slots / 4).max(1)).max(1)
    }

    /// A slot for a running sequence; the least recently used snapshot is evicted for it. `None` if too many
    /// run.
    pub fn start(&mut self) -> Option<u32> {
        if self.n_running >= self.max_running() {
            return None;
        }
        let slot = self.vacant(|_| true)?;
        self.n_running += 1;
        Some(slot)
    }

    /// Frees the slot of a running sequence.
    pub fn release(&mut self, slot: u32) {
        self.n_running -= 1;
        self.free.push(slot);
    }

    /// Frees the slot of a running sequence that has ended after `prefix`, and keeps its state as a snapshot.
    pub fn keep(&mut self, slot: u32, variant: Variant, prefix: &[u32]) {
        let is_known = |one: &Snapshot| one.is_ready && one.variant == variant && one.prefix == prefix;
        if prefix.is_empty() || self.snapshots.values().any(is_known) {
            return self.release(slot);
        }
        self.n_running -= 1;
        let id = self.insert(slot, variant, prefix);
        if let Some(snapshot) = self.snapshots.get_mut(&id) {
            (snapshot.is_ready, snapshot.is_shared) = (true, false);
        }
    }

    /// The longest snapshot, planned ones among them, that `tokens` begin with, at most `limit` tokens of
    /// them; and its number of tokens.
    pub fn longest(&self, variant: Variant, tokens: &[u32], limit: usize) -> Option<(SnapshotId, usize)> {
        let tokens = &tokens[..tokens.len().min(limit)];
        let is_prefix = |one: &Snapshot| one.variant == variant && tokens.starts_with(&one.prefix);
        let lengths =
            self.snapshots.iter().filter(|(_, one)| is_prefix(one)).map(|(id, one)| (*id, one.prefix.len()));
        lengths.max_by_key(|&(_, length)| length)
    }

    /// Plans a snapshot of a prefix that several sequences have. `None` where no slot is available.
    pub fn plan(&mut self, variant: Variant, prefix: &[u32]) -> Option<SnapshotId> {
        self.plan_in(variant, prefix, |_| true)
    }

    /// Plans a snapshot in a usable slot.
    pub fn plan_in(
        &mut self,
        variant: Variant,
        prefix: &[u32],
        is_usable: impl Fn(u32) -> bool,
    ) -> Option<SnapshotId> {
        let slot = self.vacant(is_usable)?;
        Some(self.insert(slot, variant, prefix))
    }

    fn insert(&mut self, slot: u32, variant: Variant, prefix: &[u32]) -> SnapshotId {
        (self.last_id, self.clock) = (self.last_id + 1, self.clock + 1);
        let (prefix, last_use) = (prefix.to_vec(), self.clock);
        let snapshot =
            Snapshot { variant, prefix, slot, is_ready: false, n_locks: 0, is_shared: true, last_use };
        self.snapshots.insert(self.last_id, snapshot);
        self.last_id
    }

    /// A usable slot that is free, or that of the snapshot with the lowest priority: among those of prefixes
    /// that one sequence alone has had, then among the others, the least recently used.
    fn vacant(&mut self, is_usable: impl Fn(u32) -> bool) -> Option<u32> {
        if let Some(at) = self.free.iter().rposition(|&slot| is_usable(slot)) {
            return Some(self.free.remove(at));
        }
        let is_unused = |one: &Snapshot| one.is_ready && one.n_locks == 0 && is_usable(one.slot);
        let unused = self.snapshots.iter().filter(|(_, one)| is_unused(one));
        let (&id, _) = unused.min_by_key(|(id, one)| (one.is_shared, one.last_use, **id))?;
        self.snapshots.remove(&id).map(|snapshot| snapshot.slot)
    }

    /// Protects a snapshot for a sequence that will begin with it.
    pub fn lock(&mut self, id: SnapshotId) {
        if let Some(snapshot) = self.snapshots.get_mut(&id) {
            snapshot.n_locks += 1;
        }
    }

    /// Undoes [`States::lock`]; the snapshot becomes the most recently used.
    pub fn unlock(&mut self, id: SnapshotId) {
        self.clock += 1;
        if let Some(snapshot) = self.snapshots.get_mut(&id) {
            snapshot.n_locks -= 1;
            (snapshot.is_shared, snapshot.last_use) = (true, self.clock);
        }
    }

    /// Returns true if a sequence waits for a snapshot.
    pub fn is_locked(&self, id: SnapshotId) -> bool {
        self.snapshots.get(&id).is_some_and(|snapshot| snapshot.n_locks > 0)
    }

    /// Returns true if a snapshot's state has been copied.
    pub fn is_ready(&self, id: SnapshotId) -> bool {
        self.snapshots.get(&id).is_some_and(|snapshot| snapshot.is_ready)
    }

    /// Records that a snapshot's state has been copied.
    pub fn set_ready(&mut self, id: SnapshotId) {
        if let Some(snapshot) = self.snapshots.get_mut(&id) {
            snapshot.is_ready = true;
        }
    }

    /// Drops a planned snapshot whose prefix will not be computed.
    pub fn drop_planned(&mut self, id: SnapshotId) {
        if let Some(snapshot) = self.snapshots.remove(&id) {
            self.free.push(snapshot.slot);
        }
    }

    /// The slot of a snapshot, planned or taken.
    ///
    /// # Panics
    /// There is no such snapshot.
    pub fn slot(&self, id: SnapshotId) -> u32 {
        self.snapshots.get(&id).expect("a snapshot that is locked or planned").slot
    }

    /// Checks that every slot is in exactly one place. `running` are those of sequences.
    ///
    /// # Errors
    /// The first inconsistency.
    pub fn check_integrity(&self, running: &[u32]) -> Result<(), String> {
        let mut places = vec![0_usize; self.n_slots];
        let snapshots = self.snapshots.values().map(|snapshot| snapshot.slot);
        let slots = self.free.iter().chain(running).copied().chain(snapshots);
        slots.for_each(|slot| places[slot as usize] += 1);
        if let Some(slot) = places.iter().position(|&n| n != 1) {
            return Err(format!("recurrent state {slot} is in {} places", places[slot]));
        }
        if running.len() != self.n_running {
            return Err("running states are miscounted".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Variant = Variant { adapter: None, n_layers: None };

    #[test]
    fn the_longest_snapshot_of_the_same_variant_is_found() {
        let mut states = States::new(8);
        let [short, long] = [&[1, 2][..], &[1, 2, 3, 4]].map(|prefix| states.plan(PLAIN, prefix).unwrap());
        assert_eq!(states.longest(PLAIN, &[1, 2, 3, 4, 5], 5), Some((long, 4)));
        assert_eq!(states.longest(PLAIN, &[1, 2, 3, 4, 5], 3), Some((short, 2)));
        assert_eq!(states.longest(PLAIN, &[2, 1], 2), None);
        let adapted = Variant { adapter: Some(0), ..PLAIN };
        assert_eq!(states.longest(adapted, &[1, 2, 3], 3), None);
    }

    #[test]
    fn snapshots_give_way_those_of_one_sequence_first_and_never_what_is_waited_for() {
        let mut states = States::new(4);
        assert_eq!(states.max_running(), 3);
        let running = [0, 1].map(|_| states.start().unwrap());
        let shared = states.plan(PLAIN, &[1]).unwrap();
        states.set_ready(shared);
        states.keep(running[0], PLAIN, &[1, 2]);
        let planned = states.plan(PLAIN, &[1, 3]).unwrap();
        assert!(states.check_integrity(&running[1..]).is_ok());
        // All four are taken: the snapshot that a single sequence had is evicted, then the shared one, then
        // none.
        let second = states.start().unwrap();
        assert_eq!(second, running[0]);
        states.lock(shared);
        assert_eq!(states.plan(PLAIN, &[7]), None, "one is waited for, the other is not there yet");
        states.unlock(shared);
        let third = states.start().unwrap();
        assert_eq!(states.longest(PLAIN, &[1], 1), None);
        assert_eq!(states.start(), None, "a quarter is left to snapshots");
        states.drop_planned(planned);
        assert!(states.check_integrity(&[running[1], second, third]).is_ok());
        states.release(third);
        assert!(states.check_integrity(&[running[1], second]).is_ok());
        assert!(states.check_integrity(&[second]).unwrap_err().contains("in 0 places"));
    }
}
