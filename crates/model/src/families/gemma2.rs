//! Gemma 2: norms around each half layer, every other layer slides, scores and logits are capped.

use super::{Config, Error, Family, LayerNorms, Result, gguf, hf};
use crate::config::Activation;
use gguf::{
    keys::{self, Key::Read},
    tensors::{ATTENTION, DENSE, GEMMA_NORMS},
};

const SCORES: &str = "attn_logit_softcapping";
const LOGITS: &str = "final_logit_softcapping";

pub const FAMILY: Family = Family {
    name: "gemma2",
    hf: hf::Schema {
        model_types: &["gemma2"],
        keys: &["use_sliding_window", SCORES, LOGITS],
        config: from_json,
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: Some(gguf::Schema {
        architecture: "gemma2",
        keys: &[keys::WINDOWS, (Read, SCORES), (Read, LOGITS)],
        tensors: &[ATTENTION, GEMMA_NORMS, DENSE],
        config: from_gguf,
        ..gguf::Schema::LLAMA_LIKE
    }),
};

fn from_json(settings: &hf::Settings<'_>) -> Result<Config> {
    let windows = settings
        .windows_listed(|_, n_layers| Ok((0..n_layers).map(|layer| layer.is_multiple_of(2)).collect()))?;
    let cap = |key| Ok::<_, Error>(settings.positive(key)?.map(|cap| cap as f32));
    Ok(Config {
        norm_plus_one: true,
        attention_scale: settings.needed_positive("query_pre_attn_scalar")?.powf(-0.5) as f32,
        score_softcap: cap(SCORES)?,
        logit_softcap: cap(LOGITS)?,
        ..gemma(settings.decoder(windows)?)
    })
}

fn from_gguf(reader: &gguf::Reader<'_>) -> Result<Config> {
    // llama.cpp's defaults.
    let windows = reader.windows(reader.window(Some(4096))?, Some(2))?;
    let cap = |key, default| Ok::<_, Error>(reader.above_zero(key)?.map_or(default, |cap| cap as f32));
    let decoder = gemma(reader.decoder(windows)?);
    Ok(Config {
        activation: Activation::GeluTanh,
        score_softcap: Some(cap(SCORES, 50.0)?),
        logit_softcap: Some(cap(LOGITS, 30.0)?),
        attention_scale: scale_of_queries(reader, &decoder, 46)?,
        embedding_scale: reader.embedding_scale(decoder.embedding_scale)?,
        ..decoder
    })
}

/// Settings of all Gemma models.
pub fn gemma(decoder: Config) -> Config {
    let embedding_scale = Some((decoder.hidden as f64).sqrt() as f32);
    Config { norms: LayerNorms::Around, embedding_scale, ..decoder }
}

/// The model of 27 billion parameters, known by its number of layers, scales scores by the width per head,
/// all others by the head's width; GGUF has no key for it.
pub fn scale_of_queries(reader: &gguf::Reader<'_>, decoder: &Config, layers_of_27b: usize) -> Result<f32> {
    let is_27b = decoder.n_layers == layers_of_27b;
    reader.attention_scale(if is_27b {
        decoder.hidden / decoder.n_heads.max(1)
    } else {
        decoder.full.head_dim
    })
}
