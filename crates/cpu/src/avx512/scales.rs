//! From codes and activations of one block to the sum of one row: the integer product, then its scales, in
//! the order that `portable::int8` defines.

use std::arch::x86_64::{
    __m512, __m512i, _mm_loadu_si128, _mm256_loadu_si256, _mm512_add_epi32, _mm512_cvtepi8_epi32,
    _mm512_cvtepi32_ps, _mm512_cvtepu8_epi32, _mm512_cvtph_ps, _mm512_dpbusd_epi32, _mm512_fmadd_ps,
    _mm512_mul_ps, _mm512_mullo_epi32, _mm512_set1_epi32, _mm512_set1_ps, _mm512_setzero_ps,
    _mm512_setzero_si512, _mm512_slli_epi32, _mm512_sub_ps,
};
use std::ops::Range;

use crate::input::{Int8Tile, Sums};
use crate::layout::{self, SUPER};

/// One kind of scales.
pub(crate) trait Scales {
    /// The scales of one block, for all rows.
    type Block: Copy;

    /// # Safety
    /// The machine has AVX-512 F, BW and VNNI; block `b` is in the scales that start at `at`.
    unsafe fn load(at: *const u8, b: usize) -> Self::Block;

    /// `sums` and the product of one row with a block of each of `N` panels.
    ///
    /// # Safety
    /// The machine has AVX-512 F, BW and VNNI; `x` is a block of a tile.
    unsafe fn add<const N: usize>(panels: &[(Codes, Self::Block); N], x: Activations, sums: &mut [__m512; N]);

    /// The factor of the codes of one half of the block, less their offset, and the addend.
    ///
    /// # Safety
    /// The machine has AVX-512 F, BW and VNNI.
    unsafe fn factors(block: Self::Block, half: usize) -> (__m512, __m512);
}

/// One block of one row of a tile.
#[derive(Clone, Copy)]
pub(crate) struct Activations {
    values: *const i32,
    scale: *const f32,
    sums: *const Sums,
}

impl Activations {
    /// # Safety
    /// `at` is below the number of blocks of the tile.
    #[inline]
    pub(super) unsafe fn new(tile: &Int8Tile, at: usize) -> Self {
        debug_assert!(at < tile.values.len(), "a block of the tile");
        // SAFETY: the three slices have the same length, and `at` is below it.
        unsafe {
            Self {
                values: tile.values.as_ptr().add(at).cast(),
                scale: tile.scales.as_ptr().add(at),
                sums: tile.sums.as_ptr().add(at),
            }
        }
    }
}

/// The codes of a block, unpacked: group `j` in register `j`.
pub(crate) type Codes = [__m512i; 8];

/// `start` and the product of groups `first..first + groups` of each panel with one row. An activation is
/// broadcast once for all panels: the processor loads one 512-bit register a cycle, as many as it multiplies.
///
/// # Safety
/// `x` is a block of a tile and `first + groups <= 8`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn dot<const N: usize, B>(
    start: __m512i,
    panels: &[(Codes, B); N],
    x: Activations,
    groups: Range<usize>,
) -> [__m512i; N] {
    // Two chains: each product waits for the one before it.
    let mut sums = [[start, _mm512_setzero_si512()]; N];
    for j in groups {
        // SAFETY: a block has eight groups of four bytes and `j < 8`; the tile is borrowed for the whole
        // call, and the read needs no alignment.
        let four = _mm512_set1_epi32(unsafe { x.values.add(j).read_unaligned() });
        for (sums, (codes, _)) in sums.iter_mut().zip(panels) {
            sums[j % 2] = _mm512_dpbusd_epi32(sums[j % 2], codes[j], four);
        }
    }
    sums.map(|[one, two]| _mm512_add_epi32(one, two))
}

/// # Safety
/// 32 bytes can be read.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn halves(at: *const u8) -> __m512 {
    // SAFETY: 32 bytes, 16 halves, can be read at `at`; the load needs no alignment.
    _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(at.cast()) })
}

/// `fma(integer, d scale, sum)`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn scaled(integer: __m512i, d: __m512, scale: __m512, sum: __m512) -> __m512 {
    _mm512_fmadd_ps(_mm512_cvtepi32_ps(integer), _mm512_mul_ps(d, scale), sum)
}

/// One scale; codes are `1 << SHIFT` above their value.
pub(crate) struct Plain<const SHIFT: u32>;

impl<const SHIFT: u32> Scales for Plain<SHIFT> {
    type Block = __m512;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn load(at: *const u8, b: usize) -> __m512 {
        // SAFETY: block `b` is in the scales, so that its group of `layout::Scales::Plain.bytes()` bytes is
        // readable.
        unsafe { halves(at.add(b * layout::Scales::Plain.bytes())) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn add<const N: usize>(panels: &[(Codes, __m512); N], x: Activations, sums: &mut [__m512; N]) {
        // SAFETY: `x` points to one block of a row of the tile (`Activations::new`), which is borrowed for
        // the whole call.
        let (integers, scale) = unsafe {
            let start = _mm512_slli_epi32::<SHIFT>(_mm512_set1_epi32((*x.sums).negated));
            (dot(start, panels, x, 0..8), _mm512_set1_ps(*x.scale))
        };
        for p in 0..N {
            sums[p] = scaled(integers[p], panels[p].1, scale, sums[p]);
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn factors(d: __m512, _half: usize) -> (__m512, __m512) {
        (d, _mm512_setzero_ps())
    }
}

/// A scale and a minimum.
#[derive(Clone, Copy)]
pub(crate) struct Affine {
    pub d: __m512,
    pub minimum: __m512,
}

impl Affine {
    /// # Safety
    /// `x` is a block of a tile.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn add<const N: usize>(panels: &[(Codes, Self); N], x: Activations, sums: &mut [__m512; N]) {
        // SAFETY: `x` points to one block of a row of the tile (`Activations::new`), which is borrowed for
        // the whole call.
        let (integers, scale, sum) = unsafe {
            let integers = dot(_mm512_setzero_si512(), panels, x, 0..8);
            (integers, _mm512_set1_ps(*x.scale), _mm512_set1_ps((*x.sums).scaled))
        };
        for p in 0..N {
            let block = panels[p].1;
            sums[p] = _mm512_fmadd_ps(block.minimum, sum, scaled(integers[p], block.d, scale, sums[p]));
        }
    }
}

pub(crate) struct Minimum;

impl Scales for Minimum {
    type Block = Affine;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn load(at: *const u8, b: usize) -> Affine {
        // SAFETY: block `b` is in the scales, so that its group of `layout::Scales::Minimum.bytes()` bytes is
        // readable.
        unsafe {
            let at = at.add(b * layout::Scales::Minimum.bytes());
            Affine { d: halves(at), minimum: halves(at.add(32)) }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn add<const N: usize>(panels: &[(Codes, Affine); N], x: Activations, sums: &mut [__m512; N]) {
        // SAFETY: as `Affine::add`, whose conditions are those of this function.
        unsafe { Affine::add(panels, x, sums) };
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn factors(block: Affine, _half: usize) -> (__m512, __m512) {
        (block.d, block.minimum)
    }
}

/// A scale and a zero point.
pub(crate) struct Zero;

impl Scales for Zero {
    type Block = Affine;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn load(at: *const u8, b: usize) -> Affine {
        // SAFETY: block `b` is in the scales, so that its group of `layout::Scales::Zero.bytes()` bytes is
        // readable.
        unsafe {
            let at = at.add(b * layout::Scales::Zero.bytes());
            let d = halves(at);
            let zero = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(at.add(32).cast())));
            Affine { d, minimum: _mm512_sub_ps(_mm512_setzero_ps(), _mm512_mul_ps(d, zero)) }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn add<const N: usize>(panels: &[(Codes, Affine); N], x: Activations, sums: &mut [__m512; N]) {
        // SAFETY: as `Affine::add`, whose conditions are those of this function.
        unsafe { Affine::add(panels, x, sums) };
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn factors(block: Affine, _half: usize) -> (__m512, __m512) {
        (block.d, block.minimum)
    }
}

pub(crate) struct Super;

impl Scales for Super {
    type Block = Affine;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn load(at: *const u8, b: usize) -> Affine {
        // SAFETY: block `b` is in the scales, so that its group of `layout::Scales::Super.bytes()` bytes is
        // readable.
        unsafe {
            let group = at.add(b / SUPER * layout::Scales::Super.bytes());
            let part = group.add(64 + b % SUPER * 32);
            let bytes = |at: *const u8| _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(at.cast())));
            let minimum = _mm512_mul_ps(halves(group.add(32)), bytes(part.add(16)));
            Affine {
                d: _mm512_mul_ps(halves(group), bytes(part)),
                minimum: _mm512_sub_ps(_mm512_setzero_ps(), minimum),
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn add<const N: usize>(panels: &[(Codes, Affine); N], x: Activations, sums: &mut [__m512; N]) {
        // SAFETY: as `Affine::add`, whose conditions are those of this function.
        unsafe { Affine::add(panels, x, sums) };
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn factors(block: Affine, _half: usize) -> (__m512, __m512) {
        (block.d, block.minimum)
    }
}

/// A scale of 256 values and integer scales of 16; codes are `1 << SHIFT` above their value.
pub(crate) struct Sixteen<const SHIFT: u32>;

#[derive(Clone, Copy)]
pub(crate) struct Pair {
    pub d: __m512,
    pub first: __m512i,
    pub last: __m512i,
}

impl<const SHIFT: u32> Scales for Sixteen<SHIFT> {
    type Block = Pair;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn load(at: *const u8, b: usize) -> Pair {
        // SAFETY: block `b` is in the scales, so that its group of `layout::Scales::Sixteen.bytes()` bytes is
        // readable.
        unsafe {
            let group = at.add(b / SUPER * layout::Scales::Sixteen.bytes());
            let part = group.add(32 + b % SUPER * 32);
            let bytes = |at: *const u8| _mm512_cvtepi8_epi32(_mm_loadu_si128(at.cast()));
            Pair { d: halves(group), first: bytes(part), last: bytes(part.add(16)) }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn add<const N: usize>(panels: &[(Codes, Pair); N], x: Activations, sums: &mut [__m512; N]) {
        // SAFETY: `x` points to one block of a row of the tile (`Activations::new`), which is borrowed for
        // the whole call.
        let (first, last, scale) = unsafe {
            let start = |half: usize| _mm512_slli_epi32::<SHIFT>(_mm512_set1_epi32((*x.sums).halves[half]));
            (dot(start(0), panels, x, 0..4), dot(start(1), panels, x, 4..8), _mm512_set1_ps(*x.scale))
        };
        for p in 0..N {
            let block = panels[p].1;
            let first = _mm512_mullo_epi32(first[p], block.first);
            let last = _mm512_mullo_epi32(last[p], block.last);
            sums[p] = scaled(_mm512_add_epi32(first, last), block.d, scale, sums[p]);
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn factors(block: Pair, half: usize) -> (__m512, __m512) {
        let scale = if half == 0 { block.first } else { block.last };
        (_mm512_mul_ps(block.d, _mm512_cvtepi32_ps(scale)), _mm512_setzero_ps())
    }
}
