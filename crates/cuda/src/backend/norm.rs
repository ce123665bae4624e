//! Residual sums and norms: the launch of `kernels/norm.cu`.

#![expect(unsafe_code, reason = "kernel launches trust their arguments")]

use super::{
    super::{
        Error,
        arena::Slot,
        experts::Experts,
        launch::{Argument, Shape},
        memory::Memory,
    },
    Cuda, Values,
};
use tribunal_model::backend::{LayerNorm, Normed};

/// The addends of rows before their norm.
#[derive(Clone, Copy)]
pub(crate) enum Add<'a> {
    Nothing,
    /// Rows by a norm of their own.
    Normed {
        values: &'a Values,
        weight: &'a Memory,
    },
    Sums(Sums<'a>),
    /// The sum of each row's experts, by a norm of its own if there is one.
    Experts {
        experts: &'a Experts,
        norm: Option<&'a Memory>,
    },
}

/// Split-K partial sums of a product, not added yet.
#[derive(Clone, Copy)]
pub(crate) struct Sums<'a> {
    /// `[n, rows, cols]` f32.
    pub at: u64,
    pub n: usize,
    pub bias: Option<&'a Memory>,
}

impl Cuda {
    /// Adds to `x` and multiplies the sum by `scale`; returns the norm of the result, or the result itself
    /// without a weight.
    pub(crate) fn residual_norm(
        &self,
        x: &Values,
        (add, scale): (Add<'_>, f32),
        weight: Option<&Memory>,
    ) -> Result<Values, Error> {
        let cols = self.config.hidden;
        let out = self.values(Slot::Normed, x.n_rows, 2 * cols)?;
        let (mut kernel, at) = ("residual_norm", |memory: Option<&Memory>| memory.map_or(0, Memory::at));
        let sums = |[at, bias]: [u64; 2], n| vec![Argument::At(at), Argument::size(n), Argument::At(bias)];
        let (added, norm) = match add {
            Add::Nothing => (sums([0; 2], 0), 0),
            Add::Normed { values, weight } => (sums([values.at(), 0], 1), weight.at()),
            Add::Sums(of) => (sums([of.at, at(of.bias)], of.n), 0),
            Add::Experts { experts, norm } => {
                kernel = "residual_norm_of_experts";
                let top_k = Argument::size(experts.routing.top_k);
                ([&self.outputs_of(x.n_rows, experts)?[..], &[top_k]].concat(), at(norm))
            }
        };
        let shared_bytes = (4 * cols).next_multiple_of(16) as u32;
        let shape = Shape { shared_bytes, ..Shape::new([x.n_rows, 1], 256) };
        let pointers = [norm, at(weight), out.at()].map(Argument::At);
        let sizes = [x.n_rows, cols].map(Argument::size);
        let floats = [self.eps(), Argument::Float(scale), self.is_centred()];
        let arguments = [&[Argument::At(x.at())][..], &added, &pointers, &sizes, &floats].concat();
        // SAFETY: x is [rows, cols] f32, the added sums [n_added, rows, cols] f32, out [rows, cols] bf16,
        // weights and bias are [cols] f32, a sum of experts is as for `merge_experts`; all are 256-byte
        // aligned and freed only after the stream is synchronised.
        unsafe { self.launch(("norm", kernel), shape, &arguments)? };
        Ok(out)
    }

    /// Adds a dense half and the experts beside it to `x`: each normed, and their sum where there is such a
    /// norm. Returns the norm of the new x.
    pub(crate) fn add_both(
        &self,
        x: &Values,
        [dense, experts]: [&Values; 2],
        norms: [&Memory; 2],
        (norm, factor, next): (Option<&Memory>, f32, Option<&Memory>),
    ) -> Result<Values, Error> {
        self.normed_sum((dense, norms[0]), (experts, norms[1]))?;
        let add = match norm {
            Some(weight) => Add::Normed { values: dense, weight },
            None => Add::Sums(Sums { at: dense.at(), n: 1, bias: None }),
        };
        self.residual_norm(x, (add, factor), next)
    }

    /// The norm of each row with a bias; the stream is replaced if it is `to`.
    pub(super) fn norm_with_bias(
        &self,
        x: &Values,
        LayerNorm { weight, bias }: LayerNorm<'_, Memory>,
        to: Normed,
    ) -> Result<Values, Error> {
        let cols = self.config.hidden;
        let out = self.values(Slot::Normed, x.n_rows, 2 * cols)?;
        let stream = if to == Normed::StreamToo { x.at() } else { 0 };
        let pointers = [x.at(), weight.at(), bias.at(), stream, out.at()].map(Argument::At);
        let sizes = [x.n_rows, cols].map(Argument::size);
        let arguments = [&pointers[..], &sizes, &[self.eps()]].concat();
        // SAFETY: x is [rows, cols] f32, out [rows, cols] bf16, weight and bias are [cols] f32; all are
        // 256-byte aligned and freed only after the stream is synchronised.
        unsafe { self.launch(("norm", "layer_norm"), Shape::new([x.n_rows, 1], 256), &arguments)? };
        Ok(out)
    }

    /// Adds the rows of a table at the step's places.
    pub(super) fn add_rows_at_places(&self, x: &Values, table: &Memory) -> Result<(), Error> {
        let cols = self.config.hidden;
        let pointers = [table.at(), self.plan.places.from(self.numbers()?), x.at()].map(Argument::At);
        let sizes = [x.n_rows, cols].map(Argument::size);
        let shape = Shape::new([x.n_rows, cols.div_ceil(256)], 256);
        // SAFETY: x is [rows, cols] f32 and the plan has a place in the table, which has rows of as many f32,
        // for each row; all are 256-byte aligned and freed only after the stream is synchronised.
        unsafe { self.launch(("embed", "add_places"), shape, &[&pointers[..], &sizes].concat()) }
    }

    fn is_centred(&self) -> Argument {
        Argument::Int(i32::from(self.config.norm_centred))
    }

    /// Norms of so many values each in the rows of a product, by the weights at their places from `first` on,
    /// in place.
    pub(super) fn group_norms(
        &self,
        rows: &Values,
        (width, first): (usize, usize),
        weight: &Memory,
        (groups, cols): (usize, usize),
    ) -> Result<(), Error> {
        let pointers = [rows.at() + 4 * first as u64, weight.at()].map(Argument::At);
        let sizes = [rows.n_rows, width, groups, cols].map(Argument::size);
        let arguments = [&pointers[..], &sizes, &[self.eps(), self.is_centred()]].concat();
        let shape = Shape::new([rows.n_rows, groups], 256);
        // SAFETY: the rows are [rows, width] f32, of which the groups are a part, and the weight is [groups,
        // cols] f32; all are 16-byte aligned and freed only after the stream is synchronised.
        unsafe { self.launch(("norm", "group_norm"), shape, &arguments) }
    }

    /// `norm(a) + norm(b)` instead of `a`, each by a weight of its own.
    pub(crate) fn normed_sum(
        &self,
        (a, a_norm): (&Values, &Memory),
        (b, b_norm): (&Values, &Memory),
    ) -> Result<(), Error> {
        let pointers = [a.at(), a_norm.at(), b.at(), b_norm.at(), a.at()].map(Argument::At);
        let sizes = [a.n_rows, self.config.hidden].map(Argument::size);
        let arguments = [&pointers[..], &sizes, &[self.eps()]].concat();
        // SAFETY: a and b are [rows, cols] f32, the weights [cols] f32; all are 256-byte aligned and freed
        // only after the stream is synchronised.
        unsafe { self.launch(("norm", "normed_sum"), Shape::new([a.n_rows, 1], 256), &arguments) }
    }
}
