//! A run's error spans against the human ones, by every measure at once.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::placement::{Placement, Quote, place};
use super::strings::{himate, mmad};
use super::{Overlap, PrecisionRecall, Span, characters, exact, partial};
use crate::meta::rating::{RatedError, Ratings};
use crate::meta::verdicts::{JudgedError, Verdict};

/// HiMATE's thresholds.
pub const THRESHOLDS: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

/// All span measures of one run on one language pair.
#[derive(Clone, Debug, Serialize)]
pub struct SpanReport {
    pub name: String,
    /// Segments that have both a verdict and a human rating.
    pub n_segments: usize,
    /// Quotes placed by the text alone.
    pub characters_honest: PrecisionRecall,
    /// Quotes placed where gold is, as in the FSP paper.
    pub characters_optimistic: PrecisionRecall,
    pub exact: PrecisionRecall,
    pub partial: PrecisionRecall,
    /// HiMATE's Algorithm 1 at 0.1 to 0.9.
    pub himate: Vec<(f64, PrecisionRecall)>,
    /// M-MAD's matching of strings.
    pub mmad: PrecisionRecall,
    pub errors: ErrorsPerDocument,
}

/// Length invariance: a judge should find as many errors in a document whatever it is shown at once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ErrorsPerDocument {
    pub judge: f64,
    /// The raters' number on the same documents; `None` where none is rated.
    pub human: Option<f64>,
    /// Translated documents: documents times systems.
    pub documents: usize,
    /// What one verdict covers: `seg`, `doc`, or `5doc` (several documents).
    pub unit: &'static str,
}

#[derive(Default)]
struct Sums {
    honest: Overlap,
    optimistic: Overlap,
    exact: Overlap,
    partial: Overlap,
    himate: [Overlap; 9],
    mmad: Overlap,
}

/// Compares verdicts with the ratings of the first rater that rated a segment.
///
/// `documents` gives each segment's document, `n_documents` how many one verdict without a segment covers.
#[must_use]
pub fn compare(name: &str, verdicts: &[Verdict], ratings: &[Ratings], documents: &[String]) -> SpanReport {
    let mut sums = Sums::default();
    let mut n_segments = 0;
    for verdict in verdicts.iter().filter(|verdict| verdict.status == "ok") {
        let Some(gold) = verdict.seg.and_then(|seg| rated(ratings, &verdict.system, seg)) else { continue };
        sums.add(verdict, gold);
        n_segments += 1;
    }
    SpanReport {
        name: name.to_owned(),
        n_segments,
        characters_honest: sums.honest.score(),
        characters_optimistic: sums.optimistic.score(),
        exact: sums.exact.score(),
        partial: sums.partial.score(),
        himate: THRESHOLDS.into_iter().zip(sums.himate.iter().map(Overlap::score)).collect(),
        mmad: sums.mmad.score(),
        errors: errors_per_document(verdicts, ratings, documents),
    }
}

fn rated<'a>(ratings: &'a [Ratings], system: &str, seg: usize) -> Option<&'a Vec<RatedError>> {
    ratings.iter().find_map(|rater| rater.get(system)?.get(seg)?.as_ref())
}

impl Sums {
    fn add(&mut self, verdict: &Verdict, gold: &[RatedError]) {
        let gold_spans: Vec<Span> = gold.iter().map(gold_span).collect();
        let targets: Vec<&JudgedError> = verdict.errors.iter().filter(|e| e.side != "source").collect();
        let quotes: Vec<Quote> =
            targets.iter().map(|e| Quote { text: &e.span, severity: severity(&e.severity) }).collect();
        let in_source: Vec<Span> = verdict.errors.iter().filter_map(source_span).collect();
        for (how, sum) in
            [(Placement::Honest, &mut self.honest), (Placement::Optimistic, &mut self.optimistic)]
        {
            let (mut placed, lost) = place(&verdict.hypothesis, &quotes, &gold_spans, how);
            placed.extend(&in_source);
            sum.add(&characters(&gold_spans, &placed));
            sum.predicted += lost as f64;
            if how == Placement::Honest {
                self.exact.add(&exact(&gold_spans, &placed));
                self.partial.add(&partial(&gold_spans, &placed));
            }
        }
        let chars: Vec<char> = verdict.hypothesis.chars().collect();
        let text = |error: &RatedError| -> Option<String> {
            (!error.is_source_error).then(|| chars.get(error.start..error.end).map(|c| c.iter().collect()))?
        };
        let gold_texts: Vec<String> = gold.iter().filter_map(text).collect();
        let gold_texts: Vec<&str> = gold_texts.iter().map(String::as_str).collect();
        let quoted: Vec<&str> = targets.iter().map(|e| e.span.as_str()).collect();
        for (theta, sum) in THRESHOLDS.into_iter().zip(&mut self.himate) {
            sum.add(&himate(&gold_texts, &quoted, theta));
        }
        self.mmad.add(&mmad(&gold_texts, &quoted));
    }
}

fn gold_span(error: &RatedError) -> Span {
    Span {
        start: error.start,
        end: error.end,
        in_source: error.is_source_error,
        severity: severity(&error.severity),
    }
}

fn source_span(error: &JudgedError) -> Option<Span> {
    let (start, end) = (error.start?, error.end?);
    (error.side == "source").then(|| Span {
        start,
        end,
        in_source: true,
        severity: severity(&error.severity),
    })
}

/// Raters know no critical errors: critical equals major.
fn severity(name: &str) -> u8 {
    match name.to_lowercase().as_str() {
        "critical" | "major" => 2,
        "minor" => 1,
        _ => 0,
    }
}

fn errors_per_document(verdicts: &[Verdict], ratings: &[Ratings], documents: &[String]) -> ErrorsPerDocument {
    let by_segment = verdicts.iter().all(|verdict| verdict.seg.is_some());
    let mut translated: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut errors = 0;
    for verdict in verdicts.iter().filter(|verdict| verdict.status == "ok") {
        errors += verdict.errors.len();
        // A verdict over several documents names them all, joined by `+`.
        translated.extend(verdict.doc.split('+').map(|doc| (verdict.system.as_str(), doc)));
    }
    let n = translated.len().max(1) as f64;
    let mut human: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (system, doc) in &translated {
        let segments = documents.iter().enumerate().filter(|(_, name)| name == doc);
        let counts: Vec<usize> =
            segments.filter_map(|(seg, _)| rated(ratings, system, seg)).map(Vec::len).collect();
        if !counts.is_empty() {
            human.insert((system, doc), counts.iter().sum());
        }
    }
    ErrorsPerDocument {
        judge: errors as f64 / n,
        human: (!human.is_empty()).then(|| human.values().sum::<usize>() as f64 / human.len() as f64),
        documents: translated.len(),
        unit: match (by_segment, verdicts.iter().any(|verdict| verdict.doc.contains('+'))) {
            (true, _) => "seg",
            (false, true) => "5doc",
            (false, false) => "doc",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ambiguous_quote_is_judged_both_ways() {
        let verdict: Verdict = serde_json::from_value(serde_json::json!({
            "system": "s", "doc": "d", "seg": 0, "src_lang": "en", "tgt_lang": "de", "hypothesis": "the on the mat",
            "score": -1.0, "status": "ok",
            "errors": [{"span": "the", "side": "target", "start": 0, "end": 3, "category": "x", "severity": "minor"}],
        }))
        .unwrap();
        let gold = RatedError {
            start: 7,
            end: 10,
            category: "x".into(),
            severity: "minor".into(),
            score: Some(1.0),
            is_source_error: false,
        };
        let ratings = Ratings::from([("s".to_owned(), vec![Some(vec![gold])])]);
        let report = compare("run", &[verdict], &[ratings], &["d".to_owned()]);
        assert_eq!(report.characters_honest.f1, 0.0);
        assert_eq!(report.characters_optimistic.f1, 1.0);
        assert_eq!(report.himate[8].1.f1, 1.0);
        assert_eq!((report.errors.judge, report.errors.human), (1.0, Some(1.0)));
    }
}
