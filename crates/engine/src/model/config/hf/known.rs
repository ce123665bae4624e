//! Every key that a file may have. A setting that changes what the model computes is read elsewhere, or may only have a
//! value with which it changes nothing here; what a key does that is not known cannot be said, so it is refused by name.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    super::Arch,
    classes::is_common,
    settings::{Settings, is_same, shown},
};
use crate::model::Error;

static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../keys.json")).expect("a test reads the table of keys")
});

#[derive(Deserialize)]
struct Keys {
    /// Training, storage, other libraries' notes, other parts of a multimodal model.
    harmless: BTreeSet<String>,
    /// The same by how a key begins or ends, with `*` for the rest.
    harmless_like: Vec<String>,
    /// Settings that change the computation, with the values at which they do not. `null` is always one.
    only: BTreeMap<String, Vec<Value>>,
}

/// Settings that are read of every class, beside the fields of its own.
const READ: [&str; 10] = [
    "model_type",
    "head_dim",
    "hidden_act",
    "hidden_activation",
    "layer_types",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "partial_rotary_factor",
    "original_max_position_embeddings",
];

/// Settings that are read of one class more.
fn read_of(arch: Arch) -> &'static [&'static str] {
    match arch {
        Arch::Llama => &["use_sliding_window", "max_window_layers"],
        Arch::Mistral => &["use_sliding_window"],
        Arch::Gemma3 => &["rope_local_base_freq", "sliding_window_pattern", "_sliding_window_pattern"],
        Arch::Qwen2 | Arch::Qwen3 => &[],
    }
}

/// Fields of a class that this engine does not compute by.
const UNREAD: [&str; 3] =
    ["attn_logit_softcapping", "final_logit_softcapping", "use_bidirectional_attention"];

fn is_read(key: &str, s: &Settings<'_>, arch: Arch) -> bool {
    let of_class = s.class.defaults.contains_key(key) && !UNREAD.contains(&key);
    of_class || READ.contains(&key) || read_of(arch).contains(&key)
}

/// Refuses a key that is not known, and one of the known ones that is not obeyed with its value.
pub fn check(s: &Settings<'_>, arch: Arch) -> Result<(), Error> {
    for (key, value) in s.file.iter().filter(|(_, value)| !value.is_null()) {
        if is_read(key, s, arch) {
            continue;
        }
        if let Some(neutral) = KEYS.only.get(key) {
            if !neutral.iter().any(|neutral| is_same(neutral, value)) {
                return Err(s.bad(key, format!("is {}, which this engine does not compute", shown(value))));
            }
        } else if !is_common(key) && !is_harmless(key) {
            let reason = format!(
                "is {}, a setting that is not known; hint: if it does not change what the model computes, take it out \
                 of the file",
                shown(value)
            );
            return Err(s.bad(key, reason));
        }
    }
    Ok(())
}

/// Refuses what stands beside `text_config` and is the decoder's business, unless it is what holds there.
pub fn check_outside(outside: &Map<String, Value>, text: &Settings<'_>, arch: Arch) -> Result<(), Error> {
    let is_decoders = |key: &str| {
        key != "model_type" && (is_read(key, text, arch) || KEYS.only.contains_key(key)) && !is_harmless(key)
    };
    for (key, value) in outside.iter().filter(|(key, value)| is_decoders(key) && !value.is_null()) {
        let neutral = KEYS.only.get(key).is_some_and(|values| values.iter().any(|v| is_same(v, value)));
        if !neutral && !text.value(key).is_some_and(|inside| is_same(inside, value)) {
            let reason = format!(
                "is {} beside `text_config`, where it is not read; hint: put it into `text_config` if it holds, or take \
                 it out of the file",
                shown(value)
            );
            return Err(Error::Config { path: text.path.into(), key: key.clone(), reason });
        }
    }
    Ok(())
}

fn is_harmless(key: &str) -> bool {
    let is_like = |like: &String| match like.split_once('*') {
        Some((start, end)) => key.starts_with(start) && key.ends_with(end),
        None => key == like,
    };
    KEYS.harmless.contains(key) || KEYS.harmless_like.iter().any(is_like)
}
