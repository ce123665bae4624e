//! Counts by class, for statistics that count pairs.

/// Counts by class with fast sums of all lower ones: a binary indexed tree.
///
/// Source: Fenwick, A New Data Structure for Cumulative Frequency Tables, 1994.
pub(crate) struct Tally {
    counts: Vec<u64>,
    pub n: u64,
}

impl Tally {
    pub fn new(n_classes: usize) -> Self {
        Self { counts: vec![0; n_classes + 1], n: 0 }
    }

    pub fn add(&mut self, class: usize) {
        self.n += 1;
        self.change(class, |count| *count += 1);
    }

    /// Takes back what was added.
    pub fn remove(&mut self, class: usize) {
        self.n -= 1;
        self.change(class, |count| *count -= 1);
    }

    fn change(&mut self, class: usize, by_one: impl Fn(&mut u64)) {
        let mut node = class + 1;
        while node < self.counts.len() {
            by_one(&mut self.counts[node]);
            node += node & node.wrapping_neg();
        }
    }

    /// Number of added items of lower classes.
    pub fn below(&self, class: usize) -> u64 {
        let (mut node, mut sum) = (class, 0);
        while node > 0 {
            sum += self.counts[node];
            node &= node - 1;
        }
        sum
    }
}
