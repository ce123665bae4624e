//! Selects the kernel of a matrix product `y[m, n] = x[m, k] w[n, k]^T` and its launch. Nothing is launched here, and
//! no choice changes a bit: every kernel of a format computes the sum that `kernels/gemm.cuh` defines.

pub mod fused;
pub mod grouped;
pub mod measured;

use Kernels::{Measured, MmaSync, Reference, Tma, Wgmma};
use Kind::{Bf16, Q4K, Q6K, Q8_0};

use super::launch::Shape;
use crate::model::weights::Format;

/// Split-K: the number of values of `k` in a slice, from the shape of the weight alone.
///
/// Shape: a weight `[n, k]`. Range: a multiple of 256; at least `k` where there is one slice. The same function as
/// `k_slice` in `kernels/split_k.h`, which has the reasons; `kernels/tests/k_slices.txt` is checked against both.
#[must_use]
pub fn k_slice(n: usize, k: usize) -> usize {
    /// Outputs of a block; wanted blocks; the least length of a slice; the most slices.
    const OUTPUTS: usize = 64;
    const BLOCKS: usize = 256;
    const LEAST: usize = 1024;
    const MOST: usize = 16;
    let tiles = n.div_ceil(OUTPUTS).max(1);
    let slices = BLOCKS.div_ceil(tiles).min(k / LEAST).clamp(1, MOST);
    k.div_ceil(slices).max(1).next_multiple_of(256)
}

/// Why a weight cannot be multiplied on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The tensor core takes 16 values at a time.
    #[error("a matrix with rows of `{k}` values; the CUDA kernels need a multiple of 16")]
    Columns {
        /// Values in a row.
        k: usize,
    },
    /// More than a kernel's indices can count.
    #[error("a matrix [{n}, {k}] is larger than the CUDA kernels can count")]
    TooLarge {
        /// Outputs.
        n: usize,
        /// Values in a row.
        k: usize,
    },
}

/// Outputs of a warp, and of the narrowest tile.
const STRIP: usize = 16;

/// Checks the shape of a weight `[n, k]` when it is loaded.
///
/// # Errors
/// `k` is not a multiple of 16, or a size is past the kernels' indices.
pub fn check(n: usize, k: usize) -> Result<(), Error> {
    if k == 0 || !k.is_multiple_of(16) {
        return Err(Error::Columns { k });
    }
    let largest = i32::MAX as usize - 256;
    if n > largest || k > largest { Err(Error::TooLarge { n, k }) } else { Ok(()) }
}

/// A format that has kernels of its own.
#[expect(missing_docs, reason = "the names are ggml's own")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Bf16,
    Q8_0,
    Q4K,
    Q6K,
}

/// The format in which products read a weight of the file: `bf16` for the floating-point formats, which are rounded once,
/// when they are loaded.
#[must_use]
pub fn multiplied_as(format: Format) -> Format {
    if matches!(format, Format::F32 | Format::F16) { Format::Bf16 } else { format }
}

/// How weights of a format are multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// By kernels of their own: `bf16` as it is ([`multiplied_as`]), the others from `super::quant_layout`.
    Direct(Kind),
    /// Rows become a panel of `bf16` (a rounding of each weight) by the kernel of this name, then as `bf16`.
    Panel(&'static str),
}

impl Way {
    /// The way of a format.
    #[must_use]
    pub fn of(format: Format) -> Self {
        match format {
            Format::Bf16 | Format::F16 | Format::F32 => Self::Direct(Kind::Bf16),
            Format::Q8_0 => Self::Direct(Kind::Q8_0),
            Format::Q4K => Self::Direct(Kind::Q4K),
            Format::Q6K => Self::Direct(Kind::Q6K),
            Format::Q4_0 => Self::Panel("dequantize_q4_0"),
            Format::Q4_1 => Self::Panel("dequantize_q4_1"),
            Format::Q5_0 => Self::Panel("dequantize_q5_0"),
            Format::Q5_1 => Self::Panel("dequantize_q5_1"),
            Format::Q5K => Self::Panel("dequantize_q5_k"),
            Format::Q2K | Format::Q3K | Format::Iq4Nl | Format::Iq4Xs | Format::U4 | Format::F8E4M3 => {
                unreachable!("refused before a tensor is read")
            }
        }
    }
}

/// The instructions that a tile's kernels use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kernels {
    /// The plain kernels: slow, for any shape.
    Reference,
    /// `mma.sync`.
    MmaSync,
    /// `wgmma`: only cards of capability 9.0 run them. They have the bits of the others, on an H100 too.
    Wgmma,
    /// `wgmma` with a producer warp group that copies TMA tiles, for `bf16` weights. Only cards of capability 9.0 run
    /// them. They have the bits of the others, on an H100 too.
    Tma,
    /// Any of these, as a table of measurements names them ([`measured`]); for other shapes as [`Kernels::Wgmma`]. Only
    /// cards like the measured one have it.
    Measured,
}

impl Kernels {
    /// The fastest that a card of this compute capability with so many multiprocessors runs. The table of measurements is an
    /// H100's with 132: an H20, a `PCIe` card or a slice of one has fewer, and for them it would be wrong.
    #[must_use]
    pub fn of(capability: (i32, i32), multiprocessors: usize) -> Self {
        match (capability, multiprocessors) {
            ((9, 0), PERSISTENT) => Measured,
            ((9, 0), _) => Wgmma,
            _ => MmaSync,
        }
    }
}

/// Kernels that compute the same tile: one that writes `y`, and its split-K variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tile {
    /// Which instructions they use.
    pub kernels: Kernels,
    /// The weights that they read.
    pub kind: Kind,
    /// The kernel that writes `y`.
    pub whole: &'static str,
    /// The kernel that writes the sum of each slice; tiles for many tokens have none.
    pub split: Option<&'static str>,
    /// The kernel with a split-K reduction of its own, which needs no other launch.
    pub reduced: Option<&'static str>,
    /// Tokens of a block.
    pub tokens: usize,
    /// Outputs of a block.
    pub outputs: usize,
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, in bytes. Above 48 KiB a function must be allowed it before its launch.
    pub shared_bytes: u32,
}

/// Every kernel that [`launch`] may choose, and the plain ones: `kernels/tests/tiles.txt`, which the kernels' host test
/// compares with what they declare.
pub static TILES: [Tile; 29] = [
    tile((Reference, Bf16), "gemm_bf16", Some("gemm_bf16_split"), [8, 16], 32, 0),
    tile((MmaSync, Bf16), "gemm_bf16_16x16", Some("gemm_bf16_16x16_split"), [16, 16], 32, 49152),
    tile((MmaSync, Bf16), "gemm_bf16_16x64", Some("gemm_bf16_16x64_split"), [16, 64], 128, 61440),
    tile((MmaSync, Bf16), "gemm_bf16_32x64", Some("gemm_bf16_32x64_split"), [32, 64], 128, 61440),
    tile((MmaSync, Bf16), "gemm_bf16_64x64", Some("gemm_bf16_64x64_split"), [64, 64], 128, 65536),
    tile((MmaSync, Bf16), "gemm_bf16_128x128", None, [128, 128], 128, 65536),
    tile((Wgmma, Bf16), "gemm_bf16_wgmma_128x128", None, [128, 128], 256, 164_864),
    tile((Wgmma, Bf16), "gemm_bf16_wgmma_256x128", None, [256, 128], 256, 197_632),
    tma(
        ["gemm_bf16_tma_64x128", "gemm_bf16_tma_64x128_split", "gemm_bf16_tma_64x128_merged"],
        [64, 128],
        197_760,
    ),
    tma(
        ["gemm_bf16_tma_128x128", "gemm_bf16_tma_128x128_split", "gemm_bf16_tma_128x128_merged"],
        [128, 128],
        197_728,
    ),
    tma(
        ["gemm_bf16_tma_256x128", "gemm_bf16_tma_256x128_split", "gemm_bf16_tma_256x128_merged"],
        [256, 128],
        197_696,
    ),
    tile((Reference, Q8_0), "gemm_q8_0", Some("gemm_q8_0_split"), [8, 16], 32, 0),
    tile((MmaSync, Q8_0), "gemm_q8_0_8x16", Some("gemm_q8_0_8x16_split"), [8, 16], 32, 25344),
    tile((MmaSync, Q8_0), "gemm_q8_0_8x64", Some("gemm_q8_0_8x64_split"), [8, 64], 128, 53760),
    tile((MmaSync, Q8_0), "gemm_q8_0_16x64", Some("gemm_q8_0_16x64_split"), [16, 64], 128, 51200),
    tile((MmaSync, Q8_0), "gemm_q8_0_32x64", Some("gemm_q8_0_32x64_split"), [32, 64], 128, 50688),
    tile((MmaSync, Q8_0), "gemm_q8_0_64x128", Some("gemm_q8_0_64x128_split"), [64, 128], 128, 67584),
    tile((Reference, Q4K), "gemm_q4_k", Some("gemm_q4_k_split"), [8, 16], 32, 0),
    tile((MmaSync, Q4K), "gemm_q4_k_8x16", Some("gemm_q4_k_8x16_split"), [8, 16], 32, 19584),
    tile((MmaSync, Q4K), "gemm_q4_k_8x64", Some("gemm_q4_k_8x64_split"), [8, 64], 128, 41472),
    tile((MmaSync, Q4K), "gemm_q4_k_16x64", Some("gemm_q4_k_16x64_split"), [16, 64], 128, 53760),
    tile((MmaSync, Q4K), "gemm_q4_k_32x64", Some("gemm_q4_k_32x64_split"), [32, 64], 128, 53248),
    tile((MmaSync, Q4K), "gemm_q4_k_64x128", Some("gemm_q4_k_64x128_split"), [64, 128], 128, 67584),
    tile((Reference, Q6K), "gemm_q6_k", Some("gemm_q6_k_split"), [8, 16], 32, 0),
    tile((MmaSync, Q6K), "gemm_q6_k_8x16", Some("gemm_q6_k_8x16_split"), [8, 16], 32, 22464),
    tile((MmaSync, Q6K), "gemm_q6_k_8x64", Some("gemm_q6_k_8x64_split"), [8, 64], 128, 52992),
    tile((MmaSync, Q6K), "gemm_q6_k_16x64", Some("gemm_q6_k_16x64_split"), [16, 64], 128, 54400),
    tile((MmaSync, Q6K), "gemm_q6_k_32x64", Some("gemm_q6_k_32x64_split"), [32, 64], 128, 45312),
    tile((MmaSync, Q6K), "gemm_q6_k_64x128", Some("gemm_q6_k_64x128_split"), [64, 128], 128, 60416),
];

const fn tile(
    (kernels, kind): (Kernels, Kind),
    whole: &'static str,
    split: Option<&'static str>,
    [tokens, outputs]: [usize; 2],
    threads: u32,
    shared_bytes: u32,
) -> Tile {
    Tile { kernels, kind, whole, split, reduced: None, tokens, outputs, threads, shared_bytes }
}

const fn tma(
    [whole, split, reduced]: [&'static str; 3],
    [tokens, outputs]: [usize; 2],
    shared_bytes: u32,
) -> Tile {
    let split = tile((Tma, Bf16), whole, Some(split), [tokens, outputs], 384, shared_bytes);
    Tile { reduced: Some(reduced), ..split }
}

impl Tile {
    /// Blocks for a product of `m` tokens and `n` outputs.
    #[must_use]
    pub fn blocks(&self, m: usize, n: usize) -> usize {
        m.div_ceil(self.tokens) * n.div_ceil(self.outputs)
    }

    /// Whether so many tokens are more than half of it, or it is the smallest TMA tile.
    fn may_be_filled(&self, m: usize) -> bool {
        self.tokens == 64 || m > self.tokens / 2
    }

    /// Elements of all tiles.
    fn padded(&self, m: usize, n: usize) -> usize {
        self.blocks(m, n) * self.tokens * self.outputs
    }

    /// The file that its kernels are in.
    #[must_use]
    pub fn module(&self) -> &'static str {
        match (self.kernels, self.kind) {
            (Tma, _) => "gemm_tma",
            (_, Bf16) => "gemm_bf16",
            (_, Q8_0) => "gemm_q8_0",
            (_, Q4K) => "gemm_q4_k",
            (_, Q6K) => "gemm_q6_k",
        }
    }

    /// The grid over so many tiles and slices. Persistent blocks have as equal numbers of work tiles as possible, so
    /// that as many of them read from memory in every round as in the last.
    fn grid(&self, tiles: usize, slices: usize) -> [u32; 3] {
        if self.kernels == Tma {
            let work_tiles = tiles * slices;
            let rounds = work_tiles.div_ceil(PERSISTENT).max(1);
            return [work_tiles.div_ceil(rounds) as u32, 1, 1];
        }
        [tiles as u32, slices as u32, 1]
    }

    /// The launch that writes `y`, in slices of so many values of `k`.
    #[must_use]
    pub fn launch_whole(&'static self, [m, n, _]: [usize; 3], k_slice: usize) -> Launch {
        let grid = self.grid(self.blocks(m, n), 1);
        Launch { tile: self, kernel: self.whole, grid, k_slice, split: None, reduces: false }
    }

    /// The launch that writes the sums of the slices, where there is such a kernel.
    #[must_use]
    pub fn launch_split(&'static self, [m, n, k]: [usize; 3], k_slice: usize) -> Option<Launch> {
        let slices = k.div_ceil(k_slice);
        let grid = self.grid(self.blocks(m, n), slices);
        Some(Launch { tile: self, kernel: self.split?, grid, k_slice, split: Some(slices), reduces: false })
    }

    /// The launch with a split-K reduction in the kernel, where there is such a kernel and more than one slice.
    #[must_use]
    pub fn launch_reduced(&'static self, shape: [usize; 3], k_slice: usize) -> Option<Launch> {
        let kernel = self.reduced.filter(|_| shape[2] > k_slice)?;
        Some(Launch { kernel, reduces: true, ..self.launch_split(shape, k_slice)? })
    }
}

/// A product's launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Its tile.
    pub tile: &'static Tile,
    /// Blocks, of `tile.threads` threads in x.
    pub grid: [u32; 3],
    /// Values of `k` in a slice, as the kernel's argument.
    pub k_slice: usize,
    /// The kernel.
    pub kernel: &'static str,
    /// The number of slices where the kernel writes their sums `[slices, m, n]`, which `gemm_merge` then adds;
    /// `None` where it writes `y` without them.
    pub split: Option<usize>,
    /// Whether the kernel itself reduces the slices' sums, which are then in whole tiles, with a semaphore for each
    /// warp's rows.
    pub reduces: bool,
}

impl Launch {
    pub(super) fn shape(&self) -> Shape {
        Shape { grid: self.grid, block: [self.tile.threads, 1], shared_bytes: self.tile.shared_bytes }
    }

    /// Elements of the partial sums: 0 where nothing is split.
    #[must_use]
    pub fn partial_len(&self, m: usize, n: usize) -> usize {
        let of_slice = if self.reduces { self.tile.padded(m, n) } else { m * n };
        self.split.map_or(0, |slices| slices * of_slice)
    }

    /// The semaphores of a split-K reduction in the kernel; 0 without one.
    #[must_use]
    pub fn n_semaphores(&self, m: usize, n: usize) -> usize {
        if self.reduces { self.tile.blocks(m, n) * self.tile.outputs / STRIP } else { 0 }
    }
}

/// Persistent blocks: an H100 has so many multiprocessors, each with room for one.
const PERSISTENT: usize = 132;
/// Blocks that fill a large GPU: two on each of about 130 multiprocessors.
const FULL: usize = 256;
/// Blocks with which most of its multiprocessors have one.
const ENOUGH: usize = 96;
/// The most tokens of a product that is split: past it the partial sums are more work than idle multiprocessors.
pub(super) const SPLIT_TOKENS: usize = 64;

/// The launch of a product of `m` tokens with a weight `[n, k]`, on a card that runs these kernels.
///
/// A choice for speed alone. On an H100 a table may say what was the fastest ([`measured`]), the only source of
/// TMA kernels; otherwise, of more tokens than a split takes, the largest tile of `wgmma` where that gives most
/// multiprocessors a block: on an H100 a 7B's prompts are read 1.2 to 1.4 times as fast with it. Elsewhere the smallest
/// tile that holds all tokens (or the largest there is), a smaller one where its blocks would leave multiprocessors
/// idle. A product of few tokens is split where its tiles alone do not fill a GPU.
///
/// `k_slice` is that of the whole weight ([`k_slice`]), of which `n` may be a part of the outputs.
#[must_use]
pub fn launch(kernels: Kernels, kind: Kind, shape: [usize; 3], k_slice: usize) -> Launch {
    let measured = (kernels == Measured && kind == Bf16).then(|| measured::launch(shape, k_slice)).flatten();
    measured.unwrap_or_else(|| by_rule(kernels, kind, shape, k_slice))
}

/// The launch where no table says which is the fastest.
fn by_rule(kernels: Kernels, kind: Kind, shape: [usize; 3], k_slice: usize) -> Launch {
    let [m, n, k] = shape;
    if kernels == Reference {
        let plain = TILES.iter().find(|tile| tile.kernels == Reference && tile.kind == kind);
        return plain.expect("every kind has a plain kernel").launch_whole(shape, k_slice);
    }
    if kernels == Tma && kind == Bf16 {
        return by_tma(shape, k_slice, usize::MAX);
    }
    if kind == Bf16 && matches!(kernels, Wgmma | Measured) && m > SPLIT_TOKENS {
        let largest = TILES.iter().rev().find(|tile| tile.kernels == Wgmma);
        if let Some(tile) = largest.filter(|tile| tile.blocks(m, n) >= ENOUGH) {
            return tile.launch_whole(shape, k_slice);
        }
    }
    let best = |tile: &'static Tile| {
        let worth = m <= SPLIT_TOKENS && k > k_slice && tile.blocks(m, n) < FULL;
        let split = if worth { tile.launch_split(shape, k_slice) } else { None };
        split.unwrap_or_else(|| tile.launch_whole(shape, k_slice))
    };
    let enough = |tile| best(tile).grid.iter().product::<u32>() as usize >= ENOUGH;
    best(choose(kind, m, enough))
}

/// The TMA launch of at most so many tokens with the fewest expected clocks (`kernels/gemm_tile_tma.cuh` counts them).
fn by_tma(shape: [usize; 3], k_slice: usize, most_tokens: usize) -> Launch {
    /// Clocks for the first stage of a work tile to arrive and its sums to be written; and of a split-K reduction.
    const OF_WORK_TILE: usize = 2_000;
    const OF_REDUCTION: usize = 4_000;
    let [m, n, k] = shape;
    let clocks = |launch: &Launch| {
        let (values, slices) = launch.split.map_or((k, 1), |slices| (k_slice, slices));
        let rounds = (launch.tile.blocks(m, n) * slices).div_ceil(PERSISTENT);
        let of_work_tile = values.div_ceil(64) * 4 * launch.tile.tokens + OF_WORK_TILE;
        rounds * of_work_tile + if launch.reduces { OF_REDUCTION } else { 0 }
    };
    let tiles = tma_tiles().filter(|tile| tile.tokens <= most_tokens && tile.may_be_filled(m));
    let reduced = |tile: &'static Tile| tile.launch_reduced(shape, k_slice).filter(|_| few_tiles(m, n));
    let launches = tiles.flat_map(|tile| [Some(tile.launch_whole(shape, k_slice)), reduced(tile)]);
    launches.flatten().min_by_key(clocks).expect("a tile of 64 tokens takes any product")
}

/// The TMA kernels' tiles, those for few tokens first.
fn tma_tiles() -> impl DoubleEndedIterator<Item = &'static Tile> {
    TILES.iter().filter(|tile| tile.kernels == Tma)
}

/// Whether output tiles alone leave multiprocessors idle, so that a kernel may split k: [`SplitK`] has room for it.
fn few_tiles(m: usize, n: usize) -> bool {
    m.div_ceil(256) * n.div_ceil(128) < ENOUGH
}

/// The workspace of split-K reductions in kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SplitK {
    /// The most elements of partial sums, and the most of a row.
    most: usize,
    of_row: usize,
}

impl SplitK {
    /// Bytes of the semaphores: one for each warp's outputs of tiles of 64 tokens, of which four make one of 256.
    pub(super) const SEMAPHORE_BYTES: usize = 4 * 4 * ENOUGH * 128 / STRIP;

    /// Makes room for a weight `[n, k]` in slices of so many values of `k`.
    pub(super) fn add_weight(&mut self, n: usize, k: usize, k_slice: usize) {
        if k <= k_slice {
            return;
        }
        let of_row = k.div_ceil(k_slice) * n.next_multiple_of(128);
        let most_rows = (ENOUGH - 1) / n.div_ceil(128) * 256;
        self.most = self.most.max(most_rows * of_row);
        self.of_row = self.of_row.max(of_row);
    }

    /// Elements of the partial sums of so many rows.
    pub(super) fn partial_len(self, rows: usize) -> usize {
        self.most.min(rows.next_multiple_of(256) * self.of_row)
    }
}

/// The tile for `m` tokens; one for which `fills` is true (its blocks keep a GPU busy) where there is one.
fn choose(kind: Kind, m: usize, fills: impl Fn(&'static Tile) -> bool) -> &'static Tile {
    let fast = TILES.iter().filter(|tile| tile.kind == kind && tile.kernels == MmaSync);
    let (narrow, wide): (Vec<&'static Tile>, Vec<&'static Tile>) =
        fast.partition(|tile| tile.outputs == STRIP);
    let holding = wide.iter().position(|tile| tile.tokens >= m).unwrap_or(wide.len() - 1);
    let filling = wide[..=holding].iter().rev().find(|tile| fills(tile));
    filling.or_else(|| narrow.iter().find(|tile| tile.tokens >= m)).unwrap_or(&wide[0])
}

/// The launch of `gemm_merge`: blocks, and threads of a block.
#[must_use]
pub fn merge(m: usize, n: usize) -> ([u32; 3], u32) {
    ([m as u32, n.div_ceil(256) as u32, 1], 256)
}

/// The launch of a `dequantize_` kernel for `n_rows` rows of `k` values: blocks, and threads of a block.
#[must_use]
pub fn panel(n_rows: usize, k: usize) -> ([u32; 3], u32) {
    ([n_rows as u32, (k / 2).div_ceil(256) as u32, 1], 256)
}

#[cfg(test)]
mod tests;
