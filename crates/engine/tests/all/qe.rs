//! The estimator that comes with the program: the scores and tags of the trainer's PyTorch model with the dequantised
//! encoder, and the same bits whatever else is computed.

use std::sync::Arc;

use serde_json::Value;
use tribunal_core::llm::{Estimate, Llm, MetricTexts};
use tribunal_cpu::{Activations, Compute};
use tribunal_engine::{Engine, Options};
use tribunal_model::estimator::Estimator;

use crate::{cached_encoder::cached_encoder, model::root};

pub fn engine(options: Options) -> Option<Engine> {
    let file = cached_encoder()?;
    let path = root().join("models/fits/multilingual-e5-small.safetensors");
    let estimator = Estimator::read("the fit", &std::fs::read(path).unwrap()).unwrap();
    Some(Engine::open(&file, &Options { estimator: Some(Arc::new(estimator)), ..options }).unwrap())
}

pub fn pairs() -> Vec<Value> {
    let json: Value =
        serde_json::from_slice(&std::fs::read(root().join("tests/golden/qe.json")).unwrap()).unwrap();
    json["pairs"].as_array().unwrap().clone()
}

pub fn estimate(engine: &Engine, pair: &Value) -> Estimate {
    let [source, translation] = ["source", "translation"].map(|field| pair[field].as_str().unwrap());
    engine.estimate(&MetricTexts { source: Some(source), translation, reference: None }).unwrap()
}

#[test]
fn estimates_are_the_trainers() {
    let compute = Compute { activations: Activations::Float, ..Compute::default() };
    let Some(exact) = engine(Options { compute, ..Options::default() }) else { return };
    // Layers without factors round activations to 8 bits by default.
    let default = engine(Options::default()).unwrap();
    for pair in pairs() {
        let tags: Vec<Vec<f64>> = serde_json::from_value(pair["tags"].clone()).unwrap();
        for (engine, tolerance) in [(&exact, 1e-3), (&default, 0.1)] {
            let found = estimate(engine, &pair);
            let expected = pair["score"].as_f64().unwrap();
            assert!(
                (found.score - expected).abs() < tolerance,
                "{}, expected {expected}: {pair}",
                found.score
            );
            let found = found.tags.unwrap();
            assert_eq!(found.ends.last(), Some(&pair["translation"].as_str().unwrap().len()));
            assert_eq!(found.values.len(), tags.len());
            for (found, expected) in found.values.iter().flatten().zip(tags.iter().flatten()) {
                assert!((found - expected).abs() < tolerance, "{found}, expected {expected}: {pair}");
            }
        }
    }
}

#[test]
fn bits_do_not_depend_on_other_texts() {
    let Some(engine) = engine(Options::default()) else { return };
    let pairs = pairs();
    let alone: Vec<Estimate> = pairs.iter().map(|pair| estimate(&engine, pair)).collect();
    let together: Vec<Estimate> = std::thread::scope(|scope| {
        let threads = pairs.iter().map(|pair| scope.spawn(|| estimate(&engine, pair))).collect::<Vec<_>>();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (alone, together) in alone.iter().zip(&together) {
        assert_eq!(alone.score.to_bits(), together.score.to_bits());
        assert_eq!(alone.tags, together.tags);
    }
    let blank = MetricTexts { source: Some(" "), translation: "x", reference: None };
    assert!(engine.estimate(&blank).unwrap_err().to_string().contains("no tokens"));
}
