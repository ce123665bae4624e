//! OLMo 2 and 3: norms behind each half layer, and over all heads of queries or keys together; in OLMo 3
//! three of four layers slide.

use super::{Config, Family, LayerNorms, QkNorm, gguf, hf};
use crate::config::{Attention, Scaling};
use gguf::{
    keys,
    tensors::{ATTENTION, DENSE, GEMMA_NORMS, HEAD_NORMS},
};

/// The distance between full layers.
const PERIOD: usize = 4;

pub const FAMILY: Family = Family {
    name: "olmo2",
    hf: hf::Schema {
        model_types: &["olmo2"],
        config: |settings| Ok(normed(settings.decoder(settings.windows_alike()?)?)),
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: Some(gguf::Schema {
        architecture: "olmo2",
        keys: &[keys::WINDOWS],
        tensors: &[ATTENTION, HEAD_NORMS, GEMMA_NORMS, DENSE],
        config: |reader| {
            let decoder = normed(reader.decoder(reader.windows(reader.window(None)?, Some(PERIOD))?)?);
            // Only the rope of full layers is scaled.
            let sliding = decoder.sliding.map(|mut sliding: Attention| {
                sliding.rope.scaling = Scaling::None;
                sliding
            });
            Ok(Config { sliding, ..decoder })
        },
        ..gguf::Schema::LLAMA_LIKE
    }),
};

pub const OLMO3: Family = Family {
    name: "olmo3",
    hf: hf::Schema {
        model_types: &["olmo3"],
        rope: hf::rope::Schema { by_layer_type: true, ..hf::rope::Schema::WHOLE },
        config: |settings| {
            let windows = settings.windows_listed(|_, n_layers| {
                Ok((1..=n_layers).map(|layer| !layer.is_multiple_of(PERIOD)).collect())
            })?;
            Ok(normed(settings.decoder(windows)?))
        },
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: None,
};

fn normed(decoder: Config) -> Config {
    Config { norms: LayerNorms::Behind, qk_norm: QkNorm::Projection, ..decoder }
}
