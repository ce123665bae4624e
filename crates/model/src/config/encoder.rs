//! A bidirectional encoder (XLM-R, BERT): its differences from a decoder, and the names of its tensors
//! outside of layers. It computes nothing.

use super::norms::LayerNorms;

/// An encoder's differences from a decoder: every token attends to all of its text, positions are learned,
/// norms have biases, and the feed-forward half is `down(gelu(up x))` without a gate. [`LayerNorms::Behind`]
/// is a norm behind each half and behind the embeddings, [`LayerNorms::Before`] one before each half and a
/// last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderConfig {
    /// The row of the table of positions for a text's first token: in XLM-R the one behind that of the
    /// padding token.
    pub first_position: usize,
    /// Rows of the table of token types; every token has the first type.
    pub n_types: usize,
}

impl EncoderConfig {
    /// Shape: `[context + first_position, hidden]`.
    pub const POSITIONS: &str = "model.embed_positions.weight";
    /// Shape: `[n_types, hidden]`.
    pub const TYPES: &str = "model.embed_types.weight";

    /// The token that has a position of its own wherever it is, since it fills up the texts of a batch.
    pub fn padding(self) -> Option<u32> {
        self.first_position.checked_sub(1).and_then(|id| u32::try_from(id).ok())
    }

    /// The name of the norm outside of layers: behind the embeddings, or behind the last layer.
    pub fn outer_norm(norms: LayerNorms) -> &'static str {
        if norms == LayerNorms::Behind { "model.embed_norm" } else { "model.norm" }
    }
}
