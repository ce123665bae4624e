//! Which panel meets which tile, on which thread. It decides the order of the work and nothing about the
//! values: each output of each row is computed by one kernel call chain, the same whatever the split.

use std::marker::PhantomData;
use std::ops::Range;

use half::bf16;
use rayon::prelude::*;

use super::input::{Coded, Int8Tile, ROWS, Span};
use super::layout::{LANES, Panel};
use super::portable::{self, CHUNK, Lanes};
use super::{Format, Input, Packed, Tier, unpack};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};

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
const RESIDENT: usize = 384 * 1024;

/// `out = x wᵀ` for each job, all in one parallel region of the current rayon pool. A tier that the machine
/// lacks falls to its best.
///
/// # Panics
/// When a layer has another `k` than the input, wants another [`super::Coding`], or an `out` has not `m n`
/// values.
pub fn multiply(jobs: &mut [Job], input: &Input, tier: Tier) {
    let tier = tier.min(Tier::detect());
    let parts: Vec<Part> = jobs.iter_mut().map(|job| Part::new(job, input)).collect();
    let n_panels: usize = parts.iter().map(|part| part.weights.storage.n_panels()).sum();
    let n_threads = rayon::current_num_threads();
    if n_threads == 1 {
        return parts.iter().for_each(|part| part.run(0..part.weights.storage.n_panels(), input, tier));
    }
    let step = n_panels.div_ceil(n_threads * TASKS).next_multiple_of(PAIR).max(PAIR);
    let tasks: Vec<(&Part, Range<usize>)> = parts.iter().flat_map(|part| part.ranges(step)).collect();
    tasks.into_par_iter().with_max_len(1).for_each(|(part, panels)| part.run(panels, input, tier));
}

/// A job whose output may be written from several threads, each its own columns.
struct Part<'a> {
    weights: &'a Packed,
    out: *mut f32,
    m: usize,
    lifetime: PhantomData<&'a mut [f32]>,
}

// SAFETY: `out` is written only by `write`, whose callers have disjoint panels, hence disjoint columns.
unsafe impl Sync for Part<'_> {}

impl<'a> Part<'a> {
    fn new<'b: 'a>(job: &'a mut Job<'b>, input: &Input) -> Self {
        let weights = job.weights;
        assert_eq!(weights.k, input.k(), "inputs of the layer and values of a row");
        assert_eq!(job.out.len(), input.m() * weights.n, "outputs [{}, {}]", input.m(), weights.n);
        Self { weights, out: job.out.as_mut_ptr(), m: input.m(), lifetime: PhantomData }
    }

    fn ranges(&self, step: usize) -> impl Iterator<Item = (&Self, Range<usize>)> {
        let n_panels = self.weights.storage.n_panels();
        (0..n_panels).step_by(step).map(move |first| (self, first..n_panels.min(first + step)))
    }

    /// All rows of some panels.
    fn run(&self, panels: Range<usize>, input: &Input, tier: Tier) {
        let k = input.k();
        let row_bytes = match input.coded {
            Coded::Int8(_) => k + k / 2,
            Coded::Bf16(_) => 2 * k,
            Coded::F32(_) => 4 * k,
        };
        let resident = (RESIDENT / row_bytes.max(1) / ROWS).max(1);
        for spans in input.spans().chunks(resident) {
            for first in panels.clone().step_by(PAIR) {
                let all: [Panel; PAIR] =
                    std::array::from_fn(|p| self.weights.storage.panel((first + p).min(panels.end - 1)));
                let pair = Pair { first, panels: &all[..PAIR.min(panels.end - first)] };
                match &input.coded {
                    Coded::Int8(int8) => spans.iter().for_each(|&span| {
                        self.tile(&pair, span, |sums| {
                            int8_tile(tier, pair.panels, &int8.tile(span, k), sums)
                        });
                    }),
                    Coded::Bf16(pairs) => spans.iter().for_each(|&span| {
                        let n_pairs = k.div_ceil(2);
                        let x = &pairs[span.first * n_pairs..][..span.height * n_pairs];
                        self.tile(&pair, span, |sums| bf16_tile(tier, pair.panels, x, sums));
                    }),
                    Coded::F32(values) => self.floats(&pair, spans, values, tier),
                }
            }
        }
    }

    /// Two panels and one tile: sums from zero, then written.
    fn tile(&self, pair: &Pair, span: Span, kernel: impl FnOnce(&mut [Lanes])) {
        let mut sums = [[0.0; LANES]; PAIR * ROWS];
        let sums = &mut sums[..pair.panels.len() * span.height];
        kernel(sums);
        self.write(pair, span, sums);
    }

    /// Two panels and several tiles of exact activations: the weights are widened once for all of them.
    fn floats(&self, pair: &Pair, spans: &[Span], values: &[f32], tier: Tier) {
        let k = self.weights.k;
        let mut widened = [[[0.0; LANES]; CHUNK]; PAIR];
        let mut sums = vec![[[0.0; LANES]; PAIR * ROWS]; spans.len()];
        for k0 in (0..k).step_by(CHUNK) {
            let range = k0..k.min(k0 + CHUNK);
            let weights: Vec<&[Lanes]> = (pair.panels.iter().zip(&mut widened))
                .map(|(panel, widened)| match panel.floats() {
                    Some(weights) => &weights[range.clone()],
                    None => {
                        widen(tier, panel, k0, &mut widened[..range.len()]);
                        &widened[..range.len()]
                    }
                })
                .collect();
            for (span, sums) in spans.iter().zip(&mut sums) {
                let x = &values[span.first * k + k0 * span.height..][..range.len() * span.height];
                float_tile(tier, &weights, x, &mut sums[..weights.len() * span.height]);
            }
        }
        spans.iter().zip(&sums).for_each(|(&span, sums)| self.write(pair, span, sums));
    }

    fn write(&self, pair: &Pair, span: Span, sums: &[Lanes]) {
        let n = self.weights.n;
        for (p, sums) in sums.chunks(span.height).take(pair.panels.len()).enumerate() {
            let first = (pair.first + p) * LANES;
            let columns = LANES.min(n - first);
            for (r, sums) in sums[..span.rows].iter().enumerate() {
                assert!(span.first + r < self.m, "a span has no row that the input lacks");
                // SAFETY: `out` has `m n` values (checked in `new`), the row is below `m` and the columns below
                // `n`; no other task writes these columns, and `out` is borrowed as long as `self` lives.
                let out = unsafe {
                    std::slice::from_raw_parts_mut(self.out.add((span.first + r) * n + first), columns)
                };
                match out.first_chunk_mut() {
                    Some(out) => *out = *sums, // one store
                    None => out.copy_from_slice(&sums[..columns]),
                }
            }
        }
    }
}

/// Panels that meet a tile together: each activation is loaded once for both.
const PAIR: usize = 2;

/// One or two neighbouring panels.
struct Pair<'a> {
    first: usize,
    panels: &'a [Panel<'a>],
}

fn int8_tile(tier: Tier, panels: &[Panel], tile: &Int8Tile, sums: &mut [Lanes]) {
    match tier {
        // SAFETY: `multiply` asks for no tier above the machine's.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx512 => unsafe { avx512::int8(panels, tile, sums) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx2 => unsafe { avx2::int8(panels, tile, sums) },
        _ => portable::int8(panels, tile, sums, &portable::Plain),
    }
}

fn bf16_tile(tier: Tier, panels: &[Panel], x: &[[bf16; 2]], sums: &mut [Lanes]) {
    assert_eq!(panels[0].format, Format::Bf16, "bf16 activations meet bf16 weights");
    match tier {
        // SAFETY: `multiply` asks for no tier above the machine's.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx512 => unsafe { avx512::bf16_pairs(panels, x, sums) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx2 => unsafe { avx2::bf16_pairs(panels, x, sums) },
        _ => portable::bf16_pairs(panels, x, sums),
    }
}

fn float_tile(tier: Tier, weights: &[&[Lanes]], x: &[f32], sums: &mut [Lanes]) {
    match tier {
        // SAFETY: `multiply` asks for no tier above the machine's.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx512 => unsafe { avx512::floats(weights, x, sums) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx2 => unsafe { avx2::floats(weights, x, sums) },
        _ => portable::floats(weights, x, sums),
    }
}

fn widen(tier: Tier, panel: &Panel, k0: usize, weights: &mut [Lanes]) {
    match tier {
        // SAFETY: `multiply` asks for no tier above the machine's.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx512 => unsafe { avx512::widen(panel, k0, weights) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx2 => unsafe { avx2::widen(panel, k0, weights) },
        _ => unpack::floats(panel, k0, weights),
    }
}
