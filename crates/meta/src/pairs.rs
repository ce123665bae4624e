//! Counts of concordant, discordant and tied pairs, and the statistics made of them. Tie thresholds are
//! fitted in `ties`, not here.

/// Counts of the unordered pairs of a vector by outcome. Unit: pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairCounts {
    pub concordant: u64,
    pub discordant: u64,
    /// Tied by the human scores alone.
    pub gold_only: u64,
    /// Tied by the metric alone.
    pub metric_only: u64,
    /// Tied by both.
    pub both: u64,
}

impl PairCounts {
    /// Counts with exact ties only, in O(n log n).
    ///
    /// Source: Knight, A Computer Method for Calculating Kendall's Tau with Ungrouped Data, 1966.
    pub fn count(gold: &[f64], metric: &[f64]) -> Self {
        let mut order: Vec<usize> = (0..gold.len()).collect();
        order.sort_by(|&a, &b| by_value(gold[a], gold[b]).then(by_value(metric[a], metric[b])));
        let gold_tied = tied_pairs(&order, |a, b| gold[a] == gold[b]);
        let both = tied_pairs(&order, |a, b| gold[a] == gold[b] && metric[a] == metric[b]);
        let mut values: Vec<f64> = order.iter().map(|&index| metric[index]).collect();
        let mut spare = values.clone();
        // Values tied in gold are in metric order, so only discordant pairs are inversions.
        let discordant = sort_counting_inversions(&mut values, &mut spare);
        order = (0..values.len()).collect();
        let metric_tied = tied_pairs(&order, |a, b| values[a] == values[b]);
        let n = gold.len() as u64;
        let total = n * n.saturating_sub(1) / 2;
        Self {
            concordant: total + both - gold_tied - metric_tied - discordant,
            discordant,
            gold_only: gold_tied - both,
            metric_only: metric_tied - both,
            both,
        }
    }

    /// Counts where the metric also ties two scores at most `epsilon` apart, in O(n²).
    pub fn count_within(gold: &[f64], metric: &[f64], epsilon: f64) -> Self {
        let mut counts = Self::default();
        for i in 0..gold.len() {
            for j in i + 1..gold.len() {
                counts.add(gold[i] - gold[j], metric[i] - metric[j], epsilon);
            }
        }
        counts
    }

    fn add(&mut self, gold_diff: f64, metric_diff: f64, epsilon: f64) {
        match (gold_diff == 0.0, metric_diff.abs() <= epsilon) {
            (true, true) => self.both += 1,
            (true, false) => self.gold_only += 1,
            (false, true) => self.metric_only += 1,
            (false, false) if (gold_diff > 0.0) == (metric_diff > 0.0) => self.concordant += 1,
            (false, false) => self.discordant += 1,
        }
    }

    pub fn total(&self) -> u64 {
        self.concordant + self.discordant + self.gold_only + self.metric_only + self.both
    }

    pub fn gold_tied(&self) -> u64 {
        self.gold_only + self.both
    }

    pub fn metric_tied(&self) -> u64 {
        self.metric_only + self.both
    }

    /// Concordant minus discordant pairs.
    pub fn balance(&self) -> i64 {
        self.concordant as i64 - self.discordant as i64
    }

    /// Tau-b; `None` when either side ties every pair.
    pub fn tau_b(&self) -> Option<f64> {
        let gold_untied = (self.total() - self.gold_tied()) as f64;
        let metric_untied = (self.total() - self.metric_tied()) as f64;
        if gold_untied == 0.0 || metric_untied == 0.0 {
            return None;
        }
        Some((self.balance() as f64 / gold_untied.sqrt() / metric_untied.sqrt()).clamp(-1.0, 1.0))
    }

    /// Pairwise accuracy with credit for predicted ties, `(C + T_hm) / N`; `None` without a pair.
    ///
    /// Range: 0 to 1, higher is better.
    /// Source: Deutsch, Foster and Freitag, Ties Matter, 2023; mt-metrics-eval `KendallVariants("acc23")`.
    ///
    /// ```
    /// use tribunal_meta::pairs::PairCounts;
    /// let (gold, metric) = ([1.0, 2.0, 2.0, 3.0, 4.0], [2.0, 1.0, 1.5, 5.0, 3.0]);
    /// // Six of the ten pairs are in the right order; the gold tie is not predicted.
    /// assert_eq!(PairCounts::count(&gold, &metric).acc23(), Some(0.6));
    /// // Within 2 the gold tie is predicted, at the price of three right pairs.
    /// assert_eq!(PairCounts::count_within(&gold, &metric, 2.0).acc23(), Some(0.4));
    /// ```
    pub fn acc23(&self) -> Option<f64> {
        let correct = self.concordant + self.both;
        (self.total() > 0).then(|| correct as f64 / self.total() as f64)
    }

    /// Tau with ties counted right or wrong, `(C + T_hm - D - T_h - T_m) / N`, which is `2 acc23 - 1`.
    pub fn tau23(&self) -> Option<f64> {
        let correct = self.concordant + self.both;
        let wrong = self.total() - correct;
        (self.total() > 0).then(|| (correct as f64 - wrong as f64) / self.total() as f64)
    }
}

/// WMT20's Kendall-like statistic over rows: pairs at least `threshold` apart in gold; a metric tie is
/// discordant. Returns the coefficient and the number of pairs; `None` without a pair.
///
/// Source: mt-metrics-eval `KendallLike`; 25 is the threshold for raw direct assessments, 0 otherwise (gold
/// ties then count as discordant too).
///
/// ```
/// use tribunal_meta::pairs::kendall_like;
/// // Three pairs at least 25 apart: two agree, one is tied by the metric.
/// let row = (vec![0.0, 30.0, 60.0], vec![1.0, 2.0, 2.0]);
/// assert_eq!(kendall_like(&[row], 25.0), Some((1.0 / 3.0, 3)));
/// ```
pub fn kendall_like(rows: &[(Vec<f64>, Vec<f64>)], threshold: f64) -> Option<(f64, u64)> {
    let (mut concordant, mut discordant) = (0_u64, 0_u64);
    for (gold, metric) in rows {
        for i in 0..gold.len() {
            for j in i + 1..gold.len() {
                let (dg, dm) = (gold[i] - gold[j], metric[i] - metric[j]);
                if dg.abs() < threshold {
                    continue;
                }
                if (dg > 0.0 && dm > 0.0) || (dg < 0.0 && dm < 0.0) {
                    concordant += 1;
                } else {
                    discordant += 1;
                }
            }
        }
    }
    let pairs = concordant + discordant;
    (pairs > 0).then(|| ((concordant as f64 - discordant as f64) / pairs as f64, pairs))
}

/// Order of two scores; minus zero equals zero, as under `==`.
pub(crate) fn by_value(a: f64, b: f64) -> std::cmp::Ordering {
    (a + 0.0).total_cmp(&(b + 0.0))
}

fn tied_pairs(order: &[usize], tied: impl Fn(usize, usize) -> bool) -> u64 {
    order
        .chunk_by(|&a, &b| tied(a, b))
        .map(|run| {
            let c = run.len() as u64;
            c * (c - 1) / 2
        })
        .sum()
}

/// Merge sort that counts pairs standing in strictly descending order.
fn sort_counting_inversions(values: &mut [f64], spare: &mut [f64]) -> u64 {
    let n = values.len();
    if n < 2 {
        return 0;
    }
    let (left, right) = values.split_at_mut(n / 2);
    let mut inversions = sort_counting_inversions(left, &mut spare[..n / 2]);
    inversions += sort_counting_inversions(right, &mut spare[n / 2..]);
    let (mut i, mut j) = (0, 0);
    for slot in spare.iter_mut() {
        let take_right = i == left.len() || (j < right.len() && right[j] < left[i]);
        if take_right {
            inversions += (left.len() - i) as u64;
            *slot = right[j];
            j += 1;
        } else {
            *slot = left[i];
            i += 1;
        }
    }
    values.copy_from_slice(spare);
    inversions
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fast_counts_equal_naive(pairs in prop::collection::vec((-4_i8..4, -4_i8..4), 0..60)) {
            let gold: Vec<f64> = pairs.iter().map(|p| f64::from(p.0)).collect();
            let metric: Vec<f64> = pairs.iter().map(|p| f64::from(p.1) / 3.0).collect();
            prop_assert_eq!(PairCounts::count(&gold, &metric), PairCounts::count_within(&gold, &metric, 0.0));
        }

        #[test]
        fn counts_do_not_depend_on_the_order(pairs in prop::collection::vec((-4_i8..4, -4_i8..4), 0..60)) {
            let split = |pairs: &[(i8, i8)]| -> (Vec<f64>, Vec<f64>) {
                pairs.iter().map(|p| (f64::from(p.0), f64::from(p.1))).unzip()
            };
            let (gold, metric) = split(&pairs);
            let mut backwards = pairs.clone();
            backwards.reverse();
            let (gold_back, metric_back) = split(&backwards);
            prop_assert_eq!(PairCounts::count(&gold, &metric), PairCounts::count(&gold_back, &metric_back));
        }

        #[test]
        fn tau23_is_a_line_in_acc23(pairs in prop::collection::vec((-4_i8..4, -4_i8..4), 2..30)) {
            let (gold, metric): (Vec<f64>, Vec<f64>) =
                pairs.iter().map(|p| (f64::from(p.0), f64::from(p.1))).unzip();
            let counts = PairCounts::count(&gold, &metric);
            let (acc, tau) = (counts.acc23().unwrap(), counts.tau23().unwrap());
            prop_assert!((2.0 * acc - 1.0 - tau).abs() < 1e-12);
        }
    }
}
