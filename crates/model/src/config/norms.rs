//! The norms of a decoder's layers: their places, and the values that those of queries and keys are over. It
//! computes nothing.

/// The places of norms in a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LayerNorms {
    /// Before each half.
    #[default]
    Before,
    /// Before and behind each half (Gemma, GLM-4).
    Around,
    /// Behind each half (OLMo 2, EXAONE 4).
    Behind,
    /// One before both halves, which are side by side: both outputs are added to the layer's input (Cohere).
    Shared,
}

impl LayerNorms {
    /// The names of a layer's norms in a checkpoint: before and behind attention, before and behind the
    /// feed-forward half.
    pub(crate) fn names(self) -> [Option<&'static str>; 4] {
        let [input, attention] = ["input_layernorm", "post_attention_layernorm"].map(Some);
        let [before, behind] = ["pre_feedforward_layernorm", "post_feedforward_layernorm"].map(Some);
        match self {
            Self::Before => [input, None, attention, None],
            Self::Around => [input, attention, before, behind],
            Self::Behind => [None, attention, None, behind],
            Self::Shared => [input, None, None, None],
        }
    }
}

/// The norms of queries and keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QkNorm {
    #[default]
    None,
    /// Of each head, with weights that all heads share (Qwen3, Gemma 3).
    Heads,
    /// Of each head, with weights of its own (Command R+).
    EachHead,
    /// Of all heads together (OLMo 2).
    Projection,
}

impl QkNorm {
    /// Those of a family whose files say whether heads have norms.
    pub(crate) fn of_heads(are_normed: bool) -> Self {
        if are_normed { Self::Heads } else { Self::None }
    }

    /// Number of weights for so many heads.
    pub(crate) fn n_weights(self, n_heads: usize, head_dim: usize) -> usize {
        match self {
            Self::None => 0,
            Self::Heads => head_dim,
            Self::EachHead | Self::Projection => n_heads * head_dim,
        }
    }

    /// Values that one norm spans; `None` if the heads share one norm or have none.
    pub fn group(self, n_heads: usize, head_dim: usize) -> Option<usize> {
        match self {
            Self::None | Self::Heads => None,
            Self::EachHead => Some(head_dim),
            Self::Projection => Some(n_heads * head_dim),
        }
    }
}
