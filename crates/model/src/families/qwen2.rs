//! Qwen2 and 2.5: queries, keys and values have biases; the last layers may slide.

use super::{Config, Family, Result, gguf, hf};
use crate::config::Windows;

pub const FAMILY: Family = Family {
    name: "qwen2",
    hf: hf::Schema {
        model_types: &["qwen2"],
        config: |settings| Ok(Config { qkv_bias: true, ..settings.decoder(last_layers_slide(settings)?)? }),
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: Some(gguf::Schema {
        architecture: "qwen2",
        config: |reader| Ok(Config { qkv_bias: true, ..reader.decoder(reader.without_windows()?)? }),
        ..gguf::Schema::LLAMA_LIKE
    }),
};

/// Layers from `max_window_layers` on slide, unless they are listed.
pub fn last_layers_slide(settings: &hf::Settings<'_>) -> Result<Windows> {
    settings.windows_listed(|window, n_layers| {
        let first = settings.needed_size("max_window_layers")?;
        Ok((0..n_layers).map(|layer| window.is_some() && layer >= first).collect())
    })
}
