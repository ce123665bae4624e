//! Tie calibration: the threshold within which a metric's scores count as tied, fitted so that accuracy with
//! credit for ties (acc-eq, also written acc*, acc-t) is greatest. `fit` measures the overfitting.
//!
//! Source: Deutsch, Foster and Freitag, Ties Matter, 2023; mt-metrics-eval `KendallWithTiesOpt`. Differs: all
//! pairs, never a sample; integer sums, so that two thresholds of equal accuracy are equal here.

use rayon::slice::ParallelSliceMut;
use serde::Serialize;

use super::align::Aligned;
use super::average::{Grouping, groups};
use super::correlation::Undefined;
use group::Group;

mod group;
mod search;

/// A fitted threshold and the accuracy that it gives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TieThreshold {
    /// Two scores at most this far apart are a tie. Unit: the metric's scores.
    pub epsilon: f64,
    /// Mean over groups of the share of right pairs. Range: 0 to 1, higher is better.
    pub accuracy: f64,
    /// Groups with at least one pair.
    pub n_groups: usize,
}

impl TieThreshold {
    /// The fit as a tau: right minus wrong pairs over all.
    pub fn tau(&self) -> f64 {
        2.0 * self.accuracy - 1.0
    }
}

/// Maximum number of pairs held at once: 64 MiB.
const MAX_CHANGES: usize = 1 << 22;

/// The pairs of all groups, ready to be swept by threshold.
#[derive(Clone, Debug)]
pub struct TieTable {
    groups: Vec<Group>,
    /// All pairs that change sides when the threshold reaches their distance, nearest first; `None` if there
    /// are too many to hold, in which case they are searched by range.
    changes: Option<Vec<Change>>,
    max_changes: usize,
}

/// A pair that changes the number of right pairs when it becomes a metric tie.
#[derive(Clone, Copy, Debug)]
struct Change {
    /// The metric's distance, negative where a right pair is lost, positive where a gold tie is gained.
    signed_distance: f64,
    group: u32,
}

impl TieTable {
    /// Sorts the scores of each group.
    pub fn new(scores: &Aligned, grouping: Grouping) -> Self {
        Self::from_groups(&groups(scores, grouping))
    }

    /// [`TieTable::new`] from the gold and metric scores of each group.
    pub fn from_groups(rows: &[(Vec<f64>, Vec<f64>)]) -> Self {
        Self::holding(rows, MAX_CHANGES)
    }

    fn holding(rows: &[(Vec<f64>, Vec<f64>)], max_changes: usize) -> Self {
        let groups: Vec<Group> = rows.iter().map(|(gold, metric)| Group::new(gold, metric)).collect();
        let n_pairs: u64 = groups.iter().map(|group| group.n_pairs).sum();
        let changes = (n_pairs <= max_changes as u64).then(|| {
            let mut changes = Vec::new();
            for (group, index) in groups.iter().zip(0..) {
                let all = |is_gain, distance| changes.push(Change::new(is_gain, distance, index));
                group.each_change(0.0, f64::INFINITY, all);
            }
            changes.par_sort_unstable_by(Change::by_distance);
            changes
        });
        Self { groups, changes, max_changes }
    }

    pub fn n_groups(&self) -> usize {
        self.groups.iter().filter(|group| group.n_pairs > 0).count()
    }

    /// All groups, each once.
    pub fn whole(&self) -> Vec<u32> {
        vec![1; self.groups.len()]
    }

    /// The smallest threshold of greatest accuracy, with group `i` counted `times[i]` times.
    ///
    /// # Errors
    /// No group has a pair.
    ///
    /// ```
    /// use tribunal_meta::ties::TieTable;
    /// // mt-metrics-eval's anchor: at distance 0.5 the gold tie (1, 1.5) becomes right, no pair is lost.
    /// let row = (vec![1.0, 2.0, 2.0, 3.0, 4.0], vec![2.0, 1.0, 1.5, 5.0, 3.0]);
    /// let table = TieTable::from_groups(&[row]);
    /// let fit = table.calibrate(&table.whole()).unwrap();
    /// assert_eq!((fit.epsilon, fit.accuracy), (0.5, 0.7));
    /// ```
    pub fn calibrate(&self, times: &[u32]) -> Result<TieThreshold, Undefined> {
        let scale = Scale::new(self, times)?;
        let mut best = Best { right: scale.right_at_zero(self), epsilon: 0.0 };
        match &self.changes {
            Some(changes) => scale.sweep(changes, best.right, &mut best),
            None => best = search::best(self, &scale, best, self.max_changes),
        }
        let accuracy = scale.share(best.right);
        Ok(TieThreshold { epsilon: best.epsilon, accuracy, n_groups: scale.n_groups })
    }

    /// Accuracy at a given threshold.
    ///
    /// # Errors
    /// Those of [`TieTable::calibrate`].
    pub fn accuracy_at(&self, epsilon: f64, times: &[u32]) -> Result<f64, Undefined> {
        let scale = Scale::new(self, times)?;
        let gained: i128 = if let Some(changes) = &self.changes {
            let within = changes.iter().take_while(|change| change.distance() <= epsilon);
            within.map(|change| scale.gain(change)).sum()
        } else {
            let within = self.groups.iter().map(|group| group.within(epsilon));
            let gain = within.map(|within| i128::from(within.gained) - i128::from(within.lost));
            gain.zip(&scale.weights).map(|(gain, weight)| gain * weight).sum()
        };
        Ok(scale.share(scale.right_at_zero(self) + gained))
    }

    /// Accuracy of calling every pair a tie: the share of gold ties.
    ///
    /// # Errors
    /// Those of [`TieTable::calibrate`].
    pub fn accuracy_of_all_ties(&self, times: &[u32]) -> Result<f64, Undefined> {
        self.accuracy_at(f64::INFINITY, times)
    }
}

impl Change {
    fn new(is_gain: bool, distance: f64, group: u32) -> Self {
        Self { signed_distance: if is_gain { distance } else { -distance }, group }
    }

    fn distance(&self) -> f64 {
        self.signed_distance.abs()
    }

    fn by_distance(&self, other: &Self) -> std::cmp::Ordering {
        self.distance().total_cmp(&other.distance())
    }
}

/// The smallest threshold of greatest accuracy so far.
#[derive(Clone, Copy)]
struct Best {
    /// Unit: weighted pairs.
    right: i128,
    epsilon: f64,
}

impl Best {
    fn consider(&mut self, right: i128, epsilon: f64) {
        if right > self.right || (right == self.right && epsilon < self.epsilon) {
            (self.right, self.epsilon) = (right, epsilon);
        }
    }
}

/// Integer weights that make every group count the same, whatever its number of pairs.
struct Scale {
    /// Weight of a pair of each group, times the group's count.
    weights: Vec<i128>,
    whole: i128,
    n_groups: usize,
}

impl Scale {
    fn new(table: &TieTable, times: &[u32]) -> Result<Self, Undefined> {
        let pairs: Vec<u64> = table.groups.iter().map(|group| group.n_pairs).collect();
        let (weights, unit) = equal_weights(&pairs, 1 << 90);
        let used = table.groups.iter().zip(times).filter(|(group, _)| group.n_pairs > 0);
        let (n_groups, count) = used
            .fold((0, 0), |(n, count), (_, times)| (n + usize::from(*times > 0), count + i128::from(*times)));
        if count == 0 {
            return Err(Undefined::NoPair);
        }
        let weights = weights.iter().zip(times).map(|(weight, times)| weight * i128::from(*times)).collect();
        Ok(Self { weights, whole: unit * count, n_groups })
    }

    fn right_at_zero(&self, table: &TieTable) -> i128 {
        table.groups.iter().zip(&self.weights).map(|(group, weight)| i128::from(group.right) * weight).sum()
    }

    /// Change in the number of right pairs.
    fn gain(&self, change: &Change) -> i128 {
        let weight = self.weights[change.group as usize];
        if change.signed_distance > 0.0 { weight } else { -weight }
    }

    /// Goes through changes by distance, starting from `right` right pairs, and keeps the best threshold.
    fn sweep(&self, changes: &[Change], mut right: i128, best: &mut Best) {
        for of_distance in changes.chunk_by(|a, b| a.distance() == b.distance()) {
            right += of_distance.iter().map(|change| self.gain(change)).sum::<i128>();
            best.consider(right, of_distance[0].distance());
        }
    }

    fn share(&self, right: i128) -> f64 {
        // Both are exact integers; the quotient is rounded once where they fit into 53 bits.
        right as f64 / self.whole as f64
    }
}

/// Integer weights with `weight * n_pairs` equal to one unit for every group that has a pair. The unit is the
/// least common multiple of the pair numbers; past `limit` it is `limit`, and the weights are rounded.
pub(crate) fn equal_weights(n_pairs: &[u64], limit: i128) -> (Vec<i128>, i128) {
    let unit = n_pairs.iter().filter(|n| **n > 0).try_fold(1_i128, |unit, n| {
        let n = i128::from(*n);
        let multiple = unit / greatest_common_divisor(unit, n) * n;
        (multiple <= limit).then_some(multiple)
    });
    let unit = unit.unwrap_or(limit);
    (n_pairs.iter().map(|n| if *n == 0 { 0 } else { unit / i128::from(*n) }).collect(), unit)
}

fn greatest_common_divisor(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pairs::PairCounts;

    /// The definition, candidate by candidate.
    fn naive(rows: &[(Vec<f64>, Vec<f64>)]) -> (f64, f64) {
        let mut candidates = vec![0.0];
        for (_, metric) in rows {
            for i in 0..metric.len() {
                candidates.extend(metric[i + 1..].iter().map(|other| (metric[i] - other).abs()));
            }
        }
        candidates.sort_by(f64::total_cmp);
        let mut best = (0.0, -1.0);
        for epsilon in candidates {
            let accuracies: Vec<f64> = rows
                .iter()
                .filter_map(|(gold, metric)| PairCounts::count_within(gold, metric, epsilon).acc23())
                .collect();
            let mean = accuracies.iter().sum::<f64>() / accuracies.len() as f64;
            if mean > best.1 + 1e-12 {
                best = (epsilon, mean);
            }
        }
        best
    }

    fn rows() -> impl Strategy<Value = Vec<(Vec<f64>, Vec<f64>)>> {
        let row = prop::collection::vec((-3_i8..3, -9_i8..9), 2..8);
        let floats = |row: Vec<(i8, i8)>| {
            row.into_iter()
                .map(|(g, m)| (f64::from(g), f64::from(m) / 7.0))
                .unzip::<f64, f64, Vec<_>, Vec<_>>()
        };
        prop::collection::vec(row.prop_map(floats), 1..6)
    }

    /// Few human scores, and metric scores that are tied, at equal distances, or neither.
    fn many_ties() -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
        let metric = prop_oneof![
            (-9_i8..9).prop_map(|score| f64::from(score) / 3.0),
            (-3_i8..3).prop_map(f64::from),
            -2.0..2.0,
            Just(0.0),
            Just(-0.0),
        ];
        prop::collection::vec(((-3_i8..1).prop_map(f64::from), metric), 2..60)
            .prop_map(|row| row.into_iter().unzip())
    }

    proptest! {
        #[test]
        fn sweep_equals_naive(rows in rows()) {
            let table = TieTable::from_groups(&rows);
            let fit = table.calibrate(&table.whole()).unwrap();
            let (epsilon, accuracy) = naive(&rows);
            prop_assert!((fit.accuracy - accuracy).abs() < 1e-12, "{fit:?} {epsilon} {accuracy}");
            prop_assert_eq!(fit.epsilon, epsilon);
            let again = table.accuracy_at(fit.epsilon, &table.whole()).unwrap();
            prop_assert_eq!(fit.accuracy, again);
        }

        #[test]
        fn what_is_not_held_is_found_all_the_same(
            rows in prop::collection::vec(many_ties(), 1..4),
            times in prop::collection::vec(0_u32..3, 4),
            max_changes in 0_usize..40,
        ) {
            let (held, searched) = (TieTable::holding(&rows, usize::MAX), TieTable::holding(&rows, max_changes));
            let times = &times[..rows.len()];
            prop_assert_eq!(held.calibrate(times), searched.calibrate(times));
            prop_assert_eq!(held.calibrate(&held.whole()), searched.calibrate(&held.whole()));
            for epsilon in [0.0, 0.25, 1.0 / 3.0, 2.0, f64::INFINITY] {
                prop_assert_eq!(held.accuracy_at(epsilon, times), searched.accuracy_at(epsilon, times));
            }
        }

        #[test]
        fn weights_make_groups_equal(n_pairs in prop::collection::vec(1_u64..500, 1..9)) {
            let (weights, unit) = equal_weights(&n_pairs, 1 << 90);
            for (weight, n) in weights.iter().zip(&n_pairs) {
                prop_assert_eq!(weight * i128::from(*n), unit);
            }
        }
    }

    #[test]
    fn a_group_counts_as_often_as_it_is_drawn() {
        let right = (vec![1.0, 2.0], vec![1.0, 2.0]);
        let wrong = (vec![1.0, 2.0], vec![2.0, 1.0]);
        let table = TieTable::from_groups(&[right, wrong]);
        assert_eq!(table.accuracy_at(0.0, &[1, 1]), Ok(0.5));
        assert_eq!(table.accuracy_at(0.0, &[3, 1]), Ok(0.75));
        assert_eq!(table.calibrate(&[0, 0]), Err(Undefined::NoPair));
    }
}
