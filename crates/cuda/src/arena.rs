//! The single allocation that holds every buffer of a step: its size for the largest step, and the offset of
//! each buffer. Offsets are fixed when the arena is allocated, so that a recorded step may contain their
//! addresses. It computes nothing.
//!
//! ```text
//! numbers | stream | wanted stream | normed | product       | queries, attended | sums | semaphores | panel | hidden | noted | tail | routing | whole
//!                                           | splits, peaks | gated, experts    |                                                         | logits
//!                                                           | mixed             |
//! ```
//! Buffers below each other share their memory: one of them is no longer read when another is written.

mod sizes;
pub(super) use sizes::ROUTER_PARTS;
pub use sizes::{AttentionSizes, DeltaNetSizes, ExpertSizes, Sizes};

use cudarc::driver::CudaContext;
use std::sync::Arc;

use super::{
    Error, RECORDED_ROWS,
    adapter::{ITEM, ITEM_ROWS},
    memory::Memory,
    products::{self, SPLIT_TOKENS, SplitK, grouped::most_tiles_of_any},
    tail::{CHOICE_BYTES, FOUND_BYTES, WANT_BYTES},
    work_tiles::SPLIT,
};
use tribunal_model::{BLOCK, step::StepLimits};

/// Rows whose hidden states are gathered before they are fetched.
const NOTED_ROWS: usize = 1024;
/// Log-probabilities that are computed at a time for each row of logits that fits.
const LOGPROBS: usize = 16;
/// The most rows of logits, counted once for each log-probability, that are reduced at a time where fewer
/// rows have logits.
const FOUND_AT_ONCE: usize = 4096;
/// The alignment of buffers, equal to that of the driver's allocations.
const ALIGNED: usize = 256;

/// The needs of a model's weights for the memory of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extra {
    /// The most split-K partial sums of one row: slices times outputs.
    pub sums: usize,
    /// Split-K reductions in kernels.
    pub split_k: SplitK,
    /// Bytes of the largest matrix that is multiplied as a panel of `bf16`.
    pub panel: usize,
    /// The most ranks of an item of adapters, over the matrices of one input.
    pub ranks: usize,
    pub n_adapters: usize,
    /// `None` where the card has the whole model.
    pub shard: Option<ShardBuffers>,
}

/// The buffers of a card that has a shard, beside those of its own part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShardBuffers {
    /// Values of the widest row that is gathered for a product.
    pub widest: usize,
    /// Columns of the residual stream that this card computes.
    pub own_hidden: usize,
    /// Logits of a row that this card computes.
    pub own_logits: usize,
    /// Logits of a row that are gathered on this card; 0 on all cards but the first.
    pub all_logits: usize,
}

impl Extra {
    /// The needs of weights that have a product of their own, without adapters.
    fn of(sizes: Sizes) -> Self {
        let Sizes { hidden, intermediate, vocab, .. } = sizes;
        let experts = sizes.experts.map_or([(0, 0); 3], |experts| {
            let shared = experts.shared_width;
            [(experts.n, hidden), (2 * shared, hidden), (hidden, shared)]
        });
        let delta_net = sizes.delta_net.map_or([(0, 0); 3], |delta_net| {
            let [projected, gates] = delta_net.products();
            [(projected, hidden), (gates, hidden), (hidden, delta_net.values)]
        });
        let of_attention = sizes.attentions().flat_map(|attention| {
            let queries = sizes.n_heads * attention.head_dim;
            [(sizes.qkv_width_of(attention), hidden), (hidden, queries)]
        });
        let shapes = [(2 * intermediate, hidden), (hidden, intermediate), (vocab, hidden)];
        let mut extra = Self::default();
        let shapes = shapes.into_iter().chain(of_attention).chain(experts).chain(delta_net);
        for (n, k) in shapes.filter(|(n, k)| n * k > 0) {
            // Slices in one wave are never shorter, so that their sums need no more.
            extra.add_weight(n, k, products::k_slice([n, k], false));
        }
        extra
    }

    /// Reserves memory for products with a weight `[n, k]` in slices of so many values of `k`.
    pub(super) fn add_weight(&mut self, n: usize, k: usize, k_slice: usize) {
        self.split_k.add_weight(n, k, k_slice);
        let slices = k.div_ceil(k_slice);
        if slices > 1 {
            self.sums = self.sums.max(slices * n);
        }
    }
}

/// The rows of a padded step of `n`. From 16 rows on at most half of them are added; below, a row costs
/// nothing.
pub(super) fn padded_rows(n: usize) -> usize {
    let power = n.next_power_of_two();
    if power > 16 && n <= power / 4 * 3 { power / 4 * 3 } else { power }
}

/// The counts that determine the memory of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// Rows, padding included.
    pub rows: usize,
    /// Rows of logits, padding included.
    pub wanted: usize,
    /// Numbers of its plan.
    pub numbers: usize,
    /// KV splits of attention.
    pub splits: usize,
    /// Items of adapters.
    pub items: usize,
}

impl Extent {
    /// An upper bound for all steps within `most`.
    pub(super) fn from_limits(most: StepLimits, sizes: Sizes, n_adapters: usize) -> Self {
        let StepLimits { sequences, context, .. } = most;
        let padded = |n: usize| n.max(padded_rows(n.min(RECORDED_ROWS)));
        let (rows, n_logits) = (padded(most.rows), padded(most.wanted.min(most.rows)));
        let splits = sizes.most_splits().min(most.rows * context.div_ceil(SPLIT).max(1));
        let of_rows = |n: usize| n.div_ceil(ITEM_ROWS) + n_adapters;
        let items = of_rows(rows).max(of_rows(rows.min(RECORDED_ROWS)).next_power_of_two());
        let items = if n_adapters == 0 { 0 } else { items };
        // Two windows, each with two numbers of a row's item and four of a split's, both rounded up, and the
        // starts.
        let attention = |rows: usize| 3 * rows + 2 * (4 * rows + 8 * splits + rows);
        let arrays = 6 * (rows + 1) + n_logits + attention(rows) + attention(n_logits) + 2 * items * ITEM;
        let of_blocks = sequences * context.div_ceil(BLOCK) + 2 * sequences;
        let of_states = sizes.delta_net.map_or(0, |_| rows + 4 * sequences.next_power_of_two());
        // Each array begins at a multiple of four numbers.
        Self { rows, wanted: n_logits, numbers: arrays + of_blocks + of_states + 256, splits, items }
    }

    /// Returns true if a step of that extent fits.
    pub(super) fn holds(self, step: Self) -> bool {
        self.with(step) == self
    }

    /// The least extent that both fit.
    pub(super) fn with(self, other: Self) -> Self {
        Self {
            rows: self.rows.max(other.rows),
            wanted: self.wanted.max(other.wanted),
            numbers: self.numbers.max(other.numbers),
            splits: self.splits.max(other.splits),
            items: self.items.max(other.items),
        }
    }
}

/// A buffer of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// The step's plan.
    Numbers,
    /// The residual stream; its rows with logits.
    Stream,
    WantedStream,
    Normed,
    /// The output of a product: queries, keys and values; gate and up; the input of a norm; logits.
    Product,
    Splits,
    Peaks,
    Queries,
    WantedQueries,
    Attended,
    /// Gates of attended values; those of rows with logits.
    Gates,
    WantedGates,
    Gated,
    /// The results of a DeltaNet layer: its convolved inputs, and its output.
    Mixed,
    MixedOut,
    /// Partial sums of split-K products.
    Sums,
    /// Semaphores of split-K reductions in kernels: zeros between products.
    Semaphores,
    Panel,
    /// The results of adapters between their two matrices.
    Hidden,
    /// Hidden states on their way to the host.
    Noted,
    Wants,
    Choices,
    /// Partial results of the warps of a row of logits.
    Found,
    /// Experts of each row, their weights, and their pairs of row and expert.
    Chosen,
    ChosenWeights,
    PairPlaces,
    /// The row of each pair, sorted by expert, and each expert's first pair.
    PairRows,
    ExpertStarts,
    /// Factors on the shared expert's outputs.
    SharedFactors,
    /// Tiles of the experts' first products, and of their second ones.
    GateTiles,
    DownTiles,
    /// The output of a dense half with experts beside it.
    Beside,
    /// Gated values of each pair, and its output.
    ExpertGated,
    ExpertOutputs,
    /// Whole rows of values computed in parts by several cards: a product's input; logits.
    Whole,
    Logits,
}

const N_SLOTS: usize = Slot::Logits as usize + 1;

/// The offsets of all buffers, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Places {
    /// Start and length.
    slots: [(usize, usize); N_SLOTS],
    /// The starts of pieces that share no byte with each other, in order.
    pieces: Vec<usize>,
    pub bytes: usize,
}

impl Places {
    pub(super) fn new(extent: Extent, sizes: Sizes, extra: Extra) -> Self {
        let Extent { rows, wanted, numbers, splits, items } = extent;
        let Sizes { hidden, intermediate, n_heads, vocab, .. } = sizes;
        let (queries, product) = (sizes.query_width(), rows * sizes.widest_product());
        let one = ShardBuffers { widest: 0, own_hidden: hidden, own_logits: vocab, all_logits: 0 };
        let ShardBuffers { widest, own_hidden, own_logits, all_logits } = extra.shard.unwrap_or(one);
        let sums = (rows.min(SPLIT_TOKENS) * extra.sums).max(extra.split_k.partial_len(rows));
        let ExpertSizes { n, width, shared_width, beside_dense, .. } =
            sizes.experts.unwrap_or(ExpertSizes::NONE);
        let (pairs, has_experts) = (sizes.pairs(rows), usize::from(sizes.experts.is_some()));
        let tiles = 16 * most_tiles_of_any(pairs, n);
        let beside = usize::from(beside_dense) * hidden;
        let (mixed, mixed_out) = sizes.delta_net.map_or((0, 0), |sizes| (sizes.mixed(), sizes.values));
        let n_logprobs = wanted * LOGPROBS;
        Self { slots: [(0, 0); N_SLOTS], pieces: Vec::new(), bytes: 0 }
            .slot(Slot::Numbers, 4 * numbers)
            .slot(Slot::Stream, 4 * rows * hidden)
            .slot(Slot::WantedStream, 4 * wanted * hidden)
            .slot(Slot::Normed, 2 * rows * hidden)
            .shared(&[
                &[(Slot::Product, 4 * product.max(wanted * own_logits))],
                &[(Slot::Splits, 4 * splits * queries), (Slot::Peaks, 8 * splits * n_heads)],
            ])
            .shared(&[
                &[
                    (Slot::Queries, 2 * rows * queries),
                    (Slot::WantedQueries, 2 * wanted * queries),
                    (Slot::Attended, 2 * rows * queries),
                    (Slot::Gates, 4 * rows * sizes.gates()),
                    (Slot::WantedGates, 4 * wanted * sizes.gates()),
                ],
                &[
                    (Slot::Gated, 2 * rows * intermediate.max(shared_width)),
                    (Slot::ExpertGated, 2 * pairs * width),
                    (Slot::ExpertOutputs, 4 * pairs * own_hidden),
                ],
                &[(Slot::Mixed, 4 * rows * mixed), (Slot::MixedOut, 2 * rows * mixed_out)],
            ])
            .slot(Slot::Sums, 4 * sums)
            .slot(Slot::Semaphores, SplitK::SEMAPHORE_BYTES)
            .slot(Slot::Panel, extra.panel)
            .slot(Slot::Hidden, 4 * items * extra.ranks * ITEM_ROWS)
            .slot(Slot::Noted, 4 * rows.min(NOTED_ROWS) * hidden)
            .shared(&[&[
                (Slot::Wants, (wanted * (WANT_BYTES + 4 * vocab.div_ceil(32))).max(n_logprobs * WANT_BYTES)),
                (Slot::Choices, n_logprobs * CHOICE_BYTES),
                (Slot::Found, n_logprobs.min(FOUND_AT_ONCE).max(wanted) * FOUND_BYTES),
            ]])
            .slot(Slot::Chosen, 4 * pairs)
            .slot(Slot::ChosenWeights, 4 * pairs)
            .slot(Slot::PairPlaces, 4 * pairs)
            .slot(Slot::PairRows, 4 * pairs)
            .slot(Slot::ExpertStarts, 4 * has_experts * (n + 1))
            .slot(Slot::SharedFactors, 4 * has_experts * rows)
            .slot(Slot::GateTiles, tiles)
            .slot(Slot::DownTiles, tiles)
            .slot(Slot::Beside, 4 * rows * beside)
            .slot(Slot::Whole, 2 * rows * widest)
            .slot(Slot::Logits, 4 * wanted * all_logits)
    }

    /// Adds a piece of one slot.
    fn slot(self, slot: Slot, bytes: usize) -> Self {
        self.shared(&[&[(slot, bytes)]])
    }

    /// Adds a piece that is as long as the longest of its alternatives, each slots with their bytes.
    fn shared(mut self, alternatives: &[&[(Slot, usize)]]) -> Self {
        let first = self.bytes;
        self.pieces.push(first);
        for alternative in alternatives {
            let mut at = first;
            for &(slot, bytes) in *alternative {
                self.slots[slot as usize] = (at, bytes);
                at += bytes.next_multiple_of(ALIGNED);
            }
            self.bytes = self.bytes.max(at);
        }
        self
    }

    /// Bytes of a slot.
    pub(super) fn len(&self, slot: Slot) -> usize {
        self.slots[slot as usize].1
    }
}

/// Bytes of a model's steps on a GPU, none larger than `most`: all allocations beside weights and cache.
/// Exact for weights that have a product of their own, without adapters.
pub fn step_bytes(sizes: Sizes, most: StepLimits) -> usize {
    let table = |sizes: AttentionSizes| (4 * most.context * (sizes.rotary_dim / 2)).next_multiple_of(ALIGNED);
    let tables: usize = sizes.attentions().map(table).sum();
    Places::new(Extent::from_limits(most, sizes, 0), sizes, Extra::of(sizes)).bytes + 2 * tables
}

/// Memory for steps of some extent.
pub(super) struct Arena {
    pub extent: Extent,
    places: Places,
    /// One allocation, or one for each piece.
    memory: Vec<Memory>,
}

impl Arena {
    /// # Errors
    /// The device does not have that much memory.
    pub(super) fn new(
        context: &Arc<CudaContext>,
        extent: Extent,
        places: Places,
        apart: bool,
    ) -> Result<Self, Error> {
        let pieces = if apart { &places.pieces[..] } else { &[0] };
        let ends = pieces.iter().skip(1).copied().chain([places.bytes]);
        let piece = |(&first, end): (&usize, usize)| Memory::new(context, end - first, super::memory::STEPS);
        let memory = pieces.iter().zip(ends).map(piece).collect::<Result<_, _>>()?;
        Ok(Self { extent, places, memory })
    }

    /// The address of a slot, of which so many bytes are used.
    ///
    /// # Errors
    /// It is smaller.
    pub(super) fn at(&self, slot: Slot, bytes: usize) -> Result<u64, Error> {
        let (start, length) = self.places.slots[slot as usize];
        if bytes > length {
            return Err(Error::Room(format!("{bytes} bytes for `{slot:?}` in {length}")));
        }
        if self.memory.len() == 1 {
            return Ok(self.memory[0].at() + start as u64);
        }
        let piece = self.places.pieces.partition_point(|&first| first <= start) - 1;
        // A piece of no bytes begins where the next one does, and is never read.
        Ok(self.memory[piece].at() + (start - self.places.pieces[piece]) as u64)
    }

    /// Bytes of a slot.
    pub(super) fn len(&self, slot: Slot) -> usize {
        self.places.len(slot)
    }
}

#[cfg(test)]
mod tests;
