//! Reading panels value by value, in plain Rust: for the portable and AVX2 instruction sets, for exact
//! activations and for embeddings. Small always-inlined loops over 16 lanes, which the compiler turns into
//! the vector instructions of the calling instruction set; no operation is fused here, so all instruction
//! sets get the same bits.

use super::Format;
use super::layout::{BLOCK, Codes, FP4_BYTES, IQ4_BYTES, LANES, Panel, SUPER, Scales, quantized};

/// The codes of a block: `[group][lane]`, each word the four codes of one group, lowest byte first.
#[repr(align(64))]
pub(super) struct Block(pub [[u32; LANES]; 8]);

/// The factors and addends of a block's codes.
pub(super) struct BlockScales {
    pub d: [f32; LANES],
    /// Added to each value of the block.
    pub minimum: Option<[f32; LANES]>,
    /// Integer scales of the two halves of the block.
    pub halves: Option<[[i32; LANES]; 2]>,
}

#[inline(always)]
fn line(bytes: &[u8], i: usize) -> [u32; LANES] {
    let bytes = bytes[i * 64..][..64].as_chunks::<4>().0;
    let mut out = [0; LANES];
    for o in 0..LANES {
        out[o] = u32::from_le_bytes(bytes[o]);
    }
    out
}

/// The codes of block `b` of a quantised panel.
#[inline(always)]
pub(super) fn codes(kind: Codes, panel: &Panel, b: usize, block: &mut Block) {
    let bytes = &panel.values[b * kind.bytes()..][..kind.bytes()];
    if kind == Codes::Eight {
        return (0..8).for_each(|j| block.0[j] = line(bytes, j));
    }
    if kind == Codes::Two {
        return (0..8)
            .for_each(|j| block.0[j] = line(bytes, j / 4).map(|word| word >> (2 * (j % 4)) & 0x0303_0303));
    }
    for j in 0..4 {
        let both = line(bytes, j);
        block.0[j] = both.map(|word| word & 0x0f0f_0f0f);
        block.0[j + 4] = both.map(|word| word >> 4 & 0x0f0f_0f0f);
    }
    match kind {
        Codes::Eight | Codes::Four | Codes::Two => {}
        Codes::Uneven | Codes::Fp4 => {
            let table = if kind == Codes::Fp4 { FP4_BYTES } else { IQ4_BYTES };
            for word in block.0.as_flattened_mut() {
                *word = u32::from_le_bytes(word.to_le_bytes().map(|code| table[usize::from(code & 15)]));
            }
        }
        Codes::Five => {
            let bits = line(bytes, 4);
            for (j, group) in block.0.iter_mut().enumerate() {
                group.iter_mut().zip(&bits).for_each(|(word, bits)| *word |= (bits >> j & 0x0101_0101) << 4);
            }
        }
        Codes::Six => {
            for (j, group) in block.0.iter_mut().enumerate() {
                let bits = line(bytes, 4 + j / 4);
                let shift = 2 * (j % 4);
                group
                    .iter_mut()
                    .zip(&bits)
                    .for_each(|(word, bits)| *word |= (bits >> shift & 0x0303_0303) << 4);
            }
        }
    }
}

/// `f16` to `f32`, exactly and without a branch, so that 16 lanes are converted together. The mantissa and
/// exponent of an `f16`, read as an `f32`, are 2^112 too small; subnormals included.
#[inline(always)]
fn widened(half: u16) -> f32 {
    const SCALE: f32 = f32::from_bits(0x7780_0000);
    let magnitude = u32::from(half & 0x7fff);
    let special = if magnitude >= 0x7c00 { 0x7f80_0000 } else { 0 };
    let bits = (f32::from_bits(magnitude << 13) * SCALE).to_bits();
    f32::from_bits(bits | special | u32::from(half & 0x8000) << 16)
}

#[inline(always)]
fn halves(bytes: &[u8]) -> [f32; LANES] {
    let bytes = bytes[..32].as_chunks::<2>().0;
    let mut out = [0.0; LANES];
    for o in 0..LANES {
        out[o] = widened(u16::from_le_bytes(bytes[o]));
    }
    out
}

/// The scales of block `b` of a quantised panel.
#[inline(always)]
pub(super) fn scales(kind: Scales, panel: &Panel, b: usize) -> BlockScales {
    let group = &panel.scales[b / kind.blocks() * kind.bytes()..][..kind.bytes()];
    let part = b % kind.blocks();
    let d = halves(group);
    match kind {
        Scales::Plain => BlockScales { d, minimum: None, halves: None },
        Scales::Minimum => BlockScales { d, minimum: Some(halves(&group[32..])), halves: None },
        Scales::Zero => {
            let zero = &group[32..48];
            let minimum = Some(std::array::from_fn(|o| -(d[o] * f32::from(zero[o]))));
            BlockScales { d, minimum, halves: None }
        }
        Scales::Float | Scales::Fours => unreachable!("their values are floats when they are multiplied"),
        Scales::Super => {
            let dmin = halves(&group[32..]);
            let part = &group[64 + part * 32..][..32];
            BlockScales {
                d: std::array::from_fn(|o| d[o] * f32::from(part[o])),
                minimum: Some(std::array::from_fn(|o| -(dmin[o] * f32::from(part[16 + o])))),
                halves: None,
            }
        }
        Scales::Sixteen => {
            let part = &group[32 + part * 32..][..32];
            let scale = |half: usize| std::array::from_fn(|o| i32::from(part[half * 16 + o] as i8));
            BlockScales { d, minimum: None, halves: Some([scale(0), scale(1)]) }
        }
    }
}

/// The weights `k0..k0 + out.len()` of all lanes as `f32`: `[k][lane]`.
#[inline(always)]
pub(super) fn floats(panel: &Panel, k0: usize, out: &mut [[f32; LANES]]) {
    let Some((codes, scales)) = quantized(panel.format) else {
        return plain_floats(panel, k0, out);
    };
    debug_assert!(k0.is_multiple_of(BLOCK) && out.len().is_multiple_of(BLOCK), "whole blocks");
    for (i, out) in out.chunks_exact_mut(BLOCK).enumerate() {
        block_floats((codes, scales), panel, k0 / BLOCK + i, out);
    }
}

#[inline(always)]
fn plain_floats(panel: &Panel, k0: usize, out: &mut [[f32; LANES]]) {
    for (i, out) in out.iter_mut().enumerate() {
        let k = k0 + i;
        match panel.format {
            Format::F16 => *out = halves(&panel.values[k * 32..]),
            Format::Bf16 => {
                let pairs = line(panel.values, k / 2);
                *out = pairs
                    .map(|pair| f32::from_bits(if k & 1 == 0 { pair << 16 } else { pair & 0xffff_0000 }));
            }
            _ => *out = line(panel.values, k).map(f32::from_bits),
        }
    }
}

#[inline(always)]
fn block_floats(kind: (Codes, Scales), panel: &Panel, b: usize, out: &mut [[f32; LANES]]) {
    let mut block = Block([[0; LANES]; 8]);
    codes(kind.0, panel, b, &mut block);
    match kind.1 {
        Scales::Float => return eight_bit_floats(&block, panel, b, out),
        Scales::Fours => return halves_with_minima(&block, panel, b, out),
        _ => {}
    }
    let scales = scales(kind.1, panel, b);
    let offset = panel.format.offset();
    let minimum = scales.minimum.unwrap_or([0.0; LANES]);
    for (j, group) in block.0.iter().enumerate() {
        let d = match scales.halves {
            Some(halves) => std::array::from_fn(|o| scales.d[o] * halves[j / 4][o] as f32),
            None => scales.d,
        };
        for byte in 0..4 {
            let out = &mut out[4 * j + byte];
            for o in 0..LANES {
                let code = (group[o] >> (8 * byte) & 0xff) as i32 - offset;
                out[o] = d[o] * code as f32 + minimum[o];
            }
        }
    }
}

/// The value of an 8-bit float of 4 bits of exponent and 3 of mantissa, exactly. Its mantissa and exponent,
/// read as an `f32`, are 2^120 too small; subnormals included. The bits of NaN do not occur: loading rejects
/// them.
#[inline(always)]
fn of_eight_bits(code: u32) -> f32 {
    const SCALE: f32 = f32::from_bits(0x7b80_0000);
    let magnitude = f32::from_bits((code & 0x7f) << 20) * SCALE;
    f32::from_bits(magnitude.to_bits() | (code & 0x80) << 24)
}

#[inline(always)]
fn eight_bit_floats(block: &Block, panel: &Panel, b: usize, out: &mut [[f32; LANES]]) {
    let d = line(panel.scales, b);
    for (j, group) in block.0.iter().enumerate() {
        for byte in 0..4 {
            let out = &mut out[4 * j + byte];
            for o in 0..LANES {
                out[o] = f32::from_bits(d[o]) * of_eight_bits(group[o] >> (8 * byte) & 0xff);
            }
        }
    }
}

#[inline(always)]
fn halves_with_minima(block: &Block, panel: &Panel, b: usize, out: &mut [[f32; LANES]]) {
    let group = &panel.scales[b / SUPER * Scales::Fours.bytes()..][..Scales::Fours.bytes()];
    let (d, dmin) = (halves(group), halves(&group[32..]));
    for half in 0..2 {
        let both = &group[64 + (b % SUPER * 2 + half) * 16..][..LANES];
        let (mut scale, mut minimum) = ([0.0; LANES], [0.0; LANES]);
        for o in 0..LANES {
            scale[o] = d[o] * f32::from(both[o] & 15);
            minimum[o] = dmin[o] * f32::from(both[o] >> 4);
        }
        for (j, codes) in block.0[4 * half..4 * half + 4].iter().enumerate() {
            for byte in 0..4 {
                let out = &mut out[BLOCK / 2 * half + 4 * j + byte];
                for o in 0..LANES {
                    let code = (codes[o] >> (8 * byte) & 0xff) as i32;
                    out[o] = scale[o] * code as f32 - minimum[o];
                }
            }
        }
    }
}

/// One lane of a panel over all of `k`.
pub(super) fn row(panel: &Panel, lane: usize, out: &mut [f32]) {
    let mut values = [[0.0; LANES]; BLOCK];
    for (i, out) in out.chunks_mut(BLOCK).enumerate() {
        let values = &mut values[..out.len()];
        floats(panel, i * BLOCK, values);
        out.iter_mut().zip(values).for_each(|(out, lanes)| *out = lanes[lane]);
    }
}
