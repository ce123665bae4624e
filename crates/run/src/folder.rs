//! A run folder: its files, and their atomic replacement.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::{error::Error, files, lock::Lock};

/// The file of verdicts as they are made.
pub const JOURNAL: &str = "journal.jsonl";

/// A folder that only this process writes to, until this value is dropped.
#[derive(Debug)]
pub struct Folder {
    dir: PathBuf,
    _lock: Lock,
}

impl Folder {
    /// Creates the folder if it is missing, and locks it.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be written, [`Error::Locked`] when another process is writing to it.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        if dir.exists() && !dir.is_dir() {
            return Err(Error::NotAFolder(dir.into()));
        }
        std::fs::create_dir_all(dir).map_err(|source| Error::Io {
            action: "create",
            path: dir.into(),
            source,
        })?;
        Ok(Self { dir: dir.into(), _lock: Lock::take(dir, JOURNAL)? })
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Returns true if nothing has been written to this file of it.
    pub fn is_blank(&self, name: &str) -> bool {
        std::fs::metadata(self.path(name)).map_or(true, |existing| existing.len() == 0)
    }

    /// Waits until the names of its files are on the disk.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn sync(&self) -> Result<(), Error> {
        Ok(files::sync_folder(&self.dir)?)
    }

    /// The folder's own path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Replaces a whole file atomically: it holds either the old content or the new. A file that has this
    /// content already is left alone.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path(name);
        if std::fs::metadata(&path).is_ok_and(|existing| existing.len() == bytes.len() as u64)
            && files::read_own(&path).is_ok_and(|existing| existing == bytes)
        {
            return Ok(());
        }
        replace(&path, |file| file.write_all(bytes))
    }
}

/// A number that identifies an item: the beginning of the SHA-256 of its JSON line.
pub(crate) fn hash<T: Serialize>(item: &T) -> u64 {
    let digest = Sha256::digest(json_lines(std::slice::from_ref(item)));
    u64::from_be_bytes(*digest.first_chunk().expect("a SHA-256 has 32 bytes"))
}

/// Items as JSON, one per line.
pub(crate) fn json_lines<T: Serialize>(items: &[T]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for item in items {
        serde_json::to_writer(&mut bytes, item).expect("strings and numbers into memory");
        bytes.push(b'\n');
    }
    bytes
}

/// Replaces a file of a run folder, as [`files::replace`] does.
///
/// # Errors
/// [`Error::Io`]; the old file is then still there.
pub fn replace(path: &Path, fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<(), Error> {
    files::replace(path, fill).map_err(Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_linked_lock_leaves_its_target_alone() {
        let dir = tempfile::tempdir().unwrap();
        let precious = dir.path().join("precious");
        std::fs::write(&precious, "a thesis").unwrap();
        let run = dir.path().join("run");
        std::fs::create_dir(&run).unwrap();
        std::os::unix::fs::symlink(&precious, run.join(".lock")).unwrap();
        let error = Folder::open(&run).unwrap_err().to_string();
        assert!(error.contains(".lock") && error.contains("not a plain file"), "{error}");
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "a thesis");
    }

    #[test]
    fn a_file_is_no_run_folder() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Folder::open(file.path()).unwrap_err().to_string();
        assert!(error.ends_with("is a file\nhint: a run folder is made where it does not exist"), "{error}");
    }

    #[test]
    fn who_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let _held = Folder::open(dir.path()).unwrap();
        let error = Folder::open(dir.path()).unwrap_err().to_string();
        let wanted = format!("process {} on `{}`, since 20", std::process::id(), crate::lock::host());
        assert!(error.contains(&wanted) && error.contains(" UTC"), "{error}");
    }
}
