//! The sizes of a model that determine its memory beside its weights, from its configuration or from a card.
//! It allocates nothing.

use super::super::{quant_layout::STRIP, work_tiles};
use tribunal_model::{
    Config,
    config::{Attention, AttentionKind, QkNorm},
};

/// The most memory for attention split by split.
const SPLIT_BYTES: usize = 256 << 20;
/// The most bf16 matrices that a router is the sum of: three have the bits of f32.
pub(crate) const ROUTER_PARTS: usize = 3;

/// The sizes of a model that determine its memory beside its weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub hidden: usize,
    pub intermediate: usize,
    /// Heads of queries.
    pub n_heads: usize,
    /// Layers that see all keys.
    pub full: AttentionSizes,
    /// Layers with a window; `None` where there are none.
    pub sliding: Option<AttentionSizes>,
    pub vocab: usize,
    /// Positions that the model supports.
    pub context: usize,
    /// `None` where all feed-forward halves are dense.
    pub experts: Option<ExpertSizes>,
    /// `None` where all layers attend.
    pub delta_net: Option<DeltaNetSizes>,
    /// True if each head of attention has a gate.
    pub gated_attention: bool,
    /// The reason why one card has all heads, a clause about them.
    pub on_one_card: Option<&'static str>,
}

/// The sizes of the layers with one kind of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionSizes {
    pub n_layers: usize,
    pub n_kv_heads: usize,
    pub head_dim: usize,
    /// Values of a head that are rotated by angles of this kind's own; 0 where the other kind's are equal.
    pub rotary_dim: usize,
    /// Parts of a layer's cache: keys and values, or compressed rows.
    pub cached_parts: usize,
}

impl AttentionSizes {
    /// Numbers that one token adds to the cache.
    pub fn cached(self) -> usize {
        self.cached_parts * self.n_layers * self.kv_width()
    }

    fn kv_width(self) -> usize {
        self.n_kv_heads * self.head_dim
    }
}

/// The sizes of a layer's experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertSizes {
    /// Number of experts for the router to choose from.
    pub n: usize,
    /// Number of experts of a row.
    pub top_k: usize,
    /// Columns between the two products of an expert, and of the shared expert; 0 without one.
    pub width: usize,
    pub shared_width: usize,
    /// True if they are beside a dense half, whose output waits for theirs.
    pub beside_dense: bool,
}

impl ExpertSizes {
    /// The sizes of a layer without experts.
    pub(super) const NONE: Self = Self { n: 0, top_k: 0, width: 0, shared_width: 0, beside_dense: false };
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
    /// Key heads that cards divide among them ([`crate::SharedHeads`]).
    pub shared_key_heads: usize,
}

impl DeltaNetSizes {
    /// Outputs of the projections: channels, gates of the outputs, and two gates of each value head.
    pub(crate) fn projected(self) -> usize {
        self.channels + self.values + 2 * self.n_value_heads
    }

    /// Values of a row of `mixed` in `kernels/delta_net.cu`.
    pub(crate) fn mixed(self) -> usize {
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
        let intermediate = config.dense_width();
        let experts = config.experts.as_ref().map(|experts| ExpertSizes {
            n: experts.n,
            top_k: experts.routing.top_k,
            width: experts.width,
            shared_width: experts.shared.map_or(0, |shared| shared.width),
            beside_dense: experts.beside_dense,
        });
        let delta_net = config.delta_net.as_ref().map(|delta_net| DeltaNetSizes {
            channels: delta_net.channels(),
            n_value_heads: delta_net.n_value_heads,
            values: delta_net.widths()[2],
            state_bytes: config.state_bytes(),
            shared_key_heads: if delta_net.is_tiled { 1 } else { delta_net.n_key_heads },
        });
        Self {
            hidden,
            intermediate,
            n_heads,
            full: attention(config, AttentionKind::Full),
            sliding: config.sliding.as_ref().map(|_| attention(config, AttentionKind::Sliding)),
            vocab,
            context,
            experts,
            delta_net,
            gated_attention: config.gated_attention,
            on_one_card: match config.qk_norm {
                QkNorm::EachHead | QkNorm::Projection => Some("whose norms span all heads"),
                _ if config.encoder.is_some() => Some("which is an encoder"),
                _ => None,
            },
        }
    }
}

/// The layers of one kind. The two kinds share equal tables of angles.
fn attention(config: &Config, kind: AttentionKind) -> AttentionSizes {
    let attention = config.attention(kind);
    let &Attention { n_kv_heads, head_dim, rotary_dim, .. } = attention;
    let is_shared = kind == AttentionKind::Sliding && !config.has_sliding_angles();
    AttentionSizes {
        n_layers: config.n_layers_of(kind),
        n_kv_heads,
        head_dim,
        rotary_dim: if is_shared { 0 } else { rotary_dim },
        cached_parts: attention.cached_parts(),
    }
}

impl Sizes {
    /// Both kinds of attention, or the only one.
    pub fn attentions(self) -> impl Iterator<Item = AttentionSizes> {
        std::iter::once(self.full).chain(self.sliding)
    }

    /// Numbers that one token adds to the cache.
    pub fn cached(self) -> usize {
        self.attentions().map(AttentionSizes::cached).sum()
    }

    /// The widest queries of a row.
    pub fn query_width(self) -> usize {
        self.n_heads * self.widest_head()
    }

    fn widest_head(self) -> usize {
        self.attentions().map(|attention| attention.head_dim).max().unwrap_or(0)
    }

    /// Outputs of the widest fused projection of queries, keys and values.
    pub(super) fn qkv_width(self) -> usize {
        self.attentions().map(|attention| self.qkv_width_of(attention)).max().unwrap_or(0)
    }

    pub(super) fn qkv_width_of(self, attention: AttentionSizes) -> usize {
        let gates = if self.gated_attention { self.n_heads * attention.head_dim } else { 0 };
        self.n_heads * attention.head_dim + 2 * attention.kv_width() + gates
    }

    /// Gates of the attended values of a row.
    pub(super) fn gates(self) -> usize {
        if self.gated_attention { self.query_width() } else { 0 }
    }

    /// The most KV splits of attention in a step.
    pub(crate) fn most_splits(self) -> usize {
        SPLIT_BYTES / work_tiles::split_bytes(self.n_heads, self.widest_head())
    }

    /// Values of a row in the widest product except that of the logits.
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
    pub fn logits_of(self, rows: usize) -> usize {
        rows * self.qkv_width().max(2 * self.intermediate) / self.vocab.max(1)
    }
}
