//! On which translations metrics are compared: those that every metric scored, unless each is to stand on its
//! own. It counts what is left out; it fills nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::align::Aligned;
use super::scores::{Scores, SystemScoreOrigin};

/// Which translations a metric is judged by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoveragePolicy {
    /// Those that all metrics scored.
    #[default]
    Common,
    /// Those that it scored itself.
    Each,
}

/// How much of what the raters scored all metrics scored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Common {
    /// Translations of compared systems that the raters scored.
    pub rated: usize,
    /// Of these, the ones that some metric did not score.
    pub left_out: usize,
    /// Rated translations that a metric did not score, for metrics with such gaps.
    pub gaps: BTreeMap<String, usize>,
    /// Segments with a translation that is left out. System scores leave them out for every system, because
    /// means over different segments cannot be compared.
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
        for (system, column) in kept.segments.iter_mut().flatten() {
            if !systems.contains(system) {
                continue;
            }
            for (segment, score) in column.iter_mut().enumerate().filter(|(_, score)| score.is_some()) {
                common.rated += 1;
                let lacks = |metric: &&Scores| lacks(metric, system, segment);
                let mut is_left_out = false;
                for metric in metrics.iter().filter(lacks) {
                    *common.gaps.entry(metric.name.clone()).or_default() += 1;
                    is_left_out = true;
                }
                if is_left_out {
                    *score = None;
                    common.left_out += 1;
                    common.torn_segments.insert(segment);
                }
            }
        }
        if common.left_out > 0 {
            kept.systems = common.on_whole_segments(&kept).systems;
            kept.system_origin = SystemScoreOrigin::MeanOfSegments;
        }
        (common, kept)
    }

    /// The segments that have no translation left out.
    #[must_use]
    pub fn whole_segments(&self, n_segments: usize) -> Vec<usize> {
        (0..n_segments).filter(|segment| !self.torn_segments.contains(segment)).collect()
    }

    /// The scores without the segments that have a translation left out, and system scores that are means over
    /// the rest.
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

    /// Whether some translations are left out for every metric.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.left_out > 0
    }
}

fn lacks(metric: &Scores, system: &str, segment: usize) -> bool {
    let column = metric.segments.as_ref().and_then(|columns| columns.get(system));
    column.is_some_and(|column| column.get(segment).copied().flatten().is_none())
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
    pub fn of_units(scores: &Aligned, unit: Unit) -> Self {
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
    use crate::scores::SegmentScores;

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
