//! Two judges on the same translations: how similarly they order them, and where they differ most. Nothing
//! here depends on the judges' scales or on human scores; `task` compares each judge with those.

use serde::Serialize;

use super::agreement::Agreement;
use super::align::Aligned;
use super::average::{Coefficient, Grouping, average};
use super::correlation::{Undefined, kendall_b, ranks, spearman};
use super::scores::Scores;
use super::scores::units::Given;

mod judges;

pub use judges::JudgePair;

/// Agreement of two judges, over the translations that both scored.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideBySide {
    /// Translations that both scored.
    pub n: usize,
    /// Translations that one of them scored and the other did not: they count nowhere.
    pub n_left_out: usize,
    /// Kendall's tau-b over all translations. Range: -1 to 1, higher is better.
    pub kendall: Result<f64, Undefined>,
    /// Range: -1 to 1, higher is better.
    pub spearman: Result<f64, Undefined>,
    /// Share of the pairs of translations of one source that both order alike, a tie only like a tie; the
    /// mean over sources. Range: 0 to 1.
    pub same_order: Result<f64, Undefined>,
    /// Sources with at least two translations that both scored.
    pub n_sources: usize,
    pub systems: SystemOrder,
    /// The translations on which the judges differ most, by `distance`, the farthest first.
    pub apart: Vec<Apart>,
}

/// The systems as both judges rank them, by their means over the units that both judges scored for all
/// systems.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SystemOrder {
    pub n_units: usize,
    /// In the first judge's order, best first.
    pub ranked: Vec<RankedTwice>,
    /// Pairs of systems that both judges order alike.
    pub agreement: Agreement,
    /// Range: -1 to 1, higher is better.
    pub spearman: Result<f64, Undefined>,
}

/// A system under two judges. Ranks count from 1, the best; tied systems share the mean of their ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankedTwice {
    pub system: String,
    /// Each judge's mean, on its own scale; higher is better.
    pub means: (f64, f64),
    pub ranks: (f64, f64),
}

/// A translation on which the judges differ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Apart {
    /// Position among the systems of the comparison.
    pub system: usize,
    /// Position among its units.
    pub unit: usize,
    /// Each judge's score, on its own scale.
    pub scores: (f64, f64),
    /// Share of the shared translations that each judge scored lower, ties counted half. Range: 0 to 1.
    pub places: (f64, f64),
}

impl Apart {
    /// Distance between the places that the judges give the translation. Range: 0 to 1.
    pub fn distance(&self) -> f64 {
        (self.places.0 - self.places.1).abs()
    }
}

/// Compares two judges; the first takes the role of the human scores.
///
/// # Errors
/// No translation that both scored.
///
/// ```
/// use tribunal_meta::{align::Aligned, side_by_side::compare};
/// // Two systems, two units. The second judge has another scale and turns the last two around.
/// let scores = Aligned {
///     systems: vec!["a".into(), "b".into()],
///     n_segments: 2,
///     gold: vec![Some(0.0), Some(-1.0), Some(-5.0), Some(-9.0)],
///     metric: vec![Some(90.0), Some(80.0), Some(10.0), Some(20.0)],
/// };
/// let found = compare(&scores).unwrap();
/// // Five of six pairs alike: (5 - 1) / 6. Each source's two translations are ordered alike, and so are
/// // the systems.
/// assert!((found.kendall.unwrap() - 4.0 / 6.0).abs() < 1e-12);
/// assert_eq!((found.same_order.unwrap(), found.systems.agreement.agree), (1.0, 1));
/// assert_eq!((found.apart[0].system, found.apart[0].distance()), (1, 0.25));
/// ```
pub fn compare(scores: &Aligned) -> Result<SideBySide, Undefined> {
    let (mut cells, mut pairs) = (Vec::new(), Vec::new());
    for system in 0..scores.n_systems() {
        for unit in 0..scores.n_segments {
            if let Some(pair) = scores.cell(system, unit) {
                cells.push((system, unit));
                pairs.push(pair);
            }
        }
    }
    if pairs.is_empty() {
        return Err(Undefined::TooFew);
    }
    let scored = scores.gold.iter().zip(&scores.metric).filter(|(a, b)| a.is_some() || b.is_some()).count();
    let (first, second): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let places = places(&first).into_iter().zip(places(&second));
    let mut apart: Vec<Apart> = cells
        .into_iter()
        .zip(pairs.iter().zip(places))
        .map(|((system, unit), (scores, places))| Apart { system, unit, scores: *scores, places })
        .collect();
    apart.sort_by(|a, b| b.distance().total_cmp(&a.distance()));
    let order = average(scores, Grouping::Item, Coefficient::Acc23 { epsilon: 0.0 });
    Ok(SideBySide {
        n: pairs.len(),
        n_left_out: scored - pairs.len(),
        kendall: kendall_b(&first, &second).map(|found| found.value),
        spearman: spearman(&first, &second).map(|found| found.value),
        same_order: order.map(|found| found.value),
        n_sources: order.map_or(0, |found| found.n_groups),
        systems: system_order(scores),
        apart,
    })
}

fn system_order(scores: &Aligned) -> SystemOrder {
    let shared = scores.shared_segments();
    let means = scores.select(&shared).system_means();
    let best_first =
        |values: &[f64]| -> Vec<f64> { ranks(&values.iter().map(|value| 0.0 - value).collect::<Vec<_>>()) };
    let both = best_first(&means.gold).into_iter().zip(best_first(&means.metric));
    let values = means.gold.iter().copied().zip(means.metric.iter().copied());
    let mut ranked: Vec<RankedTwice> = means
        .systems
        .iter()
        .zip(values.zip(both))
        .map(|(system, (means, ranks))| RankedTwice { system: system.clone(), means, ranks })
        .collect();
    ranked.sort_by(|a, b| a.ranks.0.total_cmp(&b.ranks.0).then(a.system.cmp(&b.system)));
    SystemOrder {
        n_units: shared.len(),
        ranked,
        agreement: Agreement::from_systems(&means),
        spearman: spearman(&means.gold, &means.metric).map(|found| found.value),
    }
}

/// The share of values below each one, ties counted half.
fn places(values: &[f64]) -> Vec<f64> {
    ranks(values).iter().map(|rank| (rank - 0.5) / values.len() as f64).collect()
}

/// The scores of several judges on only the translations that all of them scored, with system scores
/// recomputed as means over the units that are left for every system. Judges with system scores alone are
/// unchanged.
///
/// `None` where some judge scored segments and another documents, or documents that were put together
/// otherwise.
pub fn on_common(mut judges: Vec<Scores>) -> Option<Vec<Scores>> {
    let kinds = |judge: &Scores| judge.units.as_ref().map(|units| units.units.clone());
    if judges.windows(2).any(|pair| kinds(&pair[0]) != kinds(&pair[1])) {
        return None;
    }
    let columns: Vec<_> = judges
        .iter()
        .filter_map(|judge| {
            judge.units.as_ref().map_or_else(|| judge.segments.clone(), |u| Some(u.columns()))
        })
        .collect();
    let all_have = |system: &str, unit: usize| {
        columns.iter().all(|columns| {
            columns.get(system).and_then(|column| column.get(unit)).is_some_and(Option::is_some)
        })
    };
    for judge in &mut judges {
        let name = judge.name.clone();
        if let Some(mut units) = judge.units.take() {
            for (system, column) in &mut units.scores {
                for (unit, cell) in column.iter_mut().enumerate() {
                    if matches!(cell, Given::Score(_)) && !all_have(system, unit) {
                        *cell = Given::Missing;
                    }
                }
            }
            *judge = Scores::from_units(name, units);
        } else if let Some(mut segments) = judge.segments.take() {
            for (system, column) in &mut segments {
                for (unit, score) in column.iter_mut().enumerate() {
                    *score = score.filter(|_| all_have(system, unit));
                }
            }
            *judge = Scores::from_segments(name, segments);
        }
    }
    Some(judges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scores::SegmentScores;

    fn judge(a: [Option<f64>; 3], b: [Option<f64>; 3]) -> Scores {
        let columns = SegmentScores::from([("a".to_owned(), a.to_vec()), ("b".to_owned(), b.to_vec())]);
        Scores::new("judge", Some(columns), None)
    }

    #[test]
    fn judges_keep_what_all_of_them_scored() {
        let first = judge([Some(1.0), Some(2.0), None], [Some(3.0), Some(4.0), Some(5.0)]);
        let second = judge([Some(9.0), None, Some(8.0)], [Some(7.0), Some(6.0), Some(5.0)]);
        let kept = on_common(vec![first, second]).unwrap();
        assert_eq!(kept[0].segments.as_ref().unwrap()["a"], [Some(1.0), None, None]);
        assert_eq!(kept[1].segments.as_ref().unwrap()["b"], [Some(7.0), Some(6.0), Some(5.0)]);
        assert_eq!((kept[0].systems["a"], kept[0].systems["b"]), (Some(1.0), Some(3.0)));
    }

    #[test]
    fn no_shared_translation_is_no_comparison() {
        let scores = Aligned {
            systems: vec!["a".into()],
            n_segments: 2,
            gold: vec![Some(1.0), None],
            metric: vec![None, Some(1.0)],
        };
        assert_eq!(compare(&scores), Err(Undefined::TooFew));
    }
}
