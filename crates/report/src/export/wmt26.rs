//! Submissions to WMT26's evaluation task: a line for each item of the task's file with the error spans of
//! Task 1, the scores of Task 2 and the error-free decisions of Task 3, by system. `check` reads them again.
//!
//! Source: the WMT26 evaluation task, `mteval-subtask1.html` to `mteval-subtask3.html`; `README.md` of
//! Ammonsh/WMT26-QE-baselines: spans are half-open and in code points.

use std::{
    collections::{BTreeMap, HashMap},
    io::Write,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

use super::{Error, Rows, counted, put};
use crate::{
    run::{Record, record::Scale},
    segment::read::{TaskItem, task},
};

pub mod check;
mod prediction;

pub use prediction::TASK_THRESHOLD;
use prediction::{Losses, Prediction};

/// Name of the format in messages.
const SUBMISSION: &str = "the submission";

/// The names of the three tasks' fields.
pub const TASKS: [&str; 3] = ["task1_pred", "task2_pred", "task3_pred"];

/// The judge and the task of a submission.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The task's file.
    pub file: &'a Path,
    /// True if the judge marks errors; otherwise there is nothing for Task 1.
    pub marks: bool,
    /// The scale of the judge's scores; `None` leaves Task 2 and Task 3 out.
    pub scale: Option<Scale>,
    /// True if the judge was shown references, which Task 3 does not allow.
    pub has_references: bool,
    /// The score from which a translation without an error is error-free. Range: 0 to 100.
    pub threshold: f64,
}

/// Segment of a verdict: language pair, document, number of the segment.
type Key = (String, String, usize);

/// The predictions of a run, by segment and system, until the order in the task's file is read.
pub struct Wmt26 {
    file: PathBuf,
    marks: bool,
    scale: Option<Scale>,
    has_references: bool,
    threshold: f64,
    predictions: HashMap<Key, BTreeMap<String, Prediction>>,
    losses: Losses,
}

impl Wmt26 {
    pub fn new(task: Task<'_>) -> Self {
        Self {
            file: task.file.into(),
            marks: task.marks,
            scale: task.scale,
            has_references: task.has_references,
            threshold: task.threshold,
            predictions: HashMap::new(),
            losses: Losses::default(),
        }
    }

    /// The line of an item; `None` for one that the run has no verdict on.
    fn line(&mut self, item: &TaskItem) -> Result<Option<Value>, Error> {
        let key = (item.pair(), item.id.doc.clone(), item.seg());
        let Some(mut predictions) = self.predictions.remove(&key) else { return Ok(None) };
        let mut tasks: [Map<String, Value>; 3] = Default::default();
        for (system, text) in &item.translations {
            let Some(prediction) = predictions.remove(system) else { continue };
            if !prediction.is_of(text) {
                let (path, line, system) = (self.file.clone(), item.line, system.clone());
                return Err(Error::OtherText { path, line, system });
            }
            let values = [
                self.marks.then(|| prediction.errors()),
                prediction.score.map(|score| json!(score)),
                prediction.is_error_free(self.threshold).map(|free| json!(u8::from(free))),
            ];
            for (task, value) in tasks.iter_mut().zip(values) {
                if let Some(value) = value {
                    task.insert(system.clone(), value);
                }
            }
        }
        if let Some(system) = predictions.into_keys().next() {
            return Err(self.unknown(key, system));
        }
        let mut line = json!({ "item_id": item.item_id });
        let is_written = [self.marks, self.scale.is_some(), self.scale.is_some() && !self.has_references];
        for ((name, task), _) in TASKS.iter().zip(tasks).zip(is_written).filter(|(_, is_wanted)| *is_wanted) {
            line[name] = Value::Object(task);
        }
        Ok(Some(line))
    }

    fn unknown(&self, (_, doc, seg): Key, system: String) -> Error {
        Error::NotInTask { system, doc, seg, path: self.file.clone() }
    }
}

impl Rows for Wmt26 {
    fn add(&mut self, record: &Record, _: &mut dyn Write) -> Result<(), Error> {
        let (system, doc) = (record.system.clone(), record.doc.clone());
        let Some(seg) = record.seg else { return Err(Error::Document { system, doc }) };
        let key = (record.pair(), doc, seg);
        let Some(prediction) = Prediction::from_record(record, self.scale, &mut self.losses) else {
            return Ok(());
        };
        self.predictions.entry(key).or_default().insert(system, prediction);
        Ok(())
    }

    fn finish(mut self: Box<Self>, out: &mut dyn Write) -> Result<Vec<String>, Error> {
        let (file, mut failed) = (self.file.clone(), None);
        let read = task(&file, |item| {
            if failed.is_none() {
                let written = self.line(&item).and_then(|line| match line {
                    Some(line) => put(SUBMISSION, out, format!("{line}\n").as_bytes()),
                    None => Ok(()),
                });
                failed = written.err();
            }
            Ok(())
        });
        failed.map_or(Ok(()), Err)?;
        read?;
        // Sorted, since a hash table has no order of its own.
        let left = std::mem::take(&mut self.predictions).into_iter().min_by(|(a, _), (b, _)| a.cmp(b));
        if let Some((key, predictions)) = left {
            let system = predictions.into_keys().next().unwrap_or_default();
            return Err(self.unknown(key, system));
        }
        let mut notes = self.losses.notes();
        if !self.marks {
            notes.push("`task1_pred` is left out, since the judge marks no errors".into());
        }
        notes.extend(self.scale.and_then(Scale::percent_rule));
        notes.push(match self.scale {
            None => "`task2_pred` and `task3_pred` are left out, since the scale of the scores is not known"
                .into(),
            Some(_) if self.has_references => {
                "`task3_pred` is left out: Task 3 allows no references, and the judge was shown them".into()
            }
            Some(_) => format!(
                "error-free (`task3_pred`) are translations without an error and with a score from {} on",
                self.threshold
            ),
        });
        Ok(notes)
    }
}

/// `3 translations`
fn translations(n: usize) -> String {
    counted(n, "translation")
}
