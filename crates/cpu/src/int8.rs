//! Products of quantised weights and 8-bit activations, written once over the vector operations of an
//! instruction set: a format is one kind of [`codes`] and one of [`scales`]. Sums have the order that
//! `portable::int8` defines.
#![expect(clippy::needless_range_loop, reason = "a row and a panel are places in several arrays at once")]

pub(super) mod codes;
pub(super) mod scales;

use std::marker::PhantomData;
use std::ops::Range;

use super::ahead;
use super::input::{Int8Tile, Sums};
use super::lanes;
use super::layout::{BLOCK, Panel};
use super::portable::Lanes;
use codes::{Codes, Register};
use scales::{Factors, Scaled, Scales};

/// Bytes of the codes of four values of 16 outputs.
pub(super) const LINE: usize = 64;

/// Groups of four values in a block.
pub(super) const GROUPS: usize = BLOCK / 4;

/// Distance from a prefetched line of weights to the one in use. Unit: bytes.
pub(super) const AHEAD: usize = 2048;

/// Sixteen floats, and the integers and bytes that become floats.
pub(super) trait Outputs: lanes::Lanes {
    /// Sixteen 32-bit sums.
    type Integers: Copy;
    fn from_integers(integers: Self::Integers) -> Self;
    fn unsigned(bytes: &[u8; lanes::WIDTH]) -> Self;
    fn signed(bytes: &[u8; lanes::WIDTH]) -> Self;
}

/// The products of an instruction set.
pub(super) trait Arithmetic: Copy {
    type Register: Register;
    type Outputs: Outputs;
    /// Panels that a tile is multiplied with together.
    const PANELS: usize = 1;
    /// Rows of a tile whose sums fit the registers together, of small and of large codes.
    const ROWS: [usize; 2];
    /// The arithmetic of a single row.
    type Single: Arithmetic;
    /// True if [`Self::dot`] takes codes of 8 bits by their values, without an offset.
    const TAKES_VALUES: bool = Self::Register::SIGNED;
    /// A block that is unpacked once for all rows of a tile.
    type Opened: Lines<Self::Register>;

    /// A register of codes as [`Self::dot`] takes them.
    ///
    /// # Safety
    /// The machine has the instructions, and the conditions of [`Codes::line`].
    #[inline(always)]
    unsafe fn line<C: Codes>(at: *const u8, line: usize, part: usize) -> Self::Register {
        // SAFETY: the conditions are those of this function.
        unsafe { C::line(at, line, part) }
    }

    /// # Safety
    /// The machine has the instructions; a block of codes `C` can be read at `at`.
    unsafe fn open<C: Codes>(at: *const u8, buffer: &mut Buffer) -> Self::Opened;

    /// For each row and panel the row's start, and the products of some groups with it, exactly.
    ///
    /// # Safety
    /// The machine has the instructions; the lines are those of codes `C`; there are eight activations of
    /// four in each row.
    unsafe fn dot<C: Codes, L: Lines<Self::Register>, const N: usize, const R: usize>(
        lines: &[L; N],
        x: [*const i32; R],
        groups: Range<usize>,
        start: [i32; R],
    ) -> [[<Self::Outputs as Outputs>::Integers; N]; R];
}

/// The lines of a block.
pub(super) trait Lines<V>: Copy {
    /// # Safety
    /// The machine has the instructions of `V`; the block has such a line, and a line such a part.
    unsafe fn line(self, line: usize, part: usize) -> V;
}

/// A block of a panel, unpacked line by line as it is used.
#[derive(Clone, Copy)]
struct Packed<A, C>(*const u8, PhantomData<(A, C)>);

impl<A: Arithmetic, C: Codes> Lines<A::Register> for Packed<A, C> {
    #[inline(always)]
    unsafe fn line(self, line: usize, part: usize) -> A::Register {
        // SAFETY: a block of codes `C` can be read at `self.0`, inside the panel, which outlives the product.
        unsafe { A::line::<C>(self.0, line, part) }
    }
}

/// A block in memory that was unpacked, or needs not be.
#[derive(Clone, Copy)]
pub(super) struct Unpacked(*const u8);

impl<V: Register> Lines<V> for Unpacked {
    #[inline(always)]
    unsafe fn line(self, line: usize, part: usize) -> V {
        // SAFETY: the lines are those of a panel or of a buffer, which outlive the product.
        unsafe { V::load(self.0.add(LINE * line + LINE / V::PER_LINE * part)) }
    }
}

/// Memory for the lines of a block.
#[repr(align(64))]
pub(super) struct Buffer([u8; GROUPS * LINE]);

/// A block as lines in memory, which stay in the first-level cache.
///
/// # Safety
/// The conditions of [`Arithmetic::open`].
#[inline(always)]
pub(super) unsafe fn in_memory<A: Arithmetic, C: Codes>(at: *const u8, buffer: &mut Buffer) -> Unpacked {
    if !A::Register::SIGNED && C::BYTES == GROUPS * LINE {
        return Unpacked(at);
    }
    let buffer = buffer.0.as_mut_ptr();
    for line in 0..GROUPS {
        for part in 0..A::Register::PER_LINE {
            let out = LINE * line + LINE / A::Register::PER_LINE * part;
            // SAFETY: a block can be read at `at`, and the buffer has eight lines.
            unsafe { A::line::<C>(at, line, part).store(buffer.add(out)) };
        }
    }
    Unpacked(buffer)
}

/// One block of some neighbouring rows of a tile.
#[derive(Clone, Copy)]
struct Rows<const R: usize> {
    values: [*const i32; R],
    scales: [*const f32; R],
    sums: [*const Sums; R],
}

impl<const R: usize> Rows<R> {
    /// # Safety
    /// `at + R` blocks are in the tile.
    #[inline(always)]
    unsafe fn new(tile: &Int8Tile, at: usize) -> Self {
        debug_assert!(at + R <= tile.values.len(), "blocks of the tile");
        // SAFETY: the three slices have the same length, and `at + R` is at most that; they are borrowed by
        // the tile.
        unsafe {
            Self {
                values: std::array::from_fn(|r| tile.values.as_ptr().add(at + r).cast()),
                scales: std::array::from_fn(|r| tile.scales.as_ptr().add(at + r)),
                sums: std::array::from_fn(|r| tile.sums.as_ptr().add(at + r)),
            }
        }
    }
}

/// One or two panels by one tile of any height, added to `sums` (the rows of the first panel, then of the
/// second).
///
/// # Safety
/// The machine has the instructions of `A`; the panels' format has codes `C` and scales `S`.
#[inline(always)]
pub(super) unsafe fn product<A: Arithmetic, C: Codes, S: Scales>(
    panels: &[Panel],
    tile: &Int8Tile,
    sums: &mut [Lanes],
) {
    let height = tile.height;
    let blocks = tile.values.len() / height;
    assert_eq!(sums.len(), panels.len() * height, "one row of sums for each row of the tile");
    assert!(panels.iter().all(|panel| panel.values.len() == C::BYTES * blocks), "the same k");
    // SAFETY: the machine has the instructions; the asserted lengths give each panel `blocks` blocks of
    // `C::BYTES` bytes, and `sums` `height` rows a panel.
    unsafe {
        match (A::PANELS, panels) {
            (2, [one, two]) => rows::<A, C, S, 2>([one, two], tile, sums),
            _ => {
                for (panel, sums) in panels.iter().zip(sums.chunks_exact_mut(height)) {
                    rows::<A, C, S, 1>([panel], tile, sums);
                }
            }
        }
    }
}

/// # Safety
/// As [`product`], whose lengths were checked. A tile's height is 1, 2 or a multiple of 4.
#[inline(always)]
unsafe fn rows<A: Arithmetic, C: Codes, S: Scales, const N: usize>(
    panels: [&Panel; N],
    tile: &Int8Tile,
    sums: &mut [Lanes],
) {
    // SAFETY: the conditions are those of this function.
    unsafe {
        match tile.height {
            1 => few_rows::<A::Single, C, S, N, 1>(panels, tile, sums),
            2 => few_rows::<A, C, S, N, 2>(panels, tile, sums),
            _ => match const { A::ROWS[C::IS_LARGE as usize] } {
                1 => many_rows::<A, C, S, N, 1>(panels, tile, sums),
                2 => many_rows::<A, C, S, N, 2>(panels, tile, sums),
                _ => many_rows::<A, C, S, N, 4>(panels, tile, sums),
            },
        }
    }
}

/// Prefetches the lines that a later block will read: of this panel, or of the one `N` panels further. The
/// hardware prefetcher stops at each page.
#[inline(always)]
pub(super) fn expect_reads<C: Codes, S: Scales, const N: usize>(panel: &Panel, b: usize) {
    let codes = line_ahead(panel.values, N * panel.pitch.0, b * C::BYTES + AHEAD);
    for line in (0..C::BYTES).step_by(LINE) {
        ahead::read(codes.wrapping_add(line));
    }
    let scales = b * S::KIND.bytes() / S::KIND.blocks();
    ahead::read(line_ahead(panel.scales, N * panel.pitch.1, scales + AHEAD / 4));
}

/// The address of the line at `at`; past the end of these bytes, of one in those `next` bytes further.
#[inline(always)]
pub(super) fn line_ahead(bytes: &[u8], next: usize, at: usize) -> *const u8 {
    bytes.as_ptr().wrapping_add(if at < bytes.len() { at } else { at - bytes.len() + next })
}

/// Sums in registers, codes unpacked as they are used.
///
/// # Safety
/// As [`rows`]; the tile has `R` rows.
#[inline(always)]
unsafe fn few_rows<A: Arithmetic, C: Codes, S: Scales, const N: usize, const R: usize>(
    panels: [&Panel; N],
    tile: &Int8Tile,
    sums: &mut [Lanes],
) {
    // SAFETY: there are `R` rows of sums for each panel.
    let mut local = unsafe { load::<A::Outputs, N, R>(sums, R, 0) };
    for b in 0..tile.values.len() / R {
        // SAFETY: `b` is below the number of blocks of each panel and of each row, which are borrowed for the
        // whole call.
        unsafe {
            let mut lines = [Packed::<A, C>(panels[0].values.as_ptr().add(b * C::BYTES), PhantomData); N];
            let mut factors = [S::load(panels[0].scales.as_ptr(), b); N];
            expect_reads::<C, S, N>(panels[0], b);
            for p in 1..N {
                lines[p] = Packed(panels[p].values.as_ptr().add(b * C::BYTES), PhantomData);
                factors[p] = S::load(panels[p].scales.as_ptr(), b);
                expect_reads::<C, S, N>(panels[p], b);
            }
            add::<A, C, S, _, N, R>(&lines, &factors, Rows::new(tile, b * R), &mut local);
        }
    }
    // SAFETY: there are `R` rows of sums for each panel.
    unsafe { store(&local, sums, R, 0) };
}

/// Sums in memory (the first-level cache), `R` rows at a time, so that codes serve any number of rows.
///
/// # Safety
/// As [`rows`]; the tile's height is a multiple of `R`.
#[inline(always)]
unsafe fn many_rows<A: Arithmetic, C: Codes, S: Scales, const N: usize, const R: usize>(
    panels: [&Panel; N],
    tile: &Int8Tile,
    sums: &mut [Lanes],
) {
    let height = tile.height;
    let mut buffers = [const { Buffer([0; GROUPS * LINE]) }; N];
    for b in 0..tile.values.len() / height {
        if tile.is_first {
            for panel in panels {
                expect_reads::<C, S, N>(panel, b);
            }
        }
        // SAFETY: `b` is below the number of blocks of each panel and of each row, which are borrowed for the
        // whole call.
        unsafe {
            let mut lines = [A::open::<C>(panels[0].values.as_ptr().add(b * C::BYTES), &mut buffers[0]); N];
            let mut factors = [S::load(panels[0].scales.as_ptr(), b); N];
            for p in 1..N {
                lines[p] = A::open::<C>(panels[p].values.as_ptr().add(b * C::BYTES), &mut buffers[p]);
                factors[p] = S::load(panels[p].scales.as_ptr(), b);
            }
            for first in (0..height).step_by(R) {
                let mut local = load::<A::Outputs, N, R>(sums, height, first);
                add::<A, C, S, _, N, R>(&lines, &factors, Rows::new(tile, b * height + first), &mut local);
                store(&local, sums, height, first);
            }
        }
    }
}

/// The sums of rows `first..first + R` of a tile with each panel.
///
/// # Safety
/// There are `height` rows of sums for each panel, and `first + R` is at most that.
#[inline(always)]
pub(super) unsafe fn load<F: lanes::Lanes, const N: usize, const R: usize>(
    sums: &[Lanes],
    height: usize,
    first: usize,
) -> [[F; N]; R] {
    let mut local = [[F::splat(0.0); N]; R];
    for r in 0..R {
        for p in 0..N {
            // SAFETY: the row is below the height, and the panel below `N`.
            local[r][p] = F::load(unsafe { sums.get_unchecked(p * height + first + r) });
        }
    }
    local
}

/// # Safety
/// The conditions of [`load`].
#[inline(always)]
pub(super) unsafe fn store<F: lanes::Lanes, const N: usize, const R: usize>(
    local: &[[F; N]; R],
    sums: &mut [Lanes],
    height: usize,
    first: usize,
) {
    for r in 0..R {
        for p in 0..N {
            // SAFETY: the row is below the height, and the panel below `N`.
            local[r][p].store(unsafe { sums.get_unchecked_mut(p * height + first + r) });
        }
    }
}

/// `sums` and the products of some rows with a block of each panel.
///
/// # Safety
/// The conditions of [`Arithmetic::dot`]; `x` are blocks of a tile.
#[inline(always)]
unsafe fn add<A: Arithmetic, C: Codes, S: Scales, L: Lines<A::Register>, const N: usize, const R: usize>(
    lines: &[L; N],
    factors: &[Factors<A::Outputs>; N],
    x: Rows<R>,
    sums: &mut [[A::Outputs; N]; R],
) {
    // SAFETY: the pointers of `x` are those of blocks in the tile, which outlives the product.
    unsafe {
        let mut start = [[0; R]; 2];
        if !(A::TAKES_VALUES && C::BITS == 8) {
            for r in 0..R {
                start[0][r] = S::start(&*x.sums[r], 0);
                start[1][r] = S::start(&*x.sums[r], 1);
            }
        }
        let n = GROUPS / S::INTEGERS;
        let one = A::dot::<C, L, N, R>(lines, x.values, 0..n, start[0]);
        let two =
            if S::INTEGERS == 1 { one } else { A::dot::<C, L, N, R>(lines, x.values, n..GROUPS, start[1]) };
        for r in 0..R {
            let scaled = Scaled { scale: *x.scales[r], sum: (*x.sums[r]).scaled };
            for p in 0..N {
                let integers = [A::Outputs::from_integers(one[r][p]), A::Outputs::from_integers(two[r][p])];
                sums[r][p] = S::add(integers, factors[p], scaled, sums[r][p]);
            }
        }
    }
}

/// Runs a kernel with the codes and scales of a format.
macro_rules! by_format {
    ($format:expr, $($kernel:ident)::+($($argument:expr),*)) => {{
        use $crate::int8::codes::{Eight, Five, Four, Fp4, Six, Uneven};
        use $crate::int8::scales::{Minimum, Plain, Sixteen, Super, Zero};
        match $format {
            Format::Q8_0 => $($kernel)::+::<Eight, Plain<7>>($($argument),*),
            Format::Q4_0 => $($kernel)::+::<Four, Plain<3>>($($argument),*),
            Format::Q5_0 => $($kernel)::+::<Five, Plain<4>>($($argument),*),
            Format::Q4_1 => $($kernel)::+::<Four, Minimum>($($argument),*),
            Format::Q5_1 => $($kernel)::+::<Five, Minimum>($($argument),*),
            Format::Q4K => $($kernel)::+::<Four, Super>($($argument),*),
            Format::Q5K => $($kernel)::+::<Five, Super>($($argument),*),
            Format::Q6K => $($kernel)::+::<Six, Sixteen<5>>($($argument),*),
            Format::Q3K => $($kernel)::+::<Four, Sixteen<2>>($($argument),*),
            Format::Iq4Nl => $($kernel)::+::<Uneven, Plain<7>>($($argument),*),
            Format::Iq4Xs => $($kernel)::+::<Uneven, Sixteen<7>>($($argument),*),
            Format::Mxfp4 => $($kernel)::+::<Fp4, Plain<4>>($($argument),*),
            Format::U4 => $($kernel)::+::<Four, Zero>($($argument),*),
            format => unreachable!("{format:?} is multiplied as floats"),
        }
    }};
}
pub(super) use by_format;
