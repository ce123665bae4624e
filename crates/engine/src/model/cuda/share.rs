//! Which part of a model each card of a tensor-parallel group has. Every matrix is cut by its outputs, queries, keys and
//! values by heads, so that each sum of a product is one card's from its first value to its last. Only arithmetic is here.
//!
//! Source: Shoeybi et al. (2019), Megatron-LM, section 3, for cutting by heads and by the feed-forward's columns. It cuts
//! the second matrix of each half by inputs and adds what the cards have; here it is cut by outputs too, since such a
//! sum's bits would follow the number of cards.

use std::ops::Range;

use super::{arena::Spread, quant_layout::STRIP};
use crate::model::Config;

/// The most cards of one model: `kernels/gather.cu` takes so many pieces.
pub const MOST_CARDS: usize = 8;

/// One card's place among those that have a model together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub card: usize,
    pub n_cards: usize,
}

impl Share {
    /// A card that has the whole model.
    pub(super) const WHOLE: Self = Self { card: 0, n_cards: 1 };

    /// The outputs that this card computes of a matrix with `n`. `unit` of them stay together (a head), or 1: then cards
    /// get whole strips of 16, as evenly as that goes. Where there are fewer units than cards, neighbours have the same one.
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

    /// What this card works with beside its share; `None` for a card that has the whole model.
    pub(super) fn spread(self, whole: &Config) -> Option<Spread> {
        (self.n_cards > 1).then(|| Spread {
            widest: (whole.n_heads * whole.head_dim).max(whole.intermediate),
            own_logits: self.outputs(whole.vocab, 1).len(),
            all_logits: if self.card == 0 { whole.vocab } else { 0 },
        })
    }

    /// The model as this card computes it: its heads, and its columns between the two feed-forward products.
    pub(super) fn config(self, whole: &Config) -> Config {
        Config {
            n_heads: whole.n_heads / self.n_cards,
            n_kv_heads: (whole.n_kv_heads / self.n_cards).max(1),
            intermediate: self.outputs(whole.intermediate, 1).len(),
            ..whole.clone()
        }
    }
}

/// The numbers of cards that a model with these heads can be spread over: those that divide its heads, and of its heads of
/// keys and values either divide the number or are divided by it. In the second case several cards have the same ones.
#[must_use]
pub fn possible_cards(config: &Config) -> Vec<usize> {
    let Config { n_heads, n_kv_heads, .. } = *config;
    let divides = |n: &usize| {
        n_heads.is_multiple_of(*n) && (n_kv_heads.is_multiple_of(*n) || n.is_multiple_of(n_kv_heads))
    };
    (1..=MOST_CARDS).filter(divides).collect()
}
