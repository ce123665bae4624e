//! Health checks for degenerate verdicts: identical scores, implausible spans, scores that contradict the
//! errors, explanations copied from the prompt or about another language. They read a run's records, call no
//! model and change no verdict.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    mqm::Severity,
    record::{Record, UnitKey},
};

mod explanations;

mod spans;

pub use explanations::Question;

/// The least units (or errors, or explanations) for a warning: of fewer, many can be alike by chance.
const LEAST: usize = 8;

/// The least positive ones for a warning: one or two are isolated mistakes.
const LEAST_FOUND: usize = 3;

/// A quality from here on contradicts errors that lose the meaning: on the scale that the prompts print, 66
/// is "most meaning preserved" and 100 is perfect.
const GOOD_QUALITY: f64 = 80.0;

/// A quality up to here contradicts a text without major errors: 33 is "some meaning preserved" on that
/// scale.
const POOR_QUALITY: f64 = 33.0;

/// The best quality score.
const BEST_QUALITY: f64 = 100.0;

/// Number of major errors that weigh as much as a critical one under the weights of GEMBA.
const MANY_MAJOR: usize = 5;

/// A check of a run's verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthCheck {
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
    /// Explanations about a text in a language which is neither source nor target.
    ForeignLanguage,
}

impl HealthCheck {
    /// All checks, in the order in which they are reported.
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

    /// The share at which the check becomes a warning, 0 to 1. Units with the best verdict that the method
    /// has count for the share, and not for the warning: good translations get it.
    pub fn threshold(self) -> f64 {
        match self {
            // On WMT23, the most frequent score is that of 27% of the segments for annotators in en-de (21%
            // in zh-en), of 46% for GPT-4 under GEMBA-MQM in zh-en, and of 78% for the best system there; no
            // annotator gives more than 40% of the segments the same number of errors.
            Self::SameScore | Self::SameQuality | Self::SameCount => 0.8,
            // Short and easy texts, and good systems, have few errors.
            Self::NoError => 0.9,
            // Odd spans are below 1% for WMT23's annotators. A short explanation can be right for two
            // segments, so that its threshold is not lower.
            Self::Contradiction | Self::OddSpan | Self::CopiedExplanation => 0.1,
            // Repeated errors are below 0.1% for WMT23's annotators; no text gives a reason to name another
            // language.
            Self::RepeatedError | Self::ForeignLanguage => 0.05,
        }
    }
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    pub check: HealthCheck,
    pub found: usize,
    /// Out of how many.
    pub of: usize,
    pub warning: bool,
    /// The value that is the same, of [`HealthCheck::SameScore`], [`HealthCheck::SameQuality`] and
    /// [`HealthCheck::SameCount`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The first positive unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<Example>,
}

/// A positive unit, and the text at fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Example {
    pub system: String,
    pub doc: String,
    pub seg: Option<usize>,
    pub text: String,
}

impl Finding {
    /// The positive share, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.of == 0 { 0.0 } else { self.found as f64 / self.of as f64 }
    }

    /// True if nearly all verdicts are the best ones that the method has: the translations are good, or the
    /// judge misses their errors.
    pub fn is_clean(&self) -> bool {
        let may_be_clean =
            matches!(self.check, HealthCheck::SameScore | HealthCheck::SameQuality | HealthCheck::NoError);
        may_be_clean && !self.warning && is_many(self.check, self.found, self.of)
    }
}

/// The checks over a stream of records, none of which is kept.
pub struct HealthChecks<'a> {
    words: spans::Words,
    questions: explanations::QuestionTexts<'a>,
    names: explanations::Names,
    n_scored: usize,
    names_errors: bool,
    /// True if the quality differs from the score; otherwise it is counted as the score.
    quality_is_apart: bool,
    scores: Frequencies,
    qualities: Frequencies,
    /// Scores and qualities of units with errors.
    flawed_scores: Frequencies,
    flawed_qualities: Frequencies,
    /// Numbers of errors other than 0.
    counts: Frequencies,
    /// Units without an error whose quality score is low.
    n_unexplained: usize,
    counts_of: BTreeMap<HealthCheck, Count>,
}

/// Number of positive cases, number of all cases, and an example.
#[derive(Default)]
struct Count {
    found: usize,
    of: usize,
    example: Option<Example>,
}

impl<'a> HealthChecks<'a> {
    /// Without any record.
    pub fn new(questions: &'a [Question]) -> Self {
        Self {
            words: spans::Words::new(),
            questions: explanations::QuestionTexts::new(questions),
            names: explanations::Names::new(),
            n_scored: 0,
            names_errors: false,
            quality_is_apart: false,
            scores: Frequencies::default(),
            qualities: Frequencies::default(),
            flawed_scores: Frequencies::default(),
            flawed_qualities: Frequencies::default(),
            counts: Frequencies::default(),
            n_unexplained: 0,
            counts_of: BTreeMap::new(),
        }
    }

    /// Adds a record; records without a score are ignored.
    pub fn add(&mut self, record: &Record) {
        let Some(score) = record.score else { return };
        self.n_scored += 1;
        self.names_errors |= !record.errors.is_empty();
        self.quality_is_apart |= record.quality_score.is_some() && record.quality_score != record.score;
        self.scores.add(score);
        record.quality_score.into_iter().for_each(|quality| self.qualities.add(quality));
        if !record.errors.is_empty() {
            self.counts.add(record.errors.len() as f64);
            self.flawed_scores.add(score);
            record.quality_score.into_iter().for_each(|quality| self.flawed_qualities.add(quality));
        } else if record.quality_score.is_some_and(|quality| quality < GOOD_QUALITY) {
            self.n_unexplained += 1;
        }
        self.count(HealthCheck::NoError, record, record.errors.is_empty().then(String::new));
        if let Some(quality) = record.quality_score {
            self.count(HealthCheck::Contradiction, record, contradiction(record, quality));
        }
        for error in &record.errors {
            if spans::is_placed(record, error) {
                self.count(HealthCheck::OddSpan, record, self.words.oddity(record, error));
            }
            if let Some(text) = error.explanation.as_deref().filter(|text| !text.trim().is_empty()) {
                self.count(HealthCheck::CopiedExplanation, record, self.questions.copied(record, text));
                self.count(HealthCheck::ForeignLanguage, record, self.names.foreign(record, text));
            }
        }
        for repeated in repetitions(record) {
            self.count(HealthCheck::RepeatedError, record, repeated);
        }
    }

    /// Counts one unit, error or explanation; it is positive if there is a text, its description.
    fn count(&mut self, check: HealthCheck, record: &Record, text: Option<String>) {
        let count = self.counts_of.entry(check).or_default();
        count.of += 1;
        let Some(text) = text else { return };
        count.found += 1;
        if count.example.is_none() {
            let UnitKey { system, doc, seg, .. } = record.key();
            count.example = Some(Example { system, doc, seg, text });
        }
    }

    /// The results of the checks that had data: without quality scores there is no finding about them.
    /// `best` is the best score of the method's scale, where it has one.
    pub fn findings(mut self, best: Option<f64>) -> Vec<Finding> {
        let found = HealthCheck::ALL.into_iter().filter_map(|check| match check {
            HealthCheck::SameScore => {
                Some(self.scores.most_frequent(check)?.unless(best, &self.flawed_scores))
            }
            HealthCheck::SameQuality => {
                let frequent = self.qualities.most_frequent(check).filter(|_| self.quality_is_apart)?;
                Some(frequent.unless(Some(BEST_QUALITY), &self.flawed_qualities))
            }
            HealthCheck::SameCount => {
                let frequent = self.counts.most_frequent(check)?;
                Some(Finding { value: frequent.value, ..finding(check, frequent.found, self.n_scored) })
            }
            HealthCheck::NoError | HealthCheck::Contradiction if !self.names_errors => None,
            _ => {
                let Count { found, of, example } = self.counts_of.remove(&check)?;
                let example = example.filter(|example| !example.text.is_empty());
                let warning = check != HealthCheck::NoError || is_many(check, self.n_unexplained, of);
                let found = finding(check, found, of);
                Some(Finding { example, warning: found.warning && warning, ..found })
            }
        });
        found.filter(|finding| finding.of > 0).collect()
    }
}

/// Number of occurrences of each value.
#[derive(Default)]
struct Frequencies {
    counts: HashMap<u64, usize>,
    of: usize,
}

impl Frequencies {
    fn add(&mut self, value: f64) {
        *self.counts.entry(bits(value)).or_default() += 1;
        self.of += 1;
    }

    fn count(&self, value: f64) -> usize {
        self.counts.get(&bits(value)).copied().unwrap_or(0)
    }

    /// The count of the most frequent value; of equally frequent ones the smallest.
    fn most_frequent(&self, check: HealthCheck) -> Option<Finding> {
        let counts = self.counts.iter().map(|(&bits, &n)| (f64::from_bits(bits), n));
        let better = |a: &(f64, usize), b: &(f64, usize)| a.1.cmp(&b.1).then(b.0.total_cmp(&a.0));
        let (value, found) = counts.max_by(better)?;
        Some(Finding { value: Some(value), ..finding(check, found, self.of) })
    }
}

impl Finding {
    /// This finding about a value, of which the units without an error do not count for a warning if it is
    /// the best one; `flawed` are the values of units with errors.
    fn unless(self, best: Option<f64>, flawed: &Frequencies) -> Self {
        if self.value != best {
            return self;
        }
        let n_flawed = best.map_or(0, |best| flawed.count(best));
        Self { warning: is_many(self.check, n_flawed, self.of), ..self }
    }
}

/// The bits of a value, of both zeros those of 0.
fn bits(value: f64) -> u64 {
    (value + 0.0).to_bits()
}

fn finding(check: HealthCheck, found: usize, of: usize) -> Finding {
    Finding { check, found, of, warning: is_many(check, found, of), value: None, example: None }
}

/// True for a number of positive ones that amounts to a warning.
fn is_many(check: HealthCheck, found: usize, of: usize) -> bool {
    let share = found as f64 / of.max(1) as f64;
    of >= LEAST && found >= LEAST_FOUND && share >= check.threshold()
}

/// The contradiction between a unit's quality score and its errors, in words; `None` if there is none.
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
