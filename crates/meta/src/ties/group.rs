//! The scores of a group in the order of the metric, so that pairs within a distance are counted without
//! looking at each. No threshold is chosen here.

use crate::pairs::{PairCounts, by_value};
use crate::tally::Tally;

/// The pairs of one group.
#[derive(Clone, Debug)]
pub struct Group {
    /// Ascending.
    metric: Vec<f64>,
    /// Classes of the human scores, in the order of `metric`: the higher score has the higher class, ties
    /// have the same.
    classes: Vec<u32>,
    n_classes: usize,
    pub n_pairs: u64,
    /// Right pairs with exact ties only.
    pub right: u64,
}

/// Pairs of different metric scores up to a distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Within {
    /// Tied by the human scores: right when they are metric ties.
    pub gained: u64,
    /// In the right order: wrong when they are metric ties.
    pub lost: u64,
    /// The greatest distance of any pair up to this one; 0 without one.
    pub last: f64,
    /// The smallest distance of any pair beyond; infinite without one.
    pub next: f64,
}

impl Group {
    pub fn new(gold: &[f64], metric: &[f64]) -> Self {
        let counts = PairCounts::count(gold, metric);
        let mut sorted: Vec<f64> = gold.to_vec();
        sorted.sort_by(|a, b| by_value(*a, *b));
        sorted.dedup();
        let class = |score: f64| sorted.partition_point(|other| by_value(*other, score).is_lt()) as u32;
        let mut order: Vec<usize> = (0..gold.len()).collect();
        order.sort_by(|&a, &b| by_value(metric[a], metric[b]));
        Self {
            metric: order.iter().map(|&idx| metric[idx]).collect(),
            classes: order.iter().map(|&idx| class(gold[idx])).collect(),
            n_classes: sorted.len(),
            n_pairs: counts.total(),
            right: counts.concordant + counts.both,
        }
    }

    /// Counts the pairs within a distance, in O(n log n). Differences of sorted scores stay sorted after
    /// rounding, so that every pair is counted on the side of the distance that its computed difference is
    /// on.
    pub fn within(&self, epsilon: f64) -> Within {
        let mut found = Within { gained: 0, lost: 0, last: 0.0, next: f64::INFINITY };
        let mut tally = Tally::new(self.n_classes);
        let mut of_class = vec![0_u64; self.n_classes];
        let mut low = 0;
        for run in self.runs() {
            let score = self.metric[run.start];
            while score - self.metric[low] > epsilon {
                tally.remove(self.classes[low] as usize);
                of_class[self.classes[low] as usize] -= 1;
                low += 1;
            }
            if low < run.start {
                found.last = found.last.max(score - self.metric[low]);
            }
            if low > 0 {
                found.next = found.next.min(score - self.metric[low - 1]);
            }
            for &class in &self.classes[run.clone()] {
                found.gained += of_class[class as usize];
                found.lost += tally.below(class as usize);
            }
            for &class in &self.classes[run] {
                tally.add(class as usize);
                of_class[class as usize] += 1;
            }
        }
        found
    }

    /// Calls `visit` for the pairs that change sides at a distance above `above` and up to `upto`: true where
    /// a right pair is gained and false where one is lost, and the distance.
    pub fn each_change(&self, above: f64, upto: f64, mut visit: impl FnMut(bool, f64)) {
        let (mut low, mut high) = (0, 0);
        for run in self.runs() {
            let score = self.metric[run.start];
            while score - self.metric[low] > upto {
                low += 1;
            }
            while high < run.start && score - self.metric[high] > above {
                high += 1;
            }
            for at in run {
                let class = self.classes[at];
                for other in low..high {
                    if self.classes[other] <= class {
                        visit(self.classes[other] == class, score - self.metric[other]);
                    }
                }
            }
        }
    }

    /// Runs of equal scores, lowest first.
    fn runs(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let mut start = 0;
        self.metric.chunk_by(|a, b| a == b).map(move |run| {
            let range = start..start + run.len();
            start = range.end;
            range
        })
    }
}
