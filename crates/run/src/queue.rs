//! The groups that wait to be judged, in an order in which concurrent groups share prefixes.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A queue that several threads take groups from, until it is empty or closed.
pub struct Queue {
    groups: Vec<usize>,
    next: AtomicUsize,
}

/// A group, and its position in the queue.
pub struct Turn {
    pub group: usize,
    pub rank: usize,
}

impl Queue {
    /// These groups, the first one next.
    pub fn new(groups: Vec<usize>) -> Self {
        Self { groups, next: AtomicUsize::new(0) }
    }

    /// The next group.
    pub fn take(&self) -> Option<Turn> {
        let rank = self.next.fetch_add(1, Ordering::Relaxed);
        self.groups.get(rank).map(|&group| Turn { group, rank })
    }

    /// Leaves the other groups to a later run.
    pub fn close(&self) {
        self.next.store(self.groups.len(), Ordering::Relaxed);
    }
}
