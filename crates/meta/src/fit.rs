//! Overfitting of the tie threshold: held-out calibration, chance level and bootstrap interval of acc-eq by
//! item.

use rayon::prelude::*;
use serde::Serialize;

use super::align::Aligned;
use super::average::{Grouping, groups};
use super::correlation::{Undefined, mean};
use super::pcg::Pcg64;
use super::significance::paired::percentile_interval;
use super::ties::TieTable;

/// acc-eq with its held-out value, chance level and interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FitReport {
    /// As published: the threshold is fitted on the scores it is tested on.
    pub in_sample: f64,
    pub epsilon: f64,
    /// Mean over both halves of random splits, each tested at the threshold of the other half.
    pub held_out: f64,
    /// `in_sample` less `held_out`.
    pub optimism: f64,
    /// Mean, and 97.5th percentile, of the metric's scores shuffled within each segment, refitted each time.
    pub chance: f64,
    pub chance_high: f64,
    /// Every pair called a tie: the share of gold ties.
    pub all_ties: f64,
    /// 95% bootstrap interval over segments, refitted each time.
    pub interval: (f64, f64),
}

/// Draws of each of the three; each draw of chance is sorted again, so it gets fewer.
const SPLITS: u64 = 20;
const BOOTSTRAPS: u64 = 200;
const SHUFFLES: u64 = 50;

/// Fits, splits, shuffles and resamples.
///
/// # Errors
/// No segment has two scored translations.
pub fn examine(scores: &Aligned, seed: u64) -> Result<FitReport, Undefined> {
    let rows = groups(scores, Grouping::Item);
    let table = TieTable::from_groups(&rows);
    let unsplit = table.whole();
    let fit = table.calibrate(&unsplit)?;
    let held_out: Result<Vec<f64>, Undefined> =
        (0..SPLITS).into_par_iter().map(|index| split(&table, &mut Pcg64::stream(seed, index))).collect();
    let held_out = mean(&held_out?);
    let boot: Result<Vec<f64>, Undefined> = (0..BOOTSTRAPS)
        .into_par_iter()
        .map(|index| {
            table.calibrate(&drawn(rows.len(), &mut Pcg64::stream(!seed, index))).map(|fit| fit.accuracy)
        })
        .collect();
    let chance: Result<Vec<f64>, Undefined> = (0..SHUFFLES)
        .into_par_iter()
        .map(|index| shuffled_fit(&rows, &mut Pcg64::stream(seed ^ 0x5eed, index)))
        .collect();
    let (boot, chance) = (sorted(boot?), sorted(chance?));
    Ok(FitReport {
        in_sample: fit.accuracy,
        epsilon: fit.epsilon,
        held_out,
        optimism: fit.accuracy - held_out,
        chance: mean(&chance),
        chance_high: percentile_interval(&chance).1,
        all_ties: table.accuracy_of_all_ties(&unsplit)?,
        interval: percentile_interval(&boot),
    })
}

fn split(table: &TieTable, random: &mut Pcg64) -> Result<f64, Undefined> {
    let n = table.whole().len();
    let mut order: Vec<usize> = (0..n).collect();
    random.shuffle(&mut order);
    let mut halves = [vec![0_u32; n], vec![0_u32; n]];
    for (place, group) in order.into_iter().enumerate() {
        halves[place % 2][group] = 1;
    }
    let [a, b] = &halves;
    let tested = |fit: &[u32], test: &[u32]| table.accuracy_at(table.calibrate(fit)?.epsilon, test);
    Ok(f64::midpoint(tested(a, b)?, tested(b, a)?))
}

fn drawn(n: usize, random: &mut Pcg64) -> Vec<u32> {
    let mut times = vec![0; n];
    for _ in 0..n {
        times[random.below(n)] += 1;
    }
    times
}

fn shuffled_fit(rows: &[(Vec<f64>, Vec<f64>)], random: &mut Pcg64) -> Result<f64, Undefined> {
    let shuffled: Vec<_> = rows
        .iter()
        .map(|(gold, metric)| {
            let mut metric = metric.clone();
            random.shuffle(&mut metric);
            (gold.clone(), metric)
        })
        .collect();
    let table = TieTable::from_groups(&shuffled);
    table.calibrate(&table.whole()).map(|fit| fit.accuracy)
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_perfect_metric_needs_no_flattery() {
        let gold: Vec<Option<f64>> = (0..60).map(|i| Some(f64::from(i * 7 % 11))).collect();
        let systems = (0..3).map(|system| format!("s{system}")).collect();
        let scores = Aligned { systems, n_segments: 20, gold: gold.clone(), metric: gold };
        let report = examine(&scores, 1).unwrap();
        assert_eq!((report.in_sample, report.held_out, report.optimism), (1.0, 1.0, 0.0));
        assert!(report.chance < 0.8 && report.interval == (1.0, 1.0), "{report:?}");
    }
}
