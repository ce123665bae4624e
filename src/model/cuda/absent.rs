//! What the other files of this folder offer, in a build without CUDA: no GPU can be opened there.

use super::{Effort, Error, Peak};
use crate::model::{Config, Model, Weights};

/// A GPU; in this build there is none.
#[derive(Clone, Debug)]
pub enum Gpu {}

impl Gpu {
    /// # Errors
    /// Always: this binary was built without CUDA.
    pub fn open(_: usize) -> Result<Self, Error> {
        Err(Error::NotBuilt)
    }

    /// The GPU's number.
    #[must_use]
    pub fn ordinal(&self) -> usize {
        match *self {}
    }

    /// Its generation as far as that can move a bit: the first digits of its compute capability.
    #[must_use]
    pub fn generation(&self) -> String {
        match *self {}
    }

    /// Bytes that can still be allocated, and all bytes.
    ///
    /// # Errors
    /// The device fails.
    pub fn memory(&self) -> Result<(usize, usize), Error> {
        match *self {}
    }

    /// What the GPU is called.
    #[must_use]
    pub fn name(&self) -> &str {
        match *self {}
    }

    #[must_use]
    pub fn without_cascade(&self) -> Self {
        match *self {}
    }

    /// # Errors
    /// The device fails.
    pub fn multiply_tiles(&self, _: &[u16], _: &[u16], _: &[f32]) -> Result<Vec<f32>, Error> {
        match *self {}
    }

    /// # Errors
    /// The device fails.
    pub fn peak(&self, _: Effort) -> Result<Peak, Error> {
        match *self {}
    }

    /// # Errors
    /// The device fails.
    pub fn product_seconds(
        &self,
        _: &Config,
        _: [usize; 2],
        _: &[usize],
        _: usize,
    ) -> Result<Vec<f64>, Error> {
        match *self {}
    }

    /// # Errors
    /// As the decoder's.
    pub fn load(&self, _: &Weights) -> Result<Box<dyn Model>, crate::model::Error> {
        match *self {}
    }
}
