//! The known keys of `config.json`. A setting that changes the computation is read elsewhere, or accepted
//! only with a neutral value; unknown keys are rejected by name.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    classes::is_common,
    quantization,
    settings::{Settings, is_same, shown},
};
use crate::{Error, Result};

static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../keys.json")).expect("a test reads the table of keys")
});

#[derive(Deserialize)]
struct Keys {
    /// Settings of training, of storage, of other libraries and of other parts of a multimodal model.
    harmless: BTreeSet<String>,
    /// Patterns of such settings, with one `*` each.
    harmless_like: Vec<String>,
    /// Settings that change the computation, with their neutral values; `null` is always neutral.
    only: BTreeMap<String, Vec<Value>>,
}

/// Settings that are read of every class, beside the fields of its own; separated by spaces.
const READ: &str = "\
    model_type quantization_config head_dim hidden_act hidden_activation layer_types rope_theta \
    rope_scaling rope_parameters partial_rotary_factor original_max_position_embeddings";

/// Fields of a class that are read only where the family names them.
const UNREAD: [&str; 3] =
    ["attn_logit_softcapping", "final_logit_softcapping", "use_bidirectional_attention"];

fn is_read(key: &str, s: &Settings<'_>) -> bool {
    let of_class = s.class.defaults.contains_key(key) && !UNREAD.contains(&key);
    of_class || READ.split(' ').any(|read| read == key) || s.schema.keys.contains(&key)
}

/// Rejects unknown keys, and known ones whose value is neither read nor neutral.
pub fn check(s: &Settings<'_>) -> Result<()> {
    let of_family = s.schema.only();
    for (key, value) in s.file.iter().filter(|(_, value)| !value.is_null()) {
        if is_read(key, s) || s.schema.harmless.split_whitespace().any(|harmless| harmless == key) {
            continue;
        }
        if let Some(only) = of_family.get(key) {
            if !is_same(only, value) {
                return Err(s.bad(key, format!("is {}; only `{only}` is supported", shown(value))));
            }
            continue;
        }
        if let Some(neutral) = KEYS.only.get(key) {
            if !neutral.iter().any(|neutral| is_same(neutral, value)) {
                return Err(s.bad(key, format!("is {}, which is not supported", shown(value))));
            }
        } else if !is_common(key) && !is_harmless(key) {
            let reason = format!(
                "is {}, a setting that is not known; hint: remove it if it does not change what the model computes",
                shown(value)
            );
            return Err(s.bad(key, reason));
        }
    }
    Ok(())
}

/// Rejects decoder settings beside `text_config`, unless they equal those inside.
pub fn check_outside(outside: &Map<String, Value>, text: &Settings<'_>) -> Result<()> {
    let of_family = text.schema.only();
    let is_decoders = |key: &str| {
        !["model_type", quantization::NAME].contains(&key)
            && (is_read(key, text) || KEYS.only.contains_key(key) || of_family.contains_key(key))
            && !is_harmless(key)
    };
    for (key, value) in outside.iter().filter(|(key, value)| is_decoders(key) && !value.is_null()) {
        let neutral = KEYS.only.get(key).is_some_and(|values| values.iter().any(|v| is_same(v, value)));
        if !neutral && !text.value(key).is_some_and(|inside| is_same(inside, value)) {
            let reason = format!(
                "is {} beside `text_config`, where it is not read; hint: move it into `text_config`, or remove it",
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
