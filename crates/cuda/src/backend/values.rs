//! Rows of values on the device.

use tribunal_model::config::AttentionKind;

/// Rows on the device; of f32 in the stream, of bf16 elsewhere.
#[derive(Clone, Copy)]
pub struct Values {
    pub(super) at: u64,
    pub(super) n_rows: usize,
}

impl Values {
    pub(crate) fn new(at: u64, n_rows: usize) -> Self {
        Self { at, n_rows }
    }

    pub(crate) fn n_rows(self) -> usize {
        self.n_rows
    }

    /// Their address on the device.
    pub(crate) fn at(self) -> u64 {
        self.at
    }
}

/// Rows of queries, in bf16, with the width of one kind of attention.
#[derive(Clone, Copy)]
pub struct Queries {
    pub(super) values: Values,
    pub(super) kind: AttentionKind,
}
