//! Gated DeltaNet instead of attention: number and width of its heads, and its layers. It computes nothing.

use super::Config;
use crate::{Error, Result};

/// Values of a head are a multiple of this, the lanes of a vector.
const UNIT: usize = 16;

/// The most inputs that a convolution takes.
const MAX_CONV: usize = 16;

/// Layers whose token mixer keeps a recurrent state instead of keys and values.
///
/// For each value head the state `S` is a matrix `[key_dim, value_dim]`. A token decays it, corrects the
/// value stored for the token's key, and reads it with the token's query:
///
/// ```text
/// S = g S;  S = S + k (beta (v - S^T k))^T;  out = S^T q
/// ```
///
/// Source: Yang, Kautz and Hatamizadeh (2025), Gated Delta Networks, equation 10.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeltaNet {
    /// Heads of queries and of keys.
    pub n_key_heads: usize,
    /// A multiple of the key heads.
    pub n_value_heads: usize,
    /// Values of one head of queries or keys.
    pub key_dim: usize,
    pub value_dim: usize,
    /// Tokens that the causal convolution of queries, keys and values sees, its own included.
    pub conv: usize,
    /// For each layer, true if it has Gated DeltaNet.
    pub layers: Vec<bool>,
    /// Value head `h` takes key head `h mod n_key_heads` (GGUF files of Qwen3.5), not
    /// `h / (n_value_heads / n_key_heads)`.
    pub is_tiled: bool,
}

impl DeltaNet {
    /// Width of the queries, of the keys, and of the values of a token.
    pub fn widths(&self) -> [usize; 3] {
        let keys = self.n_key_heads * self.key_dim;
        [keys, keys, self.n_value_heads * self.value_dim]
    }

    /// Channels of the convolution: queries, keys and values.
    pub fn channels(&self) -> usize {
        self.widths().iter().sum()
    }

    /// The key head that a value head takes.
    pub fn key_head(&self, value_head: usize) -> usize {
        if self.is_tiled {
            value_head % self.n_key_heads
        } else {
            value_head / (self.n_value_heads / self.n_key_heads)
        }
    }

    /// Numbers of one layer's state: inputs of the convolution, then a matrix for each value head.
    pub fn state(&self) -> usize {
        (self.conv - 1) * self.channels() + self.n_value_heads * self.key_dim * self.value_dim
    }

    pub fn n_layers(&self) -> usize {
        self.layers.iter().filter(|is| **is).count()
    }
}

impl Config {
    /// The DeltaNet of a layer; `None` where it has attention.
    pub fn delta_net_of(&self, layer: usize) -> Option<&DeltaNet> {
        self.delta_net.as_ref().filter(|delta| delta.layers.get(layer) == Some(&true))
    }

    /// Layers that have keys and values.
    pub fn n_attention_layers(&self) -> usize {
        self.n_layers - self.delta_net.as_ref().map_or(0, DeltaNet::n_layers)
    }

    /// Bytes of one sequence's recurrent state in all layers, f32; 0 for a model of attention alone.
    pub fn state_bytes(&self) -> usize {
        self.delta_net.as_ref().map_or(0, |delta| delta.n_layers() * delta.state() * size_of::<f32>())
    }
}

/// Rejects sizes that no checkpoint has. Readers have checked that value heads are a multiple of key heads.
pub(super) fn check(path: &str, config: &Config) -> Result<()> {
    let Some(delta) = &config.delta_net else { return Ok(()) };
    let bad = |key: &str, reason: String| Err(Error::Config { path: path.into(), key: key.into(), reason });
    for (key, size, most) in [
        ("number of key heads of its linear attention", delta.n_key_heads, 1 << 12),
        ("number of value heads of its linear attention", delta.n_value_heads, 1 << 12),
        ("key head size of its linear attention", delta.key_dim, 1 << 12),
        ("value head size of its linear attention", delta.value_dim, 1 << 12),
    ] {
        if size == 0 || size > most {
            return bad(key, format!("is {size}; a number from 1 to {most} was expected"));
        }
    }
    if !(2..=MAX_CONV).contains(&delta.conv) {
        let reason = format!("is {}; a number from 2 to {MAX_CONV} was expected", delta.conv);
        return bad("size of the convolution of its linear attention", reason);
    }
    for (key, size) in [
        ("key head size of its linear attention", delta.key_dim),
        ("value head size of its linear attention", delta.value_dim),
    ] {
        if !size.is_multiple_of(UNIT) {
            return bad(key, format!("is {size}, not a multiple of {UNIT}"));
        }
    }
    if delta.layers.last() == Some(&true) {
        return bad(
            "layer types",
            "end in linear attention; a last layer of full attention is supported".into(),
        );
    }
    Ok(())
}
