//! Exchange of rows between GPUs without access to each other's memory: through page-locked memory of this
//! machine, which all of them can access. It copies nothing itself.
//!
//! It has two halves, used alternately. A GPU's rows in one half are read by the others after they
//! synchronise; at the next synchronisation, of the other half, all have read them, and the half is written
//! again. So an exchange needs no second synchronisation, and a half may be small: many rows are exchanged in
//! several rounds.

use super::super::{Error, Gpu, memory::Mapped};

/// Bytes of a half. Enough for the rows of a step of answers; long prompts are exchanged in several rounds,
/// of which one is written while the last is read.
const HALF: usize = 4 << 20;

/// Memory that all GPUs of a group can access.
pub(super) struct Detour {
    memory: Mapped,
    round: usize,
}

impl Detour {
    /// # Errors
    /// The system has not that much memory to lock.
    pub(super) fn new(gpu: &Gpu) -> Result<Self, Error> {
        gpu.here()?;
        Ok(Self { memory: Mapped::new(gpu.context(), 2 * HALF)?, round: 0 })
    }

    /// Begins a step with the same half as every other, so that recorded ones can be launched in any order.
    /// The GPUs must have synchronised after the last step.
    pub(super) fn begin(&mut self) {
        self.round = 0;
    }

    /// The address of the half for the next rows.
    pub(super) fn next_half(&mut self) -> u64 {
        let half = self.round % 2;
        self.round += 1;
        self.memory.at() + (half * HALF) as u64
    }

    /// Number of rows of so many bytes that are exchanged at a time.
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
