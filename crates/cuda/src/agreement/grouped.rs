//! Grouped products by every kernel that computes them, so that their bits can be compared. No model uses
//! them.

#![expect(unsafe_code, reason = "kernel launches and copies trust their arguments")]

use half::bf16;

use super::super::{
    Error, Gpu,
    backend::GroupedInput,
    driver::failed,
    launch::{Argument, Start},
    memory::{MEASURED, Memory},
    products::{
        self, Kind,
        grouped::{Grouped, of_kind},
    },
};
use cudarc::driver::{CudaStream, result};

/// The operands of a grouped product on the device.
struct Operands<'a> {
    gpu: &'a Gpu,
    stream: &'a CudaStream,
    x: Memory,
    w: Memory,
    rows: Memory,
    n_pairs: usize,
    n_experts: usize,
    /// Outputs of an expert, and inputs.
    shape: [usize; 2],
}

/// A kernel's name, and its results.
pub type Computed = Vec<(&'static str, Vec<f32>)>;

impl Gpu {
    /// The rows of each expert times its weights, by every kernel of `kind`, the plain one first: the sums,
    /// and the values behind the gate.
    ///
    /// Shape: `x` `[*, k]` as the bits of `bf16`; `w` `[experts, n, k]` in the layout for products of `kind`;
    /// `of_experts` the rows of x that each expert gets; results `[pairs, n]` and `[pairs, n / 2]`.
    ///
    /// # Errors
    /// A shape that no kernel takes, too little memory, or the device fails.
    pub fn grouped_products(
        &self,
        kind: Kind,
        x: &[u16],
        w: &[u8],
        [n, k]: [usize; 2],
        of_experts: &[Vec<u32>],
    ) -> Result<[Computed; 2], Error> {
        products::check(n, k)?;
        self.here()?;
        let stream = self.context().new_stream().map_err(failed("a stream"))?;
        let pairs = of_experts.concat();
        let halves: Vec<u8> = x.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let operands = Operands {
            gpu: self,
            stream: &stream,
            x: self.sent(&halves)?,
            w: self.sent(w)?,
            rows: self.sent(&numbers(&pairs))?,
            n_pairs: pairs.len(),
            n_experts: of_experts.len(),
            shape: [n, k],
        };
        let [mut sums, mut gated] = [Vec::new(), Vec::new()];
        let silu = [Argument::Int(0), Argument::Float(0.0), Argument::Float(0.0)];
        let runs =
            |by: &Grouped| by.tile.kernels <= self.products_by && (self.takes_new_tma() || !by.by_tma());
        for by in of_kind(kind).filter(runs) {
            let tiles = self.sent(&numbers(&tiles(of_experts, by.tile.tokens)))?;
            let n_tiles = of_experts.iter().map(|rows| rows.len().div_ceil(by.tile.tokens)).sum();
            let bytes = operands.run((&by, by.sums), (&tiles, n_tiles), 4 * n, &[])?;
            let of_4 = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
            sums.push((by.sums, of_4.collect()));
            let bytes = operands.run((&by, by.gated), (&tiles, n_tiles), n, &silu)?;
            let of_2 = bytes.as_chunks::<2>().0.iter().map(|bytes| bf16::from_le_bytes(*bytes).to_f32());
            gated.push((by.gated, of_2.collect()));
        }
        Ok([sums, gated])
    }

    /// Device memory with these bytes.
    pub(super) fn sent(&self, bytes: &[u8]) -> Result<Memory, Error> {
        let memory = Memory::new(self.context(), bytes.len(), MEASURED)?;
        // SAFETY: the memory has `bytes.len()` bytes; the copy is complete on return.
        unsafe { result::memcpy_htod_sync(memory.at(), bytes) }.map_err(failed("send a matrix"))?;
        Ok(memory)
    }
}

impl Operands<'_> {
    /// The bytes that a kernel writes, `row_bytes` for each pair.
    fn run(
        &self,
        (by, kernel): (&Grouped, &'static str),
        (tiles, n_tiles): (&Memory, usize),
        row_bytes: usize,
        more: &[Argument],
    ) -> Result<Vec<u8>, Error> {
        let (bytes, n_experts) = (self.n_pairs * row_bytes, self.n_experts);
        let out = Memory::new(self.gpu.context(), bytes, MEASURED)?;
        let [x, rows, weights, tiles] = [&self.x, &self.rows, &self.w, tiles].map(Memory::at);
        let input = GroupedInput { x, rows, weights, n_experts, tiles, n_tiles, bias: 0, out: out.at() };
        let (shape, maps, arguments) = input.launch(by, self.shape, self.gpu)?;
        let arguments = [&arguments[..], more].concat();
        let (stream, names) = ((self.stream.cu_stream(), Start::After), (by.module(), kernel));
        let mut fetched = vec![0_u8; bytes];
        // SAFETY: x has the rows of all pairs, w [experts, n, k] of the tile's kind, `tiles` four numbers for
        // each tile and `out` a row for each pair, all 256-byte aligned; they and `fetched` are freed only
        // after the stream is synchronised.
        unsafe {
            result::memset_d8_async(out.at(), 0xff, bytes, stream.0).map_err(failed("write memory"))?;
            self.gpu.kernels().launch_over(stream, names, shape, &maps, &arguments)?;
            result::memcpy_dtoh_async(&mut fetched, out.at(), stream.0).map_err(failed("fetch results"))?;
        }
        self.stream.synchronize().map_err(failed("multiply"))?;
        Ok(fetched)
    }
}

fn numbers(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Expert, first pair, pairs and 0 of each tile.
fn tiles(of_experts: &[Vec<u32>], tokens: usize) -> Vec<u32> {
    let (mut tiles, mut first) = (Vec::new(), 0);
    for (expert, rows) in of_experts.iter().enumerate() {
        for rows in rows.chunks(tokens) {
            tiles.extend([expert as u32, first, rows.len() as u32, 0]);
            first += rows.len() as u32;
        }
    }
    tiles
}
