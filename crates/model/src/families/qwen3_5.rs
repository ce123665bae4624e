//! Qwen3.5, 3.6 and 3.8, dense or with experts: Gated DeltaNet in three of four layers, gated attention in
//! the fourth, a quarter of each head rotated. The image encoder and the layers that predict further tokens
//! are left out.

use super::{Config, Family, Result, gguf, hf};
use crate::config::{Experts, SharedExpert, gguf::Gating};
use gguf::{
    keys::{
        self,
        Key::{Harmless, One},
    },
    tensors::{
        ATTENTION, DELTA_NET, DENSE, EXPERTS, HEAD_NORMS, POST_ATTENTION_NORM, PREDICTING, ROPE_FACTORS,
        SHARED_EXPERT_GATE, SHARED_EXPERTS,
    },
};

/// Keys beside the fields of the class.
pub const KEYS: &[&str] =
    &["full_attention_interval", "output_gate_type", "num_local_experts", "intermediate_size"];

/// The values that the class computes with. It reads none of these settings, which its predecessor has.
const ONLY: &str = r#"{"attn_output_gate": true, "mamba_ssm_dtype": "float32", "norm_topk_prob": true,
    "decoder_sparse_step": 1, "mlp_only_layers": []}"#;

/// The assignment of a head's rotated values to an image's coordinates; a text has the same position in all.
const OF_IMAGES: &[&str] = &["mrope_section", "mrope_interleaved"];

/// A quarter of each head is rotated.
pub const ROPE: hf::rope::Schema = hf::rope::Schema { part: Some(0.25), ..hf::rope::Schema::WHOLE };

const ROPE_OF_IMAGES: hf::rope::Schema = hf::rope::Schema {
    keys: &[("default", OF_IMAGES), ("linear", OF_IMAGES), ("dynamic", OF_IMAGES), ("yarn", OF_IMAGES)],
    ..ROPE
};

pub const DENSE_MODELS: Family = Family {
    name: "qwen3_5",
    hf: hf::Schema {
        model_types: &["qwen3_5_text", "qwen3_5"],
        keys: &["full_attention_interval", "output_gate_type"],
        only: ONLY,
        rope: ROPE_OF_IMAGES,
        config: |settings| settings.hybrid(),
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: Some(gguf::Schema {
        architecture: "qwen35",
        keys: GGUF_KEYS,
        tensors: &[ATTENTION, HEAD_NORMS, POST_ATTENTION_NORM, DENSE, DELTA_NET, PREDICTING, ROPE_FACTORS],
        rotates_in_part: true,
        config: |reader| reader.hybrid(),
        ..gguf::Schema::LLAMA_LIKE
    }),
};

pub const WITH_EXPERTS: Family = Family {
    name: "qwen3_5_moe",
    hf: hf::Schema {
        model_types: &["qwen3_5_moe_text", "qwen3_5_moe"],
        keys: KEYS,
        only: ONLY,
        rope: ROPE_OF_IMAGES,
        // The weights of its experts always add up to one, and every layer has them.
        config: |settings| {
            Ok(Config { experts: Some(shared_experts(settings, true)?), ..settings.hybrid()? })
        },
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: Some(gguf::Schema { architecture: "qwen35moe", config: gguf_with_experts, ..GGUF_WITH_EXPERTS }),
};

const GGUF_KEYS: &[keys::Keys] = &[
    keys::HYBRID,
    keys::EXPERTS,
    keys::ONE_GROUP,
    (One, "expert_shared_count"),
    // Coordinates of images; a text has the same position in all.
    (Harmless, "rope.dimension_sections"),
];

/// GGUF files of hybrids with experts.
pub const GGUF_WITH_EXPERTS: gguf::Schema = gguf::Schema {
    keys: GGUF_KEYS,
    tensors: &[
        ATTENTION,
        HEAD_NORMS,
        POST_ATTENTION_NORM,
        DENSE,
        DELTA_NET,
        EXPERTS,
        SHARED_EXPERTS,
        SHARED_EXPERT_GATE,
        PREDICTING,
        ROPE_FACTORS,
    ],
    rotates_in_part: true,
    ..gguf::Schema::LLAMA_LIKE
};

/// Experts in every layer, and a shared one with a gate beside them.
pub fn shared_experts(settings: &hf::Settings<'_>, is_normalised: bool) -> Result<Experts> {
    let experts = settings.experts(["num_experts", "num_local_experts"], is_normalised)?;
    let width = settings.needed_size("shared_expert_intermediate_size")?;
    Ok(Experts { shared: Some(SharedExpert { width, is_gated: true }), ..experts })
}

pub fn gguf_with_experts(reader: &gguf::Reader<'_>) -> Result<Config> {
    let width = reader.size("expert_shared_feed_forward_length")?;
    let experts = reader.experts(Gating::Softmax)?;
    let experts = Experts { shared: Some(SharedExpert { width, is_gated: true }), ..experts };
    Ok(Config { experts: Some(experts), ..reader.hybrid()? })
}
