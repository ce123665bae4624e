//! How well a judge agrees with the raters of held-out translations.

use std::collections::BTreeMap;

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
    tune::rated::Rated,
};

/// Figures by name, by language pair.
pub type Figures = BTreeMap<String, BTreeMap<String, f64>>;

/// Held-out translations of a language pair, as raters and as a judge see them.
#[derive(Default)]
pub struct Held {
    gold: Vec<f64>,
    metric: Vec<f64>,
    /// By source.
    groups: BTreeMap<(String, usize), (Vec<f64>, Vec<f64>)>,
    spans: Counts,
    /// Errors and translations without one, of raters and of the judge.
    errors: [usize; 2],
    clean: [usize; 2],
}

impl Held {
    /// Takes a translation with the raters' errors and a verdict.
    pub fn add(&mut self, rated: &Rated, verdict: &Verdict, weights: &Weights) {
        let Rated { segment, errors } = rated;
        let mut errors = errors.clone().unwrap_or_default();
        weights.weigh(&mut errors);
        let gold = weights.score(&errors);
        self.gold.push(gold);
        self.metric.push(verdict.score);
        let group = self.groups.entry((segment.doc.clone(), segment.seg)).or_default();
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

    /// The figures by name; those that are not defined are missing.
    #[must_use]
    pub fn figures(self) -> BTreeMap<String, f64> {
        let n = self.gold.len() as f64;
        let groups: Vec<(Vec<f64>, Vec<f64>)> = self.groups.into_values().collect();
        let ties = TieTable::from_groups(&groups);
        let spans = self.spans.characters.scores();
        let value = |found: Result<crate::meta::correlation::Correlation, _>| found.ok().map(|c| c.value);
        let found = [
            ("translations", Some(n)),
            ("acc-t", ties.calibrate(&ties.whole()).ok().map(|fit| fit.accuracy)),
            ("acc-t of a constant", ties.accuracy_of_all_ties(&ties.whole()).ok()),
            ("pearson", value(pearson(&self.gold, &self.metric))),
            ("spearman", value(spearman(&self.gold, &self.metric))),
            ("span precision", Some(spans.target.precision)),
            ("span recall", Some(spans.target.recall)),
            ("span f1", Some(spans.target.f1)),
            ("span f1 of sources", Some(spans.source.f1)),
            ("errors a translation, raters", Some(self.errors[0] as f64 / n)),
            ("errors a translation, judge", Some(self.errors[1] as f64 / n)),
            ("without errors, raters", Some(self.clean[0] as f64 / n)),
            ("without errors, judge", Some(self.clean[1] as f64 / n)),
        ];
        let is_defined = |value: &f64| value.is_finite();
        found
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value.filter(is_defined)?)))
            .collect()
    }
}

/// What raters marked, on both sides.
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
        meta::{rating::Ratings, spans::report::compare, units::Unit},
        mqm::weights,
        segment::Segment,
    };

    /// What `tribunal meta --spans` says of the same errors, on both sides.
    #[test]
    fn span_f1_is_the_one_of_meta() {
        let (source, target) = ("der Hund, der Bär", "the dog, the bear");
        let lang = |code| crate::segment::Lang::parse(code).unwrap();
        let segment = Segment {
            system: "s".into(),
            doc: "d".into(),
            seg: 0,
            src_lang: lang("de"),
            tgt_lang: lang("en"),
            source: source.into(),
            hypothesis: target.into(),
            reference: None,
        };
        let marked = |start: usize, end: usize, severity: &str, is_source_error: bool| json!({"start": start, "end": end, "category": "Style", "severity": severity, "is_source_error": is_source_error});
        let marked = [
            marked(9, 12, "Minor", false),
            marked(4, 7, "Neutral", false),
            marked(13, 17, "Major", false),
            marked(0, 3, "Major", true),
        ];
        let mut errors = Vec::new();
        let mut column = Vec::new();
        for marked in marked {
            let read: crate::mqm::ratings::Marked = serde_json::from_value(marked.clone()).unwrap();
            errors.push(read.located(&segment).unwrap());
            column.push(serde_json::from_value(marked).unwrap());
        }
        // The first `the` is not the marked one, `dog` is no minor error, `cat` is nowhere, and of the source `Bär`
        // is not marked.
        let named = [
            ("the", 0, false),
            ("dog", 4, false),
            ("bear", 13, false),
            ("cat", 99, false),
            ("Bär", 14, true),
        ];
        let mut named: Vec<ErrorSpan> = named
            .into_iter()
            .map(|(span, start, in_source)| {
                let place = Some(start).filter(|start| *start < 99);
                let side = if in_source { Side::Source } else { Side::Target };
                let end = place.map(|start| start + span.chars().count());
                ErrorSpan {
                    side,
                    start: place,
                    end,
                    ..ErrorSpan::new("style", span, crate::mqm::Severity::Minor)
                }
            })
            .collect();
        named[2].severity = crate::mqm::Severity::Major;
        let errors_judged: Vec<_> = named
            .iter()
            .map(|error| json!({"span": error.span, "side": error.side, "start": error.start, "end": error.end, "category": "style", "severity": error.severity.to_string()}))
            .collect();
        let line = json!({"system": "s", "doc": "d", "seg": 0, "src_lang": "de", "tgt_lang": "en", "source": source,
            "hypothesis": target, "score": -1.0, "errors": errors_judged, "status": "ok"});
        let unit = Unit { segs: vec![0], source_starts: vec![0], target_starts: vec![0] };
        let ratings = Ratings::from([("s".to_owned(), vec![Some(column)])]);
        let verdicts = [serde_json::from_value(line).unwrap()];
        let report = compare("run", &verdicts, &[unit], &[ratings], &["d".to_owned()]).unwrap();

        let mut held = Held::default();
        let verdict = Verdict { score: -1.0, raw: -1.0, quality_score: None, errors: named };
        let rated = Rated { segment, errors: Some(errors) };
        held.add(&rated, &verdict, weights::find("wmt").unwrap());
        let figures = held.figures();
        let of = |name: &str| figures[name];
        let [ours, sources] = [report.characters.target, report.characters.source];
        assert_eq!(
            [of("span precision"), of("span recall"), of("span f1")],
            [ours.precision, ours.recall, ours.f1]
        );
        assert_eq!(of("span f1 of sources"), sources.f1);
        // 4 of `bear` and half of the 3 of `dog`; 3 + 3 + 4 + 3 were named, 3 + 3 + 4 marked.
        assert_eq!((ours.precision, ours.recall), (5.5 / 13.0, 5.5 / 10.0));
    }
}
