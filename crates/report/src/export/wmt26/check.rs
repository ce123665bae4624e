//! Checks a submission to WMT26's evaluation task against the task's file: ids, systems, spans, severities,
//! scores, decisions. It changes nothing, and reads no scores of raters.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
};

use serde::Serialize;
use serde_json::{Map, Value};

use super::TASKS;
use crate::{
    files::{json, text},
    segment::read::{self, task},
};

/// The most problems that are listed; the others are counted.
const LISTED: usize = 100;

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Lines of the submission.
    pub n_items: usize,
    /// Predictions by task.
    pub n_predictions: [usize; 3],
    /// Language pairs of the task that the submission has no line for.
    pub other_pairs: BTreeSet<String>,
    /// The first ones, in the order of the lines.
    pub problems: Vec<Problem>,
    pub n_problems: usize,
}

/// Something that the task does not accept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Line of the submission, from 1; `None` for a missing item.
    pub line: Option<usize>,
    /// The path of a field; empty where the whole line is meant.
    pub field: String,
    /// The fault, as the end of a sentence.
    pub what: String,
}

/// Error of reading the files of a check.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Task(#[from] read::Error),
    #[error("cannot read `{path}`: {source}")]
    Io { path: String, source: std::io::Error },
    #[error("`{0}` contains no line")]
    Nothing(String),
}

/// An item as the task has it.
struct Item {
    pair: String,
    line: usize,
    /// The length of each system's translation. Unit: Unicode code points.
    lengths: BTreeMap<String, usize>,
}

/// Checks a submission against the task's file. A language pair of which no item is submitted is skipped.
///
/// # Errors
/// A file that cannot be read, and a task's file that is none.
pub fn check(task_file: &Path, submission: &Path) -> Result<Report, Error> {
    let (mut items, mut order) = (HashMap::new(), Vec::new());
    task(task_file, |item| {
        let pair = item.pair();
        let lengths =
            item.translations.into_iter().map(|(system, text)| (system, text.chars().count())).collect();
        order.push(item.item_id.clone());
        items.insert(item.item_id, Item { pair, line: item.line, lengths });
        Ok(())
    })?;
    let name = || submission.display().to_string();
    let io = |source| Error::Io { path: name(), source };
    let mut lines = text::lines(submission).map_err(io)?;
    let mut checking =
        Checking { items: &items, seen: HashMap::new(), fields: None, report: Report::default() };
    while let Some((number, line)) = lines.next_line().map_err(io)? {
        if !line.trim().is_empty() {
            checking.line(number, line);
        }
    }
    if checking.report.n_items == 0 {
        return Err(Error::Nothing(name()));
    }
    checking.missing(&order, task_file);
    Ok(checking.report)
}

/// A check on its way.
struct Checking<'a> {
    items: &'a HashMap<String, Item>,
    /// The line of each item.
    seen: HashMap<String, usize>,
    /// The tasks' fields of the first line.
    fields: Option<Vec<&'static str>>,
    report: Report,
}

impl Checking<'_> {
    fn problem(&mut self, line: Option<usize>, field: impl Into<String>, reason: impl Into<String>) {
        self.report.n_problems += 1;
        if self.report.problems.len() < LISTED {
            self.report.problems.push(Problem { line, field: field.into(), what: reason.into() });
        }
    }

    fn line(&mut self, number: usize, text: &str) {
        self.report.n_items += 1;
        let line = Some(number);
        let row = match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(row)) => row,
            Ok(_) => return self.problem(line, "", "is not a JSON object"),
            Err(error) => {
                return self.problem(line, "", format!("is {}", json::syntax(text, &error)));
            }
        };
        let Some(id) = row.get("item_id").and_then(Value::as_str) else {
            return self.problem(line, "item_id", "is missing, or not a string");
        };
        if let Some(first) = self.seen.insert(id.to_owned(), number) {
            self.problem(line, "item_id", format!("is that of line {first} too: `{id}`"));
        }
        self.fields(number, &row);
        let items = self.items;
        match items.get(id) {
            None => self.problem(line, "item_id", format!("is `{id}`, which the task's file does not have")),
            Some(item) => {
                for (n, name) in TASKS.into_iter().enumerate() {
                    if let Some(value) = row.get(name) {
                        self.task(number, (n, name), value, item);
                    }
                }
            }
        }
    }

    /// Fields that the task does not have, and tasks that only some lines have.
    fn fields(&mut self, number: usize, row: &Map<String, Value>) {
        for name in row.keys().filter(|name| *name != "item_id" && !TASKS.contains(&name.as_str())) {
            self.problem(
                Some(number),
                name.clone(),
                format!("is no field of a submission, which has `item_id`, `{}`", TASKS.join("`, `")),
            );
        }
        let tasks: Vec<&str> = TASKS.into_iter().filter(|name| row.contains_key(*name)).collect();
        if tasks.is_empty() {
            self.problem(Some(number), TASKS[0], "is missing, and so are the other tasks' fields");
            return;
        }
        let first = self.fields.get_or_insert_with(|| tasks.clone()).clone();
        for name in first.iter().filter(|name| !tasks.contains(name)) {
            self.problem(Some(number), *name, "is missing, but other lines have it");
        }
        for name in tasks.iter().filter(|name| !first.contains(name)) {
            self.problem(Some(number), *name, "is here, but earlier lines do not have it");
        }
    }

    fn task(&mut self, number: usize, (n, name): (usize, &str), value: &Value, item: &Item) {
        let Some(predictions) = value.as_object() else {
            return self.problem(Some(number), name, "is not an object of systems");
        };
        for (system, value) in predictions {
            let field = format!("{name}.{system}");
            let Some(length) = item.lengths.get(system) else {
                self.problem(Some(number), field, "is no system of this item");
                continue;
            };
            self.report.n_predictions[n] += 1;
            match n {
                0 => self.spans(number, &field, value, *length),
                1 if !value.as_f64().is_some_and(|score| (0.0..=100.0).contains(&score)) => {
                    self.problem(Some(number), field, format!("is {value}, not a number from 0 to 100"));
                }
                2 if !matches!(value.as_u64(), Some(0 | 1)) => {
                    self.problem(Some(number), field, format!("is {value}, neither 0 nor 1"));
                }
                _ => {}
            }
        }
        let lacking: Vec<&str> = item
            .lengths
            .keys()
            .filter(|system| !predictions.contains_key(*system))
            .map(String::as_str)
            .collect();
        if let Some((first, others)) = lacking.split_first() {
            let more = and_more(others.len());
            self.problem(Some(number), name, format!("lacks the system `{first}`{more}"));
        }
    }

    fn spans(&mut self, number: usize, field: &str, value: &Value, length: usize) {
        let line = Some(number);
        for name in ["omission", "instruction_fault"] {
            match value.get(name) {
                None => self.problem(
                    line,
                    format!("{field}.{name}"),
                    "is missing; without such an error it is null",
                ),
                Some(Value::Null) => {}
                Some(found) if is_severity(found) => {}
                Some(found) => self.problem(
                    line,
                    format!("{field}.{name}"),
                    format!("is {found}, not null, \"minor\" or \"major\""),
                ),
            }
        }
        let Some(errors) = value.get("errors").and_then(Value::as_array) else {
            return self.problem(line, format!("{field}.errors"), "is missing, or not a list");
        };
        for (idx, error) in errors.iter().enumerate() {
            let field = |name: &str| format!("{field}.errors[{idx}].{name}");
            let offset = |name: &str| error.get(name).and_then(Value::as_u64);
            match (offset("start"), offset("end")) {
                (Some(start), Some(end)) if start < end && end <= length as u64 => {}
                (Some(start), Some(end)) if start >= end => {
                    let reason = format!(
                        "is {end}, but the span begins at {start}; `end` is behind its last character"
                    );
                    self.problem(line, field("end"), reason);
                }
                (Some(_), Some(end)) => {
                    self.problem(
                        line,
                        field("end"),
                        format!("is {end}, but the translation has {length} characters"),
                    );
                }
                (None, _) => self.problem(line, field("start"), "is missing, or not a whole number from 0"),
                (_, None) => self.problem(line, field("end"), "is missing, or not a whole number from 0"),
            }
            if !error.get("severity").is_some_and(is_severity) {
                self.problem(line, field("severity"), "is neither \"minor\" nor \"major\"");
            }
        }
    }

    /// Items of the submitted language pairs that have no line.
    fn missing(&mut self, order: &[String], task_file: &Path) {
        let pairs: BTreeSet<&str> =
            self.seen.keys().filter_map(|id| self.items.get(id)).map(|item| item.pair.as_str()).collect();
        self.report.other_pairs = self
            .items
            .values()
            .filter(|item| !pairs.contains(item.pair.as_str()))
            .map(|item| item.pair.clone())
            .collect();
        let is_missing =
            |id: &&String| !self.seen.contains_key(*id) && pairs.contains(self.items[*id].pair.as_str());
        let missing: Vec<&String> = order.iter().filter(is_missing).collect();
        if let Some((first, others)) = missing.split_first() {
            let more = and_more(others.len());
            let reason = format!(
                "is missing: `{first}` of `{}` line {}{more}",
                task_file.display(),
                self.items[*first].line
            );
            self.problem(None, "item_id", reason);
        }
    }
}

fn is_severity(value: &Value) -> bool {
    matches!(value.as_str(), Some("minor" | "major"))
}

/// ` (and 3 more)`; nothing for none.
fn and_more(n: usize) -> String {
    if n == 0 { String::new() } else { format!(" (and {n} more)") }
}
