//! A verdict as a prediction in WMT26's evaluation task. It reads and writes no files.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Value, json};

use super::translations;
use crate::{
    mqm::{ErrorSpan, Severity, Side},
    run::{Record, Status, record::Scale},
    segment::numbered,
};

/// The most translations that a note lists.
const LISTED: usize = 5;

/// From this score on a translation without an error is error-free, as the task defines it for raters.
///
/// Source: WMT26, `mteval-subtask3.html`.
pub const TASK_THRESHOLD: f64 = 85.0;

/// Errors and translations that the task has no place for, counted over a run.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    missing: usize,
    empty: usize,
    untranslated: usize,
    unplaced: LeftOut,
    neutral: usize,
    source: LeftOut,
    critical: usize,
}

/// Errors that have no place in Task 1.
#[derive(Clone, Debug, Default)]
struct LeftOut {
    errors: usize,
    translations: usize,
    /// The first translations with such errors.
    listed: Vec<String>,
}

impl LeftOut {
    fn add(&mut self, errors: usize, record: &Record) {
        if errors == 0 {
            return;
        }
        self.errors += errors;
        self.translations += 1;
        if self.listed.len() < LISTED {
            let seg = record.seg.map_or_else(String::new, |seg| format!("{} of ", numbered(seg)));
            self.listed.push(format!("{seg}`{}` by `{}`", record.doc, record.system));
        }
    }

    fn note(&self, kind: &str) -> String {
        let more = match self.translations - self.listed.len() {
            0 => String::new(),
            n => format!(" and {}", super::counted(n, "more translation")),
        };
        let (errors, listed) = (super::counted(self.errors, "error"), self.listed.join(", "));
        format!("left out of `task1_pred`: {errors} {kind}, in {listed}{more}")
    }
}

impl Losses {
    pub fn notes(&self) -> Vec<String> {
        let errors = |n: usize| super::counted(n, "error");
        let parts = [
            (self.missing, format!("left out: {} without a verdict", translations(self.missing))),
            (self.empty, format!("{} are empty: score 0, a major omission", translations(self.empty))),
            (
                self.untranslated,
                format!("{} are no translations of their sources: score 0", translations(self.untranslated)),
            ),
            (self.unplaced.errors, self.unplaced.note("without a place in the translation")),
            (self.neutral, format!("left out of `task1_pred`: {} of severity neutral", errors(self.neutral))),
            (self.source.errors, self.source.note("of the source")),
            (
                self.critical,
                format!(
                    "written as major, the task's worst severity: {} of severity critical",
                    errors(self.critical)
                ),
            ),
        ];
        parts.into_iter().filter(|(n, _)| *n > 0).map(|(_, note)| note).collect()
    }
}

/// Prediction for a translation.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// Hash of the translation, to compare it with the task's.
    hash: u64,
    spans: Vec<Span>,
    omission: Option<Severity>,
    instruction_fault: Option<Severity>,
    /// True if the verdict has errors, also those that Task 1 has no place for.
    names_errors: bool,
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

/// The part of an error that Task 1 can hold.
enum Added {
    Whole,
    Unplaced,
    OfSource,
}

/// Categories of errors that have fields of their own.
const OMISSION: &str = "omission";
const INSTRUCTION: &str = "instruction";

impl Prediction {
    /// `None` for a unit without a verdict; an empty translation omits everything.
    pub fn from_record(record: &Record, scale: Option<Scale>, losses: &mut Losses) -> Option<Self> {
        let mut prediction = Self {
            hash: hash(&record.hypothesis),
            spans: Vec::new(),
            omission: None,
            instruction_fault: None,
            names_errors: !record.errors.is_empty(),
            score: None,
        };
        match (record.status, record.score) {
            (Status::Ok, Some(score)) => {
                prediction.score = scale.map(|scale| scale.percent(score));
                // No model call was made: as an empty translation, it is below every other.
                if record.warning.is_some() && record.n_calls == 0 && may_be_untranslated(scale) {
                    losses.untranslated += 1;
                    prediction.score = Some(0.0);
                }
                let (mut unplaced, mut of_source) = (0, 0);
                for error in &record.errors {
                    match prediction.add(error, losses) {
                        Added::Unplaced => unplaced += 1,
                        Added::OfSource => of_source += 1,
                        Added::Whole => {}
                    }
                }
                losses.unplaced.add(unplaced, record);
                losses.source.add(of_source, record);
            }
            (Status::Empty, _) => {
                losses.empty += 1;
                prediction.names_errors = true;
                (prediction.omission, prediction.score) = (Some(Severity::Major), scale.map(|_| 0.0));
            }
            _ => {
                losses.missing += 1;
                return None;
            }
        }
        Some(prediction)
    }

    fn add(&mut self, error: &ErrorSpan, losses: &mut Losses) -> Added {
        let severity = match error.severity {
            Severity::Neutral => {
                losses.neutral += 1;
                return Added::Whole;
            }
            Severity::Critical => {
                losses.critical += 1;
                Severity::Major
            }
            severity => severity,
        };
        // Severities are ordered from the worst.
        let worst =
            |worst: &mut Option<Severity>| *worst = Some(worst.map_or(severity, |old| old.min(severity)));
        let has = |word: &str| error.category.split(['/', ' ']).any(|part| part == word);
        if has(OMISSION) {
            worst(&mut self.omission);
            return Added::Whole;
        }
        if has(INSTRUCTION) {
            worst(&mut self.instruction_fault);
        }
        let place = error.start.zip(error.end).filter(|(start, end)| start < end);
        match (error.side, place) {
            (Side::Target, Some((start, end))) => {
                self.spans.push(Span { start, end, severity, category: error.category.clone() });
                Added::Whole
            }
            (Side::Target, None) if has(INSTRUCTION) => Added::Whole,
            (Side::Source, _) => Added::OfSource,
            (Side::Target, None) => Added::Unplaced,
        }
    }

    /// Returns true if it is about this translation.
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

    /// Task 3's decision; `None` without a score. Any error of the verdict counts, as in `meta --also
    /// error-free`: neutral ones too, and those that Task 1 has no place for.
    pub fn is_error_free(&self, threshold: f64) -> Option<bool> {
        self.score.map(|score| !self.names_errors && score >= threshold)
    }
}

fn may_be_untranslated(scale: Option<Scale>) -> bool {
    scale.is_some_and(|scale| scale.non_translation.is_some())
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
