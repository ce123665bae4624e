//! A rope's tables on the device: for all announced positions, and beyond them for a longer sequence.

use super::{
    Error,
    memory::{Memory, STEPS},
    weight_upload::WeightUpload,
};
use tribunal_model::{angles::Angles, config::Rope};

/// Cosines and sines of a rope's angles.
pub(super) struct RopeTable {
    angles: Angles,
    /// Cosines, then sines.
    tables: Option<(Memory, Memory)>,
}

impl RopeTable {
    pub(super) fn new(rope: &Rope, head_dim: usize) -> Self {
        Self { angles: Angles::new(rope, head_dim), tables: None }
    }

    /// The addresses of cosines and sines.
    pub(super) fn at(&self) -> (u64, u64) {
        self.tables.as_ref().map_or((0, 0), |(cos, sin)| (cos.at(), sin.at()))
    }

    /// Allocated bytes of the tables of `n` positions.
    pub(super) fn bytes(&self, n: usize) -> usize {
        2 * (4 * n * self.angles.half()).next_multiple_of(256)
    }

    /// Ensures that the first `n` positions are on the device; returns true if the tables have moved.
    ///
    /// # Errors
    /// The device has no memory for them, or fails.
    pub(super) fn reach(&mut self, n: usize, upload: &mut WeightUpload) -> Result<bool, Error> {
        if n <= self.angles.n_positions() && self.tables.is_some() {
            return Ok(false);
        }
        self.make(n.next_power_of_two().max(1024), upload)?;
        Ok(true)
    }

    /// Uploads the tables of the first `n` positions, or of more if there were more.
    ///
    /// # Errors
    /// Those of [`RopeTable::reach`].
    pub(super) fn make(&mut self, n: usize, upload: &mut WeightUpload) -> Result<(), Error> {
        self.angles.reach(n);
        let bytes = |table: &[f32]| table.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let (cos, sin) = self.angles.tables();
        // The step before may still read the old tables.
        upload.finish()?;
        self.tables = None;
        self.tables = Some((upload.bytes(&bytes(cos), STEPS)?, upload.bytes(&bytes(sin), STEPS)?));
        upload.finish()
    }
}
