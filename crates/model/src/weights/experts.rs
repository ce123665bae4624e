//! Matrices of experts that a file stores in one tensor, by their names in a file with a tensor for each.
//!
//! A safetensors file has `experts.7.gate_proj.weight` for each expert, or `experts.gate_up_proj` and
//! `experts.down_proj` for all of them (transformers 5), the gate's rows before those of `up`. A GGUF file
//! has a tensor for all gates, one for all ups and one for all downs.

use std::{collections::BTreeMap, iter, sync::Arc};

use super::{Entry, Source, Turns};
use crate::{Config, config::MAX_EXPERTS};

/// Splits the tensors of gpt-oss: rows of gates and of ups in turns, in floats as the transposes
/// `[experts, k, n]`; and the biases of all experts of a layer, `[experts, n]`, as one column.
pub(super) fn split_in_turns(config: &Config, index: &mut BTreeMap<String, Entry>) {
    if !config.experts.as_ref().is_some_and(|experts| experts.biases) {
        return;
    }
    for layer in 0..config.n_layers {
        let at = |part: &str| format!("model.layers.{layer}.mlp.experts.{part}");
        let n_experts = config.experts.as_ref().map_or(0, |experts| experts.n);
        for part in ["gate_up_proj", "down_proj"] {
            let names = (0..n_experts).map(|expert| at(&format!("{expert}.{part}.bias")));
            join(index, &names.collect::<Vec<_>>(), at(&format!("{part}_bias")));
        }
        for (from, part) in [("gate_up_proj_bias", "gate_up_proj.bias"), ("down_proj_bias", "down_proj.bias")]
        {
            if let Some(mut entry) = index.remove(&at(from)) {
                entry.shape = vec![entry.shape.iter().product(), 1];
                cut(index, entry, |part| at(&format!("{part}.bias")), part.starts_with("gate_up"));
            }
        }
        for part in ["gate_up_proj", "down_proj"] {
            let Some(entry) = index.get(&at(part)).filter(|entry| entry.shape.len() == 3) else { continue };
            let (n_experts, k, n) = (entry.shape[0], entry.shape[1], entry.shape[2]);
            let each = (entry.end - entry.start) / n_experts.max(1);
            if n_experts > MAX_EXPERTS || each != k * n * entry.dtype.block_bytes() {
                continue;
            }
            let Some(entry) = index.remove(&at(part)) else { continue };
            for expert in 0..n_experts {
                let start = entry.start + expert * each;
                let (end, shape, source) = (start + each, vec![n, k], Source::Transposed(n));
                let matrix = Entry { start, end, shape, rows: None, source, ..entry };
                cut(index, matrix, |part| at(&format!("{expert}.{part}.weight")), part == "gate_up_proj");
            }
        }
        for expert in 0..n_experts {
            let name = at(&format!("{expert}.gate_up_proj.weight"));
            if let Some(matrix) = index.remove(&name) {
                cut(index, matrix, |part| at(&format!("{expert}.{part}.weight")), true);
            }
        }
    }
}

/// Enters vectors of one type and length as one tensor with a row for each; if one is missing, none is
/// changed.
fn join(index: &mut BTreeMap<String, Entry>, names: &[String], whole: String) {
    let Some(first) = names.first().and_then(|name| index.get(name)) else { return };
    let first = first.clone();
    let shape: Vec<usize> = iter::once(names.len()).chain(first.shape.iter().copied()).collect();
    let parts = names.iter().map(|name| {
        let is_alike = |entry: &&Entry| entry.dtype == first.dtype && entry.shape == shape[1..];
        index.get(name).filter(is_alike).map(|entry| (entry.file, entry.start, entry.end))
    });
    let Some(parts) = parts.collect::<Option<Arc<[_]>>>() else { return };
    for name in names {
        index.remove(name);
    }
    index.insert(whole, Entry { shape, rows: None, source: Source::Joined(parts), ..first });
}

/// Enters a tensor as gates and ups, whose rows it has in turns, or as downs.
fn cut(index: &mut BTreeMap<String, Entry>, entry: Entry, name: impl Fn(&str) -> String, is_gate_up: bool) {
    if !is_gate_up {
        index.insert(name("down_proj"), entry);
        return;
    }
    for (i, part) in ["gate_proj", "up_proj"].into_iter().enumerate() {
        let mut shape = entry.shape.clone();
        shape[0] /= 2;
        let rows = Some(Turns::one(2, i..i + 1));
        index.insert(name(part), Entry { shape, rows, ..entry.clone() });
    }
}

/// The biases of all experts of a layer as one column, the output of [`split_in_turns`].
pub(super) fn columns(index: &mut BTreeMap<String, Entry>) {
    let is_bias =
        |name: &str| name.strip_suffix(".bias").is_some_and(|module| module.contains(".mlp.experts."));
    for (_, entry) in index.iter_mut().filter(|(name, _)| is_bias(name)) {
        entry.shape = vec![entry.shape.iter().product(), 1];
    }
}

/// Replaces each tensor `[experts, n, k]` by the matrices `[n, k]` in it. A tensor that cannot be cut stays,
/// and the matrices are missing.
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
                let (end, shape) = (start + each, vec![n / parts.len(), k]);
                let matrix = Entry { start, end, shape, rows: None, ..entry.clone() };
                (format!("{module}.experts.{expert}.{part}.weight"), matrix)
            })
            .collect();
        index.remove(&name);
        index.extend(cut);
    }
}

/// The matrices of one expert in a tensor of this name, in their order; `None` for other names.
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
