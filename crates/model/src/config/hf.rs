//! [`Config`] from a Hugging Face `config.json`: the readers that families share. Missing keys have the
//! defaults of the model's class in `transformers`; every unsupported setting is rejected by name.

mod classes;
mod delta_net;
mod experts;
mod known;
mod quantization;
pub mod rope;
mod settings;
mod windows;

use serde_json::{Map, Value};

use super::{Activation, Attention, Config, Scaling, ScoreHead, Windows};
use crate::{Error, Result};

pub use classes::Class;
use classes::Wrapper;
pub use quantization::Quantization;
pub use settings::{Settings, shown};

/// The `config.json` of one family.
pub struct Schema {
    /// The `model_type`s of its files, and of the text models in multimodal files.
    pub model_types: &'static [&'static str],
    /// Keys that are read beside the fields of the class.
    pub keys: &'static [&'static str],
    /// Keys without effect on the computation, separated by spaces.
    pub harmless: &'static str,
    /// A JSON object of keys that may have only this one value.
    pub only: &'static str,
    pub rope: rope::Schema,
    pub names: Renames,
    pub config: fn(&Settings<'_>) -> Result<Config>,
}

/// Parts of the names of a family's tensors, each with the part that replaces it, one after the other.
pub type Renames = &'static [(&'static str, &'static str)];

impl Schema {
    /// A Llama-like decoder with the class's own keys.
    pub const LLAMA_LIKE: Self = Self {
        model_types: &[],
        keys: &[],
        harmless: "",
        only: "{}",
        rope: rope::Schema::WHOLE,
        names: &[],
        config: |settings| settings.decoder(settings.windows_alike()?),
    };

    /// The keys that may have only one value, with it.
    fn only(&self) -> Map<String, Value> {
        serde_json::from_str(self.only).expect("a test reads the schema of every family")
    }
}

/// The configuration of a file, with the sizes that are defaults.
pub struct FileConfig {
    pub config: Config,
    /// The names of the family's tensors.
    pub names: Renames,
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

/// Reads a file; `schema` gives the family of a `model_type`, and `path` is for messages.
///
/// # Errors
/// Names the key that has an unexpected value, is unknown or is not supported.
pub fn read(
    path: &str,
    json: &Value,
    schema: impl Fn(&str) -> Option<&'static Schema>,
) -> Result<FileConfig> {
    let file = File::open(path, json, schema)?;
    let s = file.settings;
    known::check(&s)?;
    let eos = file.outside.get("eos_token_id").or_else(|| s.given("eos_token_id"));
    let score_head = file.score_head()?;
    let tied = score_head.is_none() && file.tied()?;
    let config = Config { tied, score_head, stop_ids: stop_ids(path, eos)?, ..(s.schema.config)(&s)? };
    let left_out = SIZES.into_iter().filter(|key| !s.file.contains_key(*key)).collect();
    let quantization = file.quantization;
    let (config, names) = (super::check(path, config)?, s.schema.names);
    Ok(FileConfig { config, names, class: &s.class.name, left_out, quantization })
}

impl Settings<'_> {
    pub fn n_layers(&self) -> Result<usize> {
        let n_layers = self.needed_size("num_hidden_layers")?;
        super::limited(self.path, "num_hidden_layers", n_layers, super::MAX_LAYERS)
    }

    /// A Llama-like decoder; tied embeddings and stop tokens are read by [`read`].
    pub fn decoder(&self, windows: Windows) -> Result<Config> {
        let (hidden, n_heads) = (self.needed_size("hidden_size")?, self.needed_size("num_attention_heads")?);
        let head_dim = self.size("head_dim")?.unwrap_or(hidden / n_heads.max(1));
        let n_kv_heads = self.size("num_key_value_heads")?.unwrap_or(n_heads);
        let (full, sliding_rope) = self.attention(head_dim, n_kv_heads)?;
        let sliding = windows.size.map(|size| Attention {
            rope: sliding_rope.unwrap_or_else(|| full.rope.clone()),
            window: Some(size),
            ..full.clone()
        });
        let has_biases = self.flag("attention_bias")?;
        let norm_eps =
            if self.class.defaults.contains_key("rms_norm_eps") { "rms_norm_eps" } else { "layer_norm_eps" };
        let context = self.needed_size("max_position_embeddings")?;
        let context = if let Scaling::Long { original, .. } = full.rope.scaling {
            context.min(original)
        } else {
            context
        };
        Ok(Config {
            vocab: self.needed_size("vocab_size")?,
            hidden,
            intermediate: self.intermediate()?,
            n_layers: self.n_layers()?,
            n_heads,
            attention_scale: (full.head_dim as f64).powf(-0.5) as f32,
            full,
            sliding,
            slides: windows.slides,
            norm_eps: self.needed_positive(norm_eps)?,
            qkv_bias: has_biases,
            o_bias: has_biases,
            mlp_bias: self.flag("mlp_bias")?,
            activation: self.activation()?,
            context,
            ..Config::default()
        })
    }

    /// Full attention with such heads, and the rope of sliding layers where it differs.
    pub fn attention(&self, head_dim: usize, n_kv_heads: usize) -> Result<(Attention, Option<super::Rope>)> {
        let (rope, sliding_rope) = rope::ropes(self, head_dim)?;
        let rotary_dim = rope::rotary_dim(self, head_dim)?;
        let full = Attention { head_dim, n_kv_heads, rope, rotary_dim, ..Attention::default() };
        Ok((full, sliding_rope))
    }

    /// Columns of a dense feed-forward half. A class of experts alone has none.
    fn intermediate(&self) -> Result<usize> {
        match self.size("intermediate_size")? {
            None if !self.class.defaults.contains_key("intermediate_size") => {
                self.needed_size("moe_intermediate_size")
            }
            _ => self.needed_size("intermediate_size"),
        }
    }

    fn activation(&self) -> Result<Activation> {
        let [mut key, mut other] = ["hidden_act", "hidden_activation"];
        if !self.class.defaults.contains_key(key) {
            (key, other) = (other, key);
        }
        let named = |key| match self.text(key)? {
            None => Ok(None),
            Some("silu" | "swish") => Ok(Some(Activation::Silu)),
            // The class has no gate to apply a function to.
            Some("xielu") if self.class.defaults.get(key).is_some_and(|of_class| of_class == "xielu") => {
                Ok(Some(Activation::default()))
            }
            // Names of one formula.
            Some("gelu_pytorch_tanh" | "gelu_new" | "gelu_fast") => Ok(Some(Activation::GeluTanh)),
            Some(name) => Err(self.bad(
                key,
                format!("is `{name}`, which is not supported; `silu` and `gelu_pytorch_tanh` are"),
            )),
        };
        let activation =
            named(key)?.ok_or_else(|| self.bad(key, "is null; the name of a function was expected"))?;
        if named(other)?.is_some_and(|other| other != activation) {
            return Err(self.bad(other, format!("contradicts `{key}`; hint: remove one of them")));
        }
        Ok(activation)
    }
}

/// A file, and the settings of the decoder in it.
struct File<'a> {
    /// The whole file: the settings themselves, or the object that has them under `text_config`.
    outside: &'a Map<String, Value>,
    wrapper: Option<&'static Wrapper>,
    settings: Settings<'a>,
    quantization: Option<Quantization>,
    /// True for a class with a score head in place of the output matrix.
    scores: bool,
}

impl<'a> File<'a> {
    fn open(
        path: &'a str,
        json: &'a Value,
        schema: impl Fn(&str) -> Option<&'static Schema>,
    ) -> Result<Self> {
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
        let mut scores = false;
        for object in [Some(outside), text].into_iter().flatten() {
            scores |= has_score_head(path, object)?;
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
        let name = name.unwrap_or("");
        let schema = schema(name).ok_or_else(unknown)?;
        // A type without a class in transformers has that of the family's first type.
        let class = Class::of(name).or_else(|| Class::of(schema.model_types[0])).ok_or_else(unknown)?;
        let prefix = if text.is_some() { "text_config." } else { "" };
        let settings = Settings { path, prefix, file: text.unwrap_or(outside), class, schema };
        if text.is_some() {
            known::check_outside(outside, &settings)?;
        }
        Ok(Self { outside, wrapper, settings, quantization, scores })
    }

    /// The score head. `id2label` has an entry for each output; without it and `num_labels` there are two.
    fn score_head(&self) -> Result<Option<ScoreHead>> {
        if !self.scores {
            return Ok(None);
        }
        let outside = Settings { file: self.outside, prefix: "", ..self.settings };
        let labels = outside.object("id2label")?.map(Map::len);
        let number = outside.size("num_labels")?;
        if let (Some(labels), Some(number)) = (labels, number)
            && labels != number
        {
            return Err(
                outside.bad("num_labels", format!("is {number}, but `id2label` has {labels} entries"))
            );
        }
        let n_outputs = labels.or(number).unwrap_or(2);
        super::limited(self.settings.path, "num_labels", n_outputs, super::MAX_OUTPUTS)?;
        // A negative id is none.
        let has_padding =
            self.settings.value("pad_token_id").and_then(Value::as_i64).is_none_or(|id| id >= 0);
        let padding = if has_padding { self.settings.size("pad_token_id")? } else { None };
        let padding = padding.and_then(|id| u32::try_from(id).ok());
        Ok(Some(ScoreHead { n_outputs, padding }))
    }

    /// Returns true if the output matrix is the embedding matrix. A multimodal class has a key and a default
    /// of its own.
    fn tied(&self) -> Result<bool> {
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

/// Endings of model classes that score the whole text, and of those that have neither such a head nor that of
/// a language model.
const SCORE_HEADS: [&str; 2] = ["ForSequenceClassification", "RewardModel"];
const OTHER_HEADS: [&str; 2] = ["ForTokenClassification", "ForQuestionAnswering"];

/// Returns true if all classes of a file score texts. Rejects a model with neither head: with tied embeddings
/// it would load as a language model.
fn has_score_head(path: &str, object: &Map<String, Value>) -> Result<bool> {
    let names = object.get("architectures").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let ends = |name: &Value, endings: &[&str]| {
        name.as_str().is_some_and(|name| endings.iter().any(|end| name.ends_with(end)))
    };
    if names.is_empty() || !names.iter().all(|name| ends(name, &SCORE_HEADS) || ends(name, &OTHER_HEADS)) {
        return Ok(false);
    }
    match names.iter().find(|name| ends(name, &OTHER_HEADS)) {
        Some(name) => Err(Error::Config {
            path: path.into(),
            key: "architectures".into(),
            reason: format!(
                "is {}, whose head is not supported; hint: language models, `*ForSequenceClassification` and `*RewardModel` are",
                shown(name)
            ),
        }),
        None => Ok(true),
    }
}

/// The token ids of `eos_token_id`: one, or a list.
///
/// # Errors
/// Names the value that is not an id.
pub fn stop_ids(path: &str, value: Option<&Value>) -> Result<Vec<u32>> {
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
