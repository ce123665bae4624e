//! Models with experts: the forms in which files store them, the rejected ones, and routers with NaN. Their
//! logits are compared with the reference's in [`crate::model`].

use std::{collections::HashMap, fs, path::Path};

use candle_core::{
    DType, Device as Candle, Tensor,
    safetensors::{load, save},
};
use serde_json::json;
use tribunal_cpu::{Activations, Compute};
use tribunal_engine::Device;
use tribunal_model::{
    Adapter, KvType, Model, Weights,
    adapter::{AdapterConfig, AdapterLayer, LowRank, Module, Numbers},
    sampler::{SampleRequest, SamplingParams},
};

use crate::model::{Desk, bits, sequences, tiny};

const NAME: &str = "qwen3-moe";
const N: usize = 8;

type Tensors = HashMap<String, Tensor>;

fn tensors(name: &str) -> Tensors {
    load(tiny(name).join("model.safetensors"), &Candle::Cpu).unwrap()
}

/// A folder with these tensors and the tiny model's settings, some of them changed.
fn folder(name: &str, tensors: &Tensors, settings: &serde_json::Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut config: serde_json::Value =
        serde_json::from_slice(&fs::read(tiny(name).join("config.json")).unwrap()).unwrap();
    for (key, value) in settings.as_object().unwrap() {
        config[key] = value.clone();
    }
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    save(tensors, folder.path().join("model.safetensors")).unwrap();
    folder
}

fn model(path: &Path) -> Result<Box<dyn Model>, String> {
    let weights = Weights::open(path).map_err(|error| error.to_string())?;
    let compute = Compute { activations: Activations::Float, ..Compute::default() };
    Device::Cpu.load(&weights, compute).map_err(|error| error.to_string())
}

/// The bits of the logits of one sequence.
fn logits(path: &Path) -> Vec<Vec<u32>> {
    let mut model = model(path).unwrap();
    let all = sequences(&[40]);
    let logits = Desk::new(&mut *model, &all, KvType::F32).step(&[(0, 40)]);
    logits.iter().map(|row| bits(row)).collect()
}

/// The matrices of all experts of a layer in one tensor.
fn stacked(tensors: &mut Tensors, layer: usize, parts: &[&str]) -> Tensor {
    let matrix =
        |expert: usize, part: &str| format!("model.layers.{layer}.mlp.experts.{expert}.{part}.weight");
    let of_expert = |expert: usize| {
        let all: Vec<Tensor> = parts.iter().map(|part| tensors[&matrix(expert, part)].clone()).collect();
        Tensor::cat(&all, 0).unwrap()
    };
    let all: Vec<Tensor> = (0..N).map(of_expert).collect();
    for expert in 0..N {
        for part in parts {
            tensors.remove(&matrix(expert, part));
        }
    }
    Tensor::stack(&all, 0).unwrap()
}

#[test]
fn experts_may_lie_in_one_tensor() {
    let mut all = tensors(NAME);
    for layer in [0, 2] {
        let module = format!("model.layers.{layer}.mlp.experts");
        let (gate_up, down) =
            (stacked(&mut all, layer, &["gate_proj", "up_proj"]), stacked(&mut all, layer, &["down_proj"]));
        all.insert(format!("{module}.gate_up_proj"), gate_up);
        all.insert(format!("{module}.down_proj"), down);
    }
    let folder = folder(NAME, &all, &json!({}));
    assert!(logits(folder.path()) == logits(&tiny(NAME)));
}

/// The layout of some libraries for the experts of gpt-oss and of Gemma 4: a module for each.
#[test]
fn experts_may_be_modules_of_other_names() {
    let unstacked = |all: &mut Tensors, from: &str, to: &str, is_transposed: bool| {
        for name in all.keys().filter(|name| name.ends_with(from)).cloned().collect::<Vec<_>>() {
            let tensor = all.remove(&name).unwrap();
            for expert in 0..N {
                let part = tensor.get(expert).unwrap();
                let part = if is_transposed && part.rank() == 2 { part.t().unwrap() } else { part };
                let named = name.replace(from, &to.replace('N', &expert.to_string()));
                all.insert(named, part.contiguous().unwrap());
            }
        }
    };
    let mut oss = tensors("gpt-oss");
    for part in ["gate_up_proj", "down_proj"] {
        unstacked(&mut oss, &format!("{part}_bias"), &format!("{part}s.N.bias"), true);
        unstacked(&mut oss, part, &format!("{part}s.N.weight"), true);
    }
    let oss: Tensors = oss.into_iter().map(|(n, t)| (n.replace(".router.", ".router.linear."), t)).collect();
    assert!(oss.contains_key("model.layers.1.mlp.experts.gate_up_projs.7.bias"));
    let folder_of_oss = folder("gpt-oss", &oss, &json!({}));
    assert!(logits(folder_of_oss.path()) == logits(&tiny("gpt-oss")));
    let mut gemma = tensors("gemma4-moe");
    for part in ["gate_up_proj", "down_proj"] {
        let to = format!(".moe.experts.N.{part}.weight");
        unstacked(&mut gemma, &format!(".experts.{part}"), &to, false);
    }
    for name in gemma.keys().filter(|name| name.contains("gate_up_proj")).cloned().collect::<Vec<_>>() {
        let halves = gemma.remove(&name).unwrap().chunk(2, 0).unwrap();
        for (part, half) in ["gate_proj", "up_proj"].into_iter().zip(halves) {
            gemma.insert(name.replace("gate_up_proj", part), half);
        }
    }
    let folder_of_gemma = folder("gemma4-moe", &gemma, &json!({}));
    assert!(logits(folder_of_gemma.path()) == logits(&tiny("gemma4-moe")));
}

#[track_caller]
fn refused(tensors: &Tensors, settings: &serde_json::Value, words: &[&str]) {
    let folder = folder(NAME, tensors, settings);
    let said = model(folder.path()).err().expect("refused");
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
}

#[test]
fn experts_that_are_missing_or_of_another_shape_are_refused_by_name() {
    let whole = tensors(NAME);
    let name = "model.layers.2.mlp.experts.5.up_proj.weight";
    let with = |change: &dyn Fn(&Tensor) -> Option<Tensor>| {
        let mut all = whole.clone();
        let changed = change(&whole[name]);
        all.remove(name);
        all.extend(changed.map(|tensor| (name.to_owned(), tensor)));
        all
    };
    refused(&with(&|_| None), &json!({}), &[name, "is missing"]);
    refused(
        &with(&|t| t.narrow(0, 0, 15).ok()),
        &json!({}),
        &[name, "has shape [15, 32], expected [16, 32]"],
    );
    refused(&with(&|t| t.to_dtype(DType::BF16).ok()), &json!({}), &[name, "Bf16", "F32", "one type"]);
    let mut without_router = whole.clone();
    without_router.remove("model.layers.0.mlp.gate.weight");
    refused(&without_router, &json!({}), &["model.layers.0.mlp.gate.weight", "is missing"]);
}

#[test]
fn settings_that_do_not_fit_are_refused_by_name() {
    let whole = tensors(NAME);
    refused(&whole, &json!({"num_experts_per_tok": 9}), &["`num_experts_per_tok` is 9", "from 1 to 8"]);
    refused(&whole, &json!({"num_experts_per_tok": 0}), &["`num_experts_per_tok` is 0"]);
    refused(&whole, &json!({"num_experts": 16}), &["number of experts", "is 16", "[8, 32]"]);
    refused(&whole, &json!({"num_local_experts": 4}), &["`num_local_experts` is not 8"]);
    refused(&whole, &json!({"moe_intermediate_size": 32}), &["`moe_intermediate_size` is 32", "[16, 32]"]);
    refused(&whole, &json!({"moe_intermediate_size": 24}), &["width of an expert", "not a multiple of 16"]);
    refused(&whole, &json!({"decoder_sparse_step": 0}), &["`decoder_sparse_step` is 0"]);
    refused(&whole, &json!({"mlp_only_layers": "1"}), &["`mlp_only_layers`", "not a list"]);
    refused(&whole, &json!({"mlp_only_layers": []}), &["model.layers.1.mlp.down_proj.weight", "is not one"]);
    // Another name of the same setting.
    let renamed = folder(NAME, &whole, &json!({"num_experts": null, "num_local_experts": 8}));
    assert!(logits(renamed.path()) == logits(&tiny(NAME)));
}

#[test]
fn a_router_without_numbers_leaves_no_logits() {
    for bad in [f32::NAN, f32::INFINITY] {
        let mut all = tensors(NAME);
        let router = &all["model.layers.2.mlp.gate.weight"];
        let spoilt = Tensor::full(bad, router.shape(), &Candle::Cpu).unwrap();
        all.insert("model.layers.2.mlp.gate.weight".into(), spoilt);
        let folder = folder(NAME, &all, &json!({}));
        let mut model = model(folder.path()).unwrap();
        let logits = Desk::new(&mut *model, &sequences(&[9]), KvType::F32).step(&[(0, 9)]);
        assert!(logits.iter().all(|row| row.iter().all(|x| x.is_nan())));
        let greedy = SamplingParams { mask: None, temperature: 0.0, top_p: 1.0, draw: 0.0 };
        let wants = vec![SampleRequest::Choose(greedy); 9];
        assert!(model.runtime().take(&wants).unwrap().iter().all(Option::is_none), "no token is chosen");
    }
}

/// Adapters apply to attention, and to the feed-forward half of dense layers.
#[test]
fn an_adapter_on_experts_is_refused() {
    let part = |n_out: usize, n_in: usize| LowRank { a: vec![0.1; n_in], b: vec![0.1; n_out], n_in, n_out };
    let adapter = |layer: usize, module: Module, part: LowRank| {
        let mut layers = vec![AdapterLayer::new(); layer + 1];
        layers[layer] = [(module, part)].into();
        let (base, numbers) = (String::new(), Numbers::F32);
        Adapter {
            config: AdapterConfig { base, rank: 1, alpha: 1.0, rslora: false, dropout: 0.0, numbers },
            layers,
        }
    };
    let mut model = model(&tiny(NAME)).unwrap();
    let on_experts = adapter(2, Module::Gate, part(64, 32));
    let said = model.adapt(&on_experts).unwrap_err().to_string();
    assert!(said.contains("layer 2's `mlp.gate_proj`, where the model has experts"), "{said}");
    model.adapt(&adapter(1, Module::Gate, part(64, 32))).unwrap();
    let number = model.adapt(&adapter(2, Module::Q, part(64, 32))).unwrap();
    let all = sequences(&[20, 20]);
    let mut desk = Desk::new(&mut *model, &all, KvType::F32);
    desk.adapters[1] = Some(number);
    let rows = desk.step(&[(0, 20), (1, 20)]);
    let plain = logits(&tiny(NAME));
    assert!(rows[..20].iter().zip(&plain).all(|(row, plain)| bits(row) == *plain), "rows without an adapter");
    assert!(rows[20..].iter().zip(&plain).any(|(row, plain)| bits(row) != *plain));
}
