//! What human raters marked, as the TSV files of WMT's MQM studies and of Marot hold it: a row for each error, its span
//! between `<v>` and `</v>`. It gives no scores; the weights do.
//!
//! Source: google/wmt-mqm-human-evaluation, `README.md`: nine columns until WMT22, ten with `docSegId`, `globalSegId`
//! and `metadata` since.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{ErrorSpan, Severity, Side};
use crate::{
    files,
    segment::{Lang, Segment},
};

/// One rater's errors in one translation.
#[derive(Clone, Debug, PartialEq)]
pub struct Annotation {
    /// The translation without the marks; `seg` counts from 0.
    pub segment: Segment,
    pub rater: String,
    /// Empty where the rater found none.
    pub errors: Vec<ErrorSpan>,
}

/// The columns, by the names that they have had.
const SYSTEM: &[&str] = &["system"];
const DOC: &[&str] = &["doc"];
const SEG: &[&str] = &["globalSegId", "seg_id"];
const RATER: &[&str] = &["rater"];
const SOURCE: &[&str] = &["source"];
const TARGET: &[&str] = &["target"];
const CATEGORY: &[&str] = &["category"];
const SEVERITY: &[&str] = &["severity"];

/// The order of the columns where no header names them.
const MAROT: &str = "system\tdoc\tdocSegId\tglobalSegId\trater\tsource\ttarget\tcategory\tseverity\tmetadata";

/// Marks around a span.
const OPEN: &str = "<v>";
const CLOSE: &str = "</v>";

/// Why a file of annotations cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read `{path}`: {}", files::why(path, source))]
    Io { path: PathBuf, source: std::io::Error },
    #[error("`{path}` has no column `{column}`\nhint: the columns of an MQM TSV are {}", MAROT.replace('\t', ", "))]
    Column { path: PathBuf, column: &'static str },
    #[error("`{path}` line {line}: {reason}")]
    Line { path: PathBuf, line: usize, reason: String },
    #[error("`{0}` holds no rating")]
    Nothing(PathBuf),
}

/// Whether a file looks like an MQM TSV: by its header, or by ten columns of which the ninth is a severity.
#[must_use]
pub fn is_mqm_tsv(path: &Path) -> bool {
    let Ok(text) = files::text::read(path) else { return false };
    let Some(first) = text.lines().next() else { return false };
    let header: Vec<&str> = first.trim_start_matches('\u{feff}').split('\t').map(str::trim).collect();
    let named = [SYSTEM, RATER, CATEGORY, SEVERITY].iter().all(|names| column(&header, names).is_some());
    named || (header.len() == 10 && is_severity(header[8]))
}

fn is_severity(text: &str) -> bool {
    text.parse::<Severity>().is_ok() || is_none(text)
}

/// Whether a category or a severity says that there is no error.
fn is_none(text: &str) -> bool {
    matches!(text.trim().to_lowercase().as_str(), "no-error" | "no error")
}

fn column(header: &[&str], names: &[&str]) -> Option<usize> {
    names.iter().find_map(|name| header.iter().position(|there| there == name))
}

/// Reads a file: the annotations in the order of their first rows. Rows that test the rater's attention
/// (`HOTW-test`) and rows without a rater, which hold only metadata, are left out.
///
/// # Errors
/// [`Error`], naming the file, the line and what is wrong.
pub fn read(path: &Path, pair: &(Lang, Lang)) -> Result<Vec<Annotation>, Error> {
    let text = files::text::read(path).map_err(|source| Error::Io { path: path.into(), source })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).peekable();
    let first = lines.peek().map_or("", |(_, line)| *line);
    let named = first.split('\t').map(str::trim).any(|name| name == RATER[0]);
    let header: Vec<&str> = if named { first } else { MAROT }.split('\t').map(str::trim).collect();
    if named {
        lines.next();
    }
    let columns = Columns::new(path, &header)?;
    let mut annotations = Annotations::default();
    for (index, line) in lines {
        let fields: Vec<&str> = line.split('\t').collect();
        let at = |reason: String| Error::Line { path: path.into(), line: index + 1, reason };
        if fields.len() < columns.needed() {
            let needed = columns.needed();
            return Err(at(format!("{} fields, but at least {needed} are needed", fields.len())));
        }
        if let Some(row) = columns.row(&fields, pair).map_err(at)? {
            annotations.add(row).map_err(at)?;
        }
    }
    if annotations.all.is_empty() { Err(Error::Nothing(path.into())) } else { Ok(annotations.all) }
}

/// The annotations so far, with the place of each.
#[derive(Default)]
struct Annotations {
    all: Vec<Annotation>,
    places: BTreeMap<(String, String, usize, String), usize>,
}

impl Annotations {
    fn add(&mut self, row: Annotation) -> Result<(), String> {
        let Segment { system, doc, seg, .. } = &row.segment;
        let key = (system.clone(), doc.clone(), *seg, row.rater.clone());
        let Some(&place) = self.places.get(&key) else {
            self.places.insert(key, self.all.len());
            self.all.push(row);
            return Ok(());
        };
        let there = &mut self.all[place];
        if there.segment.hypothesis != row.segment.hypothesis || there.segment.source != row.segment.source {
            return Err(format!(
                "segment {} of `{system}` has another text here than in an earlier row of rater `{}`",
                seg + 1,
                row.rater
            ));
        }
        there.errors.extend(row.errors);
        Ok(())
    }
}

/// Where the columns are.
struct Columns {
    system: usize,
    doc: usize,
    seg: usize,
    rater: usize,
    source: usize,
    target: usize,
    category: usize,
    severity: usize,
    metadata: Option<usize>,
}

impl Columns {
    fn new(path: &Path, header: &[&str]) -> Result<Self, Error> {
        let find = |names: &[&'static str]| {
            column(header, names).ok_or(Error::Column { path: path.into(), column: names[0] })
        };
        Ok(Self {
            system: find(SYSTEM)?,
            doc: find(DOC)?,
            seg: find(SEG)?,
            rater: find(RATER)?,
            source: find(SOURCE)?,
            target: find(TARGET)?,
            category: find(CATEGORY)?,
            severity: find(SEVERITY)?,
            metadata: column(header, &["metadata"]),
        })
    }

    fn needed(&self) -> usize {
        let needed = [self.system, self.doc, self.seg, self.rater, self.source, self.target, self.category];
        needed.into_iter().max().unwrap_or(0).max(self.severity) + 1
    }

    /// One row as an annotation with at most one error; `None` where it rates nothing.
    fn row(&self, fields: &[&str], pair: &(Lang, Lang)) -> Result<Option<Annotation>, String> {
        let (rater, severity) = (fields[self.rater].trim(), fields[self.severity].trim());
        if rater.is_empty() || severity == "HOTW-test" {
            return Ok(None);
        }
        let id = fields[self.seg].trim();
        let number: usize = id.parse().ok().filter(|n| *n > 0).ok_or_else(|| {
            format!("the segment's number is `{id}`, but it must be a whole number, from 1")
        })?;
        let (source, in_source) = unmarked(fields[self.source]);
        let (hypothesis, in_target) = unmarked(fields[self.target]);
        let segment = Segment {
            system: fields[self.system].trim().into(),
            doc: fields[self.doc].trim().into(),
            seg: number - 1,
            src_lang: pair.0.clone(),
            tgt_lang: pair.1.clone(),
            source,
            hypothesis,
            reference: None,
        };
        let category = fields[self.category].trim();
        let mut errors = Vec::new();
        if !is_none(category) && !is_none(severity) {
            let severity: Severity = severity.parse().map_err(|error: super::Error| error.to_string())?;
            let mut error = marked(category, severity, &segment, in_source, in_target);
            let metadata = self.metadata.and_then(|at| fields.get(at)).copied().unwrap_or_default();
            error.explanation = note(metadata);
            errors.push(error);
        }
        Ok(Some(Annotation { segment, rater: rater.into(), errors }))
    }
}

/// The error whose span is marked: in the text that has the mark, or if both have, where its category belongs.
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
    let span = text.split_once(OPEN).map(|(before, rest)| {
        let inside = rest.split_once(CLOSE).map_or(rest, |(inside, _)| inside);
        let start = plain(before).chars().count();
        (start, start + plain(inside).chars().count())
    });
    (plain(text), span.filter(|(start, end)| start < end))
}

/// The rater's note in the metadata.
fn note(metadata: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(metadata).ok()?;
    Some(value.get("note")?.as_str()?.trim().to_owned()).filter(|note| !note.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::lang::parse_pair;

    fn read_text(text: &str) -> Result<Vec<Annotation>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mqm.tsv");
        std::fs::write(&path, text).unwrap();
        let shown = |error: Error| error.to_string().replace(&dir.path().display().to_string(), "DIR");
        read(&path, &parse_pair("en-de").unwrap()).map_err(shown)
    }

    fn shown(text: &str) -> String {
        let one = |a: &Annotation| {
            let Segment { system, doc, seg, hypothesis, .. } = &a.segment;
            let errors: Vec<String> = (a.errors.iter())
                .map(|e| {
                    let (start, end) = (e.start.unwrap_or(99), e.end.unwrap_or(99));
                    format!(" {} {} {:?} `{}` {start}..{end}", e.severity, e.category, e.side, e.span)
                })
                .collect();
            format!("{system} {doc} {seg} {} {hypothesis}{}", a.rater, errors.concat())
        };
        read_text(text).unwrap().iter().map(one).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn nine_columns_as_until_wmt22() {
        insta::assert_snapshot!(shown(
            "system\tdoc\tdoc_id\tseg_id\trater\tsource\ttarget\tcategory\tseverity\n\
             A\td:English-German\t1\t7\trater1\tThe 😀 bank.\tDie 😀 <v>Bank</v>.\tAccuracy/Mistranslation\tMajor\n\
             A\td:English-German\t1\t7\trater1\tThe <v>😀 </v>bank.\tDie 😀 Bank.\tAccuracy/Omission\tMinor\n\
             A\td:English-German\t1\t7\trater2\tThe 😀 bank.\tDie 😀 Bank.\tNo-error\tno-error\n\
             A\td:English-German\t2\t8\trater1\tYes.\t<v>Nein.</v>\tNon-translation!\tMajor\n\
             A\td:English-German\t2\t8\trater1\tYes.\tNein.\tOther\tHOTW-test\n"), @"
        A d:English-German 6 rater1 Die 😀 Bank. major accuracy/mistranslation Target `Bank` 6..10 minor accuracy/omission Source `😀 ` 4..6
        A d:English-German 6 rater2 Die 😀 Bank.
        A d:English-German 7 rater1 Nein. major non-translation Target `Nein.` 0..5
        ");
    }

    #[test]
    fn ten_columns_of_marot_need_no_header() {
        let rows = read_text(
            "A\td\t1\t1\tr\tYes.\t<v>Nein.</v>\tAccuracy/Mistranslation\tCritical\t{\"note\":\" the opposite \"}\n\
             A\td\t1\t1\t\tYes.\tNein.\t\t\t{\"segment\":{\"metrics\":{}}}\n",
        );
        let rows = rows.unwrap();
        assert_eq!((rows.len(), rows[0].errors[0].explanation.as_deref()), (1, Some("the opposite")));
        assert_eq!(rows[0].errors[0].severity, Severity::Critical);
    }

    #[test]
    fn bad_files() {
        let refused = |text: &str| read_text(text).unwrap_err();
        insta::assert_snapshot!(refused("system\tdoc\trater\n"), @"
        `DIR/mqm.tsv` has no column `globalSegId`
        hint: the columns of an MQM TSV are system, doc, docSegId, globalSegId, rater, source, target, category, severity, metadata
        ");
        let row = |seg: &str, target: &str, severity: &str| {
            format!("A\td\t1\t{seg}\tr\tYes.\t{target}\tOther\t{severity}\t\n")
        };
        insta::assert_snapshot!(refused(&row("0", "Ja.", "Minor")),
            @"`DIR/mqm.tsv` line 1: the segment's number is `0`, but it must be a whole number, from 1");
        insta::assert_snapshot!(refused(&row("1", "Ja.", "Grave")),
            @"`DIR/mqm.tsv` line 1: unknown severity `Grave`; hint: critical, major, minor, neutral");
        insta::assert_snapshot!(refused(&(row("1", "Ja.", "Minor") + &row("1", "Jawohl.", "Minor"))),
            @"`DIR/mqm.tsv` line 2: segment 1 of `A` has another text here than in an earlier row of rater `r`");
        insta::assert_snapshot!(refused("A\td\t1\n"), @"`DIR/mqm.tsv` line 1: 3 fields, but at least 9 are needed");
        insta::assert_snapshot!(refused(""), @"`DIR/mqm.tsv` holds no rating");
    }
}
