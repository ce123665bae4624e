//! Tie calibration and the permutation tests on scores of the size of a shared task. It checks no value: the
//! tests do.
//!
//! `cargo bench --bench meta -- [systems=12] [segments=460] [metrics=13] [resamples=1000]`
#![expect(clippy::print_stdout, reason = "a benchmark's result")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use rayon::prelude::*;
use tribunal::meta::align::Aligned;
use tribunal::meta::average::Grouping;
use tribunal::meta::correlation::pearson;
use tribunal::meta::pcg::Pcg64;
use tribunal::meta::significance::Resampling;
use tribunal::meta::significance::permutation::{PairCells, perm_both};
use tribunal::meta::spa::soft_pairwise_accuracy;
use tribunal::meta::ties::TieTable;

fn main() {
    let given: BTreeMap<String, usize> = std::env::args()
        .filter_map(|arg| arg.split_once('=').and_then(|(name, n)| Some((name.to_owned(), n.parse().ok()?))))
        .collect();
    let size = |name: &str, default: usize| given.get(name).copied().unwrap_or(default);
    let (systems, segments) = (size("systems", 12), size("segments", 460));
    let resampling = Resampling { resamples: size("resamples", 1000), ..Resampling::default() };
    let metrics: Vec<Aligned> =
        (0..size("metrics", 13)).map(|index| synthetic(systems, segments, index as u64)).collect();
    println!(
        "{systems} systems, {segments} segments, {} metrics, {} resamples",
        metrics.len(),
        resampling.resamples
    );

    let fits: Vec<f64> = timed("calibrate, by item", || {
        metrics.iter().filter_map(|scores| fit(scores, Grouping::Item)).collect()
    });
    timed("calibrate one metric, all pairs at once", || fit(&metrics[0], Grouping::None));
    let _ = timed("soft pairwise accuracy of one metric", || soft_pairwise_accuracy(&metrics[0]));
    let pairs: Vec<(usize, usize)> =
        (0..metrics.len()).flat_map(|i| (i + 1..metrics.len()).map(move |j| (i, j))).collect();
    timed("PERM-BOTH, segment Pearson, all pairs of metrics", || {
        let values = |index: usize| -> Vec<f64> { metrics[index].metric.iter().flatten().copied().collect() };
        let gold: Vec<f64> = metrics[0].gold.iter().flatten().copied().collect();
        let statistic = |scores: &[f64]| pearson(&gold, scores).ok().map(|r| r.value);
        let test = |(i, j): &(usize, usize)| perm_both(&values(*i), &values(*j), resampling, statistic);
        pairs.par_iter().map(test).filter(Option::is_some).count()
    });
    timed("pairs test, acc-eq, all pairs of metrics", || {
        let mask = vec![true; systems * segments];
        let cells: Vec<PairCells> = metrics
            .iter()
            .zip(&fits)
            .map(|(scores, epsilon)| PairCells::new(scores, *epsilon, &mask))
            .collect();
        pairs.par_iter().map(|(i, j)| cells[*i].compare(&cells[*j], resampling).p).sum::<f64>()
    });
}

fn fit(scores: &Aligned, grouping: Grouping) -> Option<f64> {
    let table = TieTable::new(scores, grouping);
    table.calibrate(&table.whole()).ok().map(|fit| fit.epsilon)
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = black_box(work());
    println!("{what:<50} {:>9.3} s", start.elapsed().as_secs_f64());
    result
}

/// Penalties with many ties, and a metric that follows them with noise.
fn synthetic(systems: usize, segments: usize, seed: u64) -> Aligned {
    let (mut gold_random, mut noise) = (Pcg64::new(1), Pcg64::new(100 + seed));
    let gold: Vec<f64> = (0..systems * segments).map(|_| -(gold_random.below(12) as f64)).collect();
    let metric = gold.iter().map(|score| Some(score / 12.0 + noise.next_f64())).collect();
    Aligned {
        systems: (0..systems).map(|system| format!("system{system:02}")).collect(),
        n_segments: segments,
        gold: gold.into_iter().map(Some).collect(),
        metric,
    }
}
