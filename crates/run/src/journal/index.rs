//! An index of journals by unit; the lines stay on disk.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use super::UnitFields;
use crate::{
    checksum::strip_checksum,
    error::Error,
    files,
    lines::{Kind, Lines, Span},
    record::{Record, UnitKey},
    segment::corpus::read_at,
    units::Units,
};

/// The line of a unit's verdict, with the number of its journal.
#[derive(Clone, Copy, Debug)]
struct Entry {
    journal: u32,
    span: Span,
}

/// An index of journals by unit.
#[derive(Debug)]
pub struct Index {
    journals: Vec<(PathBuf, File)>,
    /// By the number of the unit.
    entries: Vec<Option<Entry>>,
    /// True if several journals have the same verdict on a unit.
    pub is_shared: bool,
    /// The first unit on which two journals have different verdicts, and these.
    pub apart: Option<(usize, [PathBuf; 2])>,
    /// True if a journal ends in an incomplete line.
    pub is_torn: bool,
}

/// A line of a journal about a unit that the run does not have.
pub struct ForeignLine {
    pub number: usize,
    key: UnitKey,
}

impl Index {
    /// Without any journal.
    pub fn new(units: &Units) -> Self {
        let entries = vec![None; units.len()];
        Self { journals: Vec::new(), entries, is_shared: false, apart: None, is_torn: false }
    }

    /// Reads a journal once; a missing one has no lines.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Damaged`]; [`Error::Foreign`] for a line about a unit that is not among these.
    pub fn add(&mut self, path: &Path, units: &Units) -> Result<(), Error> {
        match self.add_known(path, units)?.into_iter().next() {
            None => Ok(()),
            Some(ForeignLine { number: line, key }) => {
                Err(Error::Foreign { path: path.into(), line, key: Box::new(key) })
            }
        }
    }

    /// Adds a journal as [`Index::add`] does, but skips lines about other units and returns them.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Damaged`].
    pub fn add_known(&mut self, path: &Path, units: &Units) -> Result<Vec<ForeignLine>, Error> {
        let mut foreign = Vec::new();
        let journal = self.journals.len() as u32;
        match files::open_own(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(foreign),
            opened => self.journals.push((path.into(), opened.map_err(Error::reading(path))?)),
        }
        let mut lines = Lines::<UnitFields>::open(path, Kind::Journal)?;
        while let Some(line) = lines.next() {
            let key = line?.key();
            let Some(unit) = units.number(&key) else {
                foreign.push(ForeignLine { number: lines.number, key });
                continue;
            };
            match self.entries[unit] {
                None => self.entries[unit] = Some(Entry { journal, span: lines.span }),
                Some(_) if self.json(unit)?.is_some_and(|json| json.as_bytes() == lines.json) => {
                    self.is_shared = true;
                }
                Some(first) if self.apart.as_ref().is_none_or(|(known, _)| unit < *known) => {
                    let first = self.journals[first.journal as usize].0.clone();
                    self.apart = Some((unit, [first, path.into()]));
                }
                Some(_) => {}
            }
        }
        self.is_torn |= lines.is_torn;
        Ok(foreign)
    }

    /// Returns true if there is a verdict on this unit.
    pub fn has(&self, unit: usize) -> bool {
        self.entries[unit].is_some()
    }

    /// Number of units with a verdict.
    pub fn n_verdicts(&self) -> usize {
        self.entries.iter().flatten().count()
    }

    /// The verdict on a unit as JSON; `None` without one.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::DamagedFile`].
    pub fn json(&self, unit: usize) -> Result<Option<String>, Error> {
        let Some(Entry { journal, span: Span { offset, len } }) = self.entries[unit] else { return Ok(None) };
        let (path, file) = &self.journals[journal as usize];
        let mut line = read_at(file, offset, len as usize).map_err(Error::reading(path))?;
        let json = strip_checksum(&mut line).ok().and_then(|()| String::from_utf8(line).ok());
        json.map(Some).ok_or_else(|| damaged(path, "it was changed while it was being read"))
    }

    /// All verdicts in verdict order, as JSON.
    ///
    /// # Errors
    /// Of a verdict: the errors of [`Index::json`].
    pub fn verdicts(&self) -> impl Iterator<Item = Result<String, Error>> {
        (0..self.entries.len()).filter_map(|unit| self.json(unit).transpose())
    }

    /// All verdicts in verdict order.
    ///
    /// # Errors
    /// Of a verdict: the errors of [`Index::json`].
    pub fn records(&self) -> impl Iterator<Item = Result<Record, Error>> {
        let parsed = |json: Result<String, Error>| {
            let path = self.journals.first().map_or(Path::new(super::JOURNAL), |(path, _)| path);
            serde_json::from_str(&json?).map_err(|error| damaged(path, &error.to_string()))
        };
        self.verdicts().map(parsed)
    }
}

fn damaged(path: &Path, reason: &str) -> Error {
    let hint = "delete the line; its segment will then be judged again";
    Error::DamagedFile { path: path.into(), reason: reason.into(), hint }
}
