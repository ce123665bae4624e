//! Llama 2 and 3, `SmolLM2`.

use super::{Config, Family, gguf, hf};
use crate::config::gguf::Gating;
use gguf::tensors::{ATTENTION, DENSE, EXPERTS, FFN_NORM, ROPE_FACTORS};

pub const FAMILY: Family = Family {
    name: "llama",
    hf: hf::Schema {
        model_types: &["llama"],
        keys: &["use_sliding_window", "max_window_layers"],
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: Some(gguf::Schema {
        architecture: "llama",
        keys: &[gguf::keys::WINDOWS, gguf::keys::EXPERTS],
        tensors: &[ATTENTION, FFN_NORM, DENSE, EXPERTS, ROPE_FACTORS],
        is_interleaved: true,
        config: |reader| {
            // Mistral's files have this name; all of its layers slide. Mixtral's have experts.
            let decoder = reader.decoder(reader.windows(reader.window(None)?, Some(0))?)?;
            let has_experts = reader.optional_size("expert_count")?.unwrap_or(0) > 0;
            let experts = has_experts.then(|| reader.experts(Gating::Softmax)).transpose()?;
            Ok(Config { experts, ..decoder })
        },
        ..gguf::Schema::LLAMA_LIKE
    }),
};
