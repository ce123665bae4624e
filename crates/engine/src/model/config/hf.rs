//! [`Config`] from a Hugging Face `config.json`; it reads no other file.

use serde_json::Value;

use super::{Activation, Arch, Config, Rope, Scaling};
use crate::model::Error;

/// Reads a `config.json`.
///
/// # Errors
/// Names the key that is missing or has an unexpected value; `path` is for the message.
pub fn from_json(path: &str, json: &Value) -> Result<Config, Error> {
    // Multimodal Gemma 3 checkpoints keep the text decoder's settings one level down.
    let text = json.get("text_config").unwrap_or(json);
    let read = Reader { path, json: text };
    let arch = read.arch(json)?;
    let (hidden, n_heads) = (read.size("hidden_size")?, read.size("num_attention_heads")?);
    let n_layers = super::layers(path, "num_hidden_layers", read.size("num_hidden_layers")?)?;
    let head_dim = read.size_or("head_dim", hidden / n_heads.max(1));
    let gemma = arch == Arch::Gemma3;
    let (window, sliding) = read.windows(arch, n_layers);
    let (rope, local_rope) = read.ropes(arch)?;
    let config = Config {
        vocab: read.size("vocab_size")?,
        hidden,
        intermediate: read.size("intermediate_size")?,
        n_layers,
        n_heads,
        n_kv_heads: read.size_or("num_key_value_heads", n_heads),
        head_dim,
        norm_eps: read.float("rms_norm_eps").unwrap_or(1e-6),
        norm_plus_one: gemma,
        post_norms: gemma,
        qk_norm: gemma || arch == Arch::Qwen3,
        qkv_bias: arch == Arch::Qwen2,
        attention_scale: (read.float("query_pre_attn_scalar").unwrap_or(head_dim as f64)).powf(-0.5) as f32,
        rope,
        local_rope,
        window,
        sliding,
        activation: if gemma { Activation::GeluTanh } else { Activation::Silu },
        embedding_scale: gemma.then(|| (hidden as f64).sqrt() as f32),
        tied: text.get("tie_word_embeddings").and_then(Value::as_bool).unwrap_or(gemma),
        context: read.size_or("max_position_embeddings", 4096),
        stop_ids: ids(json.get("eos_token_id").or_else(|| text.get("eos_token_id"))),
    };
    super::check(path, config)
}

/// One id or a list of ids.
pub fn ids(value: Option<&Value>) -> Vec<u32> {
    match value {
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_u64).map(|id| id as u32).collect(),
        Some(value) => value.as_u64().map(|id| id as u32).into_iter().collect(),
        None => Vec::new(),
    }
}

struct Reader<'a> {
    path: &'a str,
    json: &'a Value,
}

impl Reader<'_> {
    fn arch(&self, whole: &Value) -> Result<Arch, Error> {
        let name = self.json.get("model_type").or_else(|| whole.get("model_type")).and_then(Value::as_str);
        match name.unwrap_or("") {
            "llama" | "mistral" => Ok(Arch::Llama),
            "qwen2" => Ok(Arch::Qwen2),
            "qwen3" => Ok(Arch::Qwen3),
            "gemma3_text" | "gemma3" => Ok(Arch::Gemma3),
            other => Err(Error::Architecture { path: self.path.into(), arch: other.into() }),
        }
    }

    fn bad(&self, key: &str, reason: &str) -> Error {
        Error::Config { path: self.path.into(), key: key.into(), reason: reason.into() }
    }

    fn size(&self, key: &str) -> Result<usize, Error> {
        let value = self.json.get(key).ok_or_else(|| self.bad(key, "is missing"))?;
        value.as_u64().map(|v| v as usize).ok_or_else(|| self.bad(key, "is not a whole number"))
    }

    fn size_or(&self, key: &str, default: usize) -> usize {
        self.size(key).unwrap_or(default)
    }

    fn float(&self, key: &str) -> Option<f64> {
        self.json.get(key).and_then(Value::as_f64)
    }

    /// Which layers see a window only, and how wide it is.
    fn windows(&self, arch: Arch, n_layers: usize) -> (Option<usize>, Vec<bool>) {
        let wanted = match arch {
            Arch::Gemma3 => true,
            Arch::Qwen2 | Arch::Qwen3 => self.json.get("use_sliding_window") == Some(&Value::Bool(true)),
            Arch::Llama => self.json.get("model_type").and_then(Value::as_str) == Some("mistral"),
        };
        let window = self.size("sliding_window").ok().filter(|_| wanted);
        let sliding = |layer: usize| match self.json.get("layer_types").and_then(|v| v.get(layer)) {
            Some(kind) => kind == "sliding_attention",
            None => match arch {
                Arch::Gemma3 => !(layer + 1).is_multiple_of(self.size_or("sliding_window_pattern", 6).max(1)),
                Arch::Qwen2 | Arch::Qwen3 => layer >= self.size_or("max_window_layers", n_layers),
                Arch::Llama => true,
            },
        };
        (window, (0..n_layers).map(|layer| window.is_some() && sliding(layer)).collect())
    }

    /// The rope of full layers and, where it differs, of sliding layers.
    fn ropes(&self, arch: Arch) -> Result<(Rope, Option<Rope>), Error> {
        // Newer checkpoints nest everything in `rope_parameters`, per layer type for Gemma 3.
        let nested = self.json.get("rope_parameters");
        let full = nested.and_then(|n| n.get("full_attention")).or(nested);
        let scaling = full.or_else(|| self.json.get("rope_scaling")).filter(|v| !v.is_null());
        let theta_of = |v: Option<&Value>| v.and_then(|v| v.get("rope_theta")).and_then(Value::as_f64);
        let default = if arch == Arch::Gemma3 { 1e6 } else { 1e4 };
        let theta = theta_of(full).or_else(|| self.float("rope_theta")).unwrap_or(default);
        let rope = Rope { theta, scaling: self.scaling(scaling)? };
        if arch != Arch::Gemma3 {
            return Ok((rope, None));
        }
        let local = theta_of(nested.and_then(|n| n.get("sliding_attention")));
        let theta = local.or_else(|| self.float("rope_local_base_freq")).unwrap_or(1e4);
        Ok((rope, Some(Rope { theta, scaling: Scaling::None })))
    }

    fn scaling(&self, value: Option<&Value>) -> Result<Scaling, Error> {
        let Some(value) = value else { return Ok(Scaling::None) };
        let kind = value.get("rope_type").or_else(|| value.get("type")).and_then(Value::as_str);
        let number = |key: &str| value.get(key).and_then(Value::as_f64);
        let need =
            |key: &str| number(key).ok_or_else(|| self.bad(&format!("rope_scaling.{key}"), "is missing"));
        let original = || {
            number("original_max_position_embeddings")
                .or_else(|| self.float("original_max_position_embeddings"))
                .unwrap_or_else(|| self.size_or("max_position_embeddings", 4096) as f64)
        };
        match kind.unwrap_or("default") {
            "default" => Ok(Scaling::None),
            "linear" => Ok(Scaling::Linear(need("factor")?)),
            "llama3" => Ok(Scaling::Llama3 {
                factor: need("factor")?,
                low: need("low_freq_factor")?,
                high: need("high_freq_factor")?,
                original: original(),
            }),
            "yarn" => Ok(Scaling::Yarn {
                factor: need("factor")?,
                original: original(),
                beta_fast: number("beta_fast").unwrap_or(32.0),
                beta_slow: number("beta_slow").unwrap_or(1.0),
                attention: number("attention_factor"),
                truncate: value.get("truncate").and_then(Value::as_bool).unwrap_or(true),
            }),
            other => Err(self.bad("rope_scaling.rope_type", &format!("`{other}` is not known"))),
        }
    }
}
