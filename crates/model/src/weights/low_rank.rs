//! Low-rank matrices that are added to those of a checkpoint when these are read: the arithmetic.

/// The product of two narrow matrices, as LoRA's with a scale of 1.
#[derive(Clone, Debug, PartialEq)]
pub struct LowRank {
    pub rank: usize,
    /// Shape: `[rank, inputs]`.
    pub a: Vec<f32>,
    /// Shape: `[outputs, rank]`.
    pub b: Vec<f32>,
}

impl LowRank {
    /// Outputs and inputs.
    pub(super) fn shape(&self) -> [usize; 2] {
        [&self.b, &self.a].map(|side| side.len() / self.rank.max(1))
    }

    /// The sum with a matrix of the same shape.
    pub(super) fn added_to(&self, mut values: Vec<f32>) -> Vec<f32> {
        let [_, n_columns] = self.shape();
        for (row, weights) in values.chunks_exact_mut(n_columns).zip(self.b.chunks_exact(self.rank)) {
            for (weight, of_a) in weights.iter().zip(self.a.chunks_exact(n_columns)) {
                row.iter_mut().zip(of_a).for_each(|(sum, x)| *sum += weight * x);
            }
        }
        values
    }
}
