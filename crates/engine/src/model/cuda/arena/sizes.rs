//! The sizes of a model that decide what it needs beside its weights, from its configuration or from a card. It
//! allocates nothing.

use super::super::{
    quant_layout::STRIP,
    work_tiles::{self, Heads},
};
use crate::model::{Config, config::Attention};

/// The most memory for attention split by split.
const SPLIT_BYTES: usize = 256 << 20;
/// The most bf16 matrices that a router is the sum of: three have the bits of f32.
pub(in crate::model::cuda) const ROUTER_PARTS: usize = 3;

/// The sizes of a model that decide what it needs beside its weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Layers that have keys and values.
    pub n_attention_layers: usize,
    pub hidden: usize,
    pub intermediate: usize,
    pub n_heads: usize,
    pub n_kv_heads: usize,
    pub head_dim: usize,
    pub vocab: usize,
    /// Positions that the model was made for.
    pub context: usize,
    /// `None` where all feed-forward halves are dense.
    pub experts: Option<ExpertSizes>,
    /// `None` where all layers attend.
    pub delta_net: Option<DeltaNetSizes>,
    /// Whether each head of attention has a gate.
    pub gated_attention: bool,
}

/// The sizes of a layer's experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertSizes {
    /// Those that a router chooses from.
    pub n: usize,
    /// Those that a row takes.
    pub top_k: usize,
    /// Columns between the two products of an expert, and of the shared expert; 0 without one.
    pub width: usize,
    pub shared_width: usize,
}

/// The sizes of Gated DeltaNet layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaNetSizes {
    /// Queries, keys and values of all heads.
    pub channels: usize,
    pub n_value_heads: usize,
    /// Values of all heads.
    pub values: usize,
    /// Bytes of one sequence's state in all layers.
    pub state_bytes: usize,
    /// Key heads that cards share out ([`crate::model::cuda::SharedHeads`]).
    pub shared_key_heads: usize,
}

impl DeltaNetSizes {
    /// Outputs of the projections: channels, gates of the outputs, and two gates of each value head.
    pub(in crate::model::cuda) fn projected(self) -> usize {
        self.channels + self.values + 2 * self.n_value_heads
    }

    /// Values of a row of `mixed` in `kernels/delta_net.cu`.
    pub(in crate::model::cuda) fn mixed(self) -> usize {
        (self.channels + 2 * self.n_value_heads).next_multiple_of(4)
    }

    /// The weights of the projections that have a product of their own: rows of each.
    pub(super) fn products(self) -> [usize; 2] {
        let n = self.n_value_heads;
        // Gates that are not whole strips are matrices of their own.
        if n.is_multiple_of(STRIP) { [self.projected(), 0] } else { [self.projected() - n, n] }
    }
}

impl From<&Config> for Sizes {
    fn from(config: &Config) -> Self {
        let Config { hidden, n_heads, vocab, context, .. } = *config;
        let Attention { n_kv_heads, head_dim, .. } = config.full;
        let intermediate = config.dense_width();
        let experts = config.experts.as_ref().map(|experts| ExpertSizes {
            n: experts.n,
            top_k: experts.routing.top_k,
            width: experts.width,
            shared_width: experts.shared.map_or(0, |shared| shared.width),
        });
        let delta_net = config.delta_net.as_ref().map(|delta_net| DeltaNetSizes {
            channels: delta_net.channels(),
            n_value_heads: delta_net.n_value_heads,
            values: delta_net.widths()[2],
            state_bytes: config.state_bytes(),
            shared_key_heads: if delta_net.is_tiled { 1 } else { delta_net.n_key_heads },
        });
        Self {
            n_attention_layers: config.n_attention_layers(),
            hidden,
            intermediate,
            n_heads,
            n_kv_heads,
            head_dim,
            vocab,
            context,
            experts,
            delta_net,
            gated_attention: config.gated_attention,
        }
    }
}

impl Sizes {
    pub(super) fn query_width(self) -> usize {
        self.n_heads * self.head_dim
    }

    pub(super) fn qkv_width(self) -> usize {
        self.query_width() + 2 * self.n_kv_heads * self.head_dim + self.gates()
    }

    /// Gates of the attended values of a row.
    pub(super) fn gates(self) -> usize {
        if self.gated_attention { self.query_width() } else { 0 }
    }

    pub(super) fn heads(self) -> Heads {
        Heads { n_heads: self.n_heads, n_kv_heads: self.n_kv_heads, head_dim: self.head_dim }
    }

    /// The most KV splits of attention in a step.
    pub(in crate::model::cuda) fn most_splits(self) -> usize {
        SPLIT_BYTES / work_tiles::split_bytes(self.heads())
    }

    /// Values of a row in the widest product but that of the logits.
    pub(super) fn widest_product(self) -> usize {
        let of_experts =
            self.experts.map_or(0, |experts| (ROUTER_PARTS * (experts.n + 1)).max(2 * experts.shared_width));
        let of_delta_net = self.delta_net.map_or(0, DeltaNetSizes::projected);
        self.qkv_width().max(2 * self.intermediate).max(self.hidden).max(of_experts).max(of_delta_net)
    }

    /// Pairs of row and expert.
    pub(super) fn pairs(self, rows: usize) -> usize {
        rows * self.experts.map_or(0, |experts| experts.top_k)
    }

    /// Rows of logits that take no more memory than the widest product of so many rows.
    #[must_use]
    pub fn logits_of(self, rows: usize) -> usize {
        rows * self.qkv_width().max(2 * self.intermediate) / self.vocab.max(1)
    }
}
