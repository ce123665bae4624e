//! One step of work, for any backend: tokens with their positions, the blocks that they read, and the rows
//! with logits. Integers only.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use super::{BLOCK, Error, Result};

/// Consecutive tokens of one sequence.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    pub tokens: &'a [u32],
    /// Position of the first of them in the sequence.
    pub position: usize,
    /// The sequence's blocks, in order; they hold at least `position + tokens.len()` tokens.
    pub blocks: &'a [u32],
    /// The first of `tokens` with next-token logits; their number when none has.
    pub logits_from: usize,
    /// The first of `tokens` with hidden states; their number when none has.
    pub states_from: usize,
    /// The adapter of its rows, by the number that [`super::Model::adapt`] returned.
    pub adapter: Option<u32>,
    /// The slot of the sequence's recurrent state, for a model that has one.
    pub state: Option<u32>,
}

/// Rows with the same adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapted {
    pub adapter: u32,
    /// Their indices among the rows of an operation, ascending.
    pub rows: Vec<u32>,
}

/// The limits of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepLimits {
    pub rows: usize,
    /// Rows with next-token logits.
    pub wanted: usize,
    /// Sequences, including those whose blocks are copied and that have no rows.
    pub sequences: usize,
    /// Positions of one sequence.
    pub context: usize,
}

/// The work of one step. A row is a token of the step; all vectors named for rows have one entry for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Shape: `[rows]`.
    pub tokens: Vec<u32>,
    /// Shape: `[rows]`; a row's position in its sequence.
    pub positions: Vec<u32>,
    /// Shape: `[rows]`, or empty for a decoder; the row of an encoder's table of positions.
    pub places: Vec<u32>,
    /// Shape: `[rows]`; the destination of the row's key and value: `block * BLOCK + offset`.
    pub slots: Vec<u32>,
    /// Shape: `[rows]`; the row's sequence.
    pub sequences: Vec<u32>,
    /// Shape: `[sequences + 1]`; the start of each sequence's blocks in `blocks`.
    pub block_starts: Vec<u32>,
    /// All sequences' blocks, one sequence after the other.
    pub blocks: Vec<u32>,
    /// Shape: `[sequences]`; the adapter of each sequence's rows.
    pub adapters: Vec<Option<u32>>,
    /// Shape: `[sequences]`, or empty for a model without recurrent states; the slot of each sequence's
    /// state.
    pub state_slots: Vec<u32>,
    /// Rows with next-token logits, ascending.
    pub wanted: Vec<u32>,
    /// Rows with hidden states, ascending.
    pub noted: Vec<u32>,
    /// The numbers of layers after which they are captured, ascending; all layers only of a model with a
    /// score head.
    pub depths: Vec<u32>,
    /// Number of layers to compute; `None` for all of them. Only a step of all layers has logits.
    pub n_layers: Option<u32>,
    /// Shape: `[rows]`; all rows, those that read the same blocks side by side, a sequence's rows by
    /// position.
    pub order: Vec<u32>,
    /// Blocks to copy, `(from, to)`, before anything is computed.
    pub copies: Vec<(u32, u32)>,
    /// Recurrent states to copy, `(from, to)`, one after the other, before anything is computed.
    pub state_copies: Vec<(u32, u32)>,
}

impl Step {
    /// Describes a step of these parts.
    ///
    /// # Panics
    /// When a part's blocks do not hold its tokens.
    pub fn new<'a>(parts: impl IntoIterator<Item = Part<'a>>, copies: Vec<(u32, u32)>) -> Self {
        let mut step = Self { block_starts: vec![0], copies, ..Self::default() };
        let mut first_rows = vec![0];
        for part in parts {
            step.push(&part);
            first_rows.push(step.tokens.len() as u32);
        }
        let mut sequences: Vec<usize> = (0..first_rows.len() - 1).collect();
        // Sequences share blocks from their beginnings on, so that sorting makes those with shared blocks
        // neighbours.
        sequences.sort_by(|&a, &b| step.blocks_of(a).cmp(step.blocks_of(b)));
        step.order = sequences.iter().flat_map(|&s| first_rows[s]..first_rows[s + 1]).collect();
        step
    }

    /// This step, with hidden states after so many layers.
    #[must_use]
    pub fn at_depths(self, depths: impl IntoIterator<Item = u32>) -> Self {
        let depths: BTreeSet<u32> = depths.into_iter().collect();
        Self { depths: depths.into_iter().collect(), ..self }
    }

    /// This step, with recurrent states copied before.
    #[must_use]
    pub fn with_state_copies(self, state_copies: Vec<(u32, u32)>) -> Self {
        Self { state_copies, ..self }
    }

    /// This step, of which only so many layers are computed.
    ///
    /// # Panics
    /// When a step of fewer than all layers has rows with logits.
    #[must_use]
    pub fn up_to_layer(self, n_layers: Option<u32>) -> Self {
        assert!(n_layers.is_none() || self.wanted.is_empty(), "logits come from the last layer");
        Self { n_layers, ..self }
    }

    fn push(&mut self, part: &Part<'_>) {
        let (sequence, first) = (self.block_starts.len() as u32 - 1, self.tokens.len());
        for position in part.position..part.position + part.tokens.len() {
            self.positions.push(position as u32);
            self.slots.push(part.blocks[position / BLOCK] * BLOCK as u32 + (position % BLOCK) as u32);
            self.sequences.push(sequence);
        }
        self.tokens.extend_from_slice(part.tokens);
        self.wanted.extend((first + part.logits_from..self.tokens.len()).map(|row| row as u32));
        self.noted.extend((first + part.states_from..self.tokens.len()).map(|row| row as u32));
        self.blocks.extend_from_slice(part.blocks);
        self.block_starts.push(self.blocks.len() as u32);
        self.adapters.push(part.adapter);
        self.state_slots.extend(part.state);
    }

    /// The rows of each sequence, which are side by side.
    pub fn rows_of_sequences(&self) -> Vec<Range<usize>> {
        let mut end = 0;
        (0..self.adapters.len() as u32)
            .map(|sequence| {
                let n = self.sequences[end..].iter().take_while(|of| **of == sequence).count();
                end += n;
                end - n..end
            })
            .collect()
    }

    /// Rows of the step.
    pub fn n_rows(&self) -> usize {
        self.tokens.len()
    }

    /// The rows that go to the same block, one run after another: the part that one task may write.
    pub fn runs(&self) -> Vec<Range<usize>> {
        let mut end = 0;
        let run = |run: &[u32]| {
            end += run.len();
            end - run.len()..end
        };
        self.slots.chunk_by(|a, b| a / BLOCK as u32 == b / BLOCK as u32).map(run).collect()
    }

    /// Checks that the model has the step's adapters.
    ///
    /// # Errors
    /// The first such adapter.
    pub fn check_adapters(&self, n_adapters: usize) -> Result<()> {
        match self.adapters.iter().flatten().find(|&&adapter| adapter as usize >= n_adapters) {
            Some(adapter) => Err(Error::Step(format!("adapter {adapter} of a model with {n_adapters}"))),
            None => Ok(()),
        }
    }

    /// Checks that a model with `n_blocks` blocks of cache and a vocabulary of `vocab` can run the step, on
    /// any number of threads: no block is written from two places.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self, n_blocks: usize, vocab: usize) -> Result<()> {
        let copied = self.copies.iter().flat_map(|&(from, to)| [from, to]);
        if let Some(block) =
            copied.chain(self.blocks.iter().copied()).find(|&block| block as usize >= n_blocks)
        {
            return Err(Error::Step(format!("block {block} of a cache of {n_blocks}")));
        }
        if let Some(&id) = self.tokens.iter().find(|&&id| id as usize >= vocab) {
            return Err(Error::Token { id, vocab });
        }
        let mut written: Vec<u32> =
            self.runs().into_iter().map(|run| self.slots[run.start] / BLOCK as u32).collect();
        written.sort_unstable();
        match written.array_windows().find(|[a, b]| a == b) {
            Some([block, _]) => Err(Error::Step(format!("block {block} is written from two places"))),
            None => Ok(()),
        }
    }

    /// Checks that every sequence has a state of its own among `n_slots`.
    ///
    /// # Errors
    /// The first fault.
    pub fn check_states(&self, n_slots: usize) -> Result<()> {
        let (n_sequences, n_states) = (self.adapters.len(), self.state_slots.len());
        if n_states != n_sequences {
            return Err(Error::Step(format!("{n_states} recurrent states of {n_sequences} sequences")));
        }
        let copied = self.state_copies.iter().flat_map(|&(from, to)| [from, to]);
        if let Some(slot) =
            copied.chain(self.state_slots.iter().copied()).find(|&slot| slot as usize >= n_slots)
        {
            return Err(Error::Step(format!("recurrent state {slot} of {n_slots}")));
        }
        let mut slots = self.state_slots.clone();
        slots.sort_unstable();
        match slots.array_windows().find(|[a, b]| a == b) {
            Some([slot, _]) => Err(Error::Step(format!("recurrent state {slot} belongs to two sequences"))),
            None => Ok(()),
        }
    }

    /// The blocks of one sequence.
    ///
    /// # Panics
    /// When there are fewer sequences.
    pub fn blocks_of(&self, sequence: usize) -> &[u32] {
        &self.blocks[self.block_starts[sequence] as usize..self.block_starts[sequence + 1] as usize]
    }

    /// The blocks that a row reads from.
    ///
    /// # Panics
    /// When there are fewer rows.
    pub fn blocks_of_row(&self, row: u32) -> &[u32] {
        self.blocks_of(self.sequences[row as usize] as usize)
    }

    /// All rows that take an adapter, by adapter; empty when none does.
    pub fn adapted(&self) -> Vec<Adapted> {
        self.by_adapter(0..self.n_rows() as u32)
    }

    /// The rows with logits that take an adapter, by adapter; as indices into `wanted`.
    pub fn wanted_adapted(&self) -> Vec<Adapted> {
        self.by_adapter(self.wanted.iter().copied())
    }

    fn by_adapter(&self, rows: impl Iterator<Item = u32>) -> Vec<Adapted> {
        let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        if self.adapters.iter().any(Option::is_some) {
            for (place, row) in rows.enumerate() {
                if let Some(adapter) = self.adapters[self.sequences[row as usize] as usize] {
                    groups.entry(adapter).or_default().push(place as u32);
                }
            }
        }
        groups.into_iter().map(|(adapter, rows)| Adapted { adapter, rows }).collect()
    }

    /// The indices into `wanted`; rows that read the same blocks are neighbours.
    pub fn wanted_order(&self) -> Vec<u32> {
        let mut place = vec![u32::MAX; self.n_rows()];
        for (i, &row) in self.wanted.iter().enumerate() {
            place[row as usize] = i as u32;
        }
        self.order.iter().map(|&row| place[row as usize]).filter(|&i| i != u32::MAX).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_know_their_places_and_those_that_share_blocks_stand_together() {
        let tokens: Vec<u32> = (0..20).collect();
        let part = |n: usize, position, blocks, logits_from| Part {
            tokens: &tokens[..n],
            position,
            blocks,
            logits_from,
            states_from: n,
            adapter: (position == 0).then_some(3),
            state: None,
        };
        let step = Step::new(
            [part(1, 16, &[7, 3][..], 0), part(18, 0, &[2, 9], 18), part(2, 17, &[7, 1], 1)],
            vec![(7, 1)],
        );
        assert_eq!(step.n_rows(), 21);
        assert_eq!((step.positions[0], step.slots[0]), (16, 48));
        assert_eq!((step.slots[1], step.slots[16], step.slots[17]), (32, 47, 144));
        assert_eq!((step.positions[20], step.slots[20]), (18, 18));
        assert_eq!(step.wanted, [0, 20]);
        assert_eq!(step.blocks_of_row(20), [7, 1]);
        assert_eq!(step.order[..3], [1, 2, 3], "block 2 comes before block 7");
        assert_eq!(step.order[18..], [19, 20, 0], "two sequences begin with block 7");
        assert_eq!(step.wanted_order(), [1, 0]);
        assert_eq!(step.adapters, [None, Some(3), None]);
        assert_eq!(step.adapted(), [Adapted { adapter: 3, rows: (1..19).collect() }]);
        assert_eq!(step.wanted_adapted(), [], "none of its rows is wanted");
        assert!(step.check_adapters(4).is_ok());
        assert!(step.check_adapters(3).unwrap_err().to_string().contains("adapter 3 of a model with 3"));
        assert_eq!(step.runs(), [0..1, 1..17, 17..19, 19..21]);
        assert!(step.check(10, 20).is_ok());
        assert!(step.check(9, 20).unwrap_err().to_string().contains("block 9 of a cache of 9"));
        assert!(matches!(step.check(10, 17), Err(Error::Token { id: 17, vocab: 17 })));
        let twice = [part(1, 3, &[5], 1), part(1, 3, &[6], 1), part(1, 4, &[5], 1)];
        let twice = Step::new(twice, Vec::new());
        assert!(twice.check(10, 20).unwrap_err().to_string().contains("written from two places"));
    }
}
