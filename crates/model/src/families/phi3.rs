//! Phi-3 and Phi-4: queries, keys and values in one matrix, gate and up in another; only a part of each head
//! may be rotated.

use super::{Family, gguf, hf};
use gguf::{
    keys,
    tensors::{ATTENTION, DENSE, FFN_NORM, GATE_AND_UP},
};

pub const FAMILY: Family = Family {
    name: "phi3",
    hf: hf::Schema {
        model_types: &["phi3"],
        rope: hf::rope::Schema { part: Some(1.0), ..hf::rope::Schema::WHOLE },
        harmless: "full_attn_mod interpolate_factor",
        only: r#"{"lm_head_bias": false}"#,
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: Some(gguf::Schema {
        architecture: "phi3",
        keys: &[keys::WINDOWS],
        tensors: &[GATE_AND_UP, ATTENTION, FFN_NORM, DENSE],
        rotates_in_part: true,
        config: |reader| reader.decoder(reader.windows(reader.window(None)?, Some(0))?),
        ..gguf::Schema::LLAMA_LIKE
    }),
};
