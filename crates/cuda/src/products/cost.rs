//! The choice of a product's tile, and of a split over k: from counts of blocks, expected clocks, and a table
//! of measurements. Nothing here changes a bit.

use super::{
    Kernels::{self, Measured, MmaSync, Reference, Tma, Wgmma},
    Kind::{self, Bf16},
    PERSISTENT, STRIP, measured,
    tiles::{Launch, TILES, Tile},
};

/// Blocks that fill a large GPU: two on each of about 130 multiprocessors.
pub(super) const FULL: usize = 256;
/// Blocks with which most of its multiprocessors have one.
pub(super) const ENOUGH: usize = 96;
/// The most tokens of a product that is split: past it the partial sums are more work than idle
/// multiprocessors.
pub(crate) const SPLIT_TOKENS: usize = 64;

/// The launch of a product of `m` tokens with a weight `[n, k]`, on a card that runs these kernels.
///
/// A choice for speed alone. For `bf16` weights and more tokens than a split takes: on an H100 the fastest in
/// a table ([`measured`]), or for a shape that it does not have the TMA kernel with the fewest expected
/// clocks; on another card of capability 9.0 the largest tile of `wgmma` where that gives most
/// multiprocessors a block. Otherwise the smallest tile that holds all tokens (or the largest one), a smaller
/// one where its blocks would leave multiprocessors idle. A product of few tokens is split where its tiles
/// alone do not fill a GPU.
///
/// `k_slice` is that of the whole weight ([`super::k_slice`]), of which `n` may be a part of the outputs.
pub fn launch(kernels: Kernels, kind: Kind, shape: [usize; 3], k_slice: usize) -> Launch {
    let measured = (kernels == Measured && kind == Bf16).then(|| on_h100(shape, k_slice)).flatten();
    measured.unwrap_or_else(|| by_rule(kernels, kind, shape, k_slice))
}

/// The launch of a product with a `bf16` weight on an H100: the table's, or of more tokens than a split takes
/// a TMA kernel.
pub(super) fn on_h100(shape: [usize; 3], k_slice: usize) -> Option<Launch> {
    measured::launch(shape, k_slice)
        .or_else(|| (shape[0] > SPLIT_TOKENS).then(|| by_tma(shape, k_slice, usize::MAX)))
}

/// The launch for shapes that no table has.
pub(super) fn by_rule(kernels: Kernels, kind: Kind, shape: [usize; 3], k_slice: usize) -> Launch {
    let [m, n, k] = shape;
    if kernels == Reference {
        let plain = TILES.iter().find(|tile| tile.kernels == Reference && tile.kind == kind);
        return plain.expect("every kind has a plain kernel").launch_whole(shape, k_slice);
    }
    if kernels == Tma && kind == Bf16 {
        return by_tma(shape, k_slice, usize::MAX);
    }
    if kind == Bf16 && kernels == Wgmma && m > SPLIT_TOKENS {
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

/// The TMA launch of at most so many tokens with the fewest expected clocks (`kernels/gemm_tile_tma.cuh`
/// counts them).
pub(super) fn by_tma(shape: [usize; 3], k_slice: usize, most_tokens: usize) -> Launch {
    /// Clocks for the first stage of a work tile to arrive and its sums to be written; and of a split-K
    /// reduction.
    const OF_WORK_TILE: usize = 2_000;
    const OF_REDUCTION: usize = 4_000;
    /// Values of k of a stage; clocks of its products for a token; bytes that the L2 cache gives a
    /// multiprocessor in a clock. Memory gives less, but the same weights whatever the tile.
    const STAGE: usize = 64;
    const OF_TOKEN: usize = 4;
    const L2_BYTES: usize = 40;
    let [m, n, k] = shape;
    let clocks = |launch: &Launch| {
        let (values, slices) = launch.split.map_or((k, 1), |slices| (k_slice, slices));
        let rounds = (launch.tile.blocks(m, n) * slices).div_ceil(PERSISTENT);
        let Tile { tokens, outputs, .. } = *launch.tile;
        let of_stage = (OF_TOKEN * tokens).max(2 * STAGE * (tokens + outputs) / L2_BYTES);
        let of_work_tile = values.div_ceil(STAGE) * of_stage + OF_WORK_TILE;
        rounds * of_work_tile + if launch.reduces { OF_REDUCTION } else { 0 }
    };
    let tiles = tma_tiles().filter(|tile| tile.tokens <= most_tokens && tile.may_be_filled(m));
    let reduced = |tile: &'static Tile| tile.launch_reduced(shape, k_slice).filter(|_| few_tiles(m, n));
    let launches = tiles.flat_map(|tile| [Some(tile.launch_whole(shape, k_slice)), reduced(tile)]);
    launches.flatten().min_by_key(clocks).expect("a tile of 64 tokens takes any product")
}

/// The TMA kernels' tiles, those for few tokens first.
pub(super) fn tma_tiles() -> impl DoubleEndedIterator<Item = &'static Tile> {
    TILES.iter().filter(|tile| tile.kernels == Tma)
}

/// Returns true if output tiles alone leave multiprocessors idle, so that a kernel may split k:
/// [`super::SplitK`] has room for it.
pub(super) fn few_tiles(m: usize, n: usize) -> bool {
    m.div_ceil(256) * n.div_ceil(128) < ENOUGH
}

/// The tile for `m` tokens; if possible, one for which `fills` is true (its blocks keep a GPU busy).
fn choose(kind: Kind, m: usize, fills: impl Fn(&'static Tile) -> bool) -> &'static Tile {
    let fast = TILES.iter().filter(|tile| tile.kind == kind && tile.kernels == MmaSync);
    let (narrow, wide): (Vec<&'static Tile>, Vec<&'static Tile>) =
        fast.partition(|tile| tile.outputs == STRIP);
    let holding = wide.iter().position(|tile| tile.tokens >= m).unwrap_or(wide.len() - 1);
    let filling = wide[..=holding].iter().rev().find(|tile| fills(tile));
    filling.or_else(|| narrow.iter().find(|tile| tile.tokens >= m)).unwrap_or(&wide[0])
}
