//! Strict judges against the engine with a model of random weights: the judges can read every answer that
//! their forms allow. The prompts are not shown to the model; their forms are.

use std::{fmt::Write, sync::Arc};

use tribunal::{
    judges::{Built, Error, Granularity, Panel, Settings, rubric_mqm},
    llm::Sampling,
};

use crate::fakes::{Babble, Noise, Within, document, judge, judged, tiny_engine};

/// Every verdict is there.
fn check(name: &str, judge: &Built, llm: &Arc<Babble>) {
    for seed in 0..8 {
        let panel = Panel::new(llm.clone(), Sampling { seed, ..Sampling::default() });
        for verdict in judged(judge, &panel, &document()).0 {
            verdict.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}

#[test]
fn what_strict_forms_allow_is_read() {
    let llm = Arc::new(Babble(tiny_engine("qwen2", 8, 640)));
    let short =
        Settings { max_tokens: Some(160), granularity: Some(Granularity::Seg), ..Settings::default() };
    for request in [
        "gemba-da",
        "gemba-sqm",
        "gemba-stars",
        "gemba-classes",
        "gemba-mqm",
        "gemba-mqm:shots=0",
        "gemba-mqm:form=json",
        "gemba-esa",
        "eaprompt",
        "eaprompt:count=listed",
        "eaprompt:steps=1",
        "rubric-mqm",
        "rubric-mqm:scenario=deepq-4",
        "rubric-mqm:scenario=deepcat",
        "fsp:omissions=on,sentences=on",
    ] {
        check(request, &judge(request, &short), &llm);
    }
    let rated = tempfile::NamedTempFile::new().unwrap();
    let line = r#"{"source_lang":"A","source":"s","target_lang":"B","target":"t","errors":[]}"#;
    std::fs::write(rated.path(), [line; 5].join("\n")).unwrap();
    check("gmicl", &judge("gmicl", &Settings { shots: Some(rated.path().into()), ..short }), &llm);
}

#[test]
fn what_promptcue_forms_allow_is_written_and_read() {
    let llm = Arc::new(Babble(tiny_engine("qwen2", 8, 640)));
    let method = &rubric_mqm::METHOD;
    for scenario in ["deeprubric-8", "gemba"] {
        let options = method.parse_options(&format!("scenario={scenario}")).unwrap();
        let settings = Settings { max_tokens: Some(160), ..Settings::default() };
        let judge = rubric_mqm::RubricMqm::new(&settings, &rubric_mqm::Options::read(&options)).unwrap();
        let texts = rubric_mqm::Texts {
            source_lang: "English",
            source: "He went.",
            target_lang: "German",
            target: "Er <v>ging</v>.",
            reference: None,
        };
        for seed in 0..6 {
            let panel = Panel::new(llm.clone(), Sampling { seed, ..Sampling::default() });
            let review = judge.classify(&panel, &texts).unwrap();
            assert!(review.contains(" - "), "at least one entry: {review}");
            assert!(!review.contains("<v>"), "{review}");
        }
    }
}

/// A verdict within a tight budget is that of a wide one, or missing.
#[test]
fn an_answer_that_its_budget_cut_gives_no_verdict() {
    let engine = Arc::new(tiny_engine("qwen2", 8, 640));
    let each = Settings { granularity: Some(Granularity::Seg), ..Settings::default() };
    for request in ["gemba-mqm:form=json", "fsp", "rubric-mqm", "eaprompt:steps=1"] {
        let judge = judge(request, &each);
        let mut n_cut = 0;
        for seed in 0..8 {
            let verdicts = |max_tokens| {
                let llm = Arc::new(Within(engine.clone(), max_tokens));
                judged(&judge, &Panel::new(llm, Sampling { seed, ..Sampling::default() }), &document()).0
            };
            for (tight, free) in verdicts(24).iter().zip(&verdicts(250)) {
                match tight {
                    Err(Error::Truncated(_)) => n_cut += 1,
                    Ok(verdict) => assert_eq!(Some(verdict), free.as_ref().ok(), "{request}"),
                    Err(error) => panic!("{request}: {error}"),
                }
            }
        }
        assert!(n_cut > 0, "{request}");
    }
}

/// A model of noise: every answer matches its form.
#[test]
fn answers_hold_by_construction_with_a_model_of_noise() {
    let engine = Arc::new(tiny_engine("qwen2", 16, 2048));
    // Noise needs no long instructions.
    let dir = tempfile::tempdir().unwrap();
    for name in ["rate/core.j2", "rate/evaluation.j2", "difficulty/difficulty.j2", "thinking/thinking.j2"] {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "Judge.").unwrap();
    }
    let settings =
        Settings { max_tokens: Some(400), prompts: Some(dir.path().into()), ..Settings::default() };
    let mut shown = String::new();
    for request in ["rate:rounds=2,expected=on", "difficulty", "thinking:budget=20"] {
        let judge = tribunal::replication::build(request, &settings).unwrap();
        let noise = Arc::new(Noise(engine.clone()));
        let panel = Panel::new(noise, Sampling { temperature: 1.0, seed: 3, ..Sampling::default() });
        let (mut verdicts, calls) = judged(&judge, &panel, &document()[..1]);
        let verdict = verdicts.remove(0);
        // Noise fills every string, so that a budget may end an answer; the answer always has its form.
        let held = matches!(&verdict, Ok(_) | Err(Error::Truncated(_)));
        assert!(held, "{request}: {verdict:?}");
        let stages: Vec<String> = calls.into_iter().map(|call| call.step.to_string()).collect();
        writeln!(shown, "{request}: {}", stages.join(" ")).unwrap();
    }
    insta::assert_snapshot!(shown, @"
    rate:rounds=2,expected=on: core@1 core@1 evaluate@1 evaluate@1 expect@1 core@2 core@2 core@2
    difficulty: rate
    thinking:budget=20: think answer
    ");
}
