//! Matrix products: the kernels to run, over the parts of a weight, and the split-K reduction.

use super::{
    super::{
        Error,
        arena::Slot,
        launch::Argument,
        products::{self, Kernels, Kind, Launch},
        tensor_map::TensorMap,
        weights::{Linear, Part},
    },
    Cuda, Values,
    norm::Sums,
};

impl Cuda {
    /// `y = x w^T + b`, or `y += x w^T + b`, plus the updates of some rows' adapters. Rows of y are `ldy`
    /// values apart.
    pub(crate) fn multiply(
        &self,
        x: &Values,
        w: &Linear,
        (y, ldy): (u64, usize),
        add: bool,
    ) -> Result<(), Error> {
        // A card of several may have no outputs of a weight.
        for part in w.parts.iter().filter(|part| part.n > 0) {
            let (kind, weights) = self.weights_of(part, w.k, x.n_rows)?;
            let shape = [x.n_rows, part.n, w.k];
            let launch = products::launch(self.gpu.products_by, kind, shape, part.k_slice);
            self.multiply_by(&launch, x, w, (part, weights), (y, ldy), add)?;
        }
        self.add_adapters(x, w, (y, ldy))
    }

    /// A part's weights as so many rows are multiplied with them: their kind and address, of a panel where
    /// they are written to one, which the next part overwrites.
    pub(crate) fn weights_of(&self, part: &Part, k: usize, n_rows: usize) -> Result<(Kind, u64), Error> {
        let Some(kernel) = part.way.panel(n_rows) else { return Ok((part.way.kind(n_rows), part.at())) };
        Ok((Kind::Bf16, self.panel(kernel, part.at(), [part.n, k], (0, 0))?))
    }

    /// Writes the `n` rows of `k` values at `from` to the panel slot in bf16: with the starts of experts'
    /// pairs, the rows of those that have any, `of_expert` for each.
    pub(super) fn panel(
        &self,
        kernel: &'static str,
        from: u64,
        [n, k]: [usize; 2],
        (starts, of_expert): (u64, usize),
    ) -> Result<u64, Error> {
        let panel = self.slot(Slot::Panel, 2 * n * k)?;
        let pointers = [from, panel, starts].map(Argument::At);
        let sizes = [0, n, k, of_expert].map(Argument::size);
        // SAFETY: `from` has n rows of k values as the kernel reads them, the panel slot room for as many in
        // bf16; both are 16-byte aligned and freed only after the stream is synchronised.
        unsafe {
            self.launch(("dequantize", kernel), products::panel(n, k), &[&pointers[..], &sizes].concat())?;
        }
        Ok(panel)
    }

    /// True if a kernel may copy these weights of a part before the preceding kernels have finished: they are
    /// not a panel, which a preceding kernel writes.
    pub(super) fn copies_early(&self, part: &Part, weights: u64) -> bool {
        self.gpu.new_kernels && weights == part.at()
    }

    #[expect(clippy::too_many_arguments, reason = "a product is that much")]
    pub(crate) fn multiply_by(
        &self,
        launch: &Launch,
        x: &Values,
        w: &Linear,
        (part, weights): (&Part, u64),
        (y, ldy): (u64, usize),
        add: bool,
    ) -> Result<(), Error> {
        let (m, n, k) = (x.n_rows, part.n, w.k);
        let at = |start: u64| Argument::At(start + 4 * part.first as u64);
        let bias = w.bias.as_ref().map_or(Argument::At(0), |bias| at(bias.at()));
        let y = at(y);
        let last = [Argument::size(ldy), Argument::Int(i32::from(add))];
        if let Some(slices) = launch.split.filter(|_| !launch.reduces) {
            let sums = Argument::At(self.partial_sums(launch, x, k, (part, weights))?);
            let sizes = [m, n, slices].map(Argument::size);
            let arguments = [&[sums, bias, y][..], &sizes, &last].concat();
            // SAFETY: the sums are [slices, m, n] f32; y and the bias have n columns of f32 from `at` on, y
            // in rows of `ldy`. All are freed only after the stream is synchronised.
            return unsafe { self.launch(("gemm_merge", "gemm_merge"), products::merge(m, n), &arguments) };
        }
        let (maps, inputs) = inputs(launch, (x.at(), weights), self.copies_early(part, weights), [m, n, k])?;
        let mut parts = Vec::new();
        if launch.reduces {
            let lengths = [launch.partial_len(m, n), launch.n_semaphores(m, n)];
            for (slot, n) in [Slot::Sums, Slot::Semaphores].into_iter().zip(lengths) {
                parts.push(Argument::At(self.slot(slot, 4 * n)?));
            }
        }
        let mnk = [m, n, k, launch.k_slice].map(Argument::size);
        let arguments = [&inputs[..], &[bias, y], &parts, &mnk, &last].concat();
        // SAFETY: x is [m, k] bf16, the weights are [n, k] of their kind, both 16-byte aligned; y and the
        // bias have n columns of f32 from `at` on, y in rows of `ldy`; the slots have the launch's lengths.
        // All are freed only after the stream is synchronised.
        unsafe { self.launch_over((launch.tile.module(), launch.kernel), launch.shape(), &maps, &arguments) }
    }

    /// The split-K partial sums of a product, which the caller adds; `None` for a product without them.
    pub(super) fn multiply_apart<'a>(&self, x: &Values, w: &'a Linear) -> Result<Option<Sums<'a>>, Error> {
        let [part] = &w.parts[..] else { return Ok(None) };
        let (m, n, k) = (x.n_rows, part.n, w.k);
        let kind = part.way.kind(m);
        let launch = products::launch(self.gpu.products_by, kind, [m, n, k], part.k_slice);
        let Some(slices) = launch.split.filter(|_| !launch.reduces && !self.adds_adapters(w)) else {
            return Ok(None);
        };
        let (_, weights) = self.weights_of(part, k, m)?;
        let at = self.partial_sums(&launch, x, k, (part, weights))?;
        Ok(Some(Sums { at, n: slices, bias: w.bias.as_ref() }))
    }

    /// The split-K partial sums of a part, `[slices, m, n]` f32, by a launch that has them and does not add
    /// them; their address.
    pub(crate) fn partial_sums(
        &self,
        launch: &Launch,
        x: &Values,
        k: usize,
        (part, weights): (&Part, u64),
    ) -> Result<u64, Error> {
        let (m, n, early) = (x.n_rows, part.n, self.copies_early(part, weights));
        let (maps, inputs) = inputs(launch, (x.at(), weights), early, [m, n, k])?;
        let at = self.slot(Slot::Sums, launch.partial_len(m, n) * 4)?;
        let sizes = [m, n, k, launch.k_slice].map(Argument::size);
        let arguments = [&inputs[..], &[Argument::At(at)], &sizes].concat();
        // SAFETY: x is [m, k] bf16, the weights are [n, k] of their kind and the sums [slices, m, n] f32,
        // 16-byte aligned, and freed only after the stream is synchronised.
        unsafe {
            self.launch_over((launch.tile.module(), launch.kernel), launch.shape(), &maps, &arguments)?;
        }
        Ok(at)
    }
}

/// A kernel's arguments for its operands, `x` and the weights: tensor maps, which precede all other
/// arguments, and then `early` ([`Cuda::copies_early`]); or addresses.
pub(crate) fn inputs(
    launch: &Launch,
    (x, weights): (u64, u64),
    early: bool,
    [m, n, k]: [usize; 3],
) -> Result<(Vec<TensorMap>, Vec<Argument>), Error> {
    if launch.tile.kernels != Kernels::Tma {
        return Ok((Vec::new(), vec![Argument::At(x), Argument::At(weights)]));
    }
    let of_x = TensorMap::rows(x, m, k, launch.tile.tokens)?;
    Ok((vec![of_x, TensorMap::rows(weights, n, k, launch.tile.outputs)?], vec![Argument::Int(early.into())]))
}
