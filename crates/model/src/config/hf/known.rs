//! The known keys of `config.json`. A setting that changes the computation is read elsewhere, or accepted
//! only with a neutral value; unknown keys are rejected by name.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    super::Arch,
    classes::is_common,
    quantization,
    settings::{Settings, is_same, shown},
};
use crate::Error;

static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../keys.json")).expect("a test reads the table of keys")
});

#[derive(Deserialize)]
struct Keys {
    /// Settings of training, of storage, of other libraries and of other parts of a multimodal model.
    harmless: BTreeSet<String>,
    /// Patterns of such settings, with one `*` each.
    harmless_like: Vec<String>,
    /// Harmless settings in the files of Hunyuan's dense models: settings of the other models of one class
    /// for all, and ids.
    hunyuan_harmless: BTreeSet<String>,
    /// Settings with their neutral values in those files.
    hunyuan_only: BTreeMap<String, Vec<Value>>,
    /// Settings that change the computation, with their neutral values; `null` is always neutral.
    only: BTreeMap<String, Vec<Value>>,
}

/// Settings that are read of every class, beside the fields of its own.
const READ: [&str; 11] = [
    "model_type",
    "quantization_config",
    "head_dim",
    "hidden_act",
    "hidden_activation",
    "layer_types",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "partial_rotary_factor",
    "original_max_position_embeddings",
];

/// Further settings that are read of all hybrids.
const OF_HYBRIDS: [&str; 7] = [
    "full_attention_interval",
    "attn_output_gate",
    "mamba_ssm_dtype",
    "output_gate_type",
    "norm_topk_prob",
    "decoder_sparse_step",
    "mlp_only_layers",
];

/// Further settings that are read of one class.
fn read_of(arch: Arch) -> &'static [&'static str] {
    match arch {
        Arch::Llama => &["use_sliding_window", "max_window_layers"],
        Arch::Gemma3 => &["rope_local_base_freq", "sliding_window_pattern", "_sliding_window_pattern"],
        // All layers slide if any does.
        Arch::Qwen3Moe => &["max_window_layers", "num_local_experts"],
        Arch::Glm4Moe => &["num_local_experts"],
        Arch::Qwen35Moe | Arch::Qwen3Next => &["num_local_experts", "intermediate_size"],
        Arch::Mistral | Arch::Ministral3 | Arch::Gemma2 => &["use_sliding_window"],
        Arch::Gemma4 => &["global_head_dim", "num_global_key_value_heads", "per_layer_config"],
        Arch::GptOss => &["num_experts", "experts_per_token", "initial_context_length"],
        Arch::Qwen2 | Arch::Qwen3 | Arch::Hunyuan | Arch::Qwen35 => &[],
    }
}

/// Fields of a class that are not supported.
const UNREAD: [&str; 3] =
    ["attn_logit_softcapping", "final_logit_softcapping", "use_bidirectional_attention"];

fn is_read(key: &str, s: &Settings<'_>, arch: Arch) -> bool {
    let is_read_here = match arch {
        Arch::Gemma2 => key.ends_with("_softcapping"),
        Arch::Gemma4 => key != "attn_logit_softcapping",
        _ => false,
    };
    let is_unread = UNREAD.contains(&key) && !is_read_here;
    let of_class = s.class.defaults.contains_key(key) && !is_unread;
    let of_hybrid = arch.is_hybrid() && OF_HYBRIDS.contains(&key);
    of_class || of_hybrid || READ.contains(&key) || read_of(arch).contains(&key)
}

/// Rejects unknown keys, and known ones whose value is neither read nor neutral.
pub fn check(s: &Settings<'_>, arch: Arch) -> Result<(), Error> {
    for (key, value) in s.file.iter().filter(|(_, value)| !value.is_null()) {
        if is_read(key, s, arch) {
            continue;
        }
        if arch == Arch::Hunyuan && KEYS.hunyuan_harmless.contains(key) {
            continue;
        }
        let hunyuan = KEYS.hunyuan_only.get(key).filter(|_| arch == Arch::Hunyuan);
        if let Some(neutral) = hunyuan.or_else(|| KEYS.only.get(key)) {
            if !neutral.iter().any(|neutral| is_same(neutral, value)) {
                return Err(s.bad(key, format!("is {}, which is not supported", shown(value))));
            }
        } else if !is_common(key) && !is_harmless(key) {
            let reason = format!(
                "is {}, a setting that is not known; hint: remove it if it does not change what the model computes",
                shown(value)
            );
            return Err(s.bad(key, reason));
        }
    }
    Ok(())
}

/// Rejects decoder settings beside `text_config`, unless they equal those inside.
pub fn check_outside(outside: &Map<String, Value>, text: &Settings<'_>, arch: Arch) -> Result<(), Error> {
    let is_decoders = |key: &str| {
        !["model_type", quantization::NAME].contains(&key)
            && (is_read(key, text, arch) || KEYS.only.contains_key(key))
            && !is_harmless(key)
    };
    for (key, value) in outside.iter().filter(|(key, value)| is_decoders(key) && !value.is_null()) {
        let neutral = KEYS.only.get(key).is_some_and(|values| values.iter().any(|v| is_same(v, value)));
        if !neutral && !text.value(key).is_some_and(|inside| is_same(inside, value)) {
            let reason = format!(
                "is {} beside `text_config`, where it is not read; hint: move it into `text_config`, or remove it",
                shown(value)
            );
            return Err(Error::Config { path: text.path.into(), key: key.clone(), reason });
        }
    }
    Ok(())
}

fn is_harmless(key: &str) -> bool {
    let is_like = |like: &String| match like.split_once('*') {
        Some((start, end)) => key.starts_with(start) && key.ends_with(end),
        None => key == like,
    };
    KEYS.harmless.contains(key) || KEYS.harmless_like.iter().any(is_like)
}
