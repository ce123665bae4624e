//! The journal: each group's records are appended and flushed as soon as it is judged, so that an interrupted
//! run can continue. `verdicts.jsonl` is the ordered copy.

use std::{
    fs::{File, Metadata},
    io::Write as _,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{
    call::CallLine,
    calls::{CallRetention, Calls},
    checksum::with_checksum,
    error::Error,
    files,
    lines::{Kind, Lines},
    record::{Record, Status, UnitKey},
};

pub mod index;
mod pace;
pub mod resume;

pub use pace::Pace;

pub use crate::folder::JOURNAL;

/// The records of a folder's journal; none where there is no journal.
///
/// # Errors
/// [`Error::Io`]; of a record, [`Error::Damaged`] too.
pub fn records(dir: &Path) -> Result<Lines<Record>, Error> {
    Lines::open(&dir.join(JOURNAL), Kind::Journal)
}

/// The two files of a run that are appended to.
pub struct Journal {
    pub records: File,
    pub calls: Calls,
    pub path: PathBuf,
}

impl Journal {
    /// Opens the files of a folder for appending.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(dir: &Path, retention: CallRetention) -> Result<Self, Error> {
        let path = dir.join(JOURNAL);
        Ok(Self { records: files::append(&path)?, calls: Calls::open(dir, retention)?, path })
    }

    /// Appends a group: its calls first, so that every record has its calls, then its records in one write.
    ///
    /// # Errors
    /// [`Error::Append`]: what was appended before is safe, and the torn rest is dropped on resuming.
    pub fn append(&mut self, records: &[Record], calls: Vec<CallLine>) -> Result<(), Error> {
        self.calls.append(calls)?;
        let lines: String = records.iter().map(|record| with_checksum(&json(record)) + "\n").collect();
        let written = self.records.write_all(lines.as_bytes()).and_then(|()| self.records.flush());
        written.map_err(Error::appending(&self.path))
    }

    /// Checks that the open files are still those in the folder: writes to the files of a removed folder
    /// succeed and are lost.
    ///
    /// # Errors
    /// [`Error::Gone`].
    pub fn check(&self) -> Result<(), Error> {
        let is_in_folder = |path: &Path, file: &File| match (std::fs::metadata(path), file.metadata()) {
            (Ok(named), Ok(open)) => is_same(&named, &open),
            _ => false,
        };
        if is_in_folder(&self.path, &self.records) && is_in_folder(&self.calls.path, &self.calls.file) {
            return Ok(());
        }
        Err(Error::Gone(self.path.parent().unwrap_or(&self.path).into()))
    }

    /// Size of the records. Unit: bytes.
    ///
    /// # Errors
    /// [`Error::Append`].
    pub fn size(&self) -> Result<u64, Error> {
        self.records.metadata().map(|file| file.len()).map_err(Error::appending(&self.path))
    }

    /// Drops the records from this byte on. Their calls are dropped when the run is resumed.
    ///
    /// # Errors
    /// [`Error::Append`].
    pub fn truncate(&self, len: u64) -> Result<(), Error> {
        let cut = self.records.set_len(len).and_then(|()| self.records.sync_data());
        cut.map_err(Error::appending(&self.path))
    }

    /// Syncs the appended lines to disk.
    ///
    /// # Errors
    /// [`Error::Append`].
    pub fn sync(&self) -> Result<(), Error> {
        let synced = self.calls.file.sync_data().and_then(|()| self.records.sync_data());
        synced.map_err(Error::appending(&self.path))
    }
}

#[cfg(unix)]
fn is_same(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(not(unix))]
fn is_same(a: &Metadata, b: &Metadata) -> bool {
    a.len() == b.len()
}

/// A record as its line in `verdicts.jsonl`.
///
/// # Panics
/// Never: a record holds strings and numbers only.
pub fn json(record: &Record) -> String {
    serde_json::to_string(record).expect("strings and numbers into memory")
}

/// The fields of a record besides its texts and errors.
#[derive(Deserialize)]
pub(crate) struct UnitFields {
    pub system: String,
    src_lang: String,
    tgt_lang: String,
    pub doc: String,
    pub seg: Option<usize>,
    pub status: Status,
    pub n_calls: usize,
}

impl UnitFields {
    pub fn key(self) -> UnitKey {
        let Self { system, src_lang, tgt_lang, doc, seg, .. } = self;
        UnitKey { system, src_lang, tgt_lang, doc, seg }
    }
}
