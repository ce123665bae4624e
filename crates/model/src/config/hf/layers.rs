//! The layers with sliding-window attention, and the window's size.

use serde_json::Value;

use super::{
    super::Arch,
    settings::{Settings, shown},
};
use crate::Error;

/// The window and, for each layer, true if it is in force.
pub fn windows(s: &Settings<'_>, arch: Arch, n_layers: usize) -> Result<(Option<usize>, Vec<bool>), Error> {
    if arch.is_hybrid() {
        // Layers differ in their token mixers; none has a window.
        return Ok((None, vec![false; n_layers]));
    }
    let stated = layer_types(s, n_layers)?;
    let window = window(s, arch)?;
    let sliding = match (arch, stated) {
        (Arch::Qwen2 | Arch::Qwen3 | Arch::Gemma2 | Arch::Gemma3 | Arch::GptOss, Some(stated)) => stated,
        (Arch::Gemma4, stated) => {
            let mut slides =
                stated.unwrap_or_else(|| (1..=n_layers).map(|layer| !layer.is_multiple_of(6)).collect());
            // The class makes the last layer a full one, whatever the file has.
            slides.iter_mut().last().into_iter().for_each(|last| *last = false);
            slides
        }
        (Arch::Qwen2 | Arch::Qwen3, None) => {
            let first = s.needed_size("max_window_layers")?;
            (0..n_layers).map(|layer| window.is_some() && layer >= first).collect()
        }
        (Arch::Gemma2 | Arch::GptOss, None) => (0..n_layers).map(|layer| layer.is_multiple_of(2)).collect(),
        (Arch::Gemma3, None) => {
            let pattern = pattern(s)?;
            (0..n_layers).map(|layer| !(layer + 1).is_multiple_of(pattern)).collect()
        }
        (_, stated) => {
            let all = vec![window.is_some(); n_layers];
            if stated.is_some_and(|stated| stated != all) {
                let kind = if window.is_some() { "sliding_attention" } else { "full_attention" };
                let reason = format!("differs from layer to layer; in `{}` all are `{kind}`", s.class.name);
                return Err(s.bad("layer_types", reason));
            }
            all
        }
    };
    if window.is_none() && sliding.contains(&true) {
        return Err(s.bad("layer_types", "has `sliding_attention`, but no `sliding_window` is in force"));
    }
    Ok((window, sliding))
}

fn window(s: &Settings<'_>, arch: Arch) -> Result<Option<usize>, Error> {
    let window = match arch {
        Arch::Llama | Arch::Glm4Moe | Arch::Hunyuan | Arch::Qwen35 | Arch::Qwen35Moe | Arch::Qwen3Next => {
            None
        }
        Arch::Mistral | Arch::Ministral3 | Arch::Gemma2 | Arch::Gemma3 | Arch::Gemma4 | Arch::GptOss => {
            s.size("sliding_window")?
        }
        Arch::Qwen2 | Arch::Qwen3 | Arch::Qwen3Moe => {
            if s.flag("use_sliding_window")? {
                s.size("sliding_window")?
            } else {
                None
            }
        }
    };
    if window == Some(0) {
        return Err(s.bad("sliding_window", "is 0; a number from 1 was expected"));
    }
    let has_switch =
        matches!(arch, Arch::Qwen2 | Arch::Qwen3 | Arch::Qwen3Moe) || s.given("use_sliding_window").is_none();
    if !has_switch && s.flag("use_sliding_window")? != window.is_some() {
        let reason =
            format!("is {}, which contradicts the `sliding_window` of `{}`", window.is_none(), s.class.name);
        return Err(s.bad("use_sliding_window", reason));
    }
    Ok(window)
}

/// The distance between full layers.
fn pattern(s: &Settings<'_>) -> Result<usize, Error> {
    let pattern = s.size("sliding_window_pattern")?.unwrap_or(6);
    if pattern == 0 {
        return Err(s.bad("sliding_window_pattern", "is 0; a number from 1 was expected"));
    }
    if s.size("_sliding_window_pattern")?.is_some_and(|private| private != pattern) {
        let reason =
            format!("is not {pattern}, which applies without `layer_types` or `sliding_window_pattern`");
        return Err(s.bad("_sliding_window_pattern", reason));
    }
    Ok(pattern)
}

/// `layer_types`: for each layer, true if it is a sliding one.
fn layer_types(s: &Settings<'_>, n_layers: usize) -> Result<Option<Vec<bool>>, Error> {
    let Some(value) = s.value("layer_types") else { return Ok(None) };
    let bad = |reason: String| s.bad("layer_types", reason);
    let list = value.as_array().ok_or_else(|| bad(format!("is {}, not a list", shown(value))))?;
    if list.len() != n_layers {
        return Err(bad(format!("has {} entries; `num_hidden_layers` is {n_layers}", list.len())));
    }
    let is_sliding = |kind: &Value| match kind.as_str() {
        Some("sliding_attention") => Ok(true),
        // The second is an older name.
        Some("full_attention" | "attention") => Ok(false),
        _ => Err(bad(format!("has {}; `full_attention` and `sliding_attention` are known", shown(kind)))),
    };
    list.iter().map(is_sliding).collect::<Result<_, _>>().map(Some)
}
