//! The translations that metrics are compared on: those that every metric scored, or, per metric, those that it
//! scored. It counts the others; it fills no gaps.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::align::Aligned;
use super::scores::units::{Given, UnitScores};
use super::scores::{Scores, SegmentScores, SystemScoreOrigin};

/// Which translations a metric is judged by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoveragePolicy {
    /// Those that all metrics scored.
    #[default]
    Common,
    /// Those that it scored itself.
    Each,
    /// Those that it scored itself; its system scores are over all of them, rated or not, and are compared with the
    /// raters' own system scores.
    Official,
}

/// How much of what the raters scored all metrics scored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Common {
    /// Translations of compared systems that the raters scored.
    pub rated: usize,
    /// Of these, the ones that are not compared: those that some metric did not score, and `in_cut_documents`.
    pub left_out: usize,
    /// Rated translations that a metric did not score, for metrics with such gaps.
    pub gaps: BTreeMap<String, usize>,
    /// Rated translations that are left out only because they stand in a document that a judge saw as one text, and
    /// something else in it is not rated or not scored: documents cannot be cut.
    pub in_cut_documents: usize,
    /// Segments with a translation that is left out; where a judge saw documents as one text, also those of every
    /// document that is not wholly rated and scored for every system. System scores leave them out for every system,
    /// because means over different segments cannot be compared.
    pub torn_segments: BTreeSet<usize>,
}

impl Common {
    /// The human scores without those that some metric has no counterpart for; a system's score is then its
    /// mean over the segments that are left for every system. The same scores where nothing is left out.
    ///
    /// A system that a metric lacks altogether does not count as a gap: comparing it is an error.
    #[must_use]
    pub fn of(gold: &Scores, metrics: &[Scores], systems: &BTreeSet<String>) -> (Self, Scores) {
        let mut common = Self::default();
        let mut kept = gold.clone();
        let scored: Vec<Scored> = metrics.iter().map(Scored::of).collect();
        for (system, column) in kept.segments.iter_mut().flatten() {
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
                    common.torn_segments.insert(segment);
                }
            }
        }
        let documents: Vec<&UnitScores> = metrics.iter().filter_map(|metric| metric.units.as_ref()).collect();
        if let Some(columns) = kept.segments.as_mut().filter(|_| !documents.is_empty()) {
            common.cut_documents(columns, &documents, systems);
            common.tear_documents(columns, &documents, systems);
        }
        if common.is_partial() {
            kept.systems = common.on_whole_segments(&kept).systems;
            kept.system_origin = SystemScoreOrigin::MeanOfSegments;
        }
        (common, kept)
    }

    /// Leaves out what is left of a translated document of which something is not there, until every document is
    /// there wholly or not at all: one judge's documents may be parts of another's.
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
                        let there: Vec<usize> =
                            segs.iter().copied().filter(|seg| is_there(column, *seg)).collect();
                        if there.len() == segs.len() {
                            continue;
                        }
                        for seg in there {
                            column[seg] = None;
                            self.left_out += 1;
                            self.in_cut_documents += 1;
                            self.torn_segments.insert(seg);
                        }
                    }
                }
            }
            if self.left_out == before {
                return;
            }
        }
    }

    /// Adds the segments of all documents that are not there for every rated system, and those that are in none. A
    /// system with nothing left keeps none from the others.
    fn tear_documents(
        &mut self,
        columns: &SegmentScores,
        documents: &[&UnitScores],
        systems: &BTreeSet<String>,
    ) {
        let rated: Vec<(&String, &Vec<Option<f64>>)> = columns
            .iter()
            .filter(|(system, column)| systems.contains(*system) && column.iter().any(Option::is_some))
            .collect();
        let n_segments = rated.iter().map(|(_, column)| column.len()).max().unwrap_or(0);
        for units in documents {
            let mut whole: BTreeSet<usize> = BTreeSet::new();
            for (idx, segs) in units.units.iter().enumerate() {
                let is_whole = |(system, column): &(&String, &Vec<Option<f64>>)| {
                    let given = units.scores.get(*system).map(|given| given[idx]);
                    let is_scored = given.is_none_or(|given| matches!(given, Given::Score(_)));
                    is_scored && segs.iter().all(|seg| is_there(column, *seg))
                };
                if rated.iter().all(is_whole) {
                    whole.extend(segs);
                }
            }
            self.torn_segments.extend((0..n_segments).filter(|segment| !whole.contains(segment)));
        }
        // A document of one judge may hold documents of another that are torn by now.
        loop {
            let before = self.torn_segments.len();
            for segs in documents.iter().flat_map(|units| &units.units) {
                if segs.iter().any(|seg| self.torn_segments.contains(seg)) {
                    self.torn_segments.extend(segs);
                }
            }
            if self.torn_segments.len() == before {
                return;
            }
        }
    }

    /// The segments that no system score leaves out.
    #[must_use]
    pub fn whole_segments(&self, n_segments: usize) -> Vec<usize> {
        (0..n_segments).filter(|segment| !self.torn_segments.contains(segment)).collect()
    }

    /// The scores without the segments that system scores leave out, and system scores that are means over the
    /// rest.
    #[must_use]
    pub fn on_whole_segments(&self, scores: &Scores) -> Scores {
        let mut segments = scores.segments.clone().unwrap_or_default();
        for column in segments.values_mut() {
            let torn =
                column.iter_mut().enumerate().filter(|(segment, _)| self.torn_segments.contains(segment));
            torn.for_each(|(_, score)| *score = None);
        }
        Scores::new(&scores.name, Some(segments), None)
    }

    /// Whether system scores leave some segments out.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        !self.torn_segments.is_empty()
    }
}

fn is_there(column: &[Option<f64>], segment: usize) -> bool {
    column.get(segment).is_some_and(Option::is_some)
}

/// What a metric has scores of.
struct Scored<'a> {
    name: &'a str,
    segments: Option<&'a SegmentScores>,
    /// Of a judge of documents: the segments of those with a score, by system.
    in_documents: Option<BTreeMap<&'a str, BTreeSet<usize>>>,
}

impl<'a> Scored<'a> {
    fn of(metric: &'a Scores) -> Self {
        let in_documents = metric.units.as_ref().map(|units| {
            let system_segments = |(system, given): (&'a String, &'a Vec<Given>)| {
                let scored = units.units.iter().zip(given);
                let scored = scored.filter(|(_, given)| matches!(given, Given::Score(_)));
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

/// What a judge gave its scores for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    #[default]
    Segment,
    /// Documents, or groups of them, that it saw as one text.
    Document,
}

/// What a value rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
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
    #[must_use]
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
        let (common, kept) = Common::of(&gold, &[one, other], &systems);
        assert_eq!((common.rated, common.left_out), (4, 2));
        assert_eq!(common.gaps, BTreeMap::from([("one".into(), 1), ("other".into(), 1)]));
        assert_eq!((kept.systems["a"], kept.systems["b"]), (Some(1.0), Some(5.0)));
        // A segment that only one system lacks is left out of all system scores.
        let torn = scores("torn", &[("a", [Some(0.0); 3]), ("b", [None, Some(0.0), None])]);
        let (common, kept) = Common::of(&gold, &[torn], &systems);
        assert_eq!((common.left_out, common.torn_segments), (1, BTreeSet::from([0])));
        assert_eq!((kept.systems["a"], kept.systems["b"]), (Some(3.0), Some(7.0)));
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
        // What is not rated for b is in no system score, and nothing else is left out.
        let (common, kept) = Common::of(&gold, &[documents(Some(0.0))], &systems);
        assert_eq!((common.left_out, &common.torn_segments), (0, &BTreeSet::from([2])));
        assert_eq!((kept.systems["a"], kept.systems["b"]), (Some(2.0), Some(6.0)));
        // A verdict that is missing takes the document from every system score; a system with nothing left keeps none
        // from the others.
        let (common, _) = Common::of(&gold, &[documents(None)], &systems);
        assert_eq!((common.left_out, common.gaps["doc"], common.in_cut_documents), (2, 2, 0));
        assert_eq!(common.torn_segments, BTreeSet::from([0, 1]));
        // Another metric's gap cuts the document, so that its other segment is left out too.
        let (common, kept) = Common::of(&gold, &[documents(Some(0.0)), seg], &systems);
        assert_eq!((common.left_out, common.gaps["seg"], common.in_cut_documents), (2, 1, 1));
        assert_eq!(kept.segments.unwrap()["a"], [None, None, Some(2.0)]);
    }

    #[test]
    fn complete_metrics_leave_the_human_scores_as_they_were_given() {
        let gold = Scores {
            systems: [("a".to_owned(), Some(-9.0))].into(),
            system_origin: SystemScoreOrigin::File,
            ..scores("mqm", &[("a", [Some(1.0), Some(3.0), None])])
        };
        let metric = scores("m", &[("a", [Some(0.0), Some(0.0), None])]);
        let (common, kept) = Common::of(&gold, &[metric], &["a".to_owned()].into());
        assert!(!common.is_partial());
        assert_eq!(kept, gold);
    }
}
