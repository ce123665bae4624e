//! Expected scores, from the probabilities of all scores that a judge could give.

use std::{io::Write, sync::Arc};

use tribunal::{
    judges::{Built, Panel, Preset, Role, Settings, Verdict, registry},
    llm::Sampling,
};

use crate::fakes::{
    self, Brief, Moody, Odds, STRICT_ANSWER, Script, document, judged, strict_answer, tiny_engine,
};

fn judge(request: &str) -> Built {
    fakes::judge(request, &Settings::default())
}

#[test]
fn expected_scores() {
    let model = Arc::new(Moody { answers: vec![r#"{"score": 80}"#.into()], ..Moody::default() });
    let panel = Panel::new(model.clone(), Sampling::default());
    let (mut verdicts, calls) = judged(&judge("gemba-da:score=expected"), &panel, &document()[..1]);
    let verdict = verdicts.remove(0).unwrap();
    assert!((verdict.score - 60.0).abs() < 1e-9, "half of 40, half of 80: {}", verdict.score);
    assert_eq!((verdict.raw.to_bits(), verdict.quality_score), (80f64.to_bits(), Some(80.0)));
    let (chat, continuations) = model.weighed.lock().unwrap().remove(0);
    assert_eq!((chat.prefill.as_str(), continuations.len()), ("{\"score\": ", 101));
    assert_eq!((continuations[8].as_str(), continuations[100].as_str()), ("8", "100"));
    assert_eq!(calls.iter().map(|call| call.step.to_string()).collect::<Vec<_>>(), ["assess", "expect"]);
    assert!(calls[1].reply.text.contains("\"80\":-1.6"), "{}", calls[1].reply.text);
    let code = Settings { preset: Preset::Code, ..Settings::default() };
    assert!(registry::build("gemba-da:score=expected", &code).is_err());
    assert_eq!(judge("gemba-da:score=expected").signature().method.get("score"), Some("expected"));

    // The answer of -SQM is a bare number.
    let model = Arc::new(Moody { answers: vec!["80".into()], ..Moody::default() });
    let panel = Panel::new(model.clone(), Sampling::default());
    let verdict = judged(&judge("gemba-sqm:score=expected"), &panel, &document()[..1]).0.remove(0).unwrap();
    assert!((verdict.score - 60.0).abs() < 1e-9, "half of 40, half of 80: {}", verdict.score);
    assert_eq!((verdict.raw.to_bits(), verdict.quality_score), (80f64.to_bits(), Some(80.0)));
    assert_eq!(model.weighed.lock().unwrap()[0].0.prefill, "");

    // RATE's core agent sees it beside the evaluation agent's own score.
    let turn = |name: &str, arguments: serde_json::Value| {
        serde_json::json!({ "thought": "", "tool_call": { "name": name, "arguments": arguments } })
            .to_string()
    };
    let core = Arc::new(Script::new().on(
        "",
        &[
            &turn("general_evaluation_agent", serde_json::json!({ "specific_instruction": "" })),
            &turn("finish_evaluation", serde_json::json!({ "final_score": 2.5, "final_rationale": "" })),
        ],
    ));
    let evaluation = r#"{"score": 3, "confidence": 0.9, "rationale": "", "error_spans": [], "suspected_knowledge_gaps": []}"#;
    let evaluator = Arc::new(Moody { answers: vec![evaluation.into()], ..Moody::default() });
    let panel = Panel::new(core.clone(), Sampling::default()).seat(Role::Evaluator, evaluator.clone());
    let verdict = judged(&judge("rate:expected=on"), &panel, &document()[..1]).0.remove(0).unwrap();
    assert_eq!(verdict.score.to_bits(), 2.5f64.to_bits());
    let told =
        core.asked().into_iter().find(|(chat, ..)| chat.turns.len() == 4).unwrap().0.turns[3].content.clone();
    assert!(told.contains("\"score\": 3,\n  \"expected_score\": 2.5,"), "{told}");
    assert_eq!(evaluator.weighed.lock().unwrap()[0].1, ["0,", "1,", "2,", "3,", "4,"]);
}

/// Five rated translations for gmicl to draw from.
fn with_examples(file: &mut tempfile::NamedTempFile) -> Settings {
    let line = r#"{"source_lang":"A","source":"s","target_lang":"B","target":"t","errors":[]}"#;
    write!(file, "{}", [line; 5].join("\n")).unwrap();
    Settings { shots: Some(file.path().into()), ..Settings::default() }
}

#[test]
fn the_quality_score_behind_the_errors() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let (strict, drawn) = (Settings::default(), with_examples(&mut file));
    for (request, settings) in [
        ("fsp:score=expected-da", &strict),
        ("gmicl:score=expected-da", &drawn),
        ("gemba-mqm:form=json,da=on,score=expected", &strict),
    ] {
        let model = Arc::new(Moody { answers: vec![STRICT_ANSWER.into()], ..Moody::default() });
        let panel = Panel::new(model.clone(), Sampling::default());
        let judge = fakes::judge(request, settings);
        assert_eq!((judge.calls().least, judge.calls().most), (2, 2));
        let verdict = judged(&judge, &panel, &document()[..1]).0.remove(0).unwrap();
        assert!((verdict.score - 60.0).abs() < 1e-9, "{request}, half of 40, half of 80: {}", verdict.score);
        assert_eq!((verdict.raw.to_bits(), verdict.quality_score), (70f64.to_bits(), Some(70.0)));
        assert_eq!(verdict.errors.len(), 2);
        let weighed = model.weighed.lock().unwrap();
        assert_eq!((weighed.len(), weighed[0].1.len()), (1, 101), "{request}");
        assert_eq!(format!("{}70}}", weighed[0].0.prefill), STRICT_ANSWER, "all that was written before it");
    }
}

fn odds(request: &str, settings: &Settings, answer: fn(&str) -> String) -> (Verdict, Vec<String>) {
    let panel = Panel::new(Arc::new(Odds(answer)), Sampling::default());
    let (mut verdicts, calls) = judged(&fakes::judge(request, settings), &panel, &document()[..1]);
    (verdicts.remove(0).unwrap(), calls.iter().map(|call| call.step.to_string()).collect())
}

#[test]
fn errors_count_by_their_probability() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let (strict, drawn) = (Settings::default(), with_examples(&mut file));
    // A tenth of 25, three tenths of 5, six tenths of 1: 4.6, in full for the first error, three quarters for the second.
    for (request, settings, answer) in [
        ("fsp:score=expected", &strict, (|_: &str| STRICT_ANSWER.to_owned()) as fn(&str) -> String),
        ("gmicl:score=expected", &drawn, |_| STRICT_ANSWER.to_owned()),
        ("gemba-mqm:form=json,score=expected", &strict, |_| strict_answer(true, false)),
        ("gemba-mqm:form=json,explain=off,score=expected", &strict, |_| strict_answer(false, false)),
    ] {
        let (verdict, steps) = odds(request, settings, answer);
        let weights: Vec<f64> = verdict.errors.iter().map(|error| error.weight).collect();
        assert!(
            (weights[0] - 4.6).abs() < 1e-9 && (weights[1] - 3.45).abs() < 1e-9,
            "{request}: {weights:?}"
        );
        assert!((verdict.score + 8.05).abs() < 1e-9, "{request}: {}", verdict.score);
        assert_eq!(verdict.raw.to_bits(), (-6f64).to_bits(), "as written: a major and a minor error");
        let asked = ["expect/error@1", "expect/severity@1", "expect/error@2", "expect/severity@2"];
        assert_eq!(steps[1..], asked, "{request}");
    }
    let (verdict, steps) =
        odds("gemba-mqm:form=json,score=expected", &strict, |_| r#"{"errors": []}"#.to_owned());
    assert_eq!((verdict.score.to_bits(), steps.len()), (0f64.to_bits(), 1));
    for request in ["fsp:score=expected", "fsp:score=expected-da", "gemba-mqm:form=json,score=expected"] {
        let paper = Settings { preset: Preset::Paper, ..Settings::default() };
        let error = registry::build(request, &paper).err().unwrap().to_string();
        assert!(error.contains("use preset `strict`"), "{error}");
    }
    let error = registry::build("gemba-mqm:score=expected", &strict).err().unwrap().to_string();
    assert!(error.contains("add form=json"), "{error}");
}

#[test]
fn the_score_of_esa_is_weighed_behind_its_spans() {
    let answer = |question: &str| {
        let spans = "Major:\nno-error\nMinor:\nfluency/grammar - \"Bank\"";
        if question.contains("Score (0-100)") { "70".to_owned() } else { spans.to_owned() }
    };
    let (verdict, steps) = odds("gemba-esa:score=expected", &Settings::default(), answer);
    assert!((verdict.score - 60.0).abs() < 1e-9, "{}", verdict.score);
    assert_eq!((verdict.raw.to_bits(), verdict.quality_score), (70f64.to_bits(), Some(70.0)));
    assert_eq!(steps, ["spans", "score", "expect"]);
    let code = Settings { preset: Preset::Code, ..Settings::default() };
    assert!(registry::build("gemba-esa:score=expected", &code).is_err());
}

#[test]
fn whatever_a_form_allows_has_its_chances() {
    let llm = Arc::new(Brief(tiny_engine("qwen2", 16, 2048)));
    let (mut n_errors, mut n_whole) = (0, 0);
    for seed in 0..6 {
        for request in ["fsp:score=expected,explain=off", "gemba-mqm:form=json,score=expected,explain=off"] {
            let settings = Settings { max_tokens: Some(400), ..Settings::default() };
            let panel = Panel::new(llm.clone(), Sampling { seed, ..Sampling::default() });
            for verdict in judged(&fakes::judge(request, &settings), &panel, &document()).0 {
                match verdict {
                    Err(error) => assert!(error.to_string().contains("budget"), "{error}"),
                    Ok(verdict) => {
                        n_whole += 1;
                        n_errors += verdict.errors.len();
                        assert!((-25.0..=0.0).contains(&verdict.score), "{}", verdict.score);
                        assert!(verdict.errors.iter().all(|error| (0.0..=25.0).contains(&error.weight)));
                    }
                }
            }
        }
    }
    assert!(n_whole > 3 && n_errors > 3, "{n_whole} answers with {n_errors} errors");
}
