//! CSV as spreadsheets and data frames write it: a header, fields in quotes where they must be. It separates
//! fields and leaves their meaning to `table`.

use std::path::Path;

use serde_json::Value;

use super::{
    Error, Result,
    table::{self, Row, Visit},
    text,
};

/// Reads the rows of a file.
pub fn rows(path: &Path, visit: Visit<'_>) -> Result<()> {
    let text = text::whole(path)?;
    let mut reader = csv::ReaderBuilder::new().from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| wrong(path, &text, &error))?.clone();
    let names: Vec<&str> = header.iter().map(str::trim).collect();
    table::needed(path, &names, "separated by commas")?;
    let row = |record: Result<csv::StringRecord, csv::Error>| {
        let record = record.map_err(|error| wrong(path, &text, &error))?;
        let line = record.position().map_or(0, csv::Position::line) as usize;
        let fields = names.iter().zip(&record).map(|(k, v)| ((*k).to_owned(), Value::from(v))).collect();
        Ok(Row { line, fields })
    };
    reader.records().map(row).try_for_each(|row| visit(row?))
}

fn wrong(path: &Path, text: &str, error: &csv::Error) -> Error {
    let (line, reason) = match error.kind() {
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => (
            pos.as_ref().map_or(0, csv::Position::line),
            format!(
                "{len} {}, but the header has {expected_len}{}",
                if *len == 1 { "field" } else { "fields" },
                if text.matches('"').count() % 2 == 1 { "; a quotation mark is never closed" } else { "" }
            ),
        ),
        _ => (error.position().map_or(0, csv::Position::line), error.to_string()),
    };
    Error::Csv { path: path.into(), line, reason }
}
