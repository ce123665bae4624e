//! A campaign for Pearmut in which annotators start from the judge's error spans (ESA-AI). Its spans are of the
//! translation only. They count what its page makes of a text: an element for each UTF-16 unit but line feeds; both ends
//! are inclusive.
//!
//! Source: zouharvi/pearmut, `README.md`, "Pre-filled Error Spans"; `web/src/utils.ts`, `contentToCharSpans` and
//! `isMediaContent`; `server/cli.py`, `_validate_item_structure` and `_validate_document_models`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{Error, Export, Job, counted, names::Names};
use crate::{
    mqm::{ErrorSpan, Severity, Side},
    run::Record,
};

/// The segments of a document, each with its number.
type Items = Vec<(Option<usize>, Value)>;

/// How a text begins that the page takes for a picture or a sound; no span is shown on it.
const MEDIA: [&str; 4] = ["<audio ", "<video ", "<img ", "<iframe "];

/// One task: the documents in the run's order, in each its segments with the translations of all systems.
pub fn export(job: &Job<'_>) -> Result<Export, Error> {
    let mut systems = Names::new("system", named);
    let mut documents: Vec<(String, Items)> = Vec::new();
    for record in job.records {
        let system = systems.written(&record.system)?;
        let id = document(record);
        let at = documents.iter().position(|(there, _)| *there == id).unwrap_or_else(|| {
            documents.push((id, Vec::new()));
            documents.len() - 1
        });
        let items = &mut documents[at].1;
        // A second version of a translation has an item of its own.
        let place = items.iter().position(|(seg, item)| {
            *seg == record.seg && item["src"] == record.source && item["tgt"].get(&system).is_none()
        });
        let place = place.unwrap_or_else(|| {
            items.push((record.seg, item(record)));
            items.len() - 1
        });
        add(&mut items[place].1, &system, record);
    }
    let uneven = documents.iter().filter(|(_, items)| is_uneven(items)).count();
    let mut info = json!({ "assignment": "task-based", "protocol": "ESA" });
    if uneven > 0 {
        info["shuffle"] = json!(false);
    }
    if let Some(signature) = job.origin.signature {
        info["signature"] = json!(signature);
    }
    let tasks: Vec<Vec<Value>> =
        documents.into_iter().map(|(_, items)| items.into_iter().map(|(_, item)| item).collect()).collect();
    let campaign = json!({ "info": info, "campaign_id": job.name, "data": [tasks] });
    let mut notes = systems.notes("Pearmut refuses names of digits alone");
    if uneven > 0 {
        notes.push(format!(
            "in {} some system has no translation of some segment: Pearmut takes such a campaign only with `\"shuffle\": false`, \
             which is set, so that annotators see the systems in one order",
            counted(uneven, "document")
        ));
    }
    notes.extend(losses(job.records));
    Ok(Export::single(format!("{campaign:#}\n").into_bytes(), notes))
}

/// A name that has more than digits.
fn named(system: &str) -> String {
    let is_digits = !system.is_empty() && system.chars().all(char::is_numeric);
    if is_digits { format!("system-{system}") } else { system.to_owned() }
}

/// Whether the items of a document have translations of different systems.
fn is_uneven(items: &Items) -> bool {
    let systems = |item: &Value| -> BTreeSet<String> {
        item["tgt"].as_object().map_or_else(BTreeSet::new, |systems| systems.keys().cloned().collect())
    };
    items.windows(2).any(|pair| systems(&pair[0].1) != systems(&pair[1].1))
}

/// The key by which segments are grouped: pair and document, or the segment if there are no documents.
fn document(record: &Record) -> String {
    let name = if record.doc.is_empty() { format!("{:?}", record.seg) } else { record.doc.clone() };
    format!("{} {name}", record.pair())
}

fn item(record: &Record) -> Value {
    let seg = record.seg.map_or_else(String::new, |seg| format!(" {seg}"));
    json!({
        "instructions": format!(
            "Evaluate the translation from {} to {}.", record.src_lang.name(), record.tgt_lang.name()
        ),
        "item_id": format!("{}{seg}", record.doc).trim(),
        "src": record.source,
        "tgt": Map::new(),
        "error_spans": Map::new(),
    })
}

fn add(item: &mut Value, system: &str, record: &Record) {
    item["tgt"][system] = json!(record.hypothesis);
    item["error_spans"][system] =
        record.errors.iter().filter_map(|error| span(error, &record.hypothesis)).collect();
}

fn span(error: &ErrorSpan, text: &str) -> Option<Value> {
    let (start, end) = place(error, text)?;
    let severity = if error.severity == Severity::Critical { Severity::Major } else { error.severity };
    Some(json!({ "start_i": start, "end_i": end, "severity": severity, "category": error.category }))
}

/// The first and the last of the elements that an error covers; `None` for one of the source, without a place, or of
/// line feeds alone.
fn place(error: &ErrorSpan, text: &str) -> Option<(usize, usize)> {
    let (start, end) = error.start.zip(error.end).filter(|_| error.side == Side::Target)?;
    let n_elements = |chars: usize| -> usize {
        text.chars().take(chars).filter(|c| *c != '\n').map(char::len_utf16).sum()
    };
    let (start, end) = (n_elements(start), n_elements(end));
    (start < end).then(|| (start, end - 1))
}

fn losses(records: &[Record]) -> Vec<String> {
    let errors = || records.iter().flat_map(|record| record.errors.iter().map(move |error| (record, error)));
    let is_placed = |(record, error): &(&Record, &ErrorSpan)| place(error, &record.hypothesis).is_some();
    let left_out = errors().filter(|error| !is_placed(error)).count();
    let is_critical = |(_, error): &(&Record, &ErrorSpan)| error.severity == Severity::Critical;
    let critical = errors().filter(|error| is_critical(error) && is_placed(error)).count();
    let overlapping = records.iter().filter(|record| overlap(record)).count();
    let media = records.iter().filter(|r| MEDIA.iter().any(|tag| r.hypothesis.starts_with(tag))).count();
    let counts = [
        (left_out, "error", "left out: {}, of the source or without a place in the translation"),
        (critical, "critical error", "written as major, the worst that Pearmut knows: {}"),
        (overlapping, "translation", "errors overlap in {}: where they do, Pearmut shows the last one"),
        (
            media,
            "translation",
            "Pearmut takes {} for a picture or a sound, by its first tag, and shows no errors on it",
        ),
    ];
    let said = counts.into_iter().filter(|(n, ..)| *n > 0);
    said.map(|(n, what, text)| text.replace("{}", &counted(n, what))).collect()
}

fn overlap(record: &Record) -> bool {
    let mut places: Vec<_> =
        record.errors.iter().filter_map(|error| place(error, &record.hypothesis)).collect();
    places.sort_unstable();
    places.windows(2).any(|pair| pair[1].0 <= pair[0].1)
}
