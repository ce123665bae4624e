//! One product by every kernel that can compute it, so that a test can compare their bits. No model uses it.

#![expect(unsafe_code, reason = "kernel launches and copies trust their arguments")]

mod dequantized;
mod grouped;

use cudarc::driver::{CudaStream, result};

use super::{
    Error, Gpu,
    backend::inputs,
    driver::failed,
    launch::{Argument, Start},
    memory::{MEASURED, Memory},
    products::{self, Kernels, Kind, Launch, TILES, Tile},
};

/// The only compute capability whose machine code has `wgmma`.
const HOPPER: (i32, i32) = (9, 0);

/// A product's operands and output on the device.
struct Operands<'a> {
    gpu: &'a Gpu,
    stream: &'a CudaStream,
    x: Memory,
    w: Memory,
    y: Memory,
    shape: [usize; 3],
}

impl Gpu {
    /// `y = x w^T` by every kernel of `kind` that this GPU runs and may choose ([`Gpu::with_products_by`]),
    /// each by its name, the plain ones first.
    ///
    /// Shape: `x` `[m, k]` as the bits of `bf16`; `w` `[n, k]` in the layout for products of `kind` (`bf16`
    /// by rows, or [`super::quant_layout`]); each result `[m, n]`.
    ///
    /// # Errors
    /// A shape that no kernel takes, too little memory, or the device fails.
    pub fn products(
        &self,
        kind: Kind,
        x: &[u16],
        w: &[u8],
        shape: [usize; 3],
    ) -> Result<Vec<(&'static str, Vec<f32>)>, Error> {
        let [m, n, k] = shape;
        products::check(n, k)?;
        self.context().bind_to_thread().map_err(failed("use the device"))?;
        let stream = self.context().new_stream().map_err(failed("a stream"))?;
        let halves: Vec<u8> = x.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let y = Memory::new(self.context(), 4 * m * n, MEASURED)?;
        let (x, w) = (self.sent(&halves)?, self.sent(w)?);
        let operands = Operands { gpu: self, stream: &stream, x, w, y, shape };
        let tiles = TILES.iter().filter(|tile| tile.kind == kind && self.runs(tile));
        let k_slice = self.k_slice(n, k);
        let of_tile = |tile: &'static Tile| {
            let launch = Some(tile.launch_whole(shape, k_slice));
            [launch, tile.launch_split(shape, k_slice), tile.launch_reduced(shape, k_slice)]
        };
        let launches = tiles.flat_map(of_tile).flatten();
        launches.map(|launch| Ok((launch.kernel, operands.multiply(launch)?))).collect()
    }

    fn runs(&self, tile: &Tile) -> bool {
        let its_own = !matches!(tile.kernels, Kernels::Wgmma | Kernels::Tma) || self.capability() == HOPPER;
        its_own && tile.kernels <= self.products_by && tile.shared_bytes as usize <= self.shared_bytes()
    }
}

impl Operands<'_> {
    fn multiply(&self, launch: Launch) -> Result<Vec<f32>, Error> {
        let [m, n, k] = self.shape;
        let stream = self.stream.cu_stream();
        let bytes = 4 * m * n;
        // The output of an earlier kernel must not pass for this one's: all bits set is NaN. SAFETY: y has
        // `4 m n` bytes and is freed only after `fetch` has synchronised the stream; bytes need no alignment.
        unsafe { result::memset_d8_async(self.y.at(), 0xff, bytes, stream) }
            .map_err(failed("write memory"))?;
        let (module, shape) = (launch.tile.module(), launch.shape());
        let (maps, inputs) = inputs(&launch, (self.x.at(), self.w.at()), self.gpu.new_kernels, [m, n, k])?;
        let inputs = &inputs[..];
        let sizes = [m, n, k, launch.k_slice].map(Argument::size);
        let (y, none, last) =
            (Argument::At(self.y.at()), Argument::At(0), [Argument::size(n), Argument::Int(0)]);
        let kernels = self.gpu.kernels();
        let partial = Memory::new(self.gpu.context(), 4 * launch.partial_len(m, n), MEASURED)?;
        let semaphores = Memory::new(self.gpu.context(), 4 * launch.n_semaphores(m, n), MEASURED)?;
        // SAFETY: memory has at least one byte and, here, one number for each semaphore; it is freed only
        // after `fetch` has synchronised the stream.
        unsafe {
            result::memset_d8_async(semaphores.at(), 0, (4 * launch.n_semaphores(m, n)).max(1), stream)
        }
        .map_err(failed("write memory"))?;
        let (after, names) = ((stream, Start::After), (module, launch.kernel));
        // SAFETY: x is [m, k] bf16, w [n, k] of the tile's kind, y [m, n] f32, the partial sums and
        // semaphores have the launch's lengths; all are 256-byte aligned, and freed after `fetch` has
        // synchronised the stream.
        unsafe {
            if launch.reduces {
                let parts = [Argument::At(partial.at()), Argument::At(semaphores.at())];
                let arguments = [inputs, &[none, y], &parts, &sizes, &last].concat();
                kernels.launch_over(after, names, shape, &maps, &arguments)?;
            } else if let Some(slices) = launch.split {
                let sums = Argument::At(partial.at());
                let arguments = [inputs, &[sums], &sizes].concat();
                kernels.launch_over(after, names, shape, &maps, &arguments)?;
                let shape = products::merge(m, n);
                let sizes = [m, n, slices].map(Argument::size);
                let arguments = [&[sums, none, y][..], &sizes, &last].concat();
                kernels.launch(stream, ("gemm_merge", "gemm_merge"), shape, &arguments)?;
            } else {
                let arguments = [inputs, &[none, y], &sizes, &last].concat();
                kernels.launch_over(after, names, shape, &maps, &arguments)?;
            }
        }
        self.fetch(bytes)
    }

    fn fetch(&self, bytes: usize) -> Result<Vec<f32>, Error> {
        let mut fetched = vec![0_u8; bytes];
        // SAFETY: y and `fetched` have so many bytes; the stream is synchronised before they are read.
        unsafe { result::memcpy_dtoh_async(&mut fetched, self.y.at(), self.stream.cu_stream()) }
            .map_err(failed("fetch results"))?;
        self.stream.synchronize().map_err(failed("multiply"))?;
        Ok(fetched.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }
}
