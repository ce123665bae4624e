//! CSV for spreadsheets and data frames: a row for each verdict, its errors as JSON.

use std::io::Write;

use super::{Error, Rows, put};
use crate::run::Record;

/// The columns, which Parquet has too.
/// `segment` counts from 1; `seg` is the id, as in `verdicts.jsonl`.
pub const HEADER: [&str; 17] = [
    "system",
    "doc",
    "segment",
    "seg",
    "src_lang",
    "tgt_lang",
    "source",
    "hypothesis",
    "score",
    "raw",
    "quality_score",
    "interval_low",
    "interval_high",
    "status",
    "reason",
    "n_errors",
    "errors",
];

/// All verdicts. Missing values are empty.
pub fn csv(records: &[Record]) -> Result<Vec<u8>, Error> {
    let rows = records.iter().map(row);
    write(&std::iter::once(header()).chain(rows).collect::<Vec<_>>())
}

/// The same, verdict by verdict.
#[derive(Default)]
pub struct Csv {
    is_begun: bool,
}

impl Csv {
    fn begin(&mut self, out: &mut dyn Write) -> Result<(), Error> {
        if std::mem::replace(&mut self.is_begun, true) {
            return Ok(());
        }
        put("CSV", out, &write(&[header()])?)
    }
}

impl Rows for Csv {
    fn add(&mut self, record: &Record, out: &mut dyn Write) -> Result<(), Error> {
        self.begin(out)?;
        put("CSV", out, &write(&[row(record)])?)
    }

    fn finish(mut self: Box<Self>, out: &mut dyn Write) -> Result<Vec<String>, Error> {
        self.begin(out)?;
        Ok(Vec::new())
    }
}

fn header() -> Vec<String> {
    HEADER.map(String::from).to_vec()
}

/// Rows with quotes where they must be.
pub fn write(rows: &[Vec<String>]) -> Result<Vec<u8>, Error> {
    let failed = |reason: String| Error::Write { format: "CSV", reason };
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(row).map_err(|error| failed(error.to_string()))?;
    }
    writer.into_inner().map_err(|error| failed(error.to_string()))
}

fn row(record: &Record) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
    vec![
        record.system.clone(),
        record.doc.clone(),
        record.seg.map_or_else(String::new, |seg| seg.saturating_add(1).to_string()),
        record.seg.map_or_else(String::new, |seg| seg.to_string()),
        record.src_lang.to_string(),
        record.tgt_lang.to_string(),
        record.source.clone(),
        record.hypothesis.clone(),
        number(record.score),
        number(record.raw),
        number(record.quality_score),
        number(record.interval.map(|[low, _]| low)),
        number(record.interval.map(|[_, high]| high)),
        record.status.name().into(),
        record.reason.clone().unwrap_or_default(),
        record.errors.len().to_string(),
        serde_json::to_string(&record.errors).expect("strings and numbers only"),
    ]
}
