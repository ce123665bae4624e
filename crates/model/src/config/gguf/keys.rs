//! The keys under an architecture's name in GGUF metadata: those that are read, those that change nothing,
//! and those that must have the one value that the decoder computes with. It reads none of them.
//!
//! Source: `Keys` in `constants.py` of the package `gguf` 0.19, and their use in llama.cpp's `load_hparams`
//! and `load_arch_hparams`.

use super::Schema;
use crate::gguf::{Value, in_words, number, shown};

/// The meaning of a key.
#[derive(Clone, Copy)]
pub enum Key {
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

/// Keys with one meaning: their names, separated by spaces.
pub type Keys = (Key, &'static str);

/// Keys of all architectures. The rows of the embedding matrix are counted in place of `vocab_size`, norms
/// that are not centred have another epsilon, and dense models mix no experts. Writers disagree about the
/// unit of `yarn_log_multiplier`.
const ALL: &[Keys] = &[
    (
        Read,
        "context_length embedding_length block_count feed_forward_length embedding_scale \
         attention.head_count attention.head_count_kv attention.key_length attention.value_length \
         attention.layer_norm_rms_epsilon attention.scale attention.sliding_window rope.dimension_count \
         rope.freq_base rope.scale_linear rope.scaling.type rope.scaling.factor \
         rope.scaling.original_context_length rope.scaling.attn_factor rope.scaling.yarn_ext_factor \
         rope.scaling.yarn_attn_factor rope.scaling.yarn_beta_fast rope.scaling.yarn_beta_slow",
    ),
    (
        Harmless,
        "vocab_size attention.layer_norm_epsilon rope.scaling.finetuned tensor_data_layout \
         expert_used_count expert_feed_forward_length expert_shared_feed_forward_length expert_gating_func \
         expert_weights_norm expert_weights_scale",
    ),
    (
        Zero,
        "expert_count expert_shared_count attention.clamp_kqv attention.max_alibi_bias \
         attention.shared_kv_layers attention.temperature_length attention.temperature_scale \
         attn_logit_softcapping classifier.output_labels final_logit_softcapping nextn_predict_layers \
         pooling_type rope.dimension_sections rope.scaling.alpha rope.scaling.yarn_log_multiplier \
         router_logit_softcapping swin_norm use_parallel_residual",
    ),
    (One, "attention.output_scale attention.value_scale logit_scale residual_scale"),
    (True, "attention.causal"),
];

/// Further keys of mixtures of experts.
pub const EXPERTS: Keys = (
    Read,
    "expert_count expert_used_count expert_feed_forward_length expert_gating_func expert_weights_norm \
     expert_weights_scale",
);

/// Further keys of mixtures whose router has no groups.
pub const ONE_GROUP: Keys = (One, "expert_group_count expert_group_used_count");

/// Further keys of families with sliding layers.
pub const WINDOWS: Keys = (Read, "attention.sliding_window_pattern");

/// Further keys of sliding layers with heads and a rope of their own.
pub const SLIDING_HEADS: Keys =
    (Read, "attention.key_length_swa attention.value_length_swa rope.dimension_count_swa rope.freq_base_swa");

/// Further keys of models with Gated DeltaNet.
pub const HYBRID: Keys = (
    Read,
    "full_attention_interval attention.recurrent_layers ssm.conv_kernel ssm.inner_size ssm.state_size \
     ssm.time_step_rank ssm.group_count nextn_predict_layers expert_shared_feed_forward_length",
);

/// Further keys of families whose models may score texts.
pub const SCORE_HEAD: Keys = (Read, "pooling_type classifier.output_labels");

impl Schema {
    /// The reason why a key with this value, without the architecture's name before it, would make the model
    /// differ from the decoder; `None` for one that is supported or that changes nothing.
    pub(super) fn objection(&self, key: &str, value: &Value) -> Option<String> {
        if self.has_images && ["vision.", "mm."].iter().any(|of_images| key.starts_with(of_images)) {
            return None;
        }
        let mut keys = self.keys.iter().chain(ALL);
        let known = keys.find(|(_, names)| names.split(' ').any(|name| name == key)).map(|(key, _)| key);
        let is_zero = || match value {
            Value::Bool(value) => !value,
            Value::Array(items) => items.iter().all(|item| number(item) == Some(0.0)),
            value => number(value) == Some(0.0),
        };
        let is_fine = match known {
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
}

/// A value between backticks; a list without them.
fn shown_value(value: &Value) -> String {
    match value {
        Value::Array(_) => in_words(value),
        Value::String(text) => format!("`{}`", shown(text)),
        value => format!("`{}`", in_words(value)),
    }
}
