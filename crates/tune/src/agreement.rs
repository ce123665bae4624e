//! Agreement of a judge with the raters of held-out translations.

use std::collections::BTreeMap;

use super::rated::Rated;
use crate::{
    judges::Verdict,
    meta::{
        correlation::{pearson, spearman},
        spans::{
            self, Span,
            counts::{Counts, Named, Texts},
        },
        ties::TieTable,
    },
    mqm::{ErrorSpan, Side, weights::Weights},
};

/// Figures by name, by language pair.
pub type Figures = BTreeMap<String, BTreeMap<String, f64>>;

/// A source: its document, its first segment, and how many are joined.
type Source = (String, usize, usize);

/// A judge's agreement with raters on held-out translations of a language pair, summed translation by
/// translation.
#[derive(Default)]
pub struct HeldOutAgreement {
    gold: Vec<f64>,
    metric: Vec<f64>,
    /// Characters of the translations.
    lengths: Vec<f64>,
    /// By source.
    groups: BTreeMap<Source, (Vec<f64>, Vec<f64>)>,
    spans: Counts,
    /// Errors, and translations without errors, of raters and of the judge.
    errors: [usize; 2],
    clean: [usize; 2],
    /// By kind, corrupted translations, and those of them that score less than what they were.
    corrupted: BTreeMap<&'static str, [usize; 2]>,
    /// Translations whose verdict has an interval, those that raters score within it, and the intervals'
    /// widths together.
    with_interval: usize,
    within: usize,
    width: f64,
}

impl HeldOutAgreement {
    /// Takes a translation with the raters' errors and a verdict.
    pub fn add(&mut self, rated: &Rated, verdict: &Verdict, weights: &Weights) {
        let Rated { segment, n_joined, .. } = rated;
        let gold = rated.score(weights);
        // Of several raters the first: what a span is compared with is one rater's.
        let errors = rated.errors().cloned().unwrap_or_default();
        self.gold.push(gold);
        self.metric.push(verdict.score);
        self.lengths.push(segment.hypothesis.chars().count() as f64);
        if let Some([low, high]) = verdict.interval {
            self.with_interval += 1;
            self.within += usize::from((low..=high).contains(&gold));
            self.width += high - low;
        }
        let group = self.groups.entry((segment.doc.clone(), segment.seg, *n_joined)).or_default();
        group.0.push(gold);
        group.1.push(verdict.score);
        let named: Vec<Named> = verdict.errors.iter().map(named).collect();
        let texts = Texts { source: &segment.source, target: &segment.hypothesis };
        self.spans.add(&places(&errors), &named, texts);
        for (which, errors) in [&errors, &verdict.errors].into_iter().enumerate() {
            self.errors[which] += errors.len();
            self.clean[which] += usize::from(errors.is_empty());
        }
    }

    /// Takes the scores of a translation before and after it was corrupted, in one way.
    pub fn add_corrupted(&mut self, kind: &'static str, was: f64, is: f64) {
        let [n, found] = self.corrupted.entry(kind).or_default();
        *n += 1;
        *found += usize::from(is < was);
    }

    /// The figures by name; those that are not defined are missing.
    pub fn figures(self) -> BTreeMap<String, f64> {
        let n = self.gold.len() as f64;
        let groups: Vec<(Vec<f64>, Vec<f64>)> = self.groups.into_values().collect();
        let ties = TieTable::from_groups(&groups);
        let spans = self.spans.characters.scores();
        let value = |found: Result<crate::meta::correlation::Correlation, _>| found.ok().map(|c| c.value);
        let beyond: Vec<f64> =
            self.metric.iter().zip(&self.gold).map(|(metric, gold)| metric - gold).collect();
        let found = [
            ("translations", Some(n)),
            ("acc-t", ties.calibrate(&ties.whole()).ok().map(|fit| fit.accuracy)),
            ("acc-t of a constant", ties.accuracy_of_all_ties(&ties.whole()).ok()),
            ("pearson", value(pearson(&self.gold, &self.metric))),
            ("spearman", value(spearman(&self.gold, &self.metric))),
            ("pearson of length and error", value(pearson(&self.lengths, &beyond))),
            ("span precision", Some(spans.target.precision)),
            ("span recall", Some(spans.target.recall)),
            ("span f1", Some(spans.target.f1)),
            ("span f1 of sources", Some(spans.source.f1)),
            ("errors a translation, raters", Some(self.errors[0] as f64 / n)),
            ("errors a translation, judge", Some(self.errors[1] as f64 / n)),
            ("without errors, raters", Some(self.clean[0] as f64 / n)),
            ("corrupted translations below what they were", share_found(self.corrupted.values())),
            ("within the interval", Some(self.within as f64 / self.with_interval as f64)),
            ("width of the interval", Some(self.width / self.with_interval as f64)),
            ("without errors, judge", Some(self.clean[1] as f64 / n)),
        ];
        let is_defined = |value: &f64| value.is_finite();
        let found = found.into_iter().map(|(name, value)| (name.to_owned(), value));
        let of_kind = |(kind, counts)| (format!("corrupted below: {kind}"), share_found([counts]));
        found
            .chain(self.corrupted.iter().map(of_kind))
            .filter_map(|(name, value)| Some((name, value.filter(is_defined)?)))
            .collect()
    }
}

/// The share of those found, of pairs of all and found.
fn share_found<'a>(counts: impl IntoIterator<Item = &'a [usize; 2]>) -> Option<f64> {
    let (n, found) = counts.into_iter().fold((0, 0), |sum, [n, found]| (sum.0 + n, sum.1 + found));
    (n > 0).then(|| found as f64 / n as f64)
}

/// Spans that raters marked, on both sides.
fn places(errors: &[ErrorSpan]) -> Vec<Span> {
    let span = |error: &ErrorSpan| {
        let (start, end) = (error.start?, error.end?);
        let Named { in_source, severity, .. } = named(error);
        Some(Span { start, end, in_source, severity })
    };
    errors.iter().filter_map(span).collect()
}

fn named(error: &ErrorSpan) -> Named<'_> {
    Named {
        quote: &error.span,
        in_source: error.side == Side::Source,
        place: error.start.zip(error.end),
        severity: spans::severity(&error.severity.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        meta::{
            spans::report::{SpanReport, compare},
            units::Unit,
        },
        mqm::{
            Severity,
            ratings::{RatedError, Ratings},
            weights,
        },
        segment::{Segment, lang::parse_pair},
    };

    fn segment(source: &str, hypothesis: &str) -> Segment {
        Segment {
            system: "s".into(),
            doc: "d".into(),
            ..Segment::new(parse_pair("de-en").unwrap(), source, hypothesis)
        }
    }

    fn error(span: &str, start: Option<usize>, side: Side, severity: Severity) -> ErrorSpan {
        let end = start.map(|start| start + span.chars().count());
        ErrorSpan { side, start, end, ..ErrorSpan::new("style", span, severity) }
    }

    /// The report of `tribunal meta --also spans` on the same errors.
    fn report(segment: &Segment, marked: &serde_json::Value, named: &[ErrorSpan]) -> SpanReport {
        let line = json!({
            "system": "s", "doc": "d", "seg": 0, "src_lang": "de", "tgt_lang": "en", "source": segment.source,
            "hypothesis": segment.hypothesis, "score": -1.0, "errors": named, "status": "ok",
        });
        let unit = Unit { segs: vec![0], source_starts: vec![0], target_starts: vec![0] };
        let column = vec![Some(serde_json::from_value(marked.clone()).unwrap())];
        let ratings = Ratings::from([("s".to_owned(), column)]);
        let verdicts = [serde_json::from_value(line).unwrap()];
        compare("run", &verdicts, &[unit], &[ratings], &["d".to_owned()]).unwrap()
    }

    #[test]
    fn span_f1_is_the_one_of_meta() {
        let segment = segment("der Hund, der Bär", "the dog, the bear");
        let marked = json!([
            {"start": 9, "end": 12, "category": "Style", "severity": "Minor"},
            {"start": 4, "end": 7, "category": "Style", "severity": "Neutral"},
            {"start": 13, "end": 17, "category": "Style", "severity": "Major"},
            {"start": 0, "end": 3, "category": "Style", "severity": "Major", "is_source_error": true},
        ]);
        let read: Vec<RatedError> = serde_json::from_value(marked.clone()).unwrap();
        // The first `the` is not the marked one, `dog` is no minor error, `cat` is nowhere, and of the source
        // another word is marked.
        let named = vec![
            error("the", Some(0), Side::Target, Severity::Minor),
            error("dog", Some(4), Side::Target, Severity::Minor),
            error("bear", Some(13), Side::Target, Severity::Critical),
            error("cat", None, Side::Target, Severity::Minor),
            error("Bär", Some(14), Side::Source, Severity::Major),
        ];
        let report = report(&segment, &marked, &named);
        let errors = Some(read.iter().map(|marked| marked.located(&segment).unwrap()).collect());
        let verdict = Verdict::new(-1.0, named);
        let mut held = HeldOutAgreement::default();
        held.add(&Rated::by_one(segment, errors), &verdict, weights::find("wmt").unwrap());
        let figures = held.figures();
        let ours = report.characters.target;
        let of = ["span precision", "span recall", "span f1", "span f1 of sources"].map(|name| figures[name]);
        let theirs = [ours.precision, ours.recall, ours.f1, report.characters.source.f1];
        assert_eq!(of.map(f64::to_bits), theirs.map(f64::to_bits));
        // 4 of `bear` and half of the 3 of `dog`; 3 + 3 + 4 + 3 were named, 3 + 3 + 4 marked.
        assert_eq!((ours.precision, ours.recall), (5.5 / 13.0, 5.5 / 10.0));
    }
}
