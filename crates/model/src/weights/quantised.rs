//! Matrices that quantisation libraries store as several tensors, and the blocks of a [`Format`] that hold
//! exactly the same numbers: integers of 4 or 8 bits with a scale for each group of a row, and 8-bit floats
//! with scales.
//!
//! | library | codes | scales | zero points |
//! |---|---|---|---|
//! | GPTQ | `qweight` i32 `[k / c, n]`, code `k % c` in bits `b (k % c)` | `[groups, n]` | `qzeros` i32 `[groups, n / c]` |
//! | AWQ | `qweight` i32 `[k, n / 8]`, columns 0, 2, 4, 6, 1, 3, 5, 7 from the lowest bits up | `[groups, n]` | `qzeros` likewise |
//! | compressed-tensors | `weight_packed` i32 `[n, k / c]` | `[n, groups]` | `weight_zero_point` i32 `[n / c, groups]` |
//! | FP8 | `weight` e4m3 `[n, k]` | of tiles, rows or the tensor | none |
//! | MXFP4 | `_blocks` u8 `[n, k / 32, 16]`, two values in a byte | `_scales` u8 `[n, k / 32]`, exponents | none |
//!
//! with `b` bits and `c = 32 / b` codes in a word. `w = scale (code - zero)`.

mod floats;
mod integers;

use half::{bf16, f16};
use rayon::prelude::*;
use safetensors::Dtype;

use super::Format;
use crate::weights::ggml::BLOCK;
use floats::FloatScales;
use integers::{Integers, group_of};

/// Rows that are unpacked together, so that words of neighbouring rows are read while their line is in the
/// cache.
const ROWS: usize = 64;
/// The column of eight that each of AWQ's nibbles belongs to, from the lowest bits up.
const AWQ_ORDER: [usize; 8] = [0, 2, 4, 6, 1, 3, 5, 7];

/// A tensor of the file.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub name: String,
    pub file: usize,
    pub start: usize,
    pub end: usize,
    pub dtype: Dtype,
    pub shape: Vec<usize>,
}

/// The storage of a matrix's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Storage {
    /// `stored` is the difference between the zero point that is meant and the one in the file.
    Gptq {
        bits: u32,
        stored: u32,
    },
    Awq,
    Compressed {
        bits: u32,
    },
    /// Scales of tiles of `[rows, values]`.
    Float {
        tile: [usize; 2],
    },
    /// Two neighbouring 4-bit floats in a byte, the first in its low half; exponents as scales.
    Mxfp4,
}

impl Storage {
    /// Bits of a code.
    pub(super) fn bits(self) -> u32 {
        match self {
            Self::Gptq { bits, .. } | Self::Compressed { bits } => bits,
            Self::Awq | Self::Mxfp4 => 4,
            Self::Float { .. } => 8,
        }
    }
}

/// One matrix `[n, k]`.
#[derive(Debug)]
pub(super) struct Quantised {
    pub storage: Storage,
    pub format: Format,
    pub shape: [usize; 2],
    pub codes: Piece,
    pub scales: Piece,
    pub zeros: Option<Piece>,
    /// The group of each value of a row, where the file has such a list.
    pub groups: Option<Piece>,
}

/// The bytes of the tensors.
struct Bytes<'a> {
    codes: &'a [u8],
    scales: &'a [u8],
    zeros: Option<&'a [u8]>,
}

impl Quantised {
    /// The matrix in blocks of its format, row by row.
    ///
    /// # Errors
    /// Tensors that do not fit together, or values that a block cannot represent exactly.
    pub(super) fn blocks<'a>(
        &self,
        read: impl Fn(&Piece) -> Result<&'a [u8], String>,
    ) -> Result<Vec<u8>, String> {
        let bytes = Bytes {
            codes: read(&self.codes)?,
            scales: read(&self.scales)?,
            zeros: self.zeros.as_ref().map(&read).transpose()?,
        };
        let [n, k] = self.shape;
        if !k.is_multiple_of(BLOCK) {
            return Err(format!("has rows of {k} values, not a multiple of {BLOCK}"));
        }
        if let Some(list) = &self.groups {
            self.check_order(list, read(list)?)?;
        }
        let row_bytes = self.format.row_bytes(k);
        let mut out = vec![0; n * row_bytes];
        if self.storage == Storage::Mxfp4 {
            let blocks = out.par_chunks_exact_mut(self.format.block_bytes());
            let given = bytes.codes.par_chunks_exact(BLOCK / 2).zip(bytes.scales);
            blocks.with_min_len(1 << 10).zip(given).for_each(|(block, (codes, scale))| {
                block[0] = *scale;
                for i in 0..BLOCK / 4 {
                    let (low, high) = (codes[i], codes[i + BLOCK / 4]);
                    block[1 + 2 * i] = low & 15 | high << 4;
                    block[2 + 2 * i] = low >> 4 | high & 0xf0;
                }
            });
            return Ok(out);
        }
        let parts = out.par_chunks_mut(ROWS * row_bytes).enumerate();
        if let Storage::Float { tile } = self.storage {
            let scales = FloatScales::new(&self.scales, bytes.scales, (self.shape, tile))?;
            parts.try_for_each(|(i, rows)| floats::fill(bytes.codes, &scales, (i * ROWS, k), rows))?;
        } else {
            let integers = Integers::new(self, bytes)?;
            parts.for_each(|(i, rows)| integers.fill(i * ROWS, rows));
        }
        Ok(out)
    }

    /// Checks that groups are of neighbouring values.
    fn check_order(&self, list: &Piece, bytes: &[u8]) -> Result<(), String> {
        let [n, k] = self.shape;
        let group = group_of(&self.scales, self.storage, n, k)?;
        let numbers = bytes.as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b));
        let is_ordered = list.dtype == Dtype::I32
            && list.shape == [k]
            && numbers.enumerate().all(|(i, g)| g >= 0 && g as usize == i / group);
        if is_ordered {
            return Ok(());
        }
        Err(format!(
            "was quantised in the order of activations (`{}`), which is not supported; hint: take a checkpoint made \
             without `desc_act`, or a GGUF file",
            list.name
        ))
    }
}

fn word(bytes: &[u8], i: usize) -> u32 {
    let at = &bytes[4 * i..][..4];
    u32::from_le_bytes([at[0], at[1], at[2], at[3]])
}

/// A number of a tensor of floats.
fn float(piece: &Piece, bytes: &[u8], i: usize) -> Result<f32, String> {
    let two = |i: usize| [bytes[2 * i], bytes[2 * i + 1]];
    let number = match piece.dtype {
        Dtype::F32 => f32::from_bits(word(bytes, i)),
        Dtype::F16 => f16::from_le_bytes(two(i)).to_f32(),
        Dtype::BF16 => bf16::from_le_bytes(two(i)).to_f32(),
        // Powers of two, from 2^-127 on, which is subnormal; 255 is NaN.
        Dtype::F8_E8M0 => f32::from_bits((u32::from(bytes[i]) << 23).max(0x0040_0000)),
        other => return Err(format!("`{}` is {other:?}; floats were expected", piece.name)),
    };
    if number.is_finite() {
        Ok(number)
    } else {
        Err(format!("`{}` has a number that is not finite", piece.name))
    }
}
