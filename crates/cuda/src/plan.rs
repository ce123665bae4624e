//! A step as a GPU executes it: all of its numbers in one upload, and the offset of each kernel's own among
//! them.
//!
//! A small step with logits of all of its rows is padded: rows, work tiles and KV splits are rounded up, so
//! that many steps have one [`Layout`] and their kernels the same arguments. Padding rows are computed but
//! never read: they are not stored and attend to nothing, and padding work tiles have no rows.

use super::{
    RECORDED_ROWS,
    adapter::{ITEM, ITEM_ROWS},
    arena::{Extent, padded_rows},
    tiles::Tile,
    work_tiles::{self, Limits},
};
use tribunal_model::{
    Config,
    backend::Rows,
    config::AttentionKind,
    step::{self, Step},
};

/// The slot of a row that is not stored; must equal that in `kernels/rotate.cu`.
const NOT_STORED: u32 = u32::MAX;
/// No sequence of a row, in `kernels/delta_net.cu`.
const NO_SEQUENCE: u32 = u32::MAX;
/// No adapter, and no row, in an item of `kernels/adapter.cu`.
const NONE: u32 = u32::MAX;

/// The step's arrays of 32-bit numbers, one after another, each 16-byte aligned.
#[derive(Clone, Default)]
pub(super) struct Numbers {
    pub values: Vec<i32>,
}

/// The start of an array, in numbers.
#[derive(Clone, Copy, Default)]
pub(super) struct At(usize);

impl At {
    /// Its address, in arrays uploaded to `start`.
    pub(super) fn from(self, start: u64) -> u64 {
        start + 4 * self.0 as u64
    }
}

/// The rounding of the lengths of a step's arrays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Exact,
    /// Rounded up, so that many steps look alike.
    Padded,
}

impl Room {
    fn rows(self, n: usize) -> usize {
        match self {
            Self::Exact => n,
            Self::Padded => padded_rows(n),
        }
    }

    /// Work tiles or KV splits of attention, or items of adapters.
    fn pieces(self, n: usize, most: usize) -> usize {
        match self {
            Self::Padded if n > 0 => n.next_power_of_two().min(most.max(n)),
            _ => n,
        }
    }
}

/// The numbers that determine a step's launches and the addresses of their arguments. Steps of one layout
/// differ in their numbers alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Layout(Vec<usize>);

impl Numbers {
    /// An array that is filled up to `room` numbers.
    fn push_padded(&mut self, numbers: impl IntoIterator<Item = u32>, room: usize, filler: u32) -> At {
        let at = self.push(numbers);
        let end = self.values.len().max(at.0 + room);
        self.values.resize(end, filler.cast_signed());
        at
    }

    fn push(&mut self, numbers: impl IntoIterator<Item = u32>) -> At {
        let at = self.values.len().next_multiple_of(4);
        self.values.resize(at, 0);
        self.values.extend(numbers.into_iter().map(u32::cast_signed));
        At(at)
    }
}

/// The inputs of one step's operations.
#[derive(Clone, Default)]
pub(super) struct Plan {
    pub numbers: Numbers,
    /// Rows of the activations, padding included.
    pub n_rows: usize,
    /// Rows with logits.
    pub n_wanted: usize,
    /// Rows with hidden states.
    pub n_noted: usize,
    pub n_copies: usize,
    pub copies: At,
    /// Slots of states to copy, from and to, one after another.
    pub state_copies: Vec<(u32, u32)>,
    pub tokens: At,
    pub positions: At,
    /// Rows of an encoder's table of positions.
    pub places: At,
    pub slots: At,
    /// Factors on each row's queries, as bits of f32; `None` where the model has none.
    pub growth: Option<At>,
    pub wanted: At,
    pub noted: At,
    pub block_starts: At,
    pub blocks: At,
    /// The sequences for recurrent layers; `None` of a model without any.
    pub recurrent: Option<Recurrent>,
    /// The attention of all rows, and that of the rows with logits where they are not all.
    all: Queries,
    of_wanted: Option<Queries>,
    /// The rows that take adapters, among those of an operation: all rows, and those with logits once they
    /// are taken.
    pub adapted: Adapted,
    pub wanted_adapted: Adapted,
    /// The layout of a padded step.
    pub layout: Option<Layout>,
}

/// Sequences for recurrent layers.
#[derive(Clone, Copy)]
pub(super) struct Recurrent {
    /// The sequence of each row.
    pub of_rows: At,
    /// First row, rows and slot of each sequence; padding has no rows.
    pub sequences: At,
    pub n_sequences: usize,
}

/// Rows of queries, with their attention to all keys and through the model's window.
#[derive(Clone, Default)]
struct Queries {
    global: Attention,
    local: Attention,
}

/// The attention of rows of queries.
#[derive(Clone, Default)]
pub(super) struct Attention {
    pub order: At,
    pub positions: At,
    pub sequences: At,
    pub rows: Vec<Launch>,
    pub splits: Vec<Launch>,
    /// True if the last block of a row merges its splits.
    pub merges: bool,
    pub split_starts: At,
    pub n_splits: usize,
}

/// Rows that take adapters.
#[derive(Clone, Copy, Default)]
pub(super) struct Adapted {
    pub n_items: usize,
    pub items: At,
}

/// Work tiles of one kernel tile.
#[derive(Clone, Copy)]
pub(super) struct Launch {
    pub tile: &'static Tile,
    pub n_work_tiles: usize,
    pub work_tiles: At,
}

/// The values common to the plans of a model's steps.
#[derive(Clone, Copy)]
struct Frame<'a> {
    step: &'a Step,
    config: &'a Config,
    limits: Limits,
    room: Room,
}

impl Plan {
    /// Plans a step; if `pads`, small ones are padded.
    pub(super) fn new(step: &Step, config: &Config, limits: Limits, pads: bool) -> Self {
        let takes_all = step.wanted.len() == step.n_rows();
        let is_padded = pads && takes_all && (1..=RECORDED_ROWS).contains(&step.n_rows());
        let room = if is_padded { Room::Padded } else { Room::Exact };
        let rows = room.rows(step.n_rows());
        let frame = Frame { step, config, limits, room };
        let mut numbers = Numbers::default();
        let n = &mut numbers;
        let every: Vec<u32> = (0..step.n_rows() as u32).collect();
        let mut plan = Self {
            n_rows: rows,
            n_wanted: step.wanted.len(),
            n_noted: step.noted.len(),
            n_copies: step.copies.len(),
            state_copies: step.state_copies.clone(),
            tokens: n.push_padded(step.tokens.iter().copied(), rows, 0),
            positions: n.push_padded(step.positions.iter().copied(), rows, 0),
            places: n.push(step.places.iter().copied()),
            slots: n.push_padded(step.slots.iter().copied(), rows, NOT_STORED),
            growth: config.query_growth.map(|growth| {
                let factors = step.positions.iter().map(|&position| growth.at(position).to_bits());
                n.push_padded(factors, rows, 1.0_f32.to_bits())
            }),
            block_starts: n.push_padded(step.block_starts.iter().copied(), rows + 1, 0),
            recurrent: config.delta_net.as_ref().map(|_| Recurrent::new(step, rows, room, n)),
            all: Queries::new(frame, &every, &step.order, n),
            adapted: Adapted::new(&step.adapted(), room, n),
            ..Self::default()
        };
        if !takes_all {
            plan.wanted = n.push(step.wanted.iter().copied());
            plan.of_wanted = Some(Queries::new(frame, &step.wanted, &step.wanted_order(), n));
            plan.wanted_adapted = Adapted::new(&step.wanted_adapted(), room, n);
        }
        // These two may be of any length: no array whose offset matters comes after them.
        plan.blocks = n.push(step.blocks.iter().copied());
        plan.layout = is_padded.then(|| plan.layout());
        plan.noted = n.push(step.noted.iter().copied());
        plan.copies = n.push(step.copies.iter().flat_map(|&(from, to)| [from, to]));
        Self { numbers, ..plan }
    }

    pub(super) fn attention(&self, rows: Rows, kind: AttentionKind) -> &Attention {
        let of_wanted = self.of_wanted.as_ref().filter(|_| rows == Rows::Wanted);
        let queries = of_wanted.unwrap_or(&self.all);
        if kind == AttentionKind::Sliding { &queries.local } else { &queries.global }
    }

    /// The counts that determine the memory of the step.
    pub(super) fn extent(&self) -> Extent {
        let queries = std::iter::once(&self.all).chain(&self.of_wanted);
        let splits = queries.flat_map(|queries| [queries.global.n_splits, queries.local.n_splits]);
        Extent {
            rows: self.n_rows,
            wanted: if self.takes_all() { self.n_rows } else { self.n_wanted },
            numbers: self.numbers.values.len(),
            splits: splits.max().unwrap_or(0),
            items: self.adapted.n_items.max(self.wanted_adapted.n_items),
        }
    }

    /// Returns true if every row has logits.
    pub(super) fn takes_all(&self) -> bool {
        self.of_wanted.is_none()
    }

    fn layout(&self) -> Layout {
        let launch = |launch: &Launch| [launch.tile.queries, launch.n_work_tiles, launch.work_tiles.0];
        let attention = |attention: &Attention| {
            let Attention { rows, splits, merges, n_splits, split_starts, .. } = attention;
            let counts = [rows.len(), splits.len(), usize::from(*merges), *n_splits, split_starts.0];
            let launches = attention.rows.iter().chain(&attention.splits).flat_map(launch);
            counts.into_iter().chain(launches).collect::<Vec<usize>>()
        };
        let of_both = [&self.all.global, &self.all.local].map(attention);
        let Adapted { n_items, items } = self.adapted;
        let n_sequences = self.recurrent.map_or(0, |recurrent| recurrent.n_sequences);
        Layout([vec![self.n_rows, self.blocks.0, n_items, items.0, n_sequences], of_both.concat()].concat())
    }
}

impl Recurrent {
    fn new(step: &Step, n_rows: usize, room: Room, numbers: &mut Numbers) -> Self {
        let mut first = 0;
        let parts: Vec<[u32; 4]> = step
            .sequences
            .chunk_by(|a, b| a == b)
            .map(|rows| {
                let part = [first, rows.len() as u32, step.state_slots[rows[0] as usize], 0];
                first += rows.len() as u32;
                part
            })
            .collect();
        let of_rows = parts.iter().enumerate().flat_map(|(i, part)| (0..part[1]).map(move |_| i as u32));
        let n_sequences = room.pieces(parts.len(), usize::MAX);
        Self {
            of_rows: numbers.push_padded(of_rows, n_rows, NO_SEQUENCE),
            sequences: numbers.push_padded(parts.concat(), 4 * n_sequences, 0),
            n_sequences,
        }
    }
}

impl Adapted {
    fn new(groups: &[step::Adapted], room: Room, numbers: &mut Numbers) -> Self {
        let items = groups.iter().flat_map(|group| {
            let item = |rows: &[u32]| {
                let mut item = [NONE; ITEM];
                item[0] = group.adapter;
                item[1..=rows.len()].copy_from_slice(rows);
                item
            };
            group.rows.chunks(ITEM_ROWS).map(item).collect::<Vec<_>>()
        });
        let items: Vec<u32> = items.flatten().collect();
        let n_items = room.pieces(items.len() / ITEM, usize::MAX);
        if n_items == 0 {
            return Self::default();
        }
        Self { n_items, items: numbers.push_padded(items, n_items * ITEM, NONE) }
    }
}

impl Queries {
    fn new(frame: Frame<'_>, rows: &[u32], order: &[u32], numbers: &mut Numbers) -> Self {
        let Frame { step, config, room, .. } = frame;
        let of_rows = |values: &[u32]| rows.iter().map(|&row| values[row as usize]).collect::<Vec<u32>>();
        let (positions, sequences) = (of_rows(&step.positions), of_rows(&step.sequences));
        let queries = work_tiles::Queries {
            order,
            positions: &positions,
            sequences: &sequences,
            block_starts: &step.block_starts,
            blocks: &step.blocks,
        };
        let at = [order, &positions, &sequences]
            .map(|values| numbers.push_padded(values.iter().copied(), room.rows(rows.len()), 0));
        let mut used = |kind| {
            let is_used = config.n_layers_of(kind) > 0;
            if is_used { Attention::new(frame, queries, kind, at, numbers) } else { Attention::default() }
        };
        let (local, global) = (used(AttentionKind::Sliding), used(AttentionKind::Full));
        Self { global, local }
    }
}

impl Attention {
    fn new(
        Frame { config, limits, room, .. }: Frame<'_>,
        queries: work_tiles::Queries<'_>,
        kind: AttentionKind,
        [order, positions, sequences]: [At; 3],
        numbers: &mut Numbers,
    ) -> Self {
        let planned = work_tiles::plan(queries, heads(config, kind), config.attention(kind).window, limits);
        let mut launch = |launch: work_tiles::Launch| {
            let width = launch.work_tiles.len() / launch.n_work_tiles;
            let n_work_tiles = room.pieces(launch.n_work_tiles, usize::MAX);
            Launch {
                tile: launch.tile,
                n_work_tiles,
                work_tiles: numbers.push_padded(launch.work_tiles, n_work_tiles * width, 0),
            }
        };
        let rows = planned.rows.into_iter().map(&mut launch).collect();
        let splits = planned.splits.into_iter().map(&mut launch).collect();
        let starts = planned.split_starts.into_iter().map(i32::cast_unsigned);
        let split_starts =
            numbers.push_padded(starts, room.rows(queries.positions.len()), (-1_i32).cast_unsigned());
        let n_splits = room.pieces(planned.n_splits, limits.splits);
        Self { order, positions, sequences, rows, splits, merges: planned.merges, split_starts, n_splits }
    }
}

/// The heads of one kind of attention, by which it is cut.
fn heads(config: &Config, kind: AttentionKind) -> work_tiles::Heads {
    let attention = config.attention(kind);
    work_tiles::Heads {
        n_heads: config.n_heads,
        n_kv_heads: attention.n_kv_heads,
        head_dim: attention.head_dim,
    }
}

#[cfg(test)]
mod tests;
