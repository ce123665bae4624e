//! Which panel meets which tile, on which thread. It decides the order of the work and nothing about the
//! values: each output of each row is computed by one kernel call chain, the same whatever the split.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

use half::bf16;
use rayon::prelude::*;

use super::ahead;
use super::floats::{self, Order};
use super::input::{Coded, Int8Tile, ROWS, Span, Sums};
use super::layout::{BLOCK, LANES, PAIR, Panel};
#[cfg(target_arch = "aarch64")]
use super::neon;
use super::portable::{self, Lanes};
use super::tier::{Instructions, Tier};
use super::{Format, Input, Packed, unpack};
#[cfg(target_arch = "x86_64")]
use super::{amx, avx2, avx512};

/// One layer of a [`multiply`].
#[derive(Debug)]
pub struct Job<'a> {
    /// The layer.
    pub weights: &'a Packed,
    /// `[m, n]`, row-major; overwritten.
    pub out: &'a mut [f32],
}

/// Tasks per thread: enough that a thread that was held up does not hold up the others.
const TASKS: usize = 4;
/// Activations that stay in the second-level cache while the panels pass by, in bytes.
const RESIDENT: usize = 448 * 1024;
/// Values of `k` that are multiplied before the next panels have their turn, where there are many rows. A
/// multiple of any format's block.
const STRETCH: usize = 2048;

/// `out = x wᵀ` for each job, all in one parallel region of the current rayon pool.
///
/// # Panics
/// When a layer has another `k` than the input, wants another [`super::Coding`], or an `out` has not `m n`
/// values.
pub fn multiply(jobs: &mut [Job], input: &Input) {
    run(&parts(jobs, input), input);
}

/// `out += x wᵀ` for each job: every sum goes on from what its place in `out` holds.
///
/// # Panics
/// As [`multiply`].
pub fn add_multiply(jobs: &mut [Job], input: &Input) {
    let mut parts = parts(jobs, input);
    for part in &mut parts {
        part.goes_on = true;
    }
    run(&parts, input);
}

fn parts<'a>(jobs: &'a mut [Job], input: &Input) -> Vec<Part<'a>> {
    jobs.iter_mut().map(|Job { weights, out }| Part::over(weights, out, input)).collect()
}

/// The same into new memory: `x wᵀ` for each layer.
///
/// # Panics
/// As [`multiply`].
#[must_use]
pub fn products(layers: &[&Packed], input: &Input) -> Vec<Vec<f32>> {
    if input.k() == 0 {
        return layers.iter().map(|layer| vec![0.0; input.m() * layer.n]).collect();
    }
    let room = |layer: &&Packed| Vec::<f32>::with_capacity(input.m() * layer.n);
    let mut outs: Vec<Vec<f32>> = layers.iter().map(room).collect();
    let pairs = layers.iter().zip(&mut outs);
    let parts: Vec<Part> =
        pairs.map(|(layer, out)| Part::new(layer, out.spare_capacity_mut(), input)).collect();
    run(&parts, input);
    for (layer, out) in layers.iter().zip(&mut outs) {
        // SAFETY: the capacity is that, and the panels of a part cover all columns of all rows.
        unsafe { out.set_len(input.m() * layer.n) };
    }
    outs
}

fn run(parts: &[Part], input: &Input) {
    let n_panels: usize = parts.iter().map(|part| part.weights.storage.n_panels()).sum();
    let n_threads = rayon::current_num_threads();
    if n_threads == 1 {
        return parts.iter().for_each(|part| part.run(0..part.weights.storage.n_panels(), input));
    }
    let step = n_panels.div_ceil(n_threads * TASKS).next_multiple_of(PAIR).max(PAIR);
    let tasks: Vec<(&Part, Range<usize>)> = parts.iter().flat_map(|part| part.ranges(step)).collect();
    tasks.into_par_iter().with_max_len(1).for_each(|(part, panels)| part.run(panels, input));
}

/// A layer whose output may be written from several threads, each its own columns.
struct Part<'a> {
    weights: &'a Packed,
    /// `m n` values, which nobody else sees for as long as the part lives.
    out: *mut MaybeUninit<f32>,
    borrowed: PhantomData<&'a mut [MaybeUninit<f32>]>,
    m: usize,
    /// Sums go on from what `out` holds, all of which is then written already.
    goes_on: bool,
}

// SAFETY: `out` is written only by `each_row`, whose callers have disjoint panels, hence disjoint columns.
unsafe impl Sync for Part<'_> {}

impl<'a> Part<'a> {
    /// A layer whose output goes to the beginning of this room.
    fn new(weights: &'a Packed, out: &'a mut [MaybeUninit<f32>], input: &Input) -> Self {
        assert_eq!(weights.k, input.k(), "inputs of the layer and values of a row");
        assert!(out.len() >= input.m() * weights.n, "room for [{}, {}]", input.m(), weights.n);
        Self { weights, out: out.as_mut_ptr(), borrowed: PhantomData, m: input.m(), goes_on: false }
    }

    /// A layer whose output takes the place of these values.
    fn over(weights: &'a Packed, out: &'a mut [f32], input: &Input) -> Self {
        assert_eq!(out.len(), input.m() * weights.n, "outputs [{}, {}]", input.m(), weights.n);
        // SAFETY: the same memory; a part writes values and never takes one away, so that all stay written.
        let out = unsafe { &mut *(std::ptr::from_mut(out) as *mut [MaybeUninit<f32>]) };
        Self::new(weights, out, input)
    }

    fn ranges(&self, step: usize) -> impl Iterator<Item = (&Self, Range<usize>)> {
        let n_panels = self.weights.storage.n_panels();
        (0..n_panels).step_by(step).map(move |first| (self, first..n_panels.min(first + step)))
    }

    /// All rows of some panels. With many rows, a group of rows and a stretch of `k` at a time, so that the
    /// activations stay in the second-level cache while the panels pass by, and the sums wait in the output
    /// between stretches; with few, panel after panel, so that the weights are one stream.
    fn run(&self, panels: Range<usize>, input: &Input) {
        let k = input.k().max(1);
        let (row_bytes, stretch) = match input.coded {
            Coded::Int8(_) => (BLOCK + size_of::<Sums>() + 4, if self.m > ROWS { STRETCH } else { k }),
            Coded::Bf16(_) => (2 * BLOCK, if self.m > ROWS { STRETCH } else { k }),
            Coded::F32(_) | Coded::Swapped(_) if self.as_stored() && self.m <= ROWS => (4 * BLOCK, k),
            Coded::F32(_) | Coded::Swapped(_) => (4 * BLOCK, self.weights.format.block().max(CHUNK)),
        };
        let group = (RESIDENT / (stretch.min(k) * row_bytes).div_ceil(BLOCK) / ROWS).max(1);
        let mut room = Room::default();
        if matches!(input.coded, Coded::F32(_) | Coded::Swapped(_)) && !self.as_stored() {
            room.floats = vec![[0.0; LANES]; PAIR * stretch];
        }
        let mut step = |spans: &[Span], first: usize, start: usize| {
            let stretch = Stretch { input, range: start..input.k().min(start + stretch) };
            self.products(first..panels.end.min(first + PAIR), spans, &stretch, &mut room);
        };
        let firsts = panels.clone().step_by(PAIR);
        let starts = (0..k).step_by(stretch);
        for spans in input.spans().chunks(group) {
            if self.m <= ROWS {
                firsts.clone().for_each(|first| starts.clone().for_each(|start| step(spans, first, start)));
            } else {
                starts.clone().for_each(|start| firsts.clone().for_each(|first| step(spans, first, start)));
            }
        }
    }

    /// Two panels and several tiles, over one stretch of `k`.
    fn products(&self, panels: Range<usize>, spans: &[Span], stretch: &Stretch, room: &mut Room) {
        let Stretch { input, range } = stretch;
        let (k, tier) = (input.k(), input.tier);
        let part = |i| self.weights.storage.panel(i).part(range.clone());
        let both = [part(panels.start), part(panels.end - 1)];
        let pair = &Pair { first: panels.start, panels: &both[..panels.len()] };
        let panels = pair.panels;
        match &input.coded {
            Coded::Int8(int8) => {
                let mut weights = Int8Weights::new(tier, panels, self.m, room);
                for (i, &span) in spans.iter().enumerate() {
                    let tile = int8.tile(span, i == 0, k, range);
                    self.tile(pair, span, range, |sums| weights.add(&tile, sums));
                }
            }
            Coded::Bf16(pairs) => spans.iter().enumerate().for_each(|(i, &span)| {
                let first = span.first * k.div_ceil(2) + range.start / 2 * span.height;
                let x = &pairs[first..][..range.len().div_ceil(2) * span.height];
                self.tile(pair, span, range, |sums| bf16_tile(tier, panels, x, i == 0, sums));
            }),
            Coded::F32(values) => {
                self.floats(pair, spans, stretch, (values, Order::Natural), &mut room.floats);
            }
            Coded::Swapped(values) => {
                self.floats(pair, spans, stretch, (values, Order::Swapped), &mut room.floats);
            }
        }
    }

    /// The same for activations that are floats.
    fn floats(
        &self,
        pair: &Pair,
        spans: &[Span],
        Stretch { input, range }: &Stretch,
        (values, order): (&[f32], Order),
        room: &mut [Lanes],
    ) {
        let (tier, panels) = (input.tier, pair.panels);
        let even = if order == Order::Swapped { 2 } else { 1 };
        let (k, part) = (input.k().next_multiple_of(even), range.len().next_multiple_of(even));
        let tile = |span: Span| &values[span.first * k + range.start * span.height..][..part * span.height];
        if self.as_stored() && self.weights.format != Format::F32 {
            for (i, &span) in spans.iter().enumerate() {
                let x = (tile(span), order);
                self.tile(pair, span, range, |sums| floats::stored(tier, panels, x, i == 0, sums));
            }
            return;
        }
        let (one, two) = room.split_at_mut(room.len() / PAIR);
        let last = &panels[panels.len() - 1];
        let weights = [widened(tier, &panels[0], order, one), widened(tier, last, order, two)];
        let weights = &weights[..panels.len()];
        for (i, &span) in spans.iter().enumerate() {
            let is_first = i == 0 && self.as_stored();
            self.tile(pair, span, range, |sums| floats::wide(tier, weights, tile(span), is_first, sums));
        }
    }

    /// Whether the products of floats take the weights as they are stored, and no copy.
    fn as_stored(&self) -> bool {
        match self.weights.format {
            Format::F32 => cfg!(target_endian = "little"),
            // Where more rows pass by, they are widened once for all of them.
            Format::F16 | Format::Bf16 => self.m <= ROWS,
            _ => false,
        }
    }

    /// Two panels and one tile: sums from zero, or from the stretch before, then written.
    fn tile(&self, pair: &Pair, span: Span, range: &Range<usize>, kernel: impl FnOnce(&mut [Lanes])) {
        self.expect_writes(pair, span);
        let mut sums = Lines([[0.0; LANES]; PAIR * ROWS]);
        let sums = &mut sums.0[..pair.panels.len() * span.height];
        if range.start > 0 || self.goes_on {
            self.each_row(pair, span, sums, |sums, out| {
                // SAFETY: the stretch before has written them, or they were written when they were handed over.
                sums.iter_mut().zip(out).for_each(|(sum, out)| *sum = unsafe { out.assume_init() });
            });
        }
        kernel(sums);
        self.each_row(pair, span, sums, |sums, out| match out.first_chunk_mut() {
            Some(out) => *out = sums.map(MaybeUninit::new), // one store
            None => out.iter_mut().zip(sums).for_each(|(out, sum)| _ = out.write(*sum)),
        });
    }

    /// Asks for the lines that `write` will fill. Their stores would otherwise wait for memory, and all later
    /// stores behind them.
    fn expect_writes(&self, pair: &Pair, span: Span) {
        for r in 0..span.rows {
            let at = (span.first + r) * self.weights.n + pair.first * LANES;
            for p in 0..pair.panels.len() {
                ahead::write(self.out.wrapping_add(at + p * LANES));
            }
        }
    }

    /// The sums of each row beside their place in the output.
    fn each_row(
        &self,
        pair: &Pair,
        span: Span,
        sums: &mut [Lanes],
        mut act: impl FnMut(&mut Lanes, &mut [MaybeUninit<f32>]),
    ) {
        let n = self.weights.n;
        for (p, sums) in sums.chunks_mut(span.height).enumerate() {
            let first = (pair.first + p) * LANES;
            let columns = LANES.min(n - first);
            for (r, sums) in sums[..span.rows].iter_mut().enumerate() {
                assert!(span.first + r < self.m, "a span has no row that the input lacks");
                // SAFETY: `out` has room for `m n` values, the row is below `m` and the columns below `n`; no other
                // task touches these columns.
                let out = unsafe {
                    std::slice::from_raw_parts_mut(self.out.add((span.first + r) * n + first), columns)
                };
                act(sums, out);
            }
        }
    }
}

/// Values of `k` that are widened at a time, if a block has no more: two panels of them fit the first-level cache
/// beside what they are read from.
const CHUNK: usize = 512;

/// Some of the values of all rows.
struct Stretch<'a> {
    input: &'a Input,
    range: Range<usize>,
}

/// One or two neighbouring panels.
struct Pair<'a> {
    first: usize,
    panels: &'a [Panel<'a>],
}

/// Sums, each row of a panel in a line of its own.
#[repr(align(64))]
struct Lines([Lanes; PAIR * ROWS]);

/// What one task makes of the weights before they are multiplied.
#[derive(Default)]
struct Room {
    /// Two panels as floats.
    floats: Vec<Lanes>,
    #[cfg(target_arch = "x86_64")]
    tiles: amx::Room,
}

/// Quantised weights of one or two panels.
struct Int8Weights<'a> {
    tier: Tier,
    panels: &'a [Panel<'a>],
    /// For full tiles, where the processor has its own.
    #[cfg(target_arch = "x86_64")]
    unpacked: Option<amx::Weights<'a>>,
}

impl<'a> Int8Weights<'a> {
    /// The weights that `m` rows will meet.
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "nothing is unpacked"))]
    fn new(tier: Tier, panels: &'a [Panel<'a>], m: usize, room: &'a mut Room) -> Self {
        Self {
            tier,
            panels,
            // SAFETY: a tier exists only on machines that have its instructions.
            #[cfg(target_arch = "x86_64")]
            unpacked: (tier.instructions() == Instructions::Amx && m > ROWS)
                .then(|| unsafe { amx::Weights::unpack(panels, &mut room.tiles) }),
        }
    }

    fn add(&mut self, tile: &Int8Tile, sums: &mut [Lanes]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(unpacked) = self.unpacked.as_mut().filter(|_| tile.height == ROWS) {
            return unpacked.add(tile, sums);
        }
        int8_tile(self.tier, self.panels, tile, sums);
    }
}

fn int8_tile(tier: Tier, panels: &[Panel], tile: &Int8Tile, sums: &mut [Lanes]) {
    match tier.instructions() {
        // SAFETY: a tier exists only on machines that have its instructions.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 | Instructions::Amx => unsafe { avx512::int8(panels, tile, sums) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Instructions::AvxVnni => unsafe { avx2::int8_vnni(panels, tile, sums) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => unsafe { avx2::int8(panels, tile, sums) },
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        Instructions::NeonI8mm => unsafe { neon::int8_i8mm(panels, tile, sums) },
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        Instructions::NeonDotprod => unsafe { neon::int8_dotprod(panels, tile, sums) },
        #[cfg(target_arch = "aarch64")]
        Instructions::Neon => neon::int8(panels, tile, sums),
        _ => portable::int8(panels, tile, sums, &portable::Plain),
    }
}

/// `is_first` says that no tile met these weights just before.
#[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "no other machine has pairs"))]
fn bf16_tile(tier: Tier, panels: &[Panel], x: &[[bf16; 2]], is_first: bool, sums: &mut [Lanes]) {
    assert_eq!(panels[0].format, Format::Bf16, "bf16 activations meet bf16 weights");
    match tier.instructions() {
        // SAFETY: a tier exists only on machines that have its instructions.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => unsafe { avx512::bf16_pairs(panels, x, is_first, sums) },
        _ => unreachable!("other tiers have no pairs"),
    }
}

/// The weights of a panel as `f32`; `room` holds them where they are stored otherwise.
fn widened<'a>(tier: Tier, panel: &Panel<'a>, order: Order, room: &'a mut [Lanes]) -> &'a [Lanes] {
    if let Some(weights) = panel.floats() {
        return weights;
    }
    let even = if order == Order::Swapped { 2 } else { 1 };
    let room = &mut room[..panel.k.next_multiple_of(even)];
    if matches!(panel.format, Format::F16 | Format::Bf16) {
        floats::widen(tier, panel, order, room);
        return room;
    }
    match tier.instructions() {
        // SAFETY: a tier exists only on machines that have its instructions.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 | Instructions::Amx => unsafe { avx512::widen(panel, 0, room) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 | Instructions::AvxVnni => unsafe { avx2::widen(panel, 0, room) },
        _ => unpack::floats(panel, 0, room),
    }
    room
}
