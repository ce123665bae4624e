//! The translations' regression: centring by corpus and source, scaling, and the calibration of the scores of
//! each pair to MQM points.

use std::collections::BTreeMap;

use super::{Example, FOLDS, ROWS, Readings, Result, Subject, best, fold, inputs, scale, total};
use crate::{
    corruption::Corrupted,
    judges::probe::{
        facts::{self, Facts, source_bytes},
        fit::{self, Length, QuantileMap},
    },
    ridge::{Map, Sums},
    segment::Segment,
};

/// The weight of all corrupted translations together, as a share of that of all rated ones. A larger share
/// finds more of what was corrupted, and less of which sources are hard (measured on held-out documents:
/// docs/tuning.md).
const CORRUPTED_SHARE: f64 = 0.15;

/// The most quantiles of a group of source lengths.
const MAX_QUANTILES: usize = 51;

/// Bounds of the groups of source lengths, as shares of the translations, shortest source first.
const LENGTH_BOUNDS: [f64; 5] = [0.0, 0.5, 0.75, 0.9, 1.0];

/// The fewest translations of a group of source lengths; with fewer, all lengths are one group.
const MIN_PER_LENGTH: usize = 50;

/// Share of a band's translations whose ratings lie below it, and share above it.
const BAND_TAIL: f64 = 0.05;

/// Share of the worst ranks of a group of source lengths that is left out.
const TRIMMED_SHARE: f64 = 0.05;

/// The fewest translations of a band.
const MIN_PER_BAND: usize = 100;

/// The most bands of a pair.
const MAX_BANDS: usize = 10;

/// The translations' regression.
pub(super) struct Scoring {
    pub map: Vec<f64>,
    pub lambda: f64,
    pub calibrations: BTreeMap<String, QuantileMap>,
}

/// Sums of inputs and of the target.
#[derive(Clone, Default)]
struct Mean {
    n: f64,
    x: Vec<f64>,
    y: f64,
}

impl Mean {
    fn add(&mut self, x: &[f32], y: f64) {
        self.x.resize(x.len(), 0.0);
        self.n += 1.0;
        self.y += y;
        self.x.iter_mut().zip(x).for_each(|(sum, x)| *sum += f64::from(*x));
    }

    /// A row less the mean.
    fn centred(&self, x: &[f32], y: f64) -> (Vec<f64>, f64) {
        let x = x.iter().zip(&self.x).map(|(x, sum)| f64::from(*x) - sum / self.n).collect();
        (x, y - self.y / self.n)
    }

    /// Offset that removes the mean error of a map.
    fn bias(&self, weights: &[f64]) -> f64 {
        self.y / self.n - self.x.iter().zip(weights).map(|(sum, weight)| sum / self.n * weight).sum::<f64>()
    }
}

/// Score of a rated translation by a map that was fitted without it.
#[derive(Clone, Copy)]
struct Guess {
    /// At most 0.
    score: f64,
    /// Raters' penalty, at least 0.
    penalty: f64,
    /// Length of its source.
    bytes: usize,
}

/// A translation's inputs and its human rating.
type Row = (Vec<f32>, f64);

/// Means of corpora and of sources, and the standard deviation of each corpus's ratings.
#[derive(Default)]
struct Norms<'a> {
    of_corpus: BTreeMap<&'a str, Mean>,
    of_source: BTreeMap<&'a str, Mean>,
    deviations: BTreeMap<&'a str, f64>,
}

impl<'a> Norms<'a> {
    fn new(examples: &'a [Example<'_>], rows: &[Row]) -> Self {
        let mut norms = Self::default();
        for (example, (x, y)) in examples.iter().zip(rows) {
            norms.of_corpus.entry(&example.scale).or_default().add(x, *y);
            norms.of_source.entry(&example.source).or_default().add(x, *y);
        }
        let mut squares: BTreeMap<&str, f64> = BTreeMap::new();
        for (example, (_, y)) in examples.iter().zip(rows) {
            let mean = &norms.of_corpus[example.scale.as_str()];
            *squares.entry(&example.scale).or_default() += (y - mean.y / mean.n).powi(2) / mean.n;
        }
        // Ratings that are all the same have no unit; any is as good.
        norms.deviations = squares
            .into_iter()
            .map(|(corpus, square)| (corpus, if square > 1e-9 { square.sqrt() } else { 1.0 }))
            .collect();
        norms
    }

    /// A translation's rows in units of its corpus: less the corpus's mean, and less its source's where that
    /// has several translations.
    fn rows(&self, example: &Example<'_>, (x, y): &Row) -> Vec<(Vec<f64>, f64)> {
        let deviation = self.deviations[example.scale.as_str()];
        let source = &self.of_source[example.source.as_str()];
        let means = [Some(&self.of_corpus[example.scale.as_str()]), Some(source).filter(|mean| mean.n > 1.0)];
        let row = |mean: &Mean| {
            let (x, y) = mean.centred(x, *y);
            (x, y / deviation)
        };
        means.into_iter().flatten().map(row).collect()
    }

    /// The row of a corrupted translation less the mean of it and of the original, in units of the corpus.
    fn corruption_row(&self, case: &Corrupted<'_>, original: &[f32], corrupted: &[f32]) -> (Vec<f64>, f64) {
        let deviation = self.deviations[scale(case.document, case.rated).as_str()];
        let rows = original.iter().zip(corrupted);
        let x = rows.map(|(before, after)| (f64::from(*after) - f64::from(*before)) / 2.0).collect();
        (x, -case.points / deviation / 2.0)
    }

    /// The mean deviation of the penalties. Unit: MQM points.
    fn unit(&self, examples: &[Example<'_>]) -> f64 {
        let of = examples.iter().filter(|example| example.is_penalty());
        let (n, sum) = of.fold((0.0, 0.0), |(n, sum): (f64, f64), example| {
            (n + 1.0, sum + self.deviations[example.scale.as_str()])
        });
        sum / n.max(1.0)
    }
}

impl Scoring {
    /// The weights of the mean state and of the facts.
    pub fn split_map(&self) -> (&[f64], Facts) {
        let (states, facts) =
            self.map.split_last_chunk::<{ facts::COUNT }>().expect("the inputs end in the facts");
        (states, Facts(*facts))
    }

    pub fn fit(
        examples: &[Example<'_>],
        corrupted: &[Corrupted<'_>],
        readings: &mut Readings,
        subject: &Subject<'_>,
    ) -> Result<Self> {
        let mut rows: Vec<Row> = Vec::with_capacity(examples.len());
        for example in examples {
            let x = narrow_inputs(readings, subject, &example.rated.segment)?;
            rows.push((x, example.target(subject.weights)));
        }
        let norms = Norms::new(examples, &rows);
        let width = rows.first().map_or(1, |(x, _)| x.len());
        let mut folds = Folds::new(width);
        for (example, row) in examples.iter().zip(&rows) {
            for (x, y) in norms.rows(example, row) {
                folds.add(example.fold, &x, y)?;
            }
        }
        let mut corrupted_folds = Folds::new(width);
        for case in corrupted {
            let [original, corrupted] =
                [&case.rated.segment, &case.segment].map(|segment| narrow_inputs(readings, subject, segment));
            let (x, y) = norms.corruption_row(case, &original?, &corrupted?);
            let (fold, negated) = (fold(case.document), x.iter().map(|x| -x).collect::<Vec<_>>());
            corrupted_folds.add(fold, &x, y)?;
            corrupted_folds.add(fold, &negated, -y)?;
        }
        let mut folds = folds.sums()?;
        let weight = CORRUPTED_SHARE * examples.len() as f64 / corrupted.len().max(1) as f64;
        for (sums, more) in folds.iter_mut().zip(corrupted_folds.sums()?) {
            sums.add_sums(&more, weight);
        }
        let all = total(&folds, width, 1);
        let (lambda, maps) = best(&folds, &all)?;
        let unit = norms.unit(examples);
        let map = scaled(&all.solve(lambda)?, unit);
        let maps: Vec<Vec<f64>> = maps.iter().map(|map| scaled(map, unit)).collect();
        let penalties: Vec<(&Example<'_>, &Row)> =
            examples.iter().zip(&rows).filter(|(example, _)| example.is_penalty()).collect();
        Ok(Self { calibrations: calibrations(&penalties, &map, &maps), map, lambda })
    }
}

/// The inputs of a translation.
fn narrow_inputs(readings: &mut Readings, subject: &Subject<'_>, segment: &Segment) -> Result<Vec<f32>> {
    let reading = readings.of(subject.prompts, segment)?;
    Ok(inputs(&reading, segment).into_iter().map(|x| x as f32).collect())
}

/// The sums of each fold, to which rows are added one by one.
struct Folds {
    sums: Vec<Sums>,
    waiting: Vec<(Vec<f64>, Vec<f64>)>,
}

impl Folds {
    fn new(width: usize) -> Self {
        let sums = (0..FOLDS).map(|_| Sums::new(width, 1)).collect();
        Self { sums, waiting: vec![Default::default(); FOLDS] }
    }

    fn add(&mut self, fold: usize, x: &[f64], y: f64) -> Result<()> {
        let (xs, ys) = &mut self.waiting[fold];
        xs.extend(x);
        ys.push(y);
        if ys.len() >= ROWS {
            self.sums[fold].add(xs, ys)?;
            xs.clear();
            ys.clear();
        }
        Ok(())
    }

    fn sums(mut self) -> Result<Vec<Sums>> {
        for (sums, (xs, ys)) in self.sums.iter_mut().zip(&self.waiting) {
            sums.add(xs, ys)?;
        }
        Ok(self.sums)
    }
}

/// A map's weights in MQM points.
fn scaled(map: &Map, unit: f64) -> Vec<f64> {
    map.weights[0].iter().map(|weight| weight * unit).collect()
}

/// By pair, and for all: the offset of the map, and the calibration of its scores to penalties. Each of
/// `maps` was fitted without the fold that it is applied to; its offset is that over all folds, as for the
/// final map.
fn calibrations(
    penalties: &[(&Example<'_>, &Row)],
    map: &[f64],
    maps: &[Vec<f64>],
) -> BTreeMap<String, QuantileMap> {
    let mut means: BTreeMap<&str, Mean> = BTreeMap::new();
    for (example, (x, y)) in penalties {
        for pair in [example.pair.as_str(), fit::ANY_PAIR] {
            means.entry(pair).or_default().add(x, *y);
        }
    }
    let guess = |(example, (x, y)): &(&Example<'_>, &Row)| {
        let weights = &maps[example.fold];
        let weighed: f64 = x.iter().zip(weights).map(|(x, weight)| f64::from(*x) * weight).sum();
        let score = (weighed + means[example.pair.as_str()].bias(weights)).min(0.0);
        let bytes = source_bytes(&example.rated.segment.source);
        // `0.0 -`: not -0.0.
        (example.pair.clone(), Guess { score, penalty: 0.0 - y.min(0.0), bytes })
    };
    let guessed: Vec<(String, Guess)> = penalties.iter().map(guess).collect();
    let calibration = |(pair, mean): (&&str, &Mean)| {
        let of = guessed.iter().filter(|(of, _)| *pair == of || *pair == fit::ANY_PAIR);
        let of: Vec<Guess> = of.map(|(_, guess)| *guess).collect();
        let bands = if *pair == fit::ANY_PAIR { Vec::new() } else { bands(&of) };
        ((*pair).to_owned(), QuantileMap { bias: mean.bias(map), lengths: lengths(of), bands })
    };
    means.iter().map(calibration).collect()
}

/// Bands: translations sorted by score are cut into equal parts, those that score 0 in one. Each band has the
/// mean score and the 5 % and 95 % quantiles of the ratings, both made non-decreasing.
fn bands(guessed: &[Guess]) -> Vec<[f64; 3]> {
    let mut near: Vec<[f64; 2]> = guessed.iter().map(|guess| [guess.score, 0.0 - guess.penalty]).collect();
    near.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let n_below = near.partition_point(|[score, _]| *score < 0.0);
    let n_zero = near.len() - n_below;
    let (below, zero_scores) = match (n_below < MIN_PER_BAND, n_zero < MIN_PER_BAND) {
        (_, true) => (&near[..], &[][..]),
        (true, false) => (&[][..], &near[..]),
        (false, false) => near.split_at(n_below),
    };
    let n_parts = (below.len() / MIN_PER_BAND).min(MAX_BANDS);
    let parts = (0..n_parts).map(|i| &below[i * below.len() / n_parts..(i + 1) * below.len() / n_parts]);
    let mut bands: Vec<[f64; 3]> = Vec::with_capacity(n_parts + 1);
    for part in parts.chain((!zero_scores.is_empty()).then_some(zero_scores)) {
        let [score, low, high] = band(part);
        let last = bands.last().copied().unwrap_or([f64::NEG_INFINITY; 3]);
        bands.push([score, low.max(last[1]), high.max(last[2])]);
    }
    bands
}

/// The mean score of some translations, and the quantiles of their ratings. The ranks are those of split
/// conformal prediction, so that the share holds for one more translation, too.
fn band(part: &[[f64; 2]]) -> [f64; 3] {
    let mean = part.iter().map(|[score, _]| score).sum::<f64>() / part.len() as f64;
    let mut rated: Vec<f64> = part.iter().map(|[_, rated]| *rated).collect();
    rated.sort_by(f64::total_cmp);
    let at = ((BAND_TAIL * (rated.len() + 1) as f64) as usize).saturating_sub(1);
    [mean, rated[at], rated[rated.len() - 1 - at]]
}

/// Groups of translations by the length of their sources, with the quantiles of each.
fn lengths(mut guessed: Vec<Guess>) -> Vec<Length> {
    guessed.sort_by_key(|guess| guess.bytes);
    let n = guessed.len();
    let parts = LENGTH_BOUNDS.map(|share| (share * n as f64) as usize);
    let parts = if parts[4] - parts[3] < MIN_PER_LENGTH { &[0, n][..] } else { &parts[..] };
    let length = |of: &[Guess]| {
        let log_bytes: f64 = of.iter().map(|guess| (guess.bytes as f64).ln()).sum();
        Length { source_bytes: (log_bytes / of.len().max(1) as f64).exp(), quantiles: quantiles(of) }
    };
    parts.windows(2).map(|ends| length(&guessed[ends[0]..ends[1]])).collect()
}

/// Pairs of score and penalty of the same rank, without the worst ranks.
fn quantiles(guessed: &[Guess]) -> Vec<[f64; 2]> {
    let (mut scores, mut penalties): (Vec<f64>, Vec<f64>) =
        guessed.iter().map(|guess| (guess.score, guess.penalty)).unzip();
    scores.sort_by(f64::total_cmp);
    penalties.sort_by(|a, b| b.total_cmp(a));
    let first = (TRIMMED_SHARE * scores.len() as f64) as usize;
    let last = scores.len().saturating_sub(1);
    let n = MAX_QUANTILES.min(scores.len());
    (0..n)
        .map(|i| first + i * last.saturating_sub(first) / (n - 1).max(1))
        .map(|at| [scores[at], penalties[at]])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guessed(n: usize, penalty: impl Fn(usize) -> f64) -> Vec<Guess> {
        (0..n).map(|i| Guess { score: -(i as f64), penalty: penalty(i), bytes: 1 }).collect()
    }

    #[test]
    fn nine_in_ten_lie_within_a_band() {
        // Parts of 100 translations, whose penalties are 0 to 99 in some order.
        let bands = bands(&guessed(300, |i| (i * 37 % 100) as f64));
        assert_eq!(bands.len(), 3);
        // Five of 101, the translation to come among them, lie beyond each end.
        assert_eq!(format!("{:?}", bands[0]), "[-249.5, -95.0, -4.0]");
        assert!(bands.windows(2).all(|two| two[0][0] < two[1][0]), "{bands:?}");
    }

    #[test]
    fn a_better_score_never_has_a_lower_band() {
        // The worse the score, the smaller the penalty.
        let bands = bands(&guessed(400, |i| 400.0 - i as f64));
        assert!(bands.windows(2).all(|two| two[0][1] <= two[1][1] && two[0][2] <= two[1][2]), "{bands:?}");
    }

    #[test]
    fn what_scores_0_is_one_part_however_it_was_rated() {
        let mut all = guessed(200, |_| 3.0);
        for guess in &mut all {
            guess.score -= 1.0;
        }
        all.extend((0..150).map(|i| Guess { score: 0.0, penalty: f64::from(i % 2), bytes: 1 }));
        let bands = bands(&all);
        assert_eq!((bands.len(), format!("{:?}", bands[2])), (3, "[0.0, -1.0, 0.0]".to_owned()));
    }

    #[test]
    fn a_few_below_0_share_the_band_of_those_that_score_0() {
        let mut all = guessed(MIN_PER_BAND, |_| 7.0);
        all.truncate(MIN_PER_BAND - 1);
        for guess in &mut all {
            guess.score = -1.0;
        }
        all.extend((0..151).map(|_| Guess { score: 0.0, penalty: 0.0, bytes: 1 }));
        // 99 of 250 score -1 and were rated -7.
        assert_eq!(format!("{:?}", bands(&all)), "[[-0.396, -7.0, 0.0]]");
    }

    #[test]
    fn too_few_have_no_band_and_many_have_ten() {
        assert!(bands(&guessed(MIN_PER_BAND - 1, |_| 1.0)).is_empty());
        assert_eq!(bands(&guessed(5_000, |_| 1.0)).len(), MAX_BANDS);
    }

    #[test]
    fn a_length_has_the_ranks_of_texts_as_long() {
        // Half of the sources have 10 bytes; a quarter, three twentieths and a tenth ten times as many each.
        let bytes =
            |i: usize| [10, 100, 1_000, 10_000][[500, 750, 900].iter().filter(|&&end| i >= end).count()];
        let of = |i: usize| Guess { score: -((i % 100) as f64), penalty: (i / 500) as f64, bytes: bytes(i) };
        let found = lengths((0..1_000).rev().map(of).collect());
        let all: Vec<f64> = found.iter().map(|length| length.source_bytes.round()).collect();
        assert_eq!(format!("{all:?}"), "[10.0, 100.0, 1000.0, 10000.0]");
        for (length, penalty) in found.iter().zip([0.0, 1.0, 1.0, 1.0]) {
            assert!(
                length.quantiles.iter().all(|[_, of_rank]| (of_rank - penalty).abs() < 1e-9),
                "{length:?}"
            );
            assert!(length.quantiles.windows(2).all(|two| two[0][0] <= two[1][0]), "{length:?}");
        }
        // Without the worst twentieth.
        let ends = |i: usize| [0, MAX_QUANTILES - 1].map(|at| found[i].quantiles[at][0]);
        assert_eq!(format!("{:?} {:?}", ends(0), ends(3)), "[-94.0, -0.0] [-94.0, -0.0]");
    }

    #[test]
    fn few_are_of_one_length() {
        let of = |i: usize| Guess { score: -(i as f64), penalty: i as f64, bytes: i + 1 };
        let found = lengths((0..400).map(of).collect());
        assert_eq!((found.len(), found[0].quantiles.len()), (1, MAX_QUANTILES));
        assert_eq!(lengths(vec![of(3)])[0].quantiles, [[-3.0, 3.0]]);
    }
}
