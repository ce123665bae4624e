//! Parquet as data frames write it. It reads the columns of texts and numbers that a flat table has and leaves their
//! meaning to `table`; nested columns are passed over.

use std::{fs::File, path::Path};

use parquet::{
    file::reader::{FileReader, SerializedFileReader},
    record::{Field, Row as Record},
};
use serde_json::{Map, Value};

use super::{
    Error,
    table::{self, Row, Visit},
};

/// Reads the rows of a file; their numbers stand for lines.
pub fn rows(path: &Path, visit: Visit<'_>) -> Result<(), Error> {
    let file = File::open(path).map_err(|source| Error::Io { path: path.into(), source })?;
    let wrong = |error: parquet::errors::ParquetError| Error::Parquet {
        path: path.into(),
        reason: error.to_string(),
    };
    let reader = SerializedFileReader::new(file).map_err(wrong)?;
    let schema = reader.metadata().file_metadata().schema_descr().root_schema().clone();
    let names: Vec<&str> = schema.get_fields().iter().map(|field| field.name()).collect();
    table::needed(path, &names, "as Parquet does")?;
    let records = reader.get_row_iter(None).map_err(wrong)?;
    let row = |(i, record): (usize, Result<Record, _>)| {
        Ok(Row { line: i + 1, fields: fields(&record.map_err(wrong)?) })
    };
    records.enumerate().map(row).try_for_each(|row| visit(row?))
}

/// The fields of a record that a flat table has.
fn fields(record: &Record) -> Map<String, Value> {
    let flat = |(name, field): (&String, &Field)| Some((name.clone(), value(field)?));
    record.get_column_iter().filter_map(flat).collect()
}

fn value(field: &Field) -> Option<Value> {
    Some(match field {
        Field::Null => Value::Null,
        Field::Bool(value) => Value::from(*value),
        Field::Byte(value) => Value::from(*value),
        Field::Short(value) => Value::from(*value),
        Field::Int(value) => Value::from(*value),
        Field::Long(value) => Value::from(*value),
        Field::UByte(value) => Value::from(*value),
        Field::UShort(value) => Value::from(*value),
        Field::UInt(value) => Value::from(*value),
        Field::ULong(value) => Value::from(*value),
        Field::Double(value) => Value::from(*value),
        Field::Str(text) => Value::from(text.as_str()),
        // Some writers do not say that a column of bytes holds text.
        Field::Bytes(bytes) => Value::from(std::str::from_utf8(bytes.data()).ok()?),
        _ => return None,
    })
}
