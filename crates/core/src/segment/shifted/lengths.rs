//! Finds lines whose lengths fit the sources of neighbouring lines better than their own: a line that was lost or
//! written twice shifts all lines behind it. It reads no words.
//!
//! Source: Gale and Church 1993, A Program for Aligning Sentences in Bilingual Corpora: the length of a translation is
//! normally distributed about that of its source, with a variance that grows with it. Ratio and variance are the
//! medians of the file itself.

use super::FURTHEST;

/// Lines of a stretch at the least.
const FEWEST: usize = 4;

/// Lines of a file at the least.
const SHORTEST: usize = 8;

/// Log-likelihood ratio of a stretch at the least. On WMT23's en-de and zh-en, 31 systems, the greatest of any aligned
/// stretch is 19.6, and that of the lines behind a lost one is mostly above 28 for seven lines.
const LEAST: f64 = 25.0;

/// What one line can say, in log-likelihood.
const MOST_OF_A_LINE: f64 = 8.0;

/// How many times the mean deviation of the best fit another one may have to fit about as well.
const AS_CLOSE: f64 = 1.25;

/// The least variance per character, for translations of nearly constant ratio.
const LEAST_VARIANCE: f64 = 0.5;

/// The median of the square of a standard normal variable.
const MEDIAN_OF_SQUARE: f64 = 0.4549;

/// Lines of translations that belong to other sources.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// The first and the last line of the translations, from 0.
    pub first: usize,
    pub last: usize,
    /// How many lines further down than their sources the translations stand; never 0.
    pub shift: i64,
    /// How much likelier the lengths are with the shift than without. Unit: nats.
    pub log_likelihood_ratio: f64,
}

/// The most certain stretch of shifted lines, by the lengths of sources and translations in characters; `None` where
/// there is none.
///
/// ```
/// use tribunal_core::segment::shifted::lengths::stretch;
/// let sources: Vec<usize> = (0..40).map(|at| 20 + at * 37 % 150).collect();
/// let aligned: Vec<(usize, usize)> = sources.iter().map(|n| (*n, n + n % 7)).collect();
/// assert_eq!(stretch(&aligned), None);
/// // The translation of line 10 is lost, and those behind it stand one line further up.
/// let mut shifted = aligned.clone();
/// for at in 10..39 {
///     shifted[at].1 = aligned[at + 1].1;
/// }
/// let found = stretch(&shifted).unwrap();
/// assert_eq!((found.first, found.last, found.shift), (10, 38, -1));
/// ```
#[must_use]
pub fn stretch(lengths: &[(usize, usize)]) -> Option<Stretch> {
    let shifts = || -FURTHEST..=FURTHEST;
    let model = shifts().filter_map(|shift| Model::of(lengths, shift));
    let model =
        model.min_by(|a, b| a.variance.total_cmp(&b.variance)).filter(|_| lengths.len() >= SHORTEST)?;
    let stretches = shifts().filter(|shift| *shift != 0).map(|shift| model.best_stretch(lengths, shift));
    let is_found =
        |found: &Stretch| found.log_likelihood_ratio >= LEAST && found.last + 1 - found.first >= FEWEST;
    let stretches: Vec<(Stretch, f64)> = stretches.filter(|(found, _)| is_found(found)).collect();
    let most = stretches.iter().map(|(found, _)| found.log_likelihood_ratio).fold(0.0, f64::max);
    // A line says only so much, so that several shifts can be about as likely, but for the lines that a shift leaves without a
    // source. The one that fits best is meant; of those that fit about as well, as in texts whose lengths come again, the
    // shortest.
    let least = most - MOST_OF_A_LINE * FURTHEST as f64;
    let likely = || stretches.iter().filter(|(found, _)| found.log_likelihood_ratio >= least);
    let closest = likely().map(|(_, deviation)| *deviation).fold(f64::INFINITY, f64::min);
    let as_close = likely().filter(|(_, deviation)| *deviation <= AS_CLOSE * closest);
    as_close.map(|(found, _)| *found).min_by_key(|found| found.shift.abs())
}

/// How long translations are.
struct Model {
    /// Characters of a translation for one of its source.
    ratio: f64,
    /// Variance of a translation's length for one character of its source.
    variance: f64,
}

impl Model {
    /// Fitted to the lines as a shift pairs them; `None` for no pair.
    fn of(lengths: &[(usize, usize)], shift: i64) -> Option<Self> {
        let pairs: Vec<(f64, f64)> =
            (0..lengths.len()).filter_map(|line| shifted(lengths, line, shift)).collect();
        let ratio = median(pairs.iter().map(|(source, target)| target / source))?;
        let variance = median(pairs.iter().map(|(s, t)| (t - ratio * s).powi(2) / s))? / MEDIAN_OF_SQUARE;
        Some(Self { ratio, variance: variance.max(LEAST_VARIANCE) })
    }

    /// The squared deviation of a translation's length, in units of its variance.
    fn deviation(&self, (source, target): (f64, f64)) -> f64 {
        (target - self.ratio * source).powi(2) / (self.variance * source)
    }

    /// The stretch of greatest log-likelihood ratio, and the mean deviation of its lines from the sources that the shift gives
    /// them.
    fn best_stretch(&self, lengths: &[(usize, usize)], shift: i64) -> (Stretch, f64) {
        let mut best = (Stretch { first: 0, last: 0, shift, log_likelihood_ratio: 0.0 }, f64::INFINITY);
        let (mut sum, mut deviations, mut n, mut first) = (0.0, 0.0, 0.0, 0);
        for line in 0..lengths.len() {
            if sum <= 0.0 {
                (sum, deviations, n, first) = (0.0, 0.0, 0.0, line);
            }
            let Some((own, other)) = shifted(lengths, line, 0).zip(shifted(lengths, line, shift)) else {
                continue;
            };
            let [own, other] = [own, other].map(|pair| self.deviation(pair));
            sum += ((own - other) / 2.0).clamp(-MOST_OF_A_LINE, MOST_OF_A_LINE);
            (deviations, n) = (deviations + other, n + 1.0);
            if sum > best.0.log_likelihood_ratio {
                best = (Stretch { first, last: line, shift, log_likelihood_ratio: sum }, deviations / n);
            }
        }
        best
    }
}

/// The lengths of the translation in a line and of the source so many lines further up.
fn shifted(lengths: &[(usize, usize)], line: usize, shift: i64) -> Option<(f64, f64)> {
    let other = usize::try_from(i64::try_from(line).ok()? - shift).ok()?;
    let (source, target) = (lengths.get(other)?.0, lengths[line].1);
    (source > 0).then_some((source as f64, target as f64))
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(n: usize) -> Vec<(usize, usize)> {
        (0..n).map(|at| (15 + at * 53 % 170, 18 + at * 53 % 170 + at % 9)).collect()
    }

    #[test]
    fn a_line_that_is_written_twice_shifts_the_rest_down() {
        let aligned = lines(60);
        let mut twice = aligned.clone();
        for at in (31..60).rev() {
            twice[at].1 = aligned[at - 1].1;
        }
        let found = stretch(&twice).unwrap();
        assert!((30..33).contains(&found.first) && found.last >= 57, "{found:?}");
        assert_eq!(found.shift, 1);
    }

    #[test]
    fn aligned_short_and_empty_files_have_no_stretch() {
        assert_eq!(stretch(&lines(60)), None);
        assert_eq!(stretch(&lines(7)), None);
        assert_eq!(stretch(&[]), None);
        assert_eq!(stretch(&[(0, 10); 20]), None);
        assert_eq!(stretch(&[(10, 12); 20]), None);
    }
}
