//! Packs the blocks of a file into panels: bits are rearranged, nothing is computed.

use rayon::prelude::*;

use super::layout::{BLOCK, Codes, LANES, SUPER, Scales, Storage, panel_bytes, quantized};
use super::{Error, Format};
use tribunal_model::weights::ggml::{half_power, read_codes, scale_and_minimum, scales_of_sixteen};

/// Packs `n` rows of `k` values.
pub(super) fn pack(format: Format, n: usize, k: usize, rows: &[u8]) -> Result<Storage, Error> {
    let mut storage = Storage::new(format, n, k)?;
    pack_at(&mut storage, 0, &Rows { format, n, k, bytes: rows });
    Ok(storage)
}

/// Packs rows into the panels from `first` on.
pub(super) fn pack_at(storage: &mut Storage, first: usize, rows: &Rows) {
    let Rows { format, n, k, .. } = *rows;
    if n == 0 || k == 0 {
        return;
    }
    let (value_bytes, scale_bytes) = panel_bytes(format, k);
    let (values, scales) = storage.halves_mut();
    let n_panels = n.div_ceil(LANES);
    let values = &mut values[first * value_bytes..][..n_panels * value_bytes];
    let scales = &mut scales[first * scale_bytes..][..n_panels * scale_bytes];
    match quantized(format) {
        None => values.par_chunks_mut(value_bytes).enumerate().for_each(|(panel, values)| {
            floats(rows, panel, values);
        }),
        Some(kind) => values
            .par_chunks_mut(value_bytes)
            .zip(scales.par_chunks_mut(scale_bytes))
            .enumerate()
            .for_each(|(panel, (values, scales))| blocks(rows, kind, panel, values, scales)),
    }
}

/// The rows of a file's matrix.
pub(super) struct Rows<'a> {
    pub format: Format,
    pub n: usize,
    pub k: usize,
    pub bytes: &'a [u8],
}

impl<'a> Rows<'a> {
    /// The rows of one panel with their lane; the last panel may have fewer than 16.
    fn of_panel(&self, panel: usize) -> impl Iterator<Item = (usize, &'a [u8])> {
        let row_bytes = self.format.row_bytes(self.k);
        let bytes = self.bytes;
        (panel * LANES..self.n.min((panel + 1) * LANES))
            .map(move |row| (row % LANES, &bytes[row * row_bytes..][..row_bytes]))
    }
}

/// `f32` and `f16` become `[k][16]`, `bf16` `[k / 2][16][2]` (a last odd value has a zero beside it).
fn floats(rows: &Rows, panel: usize, values: &mut [u8]) {
    let unit = if rows.format == Format::F16 { 2 } else { 4 };
    for (lane, row) in rows.of_panel(panel) {
        for (i, piece) in row.chunks(unit).enumerate() {
            values[(i * LANES + lane) * unit..][..piece.len()].copy_from_slice(piece);
        }
    }
}

fn blocks(rows: &Rows, kind: (Codes, Scales), panel: usize, values: &mut [u8], scales: &mut [u8]) {
    let (code_kind, scale_kind) = kind;
    let block_bytes = rows.format.block_bytes();
    let per_block = rows.format.block() / BLOCK;
    for (lane, row) in rows.of_panel(panel) {
        for (i, block) in row.chunks_exact(block_bytes).enumerate() {
            let group = &mut scales[i * scale_kind.bytes()..][..scale_kind.bytes()];
            write_scales(rows.format, block, lane, group);
            for part in 0..per_block {
                let codes = read_codes(rows.format, block, part);
                let line = (i * per_block + part) * code_kind.bytes();
                write_codes(code_kind, &codes, lane, &mut values[line..][..code_kind.bytes()]);
            }
        }
    }
}

/// Writes the codes of 32 values into their lane.
#[inline]
fn write_codes(kind: Codes, codes: &[u8; BLOCK], lane: usize, block: &mut [u8]) {
    let group =
        |j: usize| u32::from_le_bytes([codes[4 * j], codes[4 * j + 1], codes[4 * j + 2], codes[4 * j + 3]]);
    let mut put =
        |line: usize, four: u32| block[line * 64 + lane * 4..][..4].copy_from_slice(&four.to_le_bytes());
    if kind == Codes::Eight {
        return (0..8).for_each(|j| put(j, group(j)));
    }
    // Two bits of each of four groups, from `shift` on, in line `at + half`.
    let mut put_pairs = |at: usize, shift: u32| {
        for half in 0..2 {
            let pairs = |bits, j| bits | (group(4 * half + j) >> shift & 0x0303_0303) << (2 * j);
            put(at + half, (0..4).fold(0, pairs));
        }
    };
    if kind == Codes::Two {
        return put_pairs(0, 0);
    }
    if kind == Codes::Six {
        put_pairs(4, 4);
    }
    for j in 0..4 {
        put(j, group(j) & 0x0f0f_0f0f | (group(j + 4) & 0x0f0f_0f0f) << 4);
    }
    if kind == Codes::Five {
        put(4, (0..8).fold(0, |bits, j| bits | (group(j) >> 4 & 0x0101_0101) << j));
    }
}

/// Writes the scales of one block of the file into their lane.
#[inline]
fn write_scales(format: Format, block: &[u8], lane: usize, group: &mut [u8]) {
    let mut half = |column: usize, bytes: &[u8]| group[column * 32 + lane * 2..][..2].copy_from_slice(bytes);
    match format {
        Format::Q8_0 | Format::Q4_0 | Format::Q5_0 | Format::Iq4Nl => half(0, &block[..2]),
        // Loading has checked it.
        Format::Mxfp4 => half(0, &half_power(block[0]).unwrap_or_default().to_le_bytes()),
        Format::Q4_1 | Format::Q5_1 => {
            half(0, &block[..2]);
            half(1, &block[2..4]);
        }
        Format::U4 => {
            half(0, &block[..2]);
            group[32 + lane] = block[2];
        }
        Format::F8E4M3 => group[lane * 4..][..4].copy_from_slice(&block[..4]),
        Format::Q2K => {
            half(0, &block[80..82]);
            half(1, &block[82..84]);
            for (i, &both) in block[..16].iter().enumerate() {
                group[64 + i * 16 + lane] = both;
            }
        }
        Format::Q4K | Format::Q5K => {
            half(0, &block[..2]);
            half(1, &block[2..4]);
            for part in 0..SUPER {
                let (scale, minimum) = scale_and_minimum(&block[4..16], part);
                group[64 + part * 32 + lane] = scale;
                group[64 + part * 32 + 16 + lane] = minimum;
            }
        }
        Format::Q6K | Format::Q3K | Format::Iq4Xs => {
            let d = match format {
                Format::Q6K => 208,
                Format::Q3K => 108,
                _ => 0,
            };
            half(0, &block[d..d + 2]);
            for part in 0..SUPER {
                for (i, scale) in scales_of_sixteen(format, block, part).into_iter().enumerate() {
                    group[32 + (2 * part + i) * 16 + lane] = scale as u8;
                }
            }
        }
        Format::F32 | Format::F16 | Format::Bf16 => unreachable!("floats have no scales"),
    }
}
