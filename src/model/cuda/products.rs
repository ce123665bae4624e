//! Which kernel computes a product `y[m, n] = x[m, k] w[n, k]^T`, and with what launch. Nothing is launched here, and
//! no choice moves a bit: every kernel of a format computes the sum that `kernels/gemm.cuh` defines.

use crate::model::cpu::Format;

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
    /// By kernels of their own: `bf16` as it is, the others from `super::planes`.
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

/// A pair of kernels that compute the same tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tile {
    /// The weights that they read. Their module is `gemm_bf16`, `gemm_q8_0`, `gemm_q4_k` or `gemm_q6_k`.
    pub kind: Kind,
    /// The kernel that writes `y`.
    pub whole: &'static str,
    /// The kernel that writes the sum of each segment.
    pub split: &'static str,
    /// Tokens of a block.
    pub tokens: usize,
    /// Outputs of a block.
    pub outputs: usize,
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, in bytes. Above 48 KiB a function must be allowed it before its launch.
    pub shared_bytes: u32,
}

const fn plain(kind: Kind, whole: &'static str, split: &'static str) -> Tile {
    Tile { kind, whole, split, tokens: 8, outputs: 16, threads: 32, shared_bytes: 0 }
}

/// Every kernel that [`launch`] may choose.
pub const TILES: [Tile; 4] = [
    plain(Kind::Bf16, "gemm_bf16", "gemm_bf16_split"),
    plain(Kind::Q8_0, "gemm_q8_0", "gemm_q8_0_split"),
    plain(Kind::Q4K, "gemm_q4_k", "gemm_q4_k_split"),
    plain(Kind::Q6K, "gemm_q6_k", "gemm_q6_k_split"),
];

/// A product's launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Its kernels.
    pub tile: &'static Tile,
    /// Blocks, of `tile.threads` threads in x.
    pub grid: [u32; 3],
    /// Values of `k` in a segment, as the kernel's argument.
    pub segment: usize,
    /// The number of segments where `tile.split` is launched, its sums `[segments, m, n]` to be folded by
    /// `gemm_merge`; `None` where `tile.whole` is.
    pub split: Option<usize>,
}

impl Launch {
    /// Elements of the partial sums: 0 where nothing is split.
    #[must_use]
    pub fn partial_len(&self, m: usize, n: usize) -> usize {
        self.split.map_or(0, |segments| segments * m * n)
    }
}

/// Blocks that fill a GPU: two on each of about 130 multiprocessors.
const FULL: usize = 256;
/// The most tokens of a product that is split: past it the partial sums are more work than idle multiprocessors.
const SPLIT_TOKENS: usize = 64;

/// The launch of a product of `m` tokens with a weight `[n, k]`.
#[must_use]
pub fn launch(kind: Kind, m: usize, n: usize, k: usize) -> Launch {
    let tile = choose(kind, m, n);
    let (across, down) = (m.div_ceil(tile.tokens), n.div_ceil(tile.outputs));
    let segment = segment(n, k);
    let segments = k.div_ceil(segment);
    let split = (segments > 1 && m <= SPLIT_TOKENS && across * down < FULL).then_some(segments);
    Launch { tile, grid: [across as u32, down as u32, split.unwrap_or(1) as u32], segment, split }
}

fn choose(kind: Kind, _m: usize, _n: usize) -> &'static Tile {
    TILES.iter().find(|tile| tile.kind == kind).expect("each kind has a tile")
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
mod tests {
    use super::{Error, check, segment};

    #[test]
    fn segments_are_those_of_the_kernels() {
        let table = include_str!("../../../kernels/tests/segments.txt");
        let rows = table.lines().filter(|line| !line.starts_with('#'));
        let mut seen = 0;
        for row in rows {
            let numbers: Vec<usize> = row.split(' ').map(|word| word.parse().unwrap()).collect();
            let [n, k, length, segments] = numbers[..] else { panic!("four numbers: {row}") };
            assert_eq!((segment(n, k), k.div_ceil(segment(n, k))), (length, segments), "[{n}, {k}]");
            seen += 1;
        }
        assert!(seen >= 20, "{seen} rows");
    }

    #[test]
    fn rows_must_be_whole_steps() {
        assert_eq!(check(8, 48), Ok(()));
        assert_eq!(check(8, 40), Err(Error::Columns { k: 40 }));
        assert_eq!(check(8, 0), Err(Error::Columns { k: 0 }));
        assert_eq!(check(1 << 31, 64), Err(Error::TooLarge { n: 1 << 31, k: 64 }));
    }
}
