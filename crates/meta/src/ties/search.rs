//! The best threshold where there are more pairs than fit into memory: ranges of thresholds are left out
//! whole when not even their best case beats a value that was found, and the pairs of the others are swept a
//! range at a time.
//!
//! Memory: linear in the scores, with at most [`MAX_CHANGES`](super::MAX_CHANGES) pairs at once. Time: O(n
//! log n) for each range, of which few are left near the best threshold; quadratic at worst, when accuracy
//! does not depend on it.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::{Best, Change, Scale, TieTable};
use rayon::slice::ParallelSliceMut;

/// A threshold, with the counts of the pairs up to it.
#[derive(Clone, Copy)]
struct Mark {
    threshold: f64,
    /// Weighted.
    gained: i128,
    lost: i128,
    /// Pairs that change sides, each counted once.
    n_changes: u64,
    last: f64,
    next: f64,
}

/// The thresholds above one and up to another.
struct Range {
    low: Mark,
    high: Mark,
    /// No threshold in it has more right pairs. Unit: weighted pairs.
    bound: i128,
}

/// The best threshold of a table for these weights; `start` is the one for exact ties.
pub fn best(table: &TieTable, scale: &Scale, start: Best, max_changes: usize) -> Best {
    let mark = |threshold| mark(table, scale, threshold);
    let right = |mark: &Mark| start.right + mark.gained - mark.lost;
    let range = |low: Mark, high: Mark| {
        let rising = right(&low) + high.gained - low.gained;
        let falling = right(&high) + high.lost - low.lost;
        Range { low, high, bound: rising.min(falling) }
    };
    let (mut best, mut open) = (start, BinaryHeap::new());
    open.push(range(mark(0.0), mark(f64::INFINITY)));
    // A value that some threshold reaches; the threshold is found below.
    let mut floor = start.right;
    while let Some(Range { low, high, bound }) = open.pop() {
        floor = floor.max(right(&high));
        if bound < floor.max(best.right) {
            break;
        }
        let n_changes = high.n_changes - low.n_changes;
        if n_changes == 0 || (bound == best.right && low.next >= best.epsilon) {
            continue;
        }
        if low.next == high.last {
            best.consider(right(&high), high.last);
        } else if n_changes <= max_changes as u64 {
            let changes = changes(table, scale, (low.threshold, high.threshold), n_changes as usize);
            scale.sweep(&changes, right(&low), &mut best);
        } else {
            let middle = mark(between(low.next, high.last));
            open.push(range(low, middle));
            open.push(range(middle, high));
        }
    }
    best
}

fn mark(table: &TieTable, scale: &Scale, threshold: f64) -> Mark {
    let (gained, lost, n_changes, last, next) = (0, 0, 0, 0.0, f64::INFINITY);
    let mut mark = Mark { threshold, gained, lost, n_changes, last, next };
    for (group, weight) in table.groups.iter().zip(&scale.weights) {
        let within = group.within(threshold);
        mark.gained += weight * i128::from(within.gained);
        mark.lost += weight * i128::from(within.lost);
        mark.n_changes += within.gained + within.lost;
        mark.last = mark.last.max(within.last);
        mark.next = mark.next.min(within.next);
    }
    mark
}

/// The pairs that change sides in a range, nearest first.
fn changes(table: &TieTable, scale: &Scale, (above, upto): (f64, f64), n: usize) -> Vec<Change> {
    let mut changes = Vec::with_capacity(n);
    let groups = table.groups.iter().zip(&scale.weights).zip(0_u32..);
    for ((group, _), index) in groups.filter(|((_, weight), _)| **weight != 0) {
        group.each_change(above, upto, |is_gain, distance| {
            changes.push(Change::new(is_gain, distance, index));
        });
    }
    changes.par_sort_unstable_by(Change::by_distance);
    changes
}

/// A number halfway between two positive ones in the order of all floating-point numbers: at least the first,
/// less than the second.
fn between(first: f64, second: f64) -> f64 {
    let (a, b) = (first.to_bits(), second.to_bits());
    f64::from_bits(a + (b - a) / 2)
}

impl Ord for Range {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bound.cmp(&other.bound).then_with(|| other.low.next.total_cmp(&self.low.next))
    }
}

impl PartialOrd for Range {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Range {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Range {}
