//! Exports a run in the formats of the field. Each format has a file; this one has their common parts.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use super::counted;
use super::{Detail, cells};
use crate::{
    files, meta,
    run::Record,
    segment::{numbered, read},
    signature::Signature,
};

mod checked;
mod mqm_tsv;
mod mtme;
mod names;
#[cfg(feature = "parquet")]
mod parquet;
mod pearmut;
mod ratings;
mod table;
mod test_sets;
pub mod testset;
pub mod wmt26;

pub use table::{HEADER, row};
pub use test_sets::{placed, test_sets};

/// A format of the field, by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Format {
    /// WMT's MQM TSV: a row for each error, its span between <v> and </v>
    MqmTsv,
    /// Score files for an mt-metrics-eval folder and the metrics task: seg, sys and domain
    Mtme,
    /// mt-metrics-eval's standalone ratings: JSONL with error spans
    Ratings,
    /// A Pearmut campaign whose error spans are filled in
    Pearmut,
    /// A row for each verdict, errors as JSON
    Csv,
    /// The same with types, errors as a list
    Parquet,
    /// A submission to WMT26's evaluation task, for all its tasks
    Wmt26,
    /// Of human annotations: a test set in the layout of mt-metrics-eval, for meta
    Testset,
}

impl Format {
    /// Fields of verdicts that the format cannot represent; `None` where it holds all.
    pub fn loses(self) -> Option<&'static str> {
        match self {
            Self::MqmTsv => Some("scores, explanations and suggestions"),
            Self::Mtme => Some("errors"),
            Self::Ratings | Self::Pearmut => Some("scores, explanations, suggestions and confidences"),
            Self::Wmt26 => Some("explanations, suggestions and confidences"),
            Self::Csv | Self::Parquet | Self::Testset => None,
        }
    }
}

/// Input of an export, with its names.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    pub records: &'a [Record],
    /// The rater or the metric that the judge is to be.
    pub name: &'a str,
    /// Reference of the metric, in the file names of mt-metrics-eval: `src`, or the name of a reference.
    pub reference: &'a str,
    /// The test sets that the run judged, by language pair; a pair may be missing.
    pub test_sets: &'a [TestSet],
    pub origin: Origin<'a>,
}

/// Origin of the verdicts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin<'a> {
    /// The run's signature; `None` of human raters, and of verdicts without their folder.
    pub signature: Option<&'a str>,
    /// The task that a submission is for.
    pub task: Option<wmt26::Task<'a>>,
}

/// Facts about a test set for score files.
#[derive(Clone, Debug)]
pub struct TestSet {
    /// The language pair as the run's records spell it.
    pub pair: String,
    /// The language pair as the test set's files spell it.
    pub lp: String,
    /// The domain of each segment.
    pub domains: Vec<String>,
    /// Its documents and systems.
    pub files: meta::testset::TestSet,
}

/// Files and notes of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Export {
    /// Paths below the one that the user named, and contents; an empty path is that one itself.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    /// Notes on losses in the format.
    pub notes: Vec<String>,
}

impl Export {
    fn single(bytes: Vec<u8>, notes: Vec<String>) -> Self {
        Self { files: vec![(PathBuf::new(), bytes)], notes }
    }
}

/// Error of exporting a run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "this program was built without Parquet\nhint: `cargo build --release` builds it in; or export to csv"
    )]
    NoParquet,
    #[error(
        "the verdict on document `{doc}` of `{system}` is about a whole document, but this format holds segments\nhint: \
         judge with `--granularity seg`, or export to ratings, csv or parquet"
    )]
    Document { system: String, doc: String },
    #[error(
        "{} of `{system}` contains `{mark}`, the mark that this format puts around error spans\nhint: \
         export to ratings, csv or parquet",
        numbered(*seg)
    )]
    Mark { system: String, seg: usize, mark: &'static str },
    #[error(
        "`{name}` cannot be the name of a {noun} in files of mt-metrics-eval\nhint: use letters, digits, {}",
        if *noun == "metric" { "`-`, `_` and `+`, as in `--name tribunal-fsp`" } else { "`_` and `+`, as in `--reference refA`" }
    )]
    Name { name: String, noun: &'static str },
    #[error(
        "{} of `{system}` has two verdicts (documents `{a}` and `{b}`), so ids do not number the test set\nhint: judge \
         with `--testset`, or number `seg_id` through the whole test set",
        numbered(*seg)
    )]
    Numbering { system: String, seg: usize, a: String, b: String },
    #[error(
        "the name of the system {system:?} is empty or contains a tab, a line break or another control character, which this \
         format cannot hold\nhint: export to ratings or parquet"
    )]
    System { system: String },
    #[error(
        "there is a {}, so that the files of {systems} systems would have more than {most} lines\nhint: judge with \
         `--testset`, or number `seg_id` through the whole test set",
        numbered(*seg)
    )]
    Lines { seg: usize, systems: usize, most: usize },
    #[error(
        "an error {} of `{system}` lies at {start}..{end}, but the text has {n} characters\nhint: offsets are half-open, in \
         Unicode code points",
        seg.map_or_else(|| format!("in document `{doc}`"), |seg| format!("in {}", numbered(seg)))
    )]
    Place { system: String, doc: String, seg: Option<usize>, start: usize, end: usize, n: usize },
    #[error(
        "the {noun}s {first:?} and {second:?} would both be written as {written:?}\nhint: export to ratings, csv or parquet, \
         which hold any name"
    )]
    Names { noun: &'static str, first: String, second: String, written: String },
    #[error("{} of `{system}` is beyond the test set, which has {n} segments for {lp}", numbered(*seg))]
    Beyond { system: String, seg: usize, n: usize, lp: String },
    #[error(
        "a submission is written for the items of the task's file\nhint: add `--testset mteval-test26.jsonl`, the file that \
         the run judged"
    )]
    NoTask,
    #[error(
        "a test set is made of human annotations\nhint: `--as mtme` writes a run's scores for a test set"
    )]
    NotRaters,
    #[error(
        "{} of document `{doc}` by `{system}` is not in `{path}`\nhint: give the task's file that the run judged; another \
         year's has other ids",
        numbered(*seg)
    )]
    NotInTask { system: String, doc: String, seg: usize, path: PathBuf },
    #[error(
        "`{path}` line {line}: `hyps.{system}` is not the translation that the run judged\nhint: give the task's file that \
         the run judged"
    )]
    OtherText { path: PathBuf, line: usize, system: String },
    #[error(transparent)]
    Task(#[from] read::Error),
    #[error("cannot write {format}: {reason}")]
    Write { format: &'static str, reason: String },
}

/// A format of rows, written verdict by verdict in the run's order, so that they need not all be in memory.
pub trait Rows {
    /// Writes what stands before the first verdict.
    ///
    /// # Errors
    /// [`Error::Write`].
    fn begin(&mut self, _: &mut dyn Write) -> Result<(), Error> {
        Ok(())
    }

    /// Writes what stands for a verdict.
    ///
    /// # Errors
    /// [`Error`] where the format cannot hold it, or it cannot be written.
    fn add(&mut self, record: &Record, out: &mut dyn Write) -> Result<(), Error>;

    /// Writes what comes last. What the format could not hold.
    ///
    /// # Errors
    /// [`Error::Write`].
    fn finish(self: Box<Self>, out: &mut dyn Write) -> Result<Vec<String>, Error>;
}

/// The format, if it is one of rows; `name` is that of the rater.
///
/// # Errors
/// [`Error::Write`].
pub fn rows(format: Format, name: &str, origin: Origin<'_>) -> Result<Option<Box<dyn Rows>>, Error> {
    let rows: Box<dyn Rows> = match format {
        Format::MqmTsv => Box::new(mqm_tsv::Tsv::new(name, origin.signature)),
        Format::Ratings => Box::new(ratings::Ratings::new(name, origin.signature)),
        Format::Csv => Box::new(table::Csv::new(origin)),
        #[cfg(feature = "parquet")]
        Format::Parquet => Box::new(parquet::Parquet::new(origin.signature)?),
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => return Err(Error::NoParquet),
        Format::Wmt26 => Box::new(wmt26::Wmt26::new(origin.task.ok_or(Error::NoTask)?)),
        Format::Testset => return Err(Error::NotRaters),
        Format::Mtme | Format::Pearmut => return Ok(None),
    };
    Ok(Some(Box::new(checked::Checked { rows, is_begun: false })))
}

/// Default name of a judge as a rater or a metric, from the fields of its signature:
/// `tribunal-fsp-qwen2_5-7b-instruct`; the run's own name without one. A dot would end the name of a metric.
pub fn default_name(run: &Path, signature: Option<&Signature>) -> String {
    let stem = || files::stem(run);
    let fields = |signature: &Signature| {
        let fields = ["method", "model"].into_iter().filter_map(|key| signature.get(key));
        std::iter::once("tribunal").chain(fields).collect::<Vec<_>>().join("-")
    };
    let plain = |c: char| if c.is_alphanumeric() || "-+".contains(c) { c } else { '_' };
    signature.map_or_else(stem, fields).chars().map(plain).collect()
}

/// Lays out a run in a format.
///
/// # Errors
/// [`Error`] where the format cannot hold what the run found.
pub fn export(format: Format, job: &Job<'_>) -> Result<Export, Error> {
    let Some(mut rows) = rows(format, job.name, job.origin)? else {
        job.records.iter().try_for_each(checked::check)?;
        return if format == Format::Mtme { mtme::export(job) } else { pearmut::export(job) };
    };
    let mut bytes = Vec::new();
    job.records.iter().try_for_each(|record| rows.add(record, &mut bytes))?;
    let notes = rows.finish(&mut bytes)?;
    Ok(Export::single(bytes, notes))
}

/// A score in files of mt-metrics-eval.
fn score_text(value: Option<f64>) -> String {
    value.map_or_else(|| "None".into(), |value| value.to_string())
}

/// Writes bytes of a format.
fn put(format: &'static str, out: &mut dyn Write, bytes: &[u8]) -> Result<(), Error> {
    out.write_all(bytes).map_err(|error| Error::Write { format, reason: error.to_string() })
}

/// CSV of systems or of units, for a terminal or a spreadsheet: control characters are shown.
///
/// # Errors
/// [`Error::Write`].
pub fn csv(summary: &crate::run::Summary, records: &[Record], detail: Detail) -> Result<Vec<u8>, Error> {
    match detail {
        Detail::Systems => {
            table::write(&super::system_rows(summary).into_iter().map(cells::quoted).collect::<Vec<_>>())
        }
        Detail::Units => table::csv(records, Some(&summary.signature)),
    }
}
