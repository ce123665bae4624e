//! The memory of split-K reductions in kernels: partial sums and semaphores. It chooses no kernel.

use super::{STRIP, cost::ENOUGH};

/// The workspace of split-K reductions in kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SplitK {
    /// The most elements of partial sums, and the most of a row.
    most: usize,
    of_row: usize,
}

impl SplitK {
    /// Bytes of the semaphores: one for each warp's outputs of tiles of 64 tokens, of which four make one of
    /// 256.
    pub(crate) const SEMAPHORE_BYTES: usize = 4 * 4 * ENOUGH * 128 / STRIP;

    /// Adds a weight `[n, k]` in slices of so many values of `k` to the needed memory.
    pub(crate) fn add_weight(&mut self, n: usize, k: usize, k_slice: usize) {
        if k <= k_slice {
            return;
        }
        let of_row = k.div_ceil(k_slice) * n.next_multiple_of(128);
        let most_rows = (ENOUGH - 1) / n.div_ceil(128) * 256;
        self.most = self.most.max(most_rows * of_row);
        self.of_row = self.of_row.max(of_row);
    }

    /// Elements of the partial sums of so many rows.
    pub(crate) fn partial_len(self, rows: usize) -> usize {
        self.most.min(rows.next_multiple_of(256) * self.of_row)
    }
}
