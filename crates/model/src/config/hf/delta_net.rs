//! Gated DeltaNet from a `config.json`.

use serde_json::{Value, json};

use super::{
    super::{Arch, DeltaNet},
    settings::{Settings, shown},
};
use crate::Error;

const INTERVAL: &str = "full_attention_interval";

/// The Gated DeltaNet of a class that has it.
pub fn delta_net(s: &Settings<'_>, arch: Arch, n_layers: usize) -> Result<Option<DeltaNet>, Error> {
    if !arch.is_hybrid() {
        return Ok(None);
    }
    // The second three are settings of Qwen3-Next, which reads them; later classes compute with these values.
    let fixed = [
        ("attn_output_gate", json!(true)),
        ("mamba_ssm_dtype", json!("float32")),
        ("norm_topk_prob", json!(true)),
        ("decoder_sparse_step", json!(1)),
        ("mlp_only_layers", json!([])),
    ];
    for (key, only) in &fixed[..if arch == Arch::Qwen3Next { 2 } else { 5 }] {
        if let Some(value) = s.given(key).filter(|value| *value != only) {
            return Err(s.bad(key, format!("is {}; only `{only}` is supported", shown(value))));
        }
    }
    // The activation of the gate on DeltaNet's output; the gate of attention is always a sigmoid.
    let gate = "output_gate_type";
    if let Some(value) = s.given(gate).filter(|value| !matches!(value.as_str(), Some("swish" | "silu"))) {
        return Err(s.bad(gate, format!("is {}; only `swish` is supported", shown(value))));
    }
    let (n_key_heads, n_value_heads) =
        (s.needed_size("linear_num_key_heads")?, s.needed_size("linear_num_value_heads")?);
    if n_key_heads == 0 || !n_value_heads.is_multiple_of(n_key_heads) {
        let reason = format!("is {n_value_heads}, not a multiple of `linear_num_key_heads`, {n_key_heads}");
        return Err(s.bad("linear_num_value_heads", reason));
    }
    Ok(Some(DeltaNet {
        n_key_heads,
        n_value_heads,
        key_dim: s.needed_size("linear_key_head_dim")?,
        value_dim: s.needed_size("linear_value_head_dim")?,
        conv: s.needed_size("linear_conv_kernel_dim")?,
        layers: layers(s, n_layers)?,
        is_tiled: false,
    }))
}

/// For each layer, true if it has DeltaNet: by `layer_types`, else all but each `full_attention_interval`-th.
fn layers(s: &Settings<'_>, n_layers: usize) -> Result<Vec<bool>, Error> {
    let interval = s.size(INTERVAL)?;
    if interval == Some(0) {
        return Err(s.bad(INTERVAL, "is 0; a number from 1 was expected"));
    }
    let by_interval = |interval: usize| -> Vec<bool> {
        (1..=n_layers).map(|layer| !layer.is_multiple_of(interval)).collect()
    };
    let key = "layer_types";
    let Some(value) = s.value(key) else { return Ok(by_interval(interval.unwrap_or(4))) };
    let bad = |reason: String| s.bad(key, reason);
    let list = value.as_array().ok_or_else(|| bad(format!("is {}, not a list", shown(value))))?;
    if list.len() != n_layers {
        return Err(bad(format!("has {} entries; `num_hidden_layers` is {n_layers}", list.len())));
    }
    let is_linear = |kind: &Value| match kind.as_str() {
        Some("linear_attention") => Ok(true),
        Some("full_attention") => Ok(false),
        _ => Err(bad(format!("has {}; `full_attention` and `linear_attention` are known", shown(kind)))),
    };
    let stated = list.iter().map(is_linear).collect::<Result<Vec<bool>, _>>()?;
    match interval {
        Some(interval) if by_interval(interval) != stated => Err(s.bad(
            INTERVAL,
            format!("is {interval}, which contradicts `layer_types`; hint: remove one of them"),
        )),
        _ => Ok(stated),
    }
}
