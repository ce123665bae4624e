//! Human annotations: the TSV files of WMT's MQM studies and of Marot, with a row for each error and its span
//! between `<v>` and `</v>`. The formats of WMT's general task since 2025 are in `json`. Scores are computed
//! elsewhere, from the weights.
//!
//! Source: google/wmt-mqm-human-evaluation, `README.md`: nine columns until WMT22, ten with `docSegId`,
//! `globalSegId` and `metadata` since; google-research/marot, `README.md` and `marot.js`: columns, ids that
//! are all the same, spellings, repeated headers, notes.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::ErrorSpan;
use crate::{
    files,
    segment::{Lang, Segment},
};

mod json;
mod number;
mod row;
mod side_by_side;

use row::{Columns, Row};

/// One rater's errors in one translation. A rater who saw two versions of a translation has an annotation for
/// each.
#[derive(Clone, Debug, PartialEq)]
pub struct Annotation {
    /// The translation without the marks; `seg` counts from 0.
    pub segment: Segment,
    pub rater: String,
    /// Direct assessment, 0 to 100, higher is better; `None` where the rater only marked errors.
    pub score: Option<f64>,
    /// Empty where the rater found none. A weight that is not 0 is the file's own: Marot's `Trivial`, 0.1.
    pub errors: Vec<ErrorSpan>,
    /// Its first line in the file, from 1; `None` in a file that has no line for each.
    pub line: Option<usize>,
}

/// The annotations of a campaign's log that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counted {
    /// WMT26's analysis: all annotations, but none before a reset in the same campaign.
    #[default]
    Official,
    /// The last one by each rater of each translation; a reset undoes those of its user and item alone.
    Last,
}

/// The order of the columns where no header names them.
const MAROT: &str = "system\tdoc\tdocSegId\tglobalSegId\trater\tsource\ttarget\tcategory\tseverity\tmetadata";

/// A result with the [`Error`] of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of reading a file of annotations.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read `{path}`: {}", files::explain(path, source))]
    Io { path: PathBuf, source: std::io::Error },
    #[error("`{path}` has no column `{column}`\nhint: the columns of an MQM TSV are {}", MAROT.replace('\t', ", "))]
    Column { path: PathBuf, column: &'static str },
    #[error("`{path}` line {line}: {reason}")]
    Line { path: PathBuf, line: usize, reason: String },
    #[error("`{0}` does not name the languages of its ratings")]
    NoPair(PathBuf),
    #[error("`{path}`, entry {entry} of the campaign `{campaign}`: {reason}")]
    Entry { path: PathBuf, campaign: String, entry: usize, reason: String },
    #[error("`{path}` has no rating of `{pair}`\nhint: its ratings are of {listed}; choose one of them")]
    OtherPairs { path: PathBuf, pair: String, listed: String },
    #[error("`{0}` holds no rating")]
    Nothing(PathBuf),
}

/// Lines that are looked at for the first one that is not a comment.
const FIRST_LINES: usize = 100;

/// Returns true if a file looks like an MQM TSV: by its header, or by nine columns or more of which the ninth
/// is a severity.
pub fn is_mqm_tsv(path: &Path) -> bool {
    let Ok(text) = files::text::read(path) else { return false };
    let Some(first) = text.lines().take(FIRST_LINES).find(|line| !is_left_out(line)) else { return false };
    row::is_header(first) || first.split('\t').nth(8).is_some_and(row::is_severity)
}

/// Returns true if a file holds human annotations: an MQM TSV, WMT25's `humeval.jsonl`, or a log of Pearmut.
pub fn is_annotations(path: &Path) -> bool {
    json::is_annotations(path) || is_mqm_tsv(path)
}

/// Returns true if the annotations of a file may name their languages themselves, so that no pair has to be
/// given.
pub fn names_languages(path: &Path) -> bool {
    json::is_annotations(path)
}

/// Reads a file of any of these kinds. `pair` is needed for an MQM TSV, which names no languages; of other
/// files it selects the pair, and of a log those annotations are read that count.
///
/// # Errors
/// The errors of [`read`]; [`Error::NoPair`].
pub fn read_any(path: &Path, pair: Option<&(Lang, Lang)>, counted: Counted) -> Result<Vec<Annotation>> {
    if json::is_annotations(path) {
        return json::read(path, pair, counted);
    }
    read(path, pair.ok_or_else(|| Error::NoPair(path.into()))?)
}

/// Returns true for a blank line or a comment.
fn is_left_out(line: &str) -> bool {
    line.trim().is_empty() || (line.starts_with('#') && line.split('\t').count() < row::FEWEST)
}

/// Reads a file: the annotations in the order of their first rows. Rows that test the rater's attention (a
/// severity `HOTW-test`), rows without a rater, which hold only metadata, comments (`#`) and repeated headers
/// are left out.
///
/// Segments have the number of `globalSegId`, from 1, or from 0 where a row says 0. Where that is one
/// constant, or no number, they are numbered by document, in the order of the file, and `docSegId`.
///
/// # Errors
/// [`Error`], naming the file, the line and what is wrong.
pub fn read(path: &Path, pair: &(Lang, Lang)) -> Result<Vec<Annotation>> {
    let text = files::text::read(path).map_err(|source| Error::Io { path: path.into(), source })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut lines = text.lines().enumerate().filter(|(_, line)| !is_left_out(line)).peekable();
    let header = lines.next_if(|(_, line)| row::names_columns(line));
    let mut columns = Columns::new(path, header.map_or(MAROT, |(_, line)| line))?;
    let mut rows = Vec::new();
    for (index, line) in lines {
        if row::is_header(line) {
            // Files are put together from several, whose columns may differ.
            columns = Columns::new(path, line)?;
            continue;
        }
        let at = |reason: String| Error::Line { path: path.into(), line: index + 1, reason };
        rows.extend(columns.row(index + 1, line, pair).map_err(at)?);
    }
    number::number(path, &mut rows)?;
    side_by_side::separate(&mut rows);
    let mut annotations = Annotations::default();
    for row in rows {
        annotations.add(row);
    }
    if annotations.all.is_empty() { Err(Error::Nothing(path.into())) } else { Ok(annotations.all) }
}

/// A translation as a rater saw it: system, document, segment, rater, and the text without white space at its
/// end, in which exports of one study differ.
type AnnotationKey = (String, String, usize, String, String);

/// The annotations so far, with the place of each.
#[derive(Default)]
struct Annotations {
    all: Vec<Annotation>,
    places: BTreeMap<AnnotationKey, usize>,
}

impl Annotations {
    fn add(&mut self, row: Row) {
        let Row { segment, rater, error, line, .. } = row;
        let text = segment.hypothesis.trim_end().to_owned();
        let key = (segment.system.clone(), segment.doc.clone(), segment.seg, rater.clone(), text);
        let Some(&place) = self.places.get(&key) else {
            self.places.insert(key, self.all.len());
            self.all.push(Annotation {
                segment,
                rater,
                score: None,
                errors: error.into_iter().collect(),
                line: Some(line),
            });
            return;
        };
        let earlier = &mut self.all[place];
        // The longer one holds every span.
        if segment.hypothesis.len() > earlier.segment.hypothesis.len() {
            earlier.segment.hypothesis = segment.hypothesis;
        }
        earlier.errors.extend(error.map(|error| error.in_source(&segment.source, &earlier.segment.source)));
    }
}

#[cfg(test)]
mod tests;
