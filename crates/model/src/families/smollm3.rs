//! SmolLM3: a llama in which every fourth layer attends without positions.

use serde_json::Value;

use super::{Config, Family, Result, gguf, hf};
use crate::config::{Attention, Windows};

const LISTED: &str = "no_rope_layers";

/// llama.cpp's distance between layers without positions.
const INTERVAL: usize = 4;

pub const FAMILY: Family = Family {
    name: "smollm3",
    hf: hf::Schema {
        model_types: &["smollm3"],
        harmless: "max_window_layers",
        config: from_json,
        ..hf::Schema::LLAMA_LIKE
    },
    gguf: Some(gguf::Schema {
        architecture: "smollm3",
        is_interleaved: true,
        config: |reader| {
            let slides = (1..=reader.n_layers()?).map(|layer| layer.is_multiple_of(INTERVAL)).collect();
            let decoder = reader.decoder(reader.without_windows()?)?;
            Ok(without_positions(decoder, Windows { size: None, slides }))
        },
        ..gguf::Schema::LLAMA_LIKE
    }),
};

fn from_json(settings: &hf::Settings<'_>) -> Result<Config> {
    let is_without = layers_without(settings)?;
    let by_default = is_without.clone();
    let windows = settings.windows_listed(|window, n_layers| {
        Ok(if window.is_some() { by_default } else { vec![false; n_layers] })
    })?;
    if windows.size.is_some() && windows.slides != is_without {
        let reason = format!("has a window on other layers than those that `{LISTED}` leaves without a rope");
        return Err(settings.bad("layer_types", reason));
    }
    let decoder = settings.decoder(settings.without_windows()?)?;
    Ok(without_positions(decoder, Windows { size: windows.size, slides: is_without }))
}

/// The layers without positions: in the file 0 of a list, else each so many.
fn layers_without(settings: &hf::Settings<'_>) -> Result<Vec<bool>> {
    let n_layers = settings.n_layers()?;
    let Some(value) = settings.value(LISTED) else {
        let interval = settings.needed_size("no_rope_layer_interval")?;
        return Ok((1..=n_layers).map(|layer| interval > 0 && layer.is_multiple_of(interval)).collect());
    };
    let is_without = |value: &Value| value.as_u64().filter(|n| *n < 2).map(|n| n == 0);
    let layers: Option<Vec<bool>> =
        value.as_array().and_then(|list| list.iter().take(n_layers).map(is_without).collect());
    let layers = layers.filter(|layers| layers.len() == n_layers);
    layers
        .ok_or_else(|| settings.bad(LISTED, format!("is not a list of 0 or 1 for each of {n_layers} layers")))
}

fn without_positions(decoder: Config, Windows { size, slides }: Windows) -> Config {
    let sliding = Some(Attention { window: size, ..decoder.full.unrotated() });
    Config { sliding, slides, ..decoder }
}
