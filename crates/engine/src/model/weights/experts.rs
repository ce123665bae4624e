//! Matrices of experts that a file holds in one tensor, by the names that they have in a file with a tensor for each.
//!
//! A safetensors file has `experts.7.gate_proj.weight` for each expert, or `experts.gate_up_proj` and
//! `experts.down_proj` for all of them (transformers 5), the gate's rows before those of `up`. A GGUF file has a tensor
//! for all gates, one for all ups and one for all downs.

use std::collections::BTreeMap;

use super::Entry;
use crate::model::config::MAX_EXPERTS;

/// Replaces each tensor `[experts, n, k]` by the matrices `[n, k]` in it. One that cannot be cut stays, and the
/// matrices are missing.
pub(super) fn split(index: &mut BTreeMap<String, Entry>) {
    let stacks: Vec<String> = index.keys().filter(|name| parts(name).is_some()).cloned().collect();
    for name in stacks {
        let (entry, parts) = (&index[&name], parts(&name).unwrap_or_default());
        let [n_experts, n, k] = entry.shape[..] else { continue };
        let n_matrices = n_experts * parts.len();
        let n_bytes = entry.end - entry.start;
        let is_whole = n.is_multiple_of(parts.len()) && n_matrices > 0 && n_bytes.is_multiple_of(n_matrices);
        if !is_whole || n_experts > MAX_EXPERTS {
            continue;
        }
        let (module, each) =
            (name.split(".experts.").next().unwrap_or_default().to_owned(), n_bytes / n_matrices);
        let cut: Vec<(String, Entry)> = (0..n_matrices)
            .map(|i| {
                let (expert, part) = (i / parts.len(), parts[i % parts.len()]);
                let start = entry.start + i * each;
                let shape = vec![n / parts.len(), k];
                let (source, rows) = (entry.source.clone(), None);
                let (file, end, dtype) = (entry.file, start + each, entry.dtype);
                let matrix = Entry { file, start, end, dtype, shape, rows, source };
                (format!("{module}.experts.{expert}.{part}.weight"), matrix)
            })
            .collect();
        index.remove(&name);
        index.extend(cut);
    }
}

/// The matrices of one expert that a tensor of this name holds, in their order; `None` for other names.
fn parts(name: &str) -> Option<&'static [&'static str]> {
    let (_, part) = name.split_once(".mlp.experts.")?;
    match part.strip_suffix(".weight").unwrap_or(part) {
        "gate_up_proj" => Some(&["gate_proj", "up_proj"]),
        "gate_proj" => Some(&["gate_proj"]),
        "up_proj" => Some(&["up_proj"]),
        "down_proj" => Some(&["down_proj"]),
        _ => None,
    }
}
