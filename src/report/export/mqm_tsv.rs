//! WMT's MQM TSV, and Marot's: a row for each error with its span between `<v>` and `</v>`, a `No-error` row for a
//! clean segment. Segments without a verdict are left out: an empty row would say that they are clean.
//!
//! Source: google/wmt-mqm-human-evaluation, `README.md`.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Error, Export, Job, counted};
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

const MARKS: [&str; 2] = ["<v>", "</v>"];

/// All rows, in the run's order.
pub fn export(job: &Job<'_>, columns: Columns) -> Result<Export, Error> {
    let mut out = String::from(match columns {
        Columns::Nine => "system\tdoc\tdoc_id\tseg_id\trater\tsource\ttarget\tcategory\tseverity\n",
        Columns::Ten => {
            "system\tdoc\tdocSegId\tglobalSegId\trater\tsource\ttarget\tcategory\tseverity\tmetadata\n"
        }
    });
    let mut in_doc: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let (mut missing, mut unmarked) = (0, 0);
    for record in job.records {
        let Record { system, doc, .. } = record;
        let seg = record.seg.ok_or_else(|| Error::Document { system: system.clone(), doc: doc.clone() })?;
        let place = in_doc.entry((system, doc)).or_default();
        *place += 1;
        if record.score.is_none() {
            missing += 1;
            continue;
        }
        no_marks(record, seg)?;
        let start = [plain(system), plain(doc), place.to_string(), (seg + 1).to_string(), plain(job.name)];
        let first = json!({ "segment": { "metrics": { job.name: record.score } } });
        for (idx, error) in errors(record).into_iter().enumerate() {
            unmarked += usize::from(error.is_some_and(|error| error.start.is_none()));
            let mut fields = start.to_vec();
            fields.extend(texts(record, error));
            fields.extend(labels(error));
            if columns == Columns::Ten {
                let mut metadata = if idx == 0 { first.clone() } else { json!({}) };
                if let Some(note) = error.and_then(|error| error.explanation.as_deref()) {
                    metadata["note"] = json!(note);
                }
                fields.push(metadata.to_string());
            }
            out += &(fields.join("\t") + "\n");
        }
    }
    let mut notes = Vec::new();
    if missing > 0 {
        notes.push(format!("{} without a verdict: no row stands for them", counted(missing, "segment")));
    }
    if unmarked > 0 {
        notes
            .push(format!("{} named no place in the text: their rows mark none", counted(unmarked, "error")));
    }
    Ok(Export::single(out.into_bytes(), notes))
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
