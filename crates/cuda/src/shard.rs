//! Tensor-parallel shards: each card's part of the model. Every matrix is cut by its outputs, queries, keys
//! and values by heads, so that each sum of a product is one card's from its first value to its last. Only
//! arithmetic is here.
//!
//! Source: Shoeybi et al. (2019), Megatron-LM, section 3, for cutting by heads and by the feed-forward's
//! columns. It cuts the second matrix of each half by inputs and adds the cards' partial sums; here it is cut
//! by outputs too, since such a sum's bits would follow the number of cards.

use std::ops::Range;

use super::{
    arena::{ShardBuffers, Sizes},
    quant_layout::STRIP,
};
use tribunal_model::{
    Config,
    backend::{Cut, Matrices},
    config::{Attention, DeltaNet, Experts, SharedExpert},
};

/// The most cards of one model: `kernels/gather.cu` takes so many pieces.
pub const MOST_CARDS: usize = 8;

/// One card's shard of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shard {
    pub card: usize,
    pub n_cards: usize,
}

/// Neighbouring outputs of a matrix that a card computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub outputs: Range<usize>,
    /// Number of outputs on all cards.
    pub whole: usize,
}

impl Section {
    /// A range of as many outputs as some sections have together, from the first section's start on.
    pub(super) fn hull(sections: &[Self]) -> Range<usize> {
        let first = sections.first().map_or(0, |section| section.outputs.start);
        first..first + sections.iter().map(|section| section.outputs.len()).sum::<usize>()
    }
}

impl Shard {
    /// A card that has the whole model.
    pub(super) const WHOLE: Self = Self { card: 0, n_cards: 1 };

    /// The outputs that this card computes of a matrix with `n`. `unit` of them stay together (a head), or 1:
    /// then cards get whole strips of 16, as evenly as possible. With fewer units than cards, neighbours have
    /// the same one.
    pub(super) fn outputs(self, n: usize, unit: usize) -> Range<usize> {
        let Self { card, n_cards } = self;
        if unit == 1 {
            let strips = n.div_ceil(STRIP);
            let border = |card: usize| (strips * card / n_cards * STRIP).min(n);
            return border(card)..border(card + 1);
        }
        let first = n / unit * card / n_cards;
        first * unit..(first + (n / unit / n_cards).max(1)) * unit
    }

    /// The outputs that this card computes of each of some matrices. `own` are the heads of its layers of
    /// Gated DeltaNet.
    pub(super) fn sections(self, matrices: Matrices<'_>, net: Option<&DeltaNet>) -> Vec<Vec<Section>> {
        if let (Cut::DeltaNet, Some(net)) = (matrices.cut, net)
            && self.n_cards > 1
        {
            let of_gates = vec![self.heads(0, net, net.n_value_heads / net.n_key_heads)];
            return vec![self.channels(net).to_vec(), vec![self.values(0, net)], of_gates.clone(), of_gates];
        }
        let unit = if let Cut::Heads(outputs) = matrices.cut { outputs } else { 1 };
        let section = |n| Section { outputs: self.outputs(n, unit), whole: n };
        matrices.parts.iter().map(|part| vec![section(part.1)]).collect()
    }

    /// This card's channels of the convolution in a layer of Gated DeltaNet: queries, keys, values.
    pub(super) fn channels(self, net: &DeltaNet) -> [Section; 3] {
        let keys = net.n_key_heads * self.n_cards * net.key_dim;
        [self.heads(0, net, net.key_dim), self.heads(keys, net, net.key_dim), self.values(2 * keys, net)]
    }

    /// Its value heads, as so many numbers from `first` on.
    pub(super) fn value_heads(self, net: &DeltaNet) -> Range<usize> {
        self.heads(0, net, net.n_value_heads / net.n_key_heads).outputs
    }

    fn values(self, first: usize, net: &DeltaNet) -> Section {
        self.heads(first, net, net.n_value_heads / net.n_key_heads * net.value_dim)
    }

    /// Outputs from `first` on, so many of each key head.
    fn heads(self, first: usize, net: &DeltaNet, outputs: usize) -> Section {
        let of_card = net.n_key_heads * outputs;
        let start = first + self.card * of_card;
        Section { outputs: start..start + of_card, whole: self.n_cards * of_card }
    }

    /// The buffers that this card needs beside those of its shard; `None` for a card that has the whole
    /// model.
    pub(super) fn buffers(self, config: &Config) -> Option<ShardBuffers> {
        (self.n_cards > 1).then(|| ShardBuffers {
            widest: Sizes::from(config)
                .query_width()
                .max(config.dense_width())
                .max(config.delta_net.as_ref().map_or(0, |delta_net| delta_net.widths()[2]))
                .max(config.experts.as_ref().map_or(0, widest_of_experts)),
            own_hidden: self.outputs(config.hidden, 1).len(),
            own_logits: self.outputs(config.vocab, 1).len(),
            all_logits: if self.card == 0 { config.vocab } else { 0 },
        })
    }

    fn attention(self, attention: &Attention) -> Attention {
        Attention { n_kv_heads: (attention.n_kv_heads / self.n_cards).max(1), ..attention.clone() }
    }

    /// The configuration of this card's part of the model: its heads, and its columns between the two
    /// feed-forward products.
    pub(super) fn config(self, config: &Config) -> Config {
        Config {
            n_heads: config.n_heads / self.n_cards,
            full: self.attention(&config.full),
            sliding: config.sliding.as_ref().map(|sliding| self.attention(sliding)),
            intermediate: self.outputs(config.intermediate, 1).len(),
            experts: config.experts.as_ref().map(|experts| Experts {
                width: self.outputs(experts.width, 1).len(),
                shared: experts
                    .shared
                    .map(|shared| SharedExpert { width: self.outputs(shared.width, 1).len(), ..shared }),
                ..experts.clone()
            }),
            delta_net: config.delta_net.as_ref().map(|delta_net| DeltaNet {
                n_key_heads: delta_net.n_key_heads / self.n_cards,
                n_value_heads: delta_net.n_value_heads / self.n_cards,
                ..delta_net.clone()
            }),
            ..config.clone()
        }
    }
}

/// Columns that are gathered between the two products of a row's experts, or of the shared one.
fn widest_of_experts(experts: &Experts) -> usize {
    (experts.routing.top_k * experts.width).max(experts.shared.map_or(0, |shared| shared.width))
}

/// The heads of a model that cards divide among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedHeads {
    pub n_heads: usize,
    pub n_kv_heads: usize,
    /// Heads of layers with a window, where they differ.
    pub n_sliding_kv_heads: Option<usize>,
    /// Key heads of DeltaNet layers, each with neighbouring value heads: 1 where value heads are tiled, so
    /// that those of a key head are not neighbours. `None` of a model without such layers.
    pub n_key_heads: Option<usize>,
    /// The reason why one card has all of them, a clause.
    pub on_one_card: Option<&'static str>,
}

impl From<Sizes> for SharedHeads {
    fn from(sizes: Sizes) -> Self {
        let n_key_heads = sizes.delta_net.map(|delta_net| delta_net.shared_key_heads);
        let n_kv_heads = sizes.full.n_kv_heads;
        let of_sliding = sizes.sliding.map(|sliding| sliding.n_kv_heads);
        Self {
            n_heads: sizes.n_heads,
            n_kv_heads,
            n_sliding_kv_heads: of_sliding.filter(|n| *n != n_kv_heads),
            n_key_heads,
            on_one_card: sizes.on_one_card,
        }
    }
}

impl std::fmt::Display for SharedHeads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} heads, {} of keys and values", self.n_heads, self.n_kv_heads)?;
        if let Some(n) = self.n_sliding_kv_heads {
            write!(f, " ({n} in layers with a window)")?;
        }
        if let Some(why) = self.on_one_card {
            write!(f, ", {why}")?;
        }
        match self.n_key_heads {
            None => Ok(()),
            Some(1) => f.write_str(", and DeltaNet heads that one GPU has together"),
            Some(n) => write!(f, ", and {n} key heads of DeltaNet"),
        }
    }
}

impl SharedHeads {
    /// The numbers of cards that a model with these heads can be sharded over: those that divide its heads
    /// and its key heads of DeltaNet, and of its heads of keys and values either divide the number or are
    /// divided by it. In the second case several cards have the same ones.
    pub fn possible_cards(self) -> Vec<usize> {
        let Self { n_heads, n_kv_heads, n_sliding_kv_heads, n_key_heads, on_one_card } = self;
        if on_one_card.is_some() {
            return vec![1];
        }
        let divides = |n: &usize| {
            let shares = |heads: usize| heads.is_multiple_of(*n) || n.is_multiple_of(heads);
            n_heads.is_multiple_of(*n)
                && shares(n_kv_heads)
                && n_sliding_kv_heads.is_none_or(shares)
                && n_key_heads.is_none_or(|heads| heads.is_multiple_of(*n))
        };
        (1..=MOST_CARDS).filter(divides).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_all_outputs_once_and_heads_stay_whole() {
        for n_cards in 1..=MOST_CARDS {
            for (n, unit) in [(64, 1), (333, 1), (18944, 1), (16, 1), (128 * 8 * n_cards, 128)] {
                let shards = (0..n_cards).map(|card| Shard { card, n_cards }.outputs(n, unit));
                let mut end = 0;
                for shard in shards {
                    assert_eq!(shard.start, end, "{n} outputs on {n_cards} cards");
                    assert!(shard.end == n || shard.end.is_multiple_of(STRIP.max(unit)), "{shard:?}");
                    end = shard.end;
                }
                assert_eq!(end, n, "on {n_cards} cards");
            }
        }
    }

    /// A card has the keys and values of its queries.
    #[test]
    fn fewer_heads_of_keys_than_cards_are_on_several() {
        let keys = |card| Shard { card, n_cards: 8 }.outputs(2 * 64, 64);
        assert_eq!((keys(0), keys(3), keys(4), keys(7)), (0..64, 0..64, 64..128, 64..128));
    }

    #[test]
    fn numbers_of_cards_are_those_that_divide_the_heads() {
        for (name, heads, possible) in [
            ("0.5B", (14, 2, None), vec![1, 2]),
            ("7B", (28, 4, None), vec![1, 2, 4]),
            ("32B", (40, 8, None), vec![1, 2, 4, 8]),
            ("72B", (64, 8, None), vec![1, 2, 4, 8]),
            ("Gemma 3 1B", (4, 1, None), vec![1, 2, 4]),
            ("Qwen3.5 35B", (16, 2, Some(16)), vec![1, 2, 4, 8]),
            ("tiled value heads", (16, 2, Some(1)), vec![1]),
        ] {
            let (n_heads, n_kv_heads, n_key_heads) = heads;
            let heads =
                SharedHeads { n_heads, n_kv_heads, n_sliding_kv_heads: None, n_key_heads, on_one_card: None };
            assert_eq!(heads.possible_cards(), possible, "{name}");
            let on_one_card = Some("which is an encoder");
            assert_eq!(SharedHeads { on_one_card, ..heads }.possible_cards(), [1]);
        }
        let (n_heads, n_kv_heads, n_key_heads, on_one_card) = (24, 4, None, None);
        let n_sliding_kv_heads = Some(6);
        let gemma = SharedHeads { n_heads, n_kv_heads, n_sliding_kv_heads, n_key_heads, on_one_card };
        assert_eq!(gemma.possible_cards(), [1, 2], "four divide 24 and 4, and not 6");
        assert_eq!(gemma.to_string(), "24 heads, 4 of keys and values (6 in layers with a window)");
    }
}
