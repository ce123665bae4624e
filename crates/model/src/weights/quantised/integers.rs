//! Integers of 4 or 8 bits with scales and zero points, as blocks.

use half::f16;
use safetensors::Dtype;

use super::{AWQ_ORDER, BLOCK, Bytes, Format, Piece, Quantised, Storage, float, word};

/// Values in a group, which is a whole number of blocks.
pub(super) fn group_of(scales: &Piece, storage: Storage, n: usize, k: usize) -> Result<usize, String> {
    let (rows, groups) = match (storage, &scales.shape[..]) {
        (Storage::Compressed { .. }, &[rows, groups]) | (_, &[groups, rows]) => (rows, groups),
        _ => (0, 0),
    };
    let is_whole = rows == n && groups > 0 && k.is_multiple_of(groups) && (k / groups).is_multiple_of(BLOCK);
    if is_whole {
        return Ok(k / groups);
    }
    Err(format!(
        "`{}` has shape {:?}, which is not one scale for a group of 32, 64, 96, ... values of each of {n} rows of {k}",
        scales.name, scales.shape
    ))
}

/// Integers of 4 or 8 bits.
pub(super) struct Integers<'a> {
    matrix: &'a Quantised,
    bytes: Bytes<'a>,
    bits: u32,
    group: usize,
    /// Shape: `[n, groups]`.
    scales: Vec<f16>,
    /// Shape: `[n, groups]`.
    zeros: Vec<u8>,
}

impl<'a> Integers<'a> {
    pub fn new(matrix: &'a Quantised, bytes: Bytes<'a>) -> Result<Self, String> {
        let (storage, [n, k], bits) = (matrix.storage, matrix.shape, matrix.storage.bits());
        let of_word = 32 / bits as usize;
        let expected = match storage {
            Storage::Gptq { .. } => [k / of_word, n],
            Storage::Awq => [k, n / of_word],
            _ => [n, k.div_ceil(of_word)],
        };
        check_words(&matrix.codes, expected)?;
        let group = group_of(&matrix.scales, storage, n, k)?;
        let n_groups = k / group;
        let at = |row: usize, g: usize| match storage {
            Storage::Compressed { .. } => row * n_groups + g,
            _ => g * n + row,
        };
        let place = |i: usize| at(i / n_groups, i % n_groups);
        let scales = (0..n * n_groups).map(|i| half(&matrix.scales, bytes.scales, place(i)));
        let scales = scales.collect::<Result<_, String>>()?;
        let zeros = zeros(matrix, bytes.zeros, (bits, n_groups))?;
        Ok(Self { matrix, bytes, bits, group, scales, zeros })
    }

    /// Rows from `first` on.
    pub fn fill(&self, first: usize, out: &mut [u8]) {
        let k = self.matrix.shape[1];
        let (row_bytes, block_bytes) = (self.matrix.format.row_bytes(k), self.matrix.format.block_bytes());
        let n_rows = out.len() / row_bytes;
        let mut codes = vec![0; n_rows * k];
        self.codes(first, n_rows, &mut codes);
        let n_groups = k / self.group;
        for (r, (row, codes)) in out.chunks_exact_mut(row_bytes).zip(codes.chunks_exact(k)).enumerate() {
            let blocks = row.chunks_exact_mut(block_bytes).zip(codes.as_chunks::<BLOCK>().0);
            for (b, (block, codes)) in blocks.enumerate() {
                let at = (first + r) * n_groups + b * BLOCK / self.group;
                write(self.matrix.format, block, (self.scales[at], self.zeros[at]), codes);
            }
        }
    }

    /// The codes of some rows, `[rows, k]`.
    fn codes(&self, first: usize, n_rows: usize, out: &mut [u8]) {
        let ([n, k], bits) = (self.matrix.shape, self.bits);
        let (of_word, mask) = (32 / bits as usize, (1_u32 << bits) - 1);
        let word = |i: usize| word(self.bytes.codes, i);
        match self.matrix.storage {
            Storage::Gptq { .. } => {
                for (i, r) in (0..k / of_word).flat_map(|i| (0..n_rows).map(move |r| (i, r))) {
                    let word = word(i * n + first + r);
                    let codes = out[r * k + i * of_word..][..of_word].iter_mut().zip(0..);
                    codes.for_each(|(code, j)| *code = (word >> (bits * j) & mask) as u8);
                }
            }
            Storage::Awq => {
                for (i, c) in (0..k).flat_map(|i| (0..n_rows / 8).map(move |c| (i, c))) {
                    let word = word((i * n + first) / 8 + c);
                    for (j, column) in AWQ_ORDER.into_iter().enumerate() {
                        out[(8 * c + column) * k + i] = (word >> (4 * j) & mask) as u8;
                    }
                }
            }
            Storage::Compressed { .. } | Storage::Float { .. } | Storage::Mxfp4 => {
                let of_row = k.div_ceil(of_word);
                for (r, row) in out.chunks_exact_mut(k).enumerate() {
                    for (i, codes) in row.chunks_mut(of_word).enumerate() {
                        let word = word((first + r) * of_row + i);
                        codes
                            .iter_mut()
                            .zip(0..)
                            .for_each(|(code, j)| *code = (word >> (bits * j) & mask) as u8);
                    }
                }
            }
        }
    }
}

fn check_words(piece: &Piece, expected: [usize; 2]) -> Result<(), String> {
    if piece.dtype == Dtype::I32 && piece.shape == expected {
        return Ok(());
    }
    Err(format!("`{}` is {:?} {:?}, expected I32 {expected:?}", piece.name, piece.dtype, piece.shape))
}

/// The zero points, `[n, groups]`; the middle of the codes where the file has none.
fn zeros(
    matrix: &Quantised,
    bytes: Option<&[u8]>,
    (bits, n_groups): (u32, usize),
) -> Result<Vec<u8>, String> {
    let (n, middle) = (matrix.shape[0], 1_u32 << (bits - 1));
    let (Some(piece), Some(bytes)) = (&matrix.zeros, bytes) else {
        return Ok(vec![middle as u8; n * n_groups]);
    };
    let (of_word, mask) = (32 / bits as usize, (1_u32 << bits) - 1);
    let zero = |i: usize| {
        let (row, g) = (i / n_groups, i % n_groups);
        match matrix.storage {
            Storage::Compressed { .. } => {
                word(bytes, row / of_word * n_groups + g) >> (bits * (row % of_word) as u32)
            }
            Storage::Awq => {
                let nibble = AWQ_ORDER.iter().position(|column| *column == row % 8).unwrap_or(0);
                word(bytes, (g * n + row) / 8) >> (4 * nibble)
            }
            Storage::Gptq { stored, .. } => {
                (word(bytes, (g * n + row) / of_word) >> (bits * (row % of_word) as u32)) + stored
            }
            Storage::Float { .. } | Storage::Mxfp4 => unreachable!("floats have no zero points"),
        }
    };
    let expected = match matrix.storage {
        Storage::Compressed { .. } => [n.div_ceil(of_word), n_groups],
        _ if n.is_multiple_of(of_word) => [n_groups, n / of_word],
        _ => return Err(format!("`{}` is of {n} rows, not a multiple of {of_word}", piece.name)),
    };
    check_words(piece, expected)?;
    let zeros: Vec<u8> = (0..n * n_groups).map(|i| (zero(i) & mask) as u8).collect();
    let is_symmetric = matrix.format != Format::U4;
    // Some writers store these zero points directly and do not name the version of the format that does.
    let is_second = matches!(matrix.storage, Storage::Gptq { stored: 1, .. });
    if is_symmetric && is_second && zeros.iter().all(|zero| u32::from(*zero) == middle + 1) {
        return Ok(vec![middle as u8; zeros.len()]);
    }
    match zeros.iter().find(|zero| is_symmetric && u32::from(**zero) != middle) {
        Some(zero) => Err(format!(
            "`{}` has a zero point of {zero}; {bits}-bit integers that are symmetric have {middle}; hint: is `sym` of \
             `quantization_config` what these weights were made with?",
            piece.name
        )),
        None => Ok(zeros),
    }
}

/// A scale in f16, if that is exact.
fn half(piece: &Piece, bytes: &[u8], i: usize) -> Result<f16, String> {
    let scale = float(piece, bytes, i)?;
    let half = f16::from_f32(scale);
    if half.to_f32().to_bits() == scale.to_bits() {
        return Ok(half);
    }
    Err(format!("`{}` has a scale of {scale:e}, which f16 does not hold exactly", piece.name))
}

/// One block: 32 codes with their scale and zero point.
fn write(format: Format, block: &mut [u8], (scale, zero): (f16, u8), codes: &[u8; BLOCK]) {
    block[..2].copy_from_slice(&scale.to_le_bytes());
    let nibbles = |block: &mut [u8]| {
        for (i, byte) in block.iter_mut().enumerate() {
            *byte = codes[i] | codes[i + BLOCK / 2] << 4;
        }
    };
    match format {
        Format::U4 => {
            block[2] = zero;
            nibbles(&mut block[3..]);
        }
        Format::Q4_0 => nibbles(&mut block[2..]),
        // Codes are 128 above their value.
        _ => block[2..].iter_mut().zip(codes).for_each(|(byte, code)| *byte = code ^ 0x80),
    }
}
