//! Qwen3 with experts: a softmax over all of them.

use super::{Config, Family, QkNorm, Result, gguf, hf};
use crate::config::{Experts, gguf::Gating};
use gguf::{
    keys::{self, Key::Zero},
    tensors::{ATTENTION, DENSE, EXPERTS, FFN_NORM, HEAD_NORMS, ROPE_FACTORS},
};

pub const FAMILY: Family = Family {
    name: "qwen3_moe",
    hf: hf::Schema {
        model_types: &["qwen3_moe"],
        // All layers slide if any does.
        keys: &["max_window_layers", "num_local_experts"],
        config: from_json,
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: Some(gguf::Schema {
        architecture: "qwen3moe",
        keys: &[(Zero, "expert_shared_feed_forward_length"), keys::EXPERTS, keys::ONE_GROUP],
        tensors: &[ATTENTION, HEAD_NORMS, FFN_NORM, DENSE, EXPERTS, ROPE_FACTORS],
        config: |reader| {
            let experts = Some(reader.experts(Gating::Softmax)?);
            Ok(Config { qk_norm: QkNorm::Heads, experts, ..reader.decoder(reader.without_windows()?)? })
        },
        ..gguf::Schema::LLAMA_LIKE
    }),
};

fn from_json(settings: &hf::Settings<'_>) -> Result<Config> {
    let decoder = settings.decoder(settings.windows_alike()?)?;
    let experts = settings.experts(["num_experts", "num_local_experts"], settings.flag("norm_topk_prob")?)?;
    let experts = Experts { layers: settings.sparse_layers()?, ..experts };
    Ok(Config { qk_norm: QkNorm::Heads, experts: Some(experts), ..decoder })
}
