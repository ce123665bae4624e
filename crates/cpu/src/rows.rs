//! Rows of floats between operations, and their order for attention. It computes nothing.

/// Rows of the step, in the order for attention.
#[derive(Default)]
pub(super) struct RowOrder {
    pub rows: Vec<u32>,
    pub order: Vec<u32>,
}

/// Queries, and the gate of the values that they attend to.
///
/// Shape: `[rows, heads head_dim]`, each.
pub struct Queries {
    pub(super) values: Floats,
    pub(super) gate: Option<Floats>,
}

/// Rows of floats, side by side.
pub struct Floats {
    pub(super) values: Vec<f32>,
    pub(super) width: usize,
}

impl Floats {
    pub(super) fn n_rows(&self) -> usize {
        self.values.len() / self.width
    }

    pub(super) fn take(&self, rows: &[u32]) -> Self {
        let row = |&row: &u32| &self.values[row as usize * self.width..][..self.width];
        Self { values: rows.iter().flat_map(row).copied().collect(), width: self.width }
    }
}
