//! Ratings with error spans, as mt-metrics-eval reads them on their own: one JSON object for each verdict.
//!
//! Source: mt-metrics-eval, `standalone_ratings.py` (`Rating`) and `ratings.py` (`Error`): offsets are half-open and in
//! code points, a segment's id counts from 0, a higher `score` is worse.

use serde_json::{Value, json};

use super::{Export, Job, counted};
use crate::{
    mqm::{ErrorSpan, Side},
    run::Record,
};

/// All verdicts, in the run's order.
pub fn export(job: &Job<'_>) -> Export {
    let scored = job.records.iter().filter(|record| record.score.is_some());
    let lines: String = scored.clone().map(|record| format!("{}\n", rating(record, job.name))).collect();
    let mut notes = Vec::new();
    let missing = job.records.len() - scored.clone().count();
    if missing > 0 {
        notes.push(format!("{} without a verdict: no line stands for them", counted(missing, "segment")));
    }
    let unplaced = scored.flat_map(|record| &record.errors).filter(|error| error.start.is_none()).count();
    if unplaced > 0 {
        notes.push(format!("{} named no place in the text and are left out", counted(unplaced, "error")));
    }
    Export::single(lines.into_bytes(), notes)
}

fn rating(record: &Record, rater: &str) -> Value {
    let doc = Some(&record.doc).filter(|doc| !doc.is_empty());
    json!({
        "source": record.source,
        "hypothesis": record.hypothesis,
        "errors": record.errors.iter().filter_map(error).collect::<Vec<_>>(),
        "document_id": doc,
        "segment_id": record.seg,
        "system_id": record.system,
        "rater_id": rater,
        "src_lang": record.src_lang,
        "tgt_lang": record.tgt_lang,
    })
}

fn error(error: &ErrorSpan) -> Option<Value> {
    Some(json!({
        "start": error.start?,
        "end": error.end?,
        "category": error.category,
        "severity": error.severity,
        "score": error.weight,
        "is_source_error": error.side == Side::Source,
    }))
}
