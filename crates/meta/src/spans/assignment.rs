//! Maximum-weight bipartite matching over the pairs that have a weight, with the dual variables that prove
//! it. Spans play no part here.
//!
//! Source: Kuhn 1955; the shortest augmenting paths of Jonker and Volgenant 1987, with a heap as in Dijkstra
//! 1959.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The pairs of a row: columns with their weights, which are at least 0 and finite. Other pairs have the
/// weight 0.
pub type Row = Vec<(usize, f64)>;

/// A matching of rows with columns, each used at most once.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The column of each row; `None` for a row without one.
    pub columns: Vec<Option<usize>>,
    /// The sum of the weights; no matching has a greater one.
    pub value: f64,
    /// Dual variables: `u[row] + v[column]` is at most minus the weight of the pair, and equal to it where
    /// the two are matched; `u` and `v` are at most 0, and 0 where nothing is matched.
    u: Vec<f64>,
    v: Vec<f64>,
}

impl Assignment {
    /// The matching of greatest weight.
    ///
    /// ```
    /// use tribunal_meta::spans::assignment::Assignment;
    /// // The first row gives its best column to the second one.
    /// let found = Assignment::of(&[vec![(0, 0.9), (1, 0.8)], vec![(0, 0.7)]], 2);
    /// assert_eq!(found.columns, [Some(1), Some(0)]);
    /// assert!((found.value - 1.5).abs() < 1e-12);
    /// ```
    pub fn of(rows: &[Row], n_columns: usize) -> Self {
        let mut search = Search::new(rows, n_columns);
        (0..rows.len()).for_each(|row| search.augment(row));
        let weight = |(row, column): (usize, &Option<usize>)| {
            let column = (*column)?;
            rows[row].iter().find(|pair| pair.0 == column).map(|pair| pair.1)
        };
        let value = search.columns.iter().enumerate().filter_map(weight).sum();
        Self { columns: search.columns, value, u: search.u, v: search.v }
    }

    /// A lower bound of what every matching with this choice for a row, a column and its weight, has less
    /// than [`Assignment::value`]; the bounds of several rows add up.
    pub fn loss(&self, row: usize, choice: Option<(usize, f64)>) -> f64 {
        let slack = choice.map_or(-self.u[row], |(column, weight)| -weight - self.u[row] - self.v[column]);
        slack.max(0.0)
    }
}

/// A distance in the heap, with the column that it leads to.
#[derive(PartialEq)]
struct Reached(f64, usize);

impl Eq for Reached {}

impl PartialOrd for Reached {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Reached {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}

/// The matching so far.
struct Search<'a> {
    rows: &'a [Row],
    columns: Vec<Option<usize>>,
    row_of: Vec<Option<usize>>,
    u: Vec<f64>,
    v: Vec<f64>,
    /// Per column: the least distance in the present search, and the row before it.
    least: Vec<f64>,
    before: Vec<usize>,
}

impl<'a> Search<'a> {
    fn new(rows: &'a [Row], n_columns: usize) -> Self {
        Self {
            rows,
            columns: vec![None; rows.len()],
            row_of: vec![None; n_columns],
            u: vec![0.0; rows.len()],
            v: vec![0.0; n_columns],
            least: vec![f64::INFINITY; n_columns],
            before: vec![0; n_columns],
        }
    }

    /// Matches one more row by the shortest path to a free column, or to a row that is left without one.
    fn augment(&mut self, start: usize) {
        // The dual of a new row: as great as its pairs and the choice of no column allow.
        self.u[start] =
            self.rows[start].iter().map(|(column, weight)| -weight - self.v[*column]).fold(0.0, f64::min);
        let mut heap = BinaryHeap::new();
        let mut touched = Vec::new();
        // Columns of the tree in the order of their distance, and rows with theirs.
        let mut tree: Vec<(usize, f64)> = Vec::new();
        let mut reached = vec![(start, 0.0)];
        // The nearest end that leaves a row without a column.
        let mut unmatched = (-self.u[start], start);
        let (mut row, mut distance) = (start, 0.0);
        let (length, end) = loop {
            for (column, weight) in &self.rows[row] {
                let next = distance + (-weight - self.u[row] - self.v[*column]).max(0.0);
                if next < self.least[*column] && next < unmatched.0 {
                    touched.push(*column);
                    (self.least[*column], self.before[*column]) = (next, row);
                    heap.push(Reverse(Reached(next, *column)));
                }
            }
            let nearest = loop {
                match heap.pop() {
                    Some(Reverse(Reached(next, column))) if next > self.least[column] => {}
                    other => break other.map(|Reverse(Reached(next, column))| (next, column)),
                }
            };
            let Some((next, column)) = nearest.filter(|(next, _)| *next < unmatched.0) else {
                break (unmatched.0, None);
            };
            let Some(matched) = self.row_of[column] else { break (next, Some(column)) };
            tree.push((column, next));
            // No later path is shorter, so that the column is not entered again.
            (row, distance) = (matched, next);
            reached.push((row, distance));
            if distance - self.u[row] < unmatched.0 {
                unmatched = (distance - self.u[row], row);
            }
        };
        for (row, distance) in reached {
            self.u[row] += length - distance;
        }
        for (column, distance) in tree {
            self.v[column] -= length - distance;
        }
        self.flip(start, end, unmatched.1);
        for column in touched {
            self.least[column] = f64::INFINITY;
        }
    }

    /// Exchanges matched and other pairs on the path to a free column, or to the row that loses its column.
    fn flip(&mut self, start: usize, end: Option<usize>, loser: usize) {
        let mut column = end.or_else(|| (loser != start).then(|| self.columns[loser]).flatten());
        if end.is_none() {
            self.columns[loser] = None;
        }
        while let Some(current) = column {
            let row = self.before[current];
            column = self.columns[row].filter(|_| row != start);
            self.columns[row] = Some(current);
            self.row_of[current] = Some(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Brute force over all matchings: the greatest weight of those where the rows before `row` have taken
    /// `used`.
    fn best(weights: &[Vec<f64>], row: usize, used: u32) -> f64 {
        let Some(own) = weights.get(row) else { return 0.0 };
        let free = own.iter().enumerate().filter(|(column, _)| used & (1 << column) == 0);
        free.map(|(column, weight)| weight + best(weights, row + 1, used | (1 << column)))
            .fold(best(weights, row + 1, used), f64::max)
    }

    fn of(weights: &[Vec<f64>]) -> Assignment {
        let row = |row: &Vec<f64>| row.iter().copied().enumerate().filter(|pair| pair.1 > 0.0).collect();
        Assignment::of(&weights.iter().map(row).collect::<Vec<Row>>(), weights[0].len())
    }

    fn weights() -> impl Strategy<Value = Vec<Vec<f64>>> {
        (1_usize..6, 1_usize..6).prop_flat_map(|(rows, columns)| {
            let weight = prop_oneof![Just(0.0), Just(0.5), 0.0_f64..1.0];
            prop::collection::vec(prop::collection::vec(weight, columns), rows)
        })
    }

    proptest! {
        #[test]
        fn no_matching_has_a_greater_weight(weights in weights()) {
            let found = of(&weights);
            prop_assert!((found.value - best(&weights, 0, 0)).abs() < 1e-9);
            let mut taken: Vec<usize> = found.columns.iter().flatten().copied().collect();
            taken.sort_unstable();
            prop_assert!(taken.windows(2).all(|pair| pair[0] < pair[1]));
        }

        #[test]
        fn a_choice_loses_what_it_says_at_least(weights in weights()) {
            let found = of(&weights);
            for (column, weight) in weights[0].iter().enumerate() {
                let with = weight + best(&weights, 1, 1 << column);
                prop_assert!(found.value - with >= found.loss(0, Some((column, *weight))) - 1e-9);
            }
            prop_assert!(found.value - best(&weights, 1, 0) >= found.loss(0, None) - 1e-9);
        }
    }
}
