//! [`Config`] from GGUF metadata: the readers that families share. Tensors are read elsewhere. An unsupported
//! setting is rejected by name.

use super::{Attention, Config, Rope, Scaling, ScoreHead, Windows};
use crate::{
    Error, Result,
    gguf::{Value, in_words, number, shown},
};

mod delta_net;
mod experts;
pub(crate) mod keys;
mod rope;
pub(crate) mod tensors;

pub use crate::gguf::{Metadata, whole};
pub(crate) use experts::Gating;

/// The GGUF files of one family.
pub(crate) struct Schema {
    /// The value of `general.architecture`.
    pub architecture: &'static str,
    /// Known keys beside those of all families.
    pub keys: &'static [keys::Keys],
    /// Tensors, in groups.
    pub tensors: &'static [tensors::Group],
    /// The key of the norms' epsilon.
    pub norm_epsilon: &'static str,
    /// Files may have an image encoder beside the decoder.
    pub has_images: bool,
    /// The two rotary halves of each head of queries and keys are interleaved.
    pub is_interleaved: bool,
    /// Only a part of each head is rotated.
    pub rotates_in_part: bool,
    pub config: fn(&Reader<'_>) -> Result<Config>,
}

impl Schema {
    /// A Llama-like decoder.
    pub const LLAMA_LIKE: Self = Self {
        architecture: "",
        keys: &[],
        tensors: &[tensors::ATTENTION, tensors::FFN_NORM, tensors::DENSE, tensors::ROPE_FACTORS],
        norm_epsilon: "attention.layer_norm_rms_epsilon",
        has_images: false,
        is_interleaved: false,
        rotates_in_part: false,
        config: |reader| reader.decoder(reader.without_windows()?),
    };

    /// Reads the decoder's settings from a file's metadata.
    ///
    /// # Errors
    /// Names the key that is missing, has an unexpected value or is unknown; `path` is for the message.
    pub fn read(&self, path: &str, metadata: &Metadata, tensors: &Tensors) -> Result<Config> {
        let reader = Reader { path, metadata, prefix: self.architecture, schema: self, tensors };
        reader.check_keys()?;
        let stop_ids = reader.eos()?.into_iter().collect();
        let (vocab, score_head) = (tensors.vocab, reader.score_head()?);
        let tied = score_head.is_none() && tensors.tied;
        super::check(path, Config { vocab, tied, score_head, stop_ids, ..(self.config)(&reader)? })
    }
}

/// Settings that follow from a model's tensors.
pub(crate) struct Tensors {
    /// Rows of the embedding matrix.
    pub vocab: usize,
    /// The embedding matrix is also the output matrix.
    pub tied: bool,
    /// Heads of the first layer have norms, and its queries have biases.
    pub has_head_norms: bool,
    /// Layers without a projection of values: the keys' also gives them.
    pub without_values: Vec<usize>,
    pub has_query_bias: bool,
    /// The values of `rope_freqs.weight`, where the model has one.
    pub factors: Option<Vec<f32>>,
}

/// The settings of one file.
pub(crate) struct Reader<'a> {
    path: &'a str,
    metadata: &'a Metadata,
    prefix: &'a str,
    schema: &'a Schema,
    pub tensors: &'a Tensors,
}

impl Reader<'_> {
    /// A Llama-like decoder; vocabulary, tied embeddings and stop tokens are read by [`Schema::read`].
    pub fn decoder(&self, windows: Windows) -> Result<Config> {
        let (hidden, n_heads) = (self.size("embedding_length")?, self.size("attention.head_count")?);
        let head_dim = self.optional_size("attention.key_length")?.unwrap_or(hidden / n_heads.max(1));
        let [n_kv_heads, n_sliding_kv_heads] = self.kv_heads(&windows.slides, n_heads)?;
        let rotary_dim = self.rotary_dim(head_dim)?;
        let rope = self.rope(1e4)?;
        let full = Attention { head_dim, n_kv_heads, rope, rotary_dim, ..Attention::default() };
        let sliding = windows.size.map(|size| Attention {
            window: Some(size),
            n_kv_heads: n_sliding_kv_heads,
            ..full.clone()
        });
        Ok(Config {
            hidden,
            intermediate: self.intermediate()?,
            n_layers: self.n_layers()?,
            n_heads,
            full,
            sliding,
            slides: windows.slides,
            norm_eps: self.number(self.schema.norm_epsilon)?,
            attention_scale: self.attention_scale(head_dim)?,
            embedding_scale: self.embedding_scale(None)?,
            context: self.size("context_length")?,
            ..Config::default()
        })
    }

    /// The id of the end of a text.
    fn eos(&self) -> Result<Option<u32>> {
        let key = "tokenizer.ggml.eos_token_id";
        let Some(value) = self.metadata.get(key) else { return Ok(None) };
        let id = whole(value).filter(|id| *id < self.tensors.vocab).and_then(|id| u32::try_from(id).ok());
        id.map(Some).ok_or_else(|| Error::Config {
            path: self.path.into(),
            key: key.into(),
            reason: format!("is `{}`, not a token id below {}", in_words(value), self.tensors.vocab),
        })
    }

    /// The score head of a file whose pooling type is `RANK`: one output for each label, one without labels.
    /// llama.cpp applies a softmax to its outputs.
    fn score_head(&self) -> Result<Option<ScoreHead>> {
        const RANK: usize = 4;
        let key = "pooling_type";
        match self.optional_size(key)? {
            None | Some(0) => Ok(None),
            Some(RANK) => {
                let labels = "classifier.output_labels";
                let n_outputs = match self.value(labels) {
                    None => 1,
                    Some(Value::Array(names)) => names.len(),
                    Some(other) => {
                        return Err(self.bad(labels, format!("is `{}`, not a list", in_words(other))));
                    }
                };
                super::limited(self.path, labels, n_outputs, super::MAX_OUTPUTS)?;
                Ok(Some(ScoreHead { n_outputs, padding: None }))
            }
            Some(other) => {
                Err(self.bad(key, format!("is {other}, which is not supported; {RANK} (rank) is")))
            }
        }
    }

    /// Layers of the decoder. Layers that predict further tokens are counted among the file's.
    pub fn n_layers(&self) -> Result<usize> {
        let n_blocks = self.size("block_count")?.saturating_sub(self.n_predicting()?);
        super::limited(self.path, "block_count", n_blocks, super::MAX_LAYERS)
    }

    /// Heads of keys and values of full and of sliding layers.
    fn kv_heads(&self, slides: &[bool], n_heads: usize) -> Result<[usize; 2]> {
        let key = "attention.head_count_kv";
        let Some(Value::Array(layers)) = self.value(key) else {
            return Ok([self.optional_size(key)?.unwrap_or(n_heads); 2]);
        };
        let sizes: Option<Vec<usize>> = layers.iter().map(whole).collect();
        let n_predicting = self.n_predicting()?;
        let sizes = sizes.filter(|sizes| [0, n_predicting].map(|n| slides.len() + n).contains(&sizes.len()));
        let sizes = sizes.ok_or_else(|| {
            self.bad(key, format!("is not a list of whole numbers for each of {} layers", slides.len()))
        })?;
        // Layers of DeltaNet have no heads of keys.
        let has_delta_net = self.value("ssm.group_count").is_some();
        let kv_heads_of = |is_sliding: bool| {
            let layers = sizes.iter().zip(slides).filter(|(_, slides)| **slides == is_sliding);
            let mut sizes = layers.map(|(size, _)| *size).filter(|size| !(has_delta_net && *size == 0));
            let first = sizes.next();
            if sizes.all(|size| Some(size) == first) {
                return Ok(first);
            }
            let layers =
                if slides.contains(&true) { "between layers of one type" } else { "from layer to layer" };
            Err(self.bad(key, format!("differs {layers}, which is not supported")))
        };
        // A kind without layers has the heads of the other one.
        let (full, sliding) = (kv_heads_of(false)?, kv_heads_of(true)?);
        Ok([full.or(sliding), sliding.or(full)].map(|kv_heads| kv_heads.unwrap_or(n_heads)))
    }

    /// Values of a head that are rotated. Without latent attention, heads of values are as wide as those of
    /// keys.
    fn rotary_dim(&self, head_dim: usize) -> Result<usize> {
        if self.value("attention.kv_lora_rank").is_none() {
            self.check_width("attention.value_length", head_dim)?;
        }
        if self.schema.rotates_in_part {
            return Ok(self.optional_size("rope.dimension_count")?.unwrap_or(head_dim));
        }
        self.check_rotated("rope.dimension_count", head_dim).map(|()| head_dim)
    }

    /// Checks that heads of another kind are as wide as those of keys.
    pub fn check_width(&self, key: &str, head_dim: usize) -> Result<()> {
        match self.optional_size(key)?.filter(|width| *width != head_dim) {
            Some(width) => {
                let reason = format!("is {width}, and a head of keys has {head_dim}; one width is supported");
                Err(self.bad(key, reason))
            }
            None => Ok(()),
        }
    }

    /// Checks that whole heads are rotated.
    pub fn check_rotated(&self, key: &str, head_dim: usize) -> Result<()> {
        match self.optional_size(key)?.filter(|rotated| *rotated != head_dim) {
            Some(rotated) => {
                let reason =
                    format!("is {rotated} of a head's {head_dim}; partial rotary embedding is not supported");
                Err(self.bad(key, reason))
            }
            None => Ok(()),
        }
    }

    /// The key of the window's size.
    const WINDOW: &'static str = "attention.sliding_window";

    /// The window in a family that has no sliding layers or whose files do not say which: none, or one that
    /// holds every position.
    pub fn without_windows(&self) -> Result<Windows> {
        if let Some(window) = self.window(None)? {
            let reason = format!("is {window}, and the file does not say which layers slide");
            return Err(self.bad(Self::WINDOW, reason));
        }
        self.windows(None, None)
    }

    /// The size of a window that does not hold every position.
    pub fn window(&self, default: Option<usize>) -> Result<Option<usize>> {
        let (size, context) = (self.optional_size(Self::WINDOW)?, self.size("context_length")?);
        Ok(size.or(default).filter(|size| (1..context).contains(size)))
    }

    /// The size of the window of a family that needs one.
    pub fn needed_window(&self) -> Result<usize> {
        let size = self.optional_size(Self::WINDOW)?.filter(|size| *size > 0);
        size.ok_or_else(|| self.bad(Self::WINDOW, "is missing or 0"))
    }

    /// Layers that slide over a window of this size: those that the file lists, else all but each `period`-th
    /// (all of them for 0). Without a `period`, the file has to list them.
    pub fn windows(&self, size: Option<usize>, period: Option<usize>) -> Result<Windows> {
        let (key, n_layers) = ("attention.sliding_window_pattern", self.n_layers()?);
        if size.is_none() {
            return Ok(Windows { size, slides: vec![false; n_layers] });
        }
        let period = match self.value(key) {
            Some(Value::Array(_)) => {
                return Ok(Windows { size, slides: self.switches(key, n_layers)?.unwrap_or_default() });
            }
            Some(_) => self.size(key)?,
            None => period.ok_or_else(|| self.bad(key, "is missing"))?,
        };
        let slides = (1..=n_layers).map(|layer| period == 0 || !layer.is_multiple_of(period)).collect();
        Ok(Windows { size, slides })
    }

    /// The value of a key of the architecture.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.metadata.get(&format!("{}.{key}", self.prefix))
    }

    /// The error of a key of the architecture.
    pub fn bad(&self, key: &str, reason: impl Into<String>) -> Error {
        let key = shown(&format!("{}.{key}", self.prefix));
        Error::Config { path: self.path.into(), key, reason: reason.into() }
    }

    /// Rejects settings that the decoder does not implement.
    fn check_keys(&self) -> Result<()> {
        let of_arch = |key: &'_ String| key.strip_prefix(self.prefix)?.strip_prefix('.').map(str::to_owned);
        let mut keys: Vec<(String, &Value)> =
            self.metadata.iter().filter_map(|(key, value)| Some((of_arch(key)?, value))).collect();
        keys.sort_by(|a, b| a.0.cmp(&b.0));
        let objection = |(key, value): &(String, &Value)| {
            self.schema.objection(key, value).map(|reason| self.bad(key, reason))
        };
        keys.iter().find_map(objection).map_or(Ok(()), Err)
    }

    /// A size that is the same in all layers; `None` where the file does not have the key.
    pub fn optional_size(&self, key: &str) -> Result<Option<usize>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let size = match value {
            Value::Array(layers) => {
                let mut sizes = layers.iter().map(whole);
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

    /// A size that the file must have; the same in all layers.
    pub fn size(&self, key: &str) -> Result<usize> {
        self.optional_size(key)?.ok_or_else(|| self.bad(key, "is missing"))
    }

    /// A finite number; `None` where the file does not have the key.
    pub fn optional(&self, key: &str) -> Result<Option<f64>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let finite = number(value).filter(|number| number.is_finite());
        finite.map(Some).ok_or_else(|| self.bad(key, format!("is `{}`, not a number", in_words(value))))
    }

    /// A finite number that the file must have.
    pub fn number(&self, key: &str) -> Result<f64> {
        self.optional(key)?.ok_or_else(|| self.bad(key, "is missing"))
    }

    /// The factor of attention scores: the file's, or else one over the root of `width`.
    pub fn attention_scale(&self, width: usize) -> Result<f32> {
        let scale = self.optional("attention.scale")?.filter(|scale| *scale != 0.0);
        Ok(scale.unwrap_or_else(|| (width as f64).powf(-0.5)) as f32)
    }

    /// Layers that predict further tokens, which are not computed.
    fn n_predicting(&self) -> Result<usize> {
        Ok(self.optional_size("nextn_predict_layers")?.unwrap_or(0))
    }

    /// A list of true or false for each layer; layers that predict further tokens may be listed after the
    /// others.
    fn switches(&self, key: &str, n_layers: usize) -> Result<Option<Vec<bool>>> {
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

    /// The factor of embeddings: the file's, which must be about the family's `default` where it has one.
    pub fn embedding_scale(&self, default: Option<f32>) -> Result<Option<f32>> {
        let key = "embedding_scale";
        let Some(scale) = self.optional(key)?.filter(|scale| *scale != 0.0) else { return Ok(default) };
        match default {
            Some(default) if (scale - f64::from(default)).abs() > 1e-3 * f64::from(default) => {
                Err(self.bad(key, format!("is {scale}, and the architecture has {default}")))
            }
            Some(default) => Ok(Some(default)),
            None => Ok((!same(scale, 1.0)).then_some(scale as f32)),
        }
    }
}

/// Returns true if two settings are the same number.
fn same(a: f64, b: f64) -> bool {
    a.total_cmp(&b).is_eq()
}

/// A truth value, also one that is written as 0 or 1.
fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(value) => Some(*value),
        value => whole(value).filter(|n| *n < 2).map(|n| n == 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LLAMA: Schema = Schema { architecture: "llama", keys: &[keys::SCORE_HEAD], ..Schema::LLAMA_LIKE };

    /// Reads a small model's settings and these.
    fn read(settings: &[(&str, Value)]) -> Result<Config, String> {
        let sizes = [
            ("llama.embedding_length", 32),
            ("llama.attention.head_count", 2),
            ("llama.block_count", 1),
            ("llama.feed_forward_length", 64),
            ("llama.context_length", 512),
        ];
        let mut metadata: Metadata =
            sizes.iter().map(|(key, size)| ((*key).into(), Value::U32(*size))).collect();
        metadata.insert("llama.attention.layer_norm_rms_epsilon".into(), Value::F32(1e-6));
        metadata.extend(settings.iter().map(|(key, value)| ((*key).into(), value.clone())));
        let tensors = Tensors {
            vocab: 320,
            tied: true,
            has_head_norms: false,
            without_values: Vec::new(),
            has_query_bias: false,
            factors: None,
        };
        LLAMA.read("m.gguf", &metadata, &tensors).map_err(|error| error.to_string())
    }

    #[test]
    fn the_end_of_a_text_is_an_id_of_the_vocabulary() {
        let key = "tokenizer.ggml.eos_token_id";
        assert_eq!(read(&[(key, Value::U32(319))]).unwrap().stop_ids, [319]);
        assert!(read(&[]).unwrap().stop_ids.is_empty());
        for (value, shown) in [
            (Value::U32(320), "320"),
            (Value::U64((1 << 32) + 5), "4294967301"),
            (Value::I32(-1), "-1"),
            (Value::String("</s>".into()), "</s>"),
        ] {
            let error = read(&[(key, value)]).unwrap_err();
            let reason = format!("`{key}` is `{shown}`, not a token id below 320");
            assert!(error.contains("m.gguf") && error.contains(&reason), "{error}");
        }
    }

    #[test]
    fn a_rank_head_has_an_output_for_each_label() {
        let head = |labels: Option<Value>| {
            let labels = labels.map(|labels| ("llama.classifier.output_labels", labels));
            let rank = ("llama.pooling_type", Value::U32(4));
            read(&labels.into_iter().chain([rank]).collect::<Vec<_>>())
        };
        let outputs = |config: Config| config.score_head.unwrap().n_outputs;
        let names = vec![Value::String("no".into()), Value::String("yes".into())];
        assert_eq!(outputs(head(None).unwrap()), 1);
        assert_eq!(outputs(head(Some(Value::Array(names))).unwrap()), 2);
        let error = head(Some(Value::Array(Vec::new()))).unwrap_err();
        assert!(error.contains("`classifier.output_labels` is 0; a number from 1 to 65536"), "{error}");
        let error = head(Some(Value::U32(2))).unwrap_err();
        assert!(error.contains("classifier.output_labels` is `2`, not a list"), "{error}");
    }
}
