//! The option `reasoning`, of all methods whose models generate answers: the call before each answer,
//! reasoning without an end, and the signature.

use std::sync::Arc;

use tribunal_core::llm::{Effort, Finish, Reasoning, ResponseFormat, Sampling};
use tribunal_judges::{
    Error, Model, Panel, Preset, REASONING, Settings, Wanted, method::Calls, registry, rehearse,
};

use tribunal_testing::{Reasoner, document, judge, judged, segment};

const ANSWER: &str = r#"{"score": 80}"#;

fn panel(model: &Arc<Reasoner>) -> Panel {
    Panel::new(model.clone(), Sampling { seed: 7, temperature: 0.5, ..Sampling::default() })
}

fn closed(thought: &str) -> Reasoning {
    Reasoning::Closed(thought.into())
}

#[test]
fn an_answer_comes_after_its_reasoning_and_is_read_alone() {
    let model = Reasoner::new(ANSWER, &[]);
    let group = [segment(0, "Break a leg!", "Brich ein Bein!")];
    let judge = judge("gemba-da:reasoning=high", &Settings::default());
    let (verdicts, calls) = judged(&judge, &panel(&model), &group);
    assert_eq!(verdicts[0].as_ref().unwrap().raw.to_bits(), 80f64.to_bits());
    let steps: Vec<String> = calls.iter().map(|call| call.step.to_string()).collect();
    assert_eq!(steps, ["reasoning/assess", "assess"]);
    let [reasoning, answer] = &calls[..] else { panic!("two calls") };
    assert_eq!(
        (&reasoning.chat.thought, reasoning.chat.effort),
        (&Some(Reasoning::Open), Some(Effort::High))
    );
    assert_eq!(answer.chat.thought, Some(closed(r#"{"score": 0}"#)));
    assert_eq!((answer.chat.effort, &answer.chat.prompt), (Some(Effort::High), &reasoning.chat.prompt));
    assert!(matches!(reasoning.wanted, Wanted::Answer(ResponseFormat::Text)));
    assert!(matches!(answer.wanted, Wanted::Answer(ResponseFormat::Json { .. })));
    let Sampling { temperature, top_p, seed, max_tokens, stop } = &reasoning.sampling;
    assert_eq!((*temperature, *top_p, *seed, *max_tokens), (0.5, 1.0, 7, 24_576));
    assert!(stop.is_empty(), "the engine knows what ends a reasoning");
    assert!(answer.sampling.max_tokens < 24_576);
    assert_eq!(judge.calls(), Calls::exactly(2));
}

#[test]
fn what_is_scored_goes_with_the_answers_reasoning() {
    let model = Reasoner::new(ANSWER, &[]);
    let group = [segment(0, "a", "b"), segment(1, "a", "b")];
    let judge = judge("gemba-da:score=expected,reasoning=low", &Settings::default());
    let (verdicts, calls) = judged(&judge, &panel(&model), &group);
    assert!(verdicts.iter().all(Result::is_ok));
    let steps: Vec<String> = calls.iter().map(|call| call.step.to_string()).collect();
    let one = ["reasoning/assess", "assess", "expect"];
    assert_eq!(steps, [one, one].concat());
    for calls in calls.chunks(3) {
        assert_eq!(calls[1].chat.thought, calls[2].chat.thought);
        assert_eq!(calls[2].chat.prefill, "{\"score\": ");
    }
}

#[test]
fn a_reasoning_without_an_end_is_no_answer() {
    let group = [segment(0, "a", "b")];
    let judge = |request: &str| judge(request, &Settings::default());
    for (finish, expected) in [
        (Finish::Length, "the reasoning ended at its budget of 9 tokens, so that there is no answer"),
        (Finish::Open, "the model ended its turn while reasoning, so that there is no answer"),
    ] {
        let model = Reasoner::new(ANSWER, &[finish]);
        let request = "gemba-da:reasoning=low,reasoning-budget=9";
        let (verdicts, calls) = judged(&judge(request), &panel(&model), &group);
        assert!(matches!(&verdicts[0], Err(Error::Reasoning(reason)) if reason == expected), "{verdicts:?}");
        assert!(verdicts[0].as_ref().unwrap_err().is_of_the_answer());
        assert_eq!(calls.len(), 1, "no answer is asked for");
        assert_eq!((calls[0].outcome, calls[0].sampling.max_tokens), (Some("unfinished"), 9));
    }
    // A method that asks again reasons again, at another seed.
    let model = Reasoner::new("80", &[Finish::Length]);
    let code = Settings { preset: Preset::Code, ..Settings::default() };
    let code = tribunal_testing::judge("gemba-da:reasoning=low", &code);
    let (verdicts, calls) = judged(&code, &panel(&model), &group);
    assert!(verdicts[0].is_ok(), "{verdicts:?}");
    let outcomes: Vec<_> = calls.iter().map(|call| (call.attempt, call.outcome)).collect();
    assert_eq!(outcomes, [(0, Some("unfinished")), (1, None), (1, None)]);
    assert_eq!(calls[2].chat.thought, Some(closed(r#"{"score": 1}"#)));
}

#[test]
fn every_method_that_writes_reasons_before_every_answer() {
    let model = Reasoner::new("x", &[]);
    let mut n_methods = 0;
    for method in registry::METHODS.iter().filter(|method| !method.common.is_empty()) {
        n_methods += 1;
        let ask = |request: &str| {
            let built = judge(request, &Settings::default());
            let questions = rehearse(&built, &panel(&model), &document(), None);
            (built.signature().all(), questions)
        };
        let (plain_signature, plain) = ask(method.name);
        let (signature, questions) = ask(&format!("{}:reasoning=medium", method.name));
        assert_eq!(signature.get("reasoning"), Some("medium"), "{}", method.name);
        assert_eq!(signature.get("reasoning-budget"), Some("8192"));
        let same = plain_signature.fields().iter().all(|(key, value)| signature.get(key) == Some(&**value));
        assert!(same && signature.fields().len() == plain_signature.fields().len() + 2, "{signature}");
        assert!(plain.iter().all(|question| question.chat.thought.is_none()), "{}", method.name);
        let (reasoning, answers): (Vec<_>, Vec<_>) =
            questions.iter().partition(|question| question.step.stage == REASONING);
        assert!(!reasoning.is_empty() && answers.len() == reasoning.len(), "{}", method.name);
        for question in answers {
            assert_eq!(question.chat.thought, Some(closed("")), "{}", method.name);
            let before = reasoning.iter().any(|reasoning| reasoning.chat.prompt == question.chat.prompt);
            assert!(before, "{}", method.name);
        }
    }
    assert!(n_methods > 10, "only {n_methods} methods");
}

#[test]
fn a_model_without_reasoning_and_options_without_effect_are_refused() {
    let refusal =
        |request: &str| tribunal_replication::build(request, &Settings::default()).err().unwrap().to_string();
    insta::assert_snapshot!(
        [
            refusal("gemba-da:reasoning-budget=9"),
            refusal("gemba-da:reasoning=low,reasoning-budget=0.5"),
            refusal("gemba-da:reasoning=max"),
            refusal("likelihood:reasoning=low"),
        ]
        .join("\n"),
        @"
    `reasoning-budget` has no effect without reasoning; hint: add reasoning=low
    `reasoning-budget` is a whole number of tokens from 1
    option `reasoning` of `gemba-da` cannot be `max`
    hint: it can be off, low, medium or high
    `likelihood` has no option `reasoning`
    hint: its options are direction, norm, relative
    "
    );
    let panel = Panel::new(Reasoner::without_reasoning(ANSWER), Sampling::default());
    let model_of = |_| Model { name: "gemma-3-4b-it".into(), sha256: String::new() };
    let check = |request: &str| judge(request, &Settings::default()).check_reasoning(&panel, model_of);
    check("gemba-da").unwrap();
    for (request, by) in [
        ("thinking", "the method `thinking`"),
        ("gemba-esa:edition=wmt26,thinking=64", "the option thinking"),
    ] {
        let refused = check(request).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("{by} asks `gemma-3-4b-it` to reason")), "{refused}");
    }
    insta::assert_snapshot!(
        check("gemba-da:reasoning=low").unwrap_err(),
        @"the option reasoning=low asks `gemma-3-4b-it` to reason, and its chat template marks no reasoning; hint: take a model that reasons, or leave it out"
    );
}
