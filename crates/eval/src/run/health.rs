//! Signs that a judge is not judging: verdicts that are all the same, spans that no reader would mark, scores and
//! qualities that contradict each other, explanations that come from the prompt or name a language that is not
//! there. It looks at what a run left, asks no model anything, and changes no verdict.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::{Record, UnitKey};
use crate::mqm::Severity;

mod explanations;

mod spans;

pub use explanations::Asked;

/// How many units (or errors, or explanations) a share is taken of before it can be a warning: of fewer, many can
/// be alike by chance.
const LEAST: usize = 8;

/// How many of them must show a sign before it can be a warning: one or two are a judge's slips.
const LEAST_FOUND: usize = 3;

/// Verdicts alike. On WMT23, the most frequent score is that of 27% of the segments for annotators in en-de (21% in
/// zh-en), of 46% for GPT-4 under GEMBA-MQM in zh-en, and of 78% for the best system there; no annotator gives more
/// than 40% of the segments the same number of errors.
const ALIKE: f64 = 0.8;

/// The share without errors that no good judge of good translations reached: short and easy texts have few.
const UNMARKED: f64 = 0.9;

/// Spans that are a single letter or end inside a word: below 1% for WMT23's annotators.
const ODD: f64 = 0.1;

/// Errors that repeat an earlier one of the same unit: below 0.1% for WMT23's annotators.
const REPEATED: f64 = 0.05;

/// Units whose quality contradicts their errors. Nobody who reads both means both.
const CONTRADICTORY: f64 = 0.1;

/// Explanations that stand in the prompt. A short one can be right for two segments, so it takes several.
const COPIED: f64 = 0.1;

/// Explanations that name another language. Nothing in the text calls for it, so it takes few.
const FOREIGN: f64 = 0.05;

/// A quality from here on contradicts errors that lose the meaning: on the scale that the prompts print, 66 is
/// "most meaning preserved" and 100 is perfect.
const GOOD_QUALITY: f64 = 80.0;

/// A quality up to here contradicts a text without major errors: 33 is "some meaning preserved" on that scale.
const POOR_QUALITY: f64 = 33.0;

/// As many major errors as weigh what a critical one does under the weights of GEMBA.
const MANY_MAJOR: usize = 5;

/// What can be wrong with a run's verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sign {
    /// Units with the most frequent score.
    SameScore,
    /// Units with the most frequent quality score, of those that have one.
    SameQuality,
    /// Units without an error, where the judge names errors at all.
    NoError,
    /// Units with the most frequent number of errors other than 0.
    SameCount,
    /// Units whose quality score and errors contradict each other, of those that have a quality score.
    Contradiction,
    /// Errors whose span is one letter or begins or ends inside a word, of those that have a place.
    OddSpan,
    /// Errors that repeat an earlier one of their unit.
    RepeatedError,
    /// Explanations that stand in the prompt of another unit, quoted words apart: those of a shot.
    CopiedExplanation,
    /// Explanations that speak of a text in a language which is neither source nor target.
    ForeignLanguage,
}

impl Sign {
    /// All signs, in the order in which they are reported.
    pub const ALL: [Self; 9] = [
        Self::SameScore,
        Self::SameQuality,
        Self::NoError,
        Self::SameCount,
        Self::Contradiction,
        Self::OddSpan,
        Self::RepeatedError,
        Self::CopiedExplanation,
        Self::ForeignLanguage,
    ];

    /// The share from which on the sign is a warning.
    #[must_use]
    pub fn threshold(self) -> f64 {
        match self {
            Self::SameScore | Self::SameQuality | Self::SameCount => ALIKE,
            Self::NoError => UNMARKED,
            Self::Contradiction => CONTRADICTORY,
            Self::OddSpan => ODD,
            Self::RepeatedError => REPEATED,
            Self::CopiedExplanation => COPIED,
            Self::ForeignLanguage => FOREIGN,
        }
    }
}

/// How often a sign was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub sign: Sign,
    pub found: usize,
    /// Out of how many.
    pub of: usize,
    pub warning: bool,
    /// The value that is the same, of [`Sign::SameScore`], [`Sign::SameQuality`] and [`Sign::SameCount`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The first unit that shows the sign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<Example>,
}

/// A unit that shows a sign, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Example {
    pub system: String,
    pub doc: String,
    pub seg: Option<usize>,
    pub text: String,
}

impl Finding {
    /// The share of those that show the sign, 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.of == 0 { 0.0 } else { self.found as f64 / self.of as f64 }
    }
}

/// Looks for every sign in the records of a run. Only what can be there is in the answer: no qualities, no
/// finding about qualities. `questions` are some that the run asked, for what a judge could copy from.
#[must_use]
pub fn findings(records: &[Record], questions: &[Asked]) -> Vec<Finding> {
    let mut signs = Signs::new(questions);
    for record in records {
        signs.add(record);
    }
    signs.findings()
}

/// The signs so far, of records that come one by one and are not kept.
pub struct Signs<'a> {
    words: spans::Words,
    shown: explanations::Shown<'a>,
    names: explanations::Names,
    n_scored: usize,
    names_errors: bool,
    /// Where the quality is the score, it has been counted.
    quality_is_apart: bool,
    scores: Frequencies,
    qualities: Frequencies,
    /// Numbers of errors other than 0.
    counts: Frequencies,
    seen: BTreeMap<Sign, Seen>,
}

/// How many things showed a sign, of how many, and the first of them.
#[derive(Default)]
struct Seen {
    found: usize,
    of: usize,
    example: Option<Example>,
}

impl<'a> Signs<'a> {
    /// Without any record.
    #[must_use]
    pub fn new(questions: &'a [Asked]) -> Self {
        Self {
            words: spans::Words::new(),
            shown: explanations::Shown::of(questions),
            names: explanations::Names::new(),
            n_scored: 0,
            names_errors: false,
            quality_is_apart: false,
            scores: Frequencies::default(),
            qualities: Frequencies::default(),
            counts: Frequencies::default(),
            seen: BTreeMap::new(),
        }
    }

    /// Looks at a record; those without a score say nothing of the judge.
    pub fn add(&mut self, record: &Record) {
        let Some(score) = record.score else { return };
        self.n_scored += 1;
        self.names_errors |= !record.errors.is_empty();
        self.quality_is_apart |= record.quality_score.is_some() && record.quality_score != record.score;
        self.scores.add(score);
        record.quality_score.into_iter().for_each(|quality| self.qualities.add(quality));
        if !record.errors.is_empty() {
            self.counts.add(record.errors.len() as f64);
        }
        self.count(Sign::NoError, record, record.errors.is_empty().then(String::new));
        if let Some(quality) = record.quality_score {
            self.count(Sign::Contradiction, record, contradiction(record, quality));
        }
        for error in &record.errors {
            if spans::is_placed(record, error) {
                self.count(Sign::OddSpan, record, self.words.oddity(record, error));
            }
            if let Some(text) = error.explanation.as_deref().filter(|text| !text.trim().is_empty()) {
                self.count(Sign::CopiedExplanation, record, self.shown.copied(record, text));
                self.count(Sign::ForeignLanguage, record, self.names.foreign(record, text));
            }
        }
        for repeated in repetitions(record) {
            self.count(Sign::RepeatedError, record, repeated);
        }
    }

    /// Counts a thing that shows a sign if it comes with a text, which says where.
    fn count(&mut self, sign: Sign, record: &Record, text: Option<String>) {
        let seen = self.seen.entry(sign).or_default();
        seen.of += 1;
        let Some(text) = text else { return };
        seen.found += 1;
        if seen.example.is_none() {
            let UnitKey { system, doc, seg, .. } = record.key();
            seen.example = Some(Example { system, doc, seg, text });
        }
    }

    /// What was found.
    #[must_use]
    pub fn findings(mut self) -> Vec<Finding> {
        let found = Sign::ALL.into_iter().filter_map(|sign| match sign {
            Sign::SameScore => self.scores.most_frequent(sign),
            Sign::SameQuality => self.qualities.most_frequent(sign).filter(|_| self.quality_is_apart),
            Sign::SameCount => {
                let frequent = self.counts.most_frequent(sign)?;
                Some(Finding { value: frequent.value, ..finding(sign, frequent.found, self.n_scored) })
            }
            Sign::NoError | Sign::Contradiction if !self.names_errors => None,
            _ => {
                let Seen { found, of, example } = self.seen.remove(&sign)?;
                let example = example.filter(|example| !example.text.is_empty());
                Some(Finding { example, ..finding(sign, found, of) })
            }
        });
        found.filter(|finding| finding.of > 0).collect()
    }
}

/// How often each value came.
#[derive(Default)]
struct Frequencies {
    counts: HashMap<u64, usize>,
    of: usize,
}

impl Frequencies {
    fn add(&mut self, value: f64) {
        *self.counts.entry(value.to_bits()).or_default() += 1;
        self.of += 1;
    }

    /// How many of the values are the most frequent one; of equally frequent ones the smallest.
    fn most_frequent(&self, sign: Sign) -> Option<Finding> {
        let counts = self.counts.iter().map(|(&bits, &n)| (f64::from_bits(bits), n));
        let better = |a: &(f64, usize), b: &(f64, usize)| a.1.cmp(&b.1).then(b.0.total_cmp(&a.0));
        let (value, found) = counts.max_by(better)?;
        Some(Finding { value: Some(value), ..finding(sign, found, self.of) })
    }
}

fn finding(sign: Sign, found: usize, of: usize) -> Finding {
    let share = found as f64 / of.max(1) as f64;
    let warning = of >= LEAST && found >= LEAST_FOUND && share >= sign.threshold();
    Finding { sign, found, of, warning, value: None, example: None }
}

/// What contradicts a unit's quality score.
fn contradiction(record: &Record, quality: f64) -> Option<String> {
    let count = |severity: Severity| record.errors.iter().filter(|e| e.severity == severity).count();
    let (critical, major) = (count(Severity::Critical), count(Severity::Major));
    if quality >= GOOD_QUALITY && (critical > 0 || major >= MANY_MAJOR) {
        return Some(format!("quality {quality}, {critical} critical and {major} major errors"));
    }
    let is_clean = critical == 0 && major == 0;
    (quality <= POOR_QUALITY && is_clean).then(|| format!("quality {quality}, no critical or major error"))
}

/// Each error of a unit, with its span where an earlier one has the same place and category.
fn repetitions(record: &Record) -> impl Iterator<Item = Option<String>> {
    let mut seen = BTreeSet::new();
    record.errors.iter().map(move |error| {
        let is_new = seen.insert((error.side, error.start, error.end, &error.span, &error.category));
        (!is_new).then(|| format!("{} `{}`", error.category, error.span))
    })
}

#[cfg(test)]
mod tests;
