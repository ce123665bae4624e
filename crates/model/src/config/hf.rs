//! [`Config`] from a Hugging Face `config.json`; it reads no other file. Missing keys have the defaults of
//! the model's class in `transformers`; every unsupported setting is rejected by name.

mod attention;
mod classes;
mod delta_net;
mod experts;
mod gemma4;
mod known;
mod layers;
mod quantization;
mod rope;
mod settings;

use serde_json::{Map, Value};

use super::{Activation, Arch, Config};
use crate::Error;

use classes::{Class, Wrapper};
pub use quantization::Quantization;
use settings::{Settings, shown};

/// Reads a `config.json`.
///
/// # Errors
/// Names the key that has an unexpected value, is unknown or is not supported; `path` is for the message.
pub fn from_json(path: &str, json: &Value) -> Result<Config, Error> {
    Ok(read(path, json)?.config)
}

/// The configuration of a file, with the sizes that are defaults.
pub struct FileConfig {
    pub config: Config,
    /// The class whose defaults apply.
    pub class: &'static str,
    /// The sizes that the file does not give.
    pub left_out: Vec<&'static str>,
    /// The library that quantised the weights, if one did.
    pub quantization: Option<Quantization>,
}

/// Keys that the shapes of tensors follow from.
const SIZES: [&str; 7] = [
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
];

/// [`from_json`] with the data needed to compare the sizes with the tensors'.
///
/// # Errors
/// Those of [`from_json`].
pub fn read(path: &str, json: &Value) -> Result<FileConfig, Error> {
    let file = File::of(path, json)?;
    let (s, arch) = (file.settings, file.arch);
    known::check(&s, arch)?;
    let (hidden, n_heads) = (s.needed_size("hidden_size")?, s.needed_size("num_attention_heads")?);
    let n_layers = super::layers(path, "num_hidden_layers", s.needed_size("num_hidden_layers")?)?;
    let gemma = matches!(arch, Arch::Gemma2 | Arch::Gemma3);
    if arch == Arch::Gemma4 {
        gemma4::check(&s)?;
    }
    let delta_net = delta_net::delta_net(&s, arch, n_layers)?;
    let super::attention::Layers { full, sliding, slides } = attention::read(&s, arch, n_layers)?;
    let scalar = match arch {
        Arch::Gemma2 | Arch::Gemma3 => s.needed_positive("query_pre_attn_scalar")?,
        Arch::Gemma4 => 1.0,
        _ => full.head_dim as f64,
    };
    let has_switch = !matches!(arch, Arch::Qwen2 | Arch::Mistral | Arch::Ministral3);
    let has_biases = has_switch && s.flag("attention_bias")?;
    let softcap = |key| if s.class.defaults.contains_key(key) { s.positive(key) } else { Ok(None) };
    let is_capped = matches!(arch, Arch::Gemma2 | Arch::Gemma4);
    let config = Config {
        vocab: s.needed_size("vocab_size")?,
        hidden,
        intermediate: experts::intermediate(&s, arch)?,
        n_layers,
        n_heads,
        full,
        sliding,
        slides,
        norm_eps: s.needed_positive("rms_norm_eps")?,
        norm_plus_one: gemma || arch.is_hybrid(),
        post_norms: gemma || arch == Arch::Gemma4,
        value_norm: arch == Arch::Gemma4,
        sinks: arch == Arch::GptOss,
        layer_scalars: arch == Arch::Gemma4,
        qk_norm: arch.has_head_norms(arch == Arch::Glm4Moe && s.flag("use_qk_norm")?),
        qkv_bias: arch == Arch::Qwen2 || has_biases,
        o_bias: has_biases && arch != Arch::Glm4Moe,
        mlp_bias: arch == Arch::Llama && s.flag("mlp_bias")?,
        norm_after_rotation: arch == Arch::Hunyuan,
        query_growth: rope::query_growth(&s, arch)?,
        score_softcap: softcap("attn_logit_softcapping")?.filter(|_| is_capped).map(|cap| cap as f32),
        logit_softcap: softcap("final_logit_softcapping")?.filter(|_| is_capped).map(|cap| cap as f32),
        attention_scale: scalar.powf(-0.5) as f32,
        activation: activation(&s, arch)?,
        gated_attention: arch.is_hybrid(),
        delta_net,
        experts: experts::experts(&s, arch, n_layers)?,
        embedding_scale: (gemma || arch == Arch::Gemma4).then(|| (hidden as f64).sqrt() as f32),
        tied: file.tied()?,
        context: s.needed_size("max_position_embeddings")?,
        stop_ids: stop_ids(path, file.outside.get("eos_token_id").or_else(|| s.given("eos_token_id")))?,
    };
    let left_out = SIZES.into_iter().filter(|key| !s.file.contains_key(*key)).collect();
    let quantization = file.quantization;
    Ok(FileConfig { config: super::check(path, config)?, class: &s.class.name, left_out, quantization })
}

/// A file, and the settings of the decoder in it.
struct File<'a> {
    /// The whole file: the settings themselves, or the object that has them under `text_config`.
    outside: &'a Map<String, Value>,
    wrapper: Option<&'static Wrapper>,
    settings: Settings<'a>,
    arch: Arch,
    quantization: Option<Quantization>,
}

impl<'a> File<'a> {
    fn of(path: &'a str, json: &'a Value) -> Result<Self, Error> {
        let bad = |key: &str, reason: String| Error::Config { path: path.into(), key: key.into(), reason };
        let hint = "fetch the file again";
        let not_an_object =
            || Error::File { path: path.into(), reason: "is not a JSON object".into(), hint: hint.into() };
        let outside = json.as_object().ok_or_else(not_an_object)?;
        let text = match outside.get("text_config").filter(|text| !text.is_null()) {
            Some(text) => Some(
                text.as_object()
                    .ok_or_else(|| bad("text_config", format!("is {}, not an object", shown(text))))?,
            ),
            None => None,
        };
        for object in [Some(outside), text].into_iter().flatten() {
            check_heads(path, object)?;
        }
        let quantization = quantization::read(path, outside, text)?;
        let model_type = |object: &'a Map<String, Value>| object.get("model_type").and_then(Value::as_str);
        let outer_type = model_type(outside).unwrap_or("");
        if outer_type.ends_with("_assistant") {
            // A model that drafts tokens for another model, whose keys and values it reads.
            return Err(Error::Architecture { path: path.into(), arch: outer_type.into() });
        }
        let wrapper = Wrapper::of(outer_type).filter(|_| text.is_some());
        let name = match text {
            Some(text) => model_type(text).or(wrapper.map(|wrapper| wrapper.text.as_str())),
            None => Some(outer_type),
        };
        let unknown = || Error::Architecture { path: path.into(), arch: name.unwrap_or("").into() };
        // Text-only files may keep the multimodal model's name.
        let name = match name {
            Some("gemma3") => "gemma3_text",
            Some("gemma4") => "gemma4_text",
            Some("gemma4_unified") => "gemma4_unified_text",
            Some("qwen3_5") => "qwen3_5_text",
            Some("qwen3_5_moe") => "qwen3_5_moe_text",
            name => name.unwrap_or(""),
        };
        let (arch, class) = Self::arch(name).zip(Class::of(name)).ok_or_else(unknown)?;
        let prefix = if text.is_some() { "text_config." } else { "" };
        let settings = Settings { path, prefix, file: text.unwrap_or(outside), class };
        if text.is_some() {
            known::check_outside(outside, &settings, arch)?;
        }
        Ok(Self { outside, wrapper, settings, arch, quantization })
    }

    fn arch(model_type: &str) -> Option<Arch> {
        match model_type {
            "llama" => Some(Arch::Llama),
            "mistral" => Some(Arch::Mistral),
            "qwen2" => Some(Arch::Qwen2),
            "qwen3" => Some(Arch::Qwen3),
            "qwen3_moe" => Some(Arch::Qwen3Moe),
            "glm4_moe" => Some(Arch::Glm4Moe),
            "gemma2" => Some(Arch::Gemma2),
            "hunyuan_v1_dense" => Some(Arch::Hunyuan),
            "ministral3" => Some(Arch::Ministral3),
            "qwen3_5_text" => Some(Arch::Qwen35),
            "qwen3_5_moe_text" => Some(Arch::Qwen35Moe),
            "qwen3_next" => Some(Arch::Qwen3Next),
            "gemma3_text" => Some(Arch::Gemma3),
            "gemma4_text" | "gemma4_unified_text" => Some(Arch::Gemma4),
            "gpt_oss" => Some(Arch::GptOss),
            _ => None,
        }
    }

    /// Returns true if the output matrix is the embedding matrix. A multimodal class has a key and a default
    /// of its own.
    fn tied(&self) -> Result<bool, Error> {
        let key = "tie_word_embeddings";
        match (self.settings.prefix, self.outside.get(key).filter(|value| !value.is_null())) {
            ("", _) => self.settings.flag(key),
            (_, Some(outer)) => outer.as_bool().ok_or_else(|| Error::Config {
                path: self.settings.path.into(),
                key: key.into(),
                reason: format!("is {}, not true or false", shown(outer)),
            }),
            (_, None) => match self.wrapper.and_then(|wrapper| wrapper.tie_word_embeddings) {
                Some(tied) => Ok(tied),
                None => self.settings.flag(key),
            },
        }
    }
}

/// Endings of model classes that have no language-model head.
const OTHER_HEADS: [&str; 4] =
    ["ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForRewardModel"];

/// Rejects a model without a language-model head: with tied embeddings it would load as one.
fn check_heads(path: &str, object: &Map<String, Value>) -> Result<(), Error> {
    let names = object.get("architectures").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let is_other =
        |name: &Value| name.as_str().is_some_and(|n| OTHER_HEADS.iter().any(|end| n.ends_with(end)));
    match names.iter().find(|name| is_other(name)) {
        Some(name) if names.iter().all(is_other) => Err(Error::Config {
            path: path.into(),
            key: "architectures".into(),
            reason: format!(
                "is {}, which has no language-model head; reward and classification models are not read",
                shown(name)
            ),
        }),
        _ => Ok(()),
    }
}

fn activation(s: &Settings<'_>, arch: Arch) -> Result<Activation, Error> {
    let own = if s.class.defaults.contains_key("hidden_act") { "hidden_act" } else { "hidden_activation" };
    let named = |key| match s.text(key)? {
        None => Ok(None),
        Some("silu" | "swish") => Ok(Some(Activation::Silu)),
        // Names of one formula.
        Some("gelu_pytorch_tanh" | "gelu_new" | "gelu_fast") => Ok(Some(Activation::GeluTanh)),
        Some(other) => Err(
            s.bad(key, format!("is `{other}`, which is not supported; `silu` and `gelu_pytorch_tanh` are"))
        ),
    };
    let activation = named(own)?.ok_or_else(|| s.bad(own, "is null; the name of a function was expected"))?;
    let other = if own == "hidden_act" { "hidden_activation" } else { "hidden_act" };
    if named(other)?.is_some_and(|other| other != activation) {
        return Err(s.bad(other, format!("contradicts `{own}`; hint: remove one of them")));
    }
    if arch != Arch::GptOss {
        return Ok(activation);
    }
    if activation != Activation::Silu {
        return Err(s.bad(own, "is not `silu`, the only one that is supported for this class"));
    }
    let (alpha, limit) = (s.needed_positive("swiglu_alpha")?, s.needed_positive("swiglu_limit")?);
    Ok(Activation::ClampedSilu { alpha: alpha as f32, limit: limit as f32 })
}

/// The token ids of `eos_token_id`: one, or a list.
///
/// # Errors
/// Names the value that is not an id.
pub fn stop_ids(path: &str, value: Option<&Value>) -> Result<Vec<u32>, Error> {
    let id = |value: &Value| {
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| Error::Config {
            path: path.into(),
            key: "eos_token_id".into(),
            reason: format!("has {}, which is not a token id", shown(value)),
        })
    };
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => list.iter().map(id).collect(),
        Some(value) => Ok(vec![id(value)?]),
    }
}

#[cfg(test)]
mod tests;
