//! Segment numbers of score files. Some tools count segments from 0, as this program does, others from 1; a
//! file does not state which. It is inferred from the numbers that occur, never from likelihood.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{SegmentScores, line_error};
use crate::{Error, Result};

/// Scores by segment number, as in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbered {
    /// The first line with a number.
    line: usize,
    /// Each system's scores; `None` where a line has none.
    scores: BTreeMap<String, BTreeMap<usize, Option<f64>>>,
}

impl Numbered {
    pub(super) fn new(line: usize, scores: BTreeMap<String, BTreeMap<usize, Option<f64>>>) -> Self {
        Self { line, scores }
    }

    /// True if the file names no system: it then holds the scores of a single one.
    pub fn is_column(&self) -> bool {
        self.scores.keys().eq([""].iter())
    }

    /// The scores of a file that names no system, under this name.
    #[must_use]
    pub fn of_system(mut self, name: String) -> Self {
        if let Some(column) = self.scores.remove("") {
            self.scores.insert(name, column);
        }
        self
    }

    /// All numbers that occur.
    pub fn numbers(&self) -> BTreeSet<usize> {
        self.scores.values().flat_map(|column| column.keys().copied()).collect()
    }

    /// The number of the first segment, where it is certain: 0 if it occurs; 1 if 0 does not and the number
    /// of segments does.
    pub fn first(&self, n_segments: Option<usize>) -> Option<usize> {
        let numbers = self.numbers();
        if numbers.is_empty() || numbers.contains(&0) {
            return Some(0);
        }
        n_segments.filter(|n| numbers.contains(n)).map(|_| 1)
    }

    /// The scores in test-set order, each column up to its last number, where the first segment has this
    /// number.
    pub fn from(&self, first: usize) -> SegmentScores {
        let in_order = |column: &BTreeMap<usize, Option<f64>>| -> Vec<Option<f64>> {
            let end = column.last_key_value().map_or(first, |(last, _)| last + 1);
            (first..end).map(|number| column.get(&number).copied().flatten()).collect()
        };
        self.scores.iter().map(|(system, column)| (system.clone(), in_order(column))).collect()
    }

    /// The scores in the order of a test set of `n_segments` segments.
    ///
    /// # Errors
    /// Numbers that can count from 0 or from 1.
    pub fn in_testset(&self, path: &Path, n_segments: usize) -> Result<SegmentScores> {
        let Some(first) = self.first(Some(n_segments)) else {
            let why = format!("neither 0 nor {n_segments}, the number of segments, occurs");
            return Err(self.unknown(path, &why));
        };
        Ok(self.from(first))
    }

    /// Rejects numbers that can count from 0 or from 1.
    pub fn unknown(&self, path: &Path, why: &str) -> Error {
        let numbers = self.numbers();
        let [first, last] = [numbers.first(), numbers.last()].map(|number| number.copied().unwrap_or(0));
        let reason = format!(
            "the segment numbers of the file, from {first} to {last}, can count from 0 or from 1: {why}; hint: give every \
             segment a line, with `\"score\": null` where there is no score"
        );
        line_error(path, self.line, reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(numbers: &[usize], n_segments: usize, expected: Result<&[f64], &str>) {
        let column = numbers.iter().map(|number| (*number, Some(*number as f64))).collect();
        let file = Numbered::new(3, BTreeMap::from([("A".to_owned(), column)]));
        match (file.in_testset(Path::new("x.jsonl"), n_segments), expected) {
            (Ok(found), Ok(expected)) => {
                let found: Vec<f64> = found["A"].iter().map(|score| score.unwrap_or(-1.0)).collect();
                assert_eq!(found, expected);
            }
            (Err(error), Err(expected)) => assert_eq!(error.to_string(), expected),
            (found, expected) => panic!("{found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn the_first_segment_is_found_from_the_numbers() {
        check(&[0, 2], 4, Ok(&[0.0, -1.0, 2.0]));
        check(&[1, 2, 4], 4, Ok(&[1.0, 2.0, -1.0, 4.0]));
        // A file with both is too long for the test set, which is an error elsewhere.
        check(&[0, 3, 4], 4, Ok(&[0.0, -1.0, -1.0, 3.0, 4.0]));
        check(
            &[1, 2, 3],
            4,
            Err(
                "x.jsonl:3: the segment numbers of the file, from 1 to 3, can count from 0 or from 1: neither 0 nor 4, the \
                 number of segments, occurs; hint: give every segment a line, with `\"score\": null` where there is no score",
            ),
        );
    }
}
