//! The tiles of products: their kernels and sizes, and a launch of one over a product. `cost` chooses the
//! tile of a product.

use super::{
    Kernels::{self, MmaSync, Reference, Tma, Wgmma},
    Kind, PERSISTENT, STRIP,
};
use crate::launch::Shape;

/// Kernels that compute the same tile: one that writes `y`, and its split-K variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tile {
    /// The instructions that they use.
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
    /// Dynamic shared memory of a block, in bytes. Above 48 KiB, a function must be configured for it before
    /// its launch.
    pub shared_bytes: u32,
}

/// Every kernel that [`super::launch`] may choose, and the plain ones: `kernels/tests/tiles.txt`, which the
/// kernels' host test compares with their declarations.
pub static TILES: [Tile; 11 + 6 * 13] = {
    let mut all = [REFERENCE; 11 + 6 * 13];
    let mut i = 0;
    while i < all.len() {
        all[i] = if i < 11 { OF_BF16[i] } else { OF_QUANTISED[(i - 11) / 6][(i - 11) % 6] };
        i += 1;
    }
    all
};

/// A tile by `mma.sync`, with these bytes of shared memory.
macro_rules! mma_sync {
    ($kind:ident, $name:literal, $size:literal, [$tokens:literal, $outputs:literal], $threads:literal, $bytes:expr) => {
        Tile {
            kernels: MmaSync,
            kind: Kind::$kind,
            whole: concat!($name, $size),
            split: Some(concat!($name, $size, "_split")),
            reduced: None,
            tokens: $tokens,
            outputs: $outputs,
            threads: $threads,
            shared_bytes: $bytes,
        }
    };
}

/// A tile of 128 outputs by TMA: two warp groups that multiply and one that copies.
macro_rules! tma {
    ($name:literal, $tokens:literal, $bytes:literal) => {
        Tile {
            kernels: Tma,
            reduced: Some(concat!($name, "_merged")),
            ..mma_sync!(Bf16, $name, "", [$tokens, 128], 384, $bytes)
        }
    };
}

const OF_BF16: [Tile; 11] = [
    Tile { whole: "gemm_bf16", split: Some("gemm_bf16_split"), ..REFERENCE },
    mma_sync!(Bf16, "gemm_bf16", "_16x16", [16, 16], 32, 49_152),
    mma_sync!(Bf16, "gemm_bf16", "_16x64", [16, 64], 128, 61_440),
    mma_sync!(Bf16, "gemm_bf16", "_32x64", [32, 64], 128, 61_440),
    mma_sync!(Bf16, "gemm_bf16", "_64x64", [64, 64], 128, 65_536),
    Tile { split: None, ..mma_sync!(Bf16, "gemm_bf16", "_128x128", [128, 128], 128, 65_536) },
    Tile { whole: "gemm_bf16_wgmma_128x128", tokens: 128, outputs: 128, shared_bytes: 164_864, ..WGMMA },
    Tile { whole: "gemm_bf16_wgmma_256x128", tokens: 256, outputs: 128, shared_bytes: 197_632, ..WGMMA },
    tma!("gemm_bf16_tma_64x128", 64, 197_760),
    tma!("gemm_bf16_tma_128x128", 128, 197_728),
    tma!("gemm_bf16_tma_256x128", 256, 197_696),
];

/// The plain kernel of a quantised kind, and its tiles with these bytes of shared memory.
macro_rules! quantised {
    ($kind:ident, $name:literal, $shared_bytes:expr) => {{
        const SHARED_BYTES: [u32; 5] = $shared_bytes;
        [
            Tile { kind: Kind::$kind, whole: $name, split: Some(concat!($name, "_split")), ..REFERENCE },
            mma_sync!($kind, $name, "_8x16", [8, 16], 32, SHARED_BYTES[0]),
            mma_sync!($kind, $name, "_8x64", [8, 64], 128, SHARED_BYTES[1]),
            mma_sync!($kind, $name, "_16x64", [16, 64], 128, SHARED_BYTES[2]),
            mma_sync!($kind, $name, "_32x64", [32, 64], 128, SHARED_BYTES[3]),
            mma_sync!($kind, $name, "_64x128", [64, 128], 128, SHARED_BYTES[4]),
        ]
    }};
}

const OF_QUANTISED: [[Tile; 6]; 13] = [
    quantised!(Q8_0, "gemm_q8_0", [25_344, 53_760, 51_200, 50_688, 67_584]),
    quantised!(Mxfp4, "gemm_mxfp4", [19_200, 39_936, 52_224, 51_200, 64_000]),
    quantised!(Q4K, "gemm_q4_k", [19_584, 41_472, 53_760, 53_248, 67_584]),
    quantised!(Q6K, "gemm_q6_k", [22_464, 52_992, 54_400, 45_312, 60_416]),
    quantised!(Q4_1, "gemm_q4_1", [19_968, 35_840, 46_080, 53_248, 53_248]),
    quantised!(Q5_1, "gemm_q5_1", [21_504, 40_960, 51_200, 57_344, 57_344]),
    quantised!(Q5K, "gemm_q5_k", [21_120, 39_680, 49_920, 56_320, 57_344]),
    quantised!(U4, "gemm_u4", [19_968, 35_840, 46_080, 53_248, 53_248]),
    quantised!(F8, "gemm_f8", [26_112, 45_056, 53_248, 52_224, 69_632]),
    quantised!(RoundedQ8_0, "gemm_q8_0_rounded", [25_344, 43_008, 51_200, 50_688, 67_584]),
    quantised!(RoundedMxfp4, "gemm_mxfp4_rounded", [19_200, 33_280, 43_520, 51_200, 51_200]),
    quantised!(RoundedQ4K, "gemm_q4_k_rounded", [19_584, 34_560, 44_800, 52_224, 53_248]),
    quantised!(RoundedQ6K, "gemm_q6_k_rounded", [22_464, 44_160, 54_400, 59_904, 60_416]),
];

/// A plain kernel: a warp computes a tile from global memory.
const REFERENCE: Tile = Tile {
    kernels: Reference,
    kind: Kind::Bf16,
    whole: "",
    split: None,
    reduced: None,
    tokens: 8,
    outputs: STRIP,
    threads: 32,
    shared_bytes: 0,
};

/// Two warp groups; no split-K.
const WGMMA: Tile = Tile { kernels: Wgmma, threads: 256, ..REFERENCE };

impl Tile {
    /// Blocks for a product of `m` tokens and `n` outputs.
    pub fn blocks(&self, m: usize, n: usize) -> usize {
        m.div_ceil(self.tokens) * n.div_ceil(self.outputs)
    }

    /// Returns true if so many tokens are more than half of it, or it is the smallest TMA tile.
    pub(super) fn may_be_filled(&self, m: usize) -> bool {
        self.tokens == 64 || m > self.tokens / 2
    }

    /// Elements of all tiles.
    fn padded(&self, m: usize, n: usize) -> usize {
        self.blocks(m, n) * self.tokens * self.outputs
    }

    /// The file that its kernels are in.
    pub fn module(&self) -> &'static str {
        // The plain kernel of a kind is named like the file, and one that rounds has a suffix.
        let of_kind = OF_QUANTISED.iter().find(|tiles| tiles[0].kind == self.kind);
        let name = of_kind.map_or("gemm_bf16", |tiles| tiles[0].whole).trim_end_matches("_rounded");
        if self.kernels == Tma { "gemm_tma" } else { name }
    }

    /// The grid over so many tiles and slices. Persistent blocks have as equal numbers of work tiles as
    /// possible, so that as many of them read from memory in every round as in the last.
    fn grid(&self, tiles: usize, slices: usize) -> [u32; 3] {
        if self.kernels == Tma {
            let work_tiles = tiles * slices;
            let rounds = work_tiles.div_ceil(PERSISTENT).max(1);
            return [work_tiles.div_ceil(rounds) as u32, 1, 1];
        }
        [tiles as u32, slices as u32, 1]
    }

    /// The launch that writes `y`, in slices of so many values of `k`.
    pub fn launch_whole(&'static self, [m, n, _]: [usize; 3], k_slice: usize) -> Launch {
        let grid = self.grid(self.blocks(m, n), 1);
        Launch { tile: self, kernel: self.whole, grid, k_slice, split: None, reduces: false }
    }

    /// The launch that writes the sums of the slices, where there is such a kernel.
    pub fn launch_split(&'static self, [m, n, k]: [usize; 3], k_slice: usize) -> Option<Launch> {
        let slices = k.div_ceil(k_slice);
        let grid = self.grid(self.blocks(m, n), slices);
        Some(Launch { tile: self, kernel: self.split?, grid, k_slice, split: Some(slices), reduces: false })
    }

    /// The launch with a split-K reduction in the kernel, where there is such a kernel and more than one
    /// slice.
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
    /// The number of slices where the kernel writes their sums `[slices, m, n]`, which `gemm_merge` then
    /// adds; `None` where it writes `y` without them.
    pub split: Option<usize>,
    /// True if the kernel itself reduces the slices' sums, which are then in whole tiles, with a semaphore
    /// for each warp's rows.
    pub reduces: bool,
}

impl Launch {
    pub(crate) fn shape(&self) -> Shape {
        Shape { grid: self.grid, block: [self.tile.threads, 1], shared_bytes: self.tile.shared_bytes }
    }

    /// Elements of the partial sums: 0 where nothing is split.
    pub fn partial_len(&self, m: usize, n: usize) -> usize {
        let of_slice = if self.reduces { self.tile.padded(m, n) } else { m * n };
        self.split.map_or(0, |slices| slices * of_slice)
    }

    /// The semaphores of a split-K reduction in the kernel; 0 without one.
    pub fn n_semaphores(&self, m: usize, n: usize) -> usize {
        if self.reduces { self.tile.blocks(m, n) * self.tile.outputs / STRIP } else { 0 }
    }
}
