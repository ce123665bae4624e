//! Parquet as data frames write it. It reads the columns of texts and numbers that a flat table has and
//! leaves their meaning to `table`; nested columns are skipped.

use std::{fs::File, path::Path};

use parquet::{
    file::reader::{FileReader, SerializedFileReader},
    record::{Field, Row as Record},
};
use serde_json::{Map, Value};

use super::{
    Error, Result,
    table::{self, Row, Visit},
};
use crate::files::packed;

/// Memory charged to a row beside its texts. Unit: bytes.
const ROW: u64 = 64;

/// Reads the rows of a file; their numbers stand for lines. A few bytes of a dictionary can stand for a text
/// in each of billions of rows, so the total size of the rows is limited like that of an unpacked file.
pub fn rows(path: &Path, visit: Visit<'_>) -> Result<()> {
    let file = File::open(path).map_err(|source| Error::Io { path: path.into(), source })?;
    let wrong = |error: parquet::errors::ParquetError| Error::Parquet {
        path: path.into(),
        reason: error.to_string(),
    };
    let too_much = |limit| Error::Io { path: path.into(), source: packed::too_much(limit) };
    let n_bytes = file.metadata().map_err(|source| Error::Io { path: path.into(), source })?.len();
    let limit = packed::limit(n_bytes, packed::MAX_RATIO);
    let reader = SerializedFileReader::new(file).map_err(wrong)?;
    let sizes = reader.metadata().row_groups().iter().map(|group| group.total_byte_size().unsigned_abs());
    if sizes.fold(0, u64::saturating_add) > limit {
        return Err(too_much(limit));
    }
    let schema = reader.metadata().file_metadata().schema_descr().root_schema().clone();
    let names: Vec<&str> = schema.get_fields().iter().map(|field| field.name()).collect();
    table::needed(path, &names, "as Parquet does")?;
    let records = reader.get_row_iter(None).map_err(wrong)?;
    let mut left = limit;
    let row = |(i, record): (usize, Result<Record, _>)| {
        let fields = fields(&record.map_err(wrong)?);
        let n = fields.values().filter_map(Value::as_str).map(|text| text.len() as u64).sum::<u64>() + ROW;
        left = left.checked_sub(n).ok_or_else(|| too_much(limit))?;
        Ok(Row { line: i + 1, fields })
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
        // Some writers do not mark a column of bytes as text.
        Field::Bytes(bytes) => Value::from(std::str::from_utf8(bytes.data()).ok()?),
        _ => return None,
    })
}
