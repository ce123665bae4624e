//! Ratings with error spans in the format of mt-metrics-eval's standalone ratings: one JSON object for each
//! verdict.
//!
//! Source: mt-metrics-eval, `standalone_ratings.py` (`Rating`) and `ratings.py` (`Error`): offsets are
//! half-open and in code points, a segment's id counts from 0, a higher `score` is worse. Unknown fields,
//! such as `signature`, are ignored.

use std::io::Write;

use serde_json::{Value, json};

use super::{Error, Rows, counted, put};
use crate::{
    mqm::{ErrorSpan, Side},
    run::Record,
};

/// Lines of ratings by one rater.
pub struct Ratings {
    rater: String,
    signature: Option<String>,
    missing: usize,
    unplaced: usize,
}

impl Ratings {
    pub fn new(rater: &str, signature: Option<&str>) -> Self {
        Self { rater: rater.to_owned(), signature: signature.map(str::to_owned), missing: 0, unplaced: 0 }
    }
}

impl Rows for Ratings {
    fn add(&mut self, record: &Record, out: &mut dyn Write) -> Result<(), Error> {
        if record.score.is_none() {
            self.missing += 1;
            return Ok(());
        }
        self.unplaced += record.errors.iter().filter(|error| error.start.is_none()).count();
        let mut rating = rating(record, &self.rater);
        if let Some(warning) = &record.warning {
            rating["warning"] = json!(warning);
        }
        if let Some(signature) = &self.signature {
            rating["signature"] = json!(signature);
        }
        put("ratings", out, format!("{rating}\n").as_bytes())
    }

    fn finish(self: Box<Self>, _: &mut dyn Write) -> Result<Vec<String>, Error> {
        let mut notes = Vec::new();
        if self.missing > 0 {
            let segments = counted(self.missing, "segment");
            notes.push(format!("{segments} without a verdict: left out"));
        }
        if self.unplaced > 0 {
            let errors = counted(self.unplaced, "error");
            notes.push(format!("{errors} without a location in the text: left out"));
        }
        Ok(notes)
    }
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
