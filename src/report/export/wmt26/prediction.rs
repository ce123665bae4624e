//! What a verdict says in the terms of WMT26's evaluation task. It reads and writes no files.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Value, json};

use super::translations;
use crate::{
    mqm::{ErrorSpan, Severity, Side},
    run::{Record, Status},
};

/// From this score on a translation without an error is error-free, as the task defines it for raters.
///
/// Source: WMT26, `mteval-subtask3.html`.
pub const TASK_THRESHOLD: f64 = 85.0;

/// Penalty points that leave nothing of a score.
///
/// Source: GEMBA-MQM, whose scores end at -25.
const MOST_POINTS: f64 = 25.0;

/// The two ends of a judge's scores; higher is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    pub low: f64,
    pub high: f64,
}

impl Range {
    /// 0 to 100.
    pub const PERCENT: Self = Self { low: 0.0, high: 100.0 };

    /// MQM's penalties, of which the worst count as 25 points.
    pub const PENALTY: Self = Self { low: -MOST_POINTS, high: 0.0 };

    /// Reads a scale as methods describe it; `None` where it has no two ends or a lower score is better.
    ///
    /// ```
    /// use tribunal::report::export::wmt26::Range;
    /// assert_eq!(Range::of_scale("0 to 100, higher is better"), Some(Range::PERCENT));
    /// assert_eq!(Range::of_scale("negative penalty, 0 is best and higher is better"), Some(Range::PENALTY));
    /// let stars = Range::of_scale("1 (worst) to 5 (best), higher is better").unwrap();
    /// assert_eq!((stars.percent(1.0), stars.percent(4.0), stars.percent(9.0)), (0.0, 75.0, 100.0));
    /// assert_eq!(Range::of_scale("log-probability per token in nats; higher is better"), None);
    /// assert_eq!(Range::of_scale("1 to 10, lower is easier; the score is its negative"), None);
    /// ```
    #[must_use]
    pub fn of_scale(scale: &str) -> Option<Self> {
        if !scale.contains("higher is better") {
            return None;
        }
        if scale.contains("penalty") {
            return Some(Self::PENALTY);
        }
        let (low, high) = scale.split_once(" to ")?;
        let number = |text: &str| text.split([' ', ',', ';']).next()?.parse().ok();
        let (low, high) = (number(low)?, number(high)?);
        (low < high).then_some(Self { low, high })
    }

    /// A score on the task's scale. Range: 0 to 100, higher is better; scores beyond an end are that end's.
    #[must_use]
    pub fn percent(self, score: f64) -> f64 {
        // The factor first: of 0 to 100 it is 1, and changes no score.
        ((score - self.low) * (100.0 / (self.high - self.low))).clamp(0.0, 100.0)
    }

    /// How scores and decisions came about, as a sentence.
    #[must_use]
    pub fn note(self, threshold: f64) -> String {
        let scores = match self {
            Self::PERCENT => String::new(),
            Self { low, high } => format!("scores from {low} to {high} are written as 0 to 100; "),
        };
        format!("{scores}error-free are translations without an error and with a score from {threshold} on")
    }
}

/// What the task has no place for, counted over a run.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    missing: usize,
    empty: usize,
    unplaced: usize,
    neutral: usize,
    source: usize,
    critical: usize,
}

impl Losses {
    pub fn notes(&self) -> Vec<String> {
        let errors = |n: usize| super::counted(n, "error");
        let said = [
            (self.missing, format!("left out: {} without a verdict", translations(self.missing))),
            (self.empty, format!("{} are empty: score 0, a major omission", translations(self.empty))),
            (
                self.unplaced,
                format!("left out: {} without a place in the translation", errors(self.unplaced)),
            ),
            (self.neutral, format!("left out: {} of severity neutral", errors(self.neutral))),
            (self.source, format!("left out: {} of the source", errors(self.source))),
            (
                self.critical,
                format!(
                    "written as major, the task's worst severity: {} of severity critical",
                    errors(self.critical)
                ),
            ),
        ];
        said.into_iter().filter(|(n, _)| *n > 0).map(|(_, note)| note).collect()
    }
}

/// What is predicted of a translation.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// Of the translation, to compare it with the task's.
    hash: u64,
    spans: Vec<Span>,
    omission: Option<Severity>,
    instruction_fault: Option<Severity>,
    /// On the task's scale; `None` where the judge's scale is not known.
    pub score: Option<f64>,
}

#[derive(Clone, Debug)]
struct Span {
    start: usize,
    end: usize,
    severity: Severity,
    category: String,
}

/// Categories of errors that have fields of their own.
const OMISSION: &str = "omission";
const INSTRUCTION: &str = "instruction";

impl Prediction {
    /// `None` for a unit without a verdict; an empty translation omits everything.
    pub fn of(record: &Record, range: Option<Range>, losses: &mut Losses) -> Option<Self> {
        let mut prediction = Self {
            hash: hash(&record.hypothesis),
            spans: Vec::new(),
            omission: None,
            instruction_fault: None,
            score: None,
        };
        match (record.status, record.score) {
            (Status::Ok, Some(score)) => {
                let quality = record.quality_score.map(|score| Range::PERCENT.percent(score));
                prediction.score = range.map(|range| quality.unwrap_or_else(|| range.percent(score)));
                record.errors.iter().for_each(|error| prediction.add(error, losses));
            }
            (Status::Empty, _) => {
                losses.empty += 1;
                (prediction.omission, prediction.score) = (Some(Severity::Major), range.map(|_| 0.0));
            }
            _ => {
                losses.missing += 1;
                return None;
            }
        }
        Some(prediction)
    }

    fn add(&mut self, error: &ErrorSpan, losses: &mut Losses) {
        let severity = match error.severity {
            Severity::Neutral => {
                losses.neutral += 1;
                return;
            }
            Severity::Critical => {
                losses.critical += 1;
                Severity::Major
            }
            severity => severity,
        };
        // Severities are ordered from the worst.
        let worst =
            |there: &mut Option<Severity>| *there = Some(there.map_or(severity, |old| old.min(severity)));
        let has = |word: &str| error.category.split(['/', ' ']).any(|part| part == word);
        if has(OMISSION) {
            return worst(&mut self.omission);
        }
        if has(INSTRUCTION) {
            worst(&mut self.instruction_fault);
        }
        let place = error.start.zip(error.end).filter(|(start, end)| start < end);
        match (error.side, place) {
            (Side::Source, _) => losses.source += 1,
            (Side::Target, Some((start, end))) => {
                self.spans.push(Span { start, end, severity, category: error.category.clone() });
            }
            (Side::Target, None) => losses.unplaced += usize::from(!has(INSTRUCTION)),
        }
    }

    /// Whether it is about this translation.
    pub fn is_of(&self, translation: &str) -> bool {
        self.hash == hash(translation)
    }

    /// Task 1's value.
    pub fn errors(&self) -> Value {
        let span = |Span { start, end, severity, category }: &Span| json!({ "start": start, "end": end, "severity": severity, "category": category });
        json!({
            "errors": self.spans.iter().map(span).collect::<Vec<_>>(),
            "omission": self.omission,
            "instruction_fault": self.instruction_fault,
        })
    }

    /// Task 3's decision; `None` without a score.
    pub fn is_error_free(&self, threshold: f64) -> Option<bool> {
        let is_clean = self.spans.is_empty() && self.omission.is_none() && self.instruction_fault.is_none();
        self.score.map(|score| is_clean && score >= threshold)
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
