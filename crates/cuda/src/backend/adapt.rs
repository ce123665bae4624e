//! The updates of adapters to a product: the launches of `kernels/adapter.cu`.

use super::{
    super::{
        Error,
        adapter::ITEM_ROWS,
        arena::Slot,
        launch::{Argument, Shape},
        weights::Linear,
    },
    Cuda, Values,
};

/// Threads of a block, and the ranks that one computes; must equal those in `kernels/adapter.cu`.
const THREADS: u32 = 256;
const RANKS: usize = 4;

impl Cuda {
    /// Returns true if the current rows have adapters with an update of this product.
    pub(super) fn adds_adapters(&self, w: &Linear) -> bool {
        self.plan.adapted.n_items > 0 && w.adapters.table().is_some()
    }

    /// `y += scale B (A x)` for the current rows that take an adapter. Nothing is launched without such rows,
    /// or where no adapter has an update of these matrices.
    pub(super) fn add_adapters(&self, x: &Values, w: &Linear, (y, ldy): (u64, usize)) -> Result<(), Error> {
        let adapted = self.plan.adapted;
        let Some(table) = w.adapters.table().filter(|_| adapted.n_items > 0) else { return Ok(()) };
        let (n_items, n_matrices) = (adapted.n_items, table.n_matrices);
        let bytes = 4 * n_items * n_matrices * table.max_rank * ITEM_ROWS;
        let hidden = self.slot(Slot::Hidden, bytes)?;
        let (pairs, items) = (table.memory.at(), adapted.items.from(self.numbers()?));
        let launch = |kernel, n_blocks: usize, pointers: [u64; 4], sizes: [usize; 3]| {
            let grid = [n_items as u32, n_matrices as u32, n_blocks as u32];
            let shape = Shape { grid, block: [THREADS, 1], shared_bytes: 0 };
            let arguments = [&pointers.map(Argument::At)[..], &sizes.map(Argument::size)].concat();
            // SAFETY: x is [rows, w.k] bf16 and y [rows, ldy] f32, the items' rows are among them and their
            // adapters in the table, and the slot of `hidden` has `bytes`. All are 16-byte aligned and freed
            // only after the stream is synchronised.
            unsafe { self.launch(("adapter", kernel), shape, &arguments) }
        };
        let (shrink, expand) = (table.max_rank.div_ceil(RANKS), table.max_outputs.div_ceil(THREADS as usize));
        let sizes = [w.k, n_matrices, table.max_rank];
        launch("adapter_shrink", shrink, [x.at(), pairs, items, hidden], sizes)?;
        let sizes = [n_matrices, table.max_rank, ldy];
        launch("adapter_expand", expand, [pairs, items, hidden, y], sizes)
    }
}
