//! Qwen3: heads of queries and keys have norms; the last layers may slide.

use super::{Config, Family, QkNorm, gguf, hf, qwen2::last_layers_slide};
use gguf::tensors::{ATTENTION, DENSE, FFN_NORM, HEAD_NORMS, ROPE_FACTORS, SCORE_HEAD};

pub const FAMILY: Family = Family {
    name: "qwen3",
    hf: hf::Schema {
        model_types: &["qwen3"],
        config: |settings| {
            Ok(Config { qk_norm: QkNorm::Heads, ..settings.decoder(last_layers_slide(settings)?)? })
        },
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: Some(gguf::Schema {
        architecture: "qwen3",
        // The one architecture whose rank head llama.cpp applies to the last token.
        keys: &[gguf::keys::SCORE_HEAD],
        tensors: &[ATTENTION, HEAD_NORMS, FFN_NORM, DENSE, ROPE_FACTORS, SCORE_HEAD],
        config: |reader| Ok(Config { qk_norm: QkNorm::Heads, ..reader.decoder(reader.without_windows()?)? }),
        ..gguf::Schema::LLAMA_LIKE
    }),
};
