//! The parts of a meta-evaluation that are about the raters themselves, or about what they found error-free.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Of, Request, aligned, of, verdicts_of};
use crate::Error;
use crate::align::Aligned;
use crate::annotators::several::Several;
use crate::annotators::{self, RaterPair};
use crate::average::{Coefficient, Grouping};
use crate::correlation::Undefined;
use crate::error_free::{self, Decisions, ErrorFree};
use crate::eval_set::EvalSet;
use crate::mqm::ratings::Ratings;
use crate::scores::Scores;
use crate::statistic::Statistic;

/// Several annotators of one language pair, and metrics against each of them.
#[derive(Clone, Debug, Serialize)]
pub struct Annotators {
    #[serde(flatten)]
    pub several: Several,
    /// Those whose scores are not among the human scores that are compared.
    pub left_out: Vec<String>,
    /// The statistic of `metrics`.
    pub statistic: String,
    pub metrics: Vec<AgainstEach>,
}

/// One metric against each annotator, on the translations that this annotator rated.
#[derive(Clone, Debug, Serialize)]
pub struct AgainstEach {
    pub metric: String,
    pub values: BTreeMap<String, Result<f64, Undefined>>,
}

/// What metrics are measured by unless a statistic of segments is named.
const AGAINST_EACH: Statistic = Statistic::Segment(Coefficient::Pearson, Grouping::None);

/// Agreement of pairs of raters that rated the same segments of all systems.
pub(super) fn pairs(set: &EvalSet) -> Result<Vec<Of<RaterPair>>, Error> {
    let systems: Vec<String> = set.machine.iter().cloned().collect();
    let scored = set.gold_source.scored_annotators(&set.testset)?;
    let raters: Vec<_> = scored.iter().map(|one| annotators::rater(one, &systems)).collect();
    let pairs = annotators::agreement(&raters);
    Ok(pairs.into_iter().map(|pair| of(set, "human", pair)).collect())
}

/// Annotators and metrics, where there are several annotators with scores.
pub(super) fn several(request: &Request<'_>, set: &EvalSet) -> Result<Option<Of<Annotators>>, Error> {
    let mut annotators = set.gold_source.scored_annotators(&set.testset)?;
    if annotators.len() < 2 {
        return Ok(None);
    }
    for annotator in &mut annotators {
        annotator.scores.retain(|system, _| set.machine.contains(system));
    }
    let of_segments = request.statistics.iter().find(|statistic| !statistic.is_of_systems());
    let statistic = of_segments.copied().unwrap_or(AGAINST_EACH);
    let mut metrics = Vec::new();
    for metric in set.with_baselines().filter(|metric| metric.segments.is_some()) {
        let mut values = BTreeMap::new();
        for annotator in &annotators {
            let gold = Scores::new(&annotator.name, Some(annotator.scores.clone()), None);
            let scores = Aligned::new(&gold, metric, &set.machine)?;
            let value = scores.ok_or(Undefined::NoScores).and_then(|scores| statistic.over_segments(&scores));
            values.insert(annotator.name.clone(), value.map(|measured| measured.value));
        }
        metrics.push(AgainstEach { metric: metric.name.clone(), values });
    }
    let (several, left_out) = (Several::of(&annotators), set.gold_source.left_out.clone());
    let statistic = statistic.to_string();
    Ok(Some(of(set, "human", Annotators { several, left_out, statistic, metrics })))
}

/// Detection of error-free segments, by every metric with segment scores.
pub(super) fn error_free(
    request: &Request<'_>,
    set: &EvalSet,
) -> Result<Vec<Of<Result<ErrorFree, Undefined>>>, Error> {
    let ratings = set.gold_source.ratings(&set.testset)?;
    let ratings: Vec<Ratings> = ratings.into_iter().map(|(_, ratings)| ratings).collect();
    let documents = document_numbers(set);
    let mut all = Vec::new();
    for (metric, scores) in aligned(set)?.into_iter().filter(|(metric, _)| metric.units.is_none()) {
        let labels = error_free::labels(&scores, &ratings);
        let cells = error_free::cells(&scores, &labels, &documents);
        let mut found = error_free::examine(&cells, request.seed);
        if let Ok(found) = &mut found {
            found.n_raters = ratings.len();
            if let Some((_, path)) = request.runs.iter().find(|(name, _)| *name == metric.name) {
                found.no_span = no_span(&scores, &labels, &verdicts_of(request, path, set)?);
            }
        }
        all.push(of(set, &metric.name, found));
    }
    Ok(all)
}

/// MCC of "no error is named"; `None` for a judge that names none at all.
fn no_span(scores: &Aligned, labels: &[Option<bool>], verdicts: &[crate::verdicts::Verdict]) -> Option<f64> {
    let mut decisions = Decisions::default();
    for verdict in verdicts.iter().filter(|verdict| verdict.status == "ok") {
        let system = scores.systems.iter().position(|system| *system == verdict.system);
        let (Some(system), Some(seg)) = (system, verdict.seg.filter(|seg| *seg < scores.n_segments)) else {
            continue;
        };
        if let Some(label) = labels[system * scores.n_segments + seg] {
            decisions.add(label, verdict.errors.is_empty());
        }
    }
    verdicts.iter().any(|verdict| !verdict.errors.is_empty()).then(|| decisions.mcc())
}

/// The number of each segment's document.
fn document_numbers(set: &EvalSet) -> Vec<usize> {
    let mut numbers = BTreeMap::new();
    let places = set.testset.places.iter();
    places
        .map(|place| {
            let next = numbers.len();
            *numbers.entry(&place.doc).or_insert(next)
        })
        .collect()
}
