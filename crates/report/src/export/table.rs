//! CSV for spreadsheets and data frames: a row for each verdict, its errors as JSON.

use std::io::Write;

use super::{Error, Origin, Rows, counted, put};
use crate::{
    cells::{is_formula, quoted},
    number,
    plain::{plain, plain_json},
    run::Record,
};

/// The columns, which Parquet has too.
/// `segment` counts from 1; `seg` is the id, as in `verdicts.jsonl`.
pub const HEADER: &str = "system doc segment seg src_lang tgt_lang source hypothesis score raw quality_score \
                          interval_low interval_high status reason warning n_errors errors signature";

/// All verdicts, with control characters shown. Missing values are empty.
pub fn csv(records: &[Record], signature: Option<&str>) -> Result<Vec<u8>, Error> {
    let shown = |(name, cell): (&str, String)| match name {
        "errors" => plain_json(&cell).into_owned(),
        _ => plain(&cell).into_owned(),
    };
    let cells = |record| HEADER.split(' ').zip(row(record, signature)).map(shown).collect();
    let rows = records.iter().map(|record| quoted(cells(record)));
    write(&std::iter::once(header()).chain(rows).collect::<Vec<_>>())
}

/// The verdicts as they are, one by one.
pub struct Csv {
    signature: Option<String>,
    n_quoted: usize,
}

impl Csv {
    pub fn new(origin: Origin<'_>) -> Self {
        let signature = origin.signature.map(str::to_owned);
        Self { signature, n_quoted: 0 }
    }
}

impl Rows for Csv {
    fn begin(&mut self, out: &mut dyn Write) -> Result<(), Error> {
        put("CSV", out, &write(&[header()])?)
    }

    fn add(&mut self, record: &Record, out: &mut dyn Write) -> Result<(), Error> {
        let row = row(record, self.signature.as_deref());
        self.n_quoted += row.iter().filter(|cell| is_formula(cell)).count();
        put("CSV", out, &write(&[quoted(row)])?)
    }

    fn finish(self: Box<Self>, _: &mut dyn Write) -> Result<Vec<String>, Error> {
        let cells = match self.n_quoted {
            0 => return Ok(Vec::new()),
            1 => "1 cell that a spreadsheet would run as a formula begins".to_owned(),
            n => format!("{} that a spreadsheet would run as formulas begin", counted(n, "cell")),
        };
        Ok(vec![format!("{cells} with an apostrophe; hint: `--as parquet` keeps texts unchanged")])
    }
}

fn header() -> Vec<String> {
    HEADER.split(' ').map(String::from).collect()
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

/// The cells of a verdict, in the order of [`HEADER`].
///
/// # Panics
/// Never: the errors are strings and numbers.
pub fn row(record: &Record, signature: Option<&str>) -> Vec<String> {
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
        record.warning.clone().unwrap_or_default(),
        record.errors.len().to_string(),
        serde_json::to_string(&record.errors).expect("strings and numbers only"),
        signature.unwrap_or_default().to_owned(),
    ]
}
