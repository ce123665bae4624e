//! Encoders and what reads them, near the references, and the same bits alone and in company.

use tribunal_core::llm::Llm as _;
use tribunal_engine::{Engine, Need, Options};

use super::{apart, gpu};
use crate::{
    encoders::{NAMES, check_company, open, sequences},
    metric::golden,
    metrics,
    model::{root, tiny},
    qe,
};

#[test]
fn hidden_states_are_near_those_of_transformers() {
    let Some(gpu) = gpu() else { return };
    for name in NAMES {
        let engine = open(name, &Options { kv_bytes: Some(4 << 20), ..Options::on(gpu.clone()) });
        for (ids, theirs) in sequences(name) {
            let ours = engine.encode(ids, &[0, 1, 2]).unwrap();
            let apart: Vec<f32> =
                ours.iter().zip(&theirs).map(|(ours, theirs)| apart(ours, theirs)).collect();
            assert!(apart[0] < 1e-5 && apart[1..].iter().all(|apart| *apart < 0.02), "{name}: {apart:?}");
        }
    }
}

#[test]
fn a_text_has_the_same_bits_alone_and_in_company() {
    if let Some(gpu) = gpu() {
        check_company(&gpu);
    }
}

#[test]
fn metrics_are_near_those_of_comet() {
    let Some(gpu) = gpu() else { return };
    let (json, _) = golden(&root());
    for (name, case) in metrics::cases() {
        let folder = metrics::folder(&name);
        let options = Options { kv_bytes: Some(1 << 20), ..Options::on(gpu.clone()) };
        let engine = Engine::open(folder.path(), &options).unwrap();
        for (input, expected) in
            json["inputs"].as_array().unwrap()[..2].iter().zip(case["results"].as_array().unwrap())
        {
            let found = engine.estimate(&metrics::texts(input, &case["fields"])).unwrap();
            let expected = expected["score"].as_f64().unwrap();
            assert!((found.score - expected).abs() < 0.02, "{name}: {}, expected {expected}", found.score);
        }
    }
}

#[test]
fn an_estimate_is_near_the_trainers() {
    let Some(gpu) = gpu() else { return };
    let Some(engine) = qe::engine(Options { kv_bytes: Some(4 << 20), ..Options::on(gpu) }) else { return };
    let pair = qe::pairs().remove(0);
    let (found, expected) = (qe::estimate(&engine, &pair).score, pair["score"].as_f64().unwrap());
    assert!((found - expected).abs() < 0.1, "{found}, expected {expected}");
}

#[test]
fn an_encoder_takes_one_gpu() {
    for name in NAMES {
        let need = Need::of(&tiny(name), &Options::for_gpu(), false).unwrap();
        let possible: Vec<bool> = need.on_each.iter().map(Option::is_some).collect();
        assert!(
            possible[0] && possible.len() > 1 && possible[1..].iter().all(|is| !is),
            "{name}: {possible:?}"
        );
    }
}
