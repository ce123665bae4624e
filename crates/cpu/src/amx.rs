//! The AMX instruction set: products of quantised weights with full tiles of sixteen rows, by the processor's
//! own tiles. All other kernels are those of AVX-512.
//!
//! The codes of two panels are unpacked once for all rows. Then the processor multiplies a block of them with
//! sixteen rows at a time, and stores 32-bit integers, while AVX-512 scales those of the previous group of
//! blocks, so that both units are busy. The integers are exact and their scales are applied in the order of
//! `portable::int8`, so that the sums have the bits of any instruction set.
#![expect(clippy::needless_range_loop, reason = "a block is a place in several arrays at once")]

mod tile;

use std::arch::x86_64::{_mm512_load_si512, _mm512_set1_epi8, _mm512_store_si512, _mm512_sub_epi8};
use std::{marker::PhantomData, ops::Range};

use super::Format;
use super::input::{Int8Tile, ROWS, Sums};
use super::int8::codes::Codes;
use super::int8::scales::{Minimum, Plain, Scaled, Scales, Sixteen};
use super::int8::{GROUPS, Outputs, by_format, expect_reads};
use super::lanes::{Avx512, Lanes as _};
use super::layout::{BLOCK, LANES, PAIR, Panel, Scales as Kind, quantized};
use super::portable::Lanes;
use tile::{Configured, INTEGERS, Shape};

/// One register.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; LANES]);

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
    scales: Kind,
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
        // SAFETY: the machine has AMX and AVX-512, as this function requires.
        let shape = unsafe { by_format!(panels[0].format, unpack(panels, buffers)) };
        // SAFETY: the machine has AMX. No other tiles are in use on this thread: a task has one `Weights` at
        // a time, and starts no other task while it has it.
        let configured = unsafe { Configured::new(shape) };
        let (_, scales) = quantized(panels[0].format).expect("floats have no codes");
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
                (Kind::Plain, 1) => self.product::<Plain<0>, 1>(tile, sums),
                (Kind::Plain, _) => self.product::<Plain<0>, 2>(tile, sums),
                (Kind::Minimum | Kind::Super | Kind::Zero, 1) => self.product::<Minimum, 1>(tile, sums),
                (Kind::Minimum | Kind::Super | Kind::Zero, _) => self.product::<Minimum, 2>(tile, sums),
                (Kind::Sixteen, 1) => self.product::<Sixteen<0>, 1>(tile, sums),
                (Kind::Sixteen, _) => self.product::<Sixteen<0>, 2>(tile, sums),
                (Kind::Float | Kind::Fours, _) => unreachable!("multiplied as floats"),
            }
        }
    }

    /// `N` panels, a group of blocks at a time.
    ///
    /// # Safety
    /// The machine has AMX, the buffers hold `N` panels with the factors of `S`, and the tile and
    /// the sums have sixteen rows of as many blocks.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2,fma,f16c")]
    unsafe fn product<S: Scales, const N: usize>(&mut self, tile: &Int8Tile, sums: &mut [Lanes]) {
        let (group, n) = (TILES * N * INTEGERS, TILES / S::INTEGERS);
        let integers = self.buffers.integers[..2 * group].as_mut_ptr();
        let (codes, factors) = (self.buffers.codes.as_ptr(), self.buffers.factors.as_ptr());
        let blocks = self.blocks;
        // SAFETY: block `b` is in the tile and in the codes, and the integers have room for a group in each
        // half.
        let multiply = |b: usize| unsafe {
            let out = integers.add(b / n % 2 * group + b % n * (group / n));
            let (x, codes) = (tile.values.as_ptr().add(b * ROWS), codes.add(b * N * GROUPS));
            self.configured.multiply::<N>(shape::<S>(), x.cast(), codes.cast(), out.cast());
        };
        (0..n.min(blocks)).for_each(multiply);
        for first in (0..blocks).step_by(n) {
            let at = Group::<S, N> {
                // SAFETY: the integers have room for a group in each half, of which `first / n % 2` selects
                // one.
                integers: unsafe { integers.add(first / n % 2 * group) },
                // SAFETY: `first` is below the number of blocks, and there are `N` panels' factors for each
                // block.
                factors: unsafe { factors.add(first * N * S::FACTORS) },
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
/// The machine has AVX-512 F, BW and VNNI; the panels' format has codes `C` and scales `S`.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2,fma,f16c")]
unsafe fn unpack<C: Codes, S: Scales>(panels: &[Panel], buffers: &mut Buffers) -> Shape {
    let (n, blocks) = (panels.len(), panels[0].k / BLOCK);
    assert!(panels.iter().all(|panel| panel.values.len() == C::BYTES * blocks), "the same k");
    let zero = Line([0.0; LANES]);
    buffers.codes.resize(blocks * n * GROUPS, zero);
    buffers.factors.resize(blocks * n * S::FACTORS, zero);
    buffers.integers.resize(2 * TILES * PAIR * INTEGERS, zero);
    let offset = _mm512_set1_epi8(panels[0].format.offset() as i8);
    for b in 0..blocks {
        for (p, panel) in panels.iter().enumerate() {
            expect_reads::<C, S, PAIR>(panel, b);
            let codes = &mut buffers.codes[(b * n + p) * GROUPS..][..GROUPS];
            let factors = &mut buffers.factors[(b * n + p) * S::FACTORS..][..S::FACTORS];
            // SAFETY: block `b` is in the panel; a line is a register, aligned as one.
            unsafe {
                for (j, line) in codes.iter_mut().enumerate() {
                    let group = C::line(panel.values.as_ptr().add(b * C::BYTES), j, 0);
                    _mm512_store_si512(std::ptr::from_mut(line).cast(), _mm512_sub_epi8(group, offset));
                }
                let block = S::load::<Avx512>(panel.scales.as_ptr(), b);
                for (line, factor) in factors.iter_mut().zip(block) {
                    factor.store(&mut line.0);
                }
            }
        }
    }
    shape::<S>()
}

/// The division of a block's products among tiles.
const fn shape<S: Scales>() -> Shape {
    if S::INTEGERS == 1 { Shape::Whole } else { Shape::Halves }
}

/// Integers of some blocks from the tiles, with their factors.
struct Group<'a, S, const N: usize> {
    integers: *const Line,
    factors: *const Line,
    scales: &'a [f32],
    scaled: &'a [Sums],
    kind: PhantomData<S>,
}

impl<S: Scales, const N: usize> Group<'_, S, N> {
    /// Adds `B` blocks to the sums of some rows, one after the other.
    ///
    /// # Safety
    /// The machine has AVX-512 F and BW; the group has at least `B` blocks, the rows are below 16 and `sums`
    /// has sixteen rows a panel.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2,fma,f16c")]
    unsafe fn rows<const B: usize>(&self, rows: Range<usize>, sums: &mut [Lanes]) {
        for p in 0..N {
            // SAFETY: the group has `B` blocks of factors and integers for each of `N` panels; the rows are
            // below 16, so that `scales`, `scaled` (16 values a block) and `sums` (16 rows a panel) have
            // them.
            unsafe {
                let mut factors = [[Avx512::splat(0.0); 3]; B];
                for b in 0..B {
                    for i in 0..S::FACTORS {
                        factors[b][i] = Avx512::load(&(*self.factors.add((b * N + p) * S::FACTORS + i)).0);
                    }
                }
                for r in rows.clone() {
                    let sum = sums.get_unchecked_mut(p * ROWS + r);
                    let mut local = Avx512::load(sum);
                    for b in 0..B {
                        let at = self.integers.add((b * N + p) * S::INTEGERS * INTEGERS + r);
                        let one = integers(at);
                        let two = if S::INTEGERS == 1 { one } else { integers(at.add(INTEGERS)) };
                        let scale = *self.scales.get_unchecked(b * ROWS + r);
                        let x = Scaled { scale, sum: self.scaled.get_unchecked(b * ROWS + r).scaled };
                        local = S::add([one, two], factors[b], x, local);
                    }
                    local.store(sum);
                }
            }
        }
    }
}

/// # Safety
/// The machine has AVX-512 F; the line can be read.
#[inline(always)]
unsafe fn integers(at: *const Line) -> Avx512 {
    // SAFETY: a line is aligned to the 64 bytes that the load requires, and any bits are integers.
    Avx512::from_integers(unsafe { _mm512_load_si512(at.cast()) })
}

/// Runs `rounds` rounds of products of a block, and nothing else. Returns the products of a round.
///
/// # Safety
/// The machine has the instructions of the AMX instruction set.
pub(super) unsafe fn peak(rounds: usize) -> usize {
    // SAFETY: the machine has AMX, and this thread uses no other tiles until the configuration is dropped.
    unsafe { Configured::new(Shape::Whole).run(rounds) }
}
