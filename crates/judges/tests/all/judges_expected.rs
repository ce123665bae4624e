//! Expected scores, from the probabilities of all scores that a judge could give.

use std::{io::Write, sync::Arc};

use tribunal_core::llm::Sampling;
use tribunal_judges::{Built, Panel, Preset, Role, Settings};

use tribunal_testing::{self, Halves, STRICT_ANSWER, Script, SeededAnswers, document, judged};

fn judge(request: &str) -> Built {
    tribunal_testing::judge(request, &Settings::default())
}

#[test]
fn expected_scores() {
    let model =
        Arc::new(SeededAnswers { answers: vec![r#"{"score": 80}"#.into()], ..SeededAnswers::default() });
    let panel = Panel::new(model.clone(), Sampling::default());
    let (mut verdicts, calls) = judged(&judge("gemba-da:score=expected"), &panel, &document()[..1]);
    let verdict = verdicts.remove(0).unwrap();
    assert!((verdict.score - 60.0).abs() < 1e-9, "half of 40, half of 80: {}", verdict.score);
    assert_eq!((verdict.raw.to_bits(), verdict.quality_score), (80f64.to_bits(), Some(80.0)));
    let (chat, continuations) = model.scored.lock().unwrap().remove(0);
    assert_eq!((chat.prefill.as_str(), continuations.len()), ("{\"score\": ", 101));
    assert_eq!((continuations[8].as_str(), continuations[100].as_str()), ("8", "100"));
    assert_eq!(calls.iter().map(|call| call.step.to_string()).collect::<Vec<_>>(), ["assess", "expect"]);
    assert!(calls[1].reply.text.contains("\"80\":-1.6"), "{}", calls[1].reply.text);
    let code = Settings { preset: Preset::Code, ..Settings::default() };
    assert!(tribunal_replication::build("gemba-da:score=expected", &code).is_err());
    assert_eq!(judge("gemba-da:score=expected").signature().method.get("score"), Some("expected"));

    // The answer of -SQM is a bare number.
    let model = Arc::new(SeededAnswers { answers: vec!["80".into()], ..SeededAnswers::default() });
    let panel = Panel::new(model.clone(), Sampling::default());
    let verdict = judged(&judge("gemba-sqm:score=expected"), &panel, &document()[..1]).0.remove(0).unwrap();
    assert!((verdict.score - 60.0).abs() < 1e-9, "half of 40, half of 80: {}", verdict.score);
    assert_eq!((verdict.raw.to_bits(), verdict.quality_score), (80f64.to_bits(), Some(80.0)));
    assert_eq!(model.scored.lock().unwrap()[0].0.prefill, "");

    // RATE's core agent gets it beside the evaluation agent's own score.
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
    let evaluator = Arc::new(SeededAnswers { answers: vec![evaluation.into()], ..SeededAnswers::default() });
    let panel = Panel::new(core.clone(), Sampling::default()).assign(Role::Evaluator, evaluator.clone());
    let verdict = judged(&judge("rate:expected=on"), &panel, &document()[..1]).0.remove(0).unwrap();
    assert_eq!(verdict.score.to_bits(), 2.5f64.to_bits());
    let told = core.asked().into_iter().find(|(chat, ..)| chat.messages().len() == 4).unwrap().0.messages()
        [3]
    .content
    .clone();
    assert!(told.contains("\"score\": 3,\n  \"expected_score\": 2.5,"), "{told}");
    assert_eq!(evaluator.scored.lock().unwrap()[0].1, ["0,", "1,", "2,", "3,", "4,"]);
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
        let model =
            Arc::new(SeededAnswers { answers: vec![STRICT_ANSWER.into()], ..SeededAnswers::default() });
        let panel = Panel::new(model.clone(), Sampling::default());
        let judge = tribunal_testing::judge(request, settings);
        assert_eq!((judge.calls().least, judge.calls().most), (1, 2));
        let verdict = judged(&judge, &panel, &document()[..1]).0.remove(0).unwrap();
        assert!((verdict.score - 60.0).abs() < 1e-9, "{request}, half of 40, half of 80: {}", verdict.score);
        assert_eq!((verdict.raw.to_bits(), verdict.quality_score), (70f64.to_bits(), Some(70.0)));
        assert_eq!(verdict.errors.len(), 2);
        let scored = model.scored.lock().unwrap();
        assert_eq!((scored.len(), scored[0].1.len()), (1, 101), "{request}");
        assert_eq!(format!("{}70}}", scored[0].0.prefill), STRICT_ANSWER, "all that was written before it");
    }
}

#[test]
fn only_a_score_that_is_asked_for_has_a_mean() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let (strict, drawn) = (Settings::default(), with_examples(&mut file));
    let paper = Settings { preset: Preset::Paper, ..Settings::default() };
    let refused = |request: &str, settings: &Settings| {
        tribunal_replication::build(request, settings).err().unwrap().to_string()
    };
    insta::assert_snapshot!(
        [
            refused("gemba-mqm:score=expected", &strict),
            refused("gemba-mqm:da=on,score=expected", &strict),
            refused("gemba-mqm:form=json,score=expected", &strict),
            refused("gemba-mqm:form=json,da=on,score=expected", &paper),
            refused("fsp:score=expected", &strict),
            refused("fsp:score=expected-da", &paper),
            refused("gmicl:score=expected", &drawn),
            refused("gmicl:da=off,score=expected-da", &drawn),
            refused("gemba-mqm:form=json,threshold=en-de.toml", &strict),
            refused("fsp:threshold=en-de.toml", &strict),
        ]
        .join("\n"),
        @"
        `score=expected` is the mean of the quality score, which only `da=on` asks for; hint: form=json,da=on,score=expected
        `explain` and `da` are options of the JSON form; hint: add form=json
        `score=expected` is the mean of the quality score, which only `da=on` asks for; hint: form=json,da=on,score=expected
        probabilities are weighed within the layout of `strict`; hint: use preset `strict`, or leave `score` out
        option `score` of `fsp` cannot be `expected`
        hint: it can be errors, da or expected-da
        probabilities are weighed within the layout of `strict`; hint: use preset `strict`, or leave `score` out
        option `score` of `gmicl` cannot be `expected`
        hint: it can be errors, da or expected-da
        `score=da` needs the score that `da=off` does not ask for; hint: leave one out
        `gemba-mqm` has no option `threshold`
        hint: its options are form, shots, explain, da, score, reasoning, reasoning-budget
        `fsp` has no option `threshold`
        hint: its options are shots, explain, score, sentences, omissions, window, reasoning, reasoning-budget
        "
    );
}

#[test]
fn the_score_of_esa_is_weighed_behind_its_spans() {
    let answer = |question: &str| {
        let spans = "Major:\nno-error\nMinor:\nfluency/grammar - \"Bank\"";
        if question.contains("Score (0-100)") { "70".to_owned() } else { spans.to_owned() }
    };
    let panel = Panel::new(Arc::new(Halves(answer)), Sampling::default());
    let (mut verdicts, calls) = judged(&judge("gemba-esa:score=expected"), &panel, &document()[..1]);
    let verdict = verdicts.remove(0).unwrap();
    assert!((verdict.score - 60.0).abs() < 1e-9, "{}", verdict.score);
    assert_eq!((verdict.raw.to_bits(), verdict.quality_score), (70f64.to_bits(), Some(70.0)));
    let steps: Vec<String> = calls.iter().map(|call| call.step.to_string()).collect();
    assert_eq!(steps, ["spans", "score", "expect"]);
    let code = Settings { preset: Preset::Code, ..Settings::default() };
    assert!(tribunal_replication::build("gemba-esa:score=expected", &code).is_err());
}
