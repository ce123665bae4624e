//! Measurements of a GPU alone: the tensor core's sums, its peak, its bandwidth, and single products. For
//! measurements and tests; no model uses them.

#![expect(unsafe_code, reason = "kernel launches and copies trust their arguments")]

use std::sync::Arc;

use cudarc::driver::{CudaStream, result, sys::CUevent_flags};

use super::{
    Effort, Error, Gpu, Peak,
    adapter::Adapters,
    backend::{Cuda, Values},
    driver::failed,
    launch::{Argument, Shape},
    memory::{MEASURED, Memory},
    products::{self, Launch, Way, measured},
    weight_upload::WeightUpload,
    weights::{Linear, Part},
};
use tribunal_model::{
    Config,
    weights::{Format, seeded::Fill},
};

/// Operations of one tile's product; a multiplication and an addition count as two.
const TILE_OPERATIONS: f64 = 16.0 * 8.0 * 16.0 * 2.0;
/// Tiles of a warp and round, and warps of a block, in `kernels/probe.cu`.
const TILES_OF_ROUND: f64 = 16.0;
const WARPS: f64 = 8.0;
/// Weights larger than any cache.
const BEYOND_CACHE: usize = 256 << 20;
/// The most copies of a matrix that are multiplied one after another.
const MOST_COPIES: usize = 16;

impl Gpu {
    /// `d += a b` for tiles `a [n, 16, 16]` and `b [n, 16, 8]` of bf16 and `d [n, 16, 8]`, each tile one
    /// instruction of the tensor core.
    ///
    /// # Errors
    /// The device fails.
    ///
    /// # Panics
    /// When the lengths are not those of as many tiles.
    pub fn multiply_tiles(&self, a: &[u16], b: &[u16], d: &[f32]) -> Result<Vec<f32>, Error> {
        let n = d.len() / 128;
        assert!(d.len() == n * 128 && a.len() == n * 256 && b.len() == n * 128, "whole tiles of each");
        let stream = self.stream()?;
        let mut upload = WeightUpload::new(self, &stream)?;
        let halves = |x: &[u16]| x.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let [a, b] = [upload.bytes(&halves(a), MEASURED)?, upload.bytes(&halves(b), MEASURED)?];
        let singles = d.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let sums = upload.bytes(&singles, MEASURED)?;
        let arguments =
            [Argument::At(a.at()), Argument::At(b.at()), Argument::At(sums.at()), Argument::size(n)];
        let mut bytes = vec![0_u8; 4 * d.len()];
        // SAFETY: the three buffers hold n tiles and are freed after the stream is synchronised, as is
        // `bytes`, which has the length of the sums.
        unsafe {
            let names = ("probe", "multiply_tiles");
            self.kernels().launch(stream.cu_stream(), names, Shape::new([n, 1], 32), &arguments)?;
            result::memcpy_dtoh_async(&mut bytes, sums.at(), stream.cu_stream())
                .map_err(failed("fetch results"))?;
        }
        stream.synchronize().map_err(failed("multiply tiles"))?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
    }

    /// Measures the peak of the tensor core and of memory; the best of the repeats.
    ///
    /// # Errors
    /// The device fails or has too little memory.
    pub fn peak(&self, effort: Effort) -> Result<Peak, Error> {
        let stream = self.stream()?;
        let blocks = 4 * self.multiprocessors();
        let sums = Memory::new(self.context(), 4 * blocks, MEASURED)?;
        let arguments = [Argument::At(sums.at()), Argument::size(effort.rounds)];
        let rounds = || {
            // SAFETY: `sums` has an f32 for each block, and outlives the measurement.
            unsafe {
                let names = ("probe", "multiply_rounds");
                self.kernels().launch(stream.cu_stream(), names, Shape::new([blocks, 1], 256), &arguments)
            }
        };
        let operations = effort.rounds as f64 * TILES_OF_ROUND * TILE_OPERATIONS * WARPS * blocks as f64;
        let seconds = self.least(&stream, effort.repeats, rounds)?;
        let bytes = effort.copy_bytes;
        let [from, to] = [(); 2].map(|()| Memory::new(self.context(), bytes, MEASURED));
        let (from, to) = (from?, to?);
        // SAFETY: `from` has `bytes` bytes, and outlives the measurement.
        unsafe { result::memset_d8_async(from.at(), 1, bytes, stream.cu_stream()) }
            .map_err(failed("write memory"))?;
        let copy = || {
            // SAFETY: `from` and `to` have `bytes` bytes each, do not overlap, and outlive the measurement.
            unsafe { result::memcpy_dtod_async(to.at(), from.at(), bytes, stream.cu_stream()) }
                .map_err(failed("copy memory"))
        };
        let copying = self.least(&stream, effort.repeats, copy)?;
        Ok(Peak { operations: operations / seconds, bytes: 2.0 * bytes as f64 / copying })
    }

    /// Seconds of one product of `m` rows with a seeded weight `[n, k]` of a format that comes from memory
    /// and not from a cache, for each of `rows`; the mean of a row of products, the best of the repeats. For
    /// a format without products of its own, the rounding to `bf16` is included, as in every step. The
    /// numbers of a quantised weight are arbitrary.
    ///
    /// # Errors
    /// The device fails or has too little memory.
    ///
    /// # Panics
    /// When [`Self::weight_bytes`] is `None` for such a weight.
    pub fn product_seconds(
        &self,
        config: &Config,
        format: Format,
        [n, k]: [usize; 2],
        rows: &[usize],
        repeats: usize,
    ) -> Result<Vec<f64>, Error> {
        let products = Products::new(self, config, format, [n, k], rows, repeats)?;
        let of_rows = |&m: &usize| {
            let kind = products.way.kind(m);
            let launch = products::launch(self.products_by, kind, [m, n, k], self.k_slice(n, k));
            products.seconds(m, &launch)
        };
        rows.iter().map(of_rows).collect()
    }

    /// The fastest kernel of a product and its seconds, for each of `rows`: a line of a table of `products`.
    /// Measured as by [`Self::product_seconds`], without `gemm_merge` where the norm after the product adds
    /// its slices.
    ///
    /// # Errors
    /// The device fails or has too little memory.
    pub fn fastest_products(
        &self,
        config: &Config,
        [n, k]: [usize; 2],
        rows: &[usize],
        repeats: usize,
        before_norm: bool,
    ) -> Result<Vec<(&'static str, f64)>, Error> {
        let products =
            Products { before_norm, ..Products::new(self, config, Format::Bf16, [n, k], rows, repeats)? };
        let of_rows = |&m: &usize| {
            let launches = measured::candidates(self.products_by, [m, n, k], self.k_slice(n, k));
            let mut fastest = ("", f64::INFINITY);
            for launch in launches {
                let seconds = products.seconds(m, &launch)?;
                if seconds < fastest.1 {
                    fastest = (launch.kernel, seconds);
                }
            }
            Ok(fastest)
        };
        rows.iter().map(of_rows).collect()
    }

    /// Bytes of a weight `[n, k]` in this GPU's memory; `None` where rows of `k` values are not whole blocks
    /// of the format.
    pub fn weight_bytes(&self, format: Format, [n, k]: [usize; 2]) -> Option<usize> {
        let way = Way::new(format, self.packs());
        let (layout, of_rows) = (way.layout(format, k), || n * way.stored(format).row_bytes(k));
        k.is_multiple_of(format.block()).then(|| layout.map_or_else(of_rows, |layout| layout.bytes(n)))
    }

    fn stream(&self) -> Result<Arc<CudaStream>, Error> {
        self.context().bind_to_thread().map_err(failed("use the device"))?;
        self.context().new_stream().map_err(failed("a stream"))
    }

    /// Runs `work` once and then so many times; the least seconds that the device took for it.
    fn least(
        &self,
        stream: &CudaStream,
        repeats: usize,
        mut work: impl FnMut() -> Result<(), Error>,
    ) -> Result<f64, Error> {
        let event =
            || self.context().new_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).map_err(failed("an event"));
        let (begin, end) = (event()?, event()?);
        work()?;
        let mut least = f64::INFINITY;
        for _ in 0..repeats.max(1) {
            begin.record(stream).map_err(failed("measure time"))?;
            work()?;
            end.record(stream).map_err(failed("measure time"))?;
            let ms = begin.elapsed_ms(&end).map_err(failed("measure time"))?;
            least = least.min(f64::from(ms) / 1e3);
        }
        // A clock that does not move (an emulated device's may not) must not make a speed infinite.
        Ok(least.max(1e-9))
    }
}

/// Products with one weight, of which there are more copies than a cache holds.
struct Products<'a> {
    gpu: &'a Gpu,
    cuda: Cuda,
    upload: WeightUpload,
    weights: Vec<Linear>,
    way: Way,
    shape: [usize; 2],
    repeats: usize,
    before_norm: bool,
}

impl<'a> Products<'a> {
    fn new(
        gpu: &'a Gpu,
        config: &Config,
        format: Format,
        [n, k]: [usize; 2],
        rows: &[usize],
        repeats: usize,
    ) -> Result<Self, Error> {
        let Some(bytes) = gpu.weight_bytes(format, [n, k]) else {
            panic!("no product of [{n}, {k}] in {format:?}");
        };
        let way = Way::new(format, gpu.packs());
        products::check(n, k)?;
        let mut cuda = Cuda::new(gpu, config)?;
        let repeats = repeats.max(1);
        let n_copies = BEYOND_CACHE.div_ceil(bytes).min(MOST_COPIES).min(repeats);
        let upload = WeightUpload::new(gpu, cuda.stream())?;
        let weight = |seed: usize| -> Result<Linear, Error> {
            let memory = Memory::new(gpu.context(), bytes, MEASURED)?;
            upload.fill(memory.at(), 0..bytes / 2, Fill { seed: seed as u32, scale: 0.02 })?;
            let (memory, k_slice) = (Arc::new(memory), gpu.k_slice(n, k));
            let part = Part { memory, offset: 0, way, first: 0, n, k_slice };
            let (outputs, adapters) = (std::iter::once(0..n).collect(), Adapters::default());
            Ok(Linear { parts: vec![part], n, k, bias: None, outputs, adapters })
        };
        let weights = (0..n_copies).map(weight).collect::<Result<Vec<_>, _>>()?;
        cuda.hold_products(rows.iter().copied().max().unwrap_or(0), &weights[0])?;
        Ok(Self { gpu, cuda, upload, weights, way, shape: [n, k], repeats, before_norm: false })
    }

    /// Seconds of one product of `m` rows by this launch.
    fn seconds(&self, m: usize, launch: &Launch) -> Result<f64, Error> {
        let [n, k] = self.shape;
        let operand = |values: usize, bytes: usize| Memory::new(self.gpu.context(), values * bytes, MEASURED);
        let (x, y) = (operand(m * k, 2)?, operand(m * n, 4)?);
        self.upload.fill(x.at(), 0..m * k, Fill { seed: 99, scale: 1.0 })?;
        let x = Values::new(x.at(), m);
        let all = || {
            for w in self.weights.iter().cycle().take(self.repeats) {
                let part = &w.parts[0];
                let (_, weights) = self.cuda.weights_of(part, k, m)?;
                if self.before_norm && launch.split.is_some() && !launch.reduces {
                    self.cuda.partial_sums(launch, &x, k, (part, weights))?;
                } else {
                    self.cuda.multiply_by(launch, &x, w, (part, weights), (y.at(), n), false)?;
                }
            }
            Ok(())
        };
        Ok(self.gpu.least(self.cuda.stream(), 3, all)? / self.repeats as f64)
    }
}
