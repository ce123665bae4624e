//! The supported families of models: a file for each, with what its `config.json` and its GGUF files say, its
//! defaults, its tensors and what it refuses. The readers that they share are in `config`.

mod gemma2;
mod gemma3;
mod gemma4;
mod glm4_moe;
mod gpt_oss;
mod hunyuan;
mod llama;
mod ministral3;
mod mistral;
mod qwen2;
mod qwen3;
mod qwen3_5;
mod qwen3_moe;
mod qwen3_next;
mod seed_oss;

use serde_json::Value;

use super::{
    Error,
    config::{
        Config,
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
];

/// Names of all families, separated by commas.
#[must_use]
pub fn names() -> String {
    FAMILIES.iter().map(|family| family.name).collect::<Vec<_>>().join(", ")
}

/// Reads a `config.json`.
///
/// # Errors
/// Names the key that has an unexpected value, is unknown or is not supported; `path` is for the message.
pub fn from_json(path: &str, json: &Value) -> Result<Config, Error> {
    Ok(read_json(path, json)?.config)
}

/// [`from_json`] with the data needed to compare the sizes with the tensors'.
///
/// # Errors
/// Those of [`from_json`].
pub(super) fn read_json(path: &str, json: &Value) -> Result<hf::FileConfig, Error> {
    hf::read(path, json, |model_type| {
        let mut schemas = FAMILIES.iter().map(|family| &family.hf);
        schemas.find(|schema| schema.model_types.contains(&model_type))
    })
}

/// The family of a GGUF file.
///
/// # Errors
/// [`Error::Architecture`] for one that is not supported.
pub(super) fn of_gguf(path: &str, metadata: &Metadata) -> Result<&'static gguf::Schema, Error> {
    let name = metadata.get("general.architecture").and_then(|name| name.to_string().ok());
    let name = name.map_or("", String::as_str);
    let mut schemas = FAMILIES.iter().filter_map(|family| family.gguf.as_ref());
    let schema = schemas.find(|schema| schema.architecture == name);
    schema.ok_or_else(|| Error::Architecture { path: path.into(), arch: shown(name) })
}

#[cfg(test)]
mod tests;
