//! The matrices of latent attention's heads: GGUF files store some as a stack, one for each head.

use std::collections::BTreeMap;

use super::Entry;

/// Endings of their names: from queries to the compressed row, and from the compressed row to outputs.
pub(super) const PARTS: [&str; 2] = [".self_attn.k_b_proj.weight", ".self_attn.v_b_proj.weight"];

/// Each stack `[heads, n, k]` as one matrix `[heads n, k]`.
pub(super) fn columns(index: &mut BTreeMap<String, Entry>) {
    for (_, entry) in index.iter_mut().filter(|(name, _)| PARTS.iter().any(|part| name.ends_with(part))) {
        if let [heads, n, k] = entry.shape[..] {
            entry.shape = vec![heads * n, k];
        }
    }
}
