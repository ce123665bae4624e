//! The schedule of a matrix product: panels and tiles over threads and caches. It determines the order of the
//! work and no value: each output of each row is computed by the same chain of kernel calls, whatever the
//! split.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

use half::bf16;
use rayon::prelude::*;

use super::ahead;
use super::floats::{self, Order};
use super::input::{Coded, Int8Tile, ROWS, Span, Sums};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::int8::by_format;
use super::isa::{Instructions, Isa};
use super::layout::{BLOCK, LANES, PAIR, Panel};
#[cfg(target_arch = "aarch64")]
use super::neon;
use super::portable::{self, Lanes};
use super::{Format, Input, Packed, lanes, on_isa, unpack};
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

/// Tasks per thread: enough to balance the load.
const TASKS: usize = 4;
/// Budget of activations in the L2 cache, in bytes.
const L2_BYTES: usize = 448 * 1024;
/// Values of a block of `k`, by which many rows are multiplied with all panels before the next block. A
/// multiple of any format's block.
const KC: usize = 2048;

/// `out = x wᵀ` for each job, all in one parallel region of the current rayon pool.
///
/// # Panics
/// When a layer has another `k` than the input, requires another [`super::Coding`], or an `out` does not have
/// `m n` values.
pub fn multiply(jobs: &mut [Job], input: &Input) {
    run(&parts(jobs, input));
}

/// `out += x wᵀ` for each job: every sum starts from the value in `out`.
///
/// # Panics
/// Those of [`multiply`].
pub fn add_multiply(jobs: &mut [Job], input: &Input) {
    let mut parts = parts(jobs, input);
    for part in &mut parts {
        part.accumulate = true;
    }
    run(&parts);
}

fn parts<'a>(jobs: &'a mut [Job], input: &'a Input) -> Vec<Part<'a>> {
    jobs.iter_mut().map(|Job { weights, out }| Part::over(weights, out, input)).collect()
}

/// `x wᵀ` for each layer, in new memory.
///
/// # Panics
/// Those of [`multiply`].
pub fn gemm(layers: &[&Packed], input: &Input) -> Vec<Vec<f32>> {
    if input.k() == 0 {
        return layers.iter().map(|layer| vec![0.0; input.m() * layer.n]).collect();
    }
    let items = layers.iter().map(|&weights| Item { weights, outputs: 0..weights.n, input });
    gemm_each(&items.collect::<Vec<_>>())
}

/// Some outputs of a layer, a matrix of its own, and the rows that it multiplies.
pub(super) struct Item<'a> {
    pub weights: &'a Packed,
    /// Whole panels.
    pub outputs: Range<usize>,
    pub input: &'a Input,
}

/// Products of many matrices with their rows, each `[m, outputs]`, all in one parallel region.
///
/// # Panics
/// Those of [`multiply`], and outputs that are not whole panels.
pub(super) fn gemm_each(items: &[Item]) -> Vec<Vec<f32>> {
    let mut outs: Vec<Vec<f32>> =
        items.iter().map(|item| Vec::with_capacity(item.input.m() * item.outputs.len())).collect();
    let pairs = items.iter().zip(&mut outs);
    run(&pairs.map(|(item, out)| Part::of(item, out.spare_capacity_mut())).collect::<Vec<_>>());
    for (item, out) in items.iter().zip(&mut outs) {
        // SAFETY: the capacity is at least `m n`, and `run` has initialised all columns of all `m` rows.
        unsafe { out.set_len(item.input.m() * item.outputs.len()) };
    }
    outs
}

/// Work is divided by tiles and panels, not by matrix: where each has few rows, by bytes of weights.
fn run(parts: &[Part]) {
    let n_threads = rayon::current_num_threads();
    if n_threads == 1 {
        return parts.iter().for_each(|part| part.run(0..part.n_panels()));
    }
    let tiles = |part: &Part| part.input.m().div_ceil(ROWS).max(1);
    let work: usize = parts.iter().map(|part| part.n_panels() * tiles(part)).sum();
    let share = work.div_ceil(n_threads * TASKS);
    let step = |part: &Part| (share / tiles(part)).next_multiple_of(PAIR).max(PAIR);
    let tasks: Vec<_> = parts.iter().flat_map(|part| part.ranges(step(part))).collect();
    tasks.into_par_iter().with_max_len(1).for_each(|(part, panels)| part.run(panels));
}

/// A layer, or some outputs of one, whose output may be written from several threads, each its own columns.
struct Part<'a> {
    weights: &'a Packed,
    /// The first of the layer's panels, and outputs from there on.
    first: usize,
    n: usize,
    /// `m n` values, borrowed exclusively for `'a`.
    out: *mut MaybeUninit<f32>,
    borrowed: PhantomData<&'a mut [MaybeUninit<f32>]>,
    input: &'a Input,
    /// True if sums start from the values in `out`, which then are initialised.
    accumulate: bool,
}

// SAFETY: `out` points to `m n` values that are borrowed exclusively for `'a`. Only `each_row` accesses them,
// for the panels of its task, and tasks have disjoint panels, hence disjoint columns: no value is accessed by
// two threads.
unsafe impl Sync for Part<'_> {}

impl<'a> Part<'a> {
    /// Some outputs of a layer, written to the start of uninitialised memory.
    fn of(item: &Item<'a>, out: &'a mut [MaybeUninit<f32>]) -> Self {
        let Item { weights, outputs, input } = item;
        let n = outputs.len();
        assert_eq!(weights.k, input.k(), "inputs of the layer and values of a row");
        assert!(outputs.end <= weights.n && outputs.start.is_multiple_of(LANES), "panels of the layer");
        assert!(outputs.end == weights.n || n.is_multiple_of(LANES), "whole panels");
        assert!(out.len() >= input.m() * n, "space for [{}, {n}]", input.m());
        let (first, out) = (outputs.start / LANES, out.as_mut_ptr());
        Self { weights, first, n, out, borrowed: PhantomData, input, accumulate: false }
    }

    /// A layer whose output overwrites these values.
    fn over(weights: &'a Packed, out: &'a mut [f32], input: &'a Input) -> Self {
        assert_eq!(out.len(), input.m() * weights.n, "outputs [{}, {}]", input.m(), weights.n);
        // SAFETY: same address, length and lifetime; `MaybeUninit<f32>` has the layout of `f32`, and only
        // initialised values are written through it.
        let out = unsafe { &mut *(std::ptr::from_mut(out) as *mut [MaybeUninit<f32>]) };
        Self::of(&Item { weights, outputs: 0..weights.n, input }, out)
    }

    fn n_panels(&self) -> usize {
        self.n.div_ceil(LANES)
    }

    fn ranges(&self, step: usize) -> impl Iterator<Item = (&Self, Range<usize>)> {
        let n_panels = self.n_panels();
        (0..n_panels).step_by(step).map(move |first| (self, first..n_panels.min(first + step)))
    }

    /// All rows of some panels. With many rows, a group of rows and a block of `k` at a time, so that the
    /// activations stay in the L2 cache for all panels, with the partial sums in the output; with few, panel
    /// after panel, so that the weights are read as one stream.
    fn run(&self, panels: Range<usize>) {
        let (input, m) = (self.input, self.input.m());
        let k = input.k().max(1);
        let (row_bytes, kc) = match input.coded {
            Coded::Int8(_) => (BLOCK + size_of::<Sums>() + 4, if m > ROWS { KC } else { k }),
            Coded::Bf16(_) => (2 * BLOCK, if m > ROWS { KC } else { k }),
            Coded::F32(_) | Coded::Swapped(_) if self.as_stored() && m <= ROWS => (4 * BLOCK, k),
            Coded::F32(_) | Coded::Swapped(_) => (4 * BLOCK, self.weights.format.block().max(CHUNK)),
        };
        let group = (L2_BYTES / (kc.min(k) * row_bytes).div_ceil(BLOCK) / ROWS).max(1);
        let mut buffers = Buffers::default();
        if matches!(input.coded, Coded::F32(_) | Coded::Swapped(_)) && !self.as_stored() {
            buffers.floats = vec![[0.0; LANES]; PAIR * kc];
        }
        let mut step = |spans: &[Span], first: usize, start: usize| {
            let range = start..input.k().min(start + kc);
            self.multiply_pair(first..panels.end.min(first + PAIR), spans, &range, &mut buffers);
        };
        let firsts = panels.clone().step_by(PAIR);
        let starts = (0..k).step_by(kc);
        for spans in input.spans().chunks(group) {
            if m <= ROWS {
                firsts.clone().for_each(|first| starts.clone().for_each(|start| step(spans, first, start)));
            } else {
                starts.clone().for_each(|start| firsts.clone().for_each(|first| step(spans, first, start)));
            }
        }
    }

    /// Two panels and several tiles, over one block of `k`.
    fn multiply_pair(
        &self,
        panels: Range<usize>,
        spans: &[Span],
        range: &Range<usize>,
        buffers: &mut Buffers,
    ) {
        let input = self.input;
        let (k, isa) = (input.k(), input.isa);
        let part = |i| self.weights.storage.panel(self.first + i).part(range.clone());
        let both = [part(panels.start), part(panels.end - 1)];
        let pair = &Pair { first: panels.start, panels: &both[..panels.len()] };
        let panels = pair.panels;
        match &input.coded {
            Coded::Int8(int8) => {
                let mut weights = Int8Weights::new(isa, panels, input.m(), buffers);
                for (i, &span) in spans.iter().enumerate() {
                    let tile = int8.tile(span, i == 0, k, range);
                    self.tile(pair, span, range, |sums| weights.add(&tile, sums));
                }
            }
            Coded::Bf16(pairs) => spans.iter().enumerate().for_each(|(i, &span)| {
                let first = span.first * k.div_ceil(2) + range.start / 2 * span.height;
                let x = &pairs[first..][..range.len().div_ceil(2) * span.height];
                self.tile(pair, span, range, |sums| bf16_tile(isa, panels, x, i == 0, sums));
            }),
            Coded::F32(values) => {
                self.floats(pair, spans, range, (values, Order::Natural), &mut buffers.floats);
            }
            Coded::Swapped(values) => {
                self.floats(pair, spans, range, (values, Order::Swapped), &mut buffers.floats);
            }
        }
    }

    /// Two panels and several tiles of float activations, over one block of `k`.
    fn floats(
        &self,
        pair: &Pair,
        spans: &[Span],
        range: &Range<usize>,
        (values, order): (&[f32], Order),
        buffer: &mut [Lanes],
    ) {
        let (input, panels) = (self.input, pair.panels);
        let isa = input.isa;
        let even = if order == Order::Swapped { 2 } else { 1 };
        let (k, part) = (input.k().next_multiple_of(even), range.len().next_multiple_of(even));
        let tile = |span: Span| &values[span.first * k + range.start * span.height..][..part * span.height];
        if self.as_stored() && self.weights.format != Format::F32 {
            for (i, &span) in spans.iter().enumerate() {
                let x = (tile(span), order);
                self.tile(pair, span, range, |sums| floats::stored(isa, panels, x, i == 0, sums));
            }
            return;
        }
        let (one, two) = buffer.split_at_mut(buffer.len() / PAIR);
        let last = &panels[panels.len() - 1];
        let weights = [widened(isa, &panels[0], order, one), widened(isa, last, order, two)];
        let weights = &weights[..panels.len()];
        for (i, &span) in spans.iter().enumerate() {
            let is_first = i == 0 && self.as_stored();
            self.tile(pair, span, range, |sums| floats::multiply(isa, weights, tile(span), is_first, sums));
        }
    }

    /// Returns true if products of floats read the weights in their stored type, without a widened copy.
    fn as_stored(&self) -> bool {
        match self.weights.format {
            Format::F32 => cfg!(target_endian = "little"),
            // For more rows they are widened once.
            Format::F16 | Format::Bf16 => self.input.m() <= ROWS,
            _ => false,
        }
    }

    /// Two panels and one tile: sums from zero, or from the previous block of `k`, then written.
    fn tile(&self, pair: &Pair, span: Span, range: &Range<usize>, kernel: impl FnOnce(&mut [Lanes])) {
        self.prefetch_output(pair, span);
        let mut sums = Lines([[0.0; LANES]; PAIR * ROWS]);
        let sums = &mut sums.0[..pair.panels.len() * span.height];
        if range.start > 0 || self.accumulate {
            self.each_row(pair, span, sums, |sums, out| {
                // SAFETY: the row is inside `out` and borrowed exclusively. The previous block of `k` has
                // written these values; for the first block, `accumulate` is set on parts of `Part::over`
                // alone, whose `out` was initialised.
                sums.iter_mut().zip(out).for_each(|(sum, out)| *sum = unsafe { out.assume_init() });
            });
        }
        kernel(sums);
        self.each_row(pair, span, sums, |sums, out| match out.first_chunk_mut() {
            Some(out) => *out = sums.map(MaybeUninit::new), // one store
            None => out.iter_mut().zip(sums).for_each(|(out, sum)| _ = out.write(*sum)),
        });
    }

    /// Prefetches the lines of the output for writing: stores would otherwise stall until the lines arrive.
    fn prefetch_output(&self, pair: &Pair, span: Span) {
        for r in 0..span.rows {
            let at = (span.first + r) * self.n + pair.first * LANES;
            for p in 0..pair.panels.len() {
                ahead::write(self.out.wrapping_add(at + p * LANES));
            }
        }
    }

    /// Calls `act` with the sums of each row and their columns of the output.
    fn each_row(
        &self,
        pair: &Pair,
        span: Span,
        sums: &mut [Lanes],
        mut act: impl FnMut(&mut Lanes, &mut [MaybeUninit<f32>]),
    ) {
        let n = self.n;
        for (p, sums) in sums.chunks_mut(span.height).enumerate() {
            let first = (pair.first + p) * LANES;
            let columns = LANES.min(n - first);
            for (r, sums) in sums[..span.rows].iter_mut().enumerate() {
                assert!(span.first + r < self.input.m(), "a span has no row that the input lacks");
                // SAFETY: `out` has `m n` values, the row is below `m` and the columns end at `n` or before,
                // so that the slice is inside it; no other task accesses these columns while the slice lives.
                let out = unsafe {
                    std::slice::from_raw_parts_mut(self.out.add((span.first + r) * n + first), columns)
                };
                act(sums, out);
            }
        }
    }
}

/// Values of `k` that are widened at a time, unless a block has more: two panels of them fit the L1 cache
/// together with their source.
const CHUNK: usize = 512;

/// One or two neighbouring panels.
struct Pair<'a> {
    first: usize,
    panels: &'a [Panel<'a>],
}

/// Sums, each row of a panel in a line of its own.
#[repr(align(64))]
struct Lines([Lanes; PAIR * ROWS]);

/// A task's buffers for unpacked weights.
#[derive(Default)]
struct Buffers {
    /// Two panels as floats.
    floats: Vec<Lanes>,
    #[cfg(target_arch = "x86_64")]
    tiles: amx::Buffers,
}

/// Quantised weights of one or two panels.
struct Int8Weights<'a> {
    isa: Isa,
    panels: &'a [Panel<'a>],
    /// Unpacked weights for full tiles on AMX.
    #[cfg(target_arch = "x86_64")]
    unpacked: Option<amx::Weights<'a>>,
}

impl<'a> Int8Weights<'a> {
    /// The weights, prepared for `m` rows.
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "nothing is unpacked"))]
    fn new(isa: Isa, panels: &'a [Panel<'a>], m: usize, buffers: &'a mut Buffers) -> Self {
        Self {
            isa,
            panels,
            // SAFETY: an instruction set exists only on machines that have its instructions.
            #[cfg(target_arch = "x86_64")]
            unpacked: (isa.instructions() == Instructions::Amx && m > ROWS)
                .then(|| unsafe { amx::Weights::unpack(panels, &mut buffers.tiles) }),
        }
    }

    fn add(&mut self, tile: &Int8Tile, sums: &mut [Lanes]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(unpacked) = self.unpacked.as_mut().filter(|_| tile.height == ROWS) {
            return unpacked.add(tile, sums);
        }
        int8_tile(self.isa, self.panels, tile, sums);
    }
}

fn int8_tile(isa: Isa, panels: &[Panel], tile: &Int8Tile, sums: &mut [Lanes]) {
    // SAFETY: an instruction set exists only on machines that have its instructions.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        match isa.instructions() {
            Instructions::Avx512 | Instructions::Amx => {
                return by_format!(panels[0].format, avx512::int8(panels, tile, sums));
            }
            Instructions::AvxVnni => {
                return by_format!(panels[0].format, avx2::int8_vnni(panels, tile, sums));
            }
            Instructions::Avx2 => return by_format!(panels[0].format, avx2::int8(panels, tile, sums)),
            _ => {}
        }
    }
    // SAFETY: an instruction set exists only on machines that have its instructions.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        match isa.instructions() {
            Instructions::NeonI8mm => {
                return by_format!(panels[0].format, neon::int8_i8mm(panels, tile, sums));
            }
            Instructions::NeonDotprod => {
                return by_format!(panels[0].format, neon::int8_dotprod(panels, tile, sums));
            }
            Instructions::Neon => return by_format!(panels[0].format, neon::int8(panels, tile, sums)),
            _ => {}
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = isa;
    portable::int8(panels, tile, sums);
}

/// `is_first` is true for the first tile with these weights, which are not in a cache yet.
#[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "no other machine has pairs"))]
fn bf16_tile(isa: Isa, panels: &[Panel], x: &[[bf16; 2]], is_first: bool, sums: &mut [Lanes]) {
    match isa.instructions() {
        // SAFETY: an instruction set exists only on machines that have its instructions.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => unsafe { avx512::bf16_pairs(panels, x, is_first, sums) },
        _ => unreachable!("other instruction sets have no pairs"),
    }
}

/// The weights of a panel as `f32`, widened into `buffer` if they are stored in another format.
fn widened<'a>(isa: Isa, panel: &Panel<'a>, order: Order, buffer: &'a mut [Lanes]) -> &'a [Lanes] {
    if let Some(weights) = panel.floats() {
        return weights;
    }
    let even = if order == Order::Swapped { 2 } else { 1 };
    let buffer = &mut buffer[..panel.k.next_multiple_of(even)];
    if matches!(panel.format, Format::F16 | Format::Bf16) {
        floats::widen(isa, panel, order, buffer);
        return buffer;
    }
    #[cfg(target_arch = "x86_64")]
    if matches!(isa.instructions(), Instructions::Avx512 | Instructions::Amx) {
        // SAFETY: an instruction set exists only on machines that have its instructions.
        unsafe { avx512::widen(panel, buffer) };
        return buffer;
    }
    on_isa!(isa, unpacked<>(panel: &Panel, buffer: &mut [Lanes]));
    buffer
}

#[expect(clippy::extra_unused_type_parameters, reason = "`L` stands for the instructions")]
#[inline(always)]
fn unpacked<L: lanes::Lanes>(panel: &Panel, buffer: &mut [Lanes]) {
    unpack::floats(panel, 0, buffer);
}
