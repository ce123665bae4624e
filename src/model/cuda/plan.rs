//! A step on its way to a GPU: all of its numbers in one upload, and where each kernel finds its own.

use super::{
    items::{self, Limits},
    tiles::Tile,
};
use crate::model::{
    Config,
    backend::{Reach, Rows},
    step::Step,
};

/// The step's arrays of 32-bit numbers, one after another, each 16-byte aligned.
#[derive(Default)]
pub(super) struct Numbers {
    pub values: Vec<i32>,
}

/// Where an array begins, in numbers.
#[derive(Clone, Copy, Default)]
pub(super) struct At(usize);

impl At {
    /// Its address, where the arrays were sent to `start`.
    pub(super) fn from(self, start: u64) -> u64 {
        start + 4 * self.0 as u64
    }
}

impl Numbers {
    fn push(&mut self, numbers: impl IntoIterator<Item = u32>) -> At {
        let at = self.values.len().next_multiple_of(4);
        self.values.resize(at, 0);
        self.values.extend(numbers.into_iter().map(u32::cast_signed));
        At(at)
    }
}

/// What the operations of one step read.
#[derive(Default)]
pub(super) struct Plan {
    pub numbers: Numbers,
    pub n_rows: usize,
    pub n_wanted: usize,
    pub n_copies: usize,
    pub copies: At,
    pub tokens: At,
    pub positions: At,
    pub slots: At,
    pub wanted: At,
    pub block_starts: At,
    pub blocks: At,
    /// How all rows attend, and how the wanted ones do.
    all: Queries,
    of_wanted: Queries,
}

/// Rows of queries, and how they attend to all keys and through the model's window.
#[derive(Default)]
struct Queries {
    global: Attention,
    local: Attention,
}

/// How rows of queries attend.
#[derive(Clone, Default)]
pub(super) struct Attention {
    pub order: At,
    pub positions: At,
    pub sequences: At,
    pub rows: Vec<Launch>,
    pub parts: Vec<Launch>,
    pub part_starts: At,
    pub n_parts: usize,
}

/// Items of one tile.
#[derive(Clone, Copy)]
pub(super) struct Launch {
    pub tile: &'static Tile,
    pub n_items: usize,
    pub items: At,
}

impl Plan {
    pub(super) fn new(step: &Step, config: &Config, limits: Limits) -> Self {
        let mut numbers = Numbers::default();
        let n = &mut numbers;
        let all: Vec<u32> = (0..step.n_rows() as u32).collect();
        let pairs = step.copies.iter().flat_map(|&(from, to)| [from, to]);
        Self {
            n_rows: step.n_rows(),
            n_wanted: step.wanted.len(),
            n_copies: step.copies.len(),
            copies: n.push(pairs),
            tokens: n.push(step.tokens.iter().copied()),
            positions: n.push(step.positions.iter().copied()),
            slots: n.push(step.slots.iter().copied()),
            wanted: n.push(step.wanted.iter().copied()),
            block_starts: n.push(step.block_starts.iter().copied()),
            blocks: n.push(step.blocks.iter().copied()),
            all: Queries::new(step, &all, &step.order, (config, limits), n),
            of_wanted: Queries::new(step, &step.wanted, &step.wanted_order(), (config, limits), n),
            numbers,
        }
    }

    pub(super) fn attention(&self, rows: Rows, reach: Reach) -> &Attention {
        let queries = if rows == Rows::Wanted { &self.of_wanted } else { &self.all };
        if reach == Reach::Local { &queries.local } else { &queries.global }
    }
}

impl Queries {
    fn new(
        step: &Step,
        rows: &[u32],
        order: &[u32],
        (config, limits): (&Config, Limits),
        numbers: &mut Numbers,
    ) -> Self {
        let of_rows = |values: &[u32]| rows.iter().map(|&row| values[row as usize]).collect::<Vec<u32>>();
        let (positions, sequences) = (of_rows(&step.positions), of_rows(&step.sequences));
        let queries = items::Queries {
            order,
            positions: &positions,
            sequences: &sequences,
            block_starts: &step.block_starts,
            blocks: &step.blocks,
        };
        let at = [order, &positions, &sequences].map(|values| numbers.push(values.iter().copied()));
        let mut attention = |window| Attention::new(queries, config, window, limits, at, numbers);
        let has_windows = config.window.is_some() && config.sliding.contains(&true);
        let local = if has_windows { attention(config.window) } else { Attention::default() };
        let global = if config.sliding.contains(&false) || !has_windows {
            attention(None)
        } else {
            Attention::default()
        };
        Self { global, local }
    }
}

impl Attention {
    fn new(
        queries: items::Queries<'_>,
        config: &Config,
        window: Option<usize>,
        limits: Limits,
        [order, positions, sequences]: [At; 3],
        numbers: &mut Numbers,
    ) -> Self {
        let heads = heads(config);
        let items = items::plan(queries, heads, window, limits);
        let mut launch = |launch: items::Launch| Launch {
            tile: launch.tile,
            n_items: launch.n_items,
            items: numbers.push(launch.items),
        };
        Self {
            order,
            positions,
            sequences,
            rows: items.rows.into_iter().map(&mut launch).collect(),
            parts: items.parts.into_iter().map(&mut launch).collect(),
            part_starts: numbers.push(items.part_starts.into_iter().map(i32::cast_unsigned)),
            n_parts: items.n_parts,
        }
    }
}

/// A model's heads, as attention is cut by them.
pub(super) fn heads(config: &Config) -> items::Heads {
    let Config { n_heads, n_kv_heads, head_dim, .. } = *config;
    items::Heads { n_heads, n_kv_heads, head_dim }
}
