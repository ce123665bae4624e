//! Mistral: a llama whose layers all have a window; in Ministral 8B, those that are listed. The GGUF files
//! are those of llama.

use super::{Family, hf};

pub const FAMILY: Family = Family {
    name: "mistral",
    hf: hf::Schema { model_types: &["mistral"], keys: &["use_sliding_window"], ..hf::Schema::LLAMA_LIKE },
    gguf: None,
};

pub const MINISTRAL: Family = Family {
    name: "ministral",
    hf: hf::Schema {
        model_types: &["ministral"],
        keys: &["use_sliding_window"],
        config: |settings| {
            let windows = settings.windows_listed(|window, n_layers| Ok(vec![window.is_some(); n_layers]))?;
            settings.decoder(windows)
        },
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: None,
};
