//! A campaign for Pearmut in which annotators start from the judge's error spans (ESA-AI). Its spans are of the
//! translation only, with inclusive ends.
//!
//! Source: zouharvi/pearmut, `README.md`, "Pre-filled Error Spans".

use serde_json::{Map, Value, json};

use super::{Export, Job, counted};
use crate::{
    mqm::{ErrorSpan, Severity, Side},
    run::Record,
};

/// The segments of a document, each with its number.
type Items = Vec<(Option<usize>, Value)>;

/// One task: the documents in the run's order, in each its segments with the translations of all systems.
pub fn export(job: &Job<'_>) -> Export {
    let mut documents: Vec<(String, Items)> = Vec::new();
    for record in job.records {
        let id = document(record);
        let at = documents.iter().position(|(there, _)| *there == id).unwrap_or_else(|| {
            documents.push((id, Vec::new()));
            documents.len() - 1
        });
        let items = &mut documents[at].1;
        let place = items.iter().position(|(seg, item)| *seg == record.seg && item["src"] == record.source);
        let place = place.unwrap_or_else(|| {
            items.push((record.seg, item(record)));
            items.len() - 1
        });
        add(&mut items[place].1, record);
    }
    let tasks: Vec<Vec<Value>> =
        documents.into_iter().map(|(_, items)| items.into_iter().map(|(_, item)| item).collect()).collect();
    let campaign = json!({
        "info": { "assignment": "task-based", "protocol": "ESA" },
        "campaign_id": job.name,
        "data": [tasks],
    });
    Export::single(format!("{campaign:#}\n").into_bytes(), notes(job.records))
}

/// What groups segments: the pair and the document, or the segment where there are no documents.
fn document(record: &Record) -> String {
    let name = if record.doc.is_empty() { format!("{:?}", record.seg) } else { record.doc.clone() };
    format!("{}-{} {name}", record.src_lang, record.tgt_lang)
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

fn add(item: &mut Value, record: &Record) {
    item["tgt"][&record.system] = json!(record.hypothesis);
    item["error_spans"][&record.system] = record.errors.iter().filter_map(span).collect();
}

fn span(error: &ErrorSpan) -> Option<Value> {
    let (start, end) = (error.start?, error.end?);
    if error.side == Side::Source || end <= start {
        return None;
    }
    let severity = if error.severity == Severity::Critical { Severity::Major } else { error.severity };
    Some(json!({ "start_i": start, "end_i": end - 1, "severity": severity, "category": error.category }))
}

fn notes(records: &[Record]) -> Vec<String> {
    let errors = || records.iter().flat_map(|record| &record.errors);
    let left_out = errors().filter(|error| span(error).is_none()).count();
    let critical = errors().filter(|e| e.severity == Severity::Critical && span(e).is_some()).count();
    let mut notes = Vec::new();
    if left_out > 0 {
        notes.push(format!(
            "left out: {}, of the source or without a place in the translation",
            counted(left_out, "error")
        ));
    }
    if critical > 0 {
        notes.push(format!(
            "written as major, the worst that Pearmut knows: {}",
            counted(critical, "critical error")
        ));
    }
    notes
}
