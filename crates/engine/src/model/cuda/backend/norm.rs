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

impl Cuda {
    /// Adds `add`, normed where there are weights for that, to `x`; gives the norm of the sum where there is a weight.
    pub(in crate::model::cuda) fn residual_norm(
        &self,
        x: &Values,
        add: Option<(&Values, Option<&Memory>)>,
        weight: Option<&Memory>,
    ) -> Result<Values, Error> {
        let cols = self.config.hidden;
        let out = self.values(Slot::Normed, x.n_rows, 2 * cols)?;
        let at = |memory: Option<&Memory>| Argument::At(memory.map_or(0, Memory::at));
        let shared_bytes = (4 * cols).next_multiple_of(16) as u32;
        // SAFETY: x and add are [rows, cols] f32, out is [rows, cols] bf16, weights are [cols].
        unsafe {
            self.launch(
                ("norm", "residual_norm"),
                Shape { shared_bytes, ..Shape::new([x.n_rows, 1], 256) },
                &[
                    Argument::At(x.at()),
                    Argument::At(add.map_or(0, |(add, _)| add.at())),
                    at(add.and_then(|(_, norm)| norm)),
                    at(weight),
                    Argument::At(if weight.is_some() { out.at() } else { 0 }),
                    Argument::size(x.n_rows),
                    Argument::size(cols),
                    self.eps(),
                ],
            )?;
        }
        Ok(out)
    }
}
