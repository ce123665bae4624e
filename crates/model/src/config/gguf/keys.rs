//! The keys under an architecture's name in GGUF metadata: those that are read, those that change nothing,
//! and those that must have the one value that the decoder computes with. It reads none of them.
//!
//! Source: `Keys` in `constants.py` of the package `gguf` 0.19, and their use in llama.cpp's `load_hparams`
//! and `load_arch_hparams`.

use crate::gguf::{Value, in_words, number, shown};

/// The meaning of a key.
#[derive(Clone, Copy)]
enum Key {
    /// Read into the configuration.
    Read,
    /// No computed number depends on it.
    Harmless,
    /// Only zero, false or an empty list is supported.
    Zero,
    /// Only the number one is supported; writers use zero for a missing value.
    One,
    /// Only true is supported.
    True,
}

use Key::{Harmless, One, Read, True, Zero};

/// Keys of all architectures.
const ALL: &[(&str, Key)] = &[
    ("context_length", Read),
    ("embedding_length", Read),
    ("block_count", Read),
    ("feed_forward_length", Read),
    ("embedding_scale", Read),
    ("attention.head_count", Read),
    ("attention.head_count_kv", Read),
    ("attention.key_length", Read),
    ("attention.value_length", Read),
    ("attention.layer_norm_rms_epsilon", Read),
    ("attention.scale", Read),
    ("attention.sliding_window", Read),
    ("rope.dimension_count", Read),
    ("rope.freq_base", Read),
    ("rope.scale_linear", Read),
    ("rope.scaling.type", Read),
    ("rope.scaling.factor", Read),
    ("rope.scaling.original_context_length", Read),
    ("rope.scaling.attn_factor", Read),
    ("rope.scaling.yarn_ext_factor", Read),
    ("rope.scaling.yarn_attn_factor", Read),
    ("rope.scaling.yarn_beta_fast", Read),
    ("rope.scaling.yarn_beta_slow", Read),
    // The rows of the embedding matrix are counted instead.
    ("vocab_size", Harmless),
    // All norms are root mean squares.
    ("attention.layer_norm_epsilon", Harmless),
    ("rope.scaling.finetuned", Harmless),
    ("tensor_data_layout", Harmless),
    // The mixing of experts, of which dense models have none.
    ("expert_used_count", Harmless),
    ("expert_feed_forward_length", Harmless),
    ("expert_shared_feed_forward_length", Harmless),
    ("expert_gating_func", Harmless),
    ("expert_weights_norm", Harmless),
    ("expert_weights_scale", Harmless),
    ("expert_count", Zero),
    ("expert_shared_count", Zero),
    ("attention.causal", True),
    ("attention.clamp_kqv", Zero),
    ("attention.max_alibi_bias", Zero),
    ("attention.output_scale", One),
    ("attention.shared_kv_layers", Zero),
    ("attention.temperature_length", Zero),
    ("attention.temperature_scale", Zero),
    ("attention.value_scale", One),
    ("attn_logit_softcapping", Zero),
    ("classifier.output_labels", Zero),
    ("final_logit_softcapping", Zero),
    ("logit_scale", One),
    ("nextn_predict_layers", Zero),
    ("pooling_type", Zero),
    ("residual_scale", One),
    ("rope.dimension_sections", Zero),
    ("rope.scaling.alpha", Zero),
    // Writers disagree about its unit.
    ("rope.scaling.yarn_log_multiplier", Zero),
    ("router_logit_softcapping", Zero),
    ("swin_norm", Zero),
    ("use_parallel_residual", Zero),
];

/// Further keys of mixtures of experts.
const EXPERTS: &[(&str, Key)] = &[
    ("expert_count", Read),
    ("expert_used_count", Read),
    ("expert_feed_forward_length", Read),
    ("expert_gating_func", Read),
    ("expert_weights_norm", Read),
    ("expert_weights_scale", Read),
];

/// Further keys of mixtures whose router has no groups.
const ONE_GROUP: &[(&str, Key)] = &[("expert_group_count", One), ("expert_group_used_count", One)];

/// Further keys of Llama and Mistral.
const LLAMA: &[(&str, Key)] = &[("attention.sliding_window_pattern", Read)];

/// Further keys of Gemma 3. Some writers name the bases of its two ropes `local` and `global`.
const GEMMA3: &[(&str, Key)] = &[
    ("attention.sliding_window_pattern", Read),
    ("attention.key_length_swa", Read),
    ("attention.value_length_swa", Read),
    ("rope.dimension_count_swa", Read),
    ("rope.freq_base_swa", Read),
    ("rope.global.freq_base", Read),
    ("rope.local.freq_base", Read),
];

/// Further keys of Gemma 4.
const GEMMA4: &[(&str, Key)] = &[
    ("attention.sliding_window_pattern", Read),
    ("attention.key_length_swa", Read),
    ("attention.value_length_swa", Read),
    ("rope.dimension_count_swa", Read),
    ("rope.freq_base_swa", Read),
    ("final_logit_softcapping", Read),
    // Embeddings for each layer, which only the E models have.
    ("embedding_length_per_layer_input", Zero),
];

/// Further keys of gpt-oss.
const GPT_OSS: &[(&str, Key)] = &[("attention.sliding_window_pattern", Read)];

/// Further keys of Qwen3 with experts.
const QWEN3_MOE: &[(&str, Key)] = &[("expert_shared_feed_forward_length", Zero)];

/// Further keys of GLM 4.5 and 4.6.
const GLM4_MOE: &[(&str, Key)] = &[
    ("expert_shared_count", Read),
    ("expert_group_count", Read),
    ("expert_group_used_count", Read),
    ("leading_dense_block_count", Read),
    ("nextn_predict_layers", Read),
];

/// Further keys of models with Gated DeltaNet.
const HYBRID: &[(&str, Key)] = &[
    ("full_attention_interval", Read),
    ("attention.recurrent_layers", Read),
    ("ssm.conv_kernel", Read),
    ("ssm.inner_size", Read),
    ("ssm.state_size", Read),
    ("ssm.time_step_rank", Read),
    ("ssm.group_count", Read),
    // Coordinates of images; a text has the same position in all.
    ("rope.dimension_sections", Harmless),
    ("nextn_predict_layers", Read),
    ("expert_shared_feed_forward_length", Read),
    ("expert_shared_count", One),
];

/// Further keys of Gemma 2.
const GEMMA2: &[(&str, Key)] = &[
    ("attention.sliding_window_pattern", Read),
    ("attn_logit_softcapping", Read),
    ("final_logit_softcapping", Read),
];

/// Further keys of Ministral 3. The unit of its multiplier is that of `mscale_all_dim`.
const MISTRAL3: &[(&str, Key)] = &[
    ("attention.sliding_window_pattern", Read),
    ("attention.temperature_scale", Read),
    ("rope.scaling.yarn_log_multiplier", Read),
];

/// Prefixes of keys for images.
const OF_IMAGES: &[&str] = &["vision.", "mm."];

/// The reason why a key with this value, without the architecture's name before it, would make the model
/// differ from the decoder; `None` for one that is supported or that changes nothing.
pub fn objection(arch: &str, key: &str, value: &Value) -> Option<String> {
    let own: &[&[(&str, Key)]] = match arch {
        "llama" => &[LLAMA],
        "qwen3moe" => &[QWEN3_MOE, EXPERTS, ONE_GROUP],
        "glm4moe" => &[GLM4_MOE, EXPERTS],
        "gemma2" => &[GEMMA2],
        "mistral3" => &[MISTRAL3],
        "qwen35" | "qwen35moe" | "qwen3next" => &[HYBRID, EXPERTS, ONE_GROUP],
        "gemma3" => &[GEMMA3],
        "gemma4" => &[GEMMA4, EXPERTS, ONE_GROUP],
        "gpt-oss" => &[GPT_OSS, EXPERTS, ONE_GROUP],
        _ => &[],
    };
    if matches!(arch, "gemma3" | "gemma4") && OF_IMAGES.iter().any(|of_images| key.starts_with(of_images)) {
        return None;
    }
    let is_zero = || match value {
        Value::Bool(value) => !value,
        Value::Array(items) => items.iter().all(|item| number(item) == Some(0.0)),
        value => number(value) == Some(0.0),
    };
    let is_fine = match own
        .iter()
        .copied()
        .flatten()
        .chain(ALL)
        .find(|(known, _)| *known == key)
        .map(|(_, key)| key)
    {
        Some(Read | Harmless) => true,
        Some(Zero) => is_zero(),
        Some(One) => is_zero() || number(value) == Some(1.0),
        Some(True) => matches!(value, Value::Bool(true)),
        None => {
            let why = "is not a setting that is known; hint: it may change what the model computes, so the file is not \
                       used; the model's safetensors folder may say more";
            return Some(why.into());
        }
    };
    (!is_fine).then(|| format!("is {}, which is not supported", shown_value(value)))
}

/// A value between backticks; a list without them.
fn shown_value(value: &Value) -> String {
    match value {
        Value::Array(_) => in_words(value),
        Value::String(text) => format!("`{}`", shown(text)),
        value => format!("`{}`", in_words(value)),
    }
}
