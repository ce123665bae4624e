//! The translations that metrics are compared on: those that every metric scored, or, per metric, those that
//! it scored. The others are counted.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::align::Aligned;
use super::scores::units::{Given, UnitScores};
use super::scores::{Scores, SegmentScores};

/// Selection of the translations that a metric is compared on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CoveragePolicy {
    /// Those that all metrics scored. Of a metric that lacks rated translations, system scores are means over
    /// the segments that it and the raters scored for every system.
    #[default]
    Common,
    /// Those that it scored itself, also in the system scores of a metric that lacks rated translations.
    Each,
    /// Those that it scored itself; system scores are the metric's and the raters' own, whatever it lacks.
    Official,
    /// All that the raters scored: a metric gets its lowest score on the test set for those that it lacks.
    Lowest,
}

/// Counts of the rated translations that all metrics scored, and of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Common {
    /// Translations of compared systems that the raters scored.
    pub rated: usize,
    /// Of these, the ones that are not compared: those that some metric did not score, and
    /// `in_cut_documents`.
    pub left_out: usize,
    /// Rated translations that a metric did not score, for metrics with such gaps.
    pub gaps: BTreeMap<String, usize>,
    /// Rated translations that are left out only because they stand in a document that a judge saw as one
    /// text, and something else in it is not rated or not scored: documents cannot be cut.
    pub in_cut_documents: usize,
}

impl Common {
    /// The human scores of segments without those that some metric has no counterpart for. System scores stay
    /// those of the raters.
    ///
    /// A system that a metric lacks altogether does not count as a gap: comparing it is an error.
    pub fn new(gold: &Scores, metrics: &[Scores], systems: &BTreeSet<String>) -> (Self, Scores) {
        let mut common = Self::default();
        let mut compared = gold.clone();
        let scored: Vec<Scored> = metrics.iter().map(Scored::new).collect();
        for (system, column) in compared.segments.iter_mut().flatten() {
            if !systems.contains(system) {
                continue;
            }
            for (segment, score) in column.iter_mut().enumerate().filter(|(_, score)| score.is_some()) {
                common.rated += 1;
                let mut is_left_out = false;
                for metric in scored.iter().filter(|metric| metric.lacks(system, segment)) {
                    *common.gaps.entry(metric.name.to_owned()).or_default() += 1;
                    is_left_out = true;
                }
                if is_left_out {
                    *score = None;
                    common.left_out += 1;
                }
            }
        }
        let documents: Vec<&UnitScores> = metrics.iter().filter_map(|metric| metric.units.as_ref()).collect();
        if let Some(columns) = compared.segments.as_mut().filter(|_| !documents.is_empty()) {
            common.cut_documents(columns, &documents, systems);
        }
        (common, compared)
    }

    /// Leaves out the remaining segments of documents of which a segment is missing, until every document is
    /// complete or left out: one judge's documents may be parts of another's.
    fn cut_documents(
        &mut self,
        columns: &mut SegmentScores,
        documents: &[&UnitScores],
        systems: &BTreeSet<String>,
    ) {
        loop {
            let before = self.left_out;
            for units in documents {
                for (system, column) in columns.iter_mut().filter(|(system, _)| systems.contains(*system)) {
                    for segs in units.system_units(system) {
                        let present: Vec<usize> =
                            segs.iter().copied().filter(|seg| is_there(column, *seg)).collect();
                        if present.len() == segs.len() {
                            continue;
                        }
                        for seg in present {
                            column[seg] = None;
                            self.left_out += 1;
                            self.in_cut_documents += 1;
                        }
                    }
                }
            }
            if self.left_out == before {
                return;
            }
        }
    }
}

/// Rated translations of these systems that a metric did not score. A system that it lacks altogether does
/// not count.
pub fn n_lacking(gold: &Scores, metric: &Scores, systems: &BTreeSet<String>) -> usize {
    let scored = Scored::new(metric);
    let columns = gold.segments.iter().flatten().filter(|(system, _)| systems.contains(*system));
    let lacking = |(system, column): (&String, &Vec<Option<f64>>)| {
        let rated = column.iter().enumerate().filter(|(_, score)| score.is_some());
        rated.filter(|(segment, _)| scored.lacks(system, *segment)).count()
    };
    columns.map(lacking).sum()
}

fn is_there(column: &[Option<f64>], segment: usize) -> bool {
    column.get(segment).is_some_and(Option::is_some)
}

/// The segments that a metric has scores for.
struct Scored<'a> {
    name: &'a str,
    segments: Option<&'a SegmentScores>,
    /// Of a judge of documents: the segments of those with a score, by system.
    in_documents: Option<BTreeMap<&'a str, BTreeSet<usize>>>,
}

impl<'a> Scored<'a> {
    fn new(metric: &'a Scores) -> Self {
        let in_documents = metric.units.as_ref().map(|units| {
            let system_segments = |(system, scores_of_system): (&'a String, &'a Vec<Given>)| {
                let scored = units.units.iter().zip(scores_of_system);
                let scored = scored.filter(|(_, cell)| matches!(cell, Given::Score(_)));
                (system.as_str(), scored.flat_map(|(segs, _)| segs.iter().copied()).collect())
            };
            units.scores.iter().map(system_segments).collect()
        });
        Self { name: &metric.name, segments: metric.segments.as_ref(), in_documents }
    }

    fn lacks(&self, system: &str, segment: usize) -> bool {
        if let Some(documents) = &self.in_documents {
            return documents.get(system).is_some_and(|scored| !scored.contains(&segment));
        }
        let column = self.segments.and_then(|columns| columns.get(system));
        column.is_some_and(|column| !is_there(column, segment))
    }
}

/// The unit that a judge scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    #[default]
    Segment,
    /// Documents, or groups of them, that it saw as one text.
    Document,
}

/// The systems and translations that a value is computed from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Basis {
    /// Systems, one number for each language pair.
    pub systems: Vec<usize>,
    pub unit: Unit,
    /// Units with a compared translation; 0 where only system scores are compared.
    pub units: usize,
    /// Compared translations, one for each system and unit; 0 where only system scores are compared.
    pub translations: usize,
}

impl Basis {
    /// The basis of a statistic over the scores of segments or documents.
    pub fn from_units(scores: &Aligned, unit: Unit) -> Self {
        let compared = |system: usize, segment: usize| scores.cell(system, segment).is_some();
        let (systems, segments) = (0..scores.n_systems(), 0..scores.n_segments);
        Self {
            systems: vec![systems.clone().filter(|a| segments.clone().any(|s| compared(*a, s))).count()],
            unit,
            units: segments.clone().filter(|s| systems.clone().any(|a| compared(a, *s))).count(),
            translations: systems.map(|a| segments.clone().filter(|s| compared(a, *s)).count()).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(name: &str, columns: &[(&str, [Option<f64>; 3])]) -> Scores {
        let segments: SegmentScores =
            columns.iter().map(|(system, column)| ((*system).to_owned(), column.to_vec())).collect();
        Scores::new(name, Some(segments), None)
    }

    #[test]
    fn what_one_metric_lacks_is_left_out_for_all() {
        let gold = scores("mqm", &[("a", [Some(1.0), Some(3.0), None]), ("b", [Some(5.0), Some(7.0), None])]);
        let one = scores("one", &[("a", [Some(0.0), None, None]), ("b", [Some(0.0); 3])]);
        let other = scores("other", &[("a", [Some(0.0); 3]), ("b", [Some(0.0), None, None])]);
        let systems = ["a", "b", "h"].map(str::to_owned).into();
        let (common, kept) = Common::new(&gold, &[one, other], &systems);
        assert_eq!((common.rated, common.left_out), (4, 2));
        assert_eq!(common.gaps, BTreeMap::from([("one".into(), 1), ("other".into(), 1)]));
        assert_eq!(kept.segments.unwrap()["b"], [Some(5.0), None, None]);
        assert_eq!(kept.systems, gold.systems, "the raters' own");
    }

    #[test]
    fn documents_are_left_whole_or_not_at_all() {
        let gold =
            scores("mqm", &[("a", [Some(1.0), Some(3.0), Some(2.0)]), ("b", [Some(5.0), Some(7.0), None])]);
        let given = |system: &str, segs: &[usize], score| (system.to_owned(), segs.to_vec(), score);
        let documents = |b_score| {
            let given = [
                given("a", &[0, 1], Some(0.0)),
                given("a", &[2], Some(0.0)),
                given("b", &[0, 1], b_score),
                given("b", &[2], Some(0.0)),
            ];
            Scores::from_units("doc", UnitScores::new(&given))
        };
        let seg = scores("seg", &[("a", [Some(0.0), None, Some(0.0)]), ("b", [Some(0.0); 3])]);
        let systems = ["a", "b"].map(str::to_owned).into();
        let (common, kept) = Common::new(&gold, &[documents(Some(0.0))], &systems);
        assert_eq!((common.left_out, kept), (0, gold.clone()));
        let (common, _) = Common::new(&gold, &[documents(None)], &systems);
        assert_eq!((common.left_out, common.gaps["doc"], common.in_cut_documents), (2, 2, 0));
        assert_eq!(n_lacking(&gold, &documents(None), &systems), 2);
        // Another metric's gap cuts the document, so that its other segment is left out too.
        let (common, kept) = Common::new(&gold, &[documents(Some(0.0)), seg], &systems);
        assert_eq!((common.left_out, common.gaps["seg"], common.in_cut_documents), (2, 1, 1));
        assert_eq!(kept.segments.unwrap()["a"], [None, None, Some(2.0)]);
    }
}
