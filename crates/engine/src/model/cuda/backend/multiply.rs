//! Products: which kernels run, over which parts of a weight, and the merge of split sums.

use super::{
    super::{
        Error,
        arena::Slot,
        launch::{Argument, Shape},
        products::{self, Kernels, Kind, Way},
        weights::{Linear, Part, module},
    },
    Cuda, Values,
};

impl Cuda {
    /// `y = x w^T + b`, or `y += x w^T + b`, and what the adapters of some rows add. Rows of y are `ldy` values apart.
    pub(in crate::model::cuda) fn multiply(
        &self,
        x: &Values,
        w: &Linear,
        (y, ldy): (u64, usize),
        add: bool,
    ) -> Result<(), Error> {
        for part in &w.parts {
            match part.way {
                Way::Direct(kind) => self.multiply_part(x, w, part, (kind, part.at()), (y, ldy), add)?,
                Way::Panel(kernel) => {
                    let panel = self.slot(Slot::Panel, part.n * w.k * 2)?;
                    let (grid, threads) = products::panel(part.n, w.k);
                    let shape = Shape { grid, block: [threads, 1], shared_bytes: 0 };
                    let sizes = [0, part.n, w.k].map(Argument::size);
                    let arguments =
                        [[Argument::At(part.at()), Argument::At(panel)].as_slice(), &sizes].concat();
                    // SAFETY: the part has n rows of k values, and so has the panel, in bf16.
                    unsafe { self.launch(("dequantize", kernel), shape, &arguments)? };
                    self.multiply_part(x, w, part, (Kind::Bf16, panel), (y, ldy), add)?;
                }
            }
        }
        self.add_adapters(x, w, (y, ldy))
    }

    #[expect(clippy::too_many_arguments, reason = "a product is that much")]
    fn multiply_part(
        &self,
        x: &Values,
        w: &Linear,
        part: &Part,
        (kind, weights): (Kind, u64),
        (y, ldy): (u64, usize),
        add: bool,
    ) -> Result<(), Error> {
        let (m, n, k) = (x.n_rows, part.n, w.k);
        let launch = products::launch(Kernels::of(self.gpu.capability()), kind, [m, n, k], part.segment);
        let shape = Shape {
            grid: launch.grid,
            block: [launch.tile.threads, 1],
            shared_bytes: launch.tile.shared_bytes,
        };
        let at = |start: u64| Argument::At(start + 4 * part.first as u64);
        let bias = w.bias.as_ref().map_or(Argument::At(0), |bias| at(bias.at()));
        let (inputs, y) = ([Argument::At(x.at()), Argument::At(weights)], at(y));
        let mnk = [m, n, k, launch.segment].map(Argument::size);
        let last = [Argument::size(ldy), Argument::Int(i32::from(add))];
        // SAFETY: x is [m, k] bf16, the weights are [n, k] of their kind, y and the bias have n columns from `at` on, y
        // in rows of `ldy`.
        unsafe {
            let Some(segments) = launch.split else {
                let arguments = [&inputs[..], &[bias, y], &mnk, &last].concat();
                return self.launch((module(kind), launch.kernel), shape, &arguments);
            };
            let sums = Argument::At(self.slot(Slot::Sums, launch.partial_len(m, n) * 4)?);
            self.launch((module(kind), launch.kernel), shape, &[&inputs[..], &[sums], &mnk].concat())?;
            let (grid, threads) = products::merge(m, n);
            let shape = Shape { grid, block: [threads, 1], shared_bytes: 0 };
            let sizes = [m, n, segments].map(Argument::size);
            self.launch(("gemm_merge", "gemm_merge"), shape, &[&[sums, bias, y][..], &sizes, &last].concat())
        }
    }
}
