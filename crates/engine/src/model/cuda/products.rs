//! Which kernel computes a product `y[m, n] = x[m, k] w[n, k]^T`, and with what launch. Nothing is launched here, and
//! no choice moves a bit: every kernel of a format computes the sum that `kernels/gemm.cuh` defines.

pub mod fused;
pub mod measured;

use Kernels::{Boxes, Fast, Hopper, Plain};
use Kind::{Bf16, Q4K, Q6K, Q8_0};

use super::launch::Shape;
use crate::model::weights::Format;

/// Where the sums of a product are cut: the values of `k` in a segment, from the shape of the weight alone.
///
/// The same function as `segment` in `kernels/segment.h`, which says why; a table holds both to the same answers.
#[must_use]
pub fn segment(n: usize, k: usize) -> usize {
    /// Outputs of a block; blocks that are wanted; the least length of a segment; the most segments.
    const OUTPUTS: usize = 64;
    const BLOCKS: usize = 256;
    const LEAST: usize = 1024;
    const MOST: usize = 16;
    let tiles = n.div_ceil(OUTPUTS).max(1);
    let segments = BLOCKS.div_ceil(tiles).min(k / LEAST).clamp(1, MOST);
    k.div_ceil(segments).max(1).next_multiple_of(256)
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

/// Outputs of the narrowest tile.
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

/// How weights of a format are multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// By kernels of their own: `bf16` as it is, the others from `super::quant_layout`.
    Direct(Kind),
    /// Rows become a panel of `bf16` (a rounding of each weight) by the kernel of this name, then as `bf16`.
    Panel(&'static str),
}

impl Way {
    /// The way of a format.
    #[must_use]
    pub fn of(format: Format) -> Self {
        match format {
            Format::Bf16 => Self::Direct(Kind::Bf16),
            Format::Q8_0 => Self::Direct(Kind::Q8_0),
            Format::Q4K => Self::Direct(Kind::Q4K),
            Format::Q6K => Self::Direct(Kind::Q6K),
            Format::F32 => Self::Panel("dequantize_f32"),
            Format::F16 => Self::Panel("dequantize_f16"),
            Format::Q4_0 => Self::Panel("dequantize_q4_0"),
            Format::Q4_1 => Self::Panel("dequantize_q4_1"),
            Format::Q5_0 => Self::Panel("dequantize_q5_0"),
            Format::Q5_1 => Self::Panel("dequantize_q5_1"),
            Format::Q5K => Self::Panel("dequantize_q5_k"),
        }
    }
}

/// The kernels of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kernels {
    /// For any shape, slow: the reference.
    Plain,
    /// `mma.sync`.
    Fast,
    /// `wgmma`: only cards of capability 9.0 run them. They have the bits of the others, on an H100 too.
    Hopper,
    /// `wgmma` behind a warp group that copies boxes. Only cards of capability 9.0 run them, and they are chosen where a
    /// table names them ([`measured`]). They have the bits of the others, those of `bf16` weights on an H100 too; those of
    /// quantised ones have run on none yet.
    Boxes,
}

impl Kernels {
    /// The fastest that a card of this compute capability runs, those before them in this list included.
    #[must_use]
    pub fn of(capability: (i32, i32)) -> Self {
        if capability == (9, 0) { Self::Hopper } else { Self::Fast }
    }
}

/// A kernel that writes `y`, and its twin that writes the sums of segments: both compute the same tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tile {
    /// Which instructions they use.
    pub kernels: Kernels,
    /// The weights that they read.
    pub kind: Kind,
    /// The kernel that writes `y`.
    pub whole: &'static str,
    /// The kernel that writes the sum of each segment; tiles for many tokens have none.
    pub split: Option<&'static str>,
    /// The kernel whose segments meet in it, so that their sums need no other launch.
    pub merged: Option<&'static str>,
    /// Tokens of a block.
    pub tokens: usize,
    /// Outputs of a block.
    pub outputs: usize,
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, in bytes. Above 48 KiB a function must be allowed it before its launch.
    pub shared_bytes: u32,
    /// Whether two blocks, a cluster, have the same outputs of two tiles side by side, and each copies half of the weights
    /// for both.
    pub pairs: bool,
}

/// Every kernel that [`launch`] may choose, and the plain ones: `kernels/tests/tiles.txt`, which the kernels' host test
/// compares with what they declare.
pub static TILES: [Tile; 37] = [
    tile((Plain, Bf16), "gemm_bf16", Some("gemm_bf16_split"), [8, 16], 32, 0),
    tile((Fast, Bf16), "gemm_bf16_16x16", Some("gemm_bf16_16x16_split"), [16, 16], 32, 49152),
    tile((Fast, Bf16), "gemm_bf16_16x64", Some("gemm_bf16_16x64_split"), [16, 64], 128, 61440),
    tile((Fast, Bf16), "gemm_bf16_32x64", Some("gemm_bf16_32x64_split"), [32, 64], 128, 61440),
    tile((Fast, Bf16), "gemm_bf16_64x64", Some("gemm_bf16_64x64_split"), [64, 64], 128, 65536),
    tile((Fast, Bf16), "gemm_bf16_128x128", None, [128, 128], 128, 65536),
    tile((Hopper, Bf16), "gemm_bf16_wgmma_128x128", None, [128, 128], 256, 164_864),
    tile((Hopper, Bf16), "gemm_bf16_wgmma_256x128", None, [256, 128], 256, 197_632),
    boxes(
        ["gemm_bf16_tma_64x128", "gemm_bf16_tma_64x128_split", "gemm_bf16_tma_64x128_merged"],
        [64, 128],
        197_760,
    ),
    boxes(
        ["gemm_bf16_tma_128x128", "gemm_bf16_tma_128x128_split", "gemm_bf16_tma_128x128_merged"],
        [128, 128],
        197_728,
    ),
    pairs("gemm_bf16_tma_128x128_pair", [128, 128], 197_728),
    boxes(
        ["gemm_bf16_tma_256x128", "gemm_bf16_tma_256x128_split", "gemm_bf16_tma_256x128_merged"],
        [256, 128],
        197_696,
    ),
    pairs("gemm_bf16_tma_256x128_pair", [256, 128], 197_696),
    tile((Plain, Q8_0), "gemm_q8_0", Some("gemm_q8_0_split"), [8, 16], 32, 0),
    tile((Fast, Q8_0), "gemm_q8_0_8x16", Some("gemm_q8_0_8x16_split"), [8, 16], 32, 25344),
    tile((Fast, Q8_0), "gemm_q8_0_8x64", Some("gemm_q8_0_8x64_split"), [8, 64], 128, 53760),
    tile((Fast, Q8_0), "gemm_q8_0_16x64", Some("gemm_q8_0_16x64_split"), [16, 64], 128, 51200),
    tile((Fast, Q8_0), "gemm_q8_0_32x64", Some("gemm_q8_0_32x64_split"), [32, 64], 128, 50688),
    tile((Fast, Q8_0), "gemm_q8_0_64x128", Some("gemm_q8_0_64x128_split"), [64, 128], 128, 67584),
    strips(Q8_0, ["gemm_q8_0_tma_64x128", "gemm_q8_0_tma_64x128_split"], 64, 384, 203_872),
    strips(Q8_0, ["gemm_q8_0_tma_128x128", "gemm_q8_0_tma_128x128_split"], 128, 384, 201_792),
    tile((Plain, Q4K), "gemm_q4_k", Some("gemm_q4_k_split"), [8, 16], 32, 0),
    tile((Fast, Q4K), "gemm_q4_k_8x16", Some("gemm_q4_k_8x16_split"), [8, 16], 32, 19584),
    tile((Fast, Q4K), "gemm_q4_k_8x64", Some("gemm_q4_k_8x64_split"), [8, 64], 128, 41472),
    tile((Fast, Q4K), "gemm_q4_k_16x64", Some("gemm_q4_k_16x64_split"), [16, 64], 128, 53760),
    tile((Fast, Q4K), "gemm_q4_k_32x64", Some("gemm_q4_k_32x64_split"), [32, 64], 128, 53248),
    tile((Fast, Q4K), "gemm_q4_k_64x128", Some("gemm_q4_k_64x128_split"), [64, 128], 128, 67584),
    strips(Q4K, ["gemm_q4_k_tma_64x128", "gemm_q4_k_tma_64x128_split"], 64, 512, 194_728),
    strips(Q4K, ["gemm_q4_k_tma_128x128", "gemm_q4_k_tma_128x128_split"], 128, 512, 181_344),
    tile((Plain, Q6K), "gemm_q6_k", Some("gemm_q6_k_split"), [8, 16], 32, 0),
    tile((Fast, Q6K), "gemm_q6_k_8x16", Some("gemm_q6_k_8x16_split"), [8, 16], 32, 22464),
    tile((Fast, Q6K), "gemm_q6_k_8x64", Some("gemm_q6_k_8x64_split"), [8, 64], 128, 52992),
    tile((Fast, Q6K), "gemm_q6_k_16x64", Some("gemm_q6_k_16x64_split"), [16, 64], 128, 54400),
    tile((Fast, Q6K), "gemm_q6_k_32x64", Some("gemm_q6_k_32x64_split"), [32, 64], 128, 45312),
    tile((Fast, Q6K), "gemm_q6_k_64x128", Some("gemm_q6_k_64x128_split"), [64, 128], 128, 60416),
    strips(Q6K, ["gemm_q6_k_tma_64x128", "gemm_q6_k_tma_64x128_split"], 64, 384, 185_440),
    strips(Q6K, ["gemm_q6_k_tma_128x128", "gemm_q6_k_tma_128x128_split"], 128, 384, 189_504),
];

const fn tile(
    (kernels, kind): (Kernels, Kind),
    whole: &'static str,
    split: Option<&'static str>,
    [tokens, outputs]: [usize; 2],
    threads: u32,
    shared_bytes: u32,
) -> Tile {
    let (merged, pairs) = (None, false);
    Tile { kernels, kind, whole, split, merged, tokens, outputs, threads, shared_bytes, pairs }
}

const fn pairs(whole: &'static str, [tokens, outputs]: [usize; 2], shared_bytes: u32) -> Tile {
    let pairs = true;
    Tile { pairs, ..tile((Boxes, Bf16), whole, None, [tokens, outputs], 384, shared_bytes) }
}

const fn boxes(
    [whole, split, merged]: [&'static str; 3],
    [tokens, outputs]: [usize; 2],
    shared_bytes: u32,
) -> Tile {
    let split = tile((Boxes, Bf16), whole, Some(split), [tokens, outputs], 384, shared_bytes);
    Tile { merged: Some(merged), ..split }
}

/// Of a quantised weight by boxes of x and whole strips.
const fn strips(
    kind: Kind,
    [whole, split]: [&'static str; 2],
    tokens: usize,
    threads: u32,
    shared_bytes: u32,
) -> Tile {
    tile((Boxes, kind), whole, Some(split), [tokens, 128], threads, shared_bytes)
}

impl Tile {
    /// Blocks for a product of `m` tokens and `n` outputs.
    #[must_use]
    pub fn blocks(&self, m: usize, n: usize) -> usize {
        let of_tokens = if self.pairs { 2 * m.div_ceil(2 * self.tokens) } else { m.div_ceil(self.tokens) };
        of_tokens * n.div_ceil(self.outputs)
    }

    /// Whether so many tokens are more than half of it, or it is the smallest by boxes.
    fn may_be_filled(&self, m: usize) -> bool {
        self.tokens == 64 || m > self.tokens / 2
    }

    /// Outputs of a box of weights.
    #[must_use]
    pub fn box_outputs(&self) -> usize {
        if self.pairs { self.outputs / 2 } else { self.outputs }
    }

    /// Elements of all tiles.
    fn padded(&self, m: usize, n: usize) -> usize {
        self.blocks(m, n) * self.tokens * self.outputs
    }

    /// The file that its kernels are in.
    #[must_use]
    pub fn module(&self) -> &'static str {
        match (self.kernels, self.kind) {
            (Boxes, Bf16) => "gemm_tma",
            (Boxes, _) => "gemm_quantised_tma",
            (_, Bf16) => "gemm_bf16",
            (_, Q8_0) => "gemm_q8_0",
            (_, Q4K) => "gemm_q4_k",
            (_, Q6K) => "gemm_q6_k",
        }
    }

    /// The grid over so many tiles and segments. Blocks that stay have as many items each, as far as that goes: no more
    /// of them read from memory at once than in the last round.
    fn grid(&self, tiles: usize, segments: usize) -> [u32; 3] {
        if self.kernels == Boxes {
            // A pair has an item together.
            let blocks = if self.pairs { 2 } else { 1 };
            let items = tiles / blocks * segments;
            let rounds = items.div_ceil(PERSISTENT / blocks).max(1);
            return [(blocks * items.div_ceil(rounds)) as u32, 1, 1];
        }
        [tiles as u32, segments as u32, 1]
    }

    /// The launch that writes `y`, for sums that are cut into segments of so many values.
    #[must_use]
    pub fn launch_whole(&'static self, [m, n, _]: [usize; 3], segment: usize) -> Launch {
        let grid = self.grid(self.blocks(m, n), 1);
        Launch { tile: self, kernel: self.whole, grid, segment, split: None, meets: false }
    }

    /// The launch that writes the sums of the segments, where there is such a kernel.
    #[must_use]
    pub fn launch_split(&'static self, [m, n, k]: [usize; 3], segment: usize) -> Option<Launch> {
        let segments = k.div_ceil(segment);
        let grid = self.grid(self.blocks(m, n), segments);
        Some(Launch { tile: self, kernel: self.split?, grid, segment, split: Some(segments), meets: false })
    }

    /// The launch whose segments meet in the kernel, where there is such a kernel and more than one segment.
    #[must_use]
    pub fn launch_merged(&'static self, shape: [usize; 3], segment: usize) -> Option<Launch> {
        let kernel = self.merged.filter(|_| shape[2] > segment)?;
        Some(Launch { kernel, meets: true, ..self.launch_split(shape, segment)? })
    }
}

/// A product's launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Its tile.
    pub tile: &'static Tile,
    /// Blocks, of `tile.threads` threads in x.
    pub grid: [u32; 3],
    /// Values of `k` in a segment, as the kernel's argument.
    pub segment: usize,
    /// The kernel.
    pub kernel: &'static str,
    /// The number of segments where the kernel writes their sums `[segments, m, n]`, which `gemm_merge` then folds;
    /// `None` where it writes `y` without them.
    pub split: Option<usize>,
    /// Whether the kernel itself adds the segments' sums up: they lie in whole tiles, with a turn for each of its warps.
    pub meets: bool,
}

impl Launch {
    pub(super) fn shape(&self) -> Shape {
        let Tile { threads, shared_bytes, pairs, .. } = *self.tile;
        Shape { grid: self.grid, block: [threads, 1], shared_bytes, pairs }
    }

    /// Elements of the partial sums: 0 where nothing is split.
    #[must_use]
    pub fn partial_len(&self, m: usize, n: usize) -> usize {
        let of_segment = if self.meets { self.tile.padded(m, n) } else { m * n };
        self.split.map_or(0, |segments| segments * of_segment)
    }

    /// The turns by which segments meet: 0 where they do not.
    #[must_use]
    pub fn n_turns(&self, m: usize, n: usize) -> usize {
        if self.meets { self.tile.blocks(m, n) * self.tile.outputs / STRIP } else { 0 }
    }
}

/// Blocks that stay and take one item after another: an H100 has so many multiprocessors, each with room for one.
const PERSISTENT: usize = 132;
/// Blocks that fill a large GPU: two on each of about 130 multiprocessors.
const FULL: usize = 256;
/// Blocks with which most of its multiprocessors have one.
const ENOUGH: usize = 96;
/// The most tokens of a product that is split: past it the partial sums are more work than idle multiprocessors.
pub(super) const SPLIT_TOKENS: usize = 64;

/// The launch of a product of `m` tokens with a weight `[n, k]`, on a card that runs these kernels.
///
/// A choice for speed alone. On Hopper a table may say what was the fastest ([`measured`]), which is the only way to boxes;
/// otherwise, of more tokens than a split takes, the largest tile of `wgmma` where that gives most multiprocessors a block:
/// on an H100 a 7B's prompts are read 1.2 to 1.4 times as fast with it. Elsewhere the smallest tile that holds all
/// tokens (or the largest there is), a smaller one where its blocks would leave multiprocessors idle. A product of few
/// tokens is split where its tiles alone do not fill a GPU.
///
/// `segment` is that of the whole weight ([`segment`]), of which `n` may be a part of the outputs.
#[must_use]
pub fn launch(kernels: Kernels, kind: Kind, shape: [usize; 3], segment: usize) -> Launch {
    let measured = (kernels == Hopper && kind == Bf16).then(|| measured::launch(shape, segment)).flatten();
    measured.unwrap_or_else(|| by_rule(kernels, kind, shape, segment))
}

/// The launch where no table says which is the fastest.
fn by_rule(kernels: Kernels, kind: Kind, shape: [usize; 3], segment: usize) -> Launch {
    let [m, n, k] = shape;
    if kernels == Boxes {
        return if kind == Bf16 {
            by_boxes(shape, segment, usize::MAX)
        } else {
            by_strips(kind, shape, segment)
        };
    }
    if kind == Bf16 && kernels == Hopper && m > SPLIT_TOKENS {
        let largest = TILES.iter().rev().find(|tile| tile.kernels == Hopper);
        if let Some(tile) = largest.filter(|tile| tile.blocks(m, n) >= ENOUGH) {
            return tile.launch_whole(shape, segment);
        }
    }
    let best = |tile: &'static Tile| {
        let worth = m <= SPLIT_TOKENS && k > segment && tile.blocks(m, n) < FULL;
        let split = if worth { tile.launch_split(shape, segment) } else { None };
        split.unwrap_or_else(|| tile.launch_whole(shape, segment))
    };
    let enough = |tile| best(tile).grid.iter().product::<u32>() as usize >= ENOUGH;
    best(choose(kind, m, enough))
}

/// The launch by boxes of at most so many tokens that is expected to take fewest clocks (`kernels/gemm_tile_tma.cuh` counts them).
fn by_boxes(shape: [usize; 3], segment: usize, most_tokens: usize) -> Launch {
    /// Clocks until an item's first stage has come and its sums have gone; and for segments to meet.
    const OF_ITEM: usize = 2_000;
    const OF_MEETING: usize = 4_000;
    let [m, n, k] = shape;
    let clocks = |launch: &Launch| {
        let (values, segments) = launch.split.map_or((k, 1), |segments| (segment, segments));
        let rounds = (launch.tile.blocks(m, n) * segments).div_ceil(PERSISTENT);
        let of_item = values.div_ceil(64) * 4 * launch.tile.tokens + OF_ITEM;
        rounds * of_item + if launch.meets { OF_MEETING } else { 0 }
    };
    let tiles = of_boxes(Bf16).filter(|tile| tile.tokens <= most_tokens && tile.may_be_filled(m));
    let merged = |tile: &'static Tile| tile.launch_merged(shape, segment).filter(|_| few_tiles(m, n));
    let launches = tiles.flat_map(|tile| [Some(tile.launch_whole(shape, segment)), merged(tile)]);
    launches.flatten().min_by_key(clocks).expect("a tile of 64 tokens takes any product")
}

/// The launch by boxes of a quantised weight: split where few tokens leave multiprocessors without a tile.
fn by_strips(kind: Kind, shape: [usize; 3], segment: usize) -> Launch {
    let [m, n, k] = shape;
    let tile =
        of_boxes(kind).rev().find(|tile| tile.may_be_filled(m)).expect("a tile of 64 tokens takes any");
    let worth = m <= SPLIT_TOKENS && k > segment && tile.blocks(m, n) < PERSISTENT;
    let split = if worth { tile.launch_split(shape, segment) } else { None };
    split.unwrap_or_else(|| tile.launch_whole(shape, segment))
}

/// The tiles by boxes for weights of a kind, those for few tokens first. Pairs are left to a table to name.
fn of_boxes(kind: Kind) -> impl DoubleEndedIterator<Item = &'static Tile> {
    TILES.iter().filter(move |tile| tile.kernels == Boxes && tile.kind == kind && !tile.pairs)
}

/// Whether tiles alone leave multiprocessors idle, so that segments may meet: [`Meeting`] has room for them.
fn few_tiles(m: usize, n: usize) -> bool {
    m.div_ceil(256) * n.div_ceil(128) < ENOUGH
}

/// Room for segments that meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Meeting {
    /// The most elements of partial sums, and the most of a row.
    most: usize,
    of_row: usize,
}

impl Meeting {
    /// Bytes of the turns: one for each strip of tiles of 64 tokens, of which four make one of 256.
    pub(super) const TURNS: usize = 4 * 4 * ENOUGH * 128 / STRIP;

    /// Takes note of a weight `[n, k]` whose sums are cut into segments of so many values.
    pub(super) fn multiplies(&mut self, n: usize, k: usize, segment: usize) {
        if k <= segment {
            return;
        }
        let of_row = k.div_ceil(segment) * n.next_multiple_of(128);
        let most_rows = (ENOUGH - 1) / n.div_ceil(128) * 256;
        self.most = self.most.max(most_rows * of_row);
        self.of_row = self.of_row.max(of_row);
    }

    /// Elements of the partial sums of so many rows.
    pub(super) fn partial_len(self, rows: usize) -> usize {
        self.most.min(rows.next_multiple_of(256) * self.of_row)
    }
}

/// The tile for `m` tokens, among those of which `fills` says that their blocks keep a GPU busy where there is one.
fn choose(kind: Kind, m: usize, fills: impl Fn(&'static Tile) -> bool) -> &'static Tile {
    let fast = TILES.iter().filter(|tile| tile.kind == kind && tile.kernels == Fast);
    let (narrow, wide): (Vec<&'static Tile>, Vec<&'static Tile>) =
        fast.partition(|tile| tile.outputs == STRIP);
    let holding = wide.iter().position(|tile| tile.tokens >= m).unwrap_or(wide.len() - 1);
    let filling = wide[..=holding].iter().rev().find(|tile| fills(tile));
    filling.or_else(|| narrow.iter().find(|tile| tile.tokens >= m)).unwrap_or(&wide[0])
}

/// The launch of `gemm_merge`: blocks, and threads of a block.
#[must_use]
pub fn merge(m: usize, n: usize) -> ([u32; 3], u32) {
    ([n.div_ceil(256) as u32, m as u32, 1], 256)
}

/// The launch of a `dequantize_` kernel for `n_rows` rows of `k` values: blocks, and threads of a block.
#[must_use]
pub fn panel(n_rows: usize, k: usize) -> ([u32; 3], u32) {
    ([(k / 2).div_ceil(256) as u32, n_rows as u32, 1], 256)
}

#[cfg(test)]
mod tests;
