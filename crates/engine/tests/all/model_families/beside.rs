//! Gemma 4 and gpt-oss as GGUF files.

use std::collections::BTreeMap;

use candle_core::{Device as Candle, IndexOp, Tensor, quantized::gguf_file::Value};
use tribunal_model::{Config, Weights, config::Scaling};

use super::{Family, size};

fn booleans(values: &[bool]) -> Value {
    Value::Array(values.iter().map(|value| Value::Bool(*value)).collect())
}

fn sizes(values: &[i32]) -> Value {
    Value::Array(values.iter().map(|n| Value::I32(*n)).collect())
}

fn gemma4() -> Family {
    let settings = vec![
        ("block_count", size(4)),
        ("attention.layer_norm_rms_epsilon", Value::F32(1e-6)),
        ("attention.head_count_kv", sizes(&[2, 1, 2, 1])),
        ("attention.key_length", size(32)),
        ("attention.value_length", size(32)),
        ("attention.key_length_swa", size(16)),
        ("attention.value_length_swa", size(16)),
        ("attention.sliding_window", size(24)),
        ("attention.sliding_window_pattern", booleans(&[true, false, true, false])),
        ("attention.shared_kv_layers", size(0)),
        ("embedding_length_per_layer_input", size(0)),
        ("rope.freq_base", Value::F32(1e6)),
        ("rope.freq_base_swa", Value::F32(1e4)),
        ("rope.dimension_count", size(32)),
        ("rope.dimension_count_swa", size(16)),
        ("final_logit_softcapping", Value::F32(5.0)),
    ];
    Family { tiny: "gemma4", arch: "gemma4", settings, mlp_norm: "post_attention_norm" }
}

fn gemma4_moe() -> Family {
    let mut family = gemma4();
    let of_moe = [
        ("block_count", size(3)),
        ("attention.head_count_kv", size(2)),
        ("attention.sliding_window_pattern", booleans(&[true, true, false])),
        ("expert_count", size(8)),
        ("expert_used_count", size(3)),
        ("expert_feed_forward_length", size(16)),
    ];
    family.settings.retain(|(key, _)| of_moe.iter().all(|(other, _)| other != key));
    family.settings.extend(of_moe);
    Family { tiny: "gemma4-moe", ..family }
}

fn gpt_oss() -> Family {
    let settings = vec![
        ("block_count", size(2)),
        ("embedding_length", size(64)),
        ("attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("attention.sliding_window", size(24)),
        ("rope.freq_base", Value::F32(150_000.0)),
        ("rope.scaling.type", Value::String("yarn".into())),
        ("rope.scaling.factor", Value::F32(8.0)),
        ("rope.scaling.original_context_length", size(64)),
        ("rope.scaling.yarn_beta_fast", Value::F32(32.0)),
        ("rope.scaling.yarn_beta_slow", Value::F32(1.0)),
        ("expert_count", size(8)),
        ("expert_used_count", size(3)),
        ("expert_feed_forward_length", size(64)),
    ];
    Family { tiny: "gpt-oss", arch: "gpt-oss", settings, mlp_norm: "post_attention_norm" }
}

pub fn families() -> [Family; 3] {
    [gemma4(), gemma4_moe(), gpt_oss()]
}

/// The name of a tensor that only these families have.
pub fn named(name: &str) -> Option<String> {
    let (layer, part) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let part = match part {
        "layer_scalar" => "layer_output_scale.weight",
        "pre_feedforward_layernorm_2.weight" => "pre_ffw_norm_2.weight",
        "post_feedforward_layernorm_1.weight" => "post_ffw_norm_1.weight",
        "post_feedforward_layernorm_2.weight" => "post_ffw_norm_2.weight",
        "router.proj.weight" | "mlp.router.weight" => "ffn_gate_inp.weight",
        "mlp.router.bias" => "ffn_gate_inp.bias",
        "router.scale" => "ffn_gate_inp.scale",
        "router.per_expert_scale" => "ffn_down_exps.scale",
        "self_attn.sinks" => "attn_sinks.weight",
        "experts.gate_up_proj" => "ffn_gate_up_exps.weight",
        "experts.down_proj" | "mlp.experts.down_proj" => "ffn_down_exps.weight",
        "mlp.experts.down_proj_bias" => "ffn_down_exps.bias",
        _ => return None,
    };
    Some(format!("blk.{layer}.{part}"))
}

/// The tensors of experts of these families, in the converter's layout.
pub fn tensors(name: &str, tensor: &Tensor) -> Option<Vec<(String, Tensor)>> {
    let (layer, part) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let in_turns = |tensor: &Tensor, dim: usize, kind: &str| {
        let n = tensor.dim(dim).unwrap() as u32;
        let each = |first: u32, name: &str| {
            let places: Vec<u32> = (first..n).step_by(2).collect();
            let places = Tensor::from_vec(places, n as usize / 2, &Candle::Cpu).unwrap();
            let part = tensor.index_select(&places, dim).unwrap();
            (format!("blk.{layer}.ffn_{name}_exps.{kind}"), part.contiguous().unwrap())
        };
        vec![each(0, "gate"), each(1, "up")]
    };
    let turned = || tensor.transpose(1, 2).unwrap().contiguous().unwrap();
    match part {
        "mlp.experts.gate_up_proj" => Some(in_turns(&turned(), 1, "weight")),
        "mlp.experts.gate_up_proj_bias" => Some(in_turns(tensor, 1, "bias")),
        "mlp.experts.down_proj" => Some(vec![(named(name)?, turned())]),
        "experts.gate_up_proj" | "experts.down_proj" | "mlp.experts.down_proj_bias" => {
            Some(vec![(named(name)?, tensor.clone())])
        }
        _ => None,
    }
}

/// The divisors of the full layers' frequencies.
pub fn factors(arch: &str) -> BTreeMap<String, Tensor> {
    if arch != "gemma4" {
        return BTreeMap::new();
    }
    let by: Vec<f32> = (0..16).map(|pair| if pair < 4 { 1.0 } else { 1e30 }).collect();
    [("rope_freqs.weight".to_owned(), Tensor::from_vec(by, 16, &Candle::Cpu).unwrap())].into()
}

fn config(family: &Family, others: &[(&'static str, Value)]) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    family.write(&path, 4, others);
    Weights::open(&path).map(|weights| weights.config().clone()).map_err(|error| error.to_string())
}

#[test]
fn a_gguf_file_has_the_settings_of_its_folder() {
    for family in families() {
        let ours = config(&family, &[]).unwrap();
        let folder = Weights::open(&crate::model::tiny(family.tiny)).unwrap().config().clone();
        // The file names no stop token, and has its numbers in f32.
        let norm_eps = folder.norm_eps;
        assert!((ours.norm_eps / norm_eps - 1.0).abs() < 1e-6);
        assert_eq!(Config { stop_ids: folder.stop_ids.clone(), norm_eps, ..ours }, folder, "{}", family.tiny);
    }
    assert!(matches!(
        config(&gemma4(), &[]).unwrap().full.rope.scaling,
        Scaling::Proportional { pairs: 4, .. }
    ));
}

#[test]
fn settings_of_the_e_models_are_refused_by_name() {
    for (key, value) in [
        ("embedding_length_per_layer_input", size(256)),
        ("attention.shared_kv_layers", size(2)),
        ("attention.head_count_kv", sizes(&[2, 1, 1, 1])),
        ("attention.wonder", size(1)),
    ] {
        let said = config(&gemma4(), &[(key, value)]).unwrap_err();
        assert!(said.contains(&format!("gemma4.{key}")), "{key}: {said}");
    }
}

/// Without it all layers would attend to all keys.
#[test]
fn a_file_without_a_window_is_refused_by_name() {
    for family in [gemma4(), gpt_oss()] {
        let said = config(&family, &[("attention.sliding_window", size(0))]).unwrap_err();
        let key = format!("`{}.attention.sliding_window`", family.arch);
        assert!(said.contains(&key) && said.contains("is missing or 0"), "{said}");
    }
}

#[test]
fn rows_in_turns_are_those_of_gates_and_ups() {
    let rows = Tensor::arange(0_u32, 8, &Candle::Cpu).unwrap().reshape((1, 2, 4)).unwrap();
    let parts = tensors("model.layers.0.mlp.experts.gate_up_proj", &rows).unwrap();
    let gate: Vec<Vec<u32>> = parts[0].1.i(0).unwrap().to_vec2().unwrap();
    assert_eq!(gate, [[0, 4], [2, 6]]);
}
