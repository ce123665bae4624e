//! The layout of packed weights: the size of panels and their storage. `pack` writes panels, `unpack` and the
//! kernels read them.
//!
//! Quantised formats, for each block of 32 values along `k` of the 16 outputs of a panel (a *line* is 64
//! bytes: four codes of each of the 16 outputs, and group `j` holds the codes `4j..4j + 4`):
//!
//! ```text
//! codes   8 bits        8 lines: group 0 .. group 7 (Q8_0: code = value + 128)
//!         4 bits        4 lines: line j = group j in the low nibbles, group j + 4 in the high ones
//!         the 5th bit   1 line:  bit j of a byte belongs to group j
//!         bits 5 and 6  2 lines: line 0 for groups 0..4, line 1 for 4..8; bits 2j, 2j + 1 to its group j
//!         2 bits        the same two lines alone
//! scales  Plain         f16 d x 16                                          per block
//!         Minimum       f16 d x 16, f16 m x 16                              per block
//!         Zero          f16 d x 16, u8 zero x 16                            per block
//!         Float         f32 d x 16                                          per block
//!         Super         f16 d x 16, f16 dmin x 16, then 8 x (u8 scale x 16, u8 min x 16)  per 256 values
//!         Sixteen       f16 d x 16, then 8 x 2 x (i8 scale x 16)            per 256 values
//!         Fours         f16 d x 16, f16 dmin x 16, then 8 x 2 x (u4 scale, u4 min x 16)  per 256 values
//! ```
//!
//! Floats: `f32` and `f16` are `[k][16]`, `bf16` is `[k / 2][16][2]`.

use std::ops::Range;

use half::{bf16, f16};
use memmap2::MmapMut;

use super::{Activations, Coding, Error, Format};
pub(super) use tribunal_model::weights::ggml::{BLOCK, SUPER};
use tribunal_model::weights::ggml::{FP4, UNEVEN};

/// Outputs in a panel.
pub(super) const LANES: usize = 16;

/// Panels that are multiplied by a tile together: each activation is loaded once for both.
pub(super) const PAIR: usize = 2;

/// The storage of a block's codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codes {
    /// One byte, offset by 128.
    Eight,
    /// Nibbles.
    Four,
    /// Nibbles and a line of fifth bits.
    Five,
    /// Nibbles and two lines of fifth and sixth bits.
    Six,
    /// Nibbles that stand for uneven values: `IQ4`'s, or 4-bit floats.
    Uneven,
    Fp4,
    /// Pairs of bits.
    Two,
}

/// The storage of a block's scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scales {
    /// `w = d (code - offset)`.
    Plain,
    /// `w = d code + m`.
    Minimum,
    /// `w = d code - d zero`.
    Zero,
    /// `w = d float(code)`, with `d` in f32.
    Float,
    /// `w = (d scale) code - dmin min`, with `scale` and `min` per 32 values.
    Super,
    /// `w = (d scale) (code - offset)`, with `scale` per 16 values.
    Sixteen,
    /// `w = (d scale) code - dmin min`, with `scale` and `min` per 16 values, of 4 bits each.
    Fours,
}

/// Returns true if two instruction sets may give different bits with [`Activations::Q8`]. True of `bf16`
/// alone: `vdpbf16ps` takes a subnormal operand, sum or result as zero, the other instruction sets do
/// not. Values of a model are far from that range (below 1.2e-38), where all instruction sets agree.
pub fn isa_matters(format: Format) -> bool {
    format == Format::Bf16
}

/// The coding of the activations for this format.
pub fn coding(format: Format, activations: Activations) -> Coding {
    match (activations, format) {
        (Activations::Float, _) | (_, Format::F32 | Format::F16 | Format::F8E4M3 | Format::Q2K) => {
            Coding::F32
        }
        (Activations::Q8, Format::Bf16) => Coding::Bf16,
        (Activations::Q8, _) => Coding::Int8,
    }
}

/// The codes and scales of a quantised format.
pub(super) fn quantized(format: Format) -> Option<(Codes, Scales)> {
    Some(match format {
        Format::F32 | Format::F16 | Format::Bf16 => return None,
        Format::Q8_0 => (Codes::Eight, Scales::Plain),
        Format::Q4_0 => (Codes::Four, Scales::Plain),
        Format::Q5_0 => (Codes::Five, Scales::Plain),
        Format::Q4_1 => (Codes::Four, Scales::Minimum),
        Format::Q5_1 => (Codes::Five, Scales::Minimum),
        Format::Q4K => (Codes::Four, Scales::Super),
        Format::Q5K => (Codes::Five, Scales::Super),
        Format::Q6K => (Codes::Six, Scales::Sixteen),
        Format::Q3K => (Codes::Four, Scales::Sixteen),
        Format::Iq4Nl => (Codes::Uneven, Scales::Plain),
        Format::Mxfp4 => (Codes::Fp4, Scales::Plain),
        Format::Iq4Xs => (Codes::Uneven, Scales::Sixteen),
        Format::Q2K => (Codes::Two, Scales::Fours),
        Format::U4 => (Codes::Four, Scales::Zero),
        Format::F8E4M3 => (Codes::Eight, Scales::Float),
    })
}

/// The bytes to which codes of uneven values are looked up before multiplication: [`Format::offset`] above
/// the values.
pub(super) const IQ4_BYTES: [u8; 16] = above(UNEVEN, 128);
/// The values themselves, as bytes with a sign.
pub(super) const IQ4_VALUES: [u8; 16] = above(UNEVEN, 0);
pub(super) const FP4_BYTES: [u8; 16] = above(FP4, 16);

const fn above(values: [i8; 16], offset: u8) -> [u8; 16] {
    let mut bytes = [0; 16];
    let mut i = 0;
    while i < 16 {
        bytes[i] = (values[i] as u8).wrapping_add(offset);
        i += 1;
    }
    bytes
}

impl Codes {
    /// Bytes of the codes of one block of 32 for 16 outputs.
    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::Eight => 512,
            Self::Four | Self::Uneven | Self::Fp4 => 256,
            Self::Five => 320,
            Self::Six => 384,
            Self::Two => 128,
        }
    }
}

impl Scales {
    /// Bytes of the scales of one group for 16 outputs.
    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::Plain => 32,
            Self::Zero => 48,
            Self::Minimum | Self::Float => 64,
            Self::Super | Self::Fours => 64 + SUPER * 32,
            Self::Sixteen => 32 + SUPER * 32,
        }
    }

    /// Blocks of 32 in a group.
    pub(super) const fn blocks(self) -> usize {
        match self {
            Self::Plain | Self::Minimum | Self::Zero | Self::Float => 1,
            Self::Super | Self::Sixteen | Self::Fours => SUPER,
        }
    }
}

/// Bytes of the values (or codes) and of the scales of 16 outputs over `k`.
fn bytes_of(format: Format, k: usize) -> (usize, usize) {
    match quantized(format) {
        Some((codes, scales)) => {
            let blocks = k / BLOCK;
            (blocks * codes.bytes(), blocks / scales.blocks() * scales.bytes())
        }
        None => (k.next_multiple_of(2) * LANES * format.block_bytes(), 0),
    }
}

/// Bytes of a panel's values and of its scales, in whole lines.
pub(super) fn panel_bytes(format: Format, k: usize) -> (usize, usize) {
    let (values, scales) = bytes_of(format, k);
    (values.next_multiple_of(64), scales.next_multiple_of(64))
}

/// One panel: 16 outputs over all of `k`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Panel<'a> {
    pub format: Format,
    pub k: usize,
    /// Codes or floats; starts at a multiple of 64 bytes.
    pub values: &'a [u8],
    /// Scales; empty for floats.
    pub scales: &'a [u8],
    /// Bytes from these values, and from these scales, to those of the next panel.
    #[cfg_attr(
        not(any(target_arch = "x86_64", target_arch = "aarch64")),
        expect(dead_code, reason = "vector kernels alone ask for it ahead")
    )]
    pub pitch: (usize, usize),
}

impl<'a> Panel<'a> {
    /// The outputs of this panel over `range` of `k`, which starts and ends with whole blocks.
    pub fn part(self, range: Range<usize>) -> Self {
        debug_assert!(range.start.is_multiple_of(self.format.block().max(2)), "whole blocks");
        let (values, scales) = bytes_of(self.format, range.start);
        let (n_values, n_scales) = bytes_of(self.format, range.len());
        Self {
            k: range.len(),
            values: &self.values[values..][..n_values],
            scales: &self.scales[scales..][..n_scales],
            ..self
        }
    }

    /// The weights of an `f32` panel, `[k][lane]`; `None` for other formats (and where bytes would have to be
    /// swapped).
    pub fn floats(&self) -> Option<&'a [[f32; LANES]]> {
        if self.format != Format::F32 || cfg!(target_endian = "big") {
            return None;
        }
        // SAFETY: any bits are an `f32`.
        let cells = unsafe { self.cells() };
        Some(&cells[..self.k])
    }

    /// The weights of an `f16` panel, `[k][lane]`.
    pub fn halves(&self) -> &'a [[f16; LANES]] {
        assert_eq!(self.format, Format::F16, "halves");
        // SAFETY: any bits are an `f16`.
        let cells = unsafe { self.cells() };
        &cells[..self.k]
    }

    /// The weights of a `bf16` panel, `[k / 2][lane][2]`.
    pub fn pairs(&self) -> &'a [[[bf16; 2]; LANES]] {
        assert_eq!(self.format, Format::Bf16, "pairs");
        // SAFETY: any bits are a `bf16`.
        let cells = unsafe { self.cells() };
        &cells[..self.k.div_ceil(2)]
    }

    /// # Safety
    /// Any bits are a `T`.
    unsafe fn cells<T>(&self) -> &'a [T] {
        // SAFETY: any bits are a `T`; `align_to` gives whole, aligned values inside `values`, borrowed for
        // `'a`.
        let (before, cells, _) = unsafe { self.values.align_to() };
        assert!(before.is_empty(), "panels begin on whole lines");
        cells
    }
}

/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

/// The panels of one matrix: all values, then all scales, in huge pages where the system has them (a stream
/// of small pages costs a walk through the page table each 4 KiB, a fifth of the speed of memory). The
/// remainder after whole huge pages is in small ones, so that no memory is wasted.
#[derive(Debug)]
pub(super) struct Storage {
    format: Format,
    k: usize,
    n_panels: usize,
    memory: MmapMut,
    used: Range<usize>,
}

impl Storage {
    /// Zeros for `n` outputs.
    pub(super) fn new(format: Format, n: usize, k: usize) -> Result<Self, Error> {
        let n_panels = n.div_ceil(LANES);
        let (values, scales) = panel_bytes(format, k);
        let bytes = n_panels * (values + scales);
        let slack = if bytes >= HUGE { HUGE } else { 64 };
        let memory = MmapMut::map_anon(bytes + slack)
            .map_err(|error| Error::Memory { bytes, reason: error.to_string() })?;
        let start = memory.as_ptr().align_offset(slack);
        #[cfg(target_os = "linux")]
        if bytes >= HUGE {
            // Only a hint: without it the pages are small.
            let _ = memory.advise_range(memmap2::Advice::HugePage, start, bytes / HUGE * HUGE);
        }
        Ok(Self { format, k, n_panels, memory, used: start..start + bytes })
    }

    /// Bytes of resident memory, without pages that are never written to.
    pub(super) fn bytes(&self) -> usize {
        self.used.len()
    }

    pub(super) fn panel(&self, i: usize) -> Panel<'_> {
        let (values, scales) = panel_bytes(self.format, self.k);
        let (all_values, all_scales) = self.memory[self.used.clone()].split_at(self.n_panels * values);
        Panel {
            format: self.format,
            k: self.k,
            values: &all_values[i * values..][..values],
            scales: &all_scales[i * scales..][..scales],
            pitch: (values, scales),
        }
    }

    /// The values and the scales of all panels, to be written.
    pub(super) fn halves_mut(&mut self) -> (&mut [u8], &mut [u8]) {
        let (values, _) = panel_bytes(self.format, self.k);
        self.memory[self.used.clone()].split_at_mut(self.n_panels * values)
    }
}
