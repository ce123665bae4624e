//! The lines of a run's files, read one at a time: records of a journal or of `verdicts.jsonl`, and calls. It
//! repairs nothing.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    marker::PhantomData,
    path::{Path, PathBuf},
};

use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    checksum::strip_checksum,
    description::RUN,
    error::Error,
    files::{self, packed, text},
};

/// Largest ratio of unpacked to packed size of a file of calls. A call takes some 150 bytes (hashes, figures,
/// the answer) even if its prompt is a repetition; this allows for prompts of 600 KB.
const MAX_RATIO: u64 = 4000;

/// The kind of a file of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Records with checksums; a missing file has none.
    Journal,
    /// Calls, plain or compressed; a missing file has none.
    Calls,
    /// Records of a finished run.
    Verdicts,
    /// Records in a file that the user names, which may be a link or a pipe.
    Named,
}

impl Kind {
    /// Hint for a line that cannot be read.
    fn hint(self) -> &'static str {
        match self {
            Self::Journal => "delete the line; its segment will then be judged again",
            Self::Calls => {
                "the run's command, given again, finds the line and judges again what it belongs to; its verdicts are the same"
            }
            // It is made of the journal.
            Self::Verdicts | Self::Named => {
                "the run's command, given again, writes the file anew from the journal"
            }
        }
    }
}

/// The position of a line in a file, without its line end. Unit: bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    pub offset: u64,
    pub len: u32,
}

/// The whole lines of a file, each parsed as a `T`. Reading can go on behind a damaged line, and ends after
/// any other error.
pub struct Lines<T> {
    path: PathBuf,
    kind: Kind,
    reader: Box<dyn BufRead + Send>,
    is_compressed: bool,
    /// The present line as JSON.
    pub(crate) json: Vec<u8>,
    /// The number of the present line, from 1, and its position.
    pub(crate) number: usize,
    pub(crate) span: Span,
    /// Size of the file up to here. Unit: bytes.
    pub(crate) size: u64,
    /// True if the last line, or frame, was cut off while it was being written.
    pub(crate) is_torn: bool,
    item: PhantomData<fn() -> T>,
}

impl<T> Lines<T> {
    /// Opens a file.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(path: &Path, kind: Kind) -> Result<Self, Error> {
        let is_compressed = kind == Kind::Calls && path.extension().is_some_and(|ending| ending == "zst");
        let opened = if kind == Kind::Named { File::open(path) } else { files::open_own(path) };
        let is_missing = |error: &io::Error| match error.kind() {
            io::ErrorKind::NotFound => matches!(kind, Kind::Journal | Kind::Calls),
            // A file of verdicts in place of a run folder has no calls.
            io::ErrorKind::NotADirectory => kind == Kind::Calls,
            _ => false,
        };
        let reader: Box<dyn BufRead + Send> = match opened {
            Err(error) if is_missing(&error) => Box::new(io::empty()),
            Err(source) => return Err(Error::reading(path)(source)),
            Ok(file) if is_compressed => packed::unpacked(file, MAX_RATIO).map_err(Error::reading(path))?,
            Ok(file) => Box::new(BufReader::with_capacity(1 << 18, file)),
        };
        let (json, span) = (Vec::new(), Span::default());
        let (number, size, is_torn) = (0, 0, false);
        Ok(Self {
            path: path.into(),
            kind,
            reader,
            is_compressed,
            json,
            number,
            span,
            size,
            is_torn,
            item: PhantomData,
        })
    }

    /// Reads the next whole line without parsing it; false at the end.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Damaged`] for a wrong checksum.
    pub(crate) fn advance(&mut self) -> Result<bool, Error> {
        let n = match text::read_line(&mut *self.reader, &mut self.json, self.number + 1) {
            Ok(n) => n,
            // The contents are damaged, not the disk: no line behind this can be read.
            Err(error) if self.is_compressed && error.raw_os_error().is_none() && !is_of_size(&error) => {
                self.is_torn = true;
                return Ok(false);
            }
            Err(source) => {
                self.reader = Box::new(io::empty());
                return Err(Error::reading(&self.path)(source));
            }
        };
        let offset = self.size;
        self.size += n as u64;
        if self.json.pop_if(|last| *last == b'\n').is_none() {
            self.is_torn |= n > 0;
            return Ok(false);
        }
        self.number += 1;
        self.span = Span { offset, len: self.json.len() as u32 };
        if self.kind == Kind::Journal {
            strip_checksum(&mut self.json).map_err(|reason| self.damaged(reason))?;
        }
        Ok(true)
    }

    /// Parses the present line.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub(crate) fn parse<'a, U: Deserialize<'a>>(&'a self) -> Result<U, Error> {
        serde_json::from_slice(&self.json).map_err(|error| self.damaged(&error.to_string()))
    }

    /// The error of the present line.
    pub(crate) fn damaged(&self, reason: &str) -> Error {
        // A file that the user names may be anything; only in a run folder is it a verdict that was damaged.
        if self.kind == Kind::Named && self.number == 1 && !self.path.with_file_name(RUN).exists() {
            return Error::NoVerdicts(self.path.clone());
        }
        let (path, line) = (self.path.clone(), self.number);
        Error::Damaged { path, line, reason: reason.into(), hint: self.kind.hint() }
    }
}

impl<T: DeserializeOwned> Iterator for Lines<T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.advance() {
            Ok(true) => Some(self.parse()),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

/// Returns true if a file, or one of its lines, has more bytes than are read.
fn is_of_size(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|error| error.is::<packed::UnpackedTooLarge>() || error.is::<text::NotText>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checksum::with_checksum, record::Record};

    #[test]
    fn a_file_in_place_of_a_run_folder_has_no_calls_and_no_journal() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = |name: &str, kind: Kind| {
            Lines::<Record>::open(&file.path().join(name), kind).map(Iterator::count)
        };
        assert_eq!(open("calls.jsonl", Kind::Calls).unwrap(), 0);
        // Windows reports such a file as missing.
        assert!(cfg!(windows) || open("journal.jsonl", Kind::Journal).is_err());
    }

    #[test]
    fn the_hint_depends_on_the_file() {
        let root = tempfile::tempdir().unwrap();
        let hint = |name: &str, line: &str, kind: Kind| {
            let path = root.path().join(name);
            std::fs::write(&path, format!("{line}\n")).unwrap();
            match Lines::<Record>::open(&path, kind).unwrap().next() {
                Some(Err(Error::Damaged { line: 1, hint, .. })) => hint,
                other => panic!("{other:?}"),
            }
        };
        let again = hint("journal.jsonl", &with_checksum("{\"system\":1}"), Kind::Journal);
        assert_eq!(again, "delete the line; its segment will then be judged again");
        let anew = hint("verdicts.jsonl", "{\"system\":1}", Kind::Verdicts);
        assert_eq!(anew, "the run's command, given again, writes the file anew from the journal");
    }
}
