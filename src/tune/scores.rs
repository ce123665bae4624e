//! Learning to be scored rightly: the layers below a probe's depth are trained so that the probe's maps, which stay as they
//! are, read the raters' score off their states. `tune probe` then fits the maps again.
//!
//! An example is one source with its translations. Of each translation the score's error `e` counts twice: as it is, and
//! as its difference from the mean of its source, because what ranks translations of one source is only the latter. Each
//! counts by its square up to one standard deviation `s` of the raters' scores and in proportion from there on, because
//! the few worst translations would otherwise decide every step: `sum(h(e / s) + h((e - mean(e)) / s))`.
//!
//! Source of `h`: Huber 1964, "Robust estimation of a location parameter".

use std::ops::Range;

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::{
    Error, draw,
    forward::Upper,
    lower::Text,
    probe::is_usable,
    rated::{Document, Rated, by_source},
    readings::Readings,
    task::{Gradient, Loss, Task},
};
use crate::{
    engine::Engine,
    judges::{
        probe::{
            self,
            fit::{self, Fit},
        },
        prompt::Prompts,
    },
    mqm::weights::Weights,
};

/// A rated translation.
#[derive(Clone, Debug)]
struct Translation {
    /// Prompt and translation.
    tokens: Vec<u32>,
    n_prompt: usize,
    /// What the fit's score does not take from states, without the raters' score: what is left for the states to take
    /// away.
    apart: f64,
}

/// Sources with their translations, and the maps that read them.
pub struct Scores {
    translations: Vec<Translation>,
    sources: Vec<Range<usize>>,
    /// Of [`fit::Score`].
    mean: Vec<f32>,
    grown: Vec<f32>,
    /// The standard deviation of the raters' scores.
    deviation: f64,
}

/// A rated translation that was chosen.
pub struct Chosen<'a> {
    pub rated: &'a Rated,
    tokens: Vec<u32>,
    n_prompt: usize,
}

/// The sources of these documents in an order drawn by the seed, `most` of them, with their translations of at most so
/// many tokens, prompt included.
///
/// # Errors
/// A prompt that cannot be filled in.
pub fn chosen<'a>(
    documents: &'a [Document],
    (most, max_tokens, seed): (usize, usize, u64),
    (engine, prompts): (&Engine, &Prompts),
) -> Result<Vec<Vec<Chosen<'a>>>, Error> {
    let mut sources = by_source(documents);
    draw::shuffle(seed, 0, &mut sources);
    let mut all = Vec::new();
    for source in sources {
        if all.len() == most {
            break;
        }
        let mut translations = Vec::new();
        for rated in source.into_iter().filter(|rated| is_usable(rated)) {
            let (tokens, n_prompt) = tokens(engine, prompts, rated)?;
            if tokens.len() <= max_tokens {
                translations.push(Chosen { rated, tokens, n_prompt });
            }
        }
        if !translations.is_empty() {
            all.push(translations);
        }
    }
    Ok(all)
}

impl Scores {
    /// Chosen sources, for a fit. Without readings, as for a trial, nothing is known of the translations' own
    /// probabilities.
    ///
    /// # Errors
    /// A translation that was not read.
    pub fn new(
        sources: Vec<Vec<Chosen<'_>>>,
        readings: Option<&mut Readings>,
        (fit, prompts, weights): (&Fit, &Prompts, &Weights),
    ) -> Result<Self, Error> {
        let mut readings = readings;
        let (mut translations, mut ranges, mut raters) = (Vec::new(), Vec::new(), Vec::new());
        for source in sources {
            let first = translations.len();
            for Chosen { rated, tokens, n_prompt } in source {
                let logprobs = match &mut readings {
                    Some(readings) => readings.of(prompts, &rated.segment)?.logprobs,
                    None => Vec::new(),
                };
                let logprobs: Vec<f64> = logprobs.into_iter().map(fit::clipped).collect();
                let of_raters = rated.score(weights);
                let apart = fit.without_states(&logprobs, &probe::pair(&rated.segment)) - of_raters;
                translations.push(Translation { tokens, n_prompt, apart });
                raters.push(of_raters);
            }
            ranges.push(first..translations.len());
        }
        let (mean, grown) = (fit.score.mean.clone(), fit.score.grown.clone());
        let deviation = deviation(&raters).max(1e-9);
        Ok(Self { translations, sources: ranges, mean, grown, deviation })
    }

    /// These sources, and behind them others, whose scores count in the unit of the first.
    #[must_use]
    pub fn followed_by(mut self, others: Self) -> Self {
        let first = self.translations.len();
        self.sources.extend(others.sources.into_iter().map(|range| first + range.start..first + range.end));
        self.translations.extend(others.translations);
        self
    }

    /// Tells these from the same texts with other ratings, or for another fit.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        self.translations.iter().for_each(|translation| hash.update(translation.apart.to_le_bytes()));
        hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// What a translation's mean state is multiplied with.
    fn map(&self, n: usize) -> Vec<f64> {
        let root = (n as f64).sqrt();
        self.mean.iter().zip(&self.grown).map(|(a, b)| f64::from(*a) + root * f64::from(*b)).collect()
    }

    /// The error of a translation's score.
    ///
    /// Shape: `rows` `[tokens, hidden]`.
    fn error(&self, translation: &Translation, rows: &[f32]) -> f64 {
        let (n, map) = (translation.n_own(), self.map(translation.n_own()));
        let shown = rows.chunks_exact(map.len()).map(|row| dot(&map, row) / scale(row));
        translation.apart + shown.sum::<f64>() / n as f64
    }

    /// The gradient of the score towards the rows, times `by`: of `map . row / |row|`, with `|row|` the root of the mean
    /// square, it is `(map - row (map . row) / (hidden |row|^2)) / |row|`.
    fn gradient(&self, translation: &Translation, rows: &[f32], by: f64, out: &mut [f32]) {
        let (n, map) = (translation.n_own(), self.map(translation.n_own()));
        let hidden = map.len();
        for (row, out) in rows.chunks_exact(hidden).zip(out.chunks_exact_mut(hidden)) {
            let scale = scale(row);
            let along = dot(&map, row) / (hidden as f64 * scale * scale);
            for ((out, x), weight) in out.iter_mut().zip(row).zip(&map) {
                *out = (by / n as f64 * (weight - f64::from(*x) * along) / scale) as f32;
            }
        }
    }

    /// See [`Task::loss`].
    fn loss_of(&self, rows: &[f32], examples: &[usize], gradient: Gradient) -> Loss {
        let hidden = self.mean.len();
        let mut loss = Loss::default();
        let mut rest = rows;
        for &example in examples {
            let translations = &self.translations[self.texts_of(example)];
            let mut own: Vec<&[f32]> = Vec::new();
            for translation in translations {
                let (rows, behind) = rest.split_at(translation.n_own() * hidden);
                own.push(rows);
                rest = behind;
            }
            let both: Vec<(&Translation, &[f32])> = translations.iter().zip(own).collect();
            let errors: Vec<f64> = both.par_iter().map(|(t, rows)| self.error(t, rows)).collect();
            let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
            let count = |error: &f64| (huber(error / self.deviation), huber((error - mean) / self.deviation));
            let counted: Vec<_> = errors.iter().map(count).collect();
            loss.n += errors.len();
            loss.sum += counted.iter().map(|((own, _), (within, _))| own + within).sum::<f64>();
            if gradient == Gradient::Wanted {
                // The mean moves with every score.
                let moved =
                    counted.iter().map(|(_, (_, slope))| slope).sum::<f64>() / errors.len().max(1) as f64;
                for ((translation, rows), ((_, own), (_, within))) in both.iter().zip(&counted) {
                    let mut out = vec![0.0; rows.len()];
                    let by = (own + within - moved) / self.deviation;
                    self.gradient(translation, rows, by, &mut out);
                    loss.gradient.extend(out);
                }
            }
        }
        loss
    }
}

impl Translation {
    /// Tokens of the translation itself.
    fn n_own(&self) -> usize {
        self.tokens.len() - self.n_prompt
    }
}

impl Task for Scores {
    fn texts(&self) -> Vec<Text<'_>> {
        self.translations
            .iter()
            .map(|translation| Text { tokens: &translation.tokens, wanted_from: translation.n_prompt })
            .collect()
    }

    fn len(&self) -> usize {
        self.sources.len()
    }

    fn texts_of(&self, example: usize) -> Range<usize> {
        self.sources[example].clone()
    }

    fn loss(&self, _: &Upper, rows: &[f32], examples: &[usize], gradient: Gradient) -> Loss {
        self.loss_of(rows, examples, gradient)
    }
}

/// What the model reads of a translation, and how many of the tokens are the prompt's.
fn tokens(engine: &Engine, prompts: &Prompts, rated: &Rated) -> Result<(Vec<u32>, usize), Error> {
    let unfit = |e: &dyn std::fmt::Display| Error::Unsuitable(e.to_string());
    let chat = probe::chat(prompts, &rated.segment).map_err(|e| unfit(&e))?;
    let mut tokens = engine.prompt_ids(&chat)?;
    let n_prompt = tokens.len();
    let text = engine.tokenizer().encode_data(&probe::text(&rated.segment));
    tokens.extend(text.map_err(|e| unfit(&e))?);
    Ok((tokens, n_prompt))
}

fn dot(map: &[f64], row: &[f32]) -> f64 {
    map.iter().zip(row).map(|(a, b)| a * f64::from(*b)).sum()
}

/// As [`crate::llm::States::features`] scales a state.
fn scale(row: &[f32]) -> f64 {
    let square: f64 = row.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
    (square / row.len().max(1) as f64).sqrt().max(f64::MIN_POSITIVE)
}

fn deviation(values: &[f64]) -> f64 {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n).sqrt()
}

/// The square up to 1 and its tangent from there on; and the slope.
fn huber(x: f64) -> (f64, f64) {
    if x.abs() <= 1.0 { (x * x, 2.0 * x) } else { (2.0 * x.abs() - 1.0, 2.0 * x.signum()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores() -> Scores {
        let translation = |n: usize, apart: f64| Translation { tokens: vec![1; 2 + n], n_prompt: 2, apart };
        Scores {
            translations: vec![translation(3, 1.0), translation(2, -2.0), translation(1, 0.5)],
            sources: vec![0..2, 2..3],
            mean: vec![0.5, -1.0, 0.25, 2.0],
            grown: vec![0.1, 0.3, -0.2, 0.4],
            deviation: 0.5,
        }
    }

    fn rows(n: usize) -> Vec<f32> {
        (0..n).map(|i| draw::unit(3, 1, i as u64) - 0.4).collect()
    }

    #[test]
    fn the_error_is_that_of_the_judges_score() {
        let (scores, rows) = (scores(), rows(12));
        // As `fit::Fit::score` computes it: means of mapped, scaled states, the second times the root of their number.
        let states =
            crate::llm::States { ends: vec![1, 2, 3], states: vec![rows.clone()], ..Default::default() };
        let mapped = |map: &[f32]| -> f64 {
            (0..3)
                .map(|t| states.features(t).iter().zip(map).map(|(x, w)| f64::from(x * w)).sum::<f64>())
                .sum()
        };
        let expected = 1.0 + mapped(&scores.mean) / 3.0 + 3_f64.sqrt() * mapped(&scores.grown) / 3.0;
        assert!((scores.error(&scores.translations[0], &rows) - expected).abs() < 1e-6);
    }

    #[test]
    fn a_source_counts_what_differs_within_it_twice() {
        let (scores, rows) = (scores(), rows(24));
        let errors = [(0, 0..12), (1, 12..20), (2, 20..24)]
            .map(|(i, at)| scores.error(&scores.translations[i], &rows[at]));
        let half = (errors[0] - errors[1]) / 2.0;
        let h = |e: f64| if e.abs() <= 0.5 { 4.0 * e * e } else { 4.0 * e.abs() - 1.0 };
        assert!(errors.iter().any(|e| e.abs() > 0.5) && errors.iter().any(|e| e.abs() <= 0.5), "{errors:?}");
        let expected = errors.iter().map(|e| h(*e)).sum::<f64>() + 2.0 * h(half);
        let loss = scores.loss_of(&rows, &[0, 1], Gradient::Unwanted);
        assert!((loss.sum - expected).abs() < 1e-9, "{} {expected}", loss.sum);
        assert_eq!((loss.n, loss.gradient.len()), (3, 0));
    }

    #[test]
    fn the_gradient_is_that_of_finite_differences() {
        let (scores, rows) = (scores(), rows(24));
        let gradient = scores.loss_of(&rows, &[0, 1], Gradient::Wanted).gradient;
        assert_eq!(gradient.len(), rows.len());
        for i in 0..rows.len() {
            let at = |by: f32| {
                let mut rows = rows.clone();
                rows[i] += by;
                scores.loss_of(&rows, &[0, 1], Gradient::Unwanted).sum
            };
            let slope = (at(1e-3) - at(-1e-3)) / 2e-3;
            assert!((slope - f64::from(gradient[i])).abs() < 1e-2 * slope.abs().max(0.1), "{i}: {slope}");
        }
    }
}
