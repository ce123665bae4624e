//! The journal: each group's records are appended and flushed as soon as it is judged, so that an interrupted
//! run can continue. `verdicts.jsonl` is the ordered copy. A checksum at the end of each line detects edits
//! and disk faults.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{
    Error,
    call::CallLine,
    calls::{Calls, Sums},
    record::{Record, Status, UnitKey},
    units::Units,
};
use crate::{digest, files, segment::corpus::read_at};

mod pace;
mod resume;

pub use pace::Pace;
pub use resume::{Groups, Resume, resume};

pub use super::folder::JOURNAL;

/// The text before and after a line's checksum, which replaces the record's last brace.
const BEFORE_CHECK: &str = ",\"check\":\"";
const AFTER_CHECK: &str = "\"}";
/// Digits of a checksum: the first of the record's SHA-256.
const CHECK_DIGITS: usize = 8;

/// The two files of a run that are appended to.
pub struct Journal<W: Write = File> {
    pub records: W,
    pub calls: Calls<W>,
    pub path: PathBuf,
}

impl<W: Write> Journal<W> {
    /// Appends a group: its calls first, so that every record has its calls, then its records in one write.
    ///
    /// # Errors
    /// [`Error::Append`]: what was appended before is safe, and the torn rest is dropped on resuming.
    pub fn append(&mut self, records: &[Record], calls: Vec<CallLine>) -> Result<(), Error> {
        self.calls.append(calls)?;
        let lines: String = records.iter().map(|record| with_checksum(&json(record)) + "\n").collect();
        let written = self.records.write_all(lines.as_bytes()).and_then(|()| self.records.flush());
        written.map_err(|source| Error::Append { path: self.path.clone(), source })
    }
}

impl Journal {
    /// Checks that the open files are still those in the folder: writes to the files of a removed folder
    /// succeed and are lost.
    ///
    /// # Errors
    /// [`Error::Gone`].
    pub fn check(&self) -> Result<(), Error> {
        let is_there = |path: &Path, file: &File| match (std::fs::metadata(path), file.metadata()) {
            (Ok(there), Ok(here)) => is_same(&there, &here),
            _ => false,
        };
        if is_there(&self.path, &self.records) && is_there(&self.calls.path, &self.calls.file) {
            return Ok(());
        }
        Err(Error::Gone(self.path.parent().unwrap_or(&self.path).into()))
    }

    /// Size of the records. Unit: bytes.
    ///
    /// # Errors
    /// [`Error::Append`].
    pub fn size(&self) -> Result<u64, Error> {
        let metadata = self.records.metadata();
        metadata.map(|file| file.len()).map_err(|source| Error::Append { path: self.path.clone(), source })
    }

    /// Drops the records from this byte on. Their calls are dropped when the run is resumed.
    ///
    /// # Errors
    /// [`Error::Append`].
    pub fn truncate(&self, len: u64) -> Result<(), Error> {
        let cut = self.records.set_len(len).and_then(|()| self.records.sync_data());
        cut.map_err(|source| Error::Append { path: self.path.clone(), source })
    }

    /// Syncs the appended lines to disk.
    ///
    /// # Errors
    /// [`Error::Append`].
    pub fn sync(&self) -> Result<(), Error> {
        let synced = self.calls.file.sync_data().and_then(|()| self.records.sync_data());
        synced.map_err(|source| Error::Append { path: self.path.clone(), source })
    }
}

#[cfg(unix)]
fn is_same(a: &std::fs::Metadata, b: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(not(unix))]
fn is_same(a: &std::fs::Metadata, b: &std::fs::Metadata) -> bool {
    a.len() == b.len()
}

/// A record as its line in `verdicts.jsonl`.
///
/// # Panics
/// Never: a record holds strings and numbers only.
#[must_use]
pub fn json(record: &Record) -> String {
    serde_json::to_string(record).expect("strings and numbers into memory")
}

/// A record's line in the journal.
#[must_use]
pub fn with_checksum(json: &str) -> String {
    let open = json.strip_suffix('}').unwrap_or(json);
    format!("{open}{BEFORE_CHECK}{}{AFTER_CHECK}", check(json))
}

/// The record of a journal's line, as JSON, if its checksum is right.
fn verify_checksum(line: &str) -> Result<String, &'static str> {
    let rest = line.strip_suffix(AFTER_CHECK).filter(|rest| rest.len() > CHECK_DIGITS);
    let split = rest.and_then(|rest| rest.split_at_checked(rest.len() - CHECK_DIGITS));
    let parts = split.and_then(|(open, digits)| Some((open.strip_suffix(BEFORE_CHECK)?, digits)));
    let (open, digits) = parts.ok_or("it has no checksum")?;
    let json = format!("{open}}}");
    if check(&json) == digits {
        Ok(json)
    } else {
        Err("its checksum is that of another line: it was changed")
    }
}

fn check(json: &str) -> String {
    digest::hex(&Sha256::digest(json)[..CHECK_DIGITS / 2])
}

/// The part of a run that a folder already has.
#[derive(Debug, Default)]
pub struct Done {
    /// Groups in which every unit has a record.
    pub groups: HashSet<usize>,
    pub sums: Sums,
    /// Groups that are judged again because of their calls, in words.
    pub lost: Option<String>,
}

/// The position of a line in a file.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    offset: u64,
    len: u32,
}

/// The fields of a line that identify its unit.
#[derive(Deserialize)]
struct UnitFields {
    system: String,
    src_lang: String,
    tgt_lang: String,
    doc: String,
    seg: Option<usize>,
    status: Status,
    n_calls: usize,
}

impl UnitFields {
    fn key(self) -> UnitKey {
        let Self { system, src_lang, tgt_lang, doc, seg, .. } = self;
        UnitKey { system, src_lang, tgt_lang, doc, seg }
    }
}

/// The line of a unit's verdict.
#[derive(Clone, Copy, Debug)]
struct At {
    journal: u32,
    span: Span,
}

/// An index of journals by unit; the lines stay on disk.
#[derive(Debug)]
pub struct Index {
    journals: Vec<(PathBuf, File)>,
    /// By the number of the unit.
    lines: Vec<Option<At>>,
    /// True if several journals have the same verdict on a unit.
    pub is_shared: bool,
    /// The first unit on which two journals have different verdicts, and these.
    pub apart: Option<(usize, [PathBuf; 2])>,
    /// True if a journal ends in an incomplete line.
    pub is_torn: bool,
}

impl Index {
    /// Without any journal.
    #[must_use]
    pub fn new(units: &Units) -> Self {
        let lines = vec![None; units.len()];
        Self { journals: Vec::new(), lines, is_shared: false, apart: None, is_torn: false }
    }

    /// Reads a journal once; one that is not there has no lines.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Damaged`]; [`Error::Foreign`] for a line about a unit that is not among these.
    pub fn add(&mut self, path: &Path, units: &Units) -> Result<(), Error> {
        self.read(path, units, &mut |line, key| {
            Err(Error::Foreign { path: path.into(), line, key: Box::new(key) })
        })
    }

    /// Adds a journal as [`Index::add`] does, but skips lines about other units and returns their line
    /// numbers.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Damaged`].
    pub fn add_known(&mut self, path: &Path, units: &Units) -> Result<Vec<usize>, Error> {
        let mut foreign = Vec::new();
        self.read(path, units, &mut |line, _| {
            foreign.push(line);
            Ok(())
        })?;
        Ok(foreign)
    }

    fn read(
        &mut self,
        path: &Path,
        units: &Units,
        foreign: &mut dyn FnMut(usize, UnitKey) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let file = match files::open_own(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened.map_err(|source| Error::Io { action: "read", path: path.into(), source })?,
        };
        let journal = self.journals.len() as u32;
        self.journals.push((path.into(), file));
        let End { is_torn, .. } = each_line(path, Line::Journal, |number, span, json| {
            let key = parse::<UnitFields>(Line::Journal, path, number, json)?.key();
            let Some(unit) = units.number(&key) else { return foreign(number, key) };
            match self.lines[unit] {
                None => self.lines[unit] = Some(At { journal, span }),
                Some(_) if self.json(unit)?.as_deref() == Some(json) => self.is_shared = true,
                Some(there) if self.apart.as_ref().is_none_or(|(first, _)| unit < *first) => {
                    let there = self.journals[there.journal as usize].0.clone();
                    self.apart = Some((unit, [there, path.into()]));
                }
                Some(_) => {}
            }
            Ok(())
        })?;
        self.is_torn |= is_torn;
        Ok(())
    }

    /// Returns true if there is a verdict on this unit.
    #[must_use]
    pub fn has(&self, unit: usize) -> bool {
        self.lines[unit].is_some()
    }

    /// Number of units with a verdict.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.iter().flatten().count()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The verdict on a unit as JSON; `None` without one.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Damaged`].
    pub fn json(&self, unit: usize) -> Result<Option<String>, Error> {
        let Some(At { journal, span: Span { offset, len } }) = self.lines[unit] else { return Ok(None) };
        let (path, file) = &self.journals[journal as usize];
        let read = |source| Error::Io { action: "read", path: path.clone(), source };
        let line = read_at(file, offset, len as usize).map_err(read)?;
        let text = String::from_utf8(line).ok().and_then(|line| verify_checksum(&line).ok());
        text.map(Some)
            .ok_or_else(|| damaged(Line::Journal, path, 0, "it was changed while it was being read"))
    }

    /// Goes through all verdicts in verdict order, as JSON.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Damaged`], and what `visit` returns.
    pub fn each(&self, mut visit: impl FnMut(&str) -> Result<(), Error>) -> Result<(), Error> {
        (0..self.lines.len()).try_for_each(|unit| self.json(unit)?.map_or(Ok(()), |json| visit(&json)))
    }
}

/// The kind of a file of lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    /// A journal's: records with checksums.
    Journal,
    /// The lines of `verdicts.jsonl`.
    Plain,
    /// Those lines in a file that the user names, which may be a link or a pipe.
    Named,
}

/// The end of a file of lines.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    /// Size of the whole file. Unit: bytes.
    size: u64,
    /// True if the last line is incomplete, because writing it was interrupted.
    is_torn: bool,
}

/// Goes through the whole lines of a file, as JSON, and returns how it ends; nothing without a file.
fn each_line(
    path: &Path,
    kind: Line,
    mut visit: impl FnMut(usize, Span, &str) -> Result<(), Error>,
) -> Result<End, Error> {
    let io = |source| Error::Io { action: "read", path: path.into(), source };
    let opened = if kind == Line::Named { File::open(path) } else { files::open_own(path) };
    let file = match opened {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound && kind == Line::Journal => return Ok(End::default()),
        Err(source) => return Err(io(source)),
    };
    let mut file = BufReader::with_capacity(1 << 18, file);
    let (mut line, mut number, mut offset) = (Vec::new(), 0, 0);
    loop {
        line.clear();
        let n = file.read_until(b'\n', &mut line).map_err(io)?;
        let Some(whole) = line.strip_suffix(b"\n") else {
            return Ok(End { size: offset + n as u64, is_torn: n > 0 });
        };
        number += 1;
        let text = std::str::from_utf8(whole).map_err(|_| damaged(kind, path, number, "not UTF-8"))?;
        let len =
            u32::try_from(whole.len()).map_err(|_| damaged(kind, path, number, "it has more than 4 GiB"))?;
        let span = Span { offset, len };
        match kind {
            Line::Journal => {
                let json = verify_checksum(text).map_err(|reason| damaged(kind, path, number, reason))?;
                visit(number, span, &json)?;
            }
            Line::Plain | Line::Named => visit(number, span, text)?,
        }
        offset += n as u64;
    }
}

fn parse<'a, T: Deserialize<'a>>(kind: Line, path: &Path, line: usize, json: &'a str) -> Result<T, Error> {
    serde_json::from_str(json).map_err(|error| damaged(kind, path, line, &error.to_string()))
}

fn damaged(kind: Line, path: &Path, line: usize, reason: &str) -> Error {
    let hint = match kind {
        Line::Journal => "delete the line; its segment will then be judged again",
        // It is made of the journal.
        Line::Plain | Line::Named => "the run's command, given again, writes the file anew from the journal",
    };
    Error::Damaged { path: path.into(), line, reason: reason.into(), hint }
}

/// A verdict's JSON as a record.
///
/// # Errors
/// [`Error::Damaged`] for anything else.
pub fn record(json: &str) -> Result<Record, Error> {
    parse(Line::Journal, Path::new(JOURNAL), 0, json)
}

/// The records of a journal, each with its exact line in `verdicts.jsonl`.
///
/// # Errors
/// [`Error::Io`] when it cannot be read, [`Error::Damaged`] for a line that is not a record or was changed.
pub fn records(path: &Path) -> Result<Vec<(Record, String)>, Error> {
    lines(path, Line::Journal)
}

/// The records of a `verdicts.jsonl`, each with its exact line.
///
/// # Errors
/// [`Error::Io`] when it cannot be read, [`Error::Damaged`] for a line that is not a record.
pub fn verdicts(path: &Path) -> Result<Vec<(Record, String)>, Error> {
    lines(path, Line::Plain)
}

/// Goes through the records of a journal, one in memory at a time.
///
/// # Errors
/// The errors of [`records`], and what `visit` returns.
pub fn each_record(path: &Path, mut visit: impl FnMut(Record) -> Result<(), Error>) -> Result<(), Error> {
    each_line(path, Line::Journal, |number, _, json| visit(parse(Line::Journal, path, number, json)?))
        .map(drop)
}

/// Goes through the records of a `verdicts.jsonl`, one in memory at a time.
///
/// # Errors
/// The errors of [`verdicts`], and what `visit` returns.
pub fn each_verdict(path: &Path, mut visit: impl FnMut(Record) -> Result<(), Error>) -> Result<(), Error> {
    each_line(path, Line::Plain, |number, _, json| visit(parse(Line::Plain, path, number, json)?)).map(drop)
}

/// Goes through the records of a file of verdicts that the user names, one in memory at a time.
///
/// # Errors
/// The errors of [`verdicts`], and what `visit` returns.
pub fn each_named(path: &Path, mut visit: impl FnMut(Record) -> Result<(), Error>) -> Result<(), Error> {
    each_line(path, Line::Named, |number, _, json| visit(parse(Line::Named, path, number, json)?)).map(drop)
}

/// Goes through the records of a journal as something that is made of their JSON.
///
/// # Errors
/// The errors of [`each_record`].
pub(super) fn each_json<T: serde::de::DeserializeOwned>(
    path: &Path,
    mut visit: impl FnMut(T) -> Result<(), Error>,
) -> Result<(), Error> {
    each_line(path, Line::Journal, |number, _, json| visit(parse(Line::Journal, path, number, json)?))
        .map(drop)
}

fn lines(path: &Path, kind: Line) -> Result<Vec<(Record, String)>, Error> {
    let mut records = Vec::new();
    each_line(path, kind, |number, _, json| {
        records.push((parse(kind, path, number, json)?, json.to_owned()));
        Ok(())
    })?;
    Ok(records)
}

#[cfg(test)]
mod tests;
