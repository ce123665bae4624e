//! One row of an MQM TSV: its columns by any of their names, its span, its severity. It compares no rows.

use std::path::Path;

use super::{Error, Result};
use crate::{
    mqm::{self, ErrorSpan, Severity, Side},
    segment::{Lang, Segment},
};

/// The columns, by the names that they have had. Case, `_`, `-` and spaces do not count.
const SYSTEM: &[&str] = &["system"];
const DOC: &[&str] = &["doc"];
const DOC_SEG: &[&str] = &["docSegId", "docId"];
const SEG: &[&str] = &["globalSegId", "segId"];
const RATER: &[&str] = &["rater"];
const SOURCE: &[&str] = &["source"];
const TARGET: &[&str] = &["target"];
const CATEGORY: &[&str] = &["category"];
const SEVERITY: &[&str] = &["severity"];
const METADATA: &[&str] = &["metadata", "note", "comment"];

/// A row has no fewer fields than this.
pub const FEWEST: usize = 8;

/// Marks around a span.
const OPEN: &str = "<v>";
const CLOSE: &str = "</v>";

/// Weight of a `Trivial` error in Marot's defaults.
///
/// Source: google-research/marot, `marot.js`, `mqmDefaultWeights`.
const TRIVIAL: f64 = 0.1;

/// A row of a rater, whose segment is not numbered yet.
pub struct Row {
    /// From 1.
    pub line: usize,
    /// The segment's number in its document, as the file has it; empty where there is no such column.
    pub doc_seg: String,
    /// The segment's id among all documents.
    pub id: String,
    pub segment: Segment,
    pub rater: String,
    pub error: Option<ErrorSpan>,
}

/// Letters and digits in lower case, by which names and values are compared.
fn bare(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Returns true if a file's first line names its columns, perhaps not all that are needed.
pub fn names_columns(line: &str) -> bool {
    line.split('\t').any(|field| bare(field) == RATER[0])
}

/// Returns true if a line names all columns that a rating needs.
pub fn is_header(line: &str) -> bool {
    let fields: Vec<String> = line.split('\t').map(bare).collect();
    [SYSTEM, RATER, CATEGORY, SEVERITY].iter().all(|names| column(&fields, names).is_some())
}

/// Returns true if a text is a severity of these files.
pub fn is_severity(text: &str) -> bool {
    text.parse::<Severity>().is_ok() || is_none(text) || is_trivial(text) || is_test(text)
}

/// Returns true for a category or a severity that means "no error".
fn is_none(text: &str) -> bool {
    bare(text) == "noerror"
}

fn is_trivial(severity: &str) -> bool {
    bare(severity) == "trivial"
}

/// Returns true if a row tests the rater's attention ("hands on the wheel"), with an error that was put into
/// the text.
fn is_test(severity: &str) -> bool {
    bare(severity).starts_with("hotw")
}

fn column(header: &[String], names: &[&str]) -> Option<usize> {
    names.iter().find_map(|name| header.iter().position(|column| *column == bare(name)))
}

/// Indices of the columns.
pub struct Columns {
    system: usize,
    doc: usize,
    doc_seg: Option<usize>,
    seg: usize,
    rater: usize,
    source: usize,
    target: usize,
    category: usize,
    severity: usize,
    metadata: Option<usize>,
}

impl Columns {
    /// The columns that a header names.
    ///
    /// # Errors
    /// [`Error::Column`] where one is missing.
    pub fn new(path: &Path, header: &str) -> Result<Self> {
        let header: Vec<String> = header.split('\t').map(bare).collect();
        let find = |names: &[&'static str]| {
            column(&header, names).ok_or(Error::Column { path: path.into(), column: names[0] })
        };
        Ok(Self {
            system: find(SYSTEM)?,
            doc: find(DOC)?,
            doc_seg: column(&header, DOC_SEG),
            seg: find(SEG)?,
            rater: find(RATER)?,
            source: find(SOURCE)?,
            target: find(TARGET)?,
            category: find(CATEGORY)?,
            severity: find(SEVERITY)?,
            metadata: column(&header, METADATA),
        })
    }

    fn needed(&self) -> usize {
        let needed = [self.system, self.doc, self.seg, self.rater, self.source, self.target, self.category];
        needed.into_iter().max().unwrap_or(0).max(self.severity) + 1
    }

    /// One row, with at most one error; `None` where it rates nothing.
    ///
    /// # Errors
    /// Too few fields, an unknown severity.
    pub fn row(&self, line: usize, text: &str, pair: &(Lang, Lang)) -> Result<Option<Row>, String> {
        let fields: Vec<&str> = text.split('\t').collect();
        let (needed, found) = (self.needed(), fields.len());
        if found < needed {
            return Err(format!("{found} fields, but at least {needed} are needed"));
        }
        let (rater, severity) = (fields[self.rater].trim(), fields[self.severity].trim());
        if rater.is_empty() || is_test(severity) {
            return Ok(None);
        }
        let (source, in_source) = unmarked(fields[self.source]);
        let (hypothesis, in_target) = unmarked(fields[self.target]);
        let segment = Segment {
            system: fields[self.system].trim().into(),
            doc: fields[self.doc].trim().into(),
            seg: 0,
            src_lang: pair.0.clone(),
            tgt_lang: pair.1.clone(),
            source,
            hypothesis,
            reference: None,
            domain: None,
            reference_kind: None,
        };
        let category = fields[self.category].trim();
        let mut error = None;
        if !is_none(category) && !is_none(severity) {
            let mut found = marked(category, level(severity)?, &segment, in_source, in_target);
            found.weight = if is_trivial(severity) { TRIVIAL } else { 0.0 };
            found.explanation =
                note(self.metadata.and_then(|at| fields.get(at)).copied().unwrap_or_default());
            error = Some(found);
        }
        let doc_seg =
            self.doc_seg.and_then(|at| fields.get(at)).map_or_else(String::new, |id| id.trim().into());
        let id = fields[self.seg].trim().to_owned();
        Ok(Some(Row { line, doc_seg, id, segment, rater: rater.into(), error }))
    }
}

fn level(severity: &str) -> Result<Severity, String> {
    if is_trivial(severity) {
        return Ok(Severity::Minor);
    }
    severity.parse().map_err(|error: mqm::Error| error.to_string())
}

/// The error whose span is marked: in the text that has the mark, or if both have, where its category
/// belongs.
fn marked(
    category: &str,
    severity: Severity,
    segment: &Segment,
    in_source: Option<(usize, usize)>,
    in_target: Option<(usize, usize)>,
) -> ErrorSpan {
    let mut error = ErrorSpan::new(category, "", severity);
    error.side = match (in_source, in_target) {
        (Some(_), None) => Side::Source,
        (None, Some(_)) => Side::Target,
        _ => error.side,
    };
    let (text, place) = match error.side {
        Side::Source => (&segment.source, in_source),
        Side::Target => (&segment.hypothesis, in_target),
    };
    if let Some((start, end)) = place {
        error.span = text.chars().skip(start).take(end - start).collect();
        (error.start, error.end) = (Some(start), Some(end));
    }
    error
}

/// A text without its marks, and the first marked span as half-open offsets in code points.
fn unmarked(text: &str) -> (String, Option<(usize, usize)>) {
    let plain = |text: &str| text.replace(OPEN, "").replace(CLOSE, "");
    let span = text.split_once(OPEN).map(|(before, after)| {
        let inside = after.split_once(CLOSE).map_or(after, |(inside, _)| inside);
        let start = plain(before).chars().count();
        (start, start + plain(inside).chars().count())
    });
    (plain(text), span.filter(|(start, end)| start < end))
}

/// The rater's note: that of the metadata, or the field itself, which was a note before it held metadata.
fn note(field: &str) -> Option<String> {
    let text = match serde_json::from_str::<serde_json::Value>(field) {
        Ok(value) => value.get("note")?.as_str()?.trim().to_owned(),
        Err(_) => field.trim().to_owned(),
    };
    Some(text).filter(|note| !note.is_empty() && !note.starts_with('{'))
}
