//! Parquet for data frames: the columns of the CSV with their types, and each verdict's errors as a list of
//! records.

use std::{io::Write, sync::Arc};

use parquet::{
    basic::{Compression, LogicalType, Repetition, Type as Physical},
    data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type},
    errors::ParquetError,
    file::{
        properties::WriterProperties,
        writer::{SerializedFileWriter, SerializedRowGroupWriter},
    },
    schema::types::{Type, TypePtr},
};

use super::{Error, Rows, put as put_bytes};
use crate::{
    mqm::{ErrorSpan, Side},
    run::Record,
};

/// Rows in one group, so that neither who writes nor who reads need hold all of them.
const GROUP: usize = 10_000;

/// A file in the making: the verdicts of one group, and the compressed ones before it.
pub struct Parquet {
    columns: Vec<Column>,
    rows: Vec<Record>,
    signature: Option<String>,
    writer: SerializedFileWriter<Vec<u8>>,
}

impl Parquet {
    pub fn new(signature: Option<&str>) -> Result<Self, Error> {
        let columns = columns();
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let schema = schema(&columns).map_err(failed)?;
        let writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).map_err(failed)?;
        Ok(Self { columns, rows: Vec::new(), signature: signature.map(str::to_owned), writer })
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for column in &self.columns {
            column.write(&mut group, &self.rows, self.signature.as_deref())?;
        }
        group.close()?;
        self.rows.clear();
        Ok(())
    }
}

impl Rows for Parquet {
    fn add(&mut self, record: &Record, _: &mut dyn Write) -> Result<(), Error> {
        self.rows.push(record.clone());
        if self.rows.len() < GROUP { Ok(()) } else { self.write_group().map_err(failed) }
    }

    fn finish(mut self: Box<Self>, out: &mut dyn Write) -> Result<Vec<String>, Error> {
        self.write_group().map_err(failed)?;
        let bytes = self.writer.into_inner().map_err(failed)?;
        put_bytes("Parquet", out, &bytes)?;
        Ok(Vec::new())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of `map_err`")]
fn failed(error: ParquetError) -> Error {
    Error::Write { format: "Parquet", reason: error.to_string() }
}

/// A column: its name, and its values.
struct Column(&'static str, Values);

/// The values of a column, taken from a verdict or from each of its errors.
enum Values {
    /// The run's signature, in every row.
    Signature,
    Text(fn(&Record) -> Option<&str>),
    Whole(fn(&Record) -> Option<i64>),
    Number(fn(&Record) -> Option<f64>),
    ErrorText(fn(&ErrorSpan) -> Option<&str>),
    ErrorWhole(fn(&ErrorSpan) -> Option<i64>),
    ErrorNumber(fn(&ErrorSpan) -> Option<f64>),
    ErrorTruth(fn(&ErrorSpan) -> bool),
}

/// The order is that of the schema.
fn columns() -> Vec<Column> {
    use Values::{ErrorNumber, ErrorText, ErrorTruth, ErrorWhole, Number, Signature, Text, Whole};
    vec![
        Column("system", Text(|r| Some(&r.system))),
        Column("doc", Text(|r| Some(&r.doc))),
        Column("segment", Whole(|r| r.seg.map(|seg| seg as i64 + 1))),
        Column("seg", Whole(|r| r.seg.map(|seg| seg as i64))),
        Column("src_lang", Text(|r| Some(r.src_lang.code()))),
        Column("tgt_lang", Text(|r| Some(r.tgt_lang.code()))),
        Column("source", Text(|r| Some(&r.source))),
        Column("hypothesis", Text(|r| Some(&r.hypothesis))),
        Column("score", Number(|r| r.score)),
        Column("raw", Number(|r| r.raw)),
        Column("quality_score", Number(|r| r.quality_score)),
        Column("interval_low", Number(|r| r.interval.map(|[low, _]| low))),
        Column("interval_high", Number(|r| r.interval.map(|[_, high]| high))),
        Column("status", Text(|r| Some(r.status.name()))),
        Column("reason", Text(|r| r.reason.as_deref())),
        Column("warning", Text(|r| r.warning.as_deref())),
        Column("n_errors", Whole(|r| Some(r.errors.len() as i64))),
        Column("signature", Signature),
        Column("span", ErrorText(|e| Some(&e.span))),
        Column("side", ErrorText(|e| Some(if e.side == Side::Source { "source" } else { "target" }))),
        Column("start", ErrorWhole(|e| e.start.map(|start| start as i64))),
        Column("end", ErrorWhole(|e| e.end.map(|end| end as i64))),
        Column("category", ErrorText(|e| Some(&e.category))),
        Column("severity", ErrorText(|e| Some(e.severity.name()))),
        Column("weight", ErrorNumber(|e| Some(e.weight))),
        Column("explanation", ErrorText(|e| e.explanation.as_deref())),
        Column("suggestion", ErrorText(|e| e.suggestion.as_deref())),
        Column("confidence", ErrorNumber(|e| e.confidence)),
        Column("ambiguous", ErrorTruth(|e| e.ambiguous)),
    ]
}

/// `errors` is a list in the three levels that Parquet prescribes; every other column may hold a null.
fn schema(columns: &[Column]) -> Result<TypePtr, ParquetError> {
    let (mut flat, mut of_errors) = (Vec::new(), Vec::new());
    for Column(name, values) in columns {
        let physical = match values {
            Values::Signature | Values::Text(_) | Values::ErrorText(_) => Physical::BYTE_ARRAY,
            Values::Whole(_) | Values::ErrorWhole(_) => Physical::INT64,
            Values::Number(_) | Values::ErrorNumber(_) => Physical::DOUBLE,
            Values::ErrorTruth(_) => Physical::BOOLEAN,
        };
        let text = (physical == Physical::BYTE_ARRAY).then_some(LogicalType::String);
        let leaf = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(text);
        let is_of_errors =
            !matches!(values, Values::Signature | Values::Text(_) | Values::Whole(_) | Values::Number(_));
        if is_of_errors { &mut of_errors } else { &mut flat }.push(Arc::new(leaf.build()?));
    }
    let element = Type::group_type_builder("element").with_repetition(Repetition::REQUIRED);
    let element = element.with_fields(of_errors).build()?;
    let list = Type::group_type_builder("list").with_repetition(Repetition::REPEATED);
    let list = list.with_fields(vec![Arc::new(element)]).build()?;
    let errors = Type::group_type_builder("errors").with_repetition(Repetition::REQUIRED);
    let errors = errors.with_logical_type(Some(LogicalType::List)).with_fields(vec![Arc::new(list)]);
    flat.push(Arc::new(errors.build()?));
    Ok(Arc::new(Type::group_type_builder("verdicts").with_fields(flat).build()?))
}

/// One column of a row group. The levels are Parquet's: a definition of 0 is a null, or a list without
/// errors; a repetition of 1 continues the list of the row before.
struct Levels<T> {
    values: Vec<T>,
    definitions: Vec<i16>,
    repetitions: Option<Vec<i16>>,
}

impl<T> Levels<T> {
    fn flat<'a>(rows: &'a [Record], value: impl Fn(&'a Record) -> Option<T>) -> Self {
        let found: Vec<Option<T>> = rows.iter().map(value).collect();
        let definitions = found.iter().map(|value| i16::from(value.is_some())).collect();
        Self { values: found.into_iter().flatten().collect(), definitions, repetitions: None }
    }

    fn nested<'a>(rows: &'a [Record], value: impl Fn(&'a ErrorSpan) -> Option<T>) -> Self {
        let (mut values, mut definitions, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            if row.errors.is_empty() {
                definitions.push(0);
                repetitions.push(0);
            }
            for (idx, error) in row.errors.iter().enumerate() {
                let value = value(error);
                definitions.push(1 + i16::from(value.is_some()));
                repetitions.push(i16::from(idx > 0));
                values.extend(value);
            }
        }
        Self { values, definitions, repetitions: Some(repetitions) }
    }
}

impl Column {
    fn write(
        &self,
        group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
        rows: &[Record],
        signature: Option<&str>,
    ) -> Result<(), ParquetError> {
        let bytes = |text: &str| ByteArray::from(text);
        match self.1 {
            Values::Signature => put::<ByteArrayType>(group, &Levels::flat(rows, |_| signature.map(bytes))),
            Values::Text(of) => put::<ByteArrayType>(group, &Levels::flat(rows, |r| of(r).map(bytes))),
            Values::Whole(of) => put::<Int64Type>(group, &Levels::flat(rows, of)),
            Values::Number(of) => put::<DoubleType>(group, &Levels::flat(rows, of)),
            Values::ErrorText(of) => put::<ByteArrayType>(group, &Levels::nested(rows, |e| of(e).map(bytes))),
            Values::ErrorWhole(of) => put::<Int64Type>(group, &Levels::nested(rows, of)),
            Values::ErrorNumber(of) => put::<DoubleType>(group, &Levels::nested(rows, of)),
            Values::ErrorTruth(of) => put::<BoolType>(group, &Levels::nested(rows, |e| Some(of(e)))),
        }
    }
}

fn put<T: parquet::data_type::DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    levels: &Levels<T::T>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("the schema has too few columns".into()));
    };
    let repetitions = levels.repetitions.as_deref();
    column.typed::<T>().write_batch(&levels.values, Some(&levels.definitions), repetitions)?;
    column.close()
}
