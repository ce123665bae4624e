//! Residual sums and norms: the launch of `kernels/norm.cu`.

#![expect(unsafe_code, reason = "kernel launches trust their arguments")]

use super::{
    super::{
        Error,
        arena::Slot,
        launch::{Argument, Shape},
        memory::Memory,
    },
    Cuda, Values,
};

/// What is added to rows before they are normed.
#[derive(Clone, Copy)]
pub(in crate::model::cuda) enum Add<'a> {
    Nothing,
    /// Rows by a norm of their own.
    Normed {
        values: &'a Values,
        weight: &'a Memory,
    },
    Sums(Sums<'a>),
}

/// Split-K partial sums of a product, not added yet.
#[derive(Clone, Copy)]
pub(in crate::model::cuda) struct Sums<'a> {
    /// `[n, rows, cols]` f32.
    pub at: u64,
    pub n: usize,
    pub bias: Option<&'a Memory>,
}

impl Cuda {
    /// Adds to `x`; gives the norm of the sum.
    pub(in crate::model::cuda) fn residual_norm(
        &self,
        x: &Values,
        add: Add<'_>,
        weight: &Memory,
    ) -> Result<Values, Error> {
        let cols = self.config.hidden;
        let out = self.values(Slot::Normed, x.n_rows, 2 * cols)?;
        let (added, n_added, bias, norm) = match add {
            Add::Nothing => (0, 0, 0, 0),
            Add::Normed { values, weight } => (values.at(), 1, 0, weight.at()),
            Add::Sums(sums) => (sums.at, sums.n, sums.bias.map_or(0, Memory::at), 0),
        };
        let shared_bytes = (4 * cols).next_multiple_of(16) as u32;
        let shape = Shape { shared_bytes, ..Shape::new([x.n_rows, 1], 256) };
        let added = [Argument::At(added), Argument::size(n_added)];
        let pointers = [bias, norm, weight.at(), out.at()].map(Argument::At);
        let sizes = [x.n_rows, cols].map(Argument::size);
        let arguments = [&[Argument::At(x.at())][..], &added, &pointers, &sizes, &[self.eps()]].concat();
        // SAFETY: x is [rows, cols] f32, the added sums [n_added, rows, cols] f32, out [rows, cols] bf16, weights and
        // bias are [cols] f32; all are 256-byte aligned and freed only after the stream is synchronised.
        unsafe { self.launch(("norm", "residual_norm"), shape, &arguments)? };
        Ok(out)
    }
}
