//! Projections of heads and of the feed-forward half that files store fused or in another order of rows, by
//! the names and in the order that the decoder reads.

use std::{collections::BTreeMap, ops::Range, path::Path};

use super::{Entry, Source, Turns};
use crate::{Config, Error, Result};

/// Replaces matrices that are several one after another (Phi-3, GLM-4, dense Granite 4) by those in them. A
/// tensor that cannot be cut stays, and the matrices are missing.
///
/// # Errors
/// A matrix that the file has by itself, too.
pub(super) fn split(path: &Path, config: &Config, index: &mut BTreeMap<String, Entry>) -> Result<()> {
    for layer in 0..config.n_layers {
        let attention = config.attention_of(layer);
        let (q, kv) = (config.n_heads * attention.head_dim, attention.kv_width());
        let heads = [("q_proj", q), ("k_proj", kv), ("v_proj", kv)];
        let halves = ["gate_proj", "up_proj"].map(|part| (part, config.intermediate));
        for kind in ["weight", "bias"] {
            let at = |part: &str| format!("model.layers.{layer}.{part}.{kind}");
            let heads = heads.map(|(part, n)| (at(&format!("self_attn.{part}")), n));
            let halves = halves.map(|(part, n)| (at(&format!("mlp.{part}")), n));
            for (fused, parts) in [("self_attn.qkv_proj", &heads[..]), ("mlp.gate_up_proj", &halves)] {
                if let Some(part) = cut(index, &at(fused), parts) {
                    let (path, reason) =
                        (path.display().to_string(), format!("stands beside `{}`", at(fused)));
                    return Err(Error::Tensor { path, name: part, reason });
                }
            }
        }
    }
    Ok(())
}

/// Returns the name of a part that the file has by itself, too.
fn cut(index: &mut BTreeMap<String, Entry>, name: &str, parts: &[(String, usize)]) -> Option<String> {
    let n_rows: usize = parts.iter().map(|(_, n)| n).sum();
    let entry = index.get(name).filter(|entry| entry.shape.first() == Some(&n_rows))?.clone();
    index.remove(name);
    let mut first = 0;
    for (part, n) in parts {
        if index.insert(part.clone(), rows(&entry, first..first + n)).is_some() {
            return Some(part.clone());
        }
        first += n;
    }
    None
}

/// Neighbouring rows of a tensor.
fn rows(entry: &Entry, rows: Range<usize>) -> Entry {
    let n_rows = entry.shape[0];
    let mut shape = entry.shape.clone();
    shape[0] = rows.len();
    if matches!(entry.source, Source::Plain) && entry.rows.is_none() {
        let row_bytes = (entry.end - entry.start) / n_rows;
        let (start, end) = (entry.start + rows.start * row_bytes, entry.start + rows.end * row_bytes);
        return Entry { start, end, shape, ..entry.clone() };
    }
    Entry { shape, rows: Some(Turns::one(n_rows, rows)), ..entry.clone() }
}

/// Marks queries and keys, and norms of each of their heads, as heads in which the two values of a rotated
/// pair are neighbours.
pub(super) fn mark_neighbours(config: &Config, index: &mut BTreeMap<String, Entry>) {
    for layer in 0..config.n_layers {
        let attention = config.attention_of(layer);
        let (head_dim, rotary_dim) = (attention.head_dim, attention.rotary_dim);
        for part in
            ["q_proj.weight", "k_proj.weight", "q_proj.bias", "k_proj.bias", "q_norm.weight", "k_norm.weight"]
        {
            let Some(entry) = index.get_mut(&format!("model.layers.{layer}.self_attn.{part}")) else {
                continue;
            };
            if part.contains("norm") {
                entry.shape = vec![entry.shape.iter().product()];
            }
            if entry.shape.first().is_some_and(|n| n.is_multiple_of(head_dim)) {
                let inner = Box::new(entry.source.clone());
                entry.source = Source::Neighbours { inner, head_dim, rotary_dim };
            }
        }
    }
}

/// Gives numbers without a dimension (the parameters of xIELU) one.
pub(super) fn lengthen_scalars(index: &mut BTreeMap<String, Entry>) {
    for entry in index.values_mut().filter(|entry| entry.shape.is_empty()) {
        entry.shape.push(1);
    }
}
