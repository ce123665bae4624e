//! A correlation over all scores at once, by system, or by segment, then the mean over the groups.
//!
//! Source: mt-metrics-eval `stats.AverageCorrelation`. Differs: an average over no group is undefined here,
//! and 0 there.

use serde::Serialize;

use super::align::Aligned;
use super::correlation::{
    Undefined, kendall_b, kendall_b_value, kendall_c, kendall_c_value, pearson, pearson_value, spearman,
    spearman_value,
};
use super::pairs::PairCounts;
use super::probability::correlation_p;
use super::range::{scaled, unscaled};

/// Sets of scores that make one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grouping {
    /// All scores of all systems.
    None,
    /// The scores of one system.
    Sys,
    /// All translations of one segment.
    Item,
}

/// A coefficient of one vector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Coefficient {
    Pearson,
    Spearman,
    KendallB,
    KendallC,
    /// Tau with ties counted right or wrong; metric ties within epsilon.
    Tau23 {
        epsilon: f64,
    },
    /// Pairwise accuracy with credit for ties; metric ties within epsilon.
    Acc23 {
        epsilon: f64,
    },
}

/// A coefficient averaged over groups.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Averaged {
    pub value: f64,
    /// Mean two-sided p-value over the groups; `None` for coefficients without a test.
    pub p: Option<f64>,
    /// Groups with a defined value.
    pub n_groups: usize,
    /// Groups of two or more scores without a defined value (constant scores), which the mean leaves out.
    pub n_undefined: usize,
}

/// Gold and metric scores of each group that has at least two of both, in order.
pub fn groups(scores: &Aligned, grouping: Grouping) -> Vec<(Vec<f64>, Vec<f64>)> {
    let (systems, segments) = (scores.n_systems(), scores.n_segments);
    let collect = |cells: &mut dyn Iterator<Item = (usize, usize)>| -> (Vec<f64>, Vec<f64>) {
        cells.filter_map(|(system, segment)| scores.cell(system, segment)).unzip()
    };
    let all: Vec<_> = match grouping {
        Grouping::None => {
            vec![collect(&mut (0..systems).flat_map(|sys| (0..segments).map(move |seg| (sys, seg))))]
        }
        Grouping::Sys => (0..systems).map(|sys| collect(&mut (0..segments).map(|seg| (sys, seg)))).collect(),
        Grouping::Item => (0..segments).map(|seg| collect(&mut (0..systems).map(|sys| (sys, seg)))).collect(),
    };
    all.into_iter().filter(|(gold, _)| gold.len() > 1).collect()
}

/// Mean of a coefficient over the groups where it is defined.
///
/// # Errors
/// No group has a value; with a single group, the reason why it has none. A single group of two scores has no
/// correlation.
///
/// ```
/// use tribunal_meta::align::Aligned;
/// use tribunal_meta::average::{Coefficient, Grouping, average};
/// // Two systems, two segments. By segment: one pair right, one pair wrong.
/// let scores = Aligned {
///     systems: vec!["a".into(), "b".into()],
///     n_segments: 2,
///     gold: vec![Some(1.0), Some(1.0), Some(2.0), Some(2.0)],
///     metric: vec![Some(1.0), Some(2.0), Some(2.0), Some(1.0)],
/// };
/// let acc = average(&scores, Grouping::Item, Coefficient::Acc23 { epsilon: 0.0 }).unwrap();
/// assert_eq!((acc.value, acc.n_groups), (0.5, 2));
/// ```
pub fn average(
    scores: &Aligned,
    grouping: Grouping,
    coefficient: Coefficient,
) -> Result<Averaged, Undefined> {
    let groups = groups(scores, grouping);
    if let ([(gold, _)], true) = (&groups[..], coefficient.is_correlation()) {
        // Over many groups of two the mean reflects how often the order is right; a single one is always 1 or
        // -1.
        if gold.len() == 2 {
            return Err(Undefined::TwoValues);
        }
    }
    let values: Vec<_> = groups.iter().map(|(gold, metric)| coefficient.of(gold, metric)).collect();
    let defined: Vec<_> = values.iter().flatten().collect();
    if defined.is_empty() {
        let only = if values.len() == 1 { values[0].err() } else { None };
        return Err(only.unwrap_or(Undefined::NoRow));
    }
    let n = defined.len() as f64;
    let p: Option<Vec<f64>> = defined.iter().map(|(_, p)| *p).collect();
    Ok(Averaged {
        value: defined.iter().map(|(value, _)| value).sum::<f64>() / n,
        p: p.map(|p| p.iter().sum::<f64>() / n),
        n_groups: defined.len(),
        n_undefined: values.len() - defined.len(),
    })
}

impl Coefficient {
    /// The coefficient of one vector, with its p-value where it has a test.
    fn of(self, gold: &[f64], metric: &[f64]) -> Result<(f64, Option<f64>), Undefined> {
        let correlation = match self {
            Self::Pearson => pearson(gold, metric)?,
            Self::Spearman => spearman(gold, metric)?,
            Self::KendallB => kendall_b(gold, metric)?,
            Self::KendallC => kendall_c(gold, metric)?,
            Self::Tau23 { epsilon } => {
                return pairs(gold, metric, epsilon).tau23().map(|tau| (tau, None)).ok_or(Undefined::NoPair);
            }
            Self::Acc23 { epsilon } => {
                return pairs(gold, metric, epsilon).acc23().map(|acc| (acc, None)).ok_or(Undefined::NoPair);
            }
        };
        Ok((correlation.value, Some(correlation.p)))
    }
}

impl Coefficient {
    fn is_correlation(self) -> bool {
        !matches!(self, Self::Tau23 { .. } | Self::Acc23 { .. })
    }

    /// The coefficient of one vector, without a p-value.
    pub(crate) fn value(self, gold: &[f64], metric: &[f64]) -> Option<f64> {
        match self {
            Self::Pearson => pearson_value(gold, metric).ok(),
            Self::Spearman => spearman_value(gold, metric).ok(),
            Self::KendallB => kendall_b_value(gold, metric).ok(),
            Self::KendallC => kendall_c_value(gold, metric).ok(),
            Self::Tau23 { epsilon } => pairs(gold, metric, epsilon).tau23(),
            Self::Acc23 { epsilon } => pairs(gold, metric, epsilon).acc23(),
        }
    }
}

fn pairs(gold: &[f64], metric: &[f64], epsilon: f64) -> PairCounts {
    if epsilon == 0.0 {
        PairCounts::count(gold, metric)
    } else {
        PairCounts::count_within(gold, metric, epsilon)
    }
}

/// Pearson over the differences of all ordered pairs of translations of one segment.
///
/// The differences of a segment sum to zero, so only the centred products count:
/// Σ (xᵢ-xⱼ)(yᵢ-yⱼ) over ordered pairs is 2k Σ (xᵢ-x̄)(yᵢ-ȳ) for k translations.
///
/// # Errors
/// No segment has two translations, or all differences of one side are zero.
///
/// Source: mt-metrics-eval `Correlation.Pearson(average_by='item', pdp=True)`.
///
/// ```
/// use tribunal_meta::align::Aligned;
/// use tribunal_meta::average::pearson_of_differences;
/// // One segment: differences (0, 1, 3) and (0, 2, 6) are proportional.
/// let scores = Aligned {
///     systems: vec!["a".into(), "b".into(), "c".into()],
///     n_segments: 1,
///     gold: vec![Some(0.0), Some(1.0), Some(3.0)],
///     metric: vec![Some(5.0), Some(7.0), Some(11.0)],
/// };
/// assert!((pearson_of_differences(&scores).unwrap().value - 1.0).abs() < 1e-15);
/// ```
pub fn pearson_of_differences(scores: &Aligned) -> Result<Averaged, Undefined> {
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    let mut cells = 0;
    let exponent = |side: &[Option<f64>]| scaled(&side.iter().flatten().copied().collect::<Vec<_>>()).1;
    let exponents = [exponent(&scores.gold), exponent(&scores.metric)];
    for segment in 0..scores.n_segments {
        let cells_of_segment = (0..scores.n_systems()).filter_map(|system| scores.cell(system, segment));
        let translations: Vec<(f64, f64)> =
            cells_of_segment.map(|(x, y)| (unscaled(x, -exponents[0]), unscaled(y, -exponents[1]))).collect();
        let k = translations.len() as f64;
        let gold_mean = translations.iter().map(|t| t.0).sum::<f64>() / k;
        let metric_mean = translations.iter().map(|t| t.1).sum::<f64>() / k;
        for (gold, metric) in &translations {
            let (dx, dy) = (gold - gold_mean, metric - metric_mean);
            xx += k * dx * dx;
            yy += k * dy * dy;
            xy += k * dx * dy;
        }
        cells += translations.len() * translations.len();
    }
    match (cells, xx > 0.0, yy > 0.0) {
        (0, ..) => Err(Undefined::NoPair),
        (_, false, _) => Err(Undefined::ConstantGold),
        (_, _, false) => Err(Undefined::ConstantMetric),
        _ => {
            let value = (xy / (xx.sqrt() * yy.sqrt())).clamp(-1.0, 1.0);
            Ok(Averaged { value, p: Some(correlation_p(value, cells)), n_groups: 1, n_undefined: 0 })
        }
    }
}
