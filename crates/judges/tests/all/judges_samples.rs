//! Samples of a judge at several seeds, merged, and a judge's confidence in its spans.

use std::{fmt::Write, sync::Arc};

use tribunal_core::llm::Sampling;
use tribunal_judges::{Built, Panel, Settings, Verdict};

use tribunal_testing::{self, Preview as _, SeededAnswers, document, judged};

fn judge(request: &str) -> Built {
    tribunal_testing::judge(request, &Settings::default())
}

fn show(verdict: &Verdict) -> String {
    let mut text =
        format!("score {} raw {} quality {:?}\n", verdict.score, verdict.raw, verdict.quality_score);
    for e in &verdict.errors {
        writeln!(
            text,
            "  {} {} `{}` weight {} confidence {:?}",
            e.severity, e.category, e.span, e.weight, e.confidence
        )
        .unwrap();
    }
    text
}

fn answer(errors: &[(&str, &str, &str, &str)]) -> String {
    let errors: Vec<_> = errors
        .iter()
        .map(|(category, kind, span, severity)| {
            serde_json::json!({
                "error_category": category, "error_type": kind, "error_span": span, "explanation": "", "severity": severity,
            })
        })
        .collect();
    serde_json::json!({ "errors": errors, "quality_score": 50 }).to_string()
}

#[test]
fn samples_are_runs_at_the_seeds_that_follow() {
    let answers = vec![
        answer(&[("accuracy", "mistranslation", "Bank", "major"), ("fluency", "punctuation", ".", "minor")]),
        answer(&[("style", "awkward", "zur Bank", "minor")]),
        answer(&[("accuracy", "mistranslation", "zur Bank", "major")]),
        "I cannot say.".into(),
    ];
    let sampling = Sampling { temperature: 0.7, seed: 4, ..Sampling::default() };
    let verdict = |n: usize, seed: u64| {
        let model = Arc::new(SeededAnswers { answers: answers.clone(), ..SeededAnswers::default() });
        let panel = Panel::new(model, Sampling { seed, ..sampling.clone() });
        let judge = judge("fsp:shots=0").sampled(n, &sampling).unwrap();
        let (mut verdicts, calls) = judged(&judge, &panel, &document()[..1]);
        (verdicts.remove(0), calls.len(), judge)
    };
    let (merged, calls, sampled) = verdict(3, 4);
    assert_eq!(calls, 3);
    assert_eq!(sampled.preview(&document()[..1]).len(), 3);
    assert_eq!(sampled.signature().method.get("samples"), Some("3"));
    let merged = merged.unwrap();
    insta::assert_snapshot!(show(&merged), @"
    score -4 raw -4 quality Some(50.0)
      major accuracy/mistranslation `Bank` weight 3.6666666666666665 confidence Some(1.0)
      minor fluency/punctuation `.` weight 0.3333333333333333 confidence Some(0.3333333333333333)
    ");
    let alone: Vec<f64> = (4..7).map(|seed| verdict(1, seed).0.unwrap().score).collect();
    assert_eq!(merged.score.to_bits(), (alone.iter().sum::<f64>() / 3.0).to_bits());
    // One of four fails; two of two at seeds 7 and 11 do.
    assert!(verdict(4, 4).0.is_ok());
    assert!(verdict(2, 7).0.is_err());

    let greedy = judge("fsp").sampled(2, &Sampling::default()).err().unwrap().to_string();
    assert_eq!(greedy, "2 samples at temperature 0 are the same");
    assert!(judge("thinking").sampled(2, &Sampling::default()).is_ok(), "it has its own temperature");
    assert!(judge("thinking:temperature=0").sampled(2, &sampling).is_err());
}

#[test]
fn every_span_has_a_confidence() {
    let json = answer(&[("accuracy", "mistranslation", "Bank", "major")]);
    let bare = json.replace(",\"quality_score\":50", "");
    let text = "Critical:\nno-error\nMajor:\naccuracy/mistranslation - \"Bank\"\nMinor:\nno-error\n";
    let mut shown = String::new();
    for (request, answer) in [
        ("fsp:shots=0", json.as_str()),
        ("gemba-mqm:form=json", &bare),
        ("gemba-mqm", text),
        ("thinking", &bare),
        ("eaprompt:steps=1", r#"{"major": [{"span": "Bank", "category": "mistranslation"}], "minor": []}"#),
        ("rubric-mqm", r#"{"errors": [{"category": "mistranslation", "span": "Bank", "severity": 3}]}"#),
    ] {
        let model = Arc::new(SeededAnswers { answers: vec![answer.into()], ..SeededAnswers::default() });
        let verdict =
            judged(&judge(request), &Panel::new(model, Sampling::default()), &document()[..1]).0.remove(0);
        let confidence = verdict.unwrap().errors[0].confidence.unwrap();
        writeln!(shown, "{request}: {confidence}").unwrap();
    }
    insta::assert_snapshot!(shown, @"
    fsp:shots=0: 0.9775
    gemba-mqm:form=json: 0.9775
    gemba-mqm: 0.9655
    thinking: 0.9775
    eaprompt:steps=1: 0.9228
    rubric-mqm: 0.9649
    ");
}
