//! Costs of errors: once at each of an error's occurrences however often it is named, and without limits at
//! document granularity.

use tribunal_judges::{Granularity, Preset, Settings};

use tribunal_testing::{Script, document, judge, run, show};

/// A JSON answer that names these errors: (span, severity).
fn answer(errors: &[(&str, &str)], extra: &str) -> String {
    let entry = |(span, severity): &(&str, &str)| {
        format!(
            r#"{{"error_category": "accuracy", "error_type": "mistranslation", "error_span": "{span}", "explanation": "", "severity": "{severity}"}}"#
        )
    };
    let entries: Vec<String> = errors.iter().map(entry).collect();
    format!(r#"{{"errors": [{}]{extra}}}"#, entries.join(", "))
}

#[test]
fn one_span_and_type_is_one_error() {
    let group = &document()[..1];
    let span = group[0].hypothesis.split_whitespace().next().unwrap();
    let said = answer(&[(span, "minor"), (span, "major"), (span, "minor")], "");
    let judge = judge("gemba-mqm:form=json", &Settings::default());
    let verdict = run(&judge, &Script::says(&said), group).remove(0).unwrap();
    assert_eq!(verdict.score.to_bits(), (-5.0f64).to_bits(), "{}", show(&Ok(verdict.clone())));
    assert_eq!((verdict.errors.len(), verdict.errors[0].times), (1, 3));
}

#[test]
fn an_error_in_two_places_is_two_errors() {
    let mut group = document()[..1].to_vec();
    group[0].hypothesis = "der Hund, der Bank".into();
    let judged = |method: &str, preset, said: &str| {
        let judge = judge(method, &Settings { preset, ..Settings::default() });
        let verdict = run(&judge, &Script::says(said), &group).remove(0).unwrap();
        let places: Vec<_> = verdict.errors.iter().map(|e| (e.start.unwrap(), e.times)).collect();
        (verdict.score, places)
    };
    let said = answer(&[("der", "minor"), ("der", "minor"), ("der", "major")], "");
    let quality = said.replace("]}", r#"], "quality_score": 50}"#);
    for (method, said) in [("gemba-mqm:form=json", &said), ("fsp", &quality)] {
        let (score, places) = judged(method, Preset::Strict, said);
        assert_eq!((score, places), (-6.0, vec![(0, 1), (10, 2)]), "{method}");
        let (score, places) = judged(method, Preset::Paper, said);
        assert_eq!((score, places), (-7.0, vec![(0, 1), (10, 1), (10, 1)]), "{method}");
    }
}

#[test]
fn errors_of_a_whole_document_do_not_saturate() {
    let group = document();
    let words: Vec<&str> = group.iter().flat_map(|s| s.hypothesis.split_whitespace()).collect();
    let mut spans: Vec<&str> = words.iter().map(|word| word.trim_matches('.')).collect();
    spans.sort_unstable();
    spans.dedup();
    assert!(spans.len() >= 7, "{spans:?}");
    let errors: Vec<(&str, &str)> = spans[..7].iter().map(|span| (*span, "major")).collect();
    let score = |settings: &Settings| {
        let judge = judge("gemba-mqm:form=json", settings);
        let verdict = run(&judge, &Script::says(&answer(&errors, "")), &group).remove(0).unwrap();
        (verdict.score, judge.signature().prompts.get("weights").unwrap().to_owned())
    };
    let whole = Settings { granularity: Some(Granularity::Doc), ..Settings::default() };
    assert_eq!(score(&whole), (-35.0, "gemba-sum".into()));
    let asked = Settings { weights: Some("gemba".into()), ..whole };
    assert_eq!(score(&asked), (-25.0, "gemba".into()));
}

/// Weights follow from the run: `fsp` and `gemba-mqm` have one rule, whatever the hypothesis.
#[test]
fn translations_of_one_source_are_weighed_alike() {
    let said = |n| answer(&vec![("Satz", "major"); n], r#", "quality_score": 50"#);
    let score = |hypothesis: &str, granularity, n| {
        let mut group = document()[..1].to_vec();
        group[0].hypothesis = hypothesis.into();
        let judge = judge("fsp:sentences=off", &Settings { granularity, ..Settings::default() });
        run(&judge, &Script::says(&said(n)), &group).remove(0).unwrap().score
    };
    let in_one = "Satz und Satz und Satz und Satz und Satz und Satz und Satz.";
    let in_seven = "Satz. Satz. Satz. Satz. Satz. Satz. Satz.";
    let in_lines = "Satz und Satz und Satz\nund Satz und Satz und Satz und Satz.";
    for (granularity, expected) in
        [(None, -35.0_f64), (Some(Granularity::Doc), -35.0), (Some(Granularity::Seg), -25.0)]
    {
        for hypothesis in [in_one, in_seven, in_lines] {
            let score = score(hypothesis, granularity, 7);
            assert_eq!(score.to_bits(), expected.to_bits(), "{granularity:?} {hypothesis}");
        }
    }
    for granularity in [Granularity::Seg, Granularity::Doc, Granularity::FiveDoc] {
        for preset in [Preset::Paper, Preset::Strict] {
            let settings = Settings { granularity: Some(granularity), preset, ..Settings::default() };
            let weights = |method: &str| {
                judge(method, &settings).signature().prompts.get("weights").unwrap().to_owned()
            };
            assert_eq!(weights("fsp"), weights("gemba-mqm:form=json"), "{granularity}");
            assert_eq!(weights("fsp") == "gemba", granularity == Granularity::Seg);
        }
    }
}

#[test]
fn a_segment_that_is_a_document_does_not_saturate_under_fsp() {
    let mut group = document();
    group.truncate(1);
    group[0].hypothesis = (0..7).map(|i| format!("Satz {i} hier. ")).collect();
    let said = answer(&[("Satz", "major")], r#", "quality_score": 50"#);
    let score = |settings: &Settings| {
        let judge = judge("fsp", settings);
        run(&judge, &Script::says(&said), &group).remove(0).unwrap().score
    };
    assert_eq!(score(&Settings::default()).to_bits(), (-35.0f64).to_bits(), "an error in each sentence");
    let asked = Settings { weights: Some("gemba".into()), ..Settings::default() };
    assert_eq!(score(&asked).to_bits(), (-25.0f64).to_bits());
    for (settings, weights) in [(Settings::default(), "gemba-sum"), (asked, "gemba")] {
        assert_eq!(judge("fsp", &settings).signature().prompts.get("weights"), Some(weights));
    }
}

#[test]
fn critical_errors_cost_something_under_every_preset() {
    use tribunal_core::mqm::{Severity, weights::PRESETS};
    for weights in PRESETS {
        let penalty = |severity| weights.penalty(severity, "accuracy/mistranslation");
        assert!(penalty(Severity::Critical) >= penalty(Severity::Major), "{}", weights.name);
        assert!(penalty(Severity::Major) > penalty(Severity::Minor), "{}", weights.name);
    }
}

#[test]
fn only_our_preset_merges_repeats() {
    let group = &document()[..1];
    let span = group[0].hypothesis.split_whitespace().next().unwrap();
    let block = format!(
        "Critical:\nno-error\nMajor:\naccuracy/mistranslation - \"{span}\"\naccuracy/mistranslation - \"{span}\"\nMinor:\nno-error"
    );
    let score = |preset| {
        let judge = judge("gemba-mqm", &Settings { preset, ..Settings::default() });
        run(&judge, &Script::says(&block), group).remove(0).unwrap().score
    };
    for preset in [Preset::Paper, Preset::Code] {
        assert_eq!(score(preset).to_bits(), (-10.0f64).to_bits(), "as the authors' code counts");
    }
}
