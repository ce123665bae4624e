//! The gate of the feed-forward layer: fused into the product where a kernel has both, or by
//! `kernels/gate.cu` after it. Both have the same bits.

use super::{
    super::{
        Error,
        arena::Slot,
        launch::{Argument, Shape},
        products::{Kind, fused},
        tensor_map::TensorMap,
        weights::Linear,
    },
    Cuda, Values,
};
use tribunal_model::{
    backend::{Pointwise, Xielu},
    config::Activation,
};

impl Cuda {
    /// The product with the gate fused, whose sums are never written to memory; `None` where no kernel has
    /// both for these weights and rows.
    fn multiply_gated(&self, x: &Values, w: &Linear) -> Result<Option<Values>, Error> {
        let ([part], [gates, ups]) = (&w.parts[..], &w.outputs[..]) else { return Ok(None) };
        // The updates of adapters precede the gate.
        let alone = w.bias.is_none() && !self.adds_adapters(w) && gates.len() == ups.len();
        if !alone || part.way.kind(x.n_rows) != Kind::Bf16 {
            return Ok(None);
        }
        let (m, n, k) = (x.n_rows, part.n, w.k);
        // A card of several may have no gates.
        if n == 0 {
            return Ok(None);
        }
        let kernels = self.gpu.products_by;
        let Some(launch) = fused::launch_gated(kernels, [m, n, k], part.k_slice, self.config.activation)
        else {
            return Ok(None);
        };
        let out = self.values(Slot::Gated, m, n)?; // [m, n / 2]
        let (_, weights) = self.weights_of(part, k, m)?;
        let maps = [
            TensorMap::rows(x.at(), m, k, launch.tile.tokens)?,
            TensorMap::gates(weights, n / 2, k, launch.tile.outputs)?,
        ];
        let first = [Argument::Int(self.copies_early(part, weights).into()), Argument::At(out.at())];
        let sizes = [m, n, k].map(Argument::size);
        // SAFETY: x is [m, k], the weights [n, k], their gates before their ups, and out [m, n / 2], all
        // bf16, 16-byte aligned and freed only after the stream is synchronised.
        unsafe {
            let (names, shape) = ((launch.tile.module(), launch.kernel), launch.shape());
            self.launch_over(names, shape, &maps, &[&first[..], &sizes].concat())?;
        }
        Ok(Some(out))
    }

    /// The gated values of fused gate and up projections, which have `n` columns each.
    pub(super) fn gated_of(&self, x: &Values, w: &Linear, n: usize) -> Result<Values, Error> {
        if let Some(gated) = self.multiply_gated(x, w)? {
            return Ok(gated);
        }
        let gate_up = self.values(Slot::Product, x.n_rows, 4 * w.n)?; // [rows, 2 n]
        self.multiply(x, w, (gate_up.at(), w.n), false)?;
        self.gate(&gate_up, n)
    }

    /// The nonlinearity of a product with the matrix of a half without a gate.
    pub(super) fn pointwise_of(&self, x: &Values, w: &Linear, function: Pointwise) -> Result<Values, Error> {
        let (rows, n) = (x.n_rows, w.n);
        let up = self.values(Slot::Product, rows, 4 * n)?;
        self.multiply(x, w, (up.at(), n), false)?;
        let out = self.values(Slot::Gated, rows, 2 * n)?;
        let (kernel, numbers) = match function {
            Pointwise::Xielu(Xielu { positive, negative, beta, eps }) => {
                ("xielu", vec![positive, negative, beta, eps])
            }
            Pointwise::Gelu => ("gelu", Vec::new()),
        };
        let floats: Vec<Argument> = numbers.into_iter().map(Argument::Float).collect();
        let pointers = [up.at(), out.at()].map(Argument::At);
        let sizes = [rows, n].map(Argument::size);
        // SAFETY: up is [rows, n] f32, out [rows, n] bf16, 256-byte aligned places of the arena.
        unsafe {
            let shape = Shape::new([rows, n.div_ceil(1024)], 256);
            self.launch(("gate", kernel), shape, &[&pointers[..], &sizes, &floats].concat())?;
        }
        Ok(out)
    }

    /// The gate of a product that is in memory.
    fn gate(&self, gate_up: &Values, n: usize) -> Result<Values, Error> {
        let rows = gate_up.n_rows;
        let out = self.values(Slot::Gated, rows, 2 * n)?;
        let (kernel, how) = match self.config.activation {
            Activation::Silu => ("gate_silu", vec![]),
            Activation::GeluTanh => ("gate_gelu", vec![]),
            Activation::ClampedSilu { alpha, limit } => ("gate_clamped", vec![limit, alpha]),
        };
        let how: Vec<Argument> = how.into_iter().map(Argument::Float).collect();
        let pointers = [gate_up.at(), out.at()].map(Argument::At);
        let sizes = [rows, n].map(Argument::size);
        // SAFETY: gate_up is [rows, 2 n] f32, out [rows, n] bf16, 256-byte aligned places of the arena.
        unsafe {
            let shape = Shape::new([rows, n.div_ceil(1024)], 256);
            self.launch(("gate", kernel), shape, &[&pointers[..], &sizes, &how].concat())?;
        }
        Ok(out)
    }
}
