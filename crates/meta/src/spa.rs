//! Soft pairwise accuracy: how closely a metric's confidence in each pair of systems follows the raters'.
//! It ranks systems, from segment scores.
//!
//! Source: Thompson et al., Improving Statistical Significance in Human Evaluation of Automatic Metrics via
//! Soft Pairwise Accuracy, 2024; mt-metrics-eval `pce.py`. The sign vectors are numpy's, bit for bit, and the
//! scores are rounded to single precision as there. Differs: sums are taken in double precision and rounded
//! once, where the reference's order of summation is the linear algebra library's; systems are in the order
//! of their names, where the reference has that of a set; segments not scored for all systems are left out.
//! Values differ by about 3e-5 on WMT23, and by up to .02 on small sets with ties, where the reference itself
//! moves with the order of systems.

use serde::Serialize;

use super::align::Aligned;
use super::correlation::Undefined;
use super::pcg::Pcg64;
use super::range::scaled;
use super::significance::permutation::standardised;
use super::significance::{Comparison, Resampling};

/// Random sign vectors in the reference implementation.
pub const RESAMPLES: usize = 1000;

const SEED: u64 = 4;

/// Soft pairwise accuracy and what it was computed on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SoftAccuracy {
    /// Range: 0 to 1, higher is better.
    pub value: f64,
    /// Pairs of systems.
    pub n_pairs: usize,
    /// Segments scored for every system: the ones used.
    pub n_segments: usize,
    /// Rated segments left out because a system lacks a score.
    pub n_dropped: usize,
}

/// Soft pairwise accuracy over the segments scored for every system.
///
/// # Errors
/// There are fewer than two systems, or no such segment.
///
/// ```
/// use tribunal_meta::align::Aligned;
/// use tribunal_meta::spa::soft_pairwise_accuracy;
/// // mt-metrics-eval's anchor: two systems, three segments.
/// let scores = Aligned {
///     systems: vec!["a".into(), "b".into()],
///     n_segments: 3,
///     gold: [1.0, 2.0, 3.0, 2.0, 3.0, 4.0].map(Some).to_vec(),
///     metric: [2.0, 2.0, 4.0, 1.0, 3.0, 5.0].map(Some).to_vec(),
/// };
/// let spa = soft_pairwise_accuracy(&scores).unwrap();
/// assert!((spa.value - 0.872).abs() < 1e-12);
/// ```
pub fn soft_pairwise_accuracy(scores: &Aligned) -> Result<SoftAccuracy, Undefined> {
    let shared = scores.shared_segments();
    if scores.n_systems() < 2 {
        return Err(Undefined::NoPair);
    }
    if shared.is_empty() {
        return Err(Undefined::NoSharedSegment);
    }
    let complete = scores.select(&shared);
    let signs = Signs::new(shared.len());
    let side = |values: &[Option<f64>]| -> Vec<f32> {
        let values: Vec<f64> = values.iter().flatten().copied().collect();
        scaled(&values).0.iter().map(|value| *value as f32).collect()
    };
    let gold = signs.p_values(&side(&complete.gold), scores.n_systems());
    let metric = signs.p_values(&side(&complete.metric), scores.n_systems());
    Ok(SoftAccuracy {
        value: agreement(&gold, &metric),
        n_pairs: gold.len(),
        n_segments: shared.len(),
        n_dropped: scores.coverage().rated_segments - shared.len(),
    })
}

/// One minus the mean distance of two lists of p-values.
///
/// ```
/// use tribunal_meta::spa::agreement;
/// assert_eq!(agreement(&[0.25, 0.5], &[0.75, 0.5]), 0.75);
/// ```
pub fn agreement(gold: &[f64], metric: &[f64]) -> f64 {
    let distance: f64 = gold.iter().zip(metric).map(|(g, m)| (g - m).abs()).sum();
    1.0 - distance / gold.len() as f64
}

/// The sign vectors of one number of segments.
#[derive(Clone, Debug)]
pub struct Signs {
    n_segments: usize,
    /// Plus and minus one. Shape: `[RESAMPLES * n_segments]`, one row per vector.
    vectors: Vec<f32>,
    /// The signs in bits, 1 for plus, eight segments per byte. Shape: `[n_segments / 8, RESAMPLES]`.
    bytes: Vec<u8>,
}

/// Segments whose signs share a byte.
const CHUNK: usize = 8;

impl Signs {
    /// The vectors of `numpy.random.default_rng(4).random((1000, n), dtype=float32)`, rounded to 0 and 1.
    pub fn new(n_segments: usize) -> Self {
        let mut random = Pcg64::new(SEED);
        // numpy rounds half to even: exactly one half becomes 0.
        let sign = |bit: bool| if bit { 1.0 } else { -1.0 };
        let vectors: Vec<f32> = (0..RESAMPLES * n_segments).map(|_| sign(random.next_f32() > 0.5)).collect();
        let bytes = packed(&vectors, n_segments);
        Self { n_segments, vectors, bytes }
    }

    /// The one-sided p-value of each pair of systems (i, j), i < j, row by row: the share of sign vectors
    /// whose signed difference reaches the difference itself.
    ///
    /// `scores` has the shape `[systems, segments]`.
    pub fn p_values(&self, scores: &[f32], n_systems: usize) -> Vec<f64> {
        let total = |row: &[f32]| row.iter().map(|x| f64::from(*x)).sum::<f64>() as f32;
        let totals: Vec<f32> = scores.chunks_exact(self.n_segments).map(total).collect();
        shares_reached(&totals, &self.exact_sums(scores), n_systems)
    }

    /// Signed sums of each system under each vector, rounded once. Shape: `[RESAMPLES, systems]`.
    fn exact_sums(&self, scores: &[f32]) -> Vec<f32> {
        let rows: Vec<&[f32]> = scores.chunks_exact(self.n_segments).collect();
        let vectors = self.vectors.chunks_exact(self.n_segments);
        vectors.flat_map(|signs| rows.iter().map(move |row| exact_dot(row, signs))).collect()
    }

    /// [`Signs::exact_sums`] in single precision: eight segments have only 256 signed sums per system, so
    /// these are listed once and each vector adds the one that its byte selects.
    fn fast_sums(&self, scores: &[f32], n_systems: usize) -> Vec<f32> {
        let mut sums = vec![0.0; RESAMPLES * n_systems]; // [RESAMPLES, systems]
        let mut table = vec![0.0; 256 * n_systems]; // [byte, systems]
        for (chunk, bytes) in self.bytes.chunks_exact(RESAMPLES).enumerate() {
            let start = chunk * CHUNK;
            let width = CHUNK.min(self.n_segments - start);
            let columns = |segment: usize| {
                (0..n_systems).map(move |system| scores[system * self.n_segments + start + segment])
            };
            list_signed_sums(&mut table, n_systems, width, columns);
            for (sums, byte) in sums.chunks_exact_mut(n_systems).zip(bytes) {
                let listed = &table[usize::from(*byte) * n_systems..][..n_systems];
                sums.iter_mut().zip(listed).for_each(|(sum, part)| *sum += part);
            }
        }
        sums
    }

    /// PERM-BOTH for two metrics on the same cells, shape `[systems, segments]`, against the raters'
    /// p-values. A swap changes the signed sums of both metrics by the same amount, so each resample costs
    /// one product; sums of resamples are taken in single precision, in a fixed order.
    pub fn compare(&self, gold: &[f64], first: &[f64], second: &[f64], resampling: Resampling) -> Comparison {
        let single =
            |scores: &[f64]| -> Vec<f32> { standardised(scores).iter().map(|x| *x as f32).collect() };
        let (first, second) = (single(first), single(second));
        let n_systems = first.len() / self.n_segments;
        let soft = |scores: &[f32]| agreement(gold, &self.p_values(scores, n_systems));
        let sums = [&first, &second].map(|scores| self.exact_sums(scores));
        let totals = [&first, &second].map(|scores| row_totals(scores, self.n_segments));
        let delta = soft(&first) - soft(&second);
        let null = resampling.draw(|index| {
            let moved = swapped_differences(&first, &second, &mut Pcg64::stream(resampling.seed, index));
            let moved_sums = self.fast_sums(&moved, n_systems);
            let moved_totals = row_totals(&moved, self.n_segments);
            let side = |which: usize, sign: f32| {
                let shift = |base: &[f32], moved: &[f32]| -> Vec<f32> {
                    base.iter().zip(moved).map(|(base, moved)| base + sign * moved).collect()
                };
                let totals = shift(&totals[which], &moved_totals);
                agreement(gold, &shares_reached(&totals, &shift(&sums[which], &moved_sums), n_systems))
            };
            side(0, 1.0) - side(1, -1.0)
        });
        Comparison::new(delta, null)
    }
}

/// Signs in bits, chunk by chunk. Shape: `[n_segments / 8, RESAMPLES]`.
fn packed(signs: &[f32], n_segments: usize) -> Vec<u8> {
    let byte = |signs: &[f32]| {
        signs.iter().enumerate().fold(0_u8, |byte, (bit, sign)| byte | (u8::from(*sign > 0.0) << bit))
    };
    let chunks = (0..n_segments).step_by(CHUNK);
    chunks
        .flat_map(|start| {
            let end = (start + CHUNK).min(n_segments);
            signs.chunks_exact(n_segments).map(move |vector| byte(&vector[start..end]))
        })
        .collect()
}

/// All signed sums of up to eight columns, by the byte of their signs: each follows from the one without its
/// highest plus. Shape of `table`: `[256, systems]`.
fn list_signed_sums<C: Iterator<Item = f32>>(
    table: &mut [f32],
    n_systems: usize,
    width: usize,
    columns: impl Fn(usize) -> C,
) {
    table[..n_systems].fill(0.0);
    for segment in 0..width {
        table[..n_systems].iter_mut().zip(columns(segment)).for_each(|(sum, score)| *sum -= score);
    }
    for segment in 0..width {
        let twice: Vec<f32> = columns(segment).map(|score| 2.0 * score).collect();
        let (without, with) = table.split_at_mut(n_systems << segment);
        for (with, without) in with.chunks_exact_mut(n_systems).zip(without.chunks_exact(n_systems)) {
            for ((with, without), twice) in with.iter_mut().zip(without).zip(&twice) {
                *with = without + twice;
            }
        }
    }
}

/// For each pair of systems, the share of sign vectors whose signed difference reaches the plain one.
fn shares_reached(totals: &[f32], sums: &[f32], n_systems: usize) -> Vec<f64> {
    let pairs: Vec<(usize, usize)> =
        (0..n_systems).flat_map(|i| (i + 1..n_systems).map(move |j| (i, j))).collect();
    let observed: Vec<f32> = pairs.iter().map(|(i, j)| totals[*i] - totals[*j]).collect();
    let mut reached = vec![0_u32; pairs.len()];
    for sums in sums.chunks_exact(n_systems) {
        let (mut reached, mut observed) = (&mut reached[..], &observed[..]);
        for (i, sum) in sums.iter().enumerate() {
            let (counts, later_counts) = reached.split_at_mut(n_systems - 1 - i);
            let (limits, later_limits) = observed.split_at(n_systems - 1 - i);
            for ((count, limit), other) in counts.iter_mut().zip(limits).zip(&sums[i + 1..]) {
                *count += u32::from(sum - other >= *limit);
            }
            (reached, observed) = (later_counts, later_limits);
        }
    }
    reached.into_iter().map(|count| f64::from(count) / RESAMPLES as f64).collect()
}

/// Random swaps, one coin per cell: the second metric's score less the first's where the two are swapped,
/// else 0.
fn swapped_differences(first: &[f32], second: &[f32], random: &mut Pcg64) -> Vec<f32> {
    let mut moved = Vec::with_capacity(first.len());
    for (first, second) in first.chunks(64).zip(second.chunks(64)) {
        let mut coins = random.next_u64();
        for (first, second) in first.iter().zip(second) {
            moved.push(if coins & 1 == 1 { second - first } else { 0.0 });
            coins >>= 1;
        }
    }
    moved
}

fn row_totals(scores: &[f32], n_segments: usize) -> Vec<f32> {
    scores.chunks_exact(n_segments).map(|row| row.iter().map(|x| f64::from(*x)).sum::<f64>() as f32).collect()
}

fn exact_dot(row: &[f32], signs: &[f32]) -> f32 {
    row.iter().zip(signs).map(|(x, sign)| f64::from(x * sign)).sum::<f64>() as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_of_equal_scores_are_never_told_apart() {
        let signs = Signs::new(5);
        let row = [0.1_f32, -0.3, 0.7, 0.2, 0.9];
        assert_eq!(signs.p_values(&[row, row].concat(), 2), [1.0]);
    }

    #[test]
    fn listed_sums_are_the_plain_sums() {
        // Whole numbers: both orders of summation are exact. 13 segments leave a chunk of five.
        for n_segments in [1, 8, 13, 24] {
            let signs = Signs::new(n_segments);
            let scores: Vec<f32> = (0..3 * n_segments).map(|i| (i * 7 % 11) as f32 - 4.0).collect();
            assert_eq!(signs.fast_sums(&scores, 3), signs.exact_sums(&scores), "{n_segments} segments");
        }
    }

    #[test]
    fn a_metric_does_not_beat_itself() {
        let signs = Signs::new(4);
        let scores = [1.0, 5.0, 2.0, 3.0, 3.0, 4.0, 9.0, 1.0];
        let gold = signs.p_values(&[0.0, 1.0, 2.0, 3.0, 3.0, 1.0, 2.0, 0.0], 2);
        let test = signs.compare(&gold, &scores, &scores, Resampling { resamples: 50, seed: 1 });
        assert_eq!((test.delta, test.p), (0.0, 1.0));
    }
}
