//! The parts of a meta-evaluation about the raters themselves, or about the segments that they found
//! error-free.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Of, Request, aligned, of, verdicts_of};
use crate::Result;
use crate::align::Aligned;
use crate::annotators::several::Several;
use crate::annotators::{self, RaterPair};
use crate::average::{Coefficient, Grouping};
use crate::correlation::Undefined;
use crate::error_free::{self, Decisions, ErrorFree, LEAST_SCORE};
use crate::eval_set::EvalSet;
use crate::mqm::ratings::Ratings;
use crate::scores::Scores;
use crate::statistic::Statistic;
use crate::verdicts::Verdict;

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

/// Statistic that metrics are compared by unless a statistic of segments is named.
const AGAINST_EACH: Statistic = Statistic::Segment(Coefficient::Pearson, Grouping::None);

/// Agreement of pairs of raters that rated the same segments of all systems.
///
/// # Errors
/// Files that cannot be read.
pub fn pairs(set: &EvalSet) -> Result<Vec<Of<RaterPair>>> {
    let systems: Vec<String> = set.machine.iter().cloned().collect();
    let scored = set.gold_source.scored_annotators(&set.testset)?;
    let pairs = annotators::agreement(&scored, &systems);
    Ok(pairs.into_iter().map(|pair| of(set, "human", pair)).collect())
}

/// Annotators and metrics, where there are several annotators with scores.
///
/// # Errors
/// Files that cannot be read, or scores that do not fit.
pub fn several(request: &Request<'_>, set: &EvalSet) -> Result<Option<Of<Annotators>>> {
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
    let (several, left_out) = (Several::new(&annotators), set.gold_source.left_out.clone());
    let statistic = statistic.to_string();
    Ok(Some(of(set, "human", Annotators { several, left_out, statistic, metrics })))
}

/// Detection of error-free segments, by every metric with segment scores.
///
/// # Errors
/// Files that cannot be read, or scores that do not fit.
pub fn error_free(request: &Request<'_>, set: &EvalSet) -> Result<Vec<Of<Result<ErrorFree, Undefined>>>> {
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
                (found.no_span, found.submitted) =
                    by_spans(&scores, &labels, &verdicts_of(request, path, set)?);
            }
        }
        all.push(of(set, &metric.name, found));
    }
    Ok(all)
}

/// MCC of "no error is named", and of that with a score of at least [`LEAST_SCORE`]; `None` for a judge that
/// names none at all, the second also for one whose scores are penalties.
fn by_spans(scores: &Aligned, labels: &[Option<bool>], verdicts: &[Verdict]) -> (Option<f64>, Option<f64>) {
    let (mut no_span, mut submitted) = (Decisions::default(), Decisions::default());
    let judged = || verdicts.iter().filter(|verdict| verdict.status == "ok");
    for verdict in judged() {
        let system = scores.systems.iter().position(|system| *system == verdict.system);
        let (Some(system), Some(seg)) = (system, verdict.seg.filter(|seg| *seg < scores.n_segments)) else {
            continue;
        };
        let at = system * scores.n_segments + seg;
        if let (Some(label), Some(score)) = (labels[at], scores.metric[at]) {
            let is_clean = verdict.errors.is_empty();
            no_span.add(label, is_clean);
            submitted.add(label, is_clean && score >= LEAST_SCORE);
        }
    }
    let names_errors = judged().any(|verdict| !verdict.errors.is_empty());
    let is_penalty = scores.metric.iter().flatten().all(|score| *score <= 0.0);
    (names_errors.then(|| no_span.mcc()), (names_errors && !is_penalty).then(|| submitted.mcc()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_submitted_decision_needs_the_score_too() {
        let judged = [(90.0, 0), (80.0, 0), (95.0, 1), (70.0, 1)];
        let verdict = |(seg, (score, n_errors)): (usize, &(f64, usize))| {
            let error =
                serde_json::json!({"span": "x", "side": "target", "category": "x", "severity": "minor"});
            serde_json::from_value(serde_json::json!({
                "system": "A", "doc": "d", "seg": seg, "src_lang": "en", "tgt_lang": "de", "score": score, "status": "ok",
                "hypothesis": "x",
                "errors": vec![error; *n_errors],
            }))
        };
        let verdicts: Vec<Verdict> =
            judged.iter().enumerate().map(verdict).collect::<Result<_, _>>().unwrap();
        let scores = |of: fn(f64) -> f64| Aligned {
            systems: vec!["A".into()],
            n_segments: 4,
            gold: vec![Some(1.0); 4],
            metric: judged.iter().map(|(score, _)| Some(of(*score))).collect(),
        };
        let labels = [true, false, false, false].map(Some);
        let (no_span, submitted) = by_spans(&scores(|score| score), &labels, &verdicts);
        // Without the score 1 of 2 is right, with it 1 of 1.
        assert!((no_span.unwrap() - 1.0 / 3.0_f64.sqrt()).abs() < 1e-15 && submitted == Some(1.0));
        assert_eq!(by_spans(&scores(|score| -score), &labels, &verdicts).1, None, "penalties have no 85");
        let none: Vec<Verdict> = verdicts[..2].to_vec();
        assert_eq!(by_spans(&scores(|score| score), &labels, &none), (None, None));
    }
}
