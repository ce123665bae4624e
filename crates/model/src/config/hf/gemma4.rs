//! Settings of Gemma 4 alone: heads that differ between full and sliding layers, and the family's unsupported
//! settings.

use serde_json::{Map, Value};

use super::settings::{Settings, shown};
use crate::Error;

/// The default of `global_head_dim`, which is no field of the class.
const GLOBAL_HEAD_DIM: usize = 512;

/// The heads of one kind of layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    pub head_dim: usize,
    pub n_kv_heads: usize,
}

/// Rejects unsupported settings: embeddings for each layer and shared keys and values (the E models), and
/// attention to later tokens.
pub fn check(s: &Settings<'_>) -> Result<(), Error> {
    if s.class.defaults.contains_key("hidden_size_per_layer_input")
        && s.size("hidden_size_per_layer_input")?.unwrap_or(0) != 0
    {
        let reason = "is not 0: embeddings for each layer (Gemma 4 E2B and E4B) are not supported; hint: take Gemma 4 \
                      12B, 26B-A4B or 31B";
        return Err(s.bad("hidden_size_per_layer_input", reason));
    }
    if s.size("num_kv_shared_layers")?.unwrap_or(0) != 0 {
        let reason = "is not 0: layers that share keys and values (Gemma 4 E2B and E4B) are not supported";
        return Err(s.bad("num_kv_shared_layers", reason));
    }
    match s.text("use_bidirectional_attention")? {
        // Only for tokens of images.
        None | Some("vision") => Ok(()),
        Some(other) => Err(s.bad(
            "use_bidirectional_attention",
            format!("is `{other}`; a decoder sees earlier tokens only (null or `vision`)"),
        )),
    }
}

/// The heads of full layers; `own` are those of the others.
pub fn full_heads(s: &Settings<'_>, slides: &[bool], own: Heads) -> Result<Heads, Error> {
    if let Some(layers) = s.object("per_layer_config")? {
        return of_layers(s, slides, own, layers);
    }
    let n_kv_heads = match s.size("num_global_key_value_heads")? {
        Some(n) if s.flag("attention_k_eq_v")? => n,
        _ => own.n_kv_heads,
    };
    Ok(Heads { head_dim: s.size("global_head_dim")?.unwrap_or(GLOBAL_HEAD_DIM), n_kv_heads })
}

/// The heads of full layers from settings by layer: all full layers have the same ones, sliding layers none.
fn of_layers(
    s: &Settings<'_>,
    slides: &[bool],
    own: Heads,
    layers: &Map<String, Value>,
) -> Result<Heads, Error> {
    let key = "per_layer_config";
    let place = |layer: &str| layer.parse::<usize>().ok().filter(|layer| *layer < slides.len());
    if let Some(layer) = layers.keys().find(|layer| place(layer).is_none()) {
        return Err(s.bad(key, format!("has `{layer}`, which is none of {} layers", slides.len())));
    }
    let mut full: Option<Heads> = None;
    for (layer, slides) in slides.iter().enumerate() {
        let heads = match layers.get(&layer.to_string()) {
            None => own,
            Some(settings) => of_layer(s, layer, own, settings)?,
        };
        let expected = if *slides { own } else { *full.get_or_insert(heads) };
        if heads != expected {
            let reason = format!("gives layer {layer} other heads than the layers of its type have");
            return Err(s.bad(key, reason));
        }
    }
    Ok(full.unwrap_or(own))
}

fn of_layer(s: &Settings<'_>, layer: usize, own: Heads, settings: &Value) -> Result<Heads, Error> {
    let bad = |reason: String| s.bad(&format!("per_layer_config.{layer}"), reason);
    let settings =
        settings.as_object().ok_or_else(|| bad(format!("is {}, not an object", shown(settings))))?;
    let mut heads = own;
    for (key, value) in settings {
        let size = value.as_u64().and_then(|n| usize::try_from(n).ok());
        let size = size.ok_or_else(|| bad(format!("has `{key}` {}, not a whole number", shown(value))))?;
        match key.as_str() {
            "head_dim" => heads.head_dim = size,
            "num_key_value_heads" => heads.n_kv_heads = size,
            _ => return Err(bad(format!("has `{key}`, a setting that is not known"))),
        }
    }
    Ok(heads)
}

#[cfg(test)]
mod tests;
