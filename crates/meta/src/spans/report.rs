//! A run's error spans against the human ones, by every measure at once, for verdicts on segments, on
//! documents or on groups of documents. No file is read.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::counts::{BySide, Counts, Definition, Named, Texts, located};
use super::rated::Rated;
use super::strings::{himate, mmad};
use super::{Overlap, PrecisionRecall, severity};
use crate::mqm::ratings::Ratings;
use crate::units::Unit;
use crate::verdicts::{JudgedError, Verdict};

/// HiMATE's thresholds.
pub const THRESHOLDS: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

/// All span measures of one run on one language pair.
#[derive(Clone, Debug, Serialize)]
pub struct SpanReport {
    pub name: String,
    /// Rated segments that a verdict covers.
    pub n_segments: usize,
    /// Verdicts that cover a rated segment.
    pub n_verdicts: usize,
    /// Of these, verdicts that also cover unrated segments, which are cut out.
    pub n_partly_rated: usize,
    /// Characters under [`Definition::Offsets`].
    pub characters: BySide<PrecisionRecall>,
    /// The share of the raters' characters that stand in the source, 0 to 1.
    pub gold_in_source: f64,
    /// Characters under [`Definition::Fsp`].
    pub fsp: PrecisionRecall,
    /// Characters under [`Definition::WmtQe`].
    pub wmt_qe: PrecisionRecall,
    /// Spans under [`Definition::Mpp`].
    pub mpp: PrecisionRecall,
    /// Verdicts that MPP leaves out, because more than [`MOST_PAIRS`](super::mpp::MOST_PAIRS) pairs of spans
    /// overlap.
    pub n_beyond_mpp: usize,
    pub exact: BySide<PrecisionRecall>,
    pub partial: BySide<PrecisionRecall>,
    /// HiMATE's Algorithm 1 at 0.1 to 0.9.
    pub himate: Vec<(f64, PrecisionRecall)>,
    /// M-MAD's matching of strings.
    pub mmad: PrecisionRecall,
    pub errors: ErrorsPerDocument,
}

/// Length invariance: a judge should find the same number of errors in a document regardless of how much of
/// it is shown at once.
///
/// Source: FSP, Figures 4 and 7.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ErrorsPerDocument {
    pub judge: f64,
    /// The raters' number, on those of the documents that they rated wholly; `None` where there is none.
    pub human: Option<f64>,
    /// Translated documents: documents times systems.
    pub documents: usize,
    /// Of these, documents that the raters rated wholly.
    pub rated_documents: usize,
    /// The unit of one verdict: `seg`, `doc`, or `5doc` (several documents).
    pub unit: &'static str,
}

/// FSP's figures for one run: means over language pairs.
///
/// Source: FSP, Figures 4 and 8, "averaged across translation directions".
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpanMeans {
    pub name: String,
    pub pairs: usize,
    /// The unit of one verdict; `mixed` where it is not the same for all pairs.
    pub unit: &'static str,
    /// Each of the three is a mean, so F1 is not that of the other two.
    pub characters: BySide<PrecisionRecall>,
    /// Characters as in the figures.
    pub fsp: PrecisionRecall,
    pub wmt_qe: PrecisionRecall,
    pub mpp: PrecisionRecall,
    pub errors_per_document: f64,
}

impl SpanReport {
    /// Characters under a definition: of the translation, and of the source where the definition counts it.
    pub fn under(&self, definition: Definition) -> (&PrecisionRecall, Option<&PrecisionRecall>) {
        under(definition, &self.characters, [&self.fsp, &self.wmt_qe, &self.mpp])
    }
}

impl SpanMeans {
    /// [`SpanReport::under`], averaged over language pairs.
    pub fn under(&self, definition: Definition) -> (&PrecisionRecall, Option<&PrecisionRecall>) {
        under(definition, &self.characters, [&self.fsp, &self.wmt_qe, &self.mpp])
    }
}

fn under<'a>(
    definition: Definition,
    offsets: &'a BySide<PrecisionRecall>,
    [fsp, wmt_qe, mpp]: [&'a PrecisionRecall; 3],
) -> (&'a PrecisionRecall, Option<&'a PrecisionRecall>) {
    match definition {
        Definition::Offsets => (&offsets.target, Some(&offsets.source)),
        Definition::Fsp => (fsp, None),
        Definition::WmtQe => (wmt_qe, None),
        Definition::Mpp => (mpp, None),
    }
}

#[derive(Default)]
struct Sums {
    counts: Counts,
    himate: [Overlap; 9],
    mmad: Overlap,
}

/// Compares verdicts with the ratings of the first rater, by name, that rated a segment.
///
/// `units` has the unit of each verdict, `documents` the document of each segment of the test set. `None`
/// where no verdict covers a rated segment: then there is nothing to compare.
pub fn compare(
    name: &str,
    verdicts: &[Verdict],
    units: &[Unit],
    ratings: &[Ratings],
    documents: &[String],
) -> Option<SpanReport> {
    let mut sums = Sums::default();
    let (mut n_segments, mut n_verdicts, mut n_partly_rated) = (0, 0, 0);
    for (verdict, unit) in verdicts.iter().zip(units).filter(|(verdict, _)| verdict.status == "ok") {
        let Some(rated) = Rated::new(verdict, unit, ratings) else { continue };
        sums.add(verdict, &rated);
        n_segments += rated.n_segments;
        n_verdicts += 1;
        n_partly_rated += usize::from(rated.n_segments < unit.segs.len());
    }
    (n_verdicts > 0).then(|| SpanReport {
        name: name.to_owned(),
        n_segments,
        n_verdicts,
        n_partly_rated,
        characters: sums.counts.characters.scores(),
        gold_in_source: in_source(&sums.counts.characters),
        fsp: sums.counts.fsp.score(),
        wmt_qe: sums.counts.wmt_qe.score(),
        mpp: sums.counts.mpp.score(),
        n_beyond_mpp: sums.counts.n_beyond_mpp,
        exact: sums.counts.exact.scores(),
        partial: sums.counts.partial.scores(),
        himate: THRESHOLDS.into_iter().zip(sums.himate.iter().map(Overlap::score)).collect(),
        mmad: sums.mmad.score(),
        errors: errors_per_document(verdicts, units, ratings, documents),
    })
}

impl Sums {
    fn add(&mut self, verdict: &Verdict, rated: &Rated) {
        let named: Vec<Named> = verdict.errors.iter().map(JudgedError::named).collect();
        let texts = Texts { source: &verdict.source, target: &verdict.hypothesis };
        self.counts.add_parts(&rated.spans, &named, texts, &|span| rated.cut(span));
        let places = located(&named, texts);
        let counts = named.iter().zip(&places).filter(|(named, place)| {
            !named.in_source && place.is_none_or(|span| !rated.cut(span).is_empty())
        });
        let quoted: Vec<&str> = counts.map(|(named, _)| named.quote).collect();
        let gold: Vec<&str> = rated.texts.iter().map(String::as_str).collect();
        for (theta, sum) in THRESHOLDS.into_iter().zip(&mut self.himate) {
            sum.add(&himate(&gold, &quoted, theta));
        }
        self.mmad.add(&mmad(&gold, &quoted));
    }
}

fn in_source(characters: &BySide<Overlap>) -> f64 {
    let all = characters.target.gold + characters.source.gold;
    if all > 0.0 { characters.source.gold / all } else { 0.0 }
}

impl JudgedError {
    /// The error in the form that spans are counted in.
    pub fn named(&self) -> Named<'_> {
        Named {
            quote: &self.span,
            in_source: self.side == "source",
            place: self.start.zip(self.end),
            severity: severity(&self.severity),
        }
    }
}

/// A document of a system.
type Translated<'a> = (&'a str, &'a str);

fn errors_per_document(
    verdicts: &[Verdict],
    units: &[Unit],
    ratings: &[Ratings],
    documents: &[String],
) -> ErrorsPerDocument {
    let mut errors = 0;
    let mut judged: BTreeMap<Translated, Option<usize>> = BTreeMap::new();
    let mut widest = 1;
    for (verdict, unit) in verdicts.iter().zip(units) {
        let docs: BTreeSet<&String> = unit.segs.iter().map(|seg| &documents[*seg]).collect();
        widest = widest.max(docs.len());
        if verdict.status != "ok" {
            continue;
        }
        errors += verdict.errors.len();
        for seg in &unit.segs {
            let rated = Rated::errors_of(ratings, &verdict.system, *seg).map(<[_]>::len);
            let sum = judged.entry((&verdict.system, &documents[*seg])).or_insert(Some(0));
            *sum = sum.zip(rated).map(|(sum, n)| sum + n);
        }
    }
    let human: Vec<usize> = judged.values().copied().flatten().collect();
    let per = |sum: usize, n: usize| sum as f64 / n.max(1) as f64;
    ErrorsPerDocument {
        judge: per(errors, judged.len()),
        human: (!human.is_empty()).then(|| per(human.iter().sum(), human.len())),
        documents: judged.len(),
        rated_documents: human.len(),
        unit: match (verdicts.iter().all(|verdict| verdict.seg.is_some()), widest) {
            (true, _) => "seg",
            (false, 1) => "doc",
            (false, _) => "5doc",
        },
    }
}

/// The means of each run's reports over language pairs, in order of their first report.
pub fn means(reports: &[&SpanReport]) -> Vec<SpanMeans> {
    let mut names: Vec<&String> = Vec::new();
    for report in reports {
        if !names.contains(&&report.name) {
            names.push(&report.name);
        }
    }
    let of = |name: &&String| {
        let of_metric: Vec<&&SpanReport> = reports.iter().filter(|report| report.name == **name).collect();
        let mean = |pick: &dyn Fn(&SpanReport) -> f64| {
            of_metric.iter().map(|report| pick(report)).sum::<f64>() / of_metric.len() as f64
        };
        let scores = |pick: fn(&SpanReport) -> &PrecisionRecall| PrecisionRecall {
            precision: mean(&|report| pick(report).precision),
            recall: mean(&|report| pick(report).recall),
            f1: mean(&|report| pick(report).f1),
        };
        let unit = of_metric[0].errors.unit;
        SpanMeans {
            name: (*name).clone(),
            pairs: of_metric.len(),
            unit: if of_metric.iter().all(|report| report.errors.unit == unit) { unit } else { "mixed" },
            characters: BySide {
                target: scores(|report| &report.characters.target),
                source: scores(|report| &report.characters.source),
            },
            fsp: scores(|report| &report.fsp),
            wmt_qe: scores(|report| &report.wmt_qe),
            mpp: scores(|report| &report.mpp),
            errors_per_document: mean(&|report| report.errors.judge),
        }
    };
    names.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqm::ratings::RatedError;

    fn verdict(value: serde_json::Value) -> Verdict {
        serde_json::from_value(value).unwrap()
    }

    fn gold(start: usize, end: usize) -> RatedError {
        let (category, severity) = ("x".into(), "minor".into());
        RatedError { start, end, category, severity, score: Some(1.0), is_source_error: false }
    }

    #[test]
    fn an_ambiguous_quote_is_judged_both_ways() {
        let verdict = verdict(serde_json::json!({
            "system": "s", "doc": "d", "seg": 0, "src_lang": "en", "tgt_lang": "de", "hypothesis": "the on the mat",
            "score": -1.0, "status": "ok",
            "errors": [{"span": "the", "side": "target", "start": 0, "end": 3, "category": "x", "severity": "minor"}],
        }));
        let unit = Unit { segs: vec![0], source_starts: vec![0], target_starts: vec![0] };
        let ratings = Ratings::from([("s".to_owned(), vec![Some(vec![gold(7, 10)])])]);
        let report = compare("run", &[verdict], &[unit], &[ratings], &["d".to_owned()]).unwrap();
        assert_eq!(report.characters.target.f1, 0.0);
        assert_eq!(report.fsp.f1, 1.0);
        assert_eq!(report.himate[8].1.f1, 1.0);
        assert_eq!((report.errors.judge, report.errors.human), (1.0, Some(1.0)));
    }

    /// Three segments, "abc", "de" and "fghi", judged as one text; the last was not rated.
    fn document_verdict() -> (Verdict, Unit) {
        let error = |span: &str, at: usize| serde_json::json!({"span": span, "side": "target", "start": at, "end": at + 1, "category": "x", "severity": "minor"});
        let verdict = verdict(serde_json::json!({
            "system": "s", "doc": "d", "seg": null, "segs": [4, 5, 6], "src_lang": "en", "tgt_lang": "de",
            "source": "x\ny\nz", "hypothesis": "abc\nde\nfghi", "score": -3.0, "status": "ok",
            "errors": [error("e", 5), error("h", 9), error("c", 2)],
        }));
        (verdict, Unit { segs: vec![4, 5, 6], source_starts: vec![0, 2, 4], target_starts: vec![0, 4, 7] })
    }

    #[test]
    fn the_ratings_of_a_document_are_shifted_into_its_text() {
        let (verdict, unit) = document_verdict();
        let rated = vec![None, None, None, None, Some(vec![gold(0, 1)]), Some(vec![gold(1, 2)]), None];
        let ratings = Ratings::from([("s".to_owned(), rated)]);
        let documents = ["a", "a", "a", "a", "d", "d", "d"].map(str::to_owned);
        let report = compare("run", &[verdict], &[unit], &[ratings], &documents).unwrap();
        // `e` is found, `c` is wrong, `a` is missed; `h` is in an unrated segment.
        let score = report.characters.target;
        assert_eq!((score.precision, score.recall), (0.5, 0.5));
        assert_eq!((report.exact.target.precision, report.mmad.recall), (0.5, 0.5));
        assert_eq!((report.n_segments, report.n_verdicts, report.n_partly_rated), (2, 1, 1));
        let errors = report.errors;
        assert_eq!((errors.unit, errors.judge, errors.human, errors.documents), ("doc", 3.0, None, 1));
    }

    #[test]
    fn nothing_rated_is_not_a_perfect_score() {
        let (verdict, unit) = document_verdict();
        let ratings = Ratings::from([("s".to_owned(), vec![None; 7])]);
        assert!(compare("run", &[verdict], &[unit], &[ratings], &["d"; 7].map(str::to_owned)).is_none());
    }
}
