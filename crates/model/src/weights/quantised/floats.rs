//! 8-bit floats with scales, as blocks.

use super::{BLOCK, Format, Piece, float};

/// The scales of a matrix of 8-bit floats.
pub(super) struct FloatScales {
    /// Shape: `[rows of tiles, tiles of a row]`.
    scales: Vec<f32>,
    tile: [usize; 2],
    per_row: usize,
}

impl FloatScales {
    pub fn new(
        piece: &Piece,
        bytes: &[u8],
        ([n, k], tile): ([usize; 2], [usize; 2]),
    ) -> Result<Self, String> {
        let expected = [n.div_ceil(tile[0]), k.div_ceil(tile[1])];
        let n_scales: usize = piece.shape.iter().product();
        let is_one = n_scales == 1;
        let is_of_rows = piece.shape == [n, 1] || piece.shape == [n];
        let tile = match (is_one, piece.shape == expected, is_of_rows) {
            (_, true, _) => tile,
            (true, ..) => [n, k],
            (_, _, true) => [1, k],
            _ => {
                let (name, shape) = (&piece.name, &piece.shape);
                return Err(format!(
                    "`{name}` has shape {shape:?}, expected {expected:?}, [{n}, 1] or one number"
                ));
            }
        };
        if !tile[1].is_multiple_of(BLOCK) && tile[1] != k {
            return Err(format!(
                "`{}` is of tiles of {} values, not a multiple of {BLOCK}",
                piece.name, tile[1]
            ));
        }
        let scales = (0..n_scales).map(|i| float(piece, bytes, i)).collect::<Result<_, String>>()?;
        Ok(Self { scales, tile, per_row: k.div_ceil(tile[1]) })
    }

    fn of(&self, row: usize, k: usize) -> f32 {
        self.scales[row / self.tile[0] * self.per_row + k / self.tile[1]]
    }
}

/// Rows of 8-bit floats from `first` on.
pub(super) fn fill(
    codes: &[u8],
    scales: &FloatScales,
    (first, k): (usize, usize),
    out: &mut [u8],
) -> Result<(), String> {
    let (block_bytes, row_bytes) = (Format::F8E4M3.block_bytes(), Format::F8E4M3.row_bytes(k));
    for (r, row) in out.chunks_exact_mut(row_bytes).enumerate() {
        let codes = codes[(first + r) * k..][..k].as_chunks::<BLOCK>().0;
        for (b, (block, codes)) in row.chunks_exact_mut(block_bytes).zip(codes).enumerate() {
            if codes.iter().any(|code| code & 0x7f == 0x7f) {
                return Err(format!("has a NaN in row {}", first + r));
            }
            block[..4].copy_from_slice(&scales.of(first + r, b * BLOCK).to_le_bytes());
            block[4..].copy_from_slice(codes);
        }
    }
    Ok(())
}
