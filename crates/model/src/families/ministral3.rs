//! Ministral 3: YaRN, and queries that grow with their position.

use super::{Config, Family, Result, gguf, hf};
use crate::config::QueryGrowth;
use gguf::keys::{self, Key::Read};

const GROWTH: &str = "llama_4_scaling_beta";

pub const FAMILY: Family = Family {
    name: "ministral3",
    hf: hf::Schema {
        model_types: &["ministral3"],
        keys: &["use_sliding_window"],
        rope: hf::rope::Schema {
            keys: &[("yarn", &[GROWTH, "max_position_embeddings"])],
            ..hf::rope::Schema::WHOLE
        },
        config: from_json,
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: Some(gguf::Schema {
        architecture: "mistral3",
        keys: &[
            keys::WINDOWS,
            // The unit of the multiplier is that of `mscale_all_dim`.
            (Read, "attention.temperature_scale rope.scaling.yarn_log_multiplier"),
        ],
        is_interleaved: true,
        config: from_gguf,
        ..gguf::Schema::LLAMA_LIKE
    }),
};

fn from_json(settings: &hf::Settings<'_>) -> Result<Config> {
    let decoder = settings.decoder(settings.windows_alike()?)?;
    let rope = hf::rope::Stated::full(settings)?;
    if rope.kind()? != "yarn" {
        return Err(rope.bad("rope_type", "is not `yarn`; only that is supported with queries that grow"));
    }
    let beta = rope.number(GROWTH)?;
    let beta =
        beta.ok_or_else(|| rope.bad(GROWTH, format!("needs `{GROWTH}` beside it, which is missing")))?;
    let original = rope.original()?;
    Ok(Config { query_growth: Some(QueryGrowth { beta, original }), ..decoder })
}

fn from_gguf(reader: &gguf::Reader<'_>) -> Result<Config> {
    let decoder = reader.decoder(reader.windows(reader.window(None)?, Some(0))?)?;
    let beta = reader.optional("attention.temperature_scale")?.filter(|beta| *beta != 0.0);
    let original = reader.original()? as f64;
    Ok(Config { query_growth: beta.map(|beta| QueryGrowth { beta, original }), ..decoder })
}
