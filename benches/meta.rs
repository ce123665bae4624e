//! Tie calibration, soft pairwise accuracy and the permutation tests on scores of the size of a shared task
//! (12 systems, 460 segments). It checks no value: the tests do. Sizes are small enough for a whole run to
//! take about half a minute; a test's time grows with its resamples.
//!
//! `cargo bench --bench meta [-- FILTER]`

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use tribunal::meta::align::Aligned;
use tribunal::meta::average::Grouping;
use tribunal::meta::correlation::pearson;
use tribunal::meta::pcg::Pcg64;
use tribunal::meta::significance::Resampling;
use tribunal::meta::significance::permutation::{PairCells, perm_both};
use tribunal::meta::significance::swapped::{RankCoefficient, perm_both_ranks};
use tribunal::meta::spa::{Signs, soft_pairwise_accuracy};
use tribunal::meta::ties::TieTable;

const SYSTEMS: usize = 12;
const SEGMENTS: usize = 460;

/// A tenth of what is usual.
const RESAMPLING: Resampling = Resampling { resamples: 100, seed: 0 };

fn calibration(bench: &mut Criterion) {
    let scores = synthetic(0);
    let mut group = bench.benchmark_group("tie calibration");
    for (name, grouping) in [("by item", Grouping::Item), ("all pairs at once", Grouping::None)] {
        group.bench_function(name, |b| {
            b.iter(|| {
                let table = TieTable::new(black_box(&scores), grouping);
                table.calibrate(&table.whole())
            });
        });
    }
    group.finish();
}

fn soft_accuracy(bench: &mut Criterion) {
    let scores = synthetic(0);
    bench.bench_function("soft pairwise accuracy", |b| b.iter(|| soft_pairwise_accuracy(black_box(&scores))));
}

fn permutation(bench: &mut Criterion) {
    let (first, second) = (synthetic(0), synthetic(1));
    let gold: Vec<f64> = first.gold.iter().flatten().copied().collect();
    let (one, other) = (flat(&first), flat(&second));
    let mut group = bench.benchmark_group("PERM-BOTH, 100 resamples");
    group.bench_function("seg:pearson@none", |b| {
        let statistic = |scores: &[f64]| pearson(&gold, scores).ok().map(|found| found.value);
        b.iter(|| perm_both(black_box(&one), black_box(&other), RESAMPLING, statistic));
    });
    for (name, coefficient) in
        [("seg:spearman@none", RankCoefficient::Spearman), ("seg:kendall-b@none", RankCoefficient::KendallB)]
    {
        group.bench_function(name, |b| {
            b.iter(|| perm_both_ranks(coefficient, &gold, black_box(&one), black_box(&other), RESAMPLING));
        });
    }
    group.bench_function("seg:acc-eq@item, pairs", |b| {
        let mask = vec![true; SYSTEMS * SEGMENTS];
        let cells = [&first, &second].map(|scores| PairCells::new(scores, 0.1, &mask));
        b.iter(|| cells[0].compare(black_box(&cells[1]), RESAMPLING));
    });
    group.bench_function("sys:spa", |b| {
        let signs = Signs::new(SEGMENTS);
        let single: Vec<f32> = gold.iter().map(|score| *score as f32).collect();
        let gold = signs.p_values(&single, SYSTEMS);
        b.iter(|| signs.compare(&gold, black_box(&one), black_box(&other), RESAMPLING));
    });
    group.finish();
}

fn flat(scores: &Aligned) -> Vec<f64> {
    scores.metric.iter().flatten().copied().collect()
}

/// Penalties with many ties, and a metric that follows them with noise.
fn synthetic(seed: u64) -> Aligned {
    let (mut gold_random, mut noise) = (Pcg64::new(1), Pcg64::new(100 + seed));
    let gold: Vec<f64> = (0..SYSTEMS * SEGMENTS).map(|_| -(gold_random.below(12) as f64)).collect();
    let metric = gold.iter().map(|score| Some(score / 12.0 + f64::from(noise.next_f32()))).collect();
    Aligned {
        systems: (0..SYSTEMS).map(|system| format!("system{system:02}")).collect(),
        n_segments: SEGMENTS,
        gold: gold.into_iter().map(Some).collect(),
        metric,
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2));
    targets = calibration, soft_accuracy, permutation
}
criterion_main!(benches);
