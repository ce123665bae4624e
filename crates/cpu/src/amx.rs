//! The AMX instruction set: products of quantised weights with full tiles of sixteen rows, by the processor's
//! own tiles. All other kernels are those of AVX-512.
//!
//! The codes of two panels are unpacked once for all rows. Then the processor multiplies a block of them with
//! sixteen rows at a time, and stores 32-bit integers, while AVX-512 scales those of the previous group of
//! blocks, so that both units are busy. The integers are exact and their scales are applied in the order of
//! `portable::int8`, so that the sums have the bits of any instruction set.

mod tile;

use std::arch::x86_64::{
    __m512, __m512i, _mm512_cvtepi32_ps, _mm512_fmadd_ps, _mm512_load_ps, _mm512_load_si512, _mm512_loadu_ps,
    _mm512_mul_ps, _mm512_set1_epi8, _mm512_set1_ps, _mm512_setzero_ps, _mm512_store_ps, _mm512_store_si512,
    _mm512_storeu_ps, _mm512_sub_epi8,
};

use std::{marker::PhantomData, ops::Range};

use super::Format;
use super::avx512::{
    codes::{Codes, Eight, Five, Four, Six, Uneven},
    int8::expect_reads,
    scales::{Minimum, Plain, Scales, Sixteen, Super, Zero},
};
use super::input::{Int8Tile, ROWS, Sums};
use super::layout::{self, BLOCK, FLOAT4, IQ4, LANES, PAIR, Panel};
use super::portable::Lanes;
use tile::{Configured, INTEGERS, Shape};

/// One register.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; LANES]);

/// Lines of a block's codes.
const CODES: usize = BLOCK / 4;

/// Tiles of integers of one panel in a group: of four blocks, or of two that are multiplied in halves.
const TILES: usize = 4;

/// One thread's buffers, reused from pair to pair of panels.
#[derive(Default)]
pub(super) struct Buffers {
    /// `[blocks][panels][8]`: four signed codes of each of the 16 outputs.
    codes: Vec<Line>,
    /// `[blocks][panels][factors]`
    factors: Vec<Line>,
    /// `[2][blocks of a group][panels][parts][16]`: the integers of the current group of blocks, and of the
    /// next.
    integers: Vec<Line>,
}

/// Unpacked panels, in a thread whose tiles are configured for them.
pub(super) struct Weights<'a> {
    scales: layout::Scales,
    n_panels: usize,
    blocks: usize,
    buffers: &'a mut Buffers,
    configured: Configured,
}

impl<'a> Weights<'a> {
    /// One or two panels, over their whole `k`.
    ///
    /// # Safety
    /// The machine has the instructions of the AMX instruction set.
    pub(super) unsafe fn unpack(panels: &[Panel], buffers: &'a mut Buffers) -> Self {
        assert!((1..=PAIR).contains(&panels.len()), "one or two panels");
        // SAFETY: the machine has AMX and AVX-512, as this function requires; the arm's codes and scales are
        // those of the panels' format.
        let shape = unsafe {
            match panels[0].format {
                Format::Q8_0 => unpack::<Eight, Plain<7>>(panels, buffers),
                Format::Q4_0 => unpack::<Four, Plain<3>>(panels, buffers),
                Format::Q5_0 => unpack::<Five, Plain<4>>(panels, buffers),
                Format::Q4_1 => unpack::<Four, Minimum>(panels, buffers),
                Format::Q5_1 => unpack::<Five, Minimum>(panels, buffers),
                Format::Q4K => unpack::<Four, Super>(panels, buffers),
                Format::Q5K => unpack::<Five, Super>(panels, buffers),
                Format::Q6K => unpack::<Six, Sixteen<5>>(panels, buffers),
                Format::Q3K => unpack::<Four, Sixteen<2>>(panels, buffers),
                Format::Iq4Nl => unpack::<Uneven<IQ4>, Plain<7>>(panels, buffers),
                Format::Mxfp4 => unpack::<Uneven<FLOAT4>, Plain<7>>(panels, buffers),
                Format::Iq4Xs => unpack::<Uneven<IQ4>, Sixteen<7>>(panels, buffers),
                Format::U4 => unpack::<Four, Zero>(panels, buffers),
                format => unreachable!("{format:?} is multiplied as floats"),
            }
        };
        // SAFETY: the machine has AMX. No other tiles are in use on this thread: a task has one `Weights` at
        // a time, and starts no other task while it has it.
        let configured = unsafe { Configured::new(shape) };
        let (_, scales) = layout::quantized(panels[0].format).expect("floats have no codes");
        Self { scales, n_panels: panels.len(), blocks: panels[0].k / BLOCK, buffers, configured }
    }

    /// Multiplies a full tile and adds to `sums` (the rows of the first panel, then of the second).
    pub(super) fn add(&mut self, tile: &Int8Tile, sums: &mut [Lanes]) {
        assert_eq!(tile.height, ROWS, "a full tile");
        assert_eq!(tile.values.len(), self.blocks * ROWS, "the same k");
        assert_eq!(sums.len(), self.n_panels * ROWS, "one row of sums for each row of the tile");
        // SAFETY: unpacked weights exist only on machines with these instructions; the tile and the sums have
        // the asserted lengths, and `unpack` made the buffers long enough for the blocks of these panels. All
        // are borrowed for the whole call.
        unsafe {
            match (self.scales, self.n_panels) {
                (layout::Scales::Plain, 1) => self.product::<Plain<0>, 1>(tile, sums),
                (layout::Scales::Plain, _) => self.product::<Plain<0>, 2>(tile, sums),
                (layout::Scales::Minimum | layout::Scales::Super | layout::Scales::Zero, 1) => {
                    self.product::<Minimum, 1>(tile, sums);
                }
                (layout::Scales::Minimum | layout::Scales::Super | layout::Scales::Zero, _) => {
                    self.product::<Minimum, 2>(tile, sums);
                }
                (layout::Scales::Sixteen, 1) => self.product::<Sixteen<0>, 1>(tile, sums),
                (layout::Scales::Sixteen, _) => self.product::<Sixteen<0>, 2>(tile, sums),
                (layout::Scales::Float | layout::Scales::Fours, _) => unreachable!("multiplied as floats"),
            }
        }
    }

    /// `N` panels, a group of blocks at a time.
    ///
    /// # Safety
    /// The machine has AMX, the buffers hold `N` panels with the factors of `K`, and the tile and
    /// the sums have sixteen rows of as many blocks.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn product<K: Kind, const N: usize>(&mut self, tile: &Int8Tile, sums: &mut [Lanes]) {
        let (group, n) = (TILES * N * INTEGERS, TILES / K::SHAPE.parts());
        let integers = self.buffers.integers[..2 * group].as_mut_ptr();
        let (codes, factors) = (self.buffers.codes.as_ptr(), self.buffers.factors.as_ptr());
        let blocks = self.blocks;
        // SAFETY: block `b` is in the tile and in the codes, and the integers have room for a group in each
        // half.
        let multiply = |b: usize| unsafe {
            let out = integers.add(b / n % 2 * group + b % n * (group / n));
            let (x, codes) = (tile.values.as_ptr().add(b * ROWS), codes.add(b * N * CODES));
            self.configured.multiply::<N>(K::SHAPE, x.cast(), codes.cast(), out.cast());
        };
        (0..n.min(blocks)).for_each(multiply);
        for first in (0..blocks).step_by(n) {
            let at = Group::<K, N> {
                // SAFETY: the integers have room for a group in each half, of which `first / n % 2` selects
                // one.
                integers: unsafe { integers.add(first / n % 2 * group) },
                // SAFETY: `first` is below the number of blocks, and there are `N` panels' factors for each
                // block.
                factors: unsafe { factors.add(first * N * K::FACTORS) },
                scales: &tile.scales[first * ROWS..],
                scaled: &tile.sums[first * ROWS..],
                kind: PhantomData,
            };
            for i in 0..n {
                if first + n + i < blocks {
                    multiply(first + n + i);
                }
                let rows = i * ROWS / n..(i + 1) * ROWS / n;
                // SAFETY: blocks `first..first + B` have factors, integers and scales in the slices of the
                // group, and the tile and the sums sixteen rows.
                unsafe {
                    match (blocks - first).min(n) {
                        1 => at.rows::<1>(rows, sums),
                        2 => at.rows::<2>(rows, sums),
                        3 => at.rows::<3>(rows, sums),
                        _ => at.rows::<4>(rows, sums),
                    }
                }
            }
        }
    }
}

/// Fills the buffers with the codes and the factors of some panels.
///
/// # Safety
/// The machine has AVX-512 F, BW and VNNI; the panels' format has codes `C` and scales `K`.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn unpack<C: Codes, K: Kind>(panels: &[Panel], buffers: &mut Buffers) -> Shape {
    let (n, blocks) = (panels.len(), panels[0].k / BLOCK);
    assert!(panels.iter().all(|panel| panel.values.len() == C::BYTES * blocks), "the same k");
    let zero = Line([0.0; LANES]);
    buffers.codes.resize(blocks * n * CODES, zero);
    buffers.factors.resize(blocks * n * K::FACTORS, zero);
    buffers.integers.resize(2 * TILES * PAIR * INTEGERS, zero);
    let offset = _mm512_set1_epi8(panels[0].format.offset() as i8);
    for b in 0..blocks {
        for (p, panel) in panels.iter().enumerate() {
            expect_reads::<C>(panel, b);
            let codes = &mut buffers.codes[(b * n + p) * CODES..][..CODES];
            let factors = &mut buffers.factors[(b * n + p) * K::FACTORS..][..K::FACTORS];
            // SAFETY: block `b` is in the panel; a line is a register, aligned as one.
            unsafe {
                let groups = C::unpack(panel.values.as_ptr().add(b * C::BYTES));
                for (line, group) in codes.iter_mut().zip(groups) {
                    _mm512_store_si512(std::ptr::from_mut(line).cast(), _mm512_sub_epi8(group, offset));
                }
                let block = K::load(panel.scales.as_ptr(), b);
                for (line, factor) in factors.iter_mut().zip(K::factors_of(block)) {
                    _mm512_store_ps(line.0.as_mut_ptr(), factor);
                }
            }
        }
    }
    K::SHAPE
}

/// Integers of some blocks from the tiles, with their factors.
struct Group<'a, K, const N: usize> {
    integers: *const Line,
    factors: *const Line,
    scales: &'a [f32],
    scaled: &'a [Sums],
    kind: PhantomData<K>,
}

impl<K: Kind, const N: usize> Group<'_, K, N> {
    /// Adds `B` blocks to the sums of some rows, one after the other.
    ///
    /// # Safety
    /// The machine has AVX-512 F; the group has at least `B` blocks, the rows are below 16 and `sums` has
    /// sixteen rows a panel.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn rows<const B: usize>(&self, rows: Range<usize>, sums: &mut [Lanes]) {
        for p in 0..N {
            // SAFETY: the group has `B` blocks of factors and integers for each of `N` panels, whole 64-byte
            // lines that are aligned as `Line`; the rows are below 16, so that `scales`, `scaled` (16 values
            // a block) and `sums` (16 rows a panel) have them.
            unsafe {
                let mut factors = [K::factors_at(self.factors.add(p * K::FACTORS)); B];
                for (b, factors) in factors.iter_mut().enumerate() {
                    *factors = K::factors_at(self.factors.add((b * N + p) * K::FACTORS));
                }
                for r in rows.clone() {
                    let sum = sums.as_mut_ptr().add(p * ROWS + r).cast();
                    let mut local = _mm512_loadu_ps(sum);
                    for (b, factors) in factors.iter().enumerate() {
                        let integers = self.integers.add((b * N + p) * K::SHAPE.parts() * INTEGERS + r);
                        let at = b * ROWS + r;
                        let x = (*self.scales.get_unchecked(at), self.scaled.get_unchecked(at).scaled);
                        local = K::scaled(integers, *factors, x, local);
                    }
                    _mm512_storeu_ps(sum, local);
                }
            }
        }
    }
}

/// One kind of scales, as this instruction set applies them.
trait Kind: Scales {
    /// The shape of a block's products.
    const SHAPE: Shape;
    /// Lines of factors for one block of one panel.
    const FACTORS: usize;

    /// # Safety
    /// The machine has AVX-512 F, BW and VNNI.
    unsafe fn factors_of(block: Self::Block) -> [__m512; 3];

    /// The factors of one block of one panel.
    ///
    /// # Safety
    /// The machine has AVX-512 F; the lines can be read.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn factors_at(at: *const Line) -> [__m512; 3] {
        // SAFETY: `Self::FACTORS` lines can be read at `at`, and no further one is.
        unsafe {
            let line = |i: usize| if i < Self::FACTORS { line(at, i) } else { _mm512_setzero_ps() };
            [line(0), line(1), line(2)]
        }
    }

    /// `sum` and one block of one row, whose scale and scaled sum of activations are `x`.
    ///
    /// # Safety
    /// The machine has AVX-512 F; the lines can be read.
    unsafe fn scaled(integers: *const Line, factors: [__m512; 3], x: (f32, f32), sum: __m512) -> __m512;
}

/// # Safety
/// The machine has AVX-512 F; the line can be read.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn line(at: *const Line, i: usize) -> __m512 {
    // SAFETY: the line is inside its slice; `Line` is aligned to the 64 bytes that the load requires.
    unsafe { _mm512_load_ps(at.add(i).cast()) }
}

/// # Safety
/// The conditions of [`line`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn float(at: *const Line) -> __m512 {
    // SAFETY: the line is inside its slice; `Line` is aligned to the 64 bytes that the load requires, and any
    // bits are integers.
    let integers: __m512i = unsafe { _mm512_load_si512(at.cast()) };
    _mm512_cvtepi32_ps(integers)
}

impl<const SHIFT: u32> Kind for Plain<SHIFT> {
    const SHAPE: Shape = Shape::Whole;
    const FACTORS: usize = 1;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn factors_of(d: __m512) -> [__m512; 3] {
        [d; 3]
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn scaled(
        integers: *const Line,
        factors: [__m512; 3],
        (scale, _): (f32, f32),
        sum: __m512,
    ) -> __m512 {
        // SAFETY: `integers` is one readable line of 16 integers, aligned as `Line`.
        unsafe { _mm512_fmadd_ps(float(integers), _mm512_mul_ps(factors[0], _mm512_set1_ps(scale)), sum) }
    }
}

/// Formats with a minimum; [`Super`] and [`Zero`] are of this kind once their scales are multiplied out.
macro_rules! with_minimum {
    ($kind:ty) => {
        impl Kind for $kind {
            const SHAPE: Shape = Shape::Whole;
            const FACTORS: usize = 2;

            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
            unsafe fn factors_of(block: Self::Block) -> [__m512; 3] {
                [block.d, block.minimum, block.d]
            }

            #[inline]
            #[target_feature(enable = "avx512f")]
            unsafe fn scaled(
                integers: *const Line,
                factors: [__m512; 3],
                (scale, scaled): (f32, f32),
                sum: __m512,
            ) -> __m512 {
                // SAFETY: `integers` is one readable line of 16 integers, aligned as `Line`.
                unsafe {
                    let d = _mm512_mul_ps(factors[0], _mm512_set1_ps(scale));
                    let sum = _mm512_fmadd_ps(float(integers), d, sum);
                    _mm512_fmadd_ps(factors[1], _mm512_set1_ps(scaled), sum)
                }
            }
        }
    };
}

with_minimum!(Minimum);
with_minimum!(Super);
with_minimum!(Zero);

impl<const SHIFT: u32> Kind for Sixteen<SHIFT> {
    const SHAPE: Shape = Shape::Halves;
    const FACTORS: usize = 3;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn factors_of(block: Self::Block) -> [__m512; 3] {
        [block.d, _mm512_cvtepi32_ps(block.first), _mm512_cvtepi32_ps(block.last)]
    }

    /// The products of halves with their integer scales, and the sum of both, are whole numbers below 2^24,
    /// which floats represent exactly. They start from zero, so that an empty product is not a negative zero.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn scaled(
        integers: *const Line,
        factors: [__m512; 3],
        (scale, _): (f32, f32),
        sum: __m512,
    ) -> __m512 {
        // SAFETY: `integers` is a readable line of the first half, aligned as `Line`, and the same line of
        // the second half lies `INTEGERS` lines further, in the same slice.
        unsafe {
            let first = _mm512_fmadd_ps(float(integers), factors[1], _mm512_setzero_ps());
            let both = _mm512_fmadd_ps(float(integers.add(INTEGERS)), factors[2], first);
            _mm512_fmadd_ps(both, _mm512_mul_ps(factors[0], _mm512_set1_ps(scale)), sum)
        }
    }
}

/// Runs `rounds` rounds of products of a block, and nothing else. Returns the products of a round.
///
/// # Safety
/// The machine has the instructions of the AMX instruction set.
pub(super) unsafe fn peak(rounds: usize) -> usize {
    // SAFETY: the machine has AMX, and this thread uses no other tiles until the configuration is dropped.
    unsafe { Configured::new(Shape::Whole).run(rounds) }
}
