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
    let step = n_panels.div_ceil(n_threads * TASKS).max(1);
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
            for i in panels.clone() {
                let panel = self.weights.storage.panel(i);
                match &input.coded {
                    Coded::Int8(int8) => {
                        spans.iter().for_each(|&span| {
                            self.tile(i, span, |sums| {
                                int8_tile(tier, &panel, &int8.tile(span, k), sums);
                            })
                        });
                    }
                    Coded::Bf16(pairs) => {
                        let n_pairs = k.div_ceil(2);
                        spans.iter().for_each(|&span| {
                            self.tile(i, span, |sums| {
                                let x = &pairs[span.first * n_pairs..][..span.height * n_pairs];
                                bf16_tile(tier, &panel, x, sums);
                            })
                        });
                    }
                    Coded::F32(values) => self.floats(i, &panel, spans, values, tier),
                }
            }
        }
    }

    /// One panel and one tile: sums from zero, then written.
    fn tile(&self, panel: usize, span: Span, kernel: impl FnOnce(&mut [Lanes])) {
        let mut sums = [[0.0; LANES]; ROWS];
        kernel(&mut sums[..span.height]);
        self.write(panel, span, &sums);
    }

    /// One panel and several tiles of exact activations: the weights are widened once for all of them.
    fn floats(&self, panel_idx: usize, panel: &Panel, spans: &[Span], values: &[f32], tier: Tier) {
        let mut weights = [[0.0; LANES]; CHUNK];
        let mut sums = vec![[[0.0; LANES]; ROWS]; spans.len()];
        for k0 in (0..panel.k).step_by(CHUNK) {
            let weights = &mut weights[..CHUNK.min(panel.k - k0)];
            widen(tier, panel, k0, weights);
            for (span, sums) in spans.iter().zip(&mut sums) {
                let x = &values[span.first * panel.k + k0 * span.height..][..weights.len() * span.height];
                float_tile(tier, weights, x, &mut sums[..span.height]);
            }
        }
        spans.iter().zip(&sums).for_each(|(&span, sums)| self.write(panel_idx, span, sums));
    }

    fn write(&self, panel: usize, span: Span, sums: &[Lanes; ROWS]) {
        let n = self.weights.n;
        let first = panel * LANES;
        let columns = LANES.min(n - first);
        for (r, sums) in sums[..span.rows].iter().enumerate() {
            assert!(span.first + r < self.m, "a span has no row that the input lacks");
            // SAFETY: `out` has `m n` values (checked in `new`), the row is below `m` and the columns below
            // `n`; no other task writes these columns, and `out` is borrowed for as long as `self` lives.
            let out = unsafe {
                std::slice::from_raw_parts_mut(self.out.add((span.first + r) * n + first), columns)
            };
            out.copy_from_slice(&sums[..columns]);
        }
    }
}

fn int8_tile(tier: Tier, panel: &Panel, tile: &Int8Tile, sums: &mut [Lanes]) {
    match tier {
        // SAFETY: `multiply` asks for no tier above the machine's.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx512 => unsafe { avx512::int8(panel, tile, sums) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx2 => unsafe { avx2::int8(panel, tile, sums) },
        _ => portable::int8(panel, tile, sums, &portable::Plain),
    }
}

fn bf16_tile(tier: Tier, panel: &Panel, x: &[[bf16; 2]], sums: &mut [Lanes]) {
    assert_eq!(panel.format, Format::Bf16, "bf16 activations meet bf16 weights");
    match tier {
        // SAFETY: `multiply` asks for no tier above the machine's.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx512 => unsafe { avx512::bf16_pairs(panel, x, sums) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Tier::Avx2 => unsafe { avx2::bf16_pairs(panel, x, sums) },
        _ => portable::bf16_pairs(panel, x, sums),
    }
}

fn float_tile(tier: Tier, weights: &[Lanes], x: &[f32], sums: &mut [Lanes]) {
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
