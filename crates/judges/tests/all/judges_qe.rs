//! QE against a scripted estimator: the texts that it reads, the scale of its scores, and its marks.

use std::sync::Arc;

use tribunal_core::{
    llm::{Estimate, MetricTexts, Reading, Sampling},
    mqm::Severity,
    segment::Segment,
};
use tribunal_judges::{Panel, Settings, Verdict, comet, registry};
use tribunal_testing::{Estimates, judge, translation};

/// Tokens end behind every third byte. Those of the word `Donnerstag` are marked, as are those behind `!`.
fn estimate(texts: &MetricTexts<'_>) -> Estimate {
    assert_eq!(texts.reference, None);
    let (text, source) = (texts.translation, texts.source.unwrap());
    let ends: Vec<usize> = (3..text.len()).step_by(3).chain([text.len()]).collect();
    let thursday = text.find("Donnerstag").map(|start| start + 4..start + 6);
    let tags = ends.iter().map(|end| {
        let is_marked = thursday.as_ref().is_some_and(|range| range.start < *end && end - 3 < range.end);
        let is_late = text.find('!').is_some_and(|at| at + 3 < *end);
        if is_marked { vec![0.99, 0.98] } else { vec![if is_late { 0.9 } else { 0.001 }, 0.0] }
    });
    let tags = Reading { values: tags.collect(), ends: ends.clone() };
    let score = if source.contains("bad") { -40.0 } else { 40.0 };
    Estimate { score, tags: Some(tags), is_cut: source.len() > 40, ..Estimate::default() }
}

fn verdict(request: &str, segment: &Segment) -> Result<Verdict, String> {
    let panel = Panel::new(Arc::new(Estimates(estimate)), Sampling::default());
    let verdict = judge(request, &Settings::default()).judge(&panel, std::slice::from_ref(segment)).remove(0);
    verdict.map_err(|error| error.to_string())
}

fn of(source: &str, hypothesis: &str) -> Segment {
    Segment { reference: Some("r".into()), ..translation(("en", "de"), source, hypothesis) }
}

#[test]
fn scores_are_penalties_and_marks_are_whole_words() {
    let found = verdict("qe", &of("On Tuesday.", "Am Donnerstag, spät! Ja doch")).unwrap();
    assert_eq!(found.score.to_bits(), 0f64.to_bits(), "never above zero");
    let marks: Vec<_> =
        found.errors.iter().map(|e| (e.span.as_str(), e.start, e.severity, e.weight)).collect();
    assert_eq!(
        marks,
        [("Donnerstag", Some(3), Severity::Major, 5.0), ("Ja doch", Some(21), Severity::Minor, 1.0)]
    );
    assert_eq!(found.errors[0].confidence, Some(0.99));
    let bad = verdict("qe", &of("bad", "Gut.")).unwrap();
    assert_eq!((bad.score, bad.errors.len(), bad.warning), (-25.0, 0, None));
    let long = verdict("qe", &of(&"a text that is long ".repeat(3), "Gut.")).unwrap();
    assert_eq!(long.warning.as_deref(), Some(comet::CUT));
}

#[test]
fn rule_based_checks_can_be_left_out() {
    let repeated = of("He went home.", "Er ging ging ging ging ging heim.");
    assert_eq!(verdict("qe", &repeated).unwrap().errors.len(), 1);
    assert!(verdict("qe:witness=off", &repeated).unwrap().errors.is_empty());
}

#[test]
fn empty_texts_have_no_verdict() {
    for (source, hypothesis, said) in
        [(" ", "Ja.", "the source is empty"), ("Yes.", "\n", "the translation is empty"), ("", " ", "")]
    {
        let error = verdict("qe", &of(source, hypothesis)).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_fit_is_signed_and_other_files_are_refused() {
    let built = judge("qe", &Settings::default());
    assert!(built.judge.estimator.is_some() && built.judge.trained_on.is_some());
    assert!(
        registry::build("qe:fit=Cargo.toml", &Settings::default(), &[])
            .err()
            .unwrap()
            .to_string()
            .contains("not a fit for `qe`")
    );
    for settings in [
        Settings { prompts: Some("prompts".into()), ..Settings::default() },
        Settings { shots: Some("shots".into()), ..Settings::default() },
    ] {
        assert!(registry::build("qe", &settings, &[]).is_err());
    }
}
