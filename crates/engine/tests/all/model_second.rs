//! Families whose goldens are transformers', against a second reading of their papers: candle-transformers'.

use std::{collections::HashMap, fs, path::Path};

use candle_core::{DType, Device as Candle, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::{gemma2, qwen3_moe};
use serde_json::{Value, json};
use tribunal_cpu::{Activations, Compute};
use tribunal_engine::Device;
use tribunal_model::{KvType, Weights};

use crate::model::{Desk, tiny};

/// Shorter than any window: candle's Gemma 2 has none.
const TOKENS: usize = 20;

fn ids() -> Vec<u32> {
    (0..TOKENS as u32).map(|i| (i * 17 + 3) % 300).collect()
}

/// A tiny model's folder with other settings and tensors.
fn folder(name: &str, set: &Value, change: impl Fn(&mut HashMap<String, Tensor>)) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut tensors =
        candle_core::safetensors::load(tiny(name).join("model.safetensors"), &Candle::Cpu).unwrap();
    change(&mut tensors);
    candle_core::safetensors::save(&tensors, folder.path().join("model.safetensors")).unwrap();
    let mut config: Value =
        serde_json::from_slice(&fs::read(tiny(name).join("config.json")).unwrap()).unwrap();
    set.as_object().unwrap().iter().for_each(|(key, value)| config[key] = value.clone());
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    folder
}

fn config<T: serde::de::DeserializeOwned>(folder: &Path) -> T {
    serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap()
}

fn tensors(folder: &Path) -> VarBuilder<'static> {
    let tensors = candle_core::safetensors::load(folder.join("model.safetensors"), &Candle::Cpu).unwrap();
    VarBuilder::from_tensors(tensors, DType::F32, &Candle::Cpu)
}

/// Compares the logits after the last token with candle's.
fn check(folder: &Path, theirs: &Tensor) {
    let theirs: Vec<f32> = theirs.flatten_all().unwrap().to_vec1().unwrap();
    let weights = Weights::open(folder).unwrap_or_else(|error| panic!("{error}"));
    let compute = Compute { activations: Activations::Float, ..Compute::default() };
    let mut model = Device::Cpu.load(&weights, compute).unwrap();
    let mut desk = Desk::new(&mut *model, &[ids()], KvType::F32);
    let ours = desk.step(&[(0, TOKENS)]).pop().unwrap();
    let apart = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let largest = theirs.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
    assert!(apart < 2e-5 * largest.max(1.0), "{apart} apart of {largest}");
}

#[test]
fn gemma_2_is_candles() {
    let folder = folder("gemma2", &json!({"query_pre_attn_scalar": 16}), |_| {});
    let mut model = gemma2::Model::new(false, &config(folder.path()), tensors(folder.path())).unwrap();
    let input = Tensor::new(ids(), &Candle::Cpu).unwrap().unsqueeze(0).unwrap();
    check(folder.path(), &model.forward(&input, 0).unwrap());
}

/// All layers have experts: candle does not support dense ones between them.
#[test]
fn qwen3_with_experts_is_candles() {
    let folder = folder("qwen3-moe", &json!({"mlp_only_layers": []}), |tensors| {
        tensors.retain(|name, _| !name.starts_with("model.layers.1.mlp."));
        let of_first = |name: &str| name.strip_prefix("model.layers.0.mlp.").map(str::to_owned);
        let copied: Vec<(String, Tensor)> = tensors
            .iter()
            .filter_map(|(name, tensor)| Some((of_first(name)?, tensor.clone())))
            .map(|(part, tensor)| (format!("model.layers.1.mlp.{part}"), tensor))
            .collect();
        tensors.extend(copied);
    });
    let mut model = qwen3_moe::ModelForCausalLM::new(&config(folder.path()), tensors(folder.path())).unwrap();
    let input = Tensor::new(ids(), &Candle::Cpu).unwrap().unsqueeze(0).unwrap();
    check(folder.path(), &model.forward(&input, 0).unwrap());
}
