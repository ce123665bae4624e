//! [`Config`] from GGUF metadata; it reads no tensor. An unsupported setting is rejected by name.

use super::{Activation, Arch, Config, QueryGrowth, Rope, Scaling};
use crate::{
    Error,
    gguf::{Value, in_words, number, shown},
};

mod attention;
mod delta_net;
mod experts;
mod keys;
mod rope;

pub use crate::gguf::{Metadata, whole};

/// Settings of a model that only its tensors show.
pub struct Tensors {
    /// Rows of the embedding matrix.
    pub vocab: usize,
    /// The model has no output matrix of its own.
    pub tied: bool,
    /// Heads of the first layer have norms, and its queries have biases.
    pub has_head_norms: bool,
    /// Layers without a projection of values: the keys' also gives them.
    pub without_values: Vec<usize>,
    pub has_query_bias: bool,
    /// The values of `rope_freqs.weight`, where the model has one.
    pub factors: Option<Vec<f32>>,
}

/// The architecture's name.
///
/// # Errors
/// [`Error::Architecture`] for one that is not supported.
pub fn architecture<'a>(path: &str, metadata: &'a Metadata) -> Result<&'a str, Error> {
    let name =
        metadata.get("general.architecture").and_then(|v| v.to_string().ok()).map_or("", String::as_str);
    arch(path, name).map(|_| name)
}

fn arch(path: &str, name: &str) -> Result<Arch, Error> {
    match name {
        "llama" => Ok(Arch::Llama),
        "qwen2" => Ok(Arch::Qwen2),
        "qwen3" => Ok(Arch::Qwen3),
        "qwen3moe" => Ok(Arch::Qwen3Moe),
        "glm4moe" => Ok(Arch::Glm4Moe),
        "gemma2" => Ok(Arch::Gemma2),
        "hunyuan-dense" => Ok(Arch::Hunyuan),
        "mistral3" => Ok(Arch::Ministral3),
        "qwen35" => Ok(Arch::Qwen35),
        "qwen35moe" => Ok(Arch::Qwen35Moe),
        "qwen3next" => Ok(Arch::Qwen3Next),
        "gemma3" => Ok(Arch::Gemma3),
        "gemma4" => Ok(Arch::Gemma4),
        "gpt-oss" => Ok(Arch::GptOss),
        other => Err(Error::Architecture { path: path.into(), arch: shown(other) }),
    }
}

/// Reads the decoder's settings from a GGUF file's metadata.
///
/// # Errors
/// Names the key that is missing, has an unexpected value or is unknown; `path` is for the message.
pub fn from_gguf(path: &str, metadata: &Metadata, tensors: &Tensors) -> Result<Config, Error> {
    let name = architecture(path, metadata)?;
    let arch = arch(path, name)?;
    let read = Reader { path, metadata, prefix: name };
    read.check_keys()?;
    let (hidden, n_heads) = (read.size("embedding_length")?, read.size("attention.head_count")?);
    // Layers that predict further tokens are counted among the others.
    let n_blocks = read.size("block_count")?.saturating_sub(read.n_predicting()?);
    let n_layers = super::layers(path, "block_count", n_blocks)?;
    let per_head = hidden / n_heads.max(1);
    let head_dim = read.optional_size("attention.key_length")?.unwrap_or(per_head);
    let context = read.size("context_length")?;
    let gemma = matches!(arch, Arch::Gemma2 | Arch::Gemma3 | Arch::Gemma4);
    let super::attention::Layers { full, sliding, slides } =
        read.attention(arch, (n_layers, n_heads, head_dim), tensors)?;
    let is_oss = arch == Arch::GptOss;
    let config = Config {
        vocab: tensors.vocab,
        hidden,
        intermediate: read.intermediate(arch)?,
        n_layers,
        n_heads,
        full,
        sliding,
        slides,
        norm_eps: read.number("attention.layer_norm_rms_epsilon")?,
        norm_plus_one: false,
        post_norms: gemma,
        value_norm: arch == Arch::Gemma4,
        sinks: arch == Arch::GptOss,
        layer_scalars: arch == Arch::Gemma4,
        qk_norm: arch.has_head_norms(tensors.has_head_norms),
        qkv_bias: arch == Arch::Qwen2 || is_oss || (arch == Arch::Glm4Moe && tensors.has_query_bias),
        o_bias: is_oss,
        mlp_bias: false,
        norm_after_rotation: arch == Arch::Hunyuan,
        query_growth: read.query_growth(arch)?,
        score_softcap: read.softcap(arch, "attn_logit_softcapping", 50.0)?,
        logit_softcap: read.softcap(arch, "final_logit_softcapping", 30.0)?,
        attention_scale: read.attention_scale(arch, n_layers, (per_head, head_dim))?,
        activation: match arch {
            // llama.cpp uses the same constants.
            Arch::GptOss => Activation::ClampedSilu { alpha: 1.702, limit: 7.0 },
            _ if gemma => Activation::GeluTanh,
            _ => Activation::Silu,
        },
        gated_attention: arch.is_hybrid(),
        delta_net: read.delta_net(arch, n_layers)?,
        experts: read.experts(arch, n_layers)?,
        embedding_scale: read.embedding_scale(gemma.then(|| (hidden as f64).sqrt() as f32))?,
        tied: tensors.tied,
        context,
        stop_ids: stop_ids(metadata),
    };
    super::check(path, config)
}

fn stop_ids(metadata: &Metadata) -> Vec<u32> {
    metadata.get("tokenizer.ggml.eos_token_id").and_then(whole).map(|id| id as u32).into_iter().collect()
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

    fn bad(&self, key: &str, reason: impl Into<String>) -> Error {
        let key = shown(&format!("{}.{key}", self.prefix));
        Error::Config { path: self.path.into(), key, reason: reason.into() }
    }

    /// Rejects settings that the decoder does not implement.
    fn check_keys(&self) -> Result<(), Error> {
        let of_arch = |key: &'_ String| key.strip_prefix(self.prefix)?.strip_prefix('.').map(str::to_owned);
        let mut keys: Vec<(String, &Value)> =
            self.metadata.iter().filter_map(|(key, value)| Some((of_arch(key)?, value))).collect();
        keys.sort_by(|a, b| a.0.cmp(&b.0));
        let objection = |(key, value): &(String, &Value)| {
            keys::objection(self.prefix, key, value).map(|reason| self.bad(key, reason))
        };
        keys.iter().find_map(objection).map_or(Ok(()), Err)
    }

    /// A size that is the same in all layers; `None` where the file does not have the key.
    fn optional_size(&self, key: &str) -> Result<Option<usize>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let size = match value {
            Value::Array(layers) => {
                // A layer without keys and values has no heads of them.
                let is_hybrid = arch(self.path, self.prefix).is_ok_and(Arch::is_hybrid);
                let is_none =
                    |size: &Option<usize>| is_hybrid && key == "attention.head_count_kv" && *size == Some(0);
                let mut sizes = layers.iter().map(whole).filter(|size| !is_none(size));
                let first = sizes.next().flatten();
                if sizes.any(|size| size != first) {
                    return Err(self.bad(key, "differs from layer to layer, which is not supported"));
                }
                first
            }
            value => whole(value),
        };
        size.map(Some).ok_or_else(|| self.bad(key, format!("is `{}`, not a whole number", in_words(value))))
    }

    fn size(&self, key: &str) -> Result<usize, Error> {
        self.optional_size(key)?.ok_or_else(|| self.bad(key, "is missing"))
    }

    fn optional(&self, key: &str) -> Result<Option<f64>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let finite = number(value).filter(|number| number.is_finite());
        finite.map(Some).ok_or_else(|| self.bad(key, format!("is `{}`, not a number", in_words(value))))
    }

    fn number(&self, key: &str) -> Result<f64, Error> {
        self.optional(key)?.ok_or_else(|| self.bad(key, "is missing"))
    }

    /// The factor of scores.
    fn attention_scale(&self, arch: Arch, n_layers: usize, widths: (usize, usize)) -> Result<f32, Error> {
        if arch == Arch::Gemma4 {
            return Ok(1.0);
        }
        // Gemma 2 and 3 27B scale by the width per head, all others by the head's width; GGUF has no key for
        // it.
        let is_27b = matches!((arch, n_layers), (Arch::Gemma2, 46) | (Arch::Gemma3, 62));
        let scalar = if is_27b { widths.0 } else { widths.1 };
        let scale = self.optional("attention.scale")?.filter(|scale| *scale != 0.0);
        Ok(scale.unwrap_or_else(|| (scalar as f64).powf(-0.5)) as f32)
    }

    /// A softcap of Gemma 2, with llama.cpp's default, or of Gemma 4, which has none without the key.
    fn softcap(&self, arch: Arch, key: &str, default: f32) -> Result<Option<f32>, Error> {
        match arch {
            Arch::Gemma2 => Ok(Some(self.above_zero(key)?.map_or(default, |cap| cap as f32))),
            Arch::Gemma4 if key.starts_with("final") => Ok(self.above_zero(key)?.map(|cap| cap as f32)),
            _ => Ok(None),
        }
    }

    /// Layers that predict further tokens, which are not computed.
    fn n_predicting(&self) -> Result<usize, Error> {
        Ok(self.optional_size("nextn_predict_layers")?.unwrap_or(0))
    }

    /// Number of values of a head that are rotated: all, except in GLM and Qwen's hybrids. Heads of values
    /// are as wide as those of keys.
    fn check_heads(&self, arch: Arch, head_dim: usize) -> Result<usize, Error> {
        let own = ["attention.value_length", "attention.key_length_swa", "attention.value_length_swa"];
        // Sliding layers of Gemma 4 have heads of their own.
        let n = if arch == Arch::Gemma4 { 1 } else { own.len() };
        for key in &own[..n] {
            let width = self.optional_size(key)?.unwrap_or(head_dim);
            if width != head_dim {
                let reason = format!("is {width}, and a head of keys has {head_dim}; one width is supported");
                return Err(self.bad(key, reason));
            }
        }
        for key in &["rope.dimension_count", "rope.dimension_count_swa"][..n.min(2)] {
            let rotated = self.optional_size(key)?.unwrap_or(head_dim);
            if arch.rotates_in_part() {
                return Ok(rotated);
            }
            if rotated != head_dim {
                let reason =
                    format!("is {rotated} of a head's {head_dim}; partial rotary embedding is not supported");
                return Err(self.bad(key, reason));
            }
        }
        Ok(head_dim)
    }

    /// Number of keys that a sliding layer sees, and the layers that slide.
    fn windows(
        &self,
        arch: Arch,
        n_layers: usize,
        context: usize,
    ) -> Result<(Option<usize>, Vec<bool>), Error> {
        let key = "attention.sliding_window";
        // A window that holds every position is none, except for Gemma's sliding layers, which have a rope of
        // their own.
        let has_two = matches!(arch, Arch::Gemma3 | Arch::Gemma4);
        let matters = |window: &usize| *window > 0 && (has_two || *window < context);
        // llama.cpp's default.
        let default = (arch == Arch::Gemma2).then_some(4096);
        let given = self.optional_size(key)?;
        if given.unwrap_or(0) == 0 && matches!(arch, Arch::Gemma4 | Arch::GptOss) {
            return Err(self.bad(key, "is missing or 0"));
        }
        let Some(window) = given.or(default).filter(matters) else {
            return Ok((None, vec![false; n_layers]));
        };
        let says_which = has_two || matches!(arch, Arch::Llama | Arch::Mistral | Arch::Ministral3);
        if !says_which && !matches!(arch, Arch::Gemma2 | Arch::GptOss) {
            let reason = format!("is {window}, and the file does not say which layers slide");
            return Err(self.bad(key, reason));
        }
        Ok((Some(window), self.sliding(arch, n_layers)?))
    }

    /// The layers that slide: every one of Mistral, every other of Gemma 2 and gpt-oss, all but each sixth of
    /// Gemma 3, unless the file lists them. Gemma 4's files do.
    fn sliding(&self, arch: Arch, n_layers: usize) -> Result<Vec<bool>, Error> {
        let key = "attention.sliding_window_pattern";
        let period = match self.value(key) {
            Some(Value::Array(_)) => return Ok(self.switches(key, n_layers)?.unwrap_or_default()),
            Some(_) => self.size(key)?,
            None if matches!(arch, Arch::Gemma2 | Arch::GptOss) => 2,
            None if arch == Arch::Gemma3 => 6,
            None if arch == Arch::Gemma4 => return Err(self.bad(key, "is missing")),
            None => 0,
        };
        Ok((1..=n_layers).map(|layer| period == 0 || !layer.is_multiple_of(period)).collect())
    }

    /// A list of true or false for each layer; layers that predict further tokens may be listed after the
    /// others.
    fn switches(&self, key: &str, n_layers: usize) -> Result<Option<Vec<bool>>, Error> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let with_predicting = n_layers.saturating_add(self.n_predicting()?);
        let layers: Option<Vec<bool>> = match value {
            Value::Array(layers) => layers.iter().map(truth).collect(),
            _ => None,
        };
        match layers {
            Some(mut layers) if [n_layers, with_predicting].contains(&layers.len()) => {
                layers.truncate(n_layers);
                Ok(Some(layers))
            }
            _ => Err(self.bad(key, format!("is not a list of true or false for each of {n_layers} layers"))),
        }
    }

    /// The factor of embeddings; `own` is the architecture's.
    fn embedding_scale(&self, own: Option<f32>) -> Result<Option<f32>, Error> {
        let key = "embedding_scale";
        let Some(scale) = self.optional(key)?.filter(|scale| *scale != 0.0) else { return Ok(own) };
        match own {
            Some(own) if (scale - f64::from(own)).abs() > 1e-3 * f64::from(own) => {
                Err(self.bad(key, format!("is {scale}, and the architecture has {own}")))
            }
            Some(own) => Ok(Some(own)),
            None => Ok((!same(scale, 1.0)).then_some(scale as f32)),
        }
    }
}

/// Returns true if two settings are the same number.
fn same(a: f64, b: f64) -> bool {
    a.total_cmp(&b).is_eq()
}

/// A value of true or false, which some writers write as a number.
fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(value) => Some(*value),
        value => whole(value).filter(|n| *n < 2).map(|n| n == 1),
    }
}
