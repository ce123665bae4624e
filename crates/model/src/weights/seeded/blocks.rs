//! Seeded blocks of quantised formats: every code occurs, and the values have a given spread.

use half::f16;

use crate::weights::Format;
use tribunal_core::random;

/// Blocks that are drawn; more repeat them. A prime, so that rows are equal only when they are a multiple of
/// so many apart.
const DRAWN: usize = 8191;

/// The offsets of a block's scale and minimum, both f16, and their values for a standard deviation of 1: the
/// inverse of that of the codes, or of the products of codes and a part's scale. Empty for formats whose
/// scale is not an f16.
fn halves(format: Format) -> &'static [(usize, f32)] {
    match format {
        Format::Q8_0 => &[(0, 1.0 / 74.0)],
        Format::Q4_0 | Format::U4 => &[(0, 1.0 / 4.6)],
        Format::Q4_1 => &[(0, 1.0 / 4.6), (2, -7.5 / 4.6)],
        Format::Q5_0 => &[(0, 1.0 / 9.2)],
        Format::Q5_1 => &[(0, 1.0 / 9.2), (2, -15.5 / 9.2)],
        Format::Q4K => &[(0, 1.0 / 255.0), (2, 7.5 / 255.0)],
        Format::Q5K => &[(0, 1.0 / 520.0), (2, 15.5 / 520.0)],
        Format::Q6K => &[(208, 1.0 / 1370.0)],
        _ => &[],
    }
}

/// `n` blocks of a quantised format that GPUs hold, whose values have about this spread.
pub fn blocks(format: Format, seed: u32, n: usize, spread: f32) -> Vec<u8> {
    let each = format.block_bytes();
    let mut bytes = Vec::with_capacity(n * each + size_of::<u64>());
    let state = random::mix(u64::from(seed) + 1);
    let n_drawn = n.min(DRAWN);
    let words = (1..).map(|counter| random::at(state, counter));
    bytes.extend(words.take((n_drawn * each).div_ceil(size_of::<u64>())).flat_map(u64::to_le_bytes));
    bytes.truncate(n_drawn * each);
    for (idx, block) in bytes.chunks_exact_mut(each).enumerate() {
        // Half as much to half as much again, of either sign.
        let draw = random::at(!state, idx as u64 + 1);
        let size = spread * (0.5 + (draw >> 40) as f32 / (1_u32 << 24) as f32);
        let scale = if draw & 1 == 0 { size } else { -size };
        for &(at, of_one) in halves(format) {
            block[at..at + 2].copy_from_slice(&f16::from_f32(scale * of_one).to_le_bytes());
        }
        match format {
            // Powers of two: the values of codes have a spread of 3.
            Format::Mxfp4 => block[0] = (127.0 + (size / 3.0).log2().round()).clamp(104.0, 143.0) as u8,
            Format::U4 => block[2] = 7 + (draw >> 1 & 1) as u8,
            Format::F8E4M3 => block[..4].copy_from_slice(&(size / 105.0).to_le_bytes()),
            _ => {}
        }
    }
    while bytes.len() < n * each {
        let more = (n * each - bytes.len()).min(n_drawn * each);
        bytes.extend_from_within(..more);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_repeat_only_far_apart() {
        let bytes = blocks(Format::Q8_0, 5, 2 * DRAWN + 3, 1.0);
        assert_eq!(bytes.len(), (2 * DRAWN + 3) * 34);
        assert_eq!(bytes[..34], bytes[DRAWN * 34..][..34]);
        assert!((1..DRAWN).all(|block| bytes[..34] != bytes[block * 34..][..34]));
    }
}
