//! [`Config`] from GGUF metadata; it reads no tensor.

use std::collections::HashMap;

use candle_core::quantized::gguf_file::Value;

use super::{Activation, Arch, Config, Rope, Scaling};
use crate::model::Error;

/// GGUF's key-value section.
pub type Metadata = HashMap<String, Value>;

/// What the metadata leaves to the tensors.
pub struct Tensors {
    /// Rows of the embedding matrix.
    pub vocab: usize,
    /// The file has no output matrix of its own.
    pub tied: bool,
    /// The values of `rope_freqs.weight`, where the file has one.
    pub factors: Option<Vec<f32>>,
}

/// Reads the decoder's settings from a GGUF file's metadata.
///
/// # Errors
/// Names the key that is missing or has an unexpected value; `path` is for the message.
pub fn from_gguf(path: &str, metadata: &Metadata, tensors: Tensors) -> Result<Config, Error> {
    let general = metadata.get("general.architecture").and_then(|v| v.to_string().ok());
    let name = general.map_or("", String::as_str);
    let arch = match name {
        "llama" => Arch::Llama,
        "qwen2" => Arch::Qwen2,
        "qwen3" => Arch::Qwen3,
        "gemma3" => Arch::Gemma3,
        other => return Err(Error::Architecture { path: path.into(), arch: other.into() }),
    };
    let read = Reader { path, metadata, prefix: name };
    let (hidden, n_heads) = (read.size("embedding_length")?, read.size("attention.head_count")?);
    let n_layers = super::layers(path, "block_count", read.size("block_count")?)?;
    let head_dim = read.size_or("attention.key_length", hidden / n_heads.max(1));
    let gemma = arch == Arch::Gemma3;
    let window = read.size("attention.sliding_window").ok().filter(|_| gemma);
    // Gemma 3 27B scales by the width per head, all others by the head's width; GGUF does not say which.
    let scalar = if gemma && n_layers == 62 { hidden / n_heads.max(1) } else { head_dim };
    let config = Config {
        vocab: tensors.vocab,
        hidden,
        intermediate: read.size("feed_forward_length")?,
        n_layers,
        n_heads,
        n_kv_heads: read.size_or("attention.head_count_kv", n_heads),
        head_dim,
        norm_eps: read.float("attention.layer_norm_rms_epsilon").unwrap_or(1e-6),
        norm_plus_one: false,
        post_norms: gemma,
        qk_norm: gemma || arch == Arch::Qwen3,
        qkv_bias: arch == Arch::Qwen2,
        o_bias: false,
        mlp_bias: false,
        attention_scale: (scalar as f64).powf(-0.5) as f32,
        rope: read.rope(if gemma { 1e6 } else { 1e4 }, tensors.factors)?,
        local_rope: gemma.then_some(Rope { theta: 1e4, scaling: Scaling::None }),
        window,
        // Five windows, then one full layer: the pattern of every Gemma 3.
        sliding: (0..n_layers).map(|layer| window.is_some() && !(layer + 1).is_multiple_of(6)).collect(),
        activation: if gemma { Activation::GeluTanh } else { Activation::Silu },
        embedding_scale: gemma.then(|| (hidden as f64).sqrt() as f32),
        tied: tensors.tied,
        context: read.size_or("context_length", 4096),
        stop_ids: metadata
            .get("tokenizer.ggml.eos_token_id")
            .and_then(whole)
            .map(|id| id as u32)
            .into_iter()
            .collect(),
    };
    super::check(path, config)
}

struct Reader<'a> {
    path: &'a str,
    metadata: &'a Metadata,
    prefix: &'a str,
}

impl Reader<'_> {
    fn value(&self, key: &str) -> Option<&Value> {
        self.metadata.get(&format!("{}.{key}", self.prefix))
    }

    fn bad(&self, key: &str, reason: &str) -> Error {
        Error::Config { path: self.path.into(), key: format!("{}.{key}", self.prefix), reason: reason.into() }
    }

    fn size(&self, key: &str) -> Result<usize, Error> {
        let value = self.value(key).ok_or_else(|| self.bad(key, "is missing"))?;
        whole(value).ok_or_else(|| self.bad(key, "is not a whole number"))
    }

    fn size_or(&self, key: &str, default: usize) -> usize {
        self.size(key).unwrap_or(default)
    }

    fn float(&self, key: &str) -> Option<f64> {
        self.value(key).and_then(|v| v.to_f32().ok()).map(f64::from)
    }

    fn rope(&self, default_theta: f64, factors: Option<Vec<f32>>) -> Result<Rope, Error> {
        let theta = self.float("rope.freq_base").unwrap_or(default_theta);
        if let Some(factors) = factors {
            return Ok(Rope { theta, scaling: Scaling::Factors(factors) });
        }
        let kind = self.value("rope.scaling.type").and_then(|v| v.to_string().ok());
        let factor = self.float("rope.scaling.factor").unwrap_or(1.0);
        let scaling = match kind.map_or("none", String::as_str) {
            "none" => Scaling::None,
            "linear" => Scaling::Linear(factor),
            "yarn" => Scaling::Yarn {
                factor,
                original: self.size("rope.scaling.original_context_length")? as f64,
                beta_fast: 32.0,
                beta_slow: 1.0,
                attention: self.float("rope.scaling.attn_factor"),
                truncate: true,
            },
            other => return Err(self.bad("rope.scaling.type", &format!("`{other}` is not known"))),
        };
        Ok(Rope { theta, scaling })
    }
}

/// Any of GGUF's integer types.
#[must_use]
pub fn whole(value: &Value) -> Option<usize> {
    match *value {
        Value::U8(v) => Some(v.into()),
        Value::U16(v) => Some(v.into()),
        Value::U32(v) => Some(v as usize),
        Value::U64(v) => usize::try_from(v).ok(),
        Value::I32(v) => usize::try_from(v).ok(),
        Value::I64(v) => usize::try_from(v).ok(),
        _ => None,
    }
}
