//! Cohere's Command R and Aya Expanse, and Cohere 2 (Command R7B, Command A, Tiny Aya): attention and
//! feed-forward half side by side behind one centred norm, neighbouring values rotated, logits with a factor.
//! In Cohere 2 full layers attend without positions.

use super::{Config, Family, LayerNorms, QkNorm, Result, gguf, hf};
use gguf::{
    keys::{self, Key::Read},
    tensors::{ATTENTION, DENSE, HEAD_NORMS},
};

/// The distance between full layers of Cohere 2.
const PERIOD: usize = 4;

/// llama.cpp's name of the epsilon of a centred norm.
const EPSILON: &str = "attention.layer_norm_epsilon";

const OF_GGUF: keys::Keys = (Read, "attention.layer_norm_epsilon logit_scale");

pub const FAMILY: Family = Family {
    name: "cohere",
    hf: hf::Schema {
        model_types: &["cohere"],
        config: |settings| {
            let decoder = settings.decoder(settings.windows_alike()?)?;
            let qk_norm = if settings.flag("use_qk_norm")? { QkNorm::EachHead } else { QkNorm::None };
            Ok(Config { qk_norm, ..cohere(decoder, settings.needed_positive("logit_scale")?) })
        },
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: Some(gguf::Schema {
        architecture: "command-r",
        keys: &[OF_GGUF],
        norm_epsilon: EPSILON,
        tensors: &[ATTENTION, HEAD_NORMS, DENSE],
        config: |reader| {
            let decoder = cohere(reader.decoder(reader.without_windows()?)?, logit_scale(reader)?);
            let qk_norm = if reader.tensors.has_head_norms { QkNorm::EachHead } else { QkNorm::None };
            Ok(Config { qk_norm, ..decoder })
        },
        ..gguf::Schema::LLAMA_LIKE
    }),
};

pub const COHERE2: Family = Family {
    name: "cohere2",
    hf: hf::Schema {
        model_types: &["cohere2"],
        keys: &["sliding_window_pattern", "_sliding_window_pattern"],
        harmless: "layer_switch use_embedding_sharing use_parallel_embedding",
        only: r#"{"order_of_interleaved_layers": "local_attn_first", "position_embedding_type": "rope_gptj",
            "use_gated_activation": true, "use_parallel_block": true, "use_qk_norm": false}"#,
        config: from_json,
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: Some(gguf::Schema {
        architecture: "cohere2",
        keys: &[keys::WINDOWS, OF_GGUF],
        norm_epsilon: EPSILON,
        tensors: &[ATTENTION, DENSE],
        config: |reader| {
            let windows = reader.windows(Some(reader.needed_window()?), Some(PERIOD))?;
            Ok(cohere2(cohere(reader.decoder(windows)?, logit_scale(reader)?)))
        },
        ..gguf::Schema::LLAMA_LIKE
    }),
};

fn from_json(settings: &hf::Settings<'_>) -> Result<Config> {
    let windows = settings.windows_listed(|_, n_layers| {
        let period = settings.size("sliding_window_pattern")?.unwrap_or(PERIOD);
        Ok((1..=n_layers).map(|layer| period == 0 || !layer.is_multiple_of(period)).collect())
    })?;
    Ok(cohere2(cohere(settings.decoder(windows)?, settings.needed_positive("logit_scale")?)))
}

fn logit_scale(reader: &gguf::Reader<'_>) -> Result<f64> {
    let key = "logit_scale";
    reader.above_zero(key)?.ok_or_else(|| reader.bad(key, "is missing"))
}

fn cohere(decoder: Config, logit_scale: f64) -> Config {
    Config {
        norms: LayerNorms::Shared,
        norm_centred: true,
        neighbours_rotate: true,
        logit_scale: Some(logit_scale as f32),
        ..decoder
    }
}

fn cohere2(decoder: Config) -> Config {
    Config { full: decoder.full.unrotated(), ..decoder }
}
