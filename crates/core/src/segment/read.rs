//! Readers for parallel text, JSONL, TSV, CSV and Parquet, and for the folders of mt-metrics-eval, of WMT's
//! general task and of MENT. They change nothing in a text but its line ends.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use super::{Corpus, Lang, Segment, lang};
use crate::files::{self, text::NotText};

mod csv;
mod general;
mod genmt;
pub mod layout;
mod markup;
pub mod ment;
mod pairs;
mod parallel;
#[cfg(feature = "parquet")]
mod parquet;
mod table;
mod task;
mod testset;
mod text;
mod tsv;

pub use markup::Markup;
pub use pairs::is_meant;
pub use parallel::{Parallel, parallel};
pub use task::{TaskItem, is_task, task};
pub use testset::{TestSet, testset};

/// Result of a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// System by system; within a system, documents as they stood, segments in order.
    pub segments: Vec<Segment>,
    /// Notes for the user before the run: empty translations, lines without a reference, and the like.
    pub notes: Vec<String>,
}

impl Input {
    /// Checks what every reader guarantees, and puts the systems one after the other.
    ///
    /// # Errors
    /// [`Error::Nothing`] without any segment.
    pub fn new(segments: Vec<Segment>, notes: Vec<String>, from: &Path) -> Result<Self> {
        if segments.is_empty() {
            return Err(Error::Nothing(from.into()));
        }
        let mut systems: HashMap<String, usize> = HashMap::new();
        for segment in &segments {
            if !systems.contains_key(&segment.system) {
                systems.insert(segment.system.clone(), systems.len());
            }
        }
        let mut segments = segments;
        segments.sort_by_key(|s| systems[&s.system]); // stable: a system's own order stays
        Ok(Self { segments, notes })
    }
}

/// Reads a table by its extension (jsonl, tsv, csv, parquet): source, hypothesis (or target), and optionally
/// reference, system, doc, `seg_id`, `src_lang`, `tgt_lang` (or `lp` for both). In JSONL, `tgt_text` or `tgt`
/// may hold `{SYSTEM: TRANSLATION}`.
///
/// `pair` applies to rows without languages of their own, in columns or in a document `en-cs_CZ_#_..` of
/// WMT's; rows of other pairs are left out with a note.
///
/// # Errors
/// [`Error`], naming the file, the line and the remedy.
pub fn table(path: &Path, pair: Option<&(Lang, Lang)>) -> Result<Input> {
    let mut segments = Vec::new();
    let notes = each_segment(path, pair, |segment| {
        segments.push(segment);
        Ok(())
    })?;
    Input::new(segments, notes, path)
}

/// Reads a table as [`table`] does, with the texts on disk: JSONL and TSV are read line by line, and 10^6
/// segments take some 200 MB.
///
/// # Errors
/// The errors of [`table`]; [`Error::Spill`] when the texts cannot be put aside.
pub fn stream(path: &Path, pair: Option<&(Lang, Lang)>) -> Result<Streamed> {
    let mut segments = Corpus::default();
    let notes = each_segment(path, pair, |segment| segments.push(&segment).map_err(Error::Spill))?;
    if segments.is_empty() {
        return Err(Error::Nothing(path.into()));
    }
    segments.complete().map_err(Error::Spill)?;
    Ok(Streamed { segments, notes })
}

/// Result of a reader, with the texts on disk.
#[derive(Debug)]
pub struct Streamed {
    /// In the order of [`Input::segments`].
    pub segments: Corpus,
    pub notes: Vec<String>,
}

impl TryFrom<Input> for Streamed {
    type Error = Error;

    fn try_from(input: Input) -> Result<Self> {
        Ok(Self {
            segments: Corpus::from_segments(input.segments).map_err(Error::Spill)?,
            notes: input.notes,
        })
    }
}

/// Reads the segments of a table one by one; returns notes for the user.
fn each_segment(
    path: &Path,
    pair: Option<&(Lang, Lang)>,
    mut take: impl FnMut(Segment) -> Result<()>,
) -> Result<Vec<String>> {
    let mut segmenter = table::Segmenter::new(path, pair);
    let mut visit = |row: table::Row| segmenter.take(&row)?.into_iter().try_for_each(&mut take);
    match path.extension().and_then(|e| e.to_str()) {
        Some("jsonl" | "ndjson") => table::jsonl(path, &mut visit)?,
        Some("tsv" | "tab") => tsv::rows(path, &mut visit)?,
        Some("csv") => csv::rows(path, &mut visit)?,
        #[cfg(feature = "parquet")]
        Some("parquet" | "pq") => parquet::rows(path, &mut visit)?,
        #[cfg(not(feature = "parquet"))]
        Some("parquet" | "pq") => return Err(Error::NoParquet(path.into())),
        _ => return Err(Error::Extension(path.into())),
    }
    segmenter.complete()
}

/// A result with the [`Error`] of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of reading an input.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read `{path}`: {}", files::explain(path, source))]
    Io { path: PathBuf, source: std::io::Error },
    #[error(
        "cannot put the texts of the input into a temporary file: {0}\nhint: `TMPDIR` names a folder with more room"
    )]
    Spill(std::io::Error),
    #[error("`{path}` {}", reason.to_string().trim_start_matches("it "))]
    NotText { path: PathBuf, reason: NotText },
    #[error("`{path}` is {format}, not text with a segment on each line\nhint: {}", format.instead())]
    Markup { path: PathBuf, format: Markup },
    #[error(
        "`{a}` has {n_a} lines but `{b}` has {n_b}\nhint: line N of every file must be about segment N{hint}"
    )]
    Lengths { a: PathBuf, n_a: usize, b: PathBuf, n_b: usize, hint: String },
    #[error(
        "`{path}` line {line}: the source is empty, so there is nothing to judge{more}\nhint: remove the \
         line from every file; documents are separated by a file of their own, not by empty lines"
    )]
    EmptySource { path: PathBuf, line: usize, more: String },
    #[error("`{0}` contains no segments")]
    Nothing(PathBuf),
    #[error("`{}` does not end in `.jsonl`, `.tsv`, `.csv` or `.parquet`\nhint: {}", .0.display(), instead_of(.0))]
    Extension(PathBuf),
    #[error("`{path}` line {line}: {reason}")]
    Json { path: PathBuf, line: usize, reason: String },
    #[error(
        "`{path}` line {line} is {found}, not a JSON object\nhint: one object on each line, such as `{{\"source\": ..., \
         \"hypothesis\": ...}}`; `jq -c '.[]'` makes such lines of a list"
    )]
    NoObject { path: PathBuf, line: usize, found: String },
    #[error("`{path}` line {line}: the column `{column}` is there twice\nhint: rename or remove one of them")]
    Column { path: PathBuf, line: usize, column: String },
    #[error("`{path}` line {line}: `{field}` is {found} but must be {expected}")]
    Field { path: PathBuf, line: usize, field: String, found: String, expected: &'static str },
    #[error("`{path}` line {line}: the field `{field}` is missing{hint}")]
    Missing { path: PathBuf, line: usize, field: &'static str, hint: String },
    #[error(
        "`{path}` line {line} has {found} fields but the header has {expected}\nhint: fields are separated by \
         single tabs; replace any tab inside a text, or write the table as CSV or JSONL"
    )]
    Columns { path: PathBuf, line: usize, found: usize, expected: usize },
    #[error(
        "`{path}` line {line}: {reason}\nhint: fields that hold commas, quotes or line ends stand in quotes"
    )]
    Csv { path: PathBuf, line: u64, reason: String },
    #[error(
        "`{0}`: this program was built without Parquet\nhint: `cargo build --release` builds it in; or write the table as JSONL"
    )]
    NoParquet(PathBuf),
    #[error("`{path}` cannot be read as Parquet: {reason}")]
    Parquet { path: PathBuf, reason: String },
    #[error("`{path}` line {line}: {source}")]
    Lang { path: PathBuf, line: usize, source: lang::Error },
    #[error(
        "`{path}` line {line}: the languages are missing\nhint: name them, by `src_lang` and `tgt_lang` on each line or for all of them"
    )]
    NoPair { path: PathBuf, line: usize },
    #[error("`{path}` has no row of `{pair}`\nhint: its rows are of {listed}; choose one of them")]
    OtherPairs { path: PathBuf, pair: String, listed: String },
    #[error(
        "`{path}` line {line}: the segment with the id `{seg}` of {}system `{system}` was already on line {first}\nhint: \
         `seg_id` must be unique within a document of a system", if doc.is_empty() { String::new() } else { format!("document `{doc}` and ") }
    )]
    Duplicate { path: PathBuf, line: usize, first: usize, system: String, doc: String, seg: usize },
    #[error(
        "`{path}` line {line}: document `{doc}` resumes here, after it ended on line \
         {ended}\nhint: sort the rows by document, or leave `doc` out to judge each segment alone"
    )]
    Scattered { path: PathBuf, line: usize, doc: String, ended: usize },
    #[error(
        "`{path}` line {line}: `doc_id` is `{id}`, which an earlier line has too\nhint: remove one of the lines"
    )]
    Document { path: PathBuf, line: usize, id: String },
    #[error(
        "`{path}` line {line}: `doc_id` is `{id}`, and neither it nor any other `doc_id` of the file is in `{sources}`\nhint: \
         the systems' files and the sources must be of one year's test set"
    )]
    OtherTestSet { path: PathBuf, line: usize, id: String, sources: PathBuf },
    #[error(
        "`{path}` has no line with the `doc_id` `{id}` of `{sources}` line {line}: it lacks {n} of {of} documents\nhint: add \
         the lines, or choose the other systems"
    )]
    LacksDocuments { path: PathBuf, n: usize, of: usize, id: String, sources: PathBuf, line: usize },
    #[error("`{0}` is given twice\nhint: every system has one file; leave one of the two out")]
    Twice(PathBuf),
    #[error("two translations are both named `{system}`: `{a}` and `{b}`\nhint: rename one of the files")]
    SameSystem { system: String, a: PathBuf, b: PathBuf },
    #[error(
        "{}\nhint: {}",
        no_part(dir, missing),
        layout::inside(dir).unwrap_or_else(|| {
            format!("a test set contains sources/, documents/ and system-outputs/{pair}/{listed}")
        })
    )]
    Layout { dir: PathBuf, missing: String, pair: String, listed: String },
    #[error(
        "`{dir}` has several test sets for `{pair}`: {tests}\nhint: give the source and the translations of one of them"
    )]
    SeveralTests { dir: PathBuf, pair: String, tests: String },
    #[error("no reference `{name}` for `{pair}` in `{dir}`\nhint: its references are {listed}")]
    Reference { name: String, pair: String, dir: PathBuf, listed: String },
    #[error("no system `{system}` in `{dir}`\nhint: its systems are {listed}")]
    System { system: String, dir: PathBuf, listed: String },
}

/// Remedy for a table in an unsupported format.
fn instead_of(path: &Path) -> &'static str {
    match path.extension().and_then(|ending| ending.to_str()) {
        _ if path.is_dir() => {
            "it is a folder; a folder in the layout of mt-metrics-eval or WMT is a test set"
        }
        Some("json") => {
            "a file with one JSON object on each line ends in `.jsonl`; `jq -c '.[]' FILE` makes one of a list"
        }
        Some("xlsx" | "xls" | "ods") => "save the sheet as CSV",
        Some("sgm" | "sgml") => Markup::Sgm.instead(),
        Some("xml") => Markup::Wmt.instead(),
        Some("tmx") => Markup::Tmx.instead(),
        Some("xlf" | "xliff") => Markup::Xliff.instead(),
        Some("gz") => "unpack it first: gunzip -k FILE",
        Some("zip" | "xz" | "zst" | "bz2") => "unpack it first",
        _ => "plain text is a source text with translations",
    }
}

/// Error message for a test set that lacks a part, or does not exist.
fn no_part(dir: &Path, missing: &str) -> String {
    match (dir.is_dir(), dir.exists()) {
        (true, _) => format!("`{}` has no `{missing}`", dir.display()),
        (_, true) => format!("`{}` is a file, not a test set's folder", dir.display()),
        _ => format!("there is no folder `{}`", dir.display()),
    }
}

#[cfg(test)]
mod tests;
