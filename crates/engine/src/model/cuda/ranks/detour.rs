//! The way around for GPUs that do not reach each other's memory: page-locked memory of this machine, which all of them
//! reach. It copies nothing itself.
//!
//! It has two halves, which take turns. What a GPU leaves in one is read by the others after they meet; at the meeting
//! behind that, about the other half, all have read it, and it is written again. So rows that cross need no second
//! meeting, and a half may be small: many rows cross in several turns.

use super::super::{Error, Gpu, memory::Mapped};

/// Bytes of a half. Enough for the rows of a step of answers; long prompts cross in several turns, of which one is
/// written while the last is read.
const HALF: usize = 4 << 20;

/// Memory that all GPUs of a group reach.
pub(super) struct Detour {
    memory: Mapped,
    turn: usize,
}

impl Detour {
    /// # Errors
    /// The system has not that much memory to lock.
    pub(super) fn new(gpu: &Gpu) -> Result<Self, Error> {
        gpu.here()?;
        Ok(Self { memory: Mapped::new(gpu.context(), 2 * HALF)?, turn: 0 })
    }

    /// Begins a step with the same half as every other, so that recorded ones can be launched in any order. All that
    /// the last step told the GPUs must be behind a meeting.
    pub(super) fn begin(&mut self) {
        self.turn = 0;
    }

    /// Where the next rows cross.
    pub(super) fn next_half(&mut self) -> u64 {
        let half = self.turn % 2;
        self.turn += 1;
        self.memory.at() + (half * HALF) as u64
    }

    /// How many rows of so many bytes cross at a time.
    ///
    /// # Errors
    /// Not even one fits.
    pub(super) fn rows_of(width: usize) -> Result<usize, Error> {
        match HALF / width.max(1) {
            0 => Err(Error::Room(format!("a row of {width} bytes between GPUs in {HALF}"))),
            n => Ok(n),
        }
    }
}
