//! Each architecture as a GGUF file, with the names and settings of llama.cpp's converter, computes the same
//! as the folder of safetensors.

use std::{collections::BTreeMap, fs, path::Path};

use candle_core::{
    Device as Candle, Tensor,
    quantized::{
        GgmlDType, QTensor,
        gguf_file::{self, Value},
    },
    safetensors::load,
};
use tribunal_cpu::{Activations, Compute};
use tribunal_engine::Device;
use tribunal_model::{KvType, Weights};

use crate::model::{Desk, Golden, goldens, tiny};

/// An architecture in the two formats.
pub struct Family {
    /// The tiny model's folder.
    pub tiny: &'static str,
    pub arch: &'static str,
    /// Settings beside those of all architectures.
    pub settings: Vec<(&'static str, Value)>,
    /// The name of the norm after the attention and before the feed-forward half.
    pub mlp_norm: &'static str,
}

mod beside;
mod hybrid;
pub mod latent;
mod llamas;

fn size(n: u32) -> Value {
    Value::U32(n)
}

fn glm4() -> Family {
    Family {
        tiny: "glm4-moe",
        arch: "glm4moe",
        settings: vec![
            ("block_count", size(4)),
            ("nextn_predict_layers", size(1)),
            ("attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
            ("rope.dimension_count", size(8)),
            ("rope.freq_base", Value::F32(1e6)),
            ("expert_count", size(8)),
            ("expert_used_count", size(3)),
            ("expert_shared_count", size(2)),
            ("expert_group_count", size(4)),
            ("expert_group_used_count", size(2)),
            ("expert_gating_func", size(2)),
            ("expert_weights_norm", Value::Bool(true)),
            ("expert_weights_scale", Value::F32(2.5)),
            ("expert_feed_forward_length", size(16)),
            ("leading_dense_block_count", size(1)),
        ],
        mlp_norm: "post_attention_norm",
    }
}

fn gemma2() -> Family {
    Family {
        tiny: "gemma2",
        arch: "gemma2",
        settings: vec![
            ("block_count", size(4)),
            ("attention.layer_norm_rms_epsilon", Value::F32(1e-6)),
            ("attention.sliding_window", size(24)),
            ("attention.scale", Value::F32(24_f32.powf(-0.5))),
            ("attn_logit_softcapping", Value::F32(2.0)),
            ("final_logit_softcapping", Value::F32(6.0)),
        ],
        mlp_norm: "post_attention_norm",
    }
}

fn hunyuan() -> Family {
    Family {
        tiny: "hunyuan",
        arch: "hunyuan-dense",
        settings: vec![
            ("block_count", size(2)),
            ("attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
            // The converter writes the base with the factor that follows from alpha.
            ("rope.freq_base", Value::F32((1e4 * 1000_f64.powf(16.0 / 14.0)) as f32)),
            ("rope.scaling.type", Value::String("none".into())),
            ("rope.scaling.factor", Value::F32(1.0)),
        ],
        mlp_norm: "ffn_norm",
    }
}

fn ministral3() -> Family {
    Family {
        tiny: "ministral3",
        arch: "mistral3",
        settings: vec![
            ("block_count", size(2)),
            ("attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
            ("attention.temperature_scale", Value::F32(0.5)),
            ("rope.freq_base", Value::F32(1e4)),
            ("rope.scaling.type", Value::String("yarn".into())),
            ("rope.scaling.factor", Value::F32(16.0)),
            ("rope.scaling.original_context_length", size(48)),
            ("rope.scaling.yarn_beta_fast", Value::F32(32.0)),
            ("rope.scaling.yarn_beta_slow", Value::F32(1.0)),
            ("rope.scaling.yarn_log_multiplier", Value::F32(1.0)),
        ],
        mlp_norm: "ffn_norm",
    }
}

fn qwen3() -> Family {
    Family {
        tiny: "qwen3-moe",
        arch: "qwen3moe",
        settings: vec![
            ("block_count", size(1)),
            ("attention.layer_norm_rms_epsilon", Value::F32(1e-6)),
            ("rope.freq_base", Value::F32(1e6)),
            ("expert_count", size(8)),
            ("expert_used_count", size(3)),
            ("expert_feed_forward_length", size(16)),
        ],
        mlp_norm: "ffn_norm",
    }
}

/// Qwen3.5, dense or with experts.
fn qwen35(has_experts: bool) -> Family {
    let mut settings = vec![
        ("block_count", size(3)),
        ("attention.layer_norm_rms_epsilon", Value::F32(1e-6)),
        ("attention.key_length", size(32)),
        ("attention.value_length", size(32)),
        ("rope.freq_base", Value::F32(1e7)),
        ("rope.dimension_count", size(8)),
        (
            "rope.dimension_sections",
            Value::Array(vec![Value::I32(2), Value::I32(1), Value::I32(1), Value::I32(0)]),
        ),
        ("full_attention_interval", size(3)),
        ("ssm.conv_kernel", size(4)),
        ("ssm.state_size", size(16)),
        ("ssm.group_count", size(2)),
        ("ssm.time_step_rank", size(4)),
        ("ssm.inner_size", size(128)),
    ];
    if has_experts {
        settings.extend([
            ("expert_count", size(8)),
            ("expert_used_count", size(3)),
            ("expert_feed_forward_length", size(16)),
            ("expert_shared_feed_forward_length", size(32)),
        ]);
    }
    let (tiny, arch) = if has_experts { ("qwen3-5-moe", "qwen35moe") } else { ("qwen3-5", "qwen35") };
    Family { tiny, arch, settings, mlp_norm: "post_attention_norm" }
}

impl Family {
    /// A tensor's name in GGUF.
    fn named(&self, name: &str) -> String {
        if let Some((layer, "linear_attn.A_log")) =
            name.strip_prefix("model.layers.").and_then(|rest| rest.split_once('.'))
        {
            return format!("blk.{layer}.ssm_a");
        }
        if let Some(module) = name.strip_suffix(".linear_attn.dt_bias") {
            return format!("{}.ssm_dt.bias", module.replace("model.layers.", "blk."));
        }
        if let Some(name) = beside::named(name) {
            return name;
        }
        let (module, kind) = name.rsplit_once('.').unwrap();
        match module {
            "model.embed_tokens" => return format!("token_embd.{kind}"),
            "score" => return format!("cls.output.{kind}"),
            "model.norm" => return format!("output_norm.{kind}"),
            "lm_head" => return format!("output.{kind}"),
            _ => {}
        }
        let (layer, part) = module.strip_prefix("model.layers.").unwrap().split_once('.').unwrap();
        let part = match part {
            "input_layernorm" => "attn_norm",
            "post_attention_layernorm" => self.mlp_norm,
            "pre_feedforward_layernorm" => "ffn_norm",
            "post_feedforward_layernorm" | "post_mlp_layernorm" => "post_ffw_norm",
            "self_attn.q_proj" => "attn_q",
            "self_attn.k_proj" => "attn_k",
            "self_attn.v_proj" => "attn_v",
            "self_attn.o_proj" => "attn_output",
            "self_attn.qkv_proj" | "linear_attn.in_proj_qkv" => "attn_qkv",
            "post_self_attn_layernorm" => "post_attention_norm",
            "self_attn.q_norm" | "self_attn.query_layernorm" => "attn_q_norm",
            "self_attn.k_norm" | "self_attn.key_layernorm" => "attn_k_norm",
            "mlp.gate_proj" => "ffn_gate",
            "mlp.up_proj" | "mlp.gate_up_proj" => "ffn_up",
            "mlp.down_proj" => "ffn_down",
            "mlp.gate" if kind == "e_score_correction_bias" => {
                return format!("blk.{layer}.exp_probs_b.bias");
            }
            "mlp.gate" => "ffn_gate_inp",
            "mlp.shared_experts.gate_proj" | "mlp.shared_expert.gate_proj" => "ffn_gate_shexp",
            "mlp.shared_experts.up_proj" | "mlp.shared_expert.up_proj" => "ffn_up_shexp",
            "mlp.shared_experts.down_proj" | "mlp.shared_expert.down_proj" => "ffn_down_shexp",
            "mlp.shared_expert_gate" => "ffn_gate_inp_shexp",
            "linear_attn.in_proj_z" => "attn_gate",
            "linear_attn.in_proj_b" => "ssm_beta",
            "linear_attn.in_proj_a" => "ssm_alpha",
            "linear_attn.in_proj_qkvz" => "ssm_in",
            "linear_attn.in_proj_ba" => "ssm_ba",
            "linear_attn.conv1d" => "ssm_conv1d",
            "linear_attn.norm" => "ssm_norm",
            "linear_attn.out_proj" => "ssm_out",
            "eh_proj" => "nextn.eh_proj",
            "enorm" => "nextn.enorm",
            other => latent::named(other).unwrap_or_else(|| panic!("{other}")),
        };
        format!("blk.{layer}.{part}.{kind}")
    }

    /// The tensors of the file: experts of a layer in one, Gemma's norms with 1 added, the rotary halves of
    /// Mistral's heads interleaved.
    fn tensors(&self, folder: &Path, layers: usize) -> BTreeMap<String, Tensor> {
        let all = load(folder.join("model.safetensors"), &Candle::Cpu).unwrap();
        let mut all: Vec<_> =
            all.into_iter().map(|(name, tensor)| (llamas::renamed(&name), tensor)).collect();
        let layer = |name: &str| name.strip_prefix("model.layers.")?.split('.').next()?.parse::<usize>().ok();
        all.retain(|(name, _)| layer(name).is_none_or(|layer| layer < layers));
        // Numbers of experts have one digit, so that this is their order, too.
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let (mut tensors, mut experts): (BTreeMap<_, _>, BTreeMap<String, Vec<Tensor>>) = Default::default();
        for (name, tensor) in all {
            if let Some(of_file) = beside::tensors(&name, &tensor) {
                tensors.extend(of_file);
                continue;
            }
            if let Some(of_heads) = latent::split(self.tiny, &name, &tensor) {
                tensors.extend(of_heads);
                continue;
            }
            if let Some((module, of_expert)) = name.split_once(".mlp.experts.") {
                let part = of_expert.split('.').nth(1).unwrap().strip_suffix("_proj").unwrap();
                let layer = module.strip_prefix("model.layers.").unwrap();
                experts.entry(format!("blk.{layer}.ffn_{part}_exps.weight")).or_default().push(tensor);
                continue;
            }
            let tensor = if self.arch.starts_with("qwen35") { tiled(&name, tensor) } else { tensor };
            let is_hybrid = self.arch.starts_with("qwen35") || self.arch == "qwen3next";
            let tensor = match name.rsplit('.').nth(1).unwrap() {
                _ if name.ends_with("A_log") => tensor.exp().unwrap().neg().unwrap(),
                "conv1d" => tensor.squeeze(1).unwrap(),
                "shared_expert_gate" => tensor.squeeze(0).unwrap(),
                norm if norm.ends_with("norm") && is_hybrid && !name.ends_with("linear_attn.norm.weight") => {
                    (tensor + 1.0).unwrap()
                }
                norm if norm.ends_with("norm") && self.arch == "gemma2" => (tensor + 1.0).unwrap(),
                part @ ("q_proj" | "k_proj") if llamas::INTERLEAVED.contains(&self.arch) => {
                    let (heads, k) = (if part == "q_proj" { 4 } else { 2 }, tensor.dim(1).unwrap());
                    let halves = tensor.reshape((heads, 2, 8, k)).unwrap().transpose(1, 2).unwrap();
                    halves.reshape((heads * 16, k)).unwrap()
                }
                _ => tensor,
            };
            tensors.insert(self.named(&name), tensor);
        }
        tensors.extend(beside::factors(self.arch));
        tensors.extend(llamas::factors(self.arch));
        tensors.extend(experts.into_iter().map(|(name, all)| (name, Tensor::stack(&all, 0).unwrap())));
        tensors
    }

    /// Writes the file with the settings of all architectures, its own, and others.
    pub fn write(&self, path: &Path, layers: usize, others: &[(&'static str, Value)]) {
        self.write_from(&tiny(self.tiny), path, layers, others);
    }

    /// Writes the file with quantised tensors of a part.
    pub fn write_quantised(&self, path: &Path, layers: usize, part: &str) {
        let kind = |name: &str| if name.contains(part) { GgmlDType::Q8_0 } else { GgmlDType::F32 };
        self.write_as(&tiny(self.tiny), path, layers, &[], kind);
    }

    /// Writes the file from the safetensors of a folder.
    fn write_from(&self, folder: &Path, path: &Path, layers: usize, others: &[(&'static str, Value)]) {
        self.write_as(folder, path, layers, others, |_| GgmlDType::F32);
    }

    fn write_as(
        &self,
        folder: &Path,
        path: &Path,
        layers: usize,
        others: &[(&'static str, Value)],
        kind: impl Fn(&str) -> GgmlDType,
    ) {
        let common = [
            ("context_length", size(512)),
            ("embedding_length", size(32)),
            ("feed_forward_length", size(64)),
            ("attention.head_count", size(4)),
            ("attention.head_count_kv", size(2)),
            ("attention.key_length", size(16)),
            ("attention.value_length", size(16)),
        ];
        let mut settings: BTreeMap<String, Value> = BTreeMap::new();
        settings.insert("general.architecture".into(), Value::String(self.arch.into()));
        for (key, value) in common.iter().chain(&self.settings).chain(others) {
            settings.insert(format!("{}.{key}", self.arch), value.clone());
        }
        let settings: Vec<(&str, &Value)> = settings.iter().map(|(key, value)| (&**key, value)).collect();
        let tensors = self.tensors(folder, layers);
        let tensors: Vec<(&str, QTensor)> =
            tensors.iter().map(|(n, t)| (&**n, QTensor::quantize(t, kind(n)).unwrap())).collect();
        let tensors: Vec<(&str, &QTensor)> = tensors.iter().map(|(n, t)| (*n, t)).collect();
        gguf_file::write(&mut fs::File::create(path).unwrap(), &settings, &tensors).unwrap();
    }
}

/// A tensor of Qwen3.5 with its value heads in the converter's order: those that take one key head are as far
/// apart as there are key heads, two.
fn tiled(name: &str, tensor: Tensor) -> Tensor {
    const HEADS: [usize; 4] = [0, 2, 1, 3];
    /// Queries and keys, which are not moved.
    const KEYS: usize = 2 * 2 * 16;
    let places = |first: usize, width: usize| -> Vec<u32> {
        let values = HEADS.iter().flat_map(|head| first + head * width..first + (head + 1) * width);
        (0..first).chain(values).map(|place| place as u32).collect()
    };
    let Some((_, part)) = name.split_once(".linear_attn.") else { return tensor };
    let (places, dim) = match part.split('.').next().unwrap() {
        "in_proj_qkv" | "conv1d" => (places(KEYS, 32), 0),
        "in_proj_z" => (places(0, 32), 0),
        "in_proj_b" | "in_proj_a" | "A_log" | "dt_bias" => (places(0, 1), 0),
        "out_proj" => (places(0, 32), 1),
        _ => return tensor,
    };
    let n = places.len();
    tensor.index_select(&Tensor::from_vec(places, n, &Candle::Cpu).unwrap(), dim).unwrap()
}

/// The logits of all positions.
fn logits(path: &Path, ids: &[u32]) -> Vec<Vec<f32>> {
    let weights = Weights::open(path).unwrap_or_else(|error| panic!("{error}"));
    let compute = Compute { activations: Activations::Float, ..Compute::default() };
    let mut model = Device::Cpu.load(&weights, compute).unwrap_or_else(|error| panic!("{error}"));
    Desk::new(&mut *model, &[ids.to_vec()], KvType::F32).step(&[(0, ids.len())])
}

#[test]
fn a_gguf_file_computes_what_transformers_computes_with_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let families = [glm4(), gemma2(), hunyuan(), ministral3(), qwen35(false), qwen35(true)];
    let families = families.into_iter().chain(beside::families()).chain(latent::families());
    for family in families.chain(llamas::families()) {
        let path = folder.path().join(format!("{}.gguf", family.tiny));
        family.write(&path, 4, &[]);
        for Golden { ids, logits: expected } in goldens(family.tiny) {
            for (ours, theirs) in logits(&path, &ids).iter().zip(&expected) {
                let worst = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(worst <= 1e-4, "{} differs by {worst}", family.tiny);
            }
        }
    }
}

/// The rank head of llama.cpp, whose softmax is left out.
#[test]
fn a_gguf_file_with_a_rank_head_has_the_scores_of_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    crate::score_head::write_with_head(folder.path(), "qwen3", |_, _| {});
    let path = folder.path().join("m.gguf");
    let mut ranked = Family {
        tiny: "",
        arch: "qwen3",
        settings: vec![
            ("block_count", size(2)),
            ("attention.key_length", size(32)),
            ("attention.value_length", size(32)),
            ("attention.layer_norm_rms_epsilon", Value::F32(1e-6)),
            ("rope.freq_base", Value::F32(1e6)),
            ("pooling_type", size(4)),
        ],
        mlp_norm: "ffn_norm",
    };
    ranked.write_from(folder.path(), &path, 2, &[]);
    let [ours, expected] = [path.as_path(), folder.path()].map(crate::score_heads::score_of_ids);
    // The file has its epsilon in 32 bits.
    assert!((ours[0] - expected[0]).abs() < 1e-9, "{ours:?}, {expected:?}");
    let refused = |family: &Family, words: &str| {
        family.write_from(folder.path(), &path, 2, &[]);
        let error = Weights::open(&path).map(drop).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    let labels = Value::Array(vec![Value::String("yes".into()), Value::String("no".into())]);
    ranked.settings.push(("classifier.output_labels", labels));
    refused(&ranked, "has 1 rows, but the settings name 2 labels");
    ranked.settings.pop();
    *ranked.settings.last_mut().unwrap() = ("pooling_type", size(1));
    refused(&ranked, "qwen3.pooling_type` is 1");
}

/// The format has no dense layers in this architecture; the first layer of the tiny model has experts.
#[test]
fn a_gguf_file_of_qwen3_with_experts_has_the_bits_of_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut config: serde_json::Value =
        serde_json::from_slice(&fs::read(tiny("qwen3-moe").join("config.json")).unwrap()).unwrap();
    config["num_hidden_layers"] = 1.into();
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    fs::copy(tiny("qwen3-moe").join("model.safetensors"), folder.path().join("model.safetensors")).unwrap();
    let path = folder.path().join("m.gguf");
    qwen3().write(&path, 1, &[]);
    let ids: Vec<u32> = (0..40).map(|i| i * 37 % 300).collect();
    assert_eq!(logits(&path, &ids), logits(folder.path(), &ids));
}

/// The second layer of the tiny model is dense, which the format does not support; without it, it is a model
/// of two layers.
#[test]
fn a_gguf_file_of_qwen3_next_has_the_bits_of_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let source = tiny("qwen3-next");
    let mut config: serde_json::Value =
        serde_json::from_slice(&fs::read(source.join("config.json")).unwrap()).unwrap();
    config["num_hidden_layers"] = 2.into();
    config["mlp_only_layers"] = serde_json::json!([]);
    config["layer_types"] = serde_json::json!(["linear_attention", "full_attention"]);
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let all = load(source.join("model.safetensors"), &Candle::Cpu).unwrap();
    let kept = all.into_iter().filter(|(name, _)| !name.contains(".layers.1."));
    let kept = kept.map(|(name, tensor)| (name.replace(".layers.2.", ".layers.1."), tensor)).collect();
    candle_core::safetensors::save(&kept, folder.path().join("model.safetensors")).unwrap();
    let mut family = qwen35(true);
    family.settings.retain(|(key, _)| !key.starts_with("block_count") && !key.starts_with("full_attention"));
    family.settings.extend([("block_count", size(2)), ("full_attention_interval", size(2))]);
    (family.tiny, family.arch) = ("", "qwen3next");
    let path = folder.path().join("m.gguf");
    family.write_from(folder.path(), &path, 2, &[]);
    let ids: Vec<u32> = (0..40).map(|i| i * 37 % 300).collect();
    // Norms are stored with 1 added, which rounds.
    for (ours, theirs) in logits(&path, &ids).iter().zip(logits(folder.path(), &ids)) {
        let worst = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst <= 1e-4, "differs by {worst}");
    }
}

#[test]
fn settings_of_experts_that_are_not_followed_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let refused = |family: &Family, layers: usize, key: &'static str, value: Value, words: &str| {
        family.write(&path, layers, &[(key, value)]);
        let said = Weights::open(&path).map(drop).unwrap_err().to_string();
        assert!(said.contains(words), "{key}: {said}");
    };
    for (key, value) in [
        ("expert_gating_func", size(2)),
        ("expert_weights_norm", Value::Bool(false)),
        ("expert_group_count", size(2)),
        ("expert_shared_count", size(1)),
        ("expert_shared_feed_forward_length", size(16)),
        ("leading_dense_block_count", size(1)),
        ("expert_wonder", size(1)),
    ] {
        refused(&qwen3(), 1, key, value, &format!("qwen3moe.{key}"));
    }
    refused(&qwen3(), 1, "expert_used_count", size(9), "number of experts for a token");
    refused(&glm4(), 4, "expert_gating_func", size(1), "glm4moe.expert_gating_func");
    refused(&glm4(), 4, "expert_group_count", size(3), "number of groups of experts");
    refused(&glm4(), 4, "expert_group_count", size(8), "number of groups of experts");
    refused(&glm4(), 4, "expert_group_used_count", size(1), "number of experts for a token");
    refused(&glm4(), 4, "rope.dimension_count", size(17), "number of values that are rotated");
    refused(&glm4(), 4, "nextn_predict_layers", size(0), "model.layers.3");
}
