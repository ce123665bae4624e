//! Settings of a metric in `hparams.yaml`, by COMET's names and defaults. Every key is read or known to
//! matter in training alone; any other one is rejected.

use std::path::Path;

use serde_json::{Map, Value};

use super::yaml;
use crate::{
    Error, Result,
    small_file::{self, MAX_SETTINGS_BYTES},
};

/// The file's name.
const FILE: &str = "hparams.yaml";

/// Settings of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The file, for messages.
    path: String,
    pub class: Class,
    /// The encoder's repository on the hub.
    pub pretrained: String,
    pub(super) layers: Layers,
    pub(super) pool: Pool,
    pub(super) activation: Activation,
    pub(super) last_activation: Option<Activation>,
    /// `None` without error tags.
    pub word_tags: Option<WordTags>,
}

/// The class of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Regression on the embeddings of source, translation and reference (COMET).
    Regression,
    /// Regression on those of source and translation (COMET-QE).
    Referenceless,
    /// Translation and other texts in one sequence (UniTE, CometKiwi).
    Unified { with_source: bool, with_reference: bool },
    /// [`Class::Unified`] with error spans that are part of the score.
    Xcomet,
    /// Regression on a single text.
    Sentinel(Field),
}

/// A text of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Source,
    Translation,
    Reference,
}

/// Tags of the translation's tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct WordTags {
    /// The depth of the states that they are read from.
    pub layer: usize,
    /// Severities, behind the tag of no error.
    pub labels: Vec<String>,
}

/// The layers of an embedding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Layers {
    Last,
    One(usize),
    Mix { transform: Transform, is_normed: bool },
}

/// The map of the layers' parameters to weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Transform {
    Softmax,
    Sparsemax,
}

/// Pooling over tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pool {
    First,
    Average,
    Maximum,
}

/// An activation of the regression head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Activation {
    Tanh,
    Sigmoid,
}

/// Keys without effect on a prediction; sizes of the head are those of its tensors.
const OF_TRAINING: &str = "batch_size cross_entropy_weights dropout encoder_learning_rate hidden_sizes \
    keep_embeddings_frozen layerwise_decay learning_rate load_pretrained_weights load_weights_from_checkpoint \
    local_files_only loss loss_lambda name nr_frozen_epochs optimizer shuffle train_data validation_data warmup_steps";

/// Keys that some class reads.
const READ: &str = "activations class_identifier encoder_model error_labels final_activation input_segments layer \
    layer_norm layer_transformation pool pretrained_model sent_layer sent_to_use word_layer word_level_training";

/// Encoders whose texts are delimited as XLM-R's.
const ENCODERS: [&str; 2] = ["XLM-RoBERTa", "XLM-RoBERTa-XL"];

impl Settings {
    /// The settings of a folder; `None` without the file.
    ///
    /// # Errors
    /// A file that cannot be read; a key or value that is not supported.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(FILE);
        let bytes = small_file::read_if_there(&path, MAX_SETTINGS_BYTES);
        let path = path.display().to_string();
        let bytes = bytes.map_err(|source| Error::Io { path: path.clone(), source })?;
        bytes.map(|bytes| Self::parse(&path, &bytes)).transpose()
    }

    /// The settings in the bytes of a file.
    ///
    /// # Errors
    /// Those of [`Settings::read`].
    pub fn parse(path: &str, bytes: &[u8]) -> Result<Self> {
        let broken = |reason: String| {
            let hint = "take the file as the metric's authors published it";
            Error::File { path: path.into(), reason, hint: hint.into() }
        };
        let text = std::str::from_utf8(bytes).map_err(|_| broken("is not UTF-8".into()))?;
        let keys = yaml::read(text).map_err(|(line, reason)| broken(format!("line {line} {reason}")))?;
        Keys { path, keys: &keys }.settings()
    }

    /// The error of a folder without the settings of its encoder.
    pub(crate) fn no_config(&self) -> Error {
        let hint = format!("put `config.json` of `{}` beside it", self.pretrained);
        Error::File { path: self.path.clone(), reason: "names an encoder without settings".into(), hint }
    }

    /// An error about a key.
    pub(super) fn bad(&self, key: &str, reason: String) -> Error {
        Error::Config { path: self.path.clone(), key: key.into(), reason }
    }
}

/// The keys of a file.
struct Keys<'a> {
    path: &'a str,
    keys: &'a Map<String, Value>,
}

impl Keys<'_> {
    fn settings(&self) -> Result<Settings> {
        let known =
            |key: &str| READ.split(' ').chain(OF_TRAINING.split_whitespace()).any(|known| known == key);
        if let Some(key) = self.keys.keys().find(|key| !known(key.as_str())) {
            return Err(self.bad(key, "is not a setting of a metric that is supported".into()));
        }
        let class = self.class()?;
        let encoder = self.text("encoder_model", "XLM-RoBERTa")?;
        if !ENCODERS.contains(&encoder) {
            return Err(self.unsupported("encoder_model", encoder, &ENCODERS));
        }
        let (layers, pool) = self.layers(class)?;
        Ok(Settings {
            path: self.path.into(),
            class,
            pretrained: self.text("pretrained_model", "xlm-roberta-large")?.into(),
            layers,
            pool,
            activation: self.activation("activations")?.unwrap_or(Activation::Tanh),
            last_activation: self.activation("final_activation")?,
            word_tags: self.word_tags(class)?,
        })
    }

    fn class(&self) -> Result<Class> {
        const NAMES: [&str; 5] = [
            "regression_metric",
            "referenceless_regression_metric",
            "unified_metric",
            "xcomet_metric",
            "sentinel_regression_metric",
        ];
        Ok(match self.text("class_identifier", "")? {
            "regression_metric" => Class::Regression,
            "referenceless_regression_metric" => Class::Referenceless,
            "unified_metric" => {
                let fields = self.texts("input_segments", &["mt", "src", "ref"])?;
                let other = fields.iter().find(|field| !["mt", "src", "ref"].contains(&field.as_str()));
                if let Some(other) = other {
                    return Err(self.unsupported("input_segments", other, &["mt", "src", "ref"]));
                }
                let has = |name: &str| fields.iter().any(|field| field == name);
                let (with_source, with_reference) = (has("src"), has("ref"));
                if !has("mt") || !(with_source || with_reference) {
                    let reason = "has not both the translation and a text beside it";
                    return Err(self.bad("input_segments", reason.into()));
                }
                Class::Unified { with_source, with_reference }
            }
            "xcomet_metric" => Class::Xcomet,
            "sentinel_regression_metric" => Class::Sentinel(match self.text("sent_to_use", "mt")? {
                "src" => Field::Source,
                "mt" => Field::Translation,
                "ref" => Field::Reference,
                other => return Err(self.unsupported("sent_to_use", other, &["src", "mt", "ref"])),
            }),
            other => return Err(self.unsupported("class_identifier", other, &NAMES)),
        })
    }

    fn layers(&self, class: Class) -> Result<(Layers, Pool)> {
        if let Class::Sentinel(_) = class {
            return Ok((Layers::Last, Pool::First));
        }
        let (key, pool) = match class {
            Class::Unified { .. } | Class::Xcomet => ("sent_layer", "cls"),
            _ => ("layer", self.text("pool", "avg")?),
        };
        let pool = match pool {
            "avg" => Pool::Average,
            "max" => Pool::Maximum,
            "cls" => Pool::First,
            // The first token of the last layer, whatever `layer` says.
            "default" => return Ok((Layers::Last, Pool::First)),
            other => return Err(self.unsupported("pool", other, &["avg", "max", "cls", "default"])),
        };
        if self.keys.get(key).is_some_and(Value::is_number) {
            return Ok((Layers::One(self.size(key, 0)?), pool));
        }
        let layer = self.text(key, "mix")?;
        if layer != "mix" {
            return Err(self.unsupported(key, layer, &["mix", "the number of a layer"]));
        }
        let is_joined = key == "sent_layer";
        let transform = self.text("layer_transformation", if is_joined { "sparsemax" } else { "softmax" })?;
        let transform = match transform {
            // Checkpoints that were trained with softmax though their settings named sparsemax have the
            // latter name.
            "softmax" | "sparsemax_patch" => Transform::Softmax,
            "sparsemax" => Transform::Sparsemax,
            other => {
                let known = ["softmax", "sparsemax", "sparsemax_patch"];
                return Err(self.unsupported("layer_transformation", other, &known));
            }
        };
        Ok((Layers::Mix { transform, is_normed: self.flag("layer_norm", class != Class::Xcomet)? }, pool))
    }

    fn word_tags(&self, class: Class) -> Result<Option<WordTags>> {
        const SEVERITIES: [&str; 3] = ["minor", "major", "critical"];
        let (default, layer) = match class {
            Class::Unified { .. } if self.flag("word_level_training", false)? => (&SEVERITIES[..2], 24),
            Class::Xcomet => (&SEVERITIES[..], 36),
            _ => return Ok(None),
        };
        let labels = self.texts("error_labels", default)?;
        if let Some(other) = labels.iter().find(|label| !SEVERITIES.contains(&label.as_str())) {
            return Err(self.unsupported("error_labels", other, &SEVERITIES));
        }
        Ok(Some(WordTags { layer: self.size("word_layer", layer)?, labels }))
    }

    fn activation(&self, key: &str) -> Result<Option<Activation>> {
        Ok(match self.text(key, "")?.to_lowercase().as_str() {
            "" => None,
            "tanh" => Some(Activation::Tanh),
            "sigmoid" => Some(Activation::Sigmoid),
            other => return Err(self.unsupported(key, other, &["Tanh", "Sigmoid"])),
        })
    }

    fn value(&self, key: &str) -> Option<&Value> {
        self.keys.get(key).filter(|value| !value.is_null())
    }

    fn text<'v>(&'v self, key: &str, default: &'v str) -> Result<&'v str> {
        let Some(value) = self.value(key) else { return Ok(default) };
        value.as_str().ok_or_else(|| self.bad(key, format!("is {value}, not a name")))
    }

    fn texts(&self, key: &str, default: &[&str]) -> Result<Vec<String>> {
        let Some(value) = self.value(key) else {
            return Ok(default.iter().map(|&text| text.to_owned()).collect());
        };
        let texts = value
            .as_array()
            .and_then(|list| list.iter().map(|text| Some(text.as_str()?.to_owned())).collect());
        texts.ok_or_else(|| self.bad(key, format!("is {value}, not a list of names")))
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool> {
        let Some(value) = self.value(key) else { return Ok(default) };
        value.as_bool().ok_or_else(|| self.bad(key, format!("is {value}, not true or false")))
    }

    fn size(&self, key: &str, default: usize) -> Result<usize> {
        let Some(value) = self.value(key) else { return Ok(default) };
        let size = value.as_u64().and_then(|size| usize::try_from(size).ok());
        size.ok_or_else(|| self.bad(key, format!("is {value}, not a whole number")))
    }

    fn bad(&self, key: &str, reason: String) -> Error {
        Error::Config { path: self.path.into(), key: key.into(), reason }
    }

    fn unsupported(&self, key: &str, value: &str, known: &[&str]) -> Error {
        let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
        self.bad(key, format!("is `{value}`, which is not supported; hint: {} are", known.join(", ")))
    }
}

impl Class {
    /// True if the translation stands in one sequence with other texts, the translation first.
    pub fn joins_texts(self) -> bool {
        matches!(self, Self::Unified { .. } | Self::Xcomet)
    }

    /// The texts of each sequence, by whether source and reference are both there.
    pub(super) fn sequences(self, has_both: bool) -> Vec<Vec<Field>> {
        use Field::{Reference, Source, Translation};
        let joined = |reads_both: bool, reads_source: bool| match (reads_both && has_both, reads_source) {
            (true, _) => {
                vec![
                    vec![Translation, Source],
                    vec![Translation, Reference],
                    vec![Translation, Source, Reference],
                ]
            }
            (false, true) => vec![vec![Translation, Source]],
            (false, false) => vec![vec![Translation, Reference]],
        };
        match self {
            Self::Regression => vec![vec![Source], vec![Translation], vec![Reference]],
            Self::Referenceless => vec![vec![Source], vec![Translation]],
            Self::Unified { with_source, with_reference } => {
                joined(with_source && with_reference, with_source)
            }
            Self::Xcomet => joined(true, true),
            Self::Sentinel(field) => vec![vec![field]],
        }
    }

    /// True if a segment without a reference has no score.
    pub fn needs_reference(self) -> bool {
        self.sequences(false).iter().flatten().any(|field| *field == Field::Reference)
    }

    /// Embeddings side by side in the input of the regression head.
    pub(super) fn n_features(self) -> usize {
        match self {
            Self::Regression => 6,
            Self::Referenceless => 4,
            Self::Unified { .. } | Self::Xcomet | Self::Sentinel(_) => 1,
        }
    }

    /// The input of the regression head from the embeddings of [`Self::sequences`].
    pub(super) fn features(self, embedded: &[Vec<f64>]) -> Vec<f64> {
        let pairs = |a: &[f64], b: &[f64], of: fn(f64, f64) -> f64| -> Vec<f64> {
            a.iter().zip(b).map(|(a, b)| of(*a, *b)).collect()
        };
        let product = |a: &[f64], b: &[f64]| pairs(a, b, |a, b| a * b);
        let difference = |a: &[f64], b: &[f64]| pairs(a, b, |a, b| (a - b).abs());
        match (self, embedded) {
            (Self::Regression, [s, t, r]) => {
                [t.clone(), r.clone(), product(t, r), difference(t, r), product(t, s), difference(t, s)]
                    .concat()
            }
            (Self::Referenceless, [s, t]) => [t.clone(), s.clone(), product(t, s), difference(t, s)].concat(),
            _ => embedded.concat(),
        }
    }
}

impl Field {
    /// The noun for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Translation => "translation",
            Self::Reference => "reference",
        }
    }
}

impl Activation {
    pub(super) fn of(self, x: f64) -> f64 {
        match self {
            Self::Tanh => x.tanh(),
            Self::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Settings {
        Settings::parse("hparams.yaml", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn settings_that_old_files_leave_out_are_those_of_the_class() {
        let old = "nr_frozen_epochs: 0.3\nkeep_embeddings_frozen: True\nencoder_model: XLM-RoBERTa\n\
                   pretrained_model: xlm-roberta-large\npool: avg\nlayer: mix\nhidden_sizes:\n- 2048\n- 1024\n\
                   class_identifier: referenceless_regression_metric\nload_weights_from_checkpoint: null\n";
        let read = settings(old);
        let mix = Layers::Mix { transform: Transform::Softmax, is_normed: true };
        assert_eq!((read.class, read.layers, read.pool), (Class::Referenceless, mix, Pool::Average));
        assert_eq!((read.activation, read.last_activation), (Activation::Tanh, None));
        assert!(!read.class.needs_reference() && read.word_tags.is_none());
        let xcomet = settings("class_identifier: xcomet_metric\nencoder_model: XLM-RoBERTa-XL\n");
        let mix = Layers::Mix { transform: Transform::Sparsemax, is_normed: false };
        assert_eq!((xcomet.layers, xcomet.pool), (mix, Pool::First));
        assert_eq!(xcomet.word_tags.map(|tags| (tags.layer, tags.labels.len())), Some((36, 3)));
    }

    #[test]
    fn a_sentinel_reads_one_text() {
        let read =
            settings("class_identifier: sentinel_regression_metric\nsent_to_use: src\nshuffle: true\n");
        assert_eq!(read.class.sequences(true), [[Field::Source]]);
        assert_eq!((read.layers, read.pool), (Layers::Last, Pool::First));
    }

    #[test]
    fn references_that_a_class_needs() {
        let read = |segments: &str| {
            settings(&format!("class_identifier: unified_metric\ninput_segments: {segments}\n"))
        };
        assert!(read("[mt, ref]").class.needs_reference());
        assert!(!read("[mt, src, ref]").class.needs_reference());
    }
}
