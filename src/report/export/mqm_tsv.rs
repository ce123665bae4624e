//! WMT's MQM TSV, and Marot's: a row for each error with its span between `<v>` and `</v>`, a `No-error` row for a
//! clean segment. Segments without a verdict are left out: an empty row would say that they are clean.
//!
//! Source: google/wmt-mqm-human-evaluation, `README.md`.

use std::{collections::BTreeMap, io::Write};

use serde_json::{Value, json};

use super::{Error, Rows, counted, put};
use crate::{
    mqm::{ErrorSpan, Side},
    run::Record,
};

/// How many columns a row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    Nine,
    Ten,
}

/// What messages call the format.
const TSV: &str = "MQM TSV";

const MARKS: [&str; 2] = ["<v>", "</v>"];

/// Rows by one rater.
pub struct Tsv {
    rater: String,
    columns: Columns,
    is_begun: bool,
    /// How many segments of each system's documents have come.
    in_doc: BTreeMap<(String, String), usize>,
    missing: usize,
    unmarked: usize,
}

impl Tsv {
    pub fn new(rater: &str, columns: Columns) -> Self {
        let (rater, in_doc) = (rater.to_owned(), BTreeMap::new());
        Self { rater, columns, is_begun: false, in_doc, missing: 0, unmarked: 0 }
    }

    fn begin(&mut self, out: &mut dyn Write) -> Result<(), Error> {
        if std::mem::replace(&mut self.is_begun, true) {
            return Ok(());
        }
        let header = match self.columns {
            Columns::Nine => "system\tdoc\tdoc_id\tseg_id\trater\tsource\ttarget\tcategory\tseverity\n",
            Columns::Ten => {
                "system\tdoc\tdocSegId\tglobalSegId\trater\tsource\ttarget\tcategory\tseverity\tmetadata\n"
            }
        };
        put(TSV, out, header.as_bytes())
    }

    /// The place of a segment in its document, from 1.
    fn place(&mut self, record: &Record) -> usize {
        let place = self.in_doc.entry((record.system.clone(), record.doc.clone())).or_default();
        *place += 1;
        *place
    }

    /// What Marot keeps of an error beside its columns; the score stands in the first row.
    fn metadata(&self, record: &Record, idx: usize, error: Option<&ErrorSpan>) -> Value {
        let score = || json!({ "segment": { "metrics": { &self.rater: record.score } } });
        let mut metadata = if idx == 0 { score() } else { json!({}) };
        if let Some(note) = error.and_then(|error| error.explanation.as_deref()) {
            metadata["note"] = json!(note);
        }
        metadata
    }
}

impl Rows for Tsv {
    fn add(&mut self, record: &Record, out: &mut dyn Write) -> Result<(), Error> {
        self.begin(out)?;
        let Record { system, doc, .. } = record;
        let seg = record.seg.ok_or_else(|| Error::Document { system: system.clone(), doc: doc.clone() })?;
        let place = self.place(record);
        if record.score.is_none() {
            self.missing += 1;
            return Ok(());
        }
        no_marks(record, seg)?;
        let start = [plain(system), plain(doc), place.to_string(), (seg + 1).to_string(), plain(&self.rater)];
        for (idx, error) in errors(record).into_iter().enumerate() {
            self.unmarked += usize::from(error.is_some_and(|error| error.start.is_none()));
            let mut fields = start.to_vec();
            fields.extend(texts(record, error));
            fields.extend(labels(error));
            if self.columns == Columns::Ten {
                fields.push(self.metadata(record, idx, error).to_string());
            }
            put(TSV, out, (fields.join("\t") + "\n").as_bytes())?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, out: &mut dyn Write) -> Result<Vec<String>, Error> {
        self.begin(out)?;
        let mut notes = Vec::new();
        if self.missing > 0 {
            let segments = counted(self.missing, "segment");
            notes.push(format!("{segments} without a verdict: no row stands for them"));
        }
        if self.unmarked > 0 {
            let errors = counted(self.unmarked, "error");
            notes.push(format!("{errors} named no place in the text: their rows mark none"));
        }
        Ok(notes)
    }
}

/// The errors of a record, or one `None` for a clean one.
fn errors(record: &Record) -> Vec<Option<&ErrorSpan>> {
    if record.errors.is_empty() { vec![None] } else { record.errors.iter().map(Some).collect() }
}

fn no_marks(record: &Record, seg: usize) -> Result<(), Error> {
    let marked = |mark: &&&str| record.source.contains(**mark) || record.hypothesis.contains(**mark);
    match MARKS.iter().find(marked) {
        Some(mark) => Err(Error::Mark { system: record.system.clone(), seg, mark }),
        None => Ok(()),
    }
}

/// Source and translation, one of them with the error marked.
fn texts(record: &Record, error: Option<&ErrorSpan>) -> [String; 2] {
    let [mut source, mut target] = [plain(&record.source), plain(&record.hypothesis)];
    if let Some((error, (start, end))) = error.and_then(|e| Some((e, e.start.zip(e.end)?))) {
        let text = if error.side == Side::Source { &mut source } else { &mut target };
        let chars: Vec<char> = text.chars().collect();
        let part = |from: usize, to: usize| chars[from.min(chars.len())..to.min(chars.len())].iter();
        let end = end.max(start);
        *text = (part(0, start).chain(MARKS[0].chars().collect::<Vec<_>>().iter()))
            .chain(part(start, end))
            .chain(MARKS[1].chars().collect::<Vec<_>>().iter())
            .chain(part(end, chars.len()))
            .collect();
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
        category => plain(category),
    };
    [category, capitalised(error.severity.name())]
}

fn capitalised(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// A text as a field: each tab and line end becomes a space, so that offsets stay.
fn plain(text: &str) -> String {
    text.replace(['\t', '\n', '\r'], " ")
}
