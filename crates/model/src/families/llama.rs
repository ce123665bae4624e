//! Llama 2 and 3, `SmolLM2`.

use super::{Family, gguf, hf};

pub const FAMILY: Family = Family {
    name: "llama",
    hf: hf::Schema {
        model_types: &["llama"],
        keys: &["use_sliding_window", "max_window_layers"],
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: Some(gguf::Schema {
        architecture: "llama",
        keys: &[gguf::keys::WINDOWS],
        is_interleaved: true,
        // Mistral's files have this name; all of its layers slide.
        config: |reader| reader.decoder(reader.windows(reader.window(None)?, Some(0))?),
        ..gguf::Schema::LLAMA_LIKE
    }),
};
