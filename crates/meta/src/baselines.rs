//! Baselines that do not measure quality: random scores, one constant score, and the length of the
//! translation. They stand below the metrics of a table for comparison; nothing is ranked or tested against
//! them.

use tribunal_core::random;

use super::Result;
use super::scores::units::{Given, UnitScores};
use super::scores::{Scores, SegmentScores};
use super::testset::TestSet;

/// Minus the number of characters of the translation: longer translations have more room for errors.
pub const LENGTH: &str = "length";

/// Uniformly distributed between 0 and 1, by the seed.
pub const RANDOM: &str = "random";

/// One constant score for all translations.
pub const CONSTANT: &str = "constant";

/// All baselines, in the order of tables.
pub const NAMES: [&str; 3] = [LENGTH, RANDOM, CONSTANT];

/// The baselines of a language pair: scores of segments, or of documents where all `metrics` have those. Left
/// out are a name that a metric has, and lengths of translations that cannot be read: metrics may be compared
/// without texts.
pub fn baselines(testset: &TestSet, metrics: &[Scores], seed: u64) -> Vec<Scores> {
    let units = metrics.first().and_then(|metric| metric.units.as_ref());
    let units = units.filter(|_| metrics.iter().all(|metric| metric.units.is_some()));
    let mut all = Vec::new();
    for name in NAMES.into_iter().filter(|name| metrics.iter().all(|metric| metric.name != *name)) {
        let Ok(segments) = segments(name, testset, seed) else { continue };
        all.push(match units {
            Some(units) => Scores::from_units(name, joined(name, &segments, units)),
            None => Scores::new(name, Some(segments), None),
        });
    }
    all
}

fn segments(name: &str, testset: &TestSet, seed: u64) -> Result<SegmentScores> {
    let n = testset.n_segments();
    let mut segments = SegmentScores::new();
    for (idx, system) in testset.systems.iter().enumerate() {
        let column: Vec<Option<f64>> = match name {
            LENGTH => {
                let texts = testset.output(system)?;
                texts.iter().map(|text| Some(0.0 - text.chars().count() as f64)).collect()
            }
            RANDOM => (0..n).map(|seg| Some(uniform(seed, idx * n + seg))).collect(),
            _ => vec![Some(1.0); n],
        };
        segments.insert(system.clone(), column);
    }
    Ok(segments)
}

/// A number from 0 to 1, 1 excluded.
pub fn uniform(seed: u64, counter: usize) -> f64 {
    (random::at(seed, counter as u64) >> 11) as f64 / (1_u64 << 53) as f64
}

/// The baseline's scores of documents: lengths are added up, of the other baselines a document has the score
/// of its first segment.
fn joined(name: &str, segments: &SegmentScores, units: &UnitScores) -> UnitScores {
    let scores = units.scores.iter().map(|(system, scores_of_system)| {
        let score = |(segs, scores_of_system): (&Vec<usize>, &Given)| {
            let of =
                |seg: &usize| segments.get(system).and_then(|column| column.get(*seg).copied().flatten());
            let mut scores = segs.iter().filter_map(of);
            let score = if name == LENGTH { Some(scores.sum()) } else { scores.next() };
            match (scores_of_system, score) {
                (Given::Absent, _) | (_, None) => Given::Absent,
                (_, Some(score)) => Given::Score(score),
            }
        };
        (system.clone(), units.units.iter().zip(scores_of_system).map(score).collect())
    });
    UnitScores { units: units.units.clone(), scores: scores.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_scores_depend_on_the_seed_and_fill_the_range() {
        let draw = |seed| (0..1000).map(|counter| uniform(seed, counter)).collect::<Vec<_>>();
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let mean = draw(7).iter().sum::<f64>() / 1000.0;
        assert!((mean - 0.5).abs() < 0.05 && draw(7).iter().all(|x| (0.0..1.0).contains(x)), "{mean}");
    }

    #[test]
    fn lengths_of_a_document_add_up() {
        let segments = SegmentScores::from([("A".to_owned(), vec![Some(-3.0), Some(-4.0), Some(-1.0)])]);
        let units =
            UnitScores::new(&[("A".to_owned(), vec![0, 1], Some(0.0)), ("A".to_owned(), vec![2], None)]);
        let column = |name| joined(name, &segments, &units).columns()["A"].clone();
        assert_eq!(column(LENGTH), [Some(-7.0), Some(-1.0)]);
        assert_eq!(column(RANDOM), [Some(-3.0), Some(-1.0)]);
    }
}
