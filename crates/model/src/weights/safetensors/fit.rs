//! Compares a configuration's sizes with the shapes of tensors, since a size that `config.json` does not give
//! is only a default. It reads no tensor's values.

use std::{collections::BTreeMap, path::Path};

use super::{super::Entry, EMBEDDINGS};
use crate::{
    Error, Result,
    config::{QkNorm, hf::FileConfig},
};

/// Compares each size with a dimension of some tensor.
///
/// # Errors
/// Names the first size that differs.
pub fn check(path: &Path, reading: &FileConfig, index: &BTreeMap<String, Entry>) -> Result<()> {
    let c = &reading.config;
    let first = (0..c.n_layers).find(|&layer| c.delta_net_of(layer).is_none()).unwrap_or(0);
    let attention = c.attention_of(first);
    let of_attention = |part: &str| format!("model.layers.{first}.self_attn.{part}.weight");
    let (q, k) = (of_attention("q_proj"), of_attention("k_proj"));
    // Norms over all heads have their width.
    let is_over_all = matches!(c.qk_norm, QkNorm::EachHead | QkNorm::Projection);
    let q_norm = if is_over_all { String::new() } else { of_attention("q_norm") };
    let half = if c.has_gate() { "gate_proj" } else { "up_proj" };
    let gate = format!("model.layers.0.mlp.{half}.weight");
    let sparse =
        c.experts.as_ref().and_then(|experts| experts.layers.iter().position(|has| *has)).unwrap_or(0);
    let of_sparse = |part: &str| format!("model.layers.{sparse}.{part}.weight");
    let (router, expert) = (of_sparse("mlp.gate"), of_sparse("mlp.experts.0.gate_proj"));
    let (n_experts, width) = c.experts.as_ref().map_or((0, 0), |experts| (experts.n, experts.width));
    // Classes without dense layers (gpt-oss, Mixtral) use this name for their experts' width.
    let is_plain = c.experts.as_ref().is_some_and(|experts| experts.width == c.intermediate);
    let of_width: &[&str] = if is_plain { &["intermediate_size"] } else { &["moe_intermediate_size"] };
    for (keys, size, tensor, dim) in [
        (&["hidden_size"][..], c.hidden, EMBEDDINGS, 1),
        (&["vocab_size"], c.vocab, EMBEDDINGS, 0),
        (&["intermediate_size"], c.intermediate, &gate, 0),
        (&["number of experts"], n_experts, &router, 0),
        (of_width, width, &expert, 0),
        (&["head_dim"], attention.head_dim, &q_norm, 0),
        (&["num_attention_heads", "head_dim"], c.n_heads * attention.query_dim(), &q, 0),
        (&["num_key_value_heads", "head_dim"], attention.kv_width(), &k, 0),
    ] {
        let Some(shape) = index.get(tensor).map(|entry| &entry.shape) else { continue };
        if shape.get(dim) != Some(&size) {
            return Err(bad(path, reading, keys, size, &format!("tensor `{tensor}` has shape {shape:?}")));
        }
    }
    // A smaller number of layers than the tensors have is used if the file itself gives it.
    let n_layers = 1 + index.keys().filter_map(|name| layer(name)).max().unwrap_or(0);
    if reading.left_out.contains(&"num_hidden_layers") && n_layers != c.n_layers {
        let found = format!("the tensors are of {n_layers} layers");
        return Err(bad(path, reading, &["num_hidden_layers"], c.n_layers, &found));
    }
    Ok(())
}

/// The number of the layer that a tensor belongs to.
pub fn layer(name: &str) -> Option<usize> {
    name.strip_prefix("model.layers.")?.split('.').next()?.parse().ok()
}

fn bad(path: &Path, reading: &FileConfig, keys: &[&str], size: usize, found: &str) -> Error {
    let left_out: Vec<String> =
        keys.iter().filter(|key| reading.left_out.contains(*key)).map(|key| format!("`{key}`")).collect();
    let default = if left_out.is_empty() {
        String::new()
    } else {
        let (out, class) = (left_out.join(" and "), reading.class);
        format!(
            "; the file does not give {out}, and the default of `{class}` does not fit\nhint: add it to the file"
        )
    };
    Error::Config {
        path: path.display().to_string(),
        key: keys.join("` times `"),
        reason: format!("is {size}, but {found}{default}"),
    }
}
