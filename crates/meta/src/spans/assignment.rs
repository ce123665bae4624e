//! Maximum-weight bipartite matching by the Hungarian algorithm, with the dual variables that prove it. It knows no
//! spans.
//!
//! Source: Kuhn 1955; the shortest augmenting paths of Jonker and Volgenant 1987.

/// A matching of rows with columns, each used at most once.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The column of each row; `None` for a row without one.
    pub columns: Vec<Option<usize>>,
    /// The sum of the weights; no matching has a greater one.
    pub value: f64,
    /// What a matching loses at least by matching a row with a column. Shape: `[rows, columns]`.
    slack: Vec<Vec<f64>>,
    /// The same for leaving a row without a column. Shape: `[rows]`.
    unmatched: Vec<f64>,
}

impl Assignment {
    /// The matching of greatest weight; weights are at least 0 and finite. Shape: `[rows, columns]`.
    ///
    /// ```
    /// use tribunal_meta::spans::assignment::Assignment;
    /// // The first row gives its best column to the second one.
    /// let found = Assignment::of(&[vec![0.9, 0.8], vec![0.7, 0.0]]);
    /// assert_eq!(found.columns, [Some(1), Some(0)]);
    /// assert!((found.value - 1.5).abs() < 1e-12);
    /// ```
    #[must_use]
    pub fn of(weights: &[Vec<f64>]) -> Self {
        let n_rows = weights.len();
        let n_columns = weights.first().map_or(0, Vec::len);
        // A column of weight 0 for each row stands for no column at all.
        let cost = |row: usize, column: usize| if column < n_columns { -weights[row][column] } else { 0.0 };
        let (rows, u, v) = augmented(n_rows, n_columns + n_rows, &cost);
        let slack = |row: usize, column: usize| (cost(row, column) - u[row] - v[column]).max(0.0);
        let mut columns = vec![None; n_rows];
        for (column, row) in rows.iter().enumerate().take(n_columns) {
            if let Some(row) = row.filter(|row| weights[*row][column] > 0.0) {
                columns[row] = Some(column);
            }
        }
        let value =
            columns.iter().enumerate().filter_map(|(row, column)| Some(weights[row][(*column)?])).sum();
        Self {
            columns,
            value,
            slack: (0..n_rows).map(|row| (0..n_columns).map(|column| slack(row, column)).collect()).collect(),
            unmatched: (0..n_rows)
                .map(|row| {
                    (n_columns..n_columns + n_rows).map(|c| slack(row, c)).fold(f64::INFINITY, f64::min)
                })
                .collect(),
        }
    }

    /// A lower bound of what every matching with this choice for a row has less than [`Assignment::value`]; the bounds
    /// of several rows add up.
    #[must_use]
    pub fn loss(&self, row: usize, column: Option<usize>) -> f64 {
        column.map_or(self.unmatched[row], |column| self.slack[row][column])
    }
}

/// The row of each column, and the dual variables of rows and columns: `u[row] + v[column]` is at most the cost, and
/// equal to it where the two are matched; `v` is at most 0.
fn augmented(
    n_rows: usize,
    n_columns: usize,
    cost: &dyn Fn(usize, usize) -> f64,
) -> (Vec<Option<usize>>, Vec<f64>, Vec<f64>) {
    let (mut u, mut v) = (vec![0.0; n_rows], vec![0.0; n_columns]);
    let mut rows: Vec<Option<usize>> = vec![None; n_columns];
    for start in 0..n_rows {
        // Per column: the least reduced cost of a path to it, the column before it, whether it is in the tree.
        let mut least = vec![f64::INFINITY; n_columns];
        let mut before: Vec<Option<usize>> = vec![None; n_columns];
        let mut is_reached = vec![false; n_columns];
        let (mut row, mut last) = (start, None);
        let free = loop {
            let (mut step, mut next) = (f64::INFINITY, None);
            for column in (0..n_columns).filter(|column| !is_reached[*column]) {
                let reduced = cost(row, column) - u[row] - v[column];
                if reduced < least[column] {
                    (least[column], before[column]) = (reduced, last);
                }
                if least[column] < step {
                    (step, next) = (least[column], Some(column));
                }
            }
            let Some(next) = next else { break None };
            u[start] += step;
            for column in 0..n_columns {
                if is_reached[column] {
                    v[column] -= step;
                    if let Some(row) = rows[column] {
                        u[row] += step;
                    }
                } else {
                    least[column] -= step;
                }
            }
            is_reached[next] = true;
            last = Some(next);
            match rows[next] {
                Some(matched) => row = matched,
                None => break Some(next),
            }
        };
        let mut column = free;
        while let Some(current) = column {
            let previous = before[current];
            rows[current] = previous.map_or(Some(start), |previous| rows[previous]);
            column = previous;
        }
    }
    (rows, u, v)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every matching: the greatest weight of those where the rows before `row` have taken `used`.
    fn best(weights: &[Vec<f64>], row: usize, used: u32) -> f64 {
        let Some(own) = weights.get(row) else { return 0.0 };
        let free = own.iter().enumerate().filter(|(column, _)| used & (1 << column) == 0);
        free.map(|(column, weight)| weight + best(weights, row + 1, used | (1 << column)))
            .fold(best(weights, row + 1, used), f64::max)
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
            let found = Assignment::of(&weights);
            prop_assert!((found.value - best(&weights, 0, 0)).abs() < 1e-9);
            let mut taken: Vec<usize> = found.columns.iter().flatten().copied().collect();
            taken.sort_unstable();
            prop_assert!(taken.windows(2).all(|pair| pair[0] < pair[1]));
        }

        #[test]
        fn a_choice_loses_what_it_says_at_least(weights in weights()) {
            let found = Assignment::of(&weights);
            for (column, weight) in weights[0].iter().enumerate() {
                let with = weight + best(&weights, 1, 1 << column);
                prop_assert!(found.value - with >= found.loss(0, Some(column)) - 1e-9);
            }
            prop_assert!(found.value - best(&weights, 1, 0) >= found.loss(0, None) - 1e-9);
        }
    }
}
