//! The sizes of a model as its card states them, and the counts derived from them.

use serde::Deserialize;

/// Sizes of a model, from its `config.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    pub layers: usize,
    pub hidden: usize,
    pub intermediate: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub vocab: usize,
    /// `None` where all feed-forward halves are dense.
    pub experts: Option<ShapeExperts>,
    /// `None` where all layers have attention.
    pub delta_net: Option<ShapeDeltaNet>,
    /// The layers that attend to all positions, where the heads of the others have another size; `None` where
    /// all are alike.
    pub full_attention: Option<ShapeFullAttention>,
}

impl Shape {
    /// Weights of the token mixers and the feed-forward halves of all layers, of which each expert counts
    /// `experts` times.
    fn weights_of_layers(&self, n_experts: impl Fn(ShapeExperts) -> usize) -> usize {
        let Self { layers, hidden, intermediate, heads, kv_heads, head_dim, .. } = *self;
        let gates = if self.delta_net.is_some() { heads } else { 0 };
        let attention = hidden * (2 * heads + gates + 2 * kv_heads) * head_dim;
        let of_delta_net = self.delta_net.map_or(0, |d| {
            let (keys, values) = (d.key_heads * d.key_dim, d.value_heads * d.value_dim);
            hidden * (2 * keys + 3 * values + 2 * d.value_heads)
        });
        let recurrent_layers = self.delta_net.map_or(0, |delta_net| delta_net.layers);
        // Where keys are values, one matrix is both.
        let of_full =
            self.full_attention.map_or(0, |full| hidden * (2 * heads + full.kv_heads) * full.head_dim);
        let full_layers = self.full_attention.map_or(0, |full| full.layers);
        let mixers = (layers - recurrent_layers - full_layers) * attention
            + recurrent_layers * of_delta_net
            + full_layers * of_full;
        let dense_layers = self.experts.map_or(layers, |experts| experts.dense_layers);
        let of_experts =
            self.experts.map_or(0, |e| (layers - dense_layers) * (n_experts(e) * e.width + e.shared_width));
        mixers + 3 * hidden * (dense_layers * intermediate + of_experts)
    }

    /// All weights of the layers.
    pub fn layer_weights(&self) -> usize {
        self.weights_of_layers(|experts| experts.count)
    }

    /// The weights that a token is multiplied with, the output matrix among them.
    pub fn weights_of_token(&self) -> usize {
        self.weights_of_layers(|experts| experts.per_token) + self.vocab * self.hidden
    }
}

/// The layers of full attention of a model whose other layers have a sliding window and other heads (Gemma
/// 4). Their keys are also their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShapeFullAttention {
    /// Number of `layers` with full attention.
    pub layers: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
}

/// Sizes of the experts of a model's layers, from its `config.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShapeExperts {
    /// Experts of a layer.
    pub count: usize,
    pub per_token: usize,
    /// Columns between the two products of an expert.
    pub width: usize,
    /// Columns between the two products of the shared expert, or of the dense half beside the experts (Gemma
    /// 4); 0 without one.
    #[serde(default)]
    pub shared_width: usize,
    /// Layers without experts.
    #[serde(default)]
    pub dense_layers: usize,
}

/// Sizes of the Gated DeltaNet layers of a model whose attention is gated, from its `config.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShapeDeltaNet {
    /// Number of `layers` without attention.
    pub layers: usize,
    pub key_heads: usize,
    pub value_heads: usize,
    pub key_dim: usize,
    pub value_dim: usize,
    /// Tokens that the convolution sees.
    pub conv: usize,
}
