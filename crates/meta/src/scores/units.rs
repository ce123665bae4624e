//! Scores of documents, or of groups of documents, and the raters' scores joined in the same way. Segments
//! are identified by number alone.
//!
//! Source: FSP, Section 3.1: "The gold MQM annotations for doc and 5doc are derived by concatenating the MQM
//! errors from the segment-level annotations."

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use serde::Serialize;

use super::SegmentScores;
use crate::{Error, Result};

/// Rule that joins the raters' segment scores to the score of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Joining {
    /// Their sum: the scale of a judge that adds up the penalties of a whole document.
    #[default]
    Sum,
    /// Their mean per segment: the scale of a judge that grades the document as a whole.
    Mean,
}

impl FromStr for Joining {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "sum" => Ok(Self::Sum),
            "mean" => Ok(Self::Mean),
            _ => Err(Error::Unsuitable(format!(
                "`{text}` does not say how segment scores are joined; hint: it can be sum or mean"
            ))),
        }
    }
}

/// Scores of documents, or of groups of documents.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitScores {
    /// The segments of each unit that any system has, in the order of the test set.
    pub units: Vec<Vec<usize>>,
    /// Each system's scores, unit by unit.
    pub scores: BTreeMap<String, Vec<Given>>,
}

/// A system's score of a unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Given {
    /// The system's documents were not joined in this way.
    Absent,
    /// The judge gave no verdict.
    Missing,
    Score(f64),
}

impl UnitScores {
    /// The scores of units by system, segments and score; `None` is a unit without a verdict.
    pub fn new(rows: &[(String, Vec<usize>, Option<f64>)]) -> Self {
        let distinct: BTreeSet<(Option<&usize>, &Vec<usize>)> =
            rows.iter().map(|(_, segs, _)| (segs.iter().min(), segs)).collect();
        let units: Vec<Vec<usize>> = distinct.into_iter().map(|(_, segs)| segs.clone()).collect();
        let place: BTreeMap<&Vec<usize>, usize> =
            units.iter().enumerate().map(|(idx, segs)| (segs, idx)).collect();
        let mut scores: BTreeMap<String, Vec<Given>> = BTreeMap::new();
        for (system, segs, score) in rows {
            let column = scores.entry(system.clone()).or_insert_with(|| vec![Given::Absent; units.len()]);
            column[place[segs]] = score.map_or(Given::Missing, Given::Score);
        }
        Self { units, scores }
    }

    /// The scores as columns; `None` where a unit is absent or without a verdict.
    pub fn columns(&self) -> SegmentScores {
        let score = |cell: &Given| match cell {
            Given::Score(score) => Some(*score),
            Given::Absent | Given::Missing => None,
        };
        let columns = self.scores.iter();
        columns.map(|(system, column)| (system.clone(), column.iter().map(score).collect())).collect()
    }

    /// The raters' scores of the same units. `None` where a segment of the unit is not rated, since the rest
    /// may have any score. A system that was not judged gets every unit.
    pub fn gold(&self, gold: &SegmentScores, joining: Joining) -> SegmentScores {
        let joined = |column: &[Option<f64>], segs: &[usize]| -> Option<f64> {
            let scores: Vec<f64> =
                segs.iter().map(|seg| column.get(*seg).copied().flatten()).collect::<Option<_>>()?;
            // Numbers near the end of their range are limited to the greatest one.
            let sum = scores.iter().sum::<f64>().clamp(f64::MIN, f64::MAX);
            Some(match joining {
                Joining::Sum => sum,
                Joining::Mean => sum / scores.len() as f64,
            })
        };
        let columns = gold.iter().map(|(system, column)| {
            let cells = self.scores.get(system);
            let is_there = |idx: usize| cells.is_none_or(|cells| cells[idx] != Given::Absent);
            let scores = self.units.iter().enumerate();
            let scores = scores.map(|(idx, segs)| is_there(idx).then(|| joined(column, segs)).flatten());
            (system.clone(), scores.collect())
        });
        columns.collect()
    }

    /// The segments of each unit that a system has; empty for a system that was not judged.
    pub fn system_units<'a>(&'a self, system: &str) -> impl Iterator<Item = &'a [usize]> {
        let column = self.scores.get(system).into_iter().flatten();
        let present = self.units.iter().zip(column).filter(|(_, cell)| **cell != Given::Absent);
        present.map(|(segs, _)| segs.as_slice())
    }

    /// Units of which some segments are rated for a system and others are not: they count nowhere.
    pub fn partly_rated(&self, gold: &SegmentScores, systems: &BTreeSet<String>) -> usize {
        let is_partly_rated = |segs: &&Vec<usize>| {
            gold.iter().filter(|(system, _)| systems.contains(*system)).any(|(_, column)| {
                let rated = segs.iter().filter(|seg| column.get(**seg).is_some_and(Option::is_some)).count();
                (1..segs.len()).contains(&rated)
            })
        };
        self.units.iter().filter(is_partly_rated).count()
    }

    /// Fills in the lowest score where the raters scored a unit and the judge gave no verdict, and returns
    /// the number of filled units.
    pub fn fill_with_lowest(&mut self, gold: &SegmentScores) -> usize {
        let rated = self.gold(gold, Joining::Sum);
        let columns = self.columns();
        let Some(lowest) = columns.values().flatten().flatten().copied().min_by(f64::total_cmp) else {
            return 0;
        };
        let mut n_filled = 0;
        for (system, column) in &mut self.scores {
            let Some(rated) = rated.get(system) else { continue };
            for (cell, _) in
                column.iter_mut().zip(rated).filter(|(g, r)| **g == Given::Missing && r.is_some())
            {
                *cell = Given::Score(lowest);
                n_filled += 1;
            }
        }
        n_filled
    }

    /// Negates every score.
    pub fn negate(&mut self) {
        for cell in self.scores.values_mut().flatten() {
            if let Given::Score(score) = cell {
                *score = 0.0 - *score;
            }
        }
    }

    /// The units that lie wholly within some segments, by their position.
    pub fn within(&self, segments: &[usize]) -> Vec<usize> {
        let segments: BTreeSet<&usize> = segments.iter().collect();
        let is_inside = |(_, segs): &(usize, &Vec<usize>)| segs.iter().all(|seg| segments.contains(seg));
        self.units.iter().enumerate().filter(is_inside).map(|(idx, _)| idx).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scores::Scores;

    fn scores() -> UnitScores {
        UnitScores {
            units: vec![vec![0, 1], vec![2], vec![3, 4]],
            scores: BTreeMap::from([
                ("a".to_owned(), vec![Given::Score(-3.0), Given::Score(-1.0), Given::Missing]),
                ("b".to_owned(), vec![Given::Score(-5.0), Given::Absent, Given::Score(0.0)]),
            ]),
        }
    }

    fn gold() -> SegmentScores {
        let column = |scores: [Option<f64>; 5]| scores.to_vec();
        SegmentScores::from([
            ("a".to_owned(), column([Some(-1.0), Some(-2.0), Some(-5.0), Some(0.0), Some(-1.0)])),
            ("b".to_owned(), column([Some(-4.0), Some(0.0), Some(-5.0), Some(0.0), None])),
        ])
    }

    #[test]
    fn the_raters_scores_are_joined_like_the_run() {
        let sums = scores().gold(&gold(), Joining::Sum);
        assert_eq!(sums["a"], [Some(-3.0), Some(-5.0), Some(-1.0)]);
        // b has no such second unit, and its third is rated in part.
        assert_eq!(sums["b"], [Some(-4.0), None, None]);
        let means = scores().gold(&gold(), Joining::Mean);
        assert_eq!(means["a"], [Some(-1.5), Some(-5.0), Some(-0.5)]);
        let systems = ["a", "b"].map(str::to_owned).into();
        assert_eq!(scores().partly_rated(&gold(), &systems), 1);
    }

    #[test]
    fn system_scores_are_means_over_common_units() {
        let found = Scores::from_units("run", scores());
        assert_eq!((found.systems["a"], found.systems["b"]), (Some(-3.0), Some(-5.0)));
        assert_eq!(found.n_left_out, Some(2));
    }

    #[test]
    fn the_lowest_score_fills_rated_gaps_only() {
        let mut scores = scores();
        assert_eq!(scores.fill_with_lowest(&gold()), 1);
        assert_eq!(scores.columns()["a"], [Some(-3.0), Some(-1.0), Some(-5.0)]);
        assert_eq!(scores.columns()["b"], [Some(-5.0), None, Some(0.0)]);
    }
}
