//! Matrix products `y[m, n] = x[m, k] w[n, k]^T`: formats, kernels and launches. Nothing is launched here,
//! and no choice changes a bit: every kernel of a format computes the sum that `kernels/gemm.cuh` defines.

mod cost;
pub mod fused;
pub mod grouped;
pub mod measured;
mod tiles;
mod workspace;

pub(super) use cost::SPLIT_TOKENS;
pub use cost::launch;
use cost::{by_tma, few_tiles, on_h100, tma_tiles};
pub use tiles::{Launch, TILES, Tile};
pub(super) use workspace::SplitK;

use half::f16;

use super::{launch::Shape, quant_layout::QuantLayout};
use tribunal_model::weights::Format;

/// Split-K: the number of values of `k` in a slice, from the shape of the weight alone; never shorter if
/// `in_one_wave`.
///
/// Shape: a weight `[n, k]`. Range: a multiple of 256; at least `k` where there is one slice. The same
/// function as `k_slice` in `kernels/split_k.h`, which has the reasons; `kernels/tests/k_slices.txt` is
/// checked against both.
pub fn k_slice([n, k]: [usize; 2], in_one_wave: bool) -> usize {
    /// The least length of a slice, and the most slices.
    const LEAST: usize = 1024;
    const MOST: usize = 16;
    let blocks = |of: usize| n.div_ceil(of).max(1);
    let slices = if in_one_wave { 132 / blocks(128) } else { 256_usize.div_ceil(blocks(64)) };
    k.div_ceil(slices.min(k / LEAST).clamp(1, MOST)).max(1).next_multiple_of(256)
}

/// Errors of multiplying by a weight on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum Error {
    /// The tensor core takes 16 values at a time.
    #[error("a matrix with rows of `{k}` values; the CUDA kernels need a multiple of 16")]
    Columns {
        /// Values in a row.
        k: usize,
    },
    /// A block of `Q4_0` or `Q5_0` that has no minimum in `f16`.
    #[error(
        "a matrix with a scale of {scale}; `--gpu-kernels new` takes {most} at most; hint: `--gpu-kernels auto`"
    )]
    Scale {
        /// A block's scale.
        scale: f32,
        /// The most of a scale.
        most: f32,
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

/// Persistent blocks: an H100 has this many multiprocessors, each with room for one.
const PERSISTENT: usize = 132;

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

/// A format that has kernels of its own. Those of `Q4_1` are `Q4_0`'s too, those of `Q5_1` `Q5_0`'s; those of
/// `Rounded..` round the same blocks to `bf16`.
#[expect(missing_docs, reason = "most names are ggml's own")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Bf16,
    Q8_0,
    Mxfp4,
    Q4K,
    Q6K,
    Q4_1,
    Q5_1,
    Q5K,
    U4,
    F8,
    RoundedQ8_0,
    RoundedMxfp4,
    RoundedQ4K,
    RoundedQ6K,
}

/// The way to multiply by weights of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// By kernels of their own: `bf16` from rows, the others from `super::quant_layout`.
    Direct(Kind),
    /// Rows become a panel of `bf16` (a rounding of each weight) by the kernel of this name, which is then
    /// multiplied.
    Panel(&'static str),
    /// Strips of `super::quant_layout`, each weight rounded as in [`Self::Panel`]: for at most
    /// [`SPLIT_TOKENS`] rows by kernels of their own, which round in registers; for more by a panel.
    Packed(Kind, &'static str),
}

impl Way {
    /// The way of a format; `packs`: [`Self::Packed`] for all quantised formats.
    pub fn new(format: Format, packs: bool) -> Self {
        match format {
            Format::Q4_0 | Format::Q4_1 if packs => Self::Packed(Kind::Q4_1, "dequantize_planes_q4_1"),
            Format::Q5_0 | Format::Q5_1 if packs => Self::Packed(Kind::Q5_1, "dequantize_planes_q5_1"),
            Format::Q5K if packs => Self::Packed(Kind::Q5K, "dequantize_planes_q5_k"),
            Format::U4 if packs => Self::Packed(Kind::U4, "dequantize_planes_u4"),
            Format::F8E4M3 if packs => Self::Packed(Kind::F8, "dequantize_planes_f8"),
            Format::Q8_0 if packs => Self::Packed(Kind::RoundedQ8_0, "dequantize_planes_q8_0"),
            Format::Mxfp4 if packs => Self::Packed(Kind::RoundedMxfp4, "dequantize_planes_mxfp4"),
            Format::Q4K if packs => Self::Packed(Kind::RoundedQ4K, "dequantize_planes_q4_k"),
            Format::Q6K if packs => Self::Packed(Kind::RoundedQ6K, "dequantize_planes_q6_k"),
            Format::Q8_0 => Self::Direct(Kind::Q8_0),
            Format::Mxfp4 => Self::Direct(Kind::Mxfp4),
            Format::Q4K => Self::Direct(Kind::Q4K),
            Format::Q6K => Self::Direct(Kind::Q6K),
            Format::Q4_0 => Self::Panel("dequantize_q4_0"),
            Format::Q4_1 => Self::Panel("dequantize_q4_1"),
            Format::Q5_0 => Self::Panel("dequantize_q5_0"),
            Format::Q5_1 => Self::Panel("dequantize_q5_1"),
            Format::Q5K => Self::Panel("dequantize_q5_k"),
            _ => Self::Direct(Kind::Bf16),
        }
    }

    /// The format in which a device holds rows of a format that are multiplied in this way.
    pub(super) fn stored(self, format: Format) -> Format {
        if self == Self::Direct(Kind::Bf16) { Format::Bf16 } else { format }
    }

    /// The kind whose kernels multiply so many rows.
    pub fn kind(self, n_rows: usize) -> Kind {
        match self {
            Self::Direct(kind) => kind,
            Self::Packed(kind, _) if n_rows <= SPLIT_TOKENS => kind,
            Self::Panel(_) | Self::Packed(..) => Kind::Bf16,
        }
    }

    /// The kernel that writes a panel for so many rows.
    pub fn panel(self, n_rows: usize) -> Option<&'static str> {
        match self {
            Self::Panel(kernel) => Some(kernel),
            Self::Packed(_, kernel) if n_rows > SPLIT_TOKENS => Some(kernel),
            Self::Direct(_) | Self::Packed(..) => None,
        }
    }

    /// Checks that blocks can be multiplied in this way.
    ///
    /// # Errors
    /// A packed block whose minimum `f16` does not represent.
    pub(super) fn check(self, format: Format, blocks: &[u8]) -> Result<(), Error> {
        if !matches!((self, format), (Self::Packed(..), Format::Q4_0 | Format::Q5_0)) {
            return Ok(());
        }
        let most = f16::MAX.to_f32() / format.offset() as f32;
        let scales =
            blocks.chunks_exact(format.block_bytes()).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32());
        match scales.into_iter().find(|scale| scale.abs() > most) {
            Some(scale) => Err(Error::Scale { scale, most }),
            None => Ok(()),
        }
    }

    /// Rows of `k` values of a file as they are multiplied in this way.
    pub fn laid_out(self, format: Format, k: usize, rows: &[u8]) -> Vec<u8> {
        let Some(layout) = self.layout(format, k) else { return rows.to_vec() };
        let mut out = vec![0; layout.bytes(rows.len() / format.row_bytes(k))];
        layout.write(rows, &mut out);
        out
    }

    /// The layout of rows of `k` values, of a format that is multiplied in this way; `None` for rows.
    pub(super) fn layout(self, format: Format, k: usize) -> Option<QuantLayout> {
        if let Self::Panel(_) | Self::Direct(Kind::Bf16) = self { None } else { QuantLayout::new(format, k) }
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
    /// `wgmma` with a producer warp group that copies TMA tiles, for `bf16` weights. Only cards of capability
    /// 9.0 run them. They have the bits of the others, on an H100 too.
    Tma,
    /// Any of these, by a table of measurements ([`measured`]) or a count of clocks. Only cards like the
    /// measured one have it.
    Measured,
}

impl Kernels {
    /// The fastest kernels for a card of this compute capability with so many multiprocessors. The table of
    /// measurements is an H100's with 132: an H20, a `PCIe` card or a slice of one has fewer, and for them it
    /// would be wrong.
    pub fn for_gpu(capability: (i32, i32), multiprocessors: usize) -> Self {
        match (capability, multiprocessors) {
            ((9, 0), PERSISTENT) => Self::Measured,
            ((9, 0), _) => Self::Wgmma,
            _ => Self::MmaSync,
        }
    }
}

/// The launch of `gemm_merge`.
pub(super) fn merge(m: usize, n: usize) -> Shape {
    Shape::new([m, n.div_ceil(256)], 256)
}

/// The launch of a `dequantize_` kernel for `n_rows` rows of `k` values.
pub(super) fn panel(n_rows: usize, k: usize) -> Shape {
    Shape::new([n_rows, (k / 8).div_ceil(128)], 128)
}

#[cfg(test)]
mod tests;
