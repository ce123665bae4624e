//! COMET's JSON, as `comet-score --to_json` and XCOMET write it. It has no place for source-side errors.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    mqm::Side,
    run::{Record, UnitKey},
    segment::Segment,
};

/// `{SYSTEM: [{src, mt, ref, COMET, errors: [{text, start, end, severity, confidence}]}]}`; `COMET` is the
/// verdict's score (higher is better, on the method's scale), null where there is none; `errors` holds spans
/// of the translation, with half-open offsets in code points; `signature`, which COMET does not write, is
/// that of the run, and `warning` that of a text that is not a translation.
#[must_use]
pub fn json(records: &[Record], segments: &[Segment], signature: Option<&str>) -> Value {
    let references: BTreeMap<UnitKey, &str> =
        segments.iter().filter_map(|s| Some((UnitKey::of_segment(s), s.reference.as_deref()?))).collect();
    let mut systems: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for record in records {
        let mut entry = json!({ "src": record.source, "mt": record.hypothesis });
        if let Some(reference) = references.get(&record.key()) {
            entry["ref"] = json!(reference);
        }
        entry["COMET"] = json!(record.score);
        let spans = record.errors.iter().filter(|e| e.side == Side::Target);
        entry["errors"] = spans
            .map(|e| {
                let mut error = json!({ "text": e.span, "start": e.start, "end": e.end, "severity": e.severity,
                                        "confidence": e.confidence });
                if let Some(suggestion) = &e.suggestion {
                    error["suggestion"] = json!(suggestion);
                }
                error
            })
            .collect();
        if let Some(warning) = &record.warning {
            entry["warning"] = json!(warning);
        }
        if let Some(signature) = signature {
            entry["signature"] = json!(signature);
        }
        systems.entry(record.system.clone()).or_default().push(entry);
    }
    json!(systems)
}
