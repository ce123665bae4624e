//! Rows of values on the device.

use crate::model::config::AttentionKind;

/// Rows on the device; of f32 in the stream, of bf16 elsewhere.
#[derive(Clone, Copy)]
pub struct Values {
    pub(super) at: u64,
    pub(super) n_rows: usize,
}

impl Values {
    pub(in crate::model::cuda) fn new(at: u64, n_rows: usize) -> Self {
        Self { at, n_rows }
    }

    pub(in crate::model::cuda) fn n_rows(self) -> usize {
        self.n_rows
    }

    /// Their address on the device.
    pub(in crate::model::cuda) fn at(self) -> u64 {
        self.at
    }
}

/// Rows of queries, in bf16, with the width of one kind of attention.
#[derive(Clone, Copy)]
pub struct Queries {
    pub(super) values: Values,
    pub(super) kind: AttentionKind,
}
