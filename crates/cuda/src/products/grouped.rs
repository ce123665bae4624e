//! Grouped products: the choice of a kernel that multiplies the rows of a layer's experts with their weights,
//! all experts in one launch. A choice for speed alone, which changes no bit: each has the sums of
//! `kernels/gemm.cuh` in one slice.

use super::{Kernels, Kind, TILES, Tile};
use Kernels::{MmaSync, Reference, Tma};

/// A tile with kernels for experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grouped {
    /// Tokens and outputs of a block, its threads and shared memory.
    pub tile: &'static Tile,
    /// The kernel that writes sums in f32.
    pub sums: &'static str,
    /// The kernel that writes gated values in bf16.
    pub gated: &'static str,
}

/// Instructions and kind, the tile's kernel for all rows of a product, then the two for experts.
type Names = (Kernels, Kind, &'static str, &'static str, &'static str);

macro_rules! names {
    ($kernels:ident, $kind:ident, $name:expr, $($size:literal)?) => {
        ($kernels, Kind::$kind, concat!($name, $($size)?), concat!($name, $($size,)? "_grouped"), concat!($name, $($size,)? "_gated"))
    };
}

/// The kernels of `bf16`, those for few tokens first.
const OF_BF16: [Names; 5] = [
    names!(Reference, Bf16, "gemm_bf16",),
    names!(MmaSync, Bf16, "gemm_bf16", "_16x64"),
    names!(MmaSync, Bf16, "gemm_bf16", "_64x64"),
    names!(MmaSync, Bf16, "gemm_bf16", "_128x128"),
    names!(Tma, Bf16, "gemm_bf16", "_tma_256x128"),
];

/// The kernels of a quantised kind.
macro_rules! quantised {
    ($kind:ident, $name:literal) => {
        [
            names!(Reference, $kind, $name,),
            names!(MmaSync, $kind, $name, "_8x64"),
            names!(MmaSync, $kind, $name, "_32x64"),
            names!(MmaSync, $kind, $name, "_64x128"),
        ]
    };
}

const OF_QUANTISED: [[Names; 4]; 13] = [
    quantised!(Q8_0, "gemm_q8_0"),
    quantised!(Mxfp4, "gemm_mxfp4"),
    quantised!(Q4K, "gemm_q4_k"),
    quantised!(Q6K, "gemm_q6_k"),
    quantised!(Q4_1, "gemm_q4_1"),
    quantised!(Q5_1, "gemm_q5_1"),
    quantised!(Q5K, "gemm_q5_k"),
    quantised!(U4, "gemm_u4"),
    quantised!(F8, "gemm_f8"),
    quantised!(RoundedQ8_0, "gemm_q8_0_rounded"),
    quantised!(RoundedMxfp4, "gemm_mxfp4_rounded"),
    quantised!(RoundedQ4K, "gemm_q4_k_rounded"),
    quantised!(RoundedQ6K, "gemm_q6_k_rounded"),
];

/// All of these kernels.
fn names() -> impl Iterator<Item = &'static Names> {
    OF_BF16.iter().chain(OF_QUANTISED.as_flattened())
}

/// The most rows of an expert for which one tile by `mma.sync` reads each weight once.
const FEW_TOKENS: usize = 64;

/// The fewest tokens of a tile.
const LEAST_TOKENS: usize = 8;

impl Grouped {
    /// True if the weights are a tensor map: `kernels/gemm_grouped_tma.cuh`.
    pub fn by_tma(&self) -> bool {
        self.tile.kernels == Tma
    }

    /// The file that the kernels are in.
    pub fn module(&self) -> &'static str {
        if self.by_tma() { "gemm_grouped_tma" } else { self.tile.module() }
    }

    /// Blocks for so many tiles of pairs and `n` outputs of an expert.
    pub fn blocks(&self, n_tiles: usize, n: usize, multiprocessors: usize) -> usize {
        let all = n_tiles * n.div_ceil(self.tile.outputs);
        if self.by_tma() { all.min(multiprocessors) } else { all }
    }
}

/// The kernels of a kind, the plain ones first, then those for few tokens.
pub fn of_kind(kind: Kind) -> impl Iterator<Item = Grouped> {
    names().filter(move |(_, of, ..)| *of == kind).filter_map(|&(.., name, sums, gated)| {
        let tile = TILES.iter().find(|tile| tile.whole == name)?;
        Some(Grouped { tile, sums, gated })
    })
}

/// The kernels for so many pairs of row and expert, on a card that runs these: the smallest tile that holds
/// an expert's rows where all have equally many, or the largest. With few rows most reads are of weights, and
/// a tile of many tokens would multiply zeros. `by_tma`: for more than [`FEW_TOKENS`] rows of an expert, the
/// kernel by TMA.
pub fn choose(kernels: Kernels, kind: Kind, (pairs, n_experts): (usize, usize), by_tma: bool) -> Grouped {
    let all: Vec<Grouped> = of_kind(kind).filter(|grouped| by_tma || !grouped.by_tma()).collect();
    if kernels == Reference {
        return all[0];
    }
    let average = pairs.div_ceil(n_experts.max(1));
    let for_many = all.iter().find(|grouped| grouped.by_tma() && average > FEW_TOKENS);
    let holding = || all.iter().skip(1).find(|grouped| grouped.tile.tokens >= average);
    *for_many.or_else(holding).unwrap_or(&all[all.len() - 1])
}

/// The most tiles of so many tokens that so many pairs fill, however the experts share them.
pub fn most_tiles(pairs: usize, n_experts: usize, tokens: usize) -> usize {
    (pairs + (tokens - 1) * n_experts.min(pairs)) / tokens
}

/// The most tiles that so many pairs fill, with any of the kernels.
pub(crate) fn most_tiles_of_any(pairs: usize, n_experts: usize) -> usize {
    most_tiles(pairs, n_experts, LEAST_TOKENS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Kind::{Bf16, Q4K, Q6K};

    #[test]
    fn every_kind_has_a_plain_kernel_and_tiles() {
        let plain = TILES.iter().filter(|tile| tile.kernels == Reference);
        assert_eq!(plain.map(|tile| of_kind(tile.kind).count()).sum::<usize>(), names().count());
        for &(kernels, kind, name, ..) in names() {
            let found = TILES.iter().find(|tile| tile.whole == name).unwrap();
            assert_eq!((found.kernels, found.kind), (kernels, kind), "{name}");
            assert!(found.tokens >= LEAST_TOKENS, "{name}");
        }
    }

    #[test]
    fn tiles_are_for_the_rows_of_an_expert() {
        let name = |pairs| choose(MmaSync, Bf16, (pairs, 128), false).sums;
        assert_eq!(name(8), "gemm_bf16_16x64_grouped");
        assert_eq!(name(16 * 128), "gemm_bf16_16x64_grouped");
        assert_eq!(name(17 * 128), "gemm_bf16_64x64_grouped");
        assert_eq!(name(8192 * 8), "gemm_bf16_128x128_grouped");
        assert_eq!(choose(Kernels::Measured, Q4K, (8192 * 8, 128), true).gated, "gemm_q4_k_64x128_gated");
        assert_eq!(choose(Reference, Q6K, (8192, 8), true).sums, "gemm_q6_k_grouped");
        let by_tma = |pairs| choose(Kernels::Measured, Bf16, (pairs, 128), true).sums;
        assert_eq!(by_tma(64 * 128), "gemm_bf16_64x64_grouped");
        assert_eq!(by_tma(65 * 128), "gemm_bf16_tma_256x128_grouped");
        assert_eq!(by_tma(8192 * 8), "gemm_bf16_tma_256x128_grouped");
    }

    #[test]
    fn as_many_tiles_as_the_worst_share_fills() {
        assert_eq!(most_tiles(8, 128, 16), 8, "one row, eight experts");
        assert_eq!(most_tiles(0, 8, 16), 0);
        // All rows but one of each expert go to one.
        let (n, tokens) = (5, 8);
        for pairs in 1..200_usize {
            let fill = |counts: &[usize]| counts.iter().map(|n| n.div_ceil(tokens)).sum::<usize>();
            for ones in 0..n.min(pairs) {
                let mut counts = vec![1; ones];
                counts.push(pairs - ones);
                assert!(fill(&counts) <= most_tiles(pairs, n, tokens), "{pairs} pairs, {counts:?}");
            }
        }
    }
}
