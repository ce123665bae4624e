//! A fit: the maps that compute a score and the chances of errors from a model's states, with their validity.
//! It is read here and applied; `tune/probe` makes it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde::{Deserialize, Serialize};
use tribunal_core::digest;

use super::facts::{Facts, source_bytes};
use crate::{
    Error, Model, Result,
    llm::{LinearProbe, Scored},
    scope::Scope,
    segment::{Segment, trained::TrainedOn},
    setup,
};

/// The first field of a fit's file.
pub const FORMAT: &str = "tribunal-probe/5";

/// The pair whose calibration holds for pairs that a fit was not made on.
pub const ANY_PAIR: &str = "*";

/// The fits that come with the program, by the model that each is for; the first is the default model's.
const BUILT_IN: [(&str, &str); 2] = [
    ("qwen2.5-coder-1.5b-instruct", include_str!("../../../../models/fits/qwen2.5-coder-1.5b-instruct.json")),
    ("qwen2.5-coder-0.5b-instruct", include_str!("../../../../models/fits/qwen2.5-coder-0.5b-instruct.json")),
];

/// Domains by which corpora are named.
const DOMAINS: [&str; 8] =
    ["news", "ted", "social", "speech", "literary", "conversation", "ecommerce", "wikipedia"];

/// A source is longer than the texts of a fit if it has so many times the bytes of the longest length of its
/// pair, which is the mean of a quarter of them.
const LONGER: f64 = 2.0;

/// More layers than any decoder has.
const MAX_DEPTH: usize = 1 << 10;

/// Maps fitted on ratings, with their validity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    pub format: String,
    /// The model's name, and the first digits of the sha256 of its weights.
    pub model: String,
    pub sha256: String,
    /// The hash of the prompt in front of the translation.
    pub prompts: String,
    /// Number of layers after which the states are taken.
    pub depth: usize,
    pub made: Made,
    /// Chances that a rater marks a token, and that the error is a major one.
    pub any: Chance,
    pub major: Chance,
    /// A word of at least this chance of a major error makes its error major, by pair, since raters of some
    /// pairs call more errors major than those of others; [`ANY_PAIR`] for others.
    pub major_from: BTreeMap<String, f64>,
    pub score: Score,
    /// By pair, `en-de`; [`ANY_PAIR`] for others.
    pub calibrations: BTreeMap<String, QuantileMap>,
    /// Computed from the fields by [`Fit::ready`].
    #[serde(skip)]
    pub applied: Applied,
}

/// The field of a file that is read first.
#[derive(Deserialize)]
struct OfFormat {
    format: String,
}

/// Data and settings that a fit was made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Made {
    pub pairs: Vec<String>,
    pub segments: usize,
    /// Number of corrupted ones besides these (`tune/corruption`).
    pub corrupted: usize,
    /// Number of these from each corpus, `PAIR CORPUS`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub corpora: BTreeMap<String, usize>,
    pub documents: usize,
    /// The share of documents that was held out, by this seed (see `tune/split`), or their names.
    pub hold_out: HeldOut,
    pub seed: u64,
    /// Strengths of the ridge, for the chances and for the score.
    pub strengths: [f64; 2],
    /// The first 16 digits of each hash of every source that was trained on, sorted (`segment::trained`).
    pub sources: Vec<String>,
    /// Its results on the held-out documents, by pair and figure.
    pub figures: BTreeMap<String, BTreeMap<String, f64>>,
}

/// Documents that were held out.
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
    /// Shape: `[hidden]`.
    pub map: Vec<f32>,
}

/// A linear score of a translation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Score {
    /// For the mean of the tokens' states, `[hidden]`.
    pub mean: Vec<f32>,
    /// For the facts besides the states.
    pub facts: Facts,
}

/// The quantile map of a language pair: from scores to penalties of the same rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuantileMap {
    /// Added to the score.
    pub bias: f64,
    /// The raters' penalties, for sources of some lengths, ascending: in a paragraph more than in a sentence
    /// of the same rank.
    pub lengths: Vec<Length>,
    /// Scores, ascending, with the rated scores (at most 0) between which nine in ten of the translations
    /// near that score lie. Empty where there were too few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bands: Vec<[f64; 3]>,
}

/// Scores and penalties of translations whose sources are about as long.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Length {
    /// The geometric mean of the sources' bytes.
    pub source_bytes: f64,
    /// Scores, ascending, with the penalty (0 or more) of the rated translations of the same rank.
    pub quantiles: Vec<[f64; 2]>,
}

impl Length {
    /// The penalty of the same rank. Below all ranks it grows with the score, and no further: the worst
    /// scores allow no conclusion about a text longer than all.
    fn penalty(&self, score: f64) -> f64 {
        match self.quantiles.first() {
            Some([least, penalty]) if score < *least && *least < 0.0 => penalty * score / least,
            _ => between(&self.quantiles, score)
                .map_or(0.0, |(below, above, way)| below[1] + (above[1] - below[1]) * way),
        }
    }
}

/// Position of a value between the ascending first numbers of some rows: the row below and the one above, and
/// the fraction of the way from the one to the other, from 0 to 1. Beyond the ends, the last row.
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

/// Values computed from the fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Applied {
    hash: String,
    probe: LinearProbe,
}

/// The values of a fit's linear maps for each token of a translation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readout {
    /// The end of each token in the translation, in bytes.
    pub ends: Vec<usize>,
    /// For each token the values of the maps `any`, `major` and `mean`.
    pub values: Vec<[f64; 3]>,
    pub facts: Facts,
}

impl Readout {
    /// The readout of the text ` TRANSLATION` after its source.
    ///
    /// # Errors
    /// When it was not read by a probe of three maps.
    pub fn new(read: &Scored, segment: &Segment) -> Result<Self> {
        let broken = || Error::Failed("the model gave no reading of the translation".into());
        let reading = read.reading.as_ref().ok_or_else(broken)?;
        let values = reading.values.iter().map(|values| values[..].try_into().ok());
        let values: Vec<[f64; 3]> = values.collect::<Option<_>>().ok_or_else(broken)?;
        if values.len() != reading.ends.len() || values.is_empty() {
            return Err(broken());
        }
        Ok(Self {
            // Without the space in front.
            ends: reading.ends.iter().map(|end| end.saturating_sub(1)).collect(),
            facts: Facts::new(values.len(), segment),
            values,
        })
    }

    /// The value of the map `mean` for the mean state.
    fn mean(&self) -> f64 {
        self.values.iter().map(|values| values[2]).sum::<f64>() / self.values.len().max(1) as f64
    }
}

impl Fit {
    /// The fit of the option `fit`: for `auto` the one that comes with the program for `model`, a card's name
    /// or a path, or the default model's where there is none; for the name of a model the one that comes with
    /// the program for it; else a file.
    ///
    /// # Errors
    /// Those of [`Fit::open`].
    pub fn named(name: &str, model: &str) -> setup::Result<Self> {
        let of = |model: &str| BUILT_IN.iter().find(|(of, _)| *of == model);
        match name {
            "auto" => {
                let path = Path::new(model);
                let names = [Some(path.as_os_str()), path.file_name(), path.file_stem()];
                let mut known = names.into_iter().flatten().filter_map(|name| of(name.to_str()?));
                Self::built_in(known.next().unwrap_or(&BUILT_IN[0]))
            }
            name => of(name).map_or_else(|| Self::open(name.as_ref()), Self::built_in),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read or is not a fit.
    pub fn open(path: &Path) -> setup::Result<Self> {
        let text = tribunal_core::files::text::read(path)
            .map_err(|source| setup::Error::Read { file: path.into(), source })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// The models that a fit comes with the program for, by their cards' names; the first is the default
    /// model.
    pub fn models() -> Vec<&'static str> {
        BUILT_IN.iter().map(|(model, _)| *model).collect()
    }

    /// All fits that come with the program.
    ///
    /// # Errors
    /// Those of [`Fit::open`].
    pub fn all_built_in() -> setup::Result<Vec<Self>> {
        BUILT_IN.iter().map(Self::built_in).collect()
    }

    fn built_in((model, text): &(&str, &str)) -> setup::Result<Self> {
        Self::parse(text, &format!("the fit that comes with the program for {model}"))
    }

    fn parse(text: &str, file: &str) -> setup::Result<Self> {
        let unfit = |reason: String| setup::Error::Prompt { file: file.into(), reason };
        let no_fit = |e: serde_json::Error| {
            unfit(format!("it is not a fit, {e}; hint: `tribunal tune probe` writes one"))
        };
        // The format is checked first, since other formats have other fields.
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
        if !fit.calibrations.contains_key(ANY_PAIR) || !fit.major_from.contains_key(ANY_PAIR) {
            return Err(unfit(format!("it has no calibration `{ANY_PAIR}`")));
        }
        Ok(fit.applied(text))
    }

    fn applied(mut self, text: &str) -> Self {
        let maps = [&self.any.map, &self.major.map, &self.score.mean];
        let probe = LinearProbe { depths: vec![self.depth], maps: maps.into_iter().cloned().collect() };
        self.applied = Applied { hash: digest::short(text), probe };
        self
    }

    /// This fit, ready to be applied, once its fields have their final values.
    ///
    /// # Errors
    /// A number that JSON cannot hold.
    pub fn ready(self) -> setup::Result<Self> {
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
    pub fn hash(&self) -> &str {
        &self.applied.hash
    }

    /// The three maps.
    pub fn probe(&self) -> &LinearProbe {
        &self.applied.probe
    }

    /// # Errors
    /// [`setup::Error::Conflict`] when it was made with another prompt.
    pub fn check_prompts(&self, prompts: &str) -> setup::Result<()> {
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
    pub fn check_model(&self, model: &Model) -> setup::Result<()> {
        let hint = "choose a generative method, such as `gemba-mqm`, or fit a probe for this model: `tribunal tune probe`";
        model.check_fitted("probe", [&self.model, &self.sha256], hint)
    }

    /// The texts that it was trained on.
    pub fn trained_on(&self) -> TrainedOn {
        TrainedOn::new(format!("the fit {}", self.hash()), self.made.sources.clone())
    }

    /// The data that it was fitted on, as its file has them.
    pub fn scope(&self) -> Scope {
        let longest = |map: &QuantileMap| {
            map.lengths.last().map_or(usize::MAX, |longest| (LONGER * longest.source_bytes).ceil() as usize)
        };
        let pairs = self.calibrations.iter().filter(|(pair, _)| *pair != ANY_PAIR);
        let words =
            |corpus: &String| corpus.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase).collect();
        Scope {
            pairs: pairs.map(|(pair, map)| (pair.clone(), longest(map))).collect(),
            domains: self
                .made
                .corpora
                .keys()
                .flat_map::<Vec<String>, _>(words)
                .filter(|word| DOMAINS.contains(&&**word))
                .collect(),
            elsewhere: "its numbers of errors are guesses, and its scores are little better than random ones, as they were on \
                        en-cs, en-hi and en-zh; so are those of `qe`, which is far faster",
        }
    }

    fn calibration(&self, pair: &str) -> &QuantileMap {
        self.calibrations.get(pair).unwrap_or(&self.calibrations[ANY_PAIR])
    }

    /// The penalty that raters would give, as expected by the regression. Unit: MQM points, at most 0.
    pub fn score(&self, seen: &Readout, pair: &str) -> f64 {
        let weighed = seen.facts.weighed(&self.score.facts);
        (self.calibration(pair).bias + weighed + seen.mean()).min(0.0)
    }

    /// The chances of each token to be marked, and marked as major.
    pub fn chances(&self, seen: &Readout) -> Vec<[f64; 2]> {
        let chance = |chance: &Chance, value: f64| (chance.bias + value).clamp(0.0, 1.0);
        let of = |values: &[f64; 3]| [chance(&self.any, values[0]), chance(&self.major, values[1])];
        seen.values.iter().map(of).collect()
    }

    /// The least chance of a major error at which an error is major.
    pub fn major_from(&self, pair: &str) -> f64 {
        self.major_from.get(pair).copied().unwrap_or(self.major_from[ANY_PAIR])
    }

    /// The penalty that raters gave to translations of this rank, among those of sources of a similar number
    /// of bytes. Unit: MQM points, at least 0.
    pub fn budget(&self, score: f64, source: &str, pair: &str) -> f64 {
        let of = |length: &Length| [length.source_bytes.max(1.0).ln(), length.penalty(score)];
        let lengths: Vec<[f64; 2]> = self.calibration(pair).lengths.iter().map(of).collect();
        between(&lengths, (source_bytes(source) as f64).ln())
            .map_or(0.0, |(below, above, way)| below[1] + (above[1] - below[1]) * way)
    }

    /// Scores between which raters' scores of nine in ten translations of this score lie; `None` for a pair
    /// that the fit has no ratings of. Unit: MQM points, at most 0, lower first.
    pub fn interval(&self, score: f64, pair: &str) -> Option<[f64; 2]> {
        let (below, above, way) = between(&self.calibrations.get(pair)?.bands, score)?;
        let [low, high] = [1, 2].map(|end| below[end] + (above[end] - below[end]) * way);
        // Past its ends a band has no information about raters' scores.
        Some([low.min(score), high.max(score)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tribunal_testing::translation;

    use crate::{
        llm::{Reading, Usage},
        probe::facts,
    };

    fn fit() -> Fit {
        let chance = |bias| Chance { bias, map: vec![1.0, 0.0] };
        let quantiles = vec![[-8.0, 20.0], [-4.0, 5.0], [-2.0, 1.0], [-1.0, 0.0]];
        let lengths = vec![
            Length { source_bytes: 100.0, quantiles },
            Length { source_bytes: 400.0, quantiles: vec![[-8.0, 10.0], [-1.0, 0.0]] },
        ];
        let calibration = |bias| QuantileMap {
            bias,
            lengths: lengths.clone(),
            bands: vec![[-8.0, -30.0, -4.0], [-4.0, -12.0, 0.0]],
        };
        let fit = Fit {
            format: FORMAT.into(),
            sha256: "abc".into(),
            prompts: "p".into(),
            depth: 3,
            any: chance(0.1),
            major: chance(0.0),
            major_from: BTreeMap::from([("en-de".to_owned(), 0.5), (ANY_PAIR.to_owned(), 0.7)]),
            score: Score {
                mean: vec![0.0, 1.0],
                facts: Facts(facts::NAMES.map(|name| if name == "source_bytes" { 0.5 } else { 0.0 })),
            },
            calibrations: BTreeMap::from([
                ("en-de".to_owned(), calibration(-3.0)),
                (ANY_PAIR.to_owned(), calibration(-5.0)),
            ]),
            ..Fit::default()
        };
        fit.ready().unwrap()
    }

    fn read(values: &[[f64; 3]]) -> Scored {
        let reading = Reading {
            ends: (1..=values.len()).map(|i| 2 * i).collect(),
            values: values.iter().map(|values| values.to_vec()).collect(),
        };
        Scored {
            text: String::new(),
            tokens: Vec::new(),
            reading: Some(reading),
            estimate: None,
            is_chance: false,
            usage: Usage::default(),
        }
    }

    #[test]
    fn a_score_is_linear_in_what_was_seen_and_never_positive() {
        let values = [[0.2, 0.1, 1.0], [0.4, 0.3, 0.0], [0.0; 3], [0.0; 3]];
        let yes = translation(("en", "de"), "Yes", "Ja");
        let seen = Readout::new(&read(&values), &yes).unwrap();
        // -3 + mean 0.25 + half of 3 bytes
        assert!((fit().score(&seen, "en-de") - (-3.0 + 0.25 + 1.5)).abs() < 1e-12);
        assert!((fit().score(&seen, "ja-en") - (-5.0 + 0.25 + 1.5)).abs() < 1e-12);
        let good = Readout::new(&read(&[[0.0, 0.0, 90.0]]), &yes).unwrap();
        assert_eq!(fit().score(&good, "en-de").to_bits(), 0f64.to_bits());
        assert_eq!(format!("{:?}", ["en-de", "ja-en"].map(|pair| fit().major_from(pair))), "[0.5, 0.7]");
        let chances = fit().chances(&seen);
        assert!((chances[0][0] - (0.1 + 0.2)).abs() < 1e-12);
        assert_eq!(seen.ends, [1, 3, 5, 7], "without the space in front");
    }

    #[test]
    fn a_budget_is_that_of_the_same_rank_among_texts_as_long() {
        let is = |score, bytes: usize, expected: f64| {
            let budget = fit().budget(score, &"a".repeat(bytes), "en-de");
            assert!((budget - expected).abs() < 1e-12, "{score}, {bytes} bytes: {budget}");
        };
        is(-4.0, 100, 5.0);
        is(-3.0, 60, 3.0);
        is(-0.5, 100, 0.0);
        // Worse than all: as much more as the score is lower.
        is(-16.0, 100, 40.0);
        is(-16.0, 9000, 20.0);
        is(-8.0, 400, 10.0);
        // Halfway between two lengths, each twice the one before.
        is(-8.0, 200, 15.0);
        let calibrations = BTreeMap::from([(ANY_PAIR.to_owned(), QuantileMap::default())]);
        let none = Fit { calibrations, ..fit() };
        assert!(none.budget(-3.0, "a", "en-de").abs() < 1e-12);
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
    fn a_scope_has_the_pairs_lengths_and_domains_of_the_ratings() {
        assert_eq!(fit().scope().pairs, BTreeMap::from([("en-de".to_owned(), 800)]));
        assert!(fit().scope().domains.is_empty());
        let [default, _] = BUILT_IN.map(|(model, _)| Fit::named(model, "").unwrap().scope());
        assert_eq!(default.pairs.keys().collect::<Vec<_>>(), ["en-de", "en-ru", "zh-en"]);
        assert_eq!(default.domains.iter().collect::<Vec<_>>(), ["news", "ted"]);
    }

    #[test]
    fn a_fit_is_read_as_it_was_written() {
        let text = fit().to_json().unwrap();
        let again = Fit::parse(&text, "x").unwrap();
        assert_eq!(again, fit());
        assert_eq!(again.probe().maps.len(), 3);
        assert_eq!(again.probe().depths, [3]);
        let unfit = |from: &str, to: &str| Fit::parse(&text.replace(from, to), "x").unwrap_err().to_string();
        let old = unfit(FORMAT, "tribunal-probe/4\",\"then\":\"");
        assert!(old.contains("its format is `tribunal-probe/4`, not `tribunal-probe/5`"), "{old}");
        assert!(old.ends_with("hint: `tribunal tune probe` makes a new one"), "{old}");
        assert!(
            unfit("\"root_tokens\":0.0,", "").contains("it is not a fit, the fact `root_tokens` is missing")
        );
        assert!(unfit("\"*\":{", "\"any\":{").contains("no calibration `*`"));
        assert!(unfit("\"*\":0.7", "\"any\":0.7").contains("no calibration `*`"));
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
    fn the_fit_that_comes_with_the_program_for_a_model_is_chosen() {
        let model = |name: &str, model: &str| Fit::named(name, model).unwrap().model;
        let [default, other] = BUILT_IN.map(|(model, _)| model);
        assert_eq!(model("auto", other), other);
        assert_eq!(model("auto", &format!("dir/{other}")), other);
        assert_eq!(model("auto", &format!("dir/{other}.gguf")), other);
        assert_eq!(model("auto", ""), default);
        assert_eq!(model("auto", "qwen2.5-7b-instruct"), default, "`check_model` refuses the model then");
        assert_eq!(model(other, default), other);
        for (fit, (model, _)) in Fit::all_built_in().unwrap().iter().zip(BUILT_IN) {
            assert_eq!(fit.model, model);
        }
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
    fn a_model_without_a_probe_is_an_error() {
        let yes = translation(("en", "de"), "Yes", "Ja");
        assert!(Readout::new(&Scored { reading: None, ..read(&[[0.0; 3]]) }, &yes).is_err());
        assert!(Readout::new(&read(&[]), &yes).is_err());
    }
}
