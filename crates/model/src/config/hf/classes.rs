//! Defaults of the configuration classes of `transformers`, for keys that a file leaves out. The table is
//! written by `scripts/config_classes.py`.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;
use serde_json::{Map, Value};

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../classes.json")).expect("a test reads the table of classes")
});

#[derive(Deserialize)]
struct Table {
    classes: BTreeMap<String, Class>,
    wrappers: BTreeMap<String, Wrapper>,
    base: Vec<String>,
    generation: Vec<String>,
}

/// A class whose decoder is supported.
#[derive(Debug, Deserialize)]
pub struct Class {
    #[serde(rename = "class")]
    pub name: String,
    rope_theta: Theta,
    /// Every field with its default; `null` for fields without one.
    pub defaults: Map<String, Value>,
}

/// The base of the rope, by layer type where layers differ.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Theta {
    One(f64),
    ByLayerType(BTreeMap<String, f64>),
}

impl Class {
    /// The class of a `model_type`. Text-only files may keep the multimodal model's name.
    pub fn of(model_type: &str) -> Option<&'static Self> {
        TABLE.classes.get(&format!("{model_type}_text")).or_else(|| TABLE.classes.get(model_type))
    }

    /// The base of the rope of one layer type.
    pub fn rope_theta(&self, layer_type: &str) -> Option<f64> {
        match &self.rope_theta {
            Theta::One(theta) => Some(*theta),
            Theta::ByLayerType(thetas) => thetas.get(layer_type).copied(),
        }
    }
}

/// A multimodal class that keeps the decoder's settings under `text_config`.
#[derive(Debug, Deserialize)]
pub struct Wrapper {
    /// The `model_type` of `text_config` in files without one.
    pub text: String,
    pub tie_word_embeddings: Option<bool>,
}

impl Wrapper {
    /// The class of a `model_type`.
    pub fn of(model_type: &str) -> Option<&'static Self> {
        TABLE.wrappers.get(model_type)
    }
}

/// Returns true if files of every class may have this key: one of the common base class, or of generation.
pub fn is_common(key: &str) -> bool {
    TABLE.base.iter().chain(&TABLE.generation).any(|common| common == key)
}
