//! Adapters against the logits that PEFT computes with them, against merged weights, and beside rows of
//! others.

use std::{collections::HashMap, path::PathBuf};

use candle_core::{DType, Device as Candle, Tensor};
use proptest::prelude::*;
use tribunal_core::llm::Reply;
use tribunal_cpu::Compute;
use tribunal_engine::{Device, Engine, Options};
use tribunal_model::{
    Adapter, KvType, Model, Part, Step, Weights,
    adapter::{AdapterConfig, AdapterLayer, LowRank, Module, Numbers},
};

use crate::{
    engine::{ask_all, bits as reply_bits, options, tiny},
    model::{Desk, Golden, bits, goldens_of, load, load_on, root},
};

/// Name of each golden adapter and of its tiny model.
pub const GOLDEN: [(&str, &str); 4] =
    [("qwen2-all", "qwen2"), ("qwen2-qv", "qwen2"), ("mistral-rslora", "mistral"), ("gemma3-mlp", "gemma3")];

pub fn folder(name: &str) -> PathBuf {
    root().join("tests/golden/adapters").join(name)
}

pub fn adapter(name: &str) -> Adapter {
    Adapter::read(&folder(name)).expect("a golden adapter")
}

/// A tiny qwen2 with both of its adapters.
pub fn adapted(device: &Device) -> Box<dyn Model> {
    let mut model = load_on(device, "qwen2");
    for (number, name) in ["qwen2-all", "qwen2-qv"].into_iter().enumerate() {
        assert_eq!(model.adapt(&adapter(name)).expect("a fitting adapter"), number as u32);
    }
    model
}

/// The largest distance between logits and those of a golden file.
fn worst(ours: &[Vec<f32>], theirs: &[Vec<f32>]) -> f32 {
    assert_eq!(ours.len(), theirs.len());
    let pairs = ours.iter().flatten().zip(theirs.iter().flatten());
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// The logits of a sequence alone.
pub fn logits(model: &mut dyn Model, ids: &[u32], kind: KvType, adapter: Option<u32>) -> Vec<Vec<f32>> {
    let mut desk = Desk::new(model, &[ids.to_vec()], kind);
    desk.adapters = vec![adapter];
    desk.step(&[(0, ids.len())])
}

#[test]
fn logits_equal_those_of_peft() {
    for (name, base) in GOLDEN {
        let mut model = load(base);
        let number = model.adapt(&adapter(name)).unwrap();
        for Golden { ids, logits: theirs } in goldens_of("adapters", name) {
            let by = worst(&logits(&mut *model, &ids, KvType::F32, Some(number)), &theirs);
            assert!(by <= 1e-4, "{name}: logits differ by {by}");
            assert!(
                worst(&logits(&mut *model, &ids, KvType::F32, None), &theirs) > 0.1,
                "{name}: the adapter must matter"
            );
        }
    }
}

/// A copy of a tiny model whose matrices are `W + scale B A`, computed in f32.
fn merged(base: &str, adapter: &Adapter) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(tiny(base).join(file), dir.path().join(file)).unwrap();
    }
    let mut tensors: HashMap<String, Tensor> =
        candle_core::safetensors::load(tiny(base).join("model.safetensors"), &Candle::Cpu).unwrap();
    for (i, layer) in adapter.layers.iter().enumerate() {
        for (module, part) in layer {
            let rank = adapter.config.rank;
            let a = Tensor::from_slice(&part.a, (rank, part.n_in), &Candle::Cpu).unwrap();
            let b = Tensor::from_slice(&part.b, (part.n_out, rank), &Candle::Cpu).unwrap();
            let added = (b.matmul(&a).unwrap() * adapter.scale()).unwrap();
            let weight = tensors.get_mut(&format!("model.layers.{i}.{}.weight", module.path())).unwrap();
            *weight = (weight.to_dtype(DType::F32).unwrap() + added).unwrap();
        }
    }
    candle_core::safetensors::save(&tensors, dir.path().join("model.safetensors")).unwrap();
    dir
}

#[test]
fn logits_equal_those_of_merged_weights() {
    for (name, base) in GOLDEN {
        let (adapter, ids) = (adapter(name), (0..90).map(|i| i * 37 % 300).collect::<Vec<u32>>());
        let dir = merged(base, &adapter);
        let weights = Weights::open(dir.path()).unwrap();
        let mut whole = Device::Cpu.load(&weights, Compute::default()).unwrap();
        let mut model = load(base);
        let number = model.adapt(&adapter).unwrap();
        let ours = logits(&mut *model, &ids, KvType::F32, Some(number));
        let by = worst(&ours, &logits(&mut *whole, &ids, KvType::F32, None));
        assert!(by <= 1e-4, "{name}: logits differ by {by}");
    }
}

/// Parts of the last of some layers: matrices with their outputs and inputs.
fn of_last(n_layers: usize, parts: &[(Module, usize, usize)]) -> Adapter {
    let numbers = |seed: usize, n: usize| -> Vec<f32> {
        (0..n).map(|i| ((i * 37 + seed * 101) % 19) as f32 / 60.0 - 0.15).collect()
    };
    let part = |seed: usize, n_out: usize, n_in: usize| LowRank {
        a: numbers(seed, 2 * n_in),
        b: numbers(seed + 7, n_out * 2),
        n_in,
        n_out,
    };
    let layer = parts.iter().map(|&(module, n_out, n_in)| (module, part(n_out, n_out, n_in))).collect();
    let config = AdapterConfig {
        base: String::new(),
        rank: 2,
        alpha: 4.0,
        rslora: false,
        dropout: 0.0,
        numbers: Numbers::F32,
    };
    let mut layers: Vec<AdapterLayer> = (1..n_layers).map(|_| AdapterLayer::new()).collect();
    layers.push(layer);
    Adapter { config, layers }
}

/// The model with this adapter, after a check that its logits are those of a model that the adapter was
/// merged into.
fn adapted_as_merged(name: &str, adapter: &Adapter) -> Box<dyn Model> {
    let ids: Vec<u32> = (0..90).map(|i| i * 37 % 300).collect();
    let dir = merged(name, adapter);
    let weights = Weights::open(dir.path()).unwrap();
    let mut whole = Device::Cpu.load(&weights, Compute::default()).unwrap();
    let mut model = load(name);
    let plain = logits(&mut *model, &ids, KvType::F32, None);
    let number = model.adapt(adapter).unwrap();
    let ours = logits(&mut *model, &ids, KvType::F32, Some(number));
    let by = worst(&ours, &logits(&mut *whole, &ids, KvType::F32, None));
    assert!(by <= 1e-4, "{name}: logits differ by {by}");
    assert!(worst(&ours, &plain) > 0.1, "{name}: the adapter must matter");
    model
}

/// The keys' projection of this layer also gives its values.
#[test]
fn an_adapter_of_keys_adds_to_values_that_are_keys() {
    let parts = [(Module::Q, 128, 32), (Module::K, 32, 32), (Module::O, 32, 128), (Module::Up, 64, 32)];
    let adapter = of_last(4, &parts);
    let model = adapted_as_merged("gemma4", &adapter);

    let said = of_last(4, &[(Module::V, 32, 32)]).check(model.config()).unwrap_err().to_string();
    assert!(said.contains("layer 3's `self_attn.v_proj`, where the keys are the values"), "{said}");
}

#[test]
fn an_adapter_of_gated_attention_adds_to_queries_and_gate() {
    // Queries have a gate beside them.
    let parts = [(Module::Q, 256, 32), (Module::K, 64, 32), (Module::O, 32, 128), (Module::Up, 64, 32)];
    let adapter = of_last(3, &parts);
    let model = adapted_as_merged("qwen3-5", &adapter);

    let mut misplaced = adapter;
    misplaced.layers.swap(0, 2);
    let said = misplaced.check(model.config()).unwrap_err().to_string();
    assert!(said.contains("layer 0's `self_attn.q_proj`, where the model has linear attention"), "{said}");
}

/// Its rows are in the order of the checkpoint's, in which the values of a rotated pair are neighbours.
#[test]
fn an_adapter_of_neighbouring_pairs_adds_to_queries_and_keys() {
    let parts = |k: usize| [(Module::Q, 64, k), (Module::K, 32, k), (Module::V, 32, k), (Module::O, k, 64)];
    adapted_as_merged("glm4", &of_last(2, &parts(32)));
    adapted_as_merged("cohere", &of_last(2, &parts(64)));
}

#[test]
fn an_adapter_of_a_half_without_a_gate_has_none() {
    let model = adapted_as_merged("apertus", &of_last(2, &[(Module::Up, 64, 32), (Module::Down, 32, 64)]));
    let said = of_last(2, &[(Module::Gate, 64, 32)]).check(model.config()).unwrap_err().to_string();
    assert!(said.contains("layer 1's `mlp.gate_proj`, where the model has no gate"), "{said}");
}

/// Sequences of any lengths, each with an adapter or none, in any chunks: each row has the bits that it has
/// alone.
pub fn check_mixed(
    model: &mut dyn Model,
    kind: KvType,
    sequences: &[(usize, Option<u32>)],
    cuts: &[(usize, usize)],
) {
    let id = |s: usize, i: usize| ((s * 31 + i * 17 + i * i) % 300) as u32;
    let tokens: Vec<Vec<u32>> =
        sequences.iter().enumerate().map(|(s, &(n, _))| (0..n).map(|i| id(s, i)).collect()).collect();
    let adapters: Vec<Option<u32>> = sequences.iter().map(|s| s.1).collect();
    let mut alone = Vec::new();
    for (tokens, adapter) in tokens.iter().zip(&adapters) {
        let mut desk = Desk::new(model, std::slice::from_ref(tokens), kind);
        desk.adapters = vec![*adapter];
        alone.push(desk.step(&[(0, tokens.len())]));
    }
    let mut desk = Desk::new(model, &tokens, kind);
    desk.adapters.clone_from(&adapters);
    let mut cuts = cuts.iter().copied().cycle();
    while desk.done.iter().zip(&tokens).any(|(done, tokens)| *done < tokens.len()) {
        let mut work: Vec<(usize, usize)> = Vec::new();
        for (sequence, n) in cuts.by_ref().take(4) {
            let sequence = sequence % tokens.len();
            let n = n.min(tokens[sequence].len() - desk.done[sequence]);
            if n > 0 && work.iter().all(|w| w.0 != sequence) {
                work.push((sequence, n));
            }
        }
        if work.is_empty() {
            continue;
        }
        let starts: Vec<usize> = work.iter().map(|w| desk.done[w.0]).collect();
        let mut rows = desk.step(&work).into_iter();
        for (&(sequence, n), start) in work.iter().zip(starts) {
            for expected in &alone[sequence][start..start + n] {
                let row = rows.next().expect("a row per token");
                assert_eq!(
                    bits(&row),
                    bits(expected),
                    "sequence {sequence} of adapter {:?}",
                    adapters[sequence]
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn a_row_does_not_depend_on_its_neighbours_adapters(
        sequences in prop::collection::vec((1_usize..120, prop::option::of(0_u32..2)), 2..5),
        cuts in prop::collection::vec((0_usize..5, 1_usize..50), 60),
        kind in prop::sample::select(vec![KvType::Bf16, KvType::F32]),
    ) {
        check_mixed(&mut *adapted(&Device::Cpu), kind, &sequences, &cuts);
    }
}

#[test]
fn rows_without_an_adapter_have_the_bits_of_a_model_without_one() {
    let ids: Vec<u32> = (0..70).map(|i| i * 41 % 300).collect();
    let plain = logits(&mut *load("qwen2"), &ids, KvType::F32, None);
    let with = logits(&mut *adapted(&Device::Cpu), &ids, KvType::F32, None);
    assert!(plain.iter().zip(&with).all(|(a, b)| bits(a) == bits(b)));
}

#[test]
fn an_adapter_that_is_not_there_or_does_not_fit_is_refused() {
    let mut model = adapted(&Device::Cpu);
    model.runtime_mut().reserve(1, KvType::Bf16).unwrap();
    let part = Part {
        tokens: &[1, 2],
        position: 0,
        blocks: &[0],
        logits_from: 1,
        states_from: 2,
        adapter: Some(2),
        state: None,
    };
    let error = model.run(Step::new([part], Vec::new())).unwrap_err().to_string();
    assert_eq!(error, "the step cannot be run: adapter 2 of a model with 2");
    let error = model.adapt(&adapter("mistral-rslora")).unwrap_err().to_string();
    assert!(
        error.contains("layer 1's `self_attn.q_proj` is [64, 32] in the adapter and [64, 64] in the model"),
        "{error}"
    );
    assert!(adapter("mistral-rslora").layers[0].is_empty() && Module::named("q_proj") == Some(Module::Q));
}

/// The replies of three judges to some questions; the judges are one loaded model with two adapters and with
/// none.
fn replies(options: &Options, order: &[usize], together: bool) -> Vec<Vec<Reply>> {
    let adapters = vec![folder("qwen2-all"), folder("qwen2-qv")];
    let engine = Engine::open(&tiny("qwen2"), &Options { adapters, ..options.clone() }).unwrap();
    let judges = [None, Some(0), Some(1)].map(|adapter| engine.with_adapter(adapter));
    if !together {
        return judges.iter().map(|judge| ask_all(judge, order)).collect();
    }
    std::thread::scope(|scope| {
        let asked = judges.each_ref().map(|judge| scope.spawn(|| ask_all(judge, order)));
        asked.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Checks that the three judges' replies under each of the variants, all at once, have the bytes of their
/// replies one by one under `slow`, and those of a model without adapters where they take none.
pub fn check_replies(slow: &Options, variants: &[Options], n_questions: usize) {
    let order: Vec<usize> = (0..n_questions).collect();
    let all = |replies: Vec<Vec<Reply>>| -> Vec<Vec<_>> {
        replies.iter().map(|of_one| of_one.iter().map(reply_bits).collect()).collect()
    };
    let expected = all(replies(slow, &order, false));
    assert_ne!(expected[0], expected[1]);
    assert_ne!(expected[1], expected[2]);
    let plain = ask_all(&Engine::open(&tiny("qwen2"), slow).unwrap(), &order);
    assert_eq!(expected[0], plain.iter().map(reply_bits).collect::<Vec<_>>(), "as if there were no adapters");
    for (i, variant) in variants.iter().enumerate() {
        assert_eq!(all(replies(variant, &order, true)), expected, "variant {i}");
    }
}

#[test]
fn one_model_answers_for_all_its_adapters_at_once_with_the_bytes_of_each_alone() {
    let slow = Options { n_rows: 1, prefix_cache: false, drafts: false, ..options() };
    let variants = [
        Options { n_rows: 64, ..options() },
        Options { n_rows: 5, step_tokens: 33, ..options() },
        Options { kv_bytes: Some(660 * 1024), ..options() },
    ];
    check_replies(&slow, &variants, 24);
}

#[test]
fn an_adapters_memory_is_counted() {
    let bytes = |names: &[&str]| {
        let adapters = names.iter().map(|name| folder(name)).collect();
        let engine = Engine::open(&tiny("qwen2"), &Options { adapters, ..options() }).unwrap();
        engine.facts().adapter_bytes
    };
    let of_all = 4 * 2 * 4 * (4 * 64 + 2 * 32 + 8 * 64); // f32, layers, rank, the sides of the seven matrices
    assert_eq!(bytes(&[]), 0);
    assert_eq!(bytes(&["qwen2-all"]), of_all);
    assert_eq!(bytes(&["qwen2-all", "qwen2-all"]), 2 * of_all);
}

#[test]
fn an_adapter_of_another_base_is_refused_before_anything_is_loaded() {
    let options = Options { adapters: vec![folder("gemma3-mlp")], ..options() };
    let error = Engine::open(&tiny("qwen2"), &options).err().unwrap().to_string();
    assert!(error.contains("gemma3-mlp`: the adapter is one for another model: "), "{error}");
    assert!(error.contains("it has weights for layer 3, the model has 2 layers"), "{error}");
    assert!(error.ends_with("hint: it was trained on `models/tiny/gemma3`"), "{error}");
}
