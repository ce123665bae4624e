//! The supported families of models: a file for each, with what its `config.json` and its GGUF files say, its
//! defaults, its tensors and what it refuses. The readers that they share are in `config`.

mod apertus;
mod cohere;
mod deepseek;
mod exaone4;
mod gemma2;
mod gemma3;
mod gemma4;
mod glm4;
mod glm4_moe;
mod gpt_oss;
mod granite;
mod hunyuan;
mod llama;
mod ministral3;
mod mistral;
mod mixtral;
mod olmo2;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen3_5;
mod qwen3_moe;
mod qwen3_next;
mod seed_oss;
mod smollm3;
mod xlm_roberta;

use serde_json::Value;

use super::{
    Error, Result,
    config::{
        Config, LayerNorms, QkNorm,
        gguf::{self, Metadata},
        hf,
    },
};
use crate::gguf::shown;

/// A family of checkpoints.
pub struct Family {
    /// Its name in messages.
    name: &'static str,
    hf: hf::Schema,
    /// `None` for a family whose GGUF files are those of another one, or are not read.
    gguf: Option<gguf::Schema>,
}

/// All families, in the order in which messages list them.
const FAMILIES: &[&Family] = &[
    &llama::FAMILY,
    &mistral::FAMILY,
    &qwen2::FAMILY,
    &qwen3::FAMILY,
    &qwen3_moe::FAMILY,
    &glm4_moe::FAMILY,
    &gemma2::FAMILY,
    &gemma3::FAMILY,
    &hunyuan::FAMILY,
    &ministral3::FAMILY,
    &qwen3_5::DENSE_MODELS,
    &qwen3_5::WITH_EXPERTS,
    &qwen3_next::FAMILY,
    &gemma4::FAMILY,
    &gpt_oss::FAMILY,
    &seed_oss::FAMILY,
    &deepseek::V2,
    &deepseek::V3,
    &deepseek::GLM_LITE,
    &mistral::MINISTRAL,
    &mixtral::FAMILY,
    &smollm3::FAMILY,
    &olmo2::FAMILY,
    &olmo2::OLMO3,
    &granite::FAMILY,
    &granite::HYBRID,
    &glm4::FAMILY,
    &exaone4::FAMILY,
    &phi3::FAMILY,
    &apertus::FAMILY,
    &cohere::FAMILY,
    &cohere::COHERE2,
    &xlm_roberta::FAMILY,
    &xlm_roberta::XL,
    &xlm_roberta::BERT,
];

/// Families whose attention is sparse: an indexer picks the keys that each query sees. By their types and by
/// their GGUF files' architectures.
const SPARSE: [&str; 7] = [
    "deepseek_v32",
    "deepseek_v4",
    "glm_moe_dsa",
    "mistral_large4_text",
    "deepseek32",
    "deepseek4",
    "glm-dsa",
];

/// Names of all families, separated by commas.
pub fn names() -> String {
    FAMILIES.iter().map(|family| family.name).collect::<Vec<_>>().join(", ")
}

/// Reads a `config.json`.
///
/// # Errors
/// Names the key that has an unexpected value, is unknown or is not supported; `path` is for the message.
pub fn from_json(path: &str, json: &Value) -> Result<Config> {
    Ok(read_json(path, json)?.config)
}

/// [`from_json`] with the data needed to compare the sizes with the tensors'.
///
/// # Errors
/// Those of [`from_json`].
pub(super) fn read_json(path: &str, json: &Value) -> Result<hf::FileConfig> {
    for name in [&json["text_config"]["model_type"], &json["model_type"]] {
        refuse_sparse(path, "model_type", name.as_str().unwrap_or(""))?;
    }
    hf::read(path, json, |model_type| {
        let mut schemas = FAMILIES.iter().map(|family| &family.hf);
        schemas.find(|schema| schema.model_types.contains(&model_type))
    })
}

/// The family of a GGUF file.
///
/// # Errors
/// [`Error::Architecture`] for one that is not supported.
pub(super) fn of_gguf(path: &str, metadata: &Metadata) -> Result<&'static gguf::Schema> {
    let name = metadata.get("general.architecture").and_then(|name| name.to_string().ok());
    let name = name.map_or("", String::as_str);
    refuse_sparse(path, "general.architecture", name)?;
    let mut schemas = FAMILIES.iter().filter_map(|family| family.gguf.as_ref());
    let schema = schemas.find(|schema| schema.architecture == name);
    schema.ok_or_else(|| Error::Architecture { path: path.into(), arch: shown(name) })
}

fn refuse_sparse(path: &str, key: &str, name: &str) -> Result<()> {
    if !SPARSE.contains(&name) {
        return Ok(());
    }
    let reason = format!(
        "is `{name}`, whose attention is sparse: an indexer picks the keys, which is not supported; hint: take a model \
         with full attention, such as DeepSeek-V3.1"
    );
    Err(Error::Config { path: path.into(), key: key.into(), reason })
}

#[cfg(test)]
mod tests;
