//! How well a judge agrees with the raters of held-out translations.

use std::collections::BTreeMap;

use crate::{
    judges::Verdict,
    meta::{
        correlation::{pearson, spearman},
        spans::{Overlap, Span, characters},
        ties::TieTable,
    },
    mqm::{ErrorSpan, Severity, Side, weights::Weights},
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
    spans: Overlap,
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
        self.spans.add(&characters(&places(&errors), &places(&verdict.errors)));
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
        let spans = self.spans.score();
        let value = |found: Result<crate::meta::correlation::Correlation, _>| found.ok().map(|c| c.value);
        let found = [
            ("translations", Some(n)),
            ("acc-t", ties.calibrate(&ties.whole()).ok().map(|fit| fit.accuracy)),
            ("acc-t of a constant", ties.accuracy_of_all_ties(&ties.whole()).ok()),
            ("pearson", value(pearson(&self.gold, &self.metric))),
            ("spearman", value(spearman(&self.gold, &self.metric))),
            ("span precision", Some(spans.precision)),
            ("span recall", Some(spans.recall)),
            ("span f1", Some(spans.f1)),
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

fn places(errors: &[ErrorSpan]) -> Vec<Span> {
    let span = |error: &ErrorSpan| {
        let severity = u8::from(matches!(error.severity, Severity::Major | Severity::Critical));
        let (start, end) = (error.start?, error.end?);
        (error.side == Side::Target).then_some(Span { start, end, in_source: false, severity })
    };
    errors.iter().filter_map(span).collect()
}
