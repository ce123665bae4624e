//! A fit: the maps that read a score and the chances of errors off a model's states, with all that they hold for. It is
//! read here and applied; `tune/probe` makes it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde::{Deserialize, Serialize};
use tribunal_core::digest;

use super::facts::Facts;
use crate::{
    Error, Model,
    llm::{Lens, Scored},
    segment::{Segment, trained::TrainedOn},
    setup,
};

/// What the first field of a fit's file says.
pub const FORMAT: &str = "tribunal-probe/2";

/// The pair whose calibration holds for pairs that a fit was not made on.
pub const ANY_PAIR: &str = "*";

/// The fit that comes with the program.
const BUILT_IN: &str = include_str!("../../../../models/fits/qwen2.5-coder-0.5b-instruct.json");

/// More layers than any decoder has.
const MAX_DEPTH: usize = 1 << 10;

/// Log-probabilities below this count as this: how impossible a rare name is says little.
const LEAST: f64 = -12.0;

/// Maps fitted on ratings, with all that they hold for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    pub format: String,
    /// The model's name, and the first digits of the sha256 of its weights.
    pub model: String,
    pub sha256: String,
    /// The hash of the prompt in front of the translation.
    pub prompts: String,
    /// After how many layers the states are taken.
    pub depth: usize,
    pub made: Made,
    /// Chances that a rater marks a token, and that the error is a major one.
    pub any: Chance,
    pub major: Chance,
    /// A word of at least this chance of a major error makes its error major.
    pub major_from: f64,
    pub score: Score,
    /// By pair, `en-de`; [`ANY_PAIR`] for others.
    #[serde(rename = "ladders")]
    pub calibrations: BTreeMap<String, Calibration>,
    /// Filled by [`Fit::ready`].
    #[serde(skip)]
    pub applied: Applied,
}

/// What is read of a file before all else.
#[derive(Deserialize)]
struct OfFormat {
    format: String,
}

/// What a fit was made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Made {
    pub pairs: Vec<String>,
    pub segments: usize,
    /// Beside these, how many spoilt ones (`tune/spoil`).
    #[serde(default)]
    pub spoilt: usize,
    /// Of these, how many are of each corpus, `PAIR CORPUS`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub corpora: BTreeMap<String, usize>,
    pub documents: usize,
    /// The share of documents that was kept apart, by this seed (see `tune/split`), or the names that were.
    pub hold_out: HeldOut,
    pub seed: u64,
    /// Strengths of the ridge, for the chances and for the score.
    pub strengths: [f64; 2],
    /// The first 16 digits of each hash of every source that was trained on, sorted (`segment::trained`).
    pub sources: Vec<String>,
    /// What it reached on the held-out documents, by pair and figure.
    pub figures: BTreeMap<String, BTreeMap<String, f64>>,
}

/// Documents that were kept apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum HeldOut {
    Share(f64),
    Named(BTreeSet<String>),
}

impl Default for HeldOut {
    fn default() -> Self {
        Self::Share(0.0)
    }
}

/// A linear probability of a token.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chance {
    pub bias: f64,
    /// For the token's log-probability.
    pub logprob: f64,
    /// Shape: `[hidden]`.
    pub map: Vec<f32>,
}

/// A linear score of a translation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Score {
    /// For the mean of the tokens' states, `[hidden]`.
    pub mean: Vec<f32>,
    /// For what counts besides states.
    pub facts: Facts,
}

/// Where a score stands among those of a pair.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Added to the score.
    pub bias: f64,
    /// Scores, ascending, with the penalty (0 or more) of the rated translations of the same rank.
    #[serde(rename = "rungs")]
    pub quantiles: Vec<[f64; 2]>,
    /// Scores, ascending, with the rated scores (at most 0) between which nine in ten of the translations near that score
    /// lie. Empty where there were too few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bands: Vec<[f64; 3]>,
}

/// Where a value stands between the ascending first numbers of some rows: the row below and the one above, and the way
/// from the one to the other, from 0 to 1. Beyond the ends, the last row.
fn between<const N: usize>(rows: &[[f64; N]], value: f64) -> Option<([f64; N], [f64; N], f64)> {
    let at = rows.partition_point(|row| row[0] < value);
    match (at.checked_sub(1).map(|below| rows[below]), rows.get(at).copied()) {
        (Some(below), Some(above)) if above[0] > below[0] => {
            Some((below, above, (value - below[0]) / (above[0] - below[0])))
        }
        (_, Some(row)) | (Some(row), None) => Some((row, row, 0.0)),
        (None, None) => None,
    }
}

/// What follows from the fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Applied {
    hash: String,
    lens: Lens,
}

/// What a judge sees of a translation through a fit's lens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Where each token ends in the translation, in bytes.
    pub ends: Vec<usize>,
    /// The log-probability of each token, at least [`LEAST`].
    pub logprobs: Vec<f64>,
    /// What the lens shows of each token: any, major, mean.
    pub values: Vec<[f64; 3]>,
    pub facts: Facts,
}

impl Seen {
    /// From what the model said of the text ` TRANSLATION` behind its source.
    ///
    /// # Errors
    /// When it was not read through a lens of three maps.
    pub fn of(read: &Scored, source: &str) -> Result<Self, Error> {
        let broken = || Error::Failed("the model gave no reading of the translation".into());
        let reading = read.reading.as_ref().ok_or_else(broken)?;
        let values = reading.values.iter().map(|values| values[..].try_into().ok());
        let values: Vec<[f64; 3]> = values.collect::<Option<_>>().ok_or_else(broken)?;
        if values.len() != read.tokens.len() || values.is_empty() {
            return Err(broken());
        }
        let logprobs: Vec<f64> = read.tokens.iter().map(|token| clipped(token.logprob)).collect();
        Ok(Self {
            // Without the space in front.
            ends: reading.ends.iter().map(|end| end.saturating_sub(1)).collect(),
            facts: Facts::of(&logprobs, source),
            logprobs,
            values,
        })
    }

    /// What the lens shows of the mean state.
    fn mean(&self) -> f64 {
        self.values.iter().map(|values| values[2]).sum::<f64>() / self.values.len().max(1) as f64
    }
}

/// A log-probability as the maps take it.
#[must_use]
pub fn clipped(logprob: f64) -> f64 {
    logprob.max(LEAST)
}

impl Fit {
    /// The fit that comes with the program for `auto`, else a file's.
    ///
    /// # Errors
    /// As [`Fit::open`].
    pub fn named(name: &str) -> Result<Self, setup::Error> {
        match name {
            "auto" => Self::built_in(),
            path => Self::open(path.as_ref()),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read or is not a fit.
    pub fn open(path: &Path) -> Result<Self, setup::Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| setup::Error::Read { file: path.into(), source })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// The fit that comes with the program.
    ///
    /// # Errors
    /// As [`Fit::open`].
    pub fn built_in() -> Result<Self, setup::Error> {
        Self::parse(BUILT_IN, "the fit that comes with the program")
    }

    fn parse(text: &str, file: &str) -> Result<Self, setup::Error> {
        let unfit = |reason: String| setup::Error::Prompt { file: file.into(), reason };
        let no_fit = |e: serde_json::Error| {
            unfit(format!("it is not a fit, {e}; hint: `tribunal tune probe` writes one"))
        };
        // First of all: the fields of another format are others.
        let OfFormat { format } = serde_json::from_str(text).map_err(no_fit)?;
        if format != FORMAT {
            let hint = "hint: `tribunal tune probe` makes a new one";
            return Err(unfit(format!("its format is `{format}`, not `{FORMAT}`; {hint}")));
        }
        let fit: Self = serde_json::from_str(text).map_err(no_fit)?;
        let width = fit.any.map.len();
        let maps = [&fit.major.map, &fit.score.mean];
        if width == 0 || maps.iter().any(|map| map.len() != width) {
            return Err(unfit("its maps differ in length".into()));
        }
        if !(1..=MAX_DEPTH).contains(&fit.depth) {
            let reason = format!("its depth is {}; a layer from 1 to {MAX_DEPTH} was expected", fit.depth);
            return Err(unfit(reason));
        }
        if !fit.calibrations.contains_key(ANY_PAIR) {
            return Err(unfit(format!("it has no calibration `{ANY_PAIR}`")));
        }
        Ok(fit.applied(text))
    }

    fn applied(mut self, text: &str) -> Self {
        let maps = [&self.any.map, &self.major.map, &self.score.mean];
        let lens = Lens { depths: vec![self.depth], maps: maps.into_iter().cloned().collect() };
        self.applied = Applied { hash: digest::short(text), lens };
        self
    }

    /// The same fit, ready to be applied, once its fields are as they will be written.
    ///
    /// # Errors
    /// A number that JSON cannot hold.
    pub fn ready(self) -> Result<Self, setup::Error> {
        let failed = |e: serde_json::Error| setup::Error::Conflict(format!("the fit cannot be written: {e}"));
        let text = self.to_json().map_err(failed)?;
        Ok(self.applied(&text))
    }

    /// The file's text.
    ///
    /// # Errors
    /// A number that JSON cannot hold.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// The first digits of the file's sha256.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.applied.hash
    }

    /// The three maps.
    #[must_use]
    pub fn lens(&self) -> &Lens {
        &self.applied.lens
    }

    /// # Errors
    /// [`setup::Error::Conflict`] when it was made with another prompt.
    pub fn check_prompts(&self, prompts: &str) -> Result<(), setup::Error> {
        if self.prompts == prompts {
            return Ok(());
        }
        let reason = format!(
            "the fit was made with the prompt {}, and the one in force is {prompts}; hint: `tribunal tune probe`",
            self.prompts
        );
        Err(setup::Error::Conflict(reason))
    }

    /// # Errors
    /// [`setup::Error::Conflict`] when it was made for other weights.
    pub fn check_model(&self, model: &Model) -> Result<(), setup::Error> {
        if self.sha256 == model.sha256 {
            return Ok(());
        }
        let reason = format!(
            "`probe` reads the states of `{}` (sha256 {}), which it was fitted to, not those of `{}` (sha256 {}); hint: \
             with this model choose a method that writes, such as `--method gemba-mqm`, or fit it: `tribunal tune probe`",
            self.model, self.sha256, model.name, model.sha256
        );
        Err(setup::Error::Conflict(reason))
    }

    /// The texts that it was trained on.
    #[must_use]
    pub fn trained_on(&self) -> TrainedOn {
        TrainedOn::new(format!("the fit {}", self.hash()), self.made.sources.clone())
    }

    /// Pairs that it does not know.
    #[must_use]
    pub fn remarks(&self, segments: &[Segment]) -> Vec<String> {
        let pairs: BTreeSet<String> = segments.iter().map(super::pair).collect();
        let unknown = pairs.iter().filter(|pair| !self.calibrations.contains_key(*pair));
        let remark = |pair| {
            format!(
                "the fit was not made on {pair}: how well its scores agree with raters there was not measured, and its \
                 numbers of errors are guesses"
            )
        };
        unknown.map(remark).collect()
    }

    fn calibration(&self, pair: &str) -> &Calibration {
        self.calibrations.get(pair).unwrap_or(&self.calibrations[ANY_PAIR])
    }

    /// The penalty that raters would give, as the regression expects it. Unit: MQM points, at most 0.
    #[must_use]
    pub fn score(&self, seen: &Seen, pair: &str) -> f64 {
        let weighed = seen.facts.weighed(&self.score.facts);
        (self.calibration(pair).bias + weighed + seen.mean()).min(0.0)
    }

    /// The chances of each token to be marked, and marked as major.
    #[must_use]
    pub fn chances(&self, seen: &Seen) -> Vec<[f64; 2]> {
        let of = |(values, logprob): (&[f64; 3], &f64)| {
            let chance = |chance: &Chance, value: f64| {
                (chance.bias + value + chance.logprob * logprob).clamp(0.0, 1.0)
            };
            [chance(&self.any, values[0]), chance(&self.major, values[1])]
        };
        seen.values.iter().zip(&seen.logprobs).map(of).collect()
    }

    /// The penalty that raters gave to translations of this rank. Unit: MQM points, at least 0.
    #[must_use]
    pub fn budget(&self, score: f64, pair: &str) -> f64 {
        between(&self.calibration(pair).quantiles, score)
            .map_or(0.0, |(below, above, way)| below[1] + (above[1] - below[1]) * way)
    }

    /// Between which scores raters' scores of nine in ten translations of this score lie; `None` for a pair that the fit has
    /// no ratings of. Unit: MQM points, at most 0, lower first.
    #[must_use]
    pub fn interval(&self, score: f64, pair: &str) -> Option<[f64; 2]> {
        let (below, above, way) = between(&self.calibrations.get(pair)?.bands, score)?;
        let [low, high] = [1, 2].map(|end| below[end] + (above[end] - below[end]) * way);
        // Past its ends a band says nothing of how much further raters go.
        Some([low.min(score), high.max(score)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::{Reading, Token, TokenSource, Usage};

    fn fit() -> Fit {
        let chance = |bias| Chance { bias, logprob: -0.1, map: vec![1.0, 0.0] };
        let quantiles = vec![[-8.0, 20.0], [-4.0, 5.0], [-2.0, 1.0], [-1.0, 0.0]];
        let calibration = |bias| Calibration {
            bias,
            quantiles: quantiles.clone(),
            bands: vec![[-8.0, -30.0, -4.0], [-4.0, -12.0, 0.0]],
        };
        let fit = Fit {
            format: FORMAT.into(),
            sha256: "abc".into(),
            prompts: "p".into(),
            depth: 3,
            any: chance(0.1),
            major: chance(0.0),
            major_from: 0.5,
            score: Score {
                mean: vec![0.0, 1.0],
                facts: Facts { mean_logprob: 1.0, source_bytes: 0.5, ..Facts::default() },
            },
            calibrations: BTreeMap::from([
                ("en-de".to_owned(), calibration(-3.0)),
                (ANY_PAIR.to_owned(), calibration(-5.0)),
            ]),
            ..Fit::default()
        };
        fit.ready().unwrap()
    }

    fn read(values: &[[f64; 3]], logprob: f64) -> Scored {
        let token = Token {
            id: 0,
            text: String::new(),
            logprob,
            masked_logprob: logprob,
            source: TokenSource::Sampled,
        };
        let reading = Reading {
            ends: (1..=values.len()).map(|i| 2 * i).collect(),
            values: values.iter().map(|values| values.to_vec()).collect(),
        };
        Scored {
            text: String::new(),
            tokens: vec![token; values.len()],
            reading: Some(reading),
            usage: Usage::default(),
        }
    }

    #[test]
    fn a_score_is_linear_in_what_was_seen_and_never_positive() {
        let values = [[0.2, 0.1, 1.0], [0.4, 0.3, 0.0], [0.0; 3], [0.0; 3]];
        let seen = Seen::of(&read(&values, -1.0), "Ja.").unwrap();
        // -3 + mean 0.25 + half of 3 bytes + mean log-probability -1
        assert!((fit().score(&seen, "en-de") - (-3.0 + 0.25 + 1.5 - 1.0)).abs() < 1e-12);
        assert!((fit().score(&seen, "ja-en") - (-5.0 + 0.25 + 1.5 - 1.0)).abs() < 1e-12);
        let good = Seen::of(&read(&[[0.0, 0.0, 90.0]], 0.0), "Ja.").unwrap();
        assert_eq!(fit().score(&good, "en-de").to_bits(), 0f64.to_bits());
        let chances = fit().chances(&seen);
        assert!((chances[0][0] - (0.1 + 0.2 + 0.1)).abs() < 1e-12);
        assert_eq!(seen.ends, [1, 3, 5, 7], "without the space in front");
    }

    #[test]
    fn a_budget_is_that_of_the_same_rank() {
        let budget = |score| fit().budget(score, "en-de");
        let is = |score, expected: f64| {
            assert!((budget(score) - expected).abs() < 1e-12, "{score}: {}", budget(score));
        };
        is(-9.0, 20.0);
        is(-4.0, 5.0);
        is(-3.0, 3.0);
        is(-0.5, 0.0);
    }

    #[test]
    fn an_interval_lies_between_those_of_its_neighbours_and_holds_the_score() {
        let interval = |score, pair| fit().interval(score, pair);
        assert_eq!(interval(-6.0, "en-de"), Some([-21.0, -2.0]));
        assert_eq!(interval(-3.0, "en-de"), Some([-12.0, 0.0]));
        assert_eq!(interval(-40.0, "en-de"), Some([-40.0, -4.0]), "past the end of the band");
        assert_eq!(interval(-6.0, "ja-en"), None, "nobody rated this pair");
    }

    #[test]
    fn a_fit_is_read_as_it_was_written() {
        let text = fit().to_json().unwrap();
        let again = Fit::parse(&text, "x").unwrap();
        assert_eq!(again, fit());
        assert_eq!(again.lens().maps.len(), 3);
        assert_eq!(again.lens().depths, [3]);
        let unfit = |from: &str, to: &str| Fit::parse(&text.replace(from, to), "x").unwrap_err().to_string();
        let old = unfit(FORMAT, "tribunal-probe/1\",\"then\":\"");
        assert!(old.contains("its format is `tribunal-probe/1`, not `tribunal-probe/2`"), "{old}");
        assert!(old.ends_with("hint: `tribunal tune probe` makes a new one"), "{old}");
        assert!(unfit("\"tokens\":0.0,", "").contains("it is not a fit, missing field `tokens`"));
        assert!(unfit("\"*\"", "\"any\"").contains("no calibration `*`"));
        assert!(
            unfit("\"depth\":3", "\"depth\":1000000")
                .contains("its depth is 1000000; a layer from 1 to 1024")
        );
        assert!(unfit("\"depth\":3", "\"depth\":0").contains("its depth is 0"));
        assert!(unfit("\"map\":[1.0", "\"map\":[1e300").contains("it is not a fit"));
        assert!(unfit("\"map\":[1.0,0.0]", "\"map\":[1.0]").contains("differ in length"));
        assert!(
            Fit::parse("{}", "x").unwrap_err().to_string().contains("hint: `tribunal tune probe` writes one")
        );
    }

    #[test]
    fn what_it_was_made_for_is_checked() {
        let model = |sha256: &str| Model { name: "m".into(), sha256: sha256.into() };
        assert!(fit().check_model(&model("abc")).is_ok());
        let error = fit().check_model(&model("abd")).unwrap_err().to_string();
        assert!(error.contains("sha256 abc") && error.contains("`m` (sha256 abd)"), "{error}");
        assert!(fit().check_prompts("p").is_ok() && fit().check_prompts("q").is_err());
    }

    #[test]
    fn a_model_that_read_through_no_lens_is_an_error() {
        assert!(Seen::of(&Scored { reading: None, ..read(&[[0.0; 3]], 0.0) }, "a").is_err());
        assert!(Seen::of(&read(&[], 0.0), "a").is_err());
    }
}
