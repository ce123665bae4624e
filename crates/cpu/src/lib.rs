//! The CPU backend: packed weights of linear layers and their products with activations, attention, sampling.
//! Kernels work on slices; they open no file and use the caller's rayon pool.
//!
//! A weight matrix `[n, k]` is cut into panels of 16 outputs; within a panel the values run along `k`, the
//! 16 outputs side by side, so that one 512-bit register holds the next values of 16 outputs. Rows of
//! activations are cut into tiles of at most 16 rows ([`Input`]). A kernel multiplies two panels by one tile:
//! it unpacks a block of weights into registers once for all rows of the tile.
//!
//! Activations have one scale per 32 values for every quantised format, the K-quants included. One scale per
//! 256 would save about a tenth of the products of the inner loop, but lose precision near outliers.
//!
//! **Instruction sets.** Kernels are selected at run time ([`Isa`]). Those of floats, of attention and of
//! everything between products are written once over sixteen lanes ([`lanes`]), which take one, two or four
//! registers. So are those of 8-bit integers, over the operations of `int8`: AVX-512, AVX2 (with AVX-VNNI
//! and without) and NEON (with its products of four bytes, of matrices, and without) implement them; AMX
//! reads the same formats into its own tiles. Plain Rust is the reference.
//!
//! **The same bytes.** The sum of one output of one row is taken in one order, block after block along
//! `k`, whatever the number of rows, tiles and threads. Integer formats give the same bits on every
//! [`Isa`]: the sum of a block is an exact 32-bit integer, and each later step is one rounded
//! operation (a product or a fused multiply-add), the same on all of them. See [`isa_matters`].
#![expect(
    unsafe_code,
    reason = "vector instructions that are chosen at run time, and disjoint columns of one output"
)]
#![expect(
    clippy::inline_always,
    reason = "plain loops take the instruction set of the function that they are inlined into"
)]

pub mod backend;

mod adapter;
mod attention;
mod experts;
mod latent;
mod linear;
mod norm;
mod rotary;
mod routing;
mod rows;
pub mod sampler;

mod ahead;
mod cache;
mod shared;
mod states;

pub mod activate;
pub mod attend;
pub mod delta_net;
pub mod softmax;

mod floats;
mod input;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod int8;
pub mod lanes;
mod layout;
mod pack;
mod portable;
mod schedule;
mod unpack;

pub mod baseline;
pub mod cores;
pub mod heap;
mod isa;
pub mod peak;

#[cfg(target_arch = "aarch64")]
mod neon;

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

#[cfg(test)]
mod tests;

pub use backend::Cpu;
pub use input::{Coding, Input};
pub use isa::Isa;
pub use linear::Compute;
pub use schedule::{Job, add_multiply, gemm, multiply};

use layout::Storage;
pub use layout::{coding, isa_matters};
use tribunal_model::weights::Format;

/// The number type of a quantised layer's activations during multiplication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activations {
    /// Fast: 8-bit integers with one `f32` scale per 32 values against quantised weights, `bf16` against
    /// `bf16` weights, `f32` against `f32` and `f16` weights.
    Q8,
    /// Exact: `f32` activations against weights widened to `f32`, whatever the format.
    Float,
}

/// Errors of packing.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// A row is not a whole number of blocks.
    #[error("rows of `{k}` values do not divide into `{format:?}` blocks of `{block}`")]
    Columns {
        /// The requested format.
        format: Format,
        /// Values in a row.
        k: usize,
        /// Values in a block of that format.
        block: usize,
    },
    /// The bytes are too few or too many.
    #[error("`{got}` bytes for a `{format:?}` matrix [{n}, {k}], which takes `{expected}`")]
    Length {
        /// The requested format.
        format: Format,
        /// Rows (outputs).
        n: usize,
        /// Values in a row (inputs).
        k: usize,
        /// Bytes given.
        got: usize,
        /// Bytes of the shape.
        expected: usize,
    },
    /// No memory for the packed copy.
    #[error("no memory for `{bytes}` bytes of packed weights: {reason}")]
    Memory {
        /// Bytes requested.
        bytes: usize,
        /// The system's error.
        reason: String,
    },
}

/// The weights `[n, k]` of one linear layer in the packed layout: at most 1.05 times the bytes of the file's
/// blocks (`IQ4_XS` 1.08, `Q3_K` 1.33), beyond the rounding of `n` up to 16.
#[derive(Debug)]
pub struct Packed {
    format: Format,
    n: usize,
    k: usize,
    storage: Storage,
}

impl Packed {
    /// Packs ggml blocks (or little-endian `f32`, `f16`, `bf16` values), row by row.
    ///
    /// Shape: `blocks` holds `n` rows of [`Format::row_bytes`]`(k)` bytes.
    ///
    /// # Errors
    /// When `k` is not a whole number of blocks, when the length is not that of the shape, or when there is
    /// no memory.
    pub fn pack(format: Format, n: usize, k: usize, blocks: &[u8]) -> Result<Self, Error> {
        check(format, n, k, blocks)?;
        let storage = pack::pack(format, n, k, blocks)?;
        Ok(Self { format, n, k, storage })
    }

    /// Memory for a stack of matrices of one format, to be filled by [`Packed::fill`].
    ///
    /// # Errors
    /// No memory.
    fn stack(format: Format, n: usize, k: usize) -> Result<Self, Error> {
        Ok(Self { format, n, k, storage: Storage::new(format, n, k)? })
    }

    /// Packs the `n` outputs from `first` on; both are whole panels.
    ///
    /// # Errors
    /// Those of [`Packed::pack`].
    fn fill(&mut self, first: usize, n: usize, blocks: &[u8]) -> Result<(), Error> {
        let (format, k) = (self.format, self.k);
        check(format, n, k, blocks)?;
        let rows = pack::Rows { format, n, k, bytes: blocks };
        pack::pack_at(&mut self.storage, first / layout::LANES, &rows);
        Ok(())
    }

    /// The format it was packed from.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Outputs.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Inputs.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Resident memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.storage.bytes()
    }

    /// `out = x wᵀ`: one layer, its input coded for it alone. Layers that share their input take
    /// [`multiply`] with one [`Input`].
    ///
    /// Shape: `x` `[m, k]`, `out` `[m, n]`, both row-major.
    ///
    /// # Panics
    /// When a slice does not have the length of its shape.
    pub fn matmul(&self, x: &[f32], m: usize, out: &mut [f32], activations: Activations, isa: Isa) {
        let input = Input::new(x, m, self.k, coding(self.format, activations), isa);
        multiply(&mut [Job { weights: self, out }], &input);
    }

    /// Row `i` as `f32`: the embedding of one token when the matrix is an embedding table. The values equal
    /// ggml's own dequantisation.
    ///
    /// Shape: `out` `[k]`.
    ///
    /// # Panics
    /// When `i >= n` or `out` does not have `k` values.
    pub fn dequantize_row(&self, i: usize, out: &mut [f32]) {
        assert!(i < self.n, "row {i} of {}", self.n);
        assert_eq!(out.len(), self.k, "one row of weights");
        unpack::row(&self.storage.panel(i / layout::LANES), i % layout::LANES, out);
    }
}

/// Checks that bytes have the length of a matrix.
fn check(format: Format, n: usize, k: usize, blocks: &[u8]) -> Result<(), Error> {
    if !k.is_multiple_of(format.block()) {
        return Err(Error::Columns { format, k, block: format.block() });
    }
    let expected = n * format.row_bytes(k);
    if blocks.len() != expected {
        return Err(Error::Length { format, n, k, got: blocks.len(), expected });
    }
    Ok(())
}

/// Runs a generic kernel on the lanes of an instruction set.
macro_rules! on_isa {
    ($isa:expr, $name:ident<$($l:ident: $bound:path),*>($($arg:ident: $ty:ty),* $(,)?)) => {{
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx512f,avx512bw,avx512bf16,avx2,fma,f16c")]
            fn avx512<$($l: $bound),*>($($arg: $ty),*) {
                $name::<$crate::lanes::Avx512 $(, $l)*>($($arg),*)
            }
            #[target_feature(enable = "avx512f,avx512bw,avx512bf16,avx2,fma,f16c")]
            fn avx512_floats<$($l: $bound),*>($($arg: $ty),*) {
                $name::<$crate::lanes::Avx512Floats $(, $l)*>($($arg),*)
            }
            #[target_feature(enable = "avx2,fma,f16c")]
            fn avx2<$($l: $bound),*>($($arg: $ty),*) {
                $name::<$crate::lanes::Avx2 $(, $l)*>($($arg),*)
            }
            match $isa.instructions() {
                // SAFETY: an instruction set exists only on machines that have its instructions.
                $crate::isa::Instructions::Avx512 => unsafe { avx512::<$($l),*>($($arg),*) },
                // SAFETY: an instruction set exists only on machines that have its instructions.
                $crate::isa::Instructions::Amx => unsafe { avx512_floats::<$($l),*>($($arg),*) },
                // SAFETY: an instruction set exists only on machines that have its instructions.
                $crate::isa::Instructions::Avx2
                | $crate::isa::Instructions::AvxVnni => unsafe { avx2::<$($l),*>($($arg),*) },
                _ => $name::<$crate::lanes::Portable $(, $l)*>($($arg),*),
            }
        }
        #[cfg(target_arch = "aarch64")]
        {
            /// A separate function, whose instructions can be inspected.
            #[inline(never)]
            fn neon<$($l: $bound),*>($($arg: $ty),*) {
                $name::<$crate::lanes::Neon $(, $l)*>($($arg),*)
            }
            match $isa.instructions() {
                $crate::isa::Instructions::Portable => {
                    $name::<$crate::lanes::Portable $(, $l)*>($($arg),*)
                }
                _ => neon::<$($l),*>($($arg),*),
            }
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        {
            let _ = $isa;
            $name::<$crate::lanes::Portable $(, $l)*>($($arg),*)
        }
    }};
}
pub(crate) use on_isa;
