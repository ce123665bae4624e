//! Human and metric scores side by side: the same systems, in sorted order, the same segments. Missing
//! scores stay missing and are counted; they never shift their neighbours.

use std::collections::BTreeSet;

use serde::Serialize;

use super::correlation::mean;
use super::scores::Scores;
use super::scores::units::{Joining, UnitScores};
use super::{Error, Result};

/// Segment scores of both sides, systems x segments, one row per system.
#[derive(Clone, Debug, PartialEq)]
pub struct Aligned {
    /// Sorted by name: the order is part of every seeded result.
    pub systems: Vec<String>,
    pub n_segments: usize,
    /// Shape: `[systems * n_segments]`.
    pub gold: Vec<Option<f64>>,
    /// Shape: `[systems * n_segments]`.
    pub metric: Vec<Option<f64>>,
}

/// System scores of both sides, sorted by system name.
#[derive(Clone, Debug, PartialEq)]
pub struct AlignedSystems {
    pub systems: Vec<String>,
    pub gold: Vec<f64>,
    pub metric: Vec<f64>,
}

/// Coverage of a metric: the rated translations and segments that it also scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Translations that the raters scored.
    pub rated: usize,
    /// Those of them that the metric did not score.
    pub missing: usize,
    /// Segments with both scores for every system.
    pub shared_segments: usize,
    /// Segments with a human score for at least one system.
    pub rated_segments: usize,
}

impl Aligned {
    /// Aligns the systems of `keep` that the raters scored at least once.
    ///
    /// # Errors
    /// A system that the metric did not score at all, or score lists of different lengths.
    pub fn new(gold: &Scores, metric: &Scores, keep: &BTreeSet<String>) -> Result<Option<Self>> {
        let (Some(gold_scores), Some(metric_scores)) = (&gold.segments, &metric.segments) else {
            return Ok(None);
        };
        let mut aligned = Self { systems: Vec::new(), n_segments: 0, gold: Vec::new(), metric: Vec::new() };
        for (system, rated) in gold_scores.iter().filter(|(system, _)| keep.contains(*system)) {
            if rated.iter().all(Option::is_none) {
                continue;
            }
            let scored = metric_scores.get(system);
            let scored = scored.ok_or_else(|| missing_system(gold, metric, keep, system))?;
            if scored.len() != rated.len() || !(aligned.n_segments == 0 || aligned.n_segments == rated.len())
            {
                return Err(Error::Misaligned {
                    metric: metric.name.clone(),
                    system: system.clone(),
                    found: scored.len(),
                    expected: rated.len(),
                });
            }
            aligned.n_segments = rated.len();
            aligned.systems.push(system.clone());
            aligned.gold.extend(rated);
            aligned.metric.extend(scored);
        }
        Ok(Some(aligned))
    }

    /// Aligns the documents that a judge saw as one text with the raters' scores of the same documents.
    ///
    /// # Errors
    /// Those of [`Aligned::new`].
    pub fn from_units(
        gold: &Scores,
        (metric, units): (&str, &UnitScores),
        joining: Joining,
        keep: &BTreeSet<String>,
    ) -> Result<Option<Self>> {
        let Some(rated) = &gold.segments else { return Ok(None) };
        let rated = Scores::new(&gold.name, Some(units.gold(rated, joining)), None);
        Self::new(&rated, &Scores::new(metric, Some(units.columns()), None), keep)
    }

    pub fn n_systems(&self) -> usize {
        self.systems.len()
    }

    /// Both scores of a cell, if it has both.
    pub fn cell(&self, system: usize, segment: usize) -> Option<(f64, f64)> {
        let index = system * self.n_segments + segment;
        Some((self.gold[index]?, self.metric[index]?))
    }

    /// Segments with both scores for every system.
    pub fn shared_segments(&self) -> Vec<usize> {
        let shared =
            |segment: &usize| (0..self.n_systems()).all(|system| self.cell(system, *segment).is_some());
        (0..self.n_segments).filter(shared).collect()
    }

    /// Segments with both scores for every system that has any.
    pub fn common_segments(&self) -> Vec<usize> {
        let is_scored = |system: usize, segment: usize| self.cell(system, segment).is_some();
        let with_any =
            (0..self.n_systems()).filter(|system| (0..self.n_segments).any(|s| is_scored(*system, s)));
        let systems: Vec<usize> = with_any.collect();
        let is_common = |segment: &usize| systems.iter().all(|system| is_scored(*system, *segment));
        (0..self.n_segments).filter(|segment| !systems.is_empty() && is_common(segment)).collect()
    }

    /// These systems on some of the segments, in the given order.
    #[must_use]
    pub fn select(&self, segments: &[usize]) -> Self {
        let pick = |values: &[Option<f64>]| {
            let rows = (0..self.n_systems()).map(|system| system * self.n_segments);
            rows.flat_map(|row| segments.iter().map(move |segment| row + segment))
                .map(|i| values[i])
                .collect()
        };
        Self {
            systems: self.systems.clone(),
            n_segments: segments.len(),
            gold: pick(&self.gold),
            metric: pick(&self.metric),
        }
    }

    /// The mean score of each system over the segments that both sides scored.
    pub fn system_means(&self) -> AlignedSystems {
        let mut means = AlignedSystems { systems: Vec::new(), gold: Vec::new(), metric: Vec::new() };
        for (system, name) in self.systems.iter().enumerate() {
            let cells: Vec<(f64, f64)> = (0..self.n_segments).filter_map(|s| self.cell(system, s)).collect();
            if cells.is_empty() {
                continue;
            }
            let (gold, metric): (Vec<f64>, Vec<f64>) = cells.into_iter().unzip();
            means.systems.push(name.clone());
            means.gold.push(mean(&gold));
            means.metric.push(mean(&metric));
        }
        means
    }

    pub fn coverage(&self) -> Coverage {
        let rated = self.gold.iter().flatten().count();
        let both = self.gold.iter().zip(&self.metric).filter(|(g, m)| g.is_some() && m.is_some()).count();
        let any = |segment: &usize| {
            (0..self.n_systems()).any(|system| self.gold[system * self.n_segments + segment].is_some())
        };
        Coverage {
            rated,
            missing: rated - both,
            shared_segments: self.shared_segments().len(),
            rated_segments: (0..self.n_segments).filter(any).count(),
        }
    }
}

impl AlignedSystems {
    /// Aligns the system scores of the systems of `keep` that have a human score.
    ///
    /// # Errors
    /// A system that the metric did not score.
    pub fn new(gold: &Scores, metric: &Scores, keep: &BTreeSet<String>) -> Result<Self> {
        let mut aligned = Self { systems: Vec::new(), gold: Vec::new(), metric: Vec::new() };
        for (system, rated) in gold.systems.iter().filter(|(system, _)| keep.contains(*system)) {
            let Some(rated) = rated else { continue };
            let scored = metric.systems.get(system).copied().flatten();
            aligned.systems.push(system.clone());
            aligned.gold.push(*rated);
            aligned.metric.push(scored.ok_or_else(|| missing_system(gold, metric, keep, system))?);
        }
        Ok(aligned)
    }
}

/// With the systems of `keep` that both sides scored, where they are enough to be compared.
fn missing_system(gold: &Scores, metric: &Scores, keep: &BTreeSet<String>, system: &str) -> Error {
    let is_scored = |scores: &Scores, system: &String| {
        let segments = scores.segments.as_ref().and_then(|segments| segments.get(system));
        segments.is_some_and(|column| column.iter().any(Option::is_some))
            || scores.systems.get(system).is_some_and(Option::is_some)
    };
    let both = keep.iter().filter(|system| is_scored(gold, system) && is_scored(metric, system));
    let both: Vec<String> = both.cloned().collect();
    let others = if both.len() > 1 { both } else { Vec::new() };
    Error::MissingSystem { metric: metric.name.clone(), system: system.into(), others }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scores::SegmentScores;

    fn scores(name: &str, columns: &[(&str, &[Option<f64>])]) -> Scores {
        let segments: SegmentScores =
            columns.iter().map(|(system, column)| ((*system).to_owned(), column.to_vec())).collect();
        Scores::new(name, Some(segments), None)
    }

    fn keep(systems: &[&str]) -> BTreeSet<String> {
        systems.iter().map(|system| (*system).to_owned()).collect()
    }

    #[test]
    fn a_gap_shifts_nothing() {
        let gold = scores("mqm", &[("b", &[Some(1.0), None]), ("a", &[Some(3.0), Some(4.0)])]);
        let metric = scores("m", &[("a", &[Some(30.0), None]), ("b", &[Some(10.0), Some(20.0)])]);
        let aligned = Aligned::new(&gold, &metric, &keep(&["a", "b"])).unwrap().unwrap();
        assert_eq!(aligned.systems, ["a", "b"]);
        assert_eq!(aligned.cell(0, 0), Some((3.0, 30.0)));
        assert_eq!(aligned.cell(0, 1), None);
        assert_eq!(aligned.cell(1, 0), Some((1.0, 10.0)));
        assert_eq!(aligned.shared_segments(), [0]);
        let coverage = aligned.coverage();
        assert_eq!((coverage.rated, coverage.missing, coverage.rated_segments), (3, 1, 2));
    }

    #[test]
    fn lowest_fills_with_the_worst_score_of_the_metric() {
        let gold = scores("mqm", &[("a", &[Some(3.0), Some(4.0), None])]);
        let metric = scores("m", &[("a", &[None, Some(-7.0), None]), ("b", &[Some(-9.0), None, None])]);
        let metric = Scores::from_segments("m", metric.segments.unwrap()).filled_with_lowest(&gold);
        let aligned = Aligned::new(&gold, &metric, &keep(&["a"])).unwrap().unwrap();
        assert_eq!(aligned.metric, [Some(-9.0), Some(-7.0), None]);
        // The system's mean is recomputed over the segments that both have; segments that no rater scored are
        // not filled.
        assert_eq!((metric.systems["a"], metric.n_filled), (Some(-9.0), 1));
    }

    #[test]
    fn a_system_without_scores_is_an_error() {
        let gold = scores("mqm", &[("a", &[Some(3.0)]), ("b", &[Some(3.0)])]);
        let metric = scores("m", &[("a", &[Some(1.0)])]);
        let error = Aligned::new(&gold, &metric, &keep(&["a", "b"])).unwrap_err();
        assert!(error.to_string().contains("no scores for system `b`"), "{error}");
        assert!(AlignedSystems::new(&gold, &metric, &keep(&["a", "b"])).is_err());
        assert!(AlignedSystems::new(&gold, &metric, &keep(&["a"])).is_ok());
    }

    #[test]
    fn a_missing_system_is_named_with_those_that_can_be_compared() {
        let column: &[Option<f64>] = &[Some(1.0), None];
        let gold = scores("mqm", &[("a", column), ("b", column), ("c", column)]);
        let metric = scores("m", &[("a", column), ("c", column)]);
        let others = |result: Result<()>| match result.unwrap_err() {
            Error::MissingSystem { metric, system, others } => {
                assert_eq!((metric.as_str(), system.as_str()), ("m", "b"));
                others
            }
            other => panic!("{other}"),
        };
        let all = keep(&["a", "b", "c"]);
        assert_eq!(others(Aligned::new(&gold, &metric, &all).map(drop)), ["a", "c"]);
        assert_eq!(others(AlignedSystems::new(&gold, &metric, &all).map(drop)), ["a", "c"]);
        assert_eq!(others(Aligned::new(&gold, &metric, &keep(&["a", "b"])).map(drop)), [""; 0]);
    }

    #[test]
    fn lists_of_different_lengths_are_an_error() {
        let gold = scores("mqm", &[("a", &[Some(3.0), None])]);
        let metric = scores("m", &[("a", &[Some(1.0)])]);
        let error = Aligned::new(&gold, &metric, &keep(&["a"])).unwrap_err();
        assert!(error.to_string().contains("1 segments for system `a`"), "{error}");
    }
}
