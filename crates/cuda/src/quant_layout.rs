//! The layout of quantised weights in a GPU's memory: from the blocks of a file to strips of 16 outputs, bits
//! moved and none lost. `kernels/planes.cuh` draws the layout and reads it. No CUDA is needed here, and
//! nothing is multiplied.

use half::{bf16, f16};
use rayon::prelude::*;

use tribunal_model::weights::ggml::{Format, half_power, read_codes, scale_and_minimum};

/// Outputs of a strip.
pub const STRIP: usize = 16;
/// Values of `k` in a unit of a strip.
const UNIT: usize = 32;
/// Values of `k` with one `super`.
const SUPER: usize = 256;

/// The layout of rows of `k` values in one format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuantLayout {
    format: Format,
    k: usize,
    /// Bytes of a unit's codes, and of the scales behind them.
    codes_bytes: usize,
    scales_bytes: usize,
    /// Bytes for each 256 values, after all units of a strip.
    super_bytes: usize,
}

impl QuantLayout {
    /// The layout of a quantised format that has a product of its own. `None` for the others, and where rows
    /// of `k` values are not whole blocks.
    pub fn new(format: Format, k: usize) -> Option<Self> {
        let (codes_bytes, scales_bytes, super_bytes) = match format {
            Format::Q8_0 => (512, 32, 0),
            Format::Mxfp4 => (256, 32, 0),
            Format::Q4K => (256, 32, 64),
            Format::Q6K => (384, 32, 32),
            Format::Q4_0 | Format::Q4_1 | Format::U4 => (256, 64, 0),
            Format::Q5_0 | Format::Q5_1 => (320, 64, 0),
            Format::Q5K => (320, 32, 64),
            Format::F8E4M3 => (512, 64, 0),
            _ => return None,
        };
        let is_divided = k > 0 && k.is_multiple_of(format.block());
        is_divided.then_some(Self { format, k, codes_bytes, scales_bytes, super_bytes })
    }

    /// Bytes of a strip, 16 rows of the file.
    pub fn strip_bytes(&self) -> usize {
        self.k / UNIT * self.unit_bytes() + self.k / SUPER * self.super_bytes
    }

    /// Bytes of `n` rows; the last strip is filled up with zeros.
    pub fn bytes(&self, n: usize) -> usize {
        n.div_ceil(STRIP) * self.strip_bytes()
    }

    /// Writes rows of the file as strips. A matrix can be written in parts of whole strips.
    ///
    /// # Panics
    /// When `rows` are not whole rows, or `out` does not have [`QuantLayout::bytes`] for them.
    pub fn write(&self, rows: &[u8], out: &mut [u8]) {
        let row_bytes = self.format.row_bytes(self.k);
        assert!(rows.len().is_multiple_of(row_bytes), "whole rows");
        assert_eq!(out.len(), self.bytes(rows.len() / row_bytes), "the strips of these rows");
        out.par_chunks_mut(self.strip_bytes()).zip(rows.par_chunks(row_bytes * STRIP)).for_each(
            |(strip, rows)| {
                strip.fill(0);
                for (output, row) in rows.chunks_exact(row_bytes).enumerate() {
                    self.write_row(output, row, strip);
                }
            },
        );
    }

    fn unit_bytes(&self) -> usize {
        self.codes_bytes + self.scales_bytes
    }

    /// Row `output` of a strip.
    fn write_row(&self, output: usize, row: &[u8], strip: &mut [u8]) {
        let (units, supers) = strip.split_at_mut(self.k / UNIT * self.unit_bytes());
        let parts = self.format.block() / UNIT;
        for (i, block) in row.chunks_exact(self.format.block_bytes()).enumerate() {
            for part in 0..parts {
                let unit = &mut units[(i * parts + part) * self.unit_bytes()..][..self.unit_bytes()];
                let (codes, scales) = unit.split_at_mut(self.codes_bytes);
                self.write_codes(output, &read_codes(self.format, block, part), codes);
                self.write_scales(output, block, part, scales);
            }
            if self.super_bytes > 0 {
                self.write_super(output, block, &mut supers[i * self.super_bytes..][..self.super_bytes]);
            }
        }
    }

    fn write_codes(&self, output: usize, codes: &[u8; UNIT], unit: &mut [u8]) {
        for (k, &code) in codes.iter().enumerate() {
            let at = Place::new(output, k);
            match self.format {
                Format::Q8_0 => unit[at.byte()] = code ^ 0x80,
                Format::F8E4M3 => unit[at.byte()] = code,
                _ => at.or_nibble(unit, code & 15),
            }
            match self.format {
                Format::Q6K => at.or_high_bits(unit, code >> 4),
                Format::Q5_0 | Format::Q5_1 | Format::Q5K => at.or_fifth_bit(unit, code >> 4),
                _ => {}
            }
        }
    }

    /// The scales of part `part` of a block, by `output % 8`: the two outputs with the same remainder side by
    /// side.
    fn write_scales(&self, output: usize, block: &[u8], part: usize, scales: &mut [u8]) {
        let each = self.scales_bytes / 8;
        let scales = &mut scales[output % 8 * each..][..each];
        let second = output / 8;
        match self.format {
            Format::Q8_0 => scales[2 * second..][..2].copy_from_slice(&block[..2]),
            Format::Mxfp4 => {
                // Weights whose scale f16 cannot represent are rejected when they are read; bf16 represents
                // the others.
                let scale = bf16::from_f32(half_power(block[0]).unwrap_or_default().to_f32());
                scales[2 * second..][..2].copy_from_slice(&scale.to_le_bytes());
            }
            Format::Q4_1 | Format::Q5_1 | Format::F8E4M3 => {
                scales[4 * second..][..4].copy_from_slice(&block[..4]);
            }
            Format::U4 => {
                let zero = f16::from(block[2]).to_le_bytes();
                scales[4 * second..][..4].copy_from_slice(&[block[0], block[1], zero[0], zero[1]]);
            }
            Format::Q4_0 | Format::Q5_0 => {
                let d = f16::from_le_bytes([block[0], block[1]]).to_f32();
                let minimum = f16::from_f32(-d * self.format.offset() as f32).to_le_bytes();
                scales[4 * second..][..4].copy_from_slice(&[block[0], block[1], minimum[0], minimum[1]]);
            }
            Format::Q4K | Format::Q5K => {
                let (scale, minimum) = scale_and_minimum(&block[4..16], part);
                scales[2 * second..][..2].copy_from_slice(&[scale, minimum]);
            }
            _ => (0..2).for_each(|step| scales[2 * step + second] = block[192 + 2 * part + step]),
        }
    }

    fn write_super(&self, output: usize, block: &[u8], at: &mut [u8]) {
        let halves = if self.format == Format::Q6K { &block[208..210] } else { &block[..4] };
        at[(output % 8 * 2 + output / 8) * halves.len()..][..halves.len()].copy_from_slice(halves);
    }
}

/// The position of a code in a unit, in the terms of `kernels/planes.cuh`.
#[derive(Clone, Copy)]
struct Place {
    lane: usize,
    step: usize,
    pair: usize,
    second: usize,
}

impl Place {
    fn new(output: usize, k: usize) -> Self {
        Self {
            lane: output % 8 * 4 + k % 8 / 2,
            step: k / 16,
            pair: output / 8 + k % 16 / 8 * 2,
            second: k % 2,
        }
    }

    fn byte(self) -> usize {
        self.lane * 16 + (self.step * 2 + self.pair / 2) * 4 + self.pair % 2 + 2 * self.second
    }

    fn or_nibble(self, unit: &mut [u8], nibble: u8) {
        let bit = 4 * (self.pair + 4 * self.second);
        unit[self.lane * 8 + self.step * 4 + bit / 8] |= nibble << (bit % 8);
    }

    fn or_fifth_bit(self, unit: &mut [u8], bit: u8) {
        unit[256 + 2 * self.lane + self.second] |= bit << (4 * self.step + self.pair);
    }

    fn or_high_bits(self, unit: &mut [u8], two_bits: u8) {
        let bit = 2 * (self.step * 4 + self.pair) + 16 * self.second;
        unit[256 + self.lane * 4 + bit / 8] |= two_bits << (bit % 8);
    }
}

#[cfg(test)]
mod tests;
