//! The readers against the published program's: drawn answers, and those that its repository stores.

use serde::Deserialize;
use tribunal_core::{digest, mqm::weights};
use tribunal_judges::{Preset, pairwise::Order};

use super::*;

#[derive(Deserialize)]
struct Golden {
    messages: std::collections::BTreeMap<String, String>,
    errors: Vec<Named>,
    corrections: Vec<Corrected>,
    winners: Vec<Won>,
    scores: Vec<Scored>,
}

#[derive(Deserialize)]
struct Named {
    answer: String,
    errors: Vec<[String; 3]>,
}

#[derive(Deserialize)]
struct Corrected {
    answer: String,
    correction: String,
}

#[derive(Deserialize)]
struct Won {
    answer: String,
    winner: Option<String>,
}

#[derive(Deserialize)]
struct Scored {
    critical: Vec<f64>,
    major: Vec<f64>,
    minor: Vec<f64>,
    score: f64,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../../../../tests/golden/mqm_ape.json")).unwrap()
}

fn named(answer: &str) -> Vec<[String; 3]> {
    let of = |error: ErrorSpan| [error.severity.to_string(), error.category, error.span];
    read_errors(answer).into_iter().map(of).collect()
}

fn winner(answer: &str) -> Option<String> {
    read_winner(answer).map(|first| if first { "A" } else { "B" }.to_owned())
}

#[test]
fn a_longer_answer_can_lead_to_more_calls() {
    assert_eq!(calls(None).most, 1 + 3 * 102);
    assert_eq!(calls(Some(2048)).most, 1 + 3 * 409);
}

#[test]
fn answers_are_read_as_by_the_published_program() {
    let golden = golden();
    for Named { answer, errors } in golden.errors {
        assert_eq!(named(&answer), errors, "{answer:?}");
    }
    for Corrected { answer, correction } in golden.corrections {
        assert_eq!(read_correction(&answer), correction, "{answer:?}");
    }
    for Won { answer, winner: expected } in golden.winners {
        assert_eq!(winner(&answer), expected, "{answer:?}");
    }
    let weights = weights::find("mqm-ape").unwrap();
    for Scored { critical, major, minor, score } in golden.scores {
        let of = |severity, shares: Vec<f64>| {
            let error =
                ErrorSpan { weight: weights.penalty(severity, "other"), ..ErrorSpan::new("x", "", severity) };
            shares.into_iter().map(move |share| ErrorSpan { weight: share * error.weight, ..error.clone() })
        };
        let errors: Vec<ErrorSpan> = of(Severity::Critical, critical)
            .chain(of(Severity::Major, major))
            .chain(of(Severity::Minor, minor))
            .collect();
        assert_eq!(weights.score(&errors).to_bits(), (score + 0.0).to_bits(), "{errors:?}");
    }
}

#[test]
fn messages_are_the_published_program_s() {
    let hash = |chat: &Chat| {
        let text: String = chat
            .messages()
            .iter()
            .map(|turn| format!("{}\n{}\0", format!("{:?}", turn.role).to_lowercase(), turn.content))
            .collect();
        digest::sha256(text)
    };
    let settings = Settings { preset: Preset::Code, ..Settings::default() };
    let errors = Declaration { shots: Some(SHOTS), answers: Answers::FreeBlocks, ..THREE_SHOT };
    let questions = Questions::load(errors, &settings).unwrap();
    let segment = tribunal_testing::translation(("en", "de"), "He sat on the {bank}.\n", " Er saß \"dort\".");
    let texts = Texts::of(&segment);
    let error = ErrorSpan::new("accuracy/mistranslation", "saß", Severity::Major);
    let golden = golden().messages;
    assert_eq!(hash(&questions.errors.about(&texts).unwrap()), golden["annotate"]);
    assert_eq!(hash(&questions.correction(&texts, &error).unwrap()), golden["correct"]);
    assert_eq!(hash(&questions.comparison(&texts, "Er saß.", Order::AsGiven).unwrap()), golden["compare"]);
}

/// The answers that the repository stores lead to the scores that it stores. `MQM_APE` names a clone, which
/// has no licence and is no part of this project.
#[test]
fn stored_answers_lead_to_the_stored_scores() {
    let Some(clone) = std::env::var_os("MQM_APE") else { return };
    let folder = std::path::Path::new(&clone).join("MQM_APE/test/outs/llm_verifier");
    let read = |name: &str| -> serde_json::Value {
        serde_json::from_str(&std::fs::read_to_string(folder.join(name)).unwrap()).unwrap()
    };
    let answers = |name: &str| -> Vec<String> {
        let whole = read(name);
        let texts = whole.as_array().unwrap().iter().map(|answer| answer["generated_text"].as_str().unwrap());
        texts.map(|text| text.split("<|eot_id|>").next().unwrap().to_owned()).collect()
    };
    let mut corrections = answers("llm_responses_ape.json").into_iter();
    let mut winners = answers("llm_responses_verifier.json").into_iter();
    let weights = weights::find("mqm-ape").unwrap();
    let (results, evaluated) = (read("results.json"), answers("llm_responses_evaluator.json"));
    let mut n_errors = 0;
    for (result, answer) in results.as_array().unwrap().iter().zip(&evaluated) {
        let stored = ["critical", "major", "minor"]
            .map(|level| result["error_dict"][level].as_array().unwrap().clone());
        let mut weighed = Vec::new();
        let errors = read_errors(answer);
        assert_eq!(errors.len(), stored.iter().map(Vec::len).sum::<usize>());
        for (error, stored) in errors.iter().zip(stored.iter().flatten()) {
            assert_eq!(
                (&*error.category, &*error.span),
                (stored["category"].as_str().unwrap(), stored["span"].as_str().unwrap())
            );
            let correction = read_correction(&corrections.next().unwrap());
            assert_eq!(correction, stored["post_edit"].as_str().unwrap());
            let [given, swapped] = [(); 2].map(|()| read_winner(&winners.next().unwrap()).unwrap());
            let weight = weights.penalty(error.severity, "other");
            let error = Outcome::from_winners([!given, swapped])
                .weigh(&ErrorSpan { weight, ..error.clone() }, correction);
            assert_eq!(Some(error.weight / weight), stored["pe_valid_score"].as_f64());
            weighed.push(error);
            n_errors += 1;
        }
        assert_eq!(Some(weights.score(&weighed)), result["MQM_APE_score"].as_f64());
    }
    assert!(n_errors > 0 && corrections.next().is_none() && winners.next().is_none());
}
