//! The gathering of rows of which each card has computed some columns: every card copies the others' columns,
//! from their memory or from a staging area. Nothing is added up.

#![expect(unsafe_code, reason = "kernel launches trust their arguments")]

use std::ops::Range;

use super::{
    super::{
        Error,
        backend::Values,
        launch::{Argument, Shape},
        shard::MOST_CARDS,
    },
    Detour, Ranks,
};
use tribunal_model::Result;

/// Rows of which each card has some columns.
pub(super) struct Columns<'a> {
    /// The location of each card's piece.
    pub pieces: &'a [Values],
    /// The end of each card's columns, in bytes of a whole row.
    pub ends: Vec<usize>,
    /// True if a piece has room for whole rows, with its columns in their place.
    pub in_place: bool,
}

impl Columns<'_> {
    /// Bytes of a whole row.
    fn width(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The columns of one card, in bytes of a whole row.
    fn of(&self, card: usize) -> Range<usize> {
        let first = card.checked_sub(1).map_or(0, |before| self.ends[before]);
        first..self.ends[card]
    }

    /// The address of the rows from `row` on in a card's piece.
    fn piece(&self, card: usize, row: usize) -> u64 {
        let of_row = if self.in_place { self.width() } else { self.of(card).len() };
        self.pieces[card].at() + (row * of_row) as u64
    }

    /// The address at which a card leaves its columns of `n` rows for the others, in memory that begins at
    /// `half`.
    fn left(&self, card: usize, n: usize, half: u64) -> u64 {
        half + if self.in_place { 0 } else { n * self.of(card).start } as u64
    }
}

impl Ranks {
    /// Gathers rows on every card that has a place in `to`, in that place: after all work that computes them,
    /// and before all later work of these cards.
    pub(super) fn exchange(&mut self, columns: &Columns<'_>, to: &[Values]) -> Result<()> {
        let n_rows = columns.pieces[0].n_rows();
        let all = n_rows.max(1);
        let at_once = self.detour.as_ref().map_or(Ok(all), |_| Detour::rows_of(columns.width()))?;
        for first in (0..n_rows).step_by(at_once) {
            let rows = first..n_rows.min(first + at_once);
            let half = self.detour.as_mut().map(Detour::next_half);
            if let Some(half) = half {
                // A card that gathers alone does not leave its own columns.
                let is_read = |card: usize| to.len() > 1 || card > 0;
                self.each(|i, _| if is_read(i) { self.leave(i, columns, &rows, half) } else { Ok(()) })?;
            }
            self.synchronize()?;
            self.each(|i, _| match to.get(i) {
                Some(to) => self.take_others(i, columns, &rows, (to.at(), half)),
                None => Ok(()),
            })?;
        }
        Ok(())
    }

    /// Copies a card's columns of some rows to memory that the others reach.
    fn leave(&self, card: usize, columns: &Columns<'_>, rows: &Range<usize>, half: u64) -> Result<(), Error> {
        let mut pieces = [0; MOST_CARDS];
        let from = columns.piece(card, rows.start);
        let to = columns.left(card, rows.len(), half);
        if columns.in_place {
            pieces[card] = from;
            return self.gather(card, &pieces, (&columns.ends, true), (to, rows.len()));
        }
        pieces[0] = from;
        self.gather(card, &pieces, (&[columns.of(card).len()], false), (to, rows.len()))
    }

    /// Gathers some rows on one card, at `to` for the first row of all. The cards have synchronised since the
    /// pieces were computed, and left.
    fn take_others(
        &self,
        card: usize,
        columns: &Columns<'_>,
        rows: &Range<usize>,
        (to, half): (u64, Option<u64>),
    ) -> Result<(), Error> {
        let mut pieces = [0; MOST_CARDS];
        for (i, piece) in pieces.iter_mut().enumerate().take(self.cards.len()) {
            *piece = match half {
                // Its own columns are in place already.
                _ if columns.in_place && i == card => 0,
                Some(half) if i != card => columns.left(i, rows.len(), half),
                _ => columns.piece(i, rows.start),
            };
        }
        let to = to + (rows.start * columns.width()) as u64;
        self.gather(card, &pieces, (&columns.ends, columns.in_place), (to, rows.len()))
    }

    /// Launches `kernels/gather.cu` on a card, for pieces whose columns end at `ends`, in bytes.
    fn gather(
        &self,
        card: usize,
        pieces: &[u64; MOST_CARDS],
        (ends, in_place): (&[usize], bool),
        (to, n_rows): (u64, usize),
    ) -> Result<(), Error> {
        let width = ends.last().copied().unwrap_or(0);
        let (kernel, unit) =
            if ends.iter().all(|end| end.is_multiple_of(16)) { ("gather_16", 16) } else { ("gather_4", 4) };
        let end = |i: usize| Argument::size(ends.get(i).copied().unwrap_or(width) / unit);
        let mut arguments: Vec<Argument> = pieces.iter().copied().map(Argument::At).collect();
        arguments.extend((0..MOST_CARDS).map(end));
        let last = [n_rows, width / unit, usize::from(in_place)].map(Argument::size);
        arguments.extend([&[Argument::At(to)][..], &last].concat());
        let shape = Shape::new([n_rows, (width / unit).div_ceil(256)], 256);
        // SAFETY: each piece has its columns of `n_rows` rows and `to` room for whole rows, aligned to the
        // kernel's columns; the card has access to all of them, and none is freed before `finish` has
        // synchronised every card.
        unsafe { self.cards[card].cuda.launch(("gather", kernel), shape, &arguments) }
    }
}
