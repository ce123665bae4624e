//! Mistral: a llama whose layers all have a window. Its GGUF files are those of llama.

use super::{Family, hf};

pub const FAMILY: Family = Family {
    name: "mistral",
    hf: hf::Schema { model_types: &["mistral"], keys: &["use_sliding_window"], ..hf::Schema::LLAMA_LIKE },
    gguf: None,
};
