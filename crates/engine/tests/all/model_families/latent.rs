//! Latent attention in GGUF files: with the projections of keys and values split by head, as llama.cpp's
//! converter writes them, and in one tensor, as older files have them.

use candle_core::{IndexOp, Tensor, quantized::gguf_file::Value};
use tribunal_model::Weights;

use super::{Family, size};

/// Settings of all three; the older layout has the sizes of heads alone.
fn settings(plain_dim: u32, value_dim: u32, is_split: bool) -> Vec<(&'static str, Value)> {
    let mut all = vec![
        ("block_count", size(3)),
        ("attention.kv_lora_rank", size(32)),
        ("rope.dimension_count", size(16)),
        ("expert_count", size(8)),
        ("expert_used_count", size(3)),
        ("expert_feed_forward_length", size(16)),
        ("leading_dense_block_count", size(1)),
        ("attention.layer_norm_rms_epsilon", Value::F32(1e-6)),
        ("rope.freq_base", Value::F32(1e4)),
    ];
    let (key, value) = (size(plain_dim + 16), size(value_dim));
    all.extend(if is_split {
        vec![
            ("attention.head_count_kv", size(1)),
            ("attention.key_length", size(48)),
            ("attention.value_length", size(32)),
            ("attention.key_length_mla", key),
            ("attention.value_length_mla", value),
        ]
    } else {
        vec![
            ("attention.head_count_kv", size(4)),
            ("attention.key_length", key),
            ("attention.value_length", value),
        ]
    });
    all
}

fn yarn(factor: f32, mscale: f32) -> Vec<(&'static str, Value)> {
    vec![
        ("rope.scaling.type", Value::String("yarn".into())),
        ("rope.scaling.factor", Value::F32(factor)),
        ("rope.scaling.original_context_length", size(64)),
        ("rope.scaling.yarn_log_multiplier", Value::F32(0.1 * mscale)),
    ]
}

fn family(tiny: &'static str, settings: Vec<(&'static str, Value)>) -> Family {
    Family { tiny, arch: "deepseek2", settings, mlp_norm: "ffn_norm" }
}

pub fn lite() -> Family {
    let more = [("expert_shared_count", size(2)), ("expert_group_count", size(1))];
    family("deepseek-v2-lite", [settings(16, 24, true), yarn(40.0, 0.707), more.into()].concat())
}

fn v2() -> Family {
    let more = [
        ("attention.q_lora_rank", size(24)),
        ("expert_shared_count", size(2)),
        ("expert_group_count", size(4)),
        ("expert_group_used_count", size(2)),
        ("expert_gating_func", size(1)),
        ("expert_weights_scale", Value::F32(2.0)),
    ];
    family("deepseek-v2", [settings(16, 24, false), yarn(8.0, 1.0), more.into()].concat())
}

fn flash() -> Family {
    let more = [
        ("block_count", size(4)),
        ("nextn_predict_layers", size(1)),
        ("attention.q_lora_rank", size(24)),
        ("attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("rope.freq_base", Value::F32(1e6)),
        ("expert_shared_count", size(1)),
        ("expert_gating_func", size(2)),
        ("expert_weights_norm", Value::Bool(true)),
        ("expert_weights_scale", Value::F32(1.8)),
    ];
    family("glm4-moe-lite", [settings(24, 32, true), more.into()].concat())
}

pub fn families() -> [Family; 3] {
    [lite(), v2(), flash()]
}

/// The name of a module that only these families have.
pub fn named(part: &str) -> Option<&'static str> {
    Some(match part {
        "self_attn.q_a_proj" => "attn_q_a",
        "self_attn.q_a_layernorm" => "attn_q_a_norm",
        "self_attn.q_b_proj" => "attn_q_b",
        "self_attn.kv_a_proj_with_mqa" => "attn_kv_a_mqa",
        "self_attn.kv_a_layernorm" => "attn_kv_a_norm",
        "self_attn.kv_b_proj" => "attn_kv_b",
        _ => return None,
    })
}

/// The projection of keys and values by head, the keys' transposed.
pub fn split(tiny: &str, name: &str, tensor: &Tensor) -> Option<[(String, Tensor); 2]> {
    let (layer, part) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let plain_dim = match tiny {
        "deepseek-v2-lite" => 16,
        "glm4-moe-lite" => 24,
        _ => return None,
    };
    if part != "self_attn.kv_b_proj.weight" {
        return None;
    }
    let heads = tensor.reshape((4, (), 32)).unwrap();
    let keys = heads.i((.., ..plain_dim)).unwrap().transpose(1, 2).unwrap().contiguous().unwrap();
    let values = heads.i((.., plain_dim..)).unwrap().contiguous().unwrap();
    Some([(format!("blk.{layer}.attn_k_b.weight"), keys), (format!("blk.{layer}.attn_v_b.weight"), values)])
}

#[test]
fn settings_of_latent_attention_that_are_not_followed_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    for (family, key, value, words) in [
        (lite(), "expert_weights_norm", Value::Bool(true), "deepseek2.expert_weights_norm"),
        (lite(), "expert_gating_func", size(3), "deepseek2.expert_gating_func"),
        (lite(), "attention.temperature_scale", Value::F32(0.1), "deepseek2.attention.temperature_scale"),
        (lite(), "attention.indexer.top_k", size(8), "deepseek2.attention.indexer.top_k"),
        (lite(), "rope.dimension_count", size(64), "deepseek2.rope.dimension_count` is 64 of a head's 32"),
        (flash(), "expert_count", size(256), "deepseek2.expert_group_count` is missing"),
    ] {
        family.write(&path, 3, &[(key, value)]);
        let said = Weights::open(&path).map(drop).unwrap_err().to_string();
        assert!(said.contains(words), "{key}: {said}");
    }
}
