//! A step on its way to a GPU: all of its numbers in one upload, and where each kernel finds its own.

use crate::model::step::Step;

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
    pub all: Attention,
    pub of_wanted: Attention,
}

/// Rows of queries and what attention is told of them.
#[derive(Default)]
pub(super) struct Attention {
    pub n_items: usize,
    /// Shape: `[n_items, 2]`: the first row of the item in `order`, and how many.
    pub items: At,
    pub order: At,
    pub positions: At,
    pub sequences: At,
}

/// Rows of one item of attention.
const ITEM_ROWS: usize = 16;

impl Plan {
    pub(super) fn new(step: &Step) -> Self {
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
            all: Attention::new(step, &all, &step.order, n),
            of_wanted: Attention::new(step, &step.wanted, &step.wanted_order(), n),
            numbers,
        }
    }
}

impl Attention {
    fn new(step: &Step, rows: &[u32], order: &[u32], numbers: &mut Numbers) -> Self {
        let sequence = |&i: &u32| step.sequences[rows[i as usize] as usize];
        let mut items = Vec::new();
        let mut first = 0;
        for run in order.chunk_by(|a, b| sequence(a) == sequence(b)) {
            for item in run.chunks(ITEM_ROWS) {
                items.extend([first, item.len() as u32]);
                first += item.len() as u32;
            }
        }
        Self {
            n_items: items.len() / 2,
            items: numbers.push(items),
            order: numbers.push(order.iter().copied()),
            positions: numbers.push(rows.iter().map(|&row| step.positions[row as usize])),
            sequences: numbers.push(rows.iter().map(|&row| step.sequences[row as usize])),
        }
    }
}
