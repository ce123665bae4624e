//! Matrices that hybrids of DeltaNet and attention store in one tensor, by names of their own.
//!
//! The query projection of gated attention has, head after head, rows of queries and rows of the gate.
//! Qwen3-Next has, key head after key head, rows of queries, keys, values and their gates in one tensor, and
//! the two small projections in another.

use std::collections::BTreeMap;

use super::{Entry, Turns};
use crate::{Config, config::DeltaNet};

/// Replaces each such tensor by the matrices in it. A tensor that cannot be cut stays, and the matrices are
/// missing.
pub(super) fn split(config: &Config, index: &mut BTreeMap<String, Entry>) {
    let Some(delta) = &config.delta_net else { return };
    for layer in 0..config.n_layers {
        // GGUF files have it as a vector.
        let name = format!("model.layers.{layer}.mlp.shared_expert_gate.weight");
        if let Some(gate) = index.get_mut(&name).filter(|gate| gate.shape.len() == 1) {
            gate.shape.insert(0, 1);
        }
        if config.delta_net_of(layer).is_some() {
            let at = |part: &str| format!("model.layers.{layer}.linear_attn.{part}.weight");
            convolution(index.get_mut(&at("conv1d")));
            let [qkvz, ba] = of_key_heads(delta);
            cut(index, &at("in_proj_qkvz"), qkvz.map(|(part, turns)| (at(part), turns)));
            cut(index, &at("in_proj_ba"), ba.map(|(part, turns)| (at(part), turns)));
        } else if config.gated_attention {
            let d = config.attention_of(layer).head_dim;
            for kind in ["weight", "bias"] {
                let at = |part: &str| format!("model.layers.{layer}.self_attn.{part}.{kind}");
                cut(
                    index,
                    &at("q_proj"),
                    [(at("q_proj"), Turns::one(2 * d, 0..d)), (at("gate_proj"), Turns::one(2 * d, d..2 * d))],
                );
            }
        }
    }
}

/// The projections of Qwen3-Next: rows of each key head.
fn of_key_heads(delta: &DeltaNet) -> [[(&'static str, Turns); 2]; 2] {
    let (keys, each) = (delta.key_dim, delta.n_value_heads / delta.n_key_heads);
    let values = each * delta.value_dim;
    let (z, all) = (2 * keys + values, 2 * (keys + values));
    let qkv = Turns { period: all, ranges: vec![0..keys, keys..2 * keys, 2 * keys..z] };
    [
        [("in_proj_qkv", qkv), ("in_proj_z", Turns::one(all, z..all))],
        [("in_proj_b", Turns::one(2 * each, 0..each)), ("in_proj_a", Turns::one(2 * each, each..2 * each))],
    ]
}

fn cut(index: &mut BTreeMap<String, Entry>, name: &str, parts: [(String, Turns); 2]) {
    let Some(entry) = index.get(name).filter(|entry| entry.rows.is_none()) else { return };
    let n = entry.shape.first().copied().unwrap_or(0);
    if n == 0 || !n.is_multiple_of(parts[0].1.period) {
        return;
    }
    let parts = parts.map(|(part, turns)| {
        let mut shape = entry.shape.clone();
        shape[0] = turns.n_rows(n);
        (part, Entry { shape, rows: Some(turns), ..entry.clone() })
    });
    index.remove(name);
    index.extend(parts);
}

/// `[channels, 1, taps]` as `[channels, taps]`.
fn convolution(entry: Option<&mut Entry>) {
    if let Some(entry) = entry
        && let [channels, 1, taps] = entry.shape[..]
    {
        entry.shape = vec![channels, taps];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_taken_in_turns() {
        let bytes: Vec<u8> = (0..24).collect();
        let turns = Turns { period: 6, ranges: vec![0..1, 3..5] };
        assert_eq!(turns.n_rows(12), 6);
        assert_eq!(turns.of(&bytes, 2), [0, 1, 12, 13, 6, 7, 8, 9, 18, 19, 20, 21]);
    }

    #[test]
    fn tensors_of_qwen3_next_are_cut_by_key_heads() {
        let layers = vec![true, false];
        let delta = DeltaNet {
            n_key_heads: 2,
            n_value_heads: 4,
            key_dim: 16,
            value_dim: 32,
            conv: 4,
            layers,
            is_tiled: false,
        };
        let [[(_, qkv), (_, z)], [(_, b), (_, a)]] = of_key_heads(&delta);
        assert_eq!((qkv.period, qkv.ranges), (160, vec![0..16, 16..32, 32..96]));
        assert_eq!(z, Turns::one(160, 96..160));
        assert_eq!((b, a), (Turns::one(4, 0..2), Turns::one(4, 2..4)));
    }
}
