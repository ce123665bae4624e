//! What the other files of this folder offer, in a build without CUDA: no GPU can be opened there.

use std::convert::Infallible;

use super::{Effort, Error, Peak, products::Kind};
use crate::model::{Config, Model, Weights};

/// A GPU; in this build there is none.
#[derive(Clone, Debug)]
pub struct Gpu {
    never: Infallible,
}

impl Gpu {
    /// # Errors
    /// Always: this binary was built without CUDA.
    pub fn open(_: usize) -> Result<Self, Error> {
        Err(Error::NotBuilt)
    }

    /// The GPU's number.
    #[must_use]
    pub fn ordinal(&self) -> usize {
        match self.never {}
    }

    /// Its generation as far as that can move a bit: the first digits of its compute capability.
    #[must_use]
    pub fn generation(&self) -> String {
        match self.never {}
    }

    /// Bytes that can still be allocated, and all bytes.
    ///
    /// # Errors
    /// The device fails.
    pub fn memory(&self) -> Result<(usize, usize), Error> {
        match self.never {}
    }

    /// What the GPU is called.
    #[must_use]
    pub fn name(&self) -> &str {
        match self.never {}
    }

    #[must_use]
    pub fn without_cascade(&self) -> Self {
        match self.never {}
    }

    #[must_use]
    pub fn without_graphs(&self) -> Self {
        match self.never {}
    }

    #[must_use]
    pub fn whole_steps(&self) -> usize {
        match self.never {}
    }

    /// # Errors
    /// The device fails.
    pub fn multiply_tiles(&self, _: &[u16], _: &[u16], _: &[f32]) -> Result<Vec<f32>, Error> {
        match self.never {}
    }

    /// # Errors
    /// The device fails.
    pub fn products(
        &self,
        _: Kind,
        _: &[u16],
        _: &[u8],
        _: [usize; 3],
    ) -> Result<Vec<(&'static str, Vec<f32>)>, Error> {
        match self.never {}
    }

    /// # Errors
    /// The device fails.
    pub fn peak(&self, _: Effort) -> Result<Peak, Error> {
        match self.never {}
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
        match self.never {}
    }
}

/// # Errors
/// Never: there is no GPU to load anything onto.
pub fn load(gpu: &Gpu, _: &Weights) -> Result<Box<dyn Model>, crate::model::Error> {
    match gpu.never {}
}
