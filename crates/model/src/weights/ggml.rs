//! Tensor formats: the size of their blocks, and the codes and scales in a block. Those of GGUF files are
//! GGML's (llama.cpp, `ggml/src/ggml-common.h`). Two are for quantised safetensors: `U4` is `f16 d`,
//! `u8 zero` and 32 nibbles in the order of `Q4_0`; `F8E4M3` is `f32 d` and 32 bytes. Backends have layouts
//! of their own in memory.

use crate::gguf::Kind;

/// Values of a small block, and of a part of a block of 256.
pub const BLOCK: usize = 32;
/// Parts of 32 values in a block of 256.
pub const SUPER: usize = 8;

/// The storage format of weights in a file.
#[expect(missing_docs, reason = "the names are ggml's own, but for the last two")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    F32,
    F16,
    Bf16,
    Q8_0,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q4K,
    Q5K,
    Q6K,
    Q3K,
    Iq4Nl,
    Iq4Xs,
    Q2K,
    Mxfp4,
    U4,
    F8E4M3,
}

/// The values of the codes of `IQ4_NL` and `IQ4_XS`.
pub const UNEVEN: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Twice the values of the codes of `MXFP4`.
pub const FP4: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

impl Format {
    /// Every format.
    pub const ALL: [Self; 18] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::Q8_0,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
        Self::Q3K,
        Self::Iq4Nl,
        Self::Iq4Xs,
        Self::Q2K,
        Self::Mxfp4,
        Self::U4,
        Self::F8E4M3,
    ];

    /// Its type in GGUF files, the values and the bytes of a block, and the offset of a code above its value.
    #[inline]
    const fn layout(self) -> (Option<Kind>, usize, usize, i32) {
        const BLOCKS: usize = BLOCK * SUPER;
        let (kind, values, bytes, offset) = match self {
            Self::F32 => (0, 1, 4, 0),
            Self::F16 => (1, 1, 2, 0),
            Self::Bf16 => (30, 1, 2, 0),
            Self::Q8_0 => (8, BLOCK, 34, 128),
            Self::Q4_0 => (2, BLOCK, 18, 8),
            Self::Q4_1 => (3, BLOCK, 20, 0),
            Self::Q5_0 => (6, BLOCK, 22, 16),
            Self::Q5_1 => (7, BLOCK, 24, 0),
            Self::Q4K => (12, BLOCKS, 144, 0),
            Self::Q5K => (13, BLOCKS, 176, 0),
            Self::Q6K => (14, BLOCKS, 210, 32),
            Self::Q3K => (11, BLOCKS, 110, 4),
            // Codes of uneven values are looked up to bytes that are 128 above them.
            Self::Iq4Nl => (20, BLOCK, 18, 128),
            Self::Iq4Xs => (23, BLOCKS, 136, 128),
            Self::Q2K => (10, BLOCKS, 84, 0),
            Self::Mxfp4 => (39, BLOCK, 17, 16),
            Self::U4 => return (None, BLOCK, 19, 0),
            Self::F8E4M3 => return (None, BLOCK, 36, 0),
        };
        (Some(Kind(kind)), values, bytes, offset)
    }

    /// Values in one block of the file.
    pub fn block(self) -> usize {
        self.layout().1
    }

    /// Bytes of one block of the file.
    pub fn block_bytes(self) -> usize {
        self.layout().2
    }

    /// Bytes of a row of `k` values in the file.
    pub fn row_bytes(self, k: usize) -> usize {
        k / self.block() * self.block_bytes()
    }

    /// The format of a GGUF type; `None` for types that are not supported.
    pub fn of(kind: Kind) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.kind() == Some(kind))
    }

    /// Its type in GGUF files; `None` for those of safetensors alone.
    pub fn kind(self) -> Option<Kind> {
        self.layout().0
    }

    /// Its name: ggml's own for GGUF's types.
    pub fn name(self) -> String {
        match self {
            Self::U4 => "U4".into(),
            Self::F8E4M3 => "F8_E4M3".into(),
            _ => self.kind().map_or_else(String::new, |kind| kind.to_string()),
        }
    }

    /// Returns true if it holds floats.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::Bf16)
    }

    /// The format in which GPUs hold such matrices: `bf16` for floats and for the formats that are rounded
    /// when they are loaded.
    #[must_use]
    pub fn on_gpus(self) -> Self {
        if self.is_multiplied_on_gpus() || self.is_rounded_on_gpus() { self } else { Self::Bf16 }
    }

    /// Returns true if GPUs multiply its codes and scale sums of products (not with `--gpu-kernels new`).
    pub fn is_multiplied_on_gpus(self) -> bool {
        matches!(self, Self::Q8_0 | Self::Mxfp4 | Self::Q4K | Self::Q6K)
    }

    /// Returns true for the formats of quantised safetensors alone. GPUs round them to `bf16` when they are
    /// loaded, or hold their codes (`--gpu-kernels new`).
    pub fn is_of_safetensors(self) -> bool {
        self.kind().is_none()
    }

    /// Returns true if GPUs hold its codes but have no product of its own, so that each step rounds such
    /// weights to `bf16` before their products.
    pub fn is_rounded_on_gpus(self) -> bool {
        matches!(self, Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q5K)
    }

    /// The offset of a code above its value, a power of two; 0 for formats with a minimum.
    pub fn offset(self) -> i32 {
        self.layout().3
    }
}

/// The codes of 32 values: the whole of a small block, or part `part` of a block of 256. Those of `Q8_0` are
/// 128 above their value, those of `IQ4_NL` and `IQ4_XS` indices into [`UNEVEN`], those of `MXFP4` into
/// [`FP4`], those of `F8E4M3` the bits of floats.
#[inline]
pub fn read_codes(format: Format, block: &[u8], part: usize) -> [u8; BLOCK] {
    let mut codes = [0; BLOCK];
    match format {
        Format::Q8_0 => codes.iter_mut().zip(&block[2..]).for_each(|(code, &byte)| *code = byte ^ 0x80),
        Format::Q4_0 | Format::Iq4Nl => small_nibbles(&mut codes, &block[2..]),
        Format::U4 => small_nibbles(&mut codes, &block[3..]),
        Format::Mxfp4 => small_nibbles(&mut codes, &block[1..]),
        Format::F8E4M3 => codes.copy_from_slice(&block[4..36]),
        Format::Q4_1 => small_nibbles(&mut codes, &block[4..]),
        Format::Q5_0 => {
            small_nibbles(&mut codes, &block[6..]);
            fifth_bits(&mut codes, &block[2..6]);
        }
        Format::Q5_1 => {
            small_nibbles(&mut codes, &block[8..]);
            fifth_bits(&mut codes, &block[4..8]);
        }
        Format::Q4K => super_nibbles(&mut codes, &block[16..], part),
        Format::Q5K => {
            super_nibbles(&mut codes, &block[48..], part);
            for (code, &high) in codes.iter_mut().zip(&block[16..48]) {
                *code |= (high >> part & 1) << 4;
            }
        }
        Format::Q6K => six_bits(&mut codes, block, part),
        Format::Q3K => three_bits(&mut codes, block, part),
        Format::Q2K => two_bits(&mut codes, &block[16..80], part),
        Format::Iq4Xs => small_nibbles(&mut codes, &block[8 + 16 * part..]),
        Format::F32 | Format::F16 | Format::Bf16 => unreachable!("floats have no codes"),
    }
    codes
}

/// Sixteen bytes: low nibbles are values 0..16, high nibbles 16..32.
#[inline]
fn small_nibbles(codes: &mut [u8; BLOCK], bytes: &[u8]) {
    for (i, &byte) in bytes[..16].iter().enumerate() {
        codes[i] = byte & 15;
        codes[i + 16] = byte >> 4;
    }
}

#[inline]
fn fifth_bits(codes: &mut [u8; BLOCK], bits: &[u8]) {
    let bits = u32::from_le_bytes([bits[0], bits[1], bits[2], bits[3]]);
    for (i, code) in codes.iter_mut().enumerate() {
        *code |= ((bits >> i & 1) << 4) as u8;
    }
}

/// 128 bytes hold 4 x 64 values: of each 32 bytes, low nibbles are the first 32 values, high the next.
#[inline]
fn super_nibbles(codes: &mut [u8; BLOCK], bytes: &[u8], part: usize) {
    for (code, &byte) in codes.iter_mut().zip(&bytes[part / 2 * BLOCK..]) {
        *code = byte >> (4 * (part & 1)) & 15;
    }
}

/// `Q6_K`: 128 bytes of nibbles, then 64 bytes of bit pairs; each half of them is for 128 values.
#[inline]
fn six_bits(codes: &mut [u8; BLOCK], block: &[u8], part: usize) {
    let (half, quarter) = (part / 4, part % 4);
    let low = &block[half * 64 + (quarter & 1) * BLOCK..][..BLOCK];
    let high = &block[128 + half * BLOCK..][..BLOCK];
    for ((code, &low), &high) in codes.iter_mut().zip(low).zip(high) {
        *code = low >> (4 * (quarter >> 1)) & 15 | (high >> (2 * quarter) & 3) << 4;
    }
}

/// `Q3_K`: 32 bytes of third bits, a bit for each part, then 64 bytes of bit pairs; each half of these is for
/// 128 values.
#[inline]
fn three_bits(codes: &mut [u8; BLOCK], block: &[u8], part: usize) {
    two_bits(codes, &block[BLOCK..3 * BLOCK], part);
    for (code, &high) in codes.iter_mut().zip(&block[..BLOCK]) {
        *code |= (high >> part & 1) << 2;
    }
}

/// 64 bytes of bit pairs; each half of them is for 128 values.
#[inline]
fn two_bits(codes: &mut [u8; BLOCK], bytes: &[u8], part: usize) {
    for (code, &pairs) in codes.iter_mut().zip(&bytes[part / 4 * BLOCK..]) {
        *code = pairs >> (2 * (part % 4)) & 3;
    }
}

/// The scale of a block of `MXFP4` for the values of [`FP4`]: half of 2^(e - 127). `None` where f16 cannot
/// represent it (`e` below 104 or above 143); no published weights need it.
#[inline]
pub fn half_power(e: u8) -> Option<half::f16> {
    let bits = match e {
        104..=113 => 1 << (e - 104), // subnormal
        114..=143 => u16::from(e - 113) << 10,
        _ => return None,
    };
    Some(half::f16::from_bits(bits))
}

/// The exponent of the first block of `MXFP4` for which [`half_power`] is `None`; blocks of zeros need none.
pub fn unheld_exponent(blocks: &[u8]) -> Option<u8> {
    let is_zero = |byte: &u8| byte & 0x77 == 0;
    let is_held = |block: &&[u8]| half_power(block[0]).is_some() || block[1..].iter().all(is_zero);
    blocks.chunks_exact(Format::Mxfp4.block_bytes()).find(|block| !is_held(block)).map(|block| block[0])
}

/// The integer scales of the first and the last 16 values of one part of a block of 256.
#[inline]
pub fn scales_of_sixteen(format: Format, block: &[u8], part: usize) -> [i8; 2] {
    match format {
        Format::Q6K => [block[192 + 2 * part] as i8, block[193 + 2 * part] as i8],
        Format::Q3K => [0, 1].map(|half| {
            let (bytes, i) = (&block[96..108], 2 * part + half);
            let low = bytes[i % 8] >> (4 * (i / 8)) & 15;
            let high = bytes[8 + i % 4] >> (2 * (i / 4)) & 3;
            (low | high << 4) as i8 - 32
        }),
        Format::Iq4Xs => {
            let low = block[4 + part / 2] >> (4 * (part % 2)) & 15;
            let high = u16::from_le_bytes([block[2], block[3]]) >> (2 * part) & 3;
            [(low | (high as u8) << 4) as i8 - 32; 2]
        }
        _ => unreachable!("other formats have other scales"),
    }
}

/// The 6-bit scale and minimum of one part, from the 12 bytes into which ggml packs eight of each.
#[inline]
pub fn scale_and_minimum(bytes: &[u8], part: usize) -> (u8, u8) {
    if part < 4 {
        return (bytes[part] & 63, bytes[part + 4] & 63);
    }
    let low = bytes[part + 4];
    (low & 15 | bytes[part - 4] >> 6 << 4, low >> 4 | bytes[part] >> 6 << 4)
}

/// The values of rows in any format, as ggml dequantises them: each is a scale times a code, plus a minimum
/// where the format has one, in f32.
///
/// # Panics
/// When the bytes are not whole blocks.
pub fn values(format: Format, bytes: &[u8]) -> Vec<f32> {
    if let Some(values) = floats(format, bytes) {
        return values;
    }
    let blocks = bytes.chunks(format.block_bytes());
    let mut values = Vec::with_capacity(blocks.len() * format.block());
    for block in blocks {
        for part in 0..format.block() / BLOCK {
            let codes = read_codes(format, block, part);
            for (codes, [scale, minimum]) in codes.chunks(BLOCK / 2).zip(factors(format, block, part)) {
                values.extend(codes.iter().map(|&code| scale * value_of_code(format, code) + minimum));
            }
        }
    }
    values
}

/// The scale and the minimum, 0 in formats without one, of the first and the last 16 values of a part.
fn factors(format: Format, block: &[u8], part: usize) -> [[f32; 2]; 2] {
    let half = |at: usize| half::f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
    let scaled = |d: f32, [one, two]: [i8; 2]| [[d * f32::from(one), 0.0], [d * f32::from(two), 0.0]];
    match format {
        Format::Mxfp4 => [[half_power(block[0]).unwrap_or_default().to_f32(), 0.0]; 2],
        Format::F8E4M3 => [[f32::from_le_bytes([block[0], block[1], block[2], block[3]]), 0.0]; 2],
        Format::U4 => [[half(0), -(half(0) * f32::from(block[2]))]; 2],
        Format::Q4_1 | Format::Q5_1 => [[half(0), half(2)]; 2],
        Format::Q4K | Format::Q5K => {
            let (scale, minimum) = scale_and_minimum(&block[4..16], part);
            [[half(0) * f32::from(scale), -(half(2) * f32::from(minimum))]; 2]
        }
        Format::Q2K => [0, 1].map(|i| {
            let both = block[2 * part + i];
            [half(80) * f32::from(both & 15), -(half(82) * f32::from(both >> 4))]
        }),
        Format::Q6K => scaled(half(208), scales_of_sixteen(format, block, part)),
        Format::Q3K => scaled(half(108), scales_of_sixteen(format, block, part)),
        Format::Iq4Xs => scaled(half(0), scales_of_sixteen(format, block, part)),
        _ => [[half(0), 0.0]; 2],
    }
}

fn value_of_code(format: Format, code: u8) -> f32 {
    match format {
        Format::Iq4Nl | Format::Iq4Xs => f32::from(UNEVEN[usize::from(code)]),
        Format::Mxfp4 => f32::from(FP4[usize::from(code)]),
        // Exponent and mantissa, read as an f32, are 2^120 too small.
        Format::F8E4M3 => {
            let size = f32::from_bits(u32::from(code & 0x7f) << 20) * f32::from_bits(0x7b80_0000);
            f32::from_bits(size.to_bits() | u32::from(code & 0x80) << 24)
        }
        _ => f32::from(code) - format.offset() as f32,
    }
}

/// Little-endian floats of any width as f32; `None` for quantised types.
pub fn floats(dtype: Format, bytes: &[u8]) -> Option<Vec<f32>> {
    let pairs = || bytes.chunks_exact(2).map(|b| [b[0], b[1]]);
    match dtype {
        Format::F32 => {
            Some(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
        }
        Format::F16 => Some(pairs().map(|b| half::f16::from_le_bytes(b).to_f32()).collect()),
        Format::Bf16 => Some(pairs().map(|b| half::bf16::from_le_bytes(b).to_f32()).collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_that_is_read_has_a_format() {
        let names: Vec<String> = (0..64)
            .map(Kind)
            .filter(|kind| Format::of(*kind).is_some())
            .map(|kind| kind.to_string())
            .collect();
        assert_eq!(names, Kind::all_read());
    }
}
