//! COMET against a scripted metric: the texts that it reads, and verdicts with marked errors.

use std::sync::Arc;

use tribunal_core::{
    llm::{Estimate, EstimatedSpan, MetricTexts, Sampling},
    mqm::Severity,
    segment::Segment,
};
use tribunal_judges::{Panel, Settings, Verdict, comet, registry};
use tribunal_testing::{Estimates, document, judge};

fn segment() -> Segment {
    let one = document().remove(0);
    Segment {
        source: " Ein Tag ".into(),
        hypothesis: "Ça va très bien".into(),
        reference: Some("ref".into()),
        ..one
    }
}

/// The score is the length of the texts; the fourth and fifth letters from the end are marked.
fn estimate(texts: &MetricTexts<'_>) -> Estimate {
    let lengths =
        [texts.source, Some(texts.translation), texts.reference].map(|text| text.map_or(0, str::len));
    let translation = texts.translation;
    let end = translation.len();
    let span = |start, end, severity: &str| EstimatedSpan {
        start,
        end,
        severity: severity.into(),
        confidence: 0.75,
    };
    let spans = match end {
        0 => Vec::new(),
        _ => vec![span(0, 0, "minor"), span(end - 10, end - 5, "major")],
    };
    let score = lengths.into_iter().sum::<usize>() as f64 / 100.0;
    Estimate { score, spans, is_cut: lengths[0] > 20, ..Estimate::default() }
}

fn verdict(request: &str, settings: &Settings, segment: &Segment) -> Result<Verdict, String> {
    let panel = Panel::new(Arc::new(Estimates(estimate)), Sampling::default());
    let verdict = judge(request, settings).judge(&panel, std::slice::from_ref(segment)).remove(0);
    verdict.map_err(|error| error.to_string())
}

#[test]
fn texts_are_unchanged_and_the_reference_is_shown_or_not() {
    let with_references = Settings { has_references: true, ..Settings::default() };
    let segment = segment();
    let (source, hypothesis) = (segment.source.len(), segment.hypothesis.len());
    for (request, settings, n) in [
        ("comet", &with_references, source + hypothesis + 3),
        ("comet:reference=off", &with_references, source + hypothesis),
        ("comet", &Settings::default(), source + hypothesis),
    ] {
        let verdict = verdict(request, settings, &segment).unwrap();
        assert_eq!(verdict.score.to_bits(), (n as f64 / 100.0).to_bits(), "{request}");
        assert_eq!((verdict.raw.to_bits(), verdict.warning), (verdict.score.to_bits(), None));
    }
    let without = Segment { reference: None, ..segment.clone() };
    let error = verdict("comet:reference=on", &with_references, &without).unwrap_err();
    assert!(error.contains("no reference"), "{error}");
    let blank = Segment { source: " ".into(), hypothesis: String::new(), ..segment.clone() };
    assert!(verdict("comet", &Settings::default(), &blank).is_err());
    let empty = Segment { hypothesis: String::new(), ..segment };
    assert!(verdict("comet", &Settings::default(), &empty).unwrap().errors.is_empty());
}

#[test]
fn errors_are_verbatim_with_their_confidence() {
    let verdict = verdict("comet", &Settings::default(), &segment()).unwrap();
    let [of_special, marked] = &verdict.errors[..] else { panic!("{:?}", verdict.errors) };
    assert_eq!(
        (of_special.span.as_str(), of_special.start, of_special.severity),
        ("", None, Severity::Minor)
    );
    // `è` has two bytes.
    assert_eq!((marked.span.as_str(), marked.start, marked.end), ("très", Some(6), Some(10)));
    assert_eq!(
        (marked.severity, marked.confidence, marked.category.as_str()),
        (Severity::Major, Some(0.75), "other")
    );
    assert!((marked.weight - 5.0).abs() < 1e-12);
}

#[test]
fn a_text_that_was_cut_is_a_warning() {
    let long = Segment { source: "Ein langer Tag, der nicht endet".into(), ..segment() };
    assert_eq!(verdict("comet", &Settings::default(), &long).unwrap().warning.as_deref(), Some(comet::CUT));
}

#[test]
fn settings_without_effect_are_rejected() {
    for settings in [
        Settings { prompts: Some("prompts".into()), ..Settings::default() },
        Settings { weights: Some("wmt".into()), ..Settings::default() },
        Settings { shots: Some("shots".into()), ..Settings::default() },
    ] {
        assert!(registry::build("comet", &settings, &[]).is_err());
    }
}
