//! Gemma 3: norms around each half layer and on heads, five sliding layers to one full, each kind with a rope
//! of its own.

use super::{
    Config, Family, QkNorm, Result,
    gemma2::{gemma, scale_of_queries},
    gguf, hf,
};
use crate::config::{Activation, Attention};
use gguf::{
    keys::{self, Key::Read},
    tensors::{ATTENTION, DENSE, GEMMA_NORMS, HEAD_NORMS},
};

/// The distance between full layers.
const PERIOD: usize = 6;

pub const FAMILY: Family = Family {
    name: "gemma3",
    hf: hf::Schema {
        model_types: &["gemma3_text", "gemma3"],
        keys: &["rope_local_base_freq", "sliding_window_pattern", "_sliding_window_pattern"],
        rope: hf::rope::Schema { by_layer_type: true, ..hf::rope::Schema::WHOLE },
        config: from_json,
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: Some(gguf::Schema {
        architecture: "gemma3",
        keys: &[
            keys::WINDOWS,
            keys::SLIDING_HEADS,
            // Names of some writers for the bases of the two ropes.
            (Read, "rope.global.freq_base rope.local.freq_base"),
        ],
        tensors: &[ATTENTION, HEAD_NORMS, GEMMA_NORMS, DENSE],
        has_images: true,
        config: from_gguf,
        ..gguf::Schema::LLAMA_LIKE
    }),
};

fn from_json(settings: &hf::Settings<'_>) -> Result<Config> {
    let windows = settings.windows_listed(|_, n_layers| {
        let period = period(settings)?;
        Ok((1..=n_layers).map(|layer| !layer.is_multiple_of(period)).collect())
    })?;
    Ok(Config {
        norm_plus_one: true,
        qk_norm: QkNorm::Heads,
        attention_scale: settings.needed_positive("query_pre_attn_scalar")?.powf(-0.5) as f32,
        ..gemma(settings.decoder(windows)?)
    })
}

fn period(settings: &hf::Settings<'_>) -> Result<usize> {
    let (key, private) = ("sliding_window_pattern", "_sliding_window_pattern");
    let period = settings.size(key)?.unwrap_or(PERIOD);
    if period == 0 {
        return Err(settings.bad(key, "is 0; a number from 1 was expected"));
    }
    if settings.size(private)?.is_some_and(|private| private != period) {
        let reason = format!("is not {period}, which applies without `layer_types` or `{key}`");
        return Err(settings.bad(private, reason));
    }
    Ok(period)
}

fn from_gguf(reader: &gguf::Reader<'_>) -> Result<Config> {
    // A window that holds every position matters too: its layers have a rope of their own.
    let window = reader.optional_size("attention.sliding_window")?.filter(|size| *size > 0);
    let decoder = gemma(reader.decoder(reader.windows(window, Some(PERIOD))?)?);
    let head_dim = decoder.full.head_dim;
    reader.check_width("attention.key_length_swa", head_dim)?;
    reader.check_width("attention.value_length_swa", head_dim)?;
    reader.check_rotated("rope.dimension_count_swa", head_dim)?;
    let (rope, sliding_rope) = (reader.rope(1e6)?, reader.local_rope()?);
    Ok(Config {
        qk_norm: QkNorm::Heads,
        activation: Activation::GeluTanh,
        attention_scale: scale_of_queries(reader, &decoder, 62)?,
        embedding_scale: reader.embedding_scale(decoder.embedding_scale)?,
        full: Attention { rope, ..decoder.full },
        sliding: decoder.sliding.map(|sliding| Attention { rope: sliding_rope, ..sliding }),
        ..decoder
    })
}
