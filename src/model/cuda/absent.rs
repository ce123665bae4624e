//! What the other files of this folder offer, in a build without CUDA: no GPU can be opened there.

use super::Error;
use crate::model::{Model, Weights};

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
}

/// # Errors
/// Never: there is no GPU to load anything onto.
pub fn load(gpu: &Gpu, _: &Weights) -> Result<Box<dyn Model>, crate::model::Error> {
    match *gpu {}
}
