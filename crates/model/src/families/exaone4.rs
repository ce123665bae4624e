//! EXAONE 4: norms behind each half layer and on heads; where some layers slide, the others attend without
//! positions.

use super::{Config, Family, LayerNorms, QkNorm, Result, gguf, hf};
use gguf::{
    keys,
    tensors::{ATTENTION, DENSE, GEMMA_NORMS, HEAD_NORMS, ROPE_FACTORS},
};

pub const FAMILY: Family = Family {
    name: "exaone4",
    hf: hf::Schema { model_types: &["exaone4"], config: from_json, ..hf::Schema::LLAMA_LIKE },
    gguf: Some(gguf::Schema {
        architecture: "exaone4",
        keys: &[keys::WINDOWS],
        tensors: &[ATTENTION, HEAD_NORMS, GEMMA_NORMS, DENSE, ROPE_FACTORS],
        config: |reader| Ok(exaone4(reader.decoder(reader.windows(reader.window(None)?, Some(4))?)?)),
        ..gguf::Schema::LLAMA_LIKE
    }),
};

fn from_json(settings: &hf::Settings<'_>) -> Result<Config> {
    let windows = settings.windows_listed(|window, n_layers| {
        let period = settings.size("sliding_window_pattern")?.unwrap_or(0);
        Ok((1..=n_layers)
            .map(|layer| window.is_some() && (period == 0 || !layer.is_multiple_of(period)))
            .collect())
    })?;
    Ok(exaone4(settings.decoder(windows)?))
}

fn exaone4(decoder: Config) -> Config {
    let full = if decoder.sliding.is_some() { decoder.full.unrotated() } else { decoder.full };
    Config { full, norms: LayerNorms::Behind, qk_norm: QkNorm::Heads, ..decoder }
}
