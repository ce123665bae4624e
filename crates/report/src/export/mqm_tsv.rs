//! WMT's MQM TSV: a row for each error with its span between `<v>` and `</v>`, a `No-error` row for a clean
//! segment. Segments without a verdict are left out: an empty row would mark them as clean.
//!
//! Tabs and line ends become spaces. Fields are neither quoted nor escaped, and formulas are not neutralised:
//! Marot and WMT's scripts split lines at tabs.
//!
//! Source: google/wmt-mqm-human-evaluation, `README.md`; google-research/marot, `README.md`: a tenth column
//! of metadata, whose `evaluation` is in the first row only; mt-metrics-eval, `converters/score_mqm.py`:
//! columns by name.

use std::{collections::BTreeMap, io::Write};

use serde_json::{Value, json};

use super::{Error, Rows, counted, names::Names, put};
use crate::{
    mqm::{ErrorSpan, Severity, Side},
    run::Record,
};

/// Name of the format in messages.
const TSV: &str = "MQM TSV";

const MARKS: [&str; 2] = ["<v>", "</v>"];

/// Rows by one rater.
pub struct Tsv {
    rater: String,
    signature: Option<String>,
    has_rows: bool,
    systems: Names,
    docs: Names,
    /// By system and document: the last segment, and its position.
    in_doc: BTreeMap<(String, String), (usize, usize)>,
    missing: usize,
    unmarked: usize,
    critical: usize,
}

impl Tsv {
    pub fn new(rater: &str, signature: Option<&str>) -> Self {
        Self {
            rater: rater.to_owned(),
            signature: signature.map(str::to_owned),
            has_rows: false,
            systems: Names::new("system", name_field),
            docs: Names::new("document", name_field),
            in_doc: BTreeMap::new(),
            missing: 0,
            unmarked: 0,
            critical: 0,
        }
    }

    /// The position of a segment in its document, from 1; versions of one translation share it.
    fn position(&mut self, record: &Record, seg: usize) -> usize {
        let (last, position) = self.in_doc.entry((record.system.clone(), record.doc.clone())).or_default();
        if *position == 0 || *last != seg {
            (*last, *position) = (seg, *position + 1);
        }
        *position
    }

    /// The tenth column of a run: its signature in the file's first row.
    fn metadata(&mut self) -> Option<Value> {
        let signature = self.signature.as_ref()?;
        let is_first = !std::mem::replace(&mut self.has_rows, true);
        Some(if is_first { json!({ "evaluation": { "signature": signature } }) } else { json!({}) })
    }

    fn count(&mut self, error: Option<&ErrorSpan>) {
        self.unmarked += usize::from(error.is_some_and(|error| mark_offsets(error).is_none()));
        self.critical += usize::from(error.is_some_and(|error| error.severity == Severity::Critical));
    }
}

impl Rows for Tsv {
    fn begin(&mut self, out: &mut dyn Write) -> Result<(), Error> {
        let metadata = if self.signature.is_some() { "\tmetadata" } else { "" };
        let header =
            format!("system\tdoc\tdoc_id\tseg_id\trater\tsource\ttarget\tcategory\tseverity{metadata}\n");
        put(TSV, out, header.as_bytes())
    }

    fn add(&mut self, record: &Record, out: &mut dyn Write) -> Result<(), Error> {
        let Record { system, doc, .. } = record;
        let seg = record.seg.ok_or_else(|| Error::Document { system: system.clone(), doc: doc.clone() })?;
        let position = self.position(record, seg);
        if record.score.is_none() {
            self.missing += 1;
            return Ok(());
        }
        reject_marks(record, seg)?;
        let names = [self.systems.written(system)?, self.docs.written(doc)?];
        let ids = [position.to_string(), (seg + 1).to_string(), one_line(&self.rater)];
        for error in errors(record) {
            self.count(error);
            let mut fields = [&names[..], &ids].concat();
            fields.extend(texts(record, error));
            fields.extend(labels(error));
            fields.extend(self.metadata().map(|metadata| metadata.to_string()));
            put(TSV, out, (fields.join("\t") + "\n").as_bytes())?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>, _: &mut dyn Write) -> Result<Vec<String>, Error> {
        let why = "a field has no tabs and line ends in it and no white space around it";
        let mut notes = [self.systems.notes(why), self.docs.notes(why)].concat();
        if self.missing > 0 {
            let segments = counted(self.missing, "segment");
            notes.push(format!("{segments} without a verdict: left out"));
        }
        if self.unmarked > 0 {
            let errors = counted(self.unmarked, "error");
            notes.push(format!("{errors} without a location in the text: no `<v>` marks in their rows"));
        }
        if self.critical > 0 {
            let errors = counted(self.critical, "critical error");
            notes.push(format!(
                "{errors}: mt-metrics-eval's `score_mqm.py` counts severities that its `--weights` names, by default major, minor \
                 and neutral"
            ));
        }
        Ok(notes)
    }
}

/// The errors of a record, or one `None` for a clean one.
fn errors(record: &Record) -> Vec<Option<&ErrorSpan>> {
    if record.errors.is_empty() { vec![None] } else { record.errors.iter().map(Some).collect() }
}

/// Refuses texts that contain the marks of an error's span.
fn reject_marks(record: &Record, seg: usize) -> Result<(), Error> {
    let marked = |mark: &&&str| record.source.contains(**mark) || record.hypothesis.contains(**mark);
    match MARKS.iter().find(marked) {
        Some(mark) => Err(Error::Mark { system: record.system.clone(), seg, mark }),
        None => Ok(()),
    }
}

/// Offsets of an error's marks; `None` for an error without a location or with an empty span.
fn mark_offsets(error: &ErrorSpan) -> Option<(usize, usize)> {
    error.start.zip(error.end).filter(|(start, end)| start < end)
}

/// Source and translation, one of them with the error marked.
fn texts(record: &Record, error: Option<&ErrorSpan>) -> [String; 2] {
    let [mut source, mut target] = [one_line(&record.source), one_line(&record.hypothesis)];
    if let Some((error, (start, end))) = error.and_then(|error| Some((error, mark_offsets(error)?))) {
        let text = if error.side == Side::Source { &mut source } else { &mut target };
        let byte = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
        let (before, tail) = text.split_at(byte(start));
        let (inside, after) = tail.split_at(byte(end) - before.len());
        *text = [before, MARKS[0], inside, MARKS[1], after].concat();
    }
    [source, target]
}

/// Category and severity as WMT's files spell them.
fn labels(error: Option<&ErrorSpan>) -> [String; 2] {
    let Some(error) = error else { return ["No-error", "No-error"].map(String::from) };
    let category: Vec<String> = error.category.split('/').map(capitalised).collect();
    let category = match category.join("/").as_str() {
        "Non-translation" => "Non-translation!".into(),
        "" => "Other".into(),
        category => one_line(category),
    };
    [category, capitalised(error.severity.name())]
}

fn capitalised(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// A name as a field; readers drop white space around it.
fn name_field(name: &str) -> String {
    one_line(name).trim().to_owned()
}

/// A text as a field: each tab and line end becomes one space, so that offsets stay.
fn one_line(text: &str) -> String {
    text.replace(['\t', '\n', '\r'], " ")
}
