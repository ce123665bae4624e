//! A cache of file hashes: a file is hashed before it is used, and again only after a change. Expected hashes
//! are checked elsewhere.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::{Error, Result, digest};
use crate::files::{self, Stamp, UnixTime};

/// The file of hashes, in the folder of all models.
const MEMORY: &str = "hashes.json";

/// A file that changed less than this many seconds before it was hashed might change again without its times
/// showing it, so its hash is not cached.
const SETTLED_AFTER_S: i64 = 2;

/// A cache of file hashes, in a file or nowhere.
#[derive(Clone, Debug)]
pub struct Hashes {
    memory: Option<PathBuf>,
    settled_after_s: i64,
}

/// A hash with the file's metadata at the time of hashing.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Remembered {
    #[serde(flatten)]
    stamp: Stamp,
    sha256: String,
}

impl Hashes {
    /// No cache: every file is hashed each time.
    pub fn forgotten() -> Self {
        Self { memory: None, settled_after_s: SETTLED_AFTER_S }
    }

    /// The cache in a given folder of models.
    pub fn in_home(home: &Path) -> Self {
        Self { memory: Some(home.join(MEMORY)), settled_after_s: SETTLED_AFTER_S }
    }

    /// The SHA-256 of a file as lower-case hexadecimal digits. A cache that is damaged or cannot be written
    /// only costs time.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be read.
    pub fn sha256(&self, path: &Path) -> Result<String> {
        Ok(self.stamped(path)?.0)
    }

    /// The SHA-256 of a file with the file's stamp, by which a later replacement is detected.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be read, or changes while it is being read.
    pub fn stamped(&self, path: &Path) -> Result<(String, Stamp)> {
        let mut file = File::open(path).map_err(Error::io("open", path))?;
        let stamp = Stamp::from_file(&file).map_err(Error::io("read", path))?;
        let Some((memory, key)) = self.memory.as_ref().zip(key(path)) else {
            let sha256 = digest::sha256_of_file(&mut file, path, &mut |_| ())?;
            return unchanged(&file, path, stamp).map(|stamp| (sha256, stamp));
        };
        let known = recall(memory);
        if let Some(known) = known.get(&key).filter(|known| known.stamp == stamp && known.is_well_formed()) {
            return Ok((known.sha256.clone(), stamp));
        }
        // The file system's own clock, before the first byte is read.
        let draft = Draft::begin(memory);
        let sha256 = digest::sha256_of_file(&mut file, path, &mut |_| ())?;
        let stamp = unchanged(&file, path, stamp)?;
        if let Some(draft) = draft
            && is_settled(&stamp, draft.began, self.settled_after_s)
        {
            draft.finish(memory, key, Remembered { stamp: stamp.clone(), sha256: sha256.clone() });
        }
        Ok((sha256, stamp))
    }
}

impl Remembered {
    fn is_well_formed(&self) -> bool {
        super::Pin::Pinned(self.sha256.clone()).is_well_formed(64)
    }
}

/// The stamp of a file, which must be equal before the first byte is read and after the last.
fn unchanged(file: &File, path: &Path, before: Stamp) -> Result<Stamp> {
    let after = Stamp::from_file(file).map_err(Error::io("read", path))?;
    if after == before {
        return Ok(before);
    }
    let reason = "it changed while it was being read; wait until no process writes to it";
    Err(Error::io("read", path)(std::io::Error::other(reason)))
}

/// Returns true if any change after `now` would show in the file's times.
fn is_settled(stamp: &Stamp, now: UnixTime, after_s: i64) -> bool {
    stamp.modified.max(stamp.changed.unwrap_or(stamp.modified)).0 + after_s < now.0
}

/// A file's key in the cache.
fn key(path: &Path) -> Option<String> {
    fs::canonicalize(path).ok()?.to_str().map(str::to_owned)
}

/// The cached hashes; empty when their file is missing or damaged, or writable by others.
fn recall(memory: &Path) -> BTreeMap<String, Remembered> {
    let file = files::open_private(memory).ok();
    file.and_then(|file| serde_json::from_reader(io::BufReader::new(file)).ok()).unwrap_or_default()
}

/// The next version of the cache's file, begun before the new entry is computed.
struct Draft {
    file: NamedTempFile,
    began: UnixTime,
}

impl Draft {
    /// `None` where the folder cannot be written to.
    fn begin(memory: &Path) -> Option<Self> {
        let home = memory.parent()?;
        fs::create_dir_all(home).ok()?;
        let file = NamedTempFile::with_prefix_in(".hashes.", home).ok()?;
        let began = Stamp::from_file(file.as_file()).ok()?.modified;
        Some(Self { file, began })
    }

    /// Replaces the cache's file atomically. If two processes do so together, one entry is lost, which only
    /// costs hashing it again.
    fn finish(self, memory: &Path, key: String, new: Remembered) {
        let mut all = recall(memory);
        all.retain(|path, _| Path::new(path).exists());
        all.insert(key, new);
        let text = serde_json::to_vec_pretty(&all).unwrap_or_default();
        drop(self.file);
        // A failed write only means that the file is hashed again.
        let _ = files::replace(memory, |file| file.write_all(&text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache that stores every hash, however new the file is.
    fn at_once(home: &Path) -> Hashes {
        Hashes { settled_after_s: -10, ..Hashes::in_home(home) }
    }

    /// Replaces every cached hash, to detect whether it is used.
    fn tamper(home: &Path, sha256: &str) {
        let mut all = recall(&home.join(MEMORY));
        for known in all.values_mut() {
            sha256.clone_into(&mut known.sha256);
        }
        fs::write(home.join(MEMORY), serde_json::to_vec(&all).unwrap()).unwrap();
    }

    #[test]
    fn a_file_is_hashed_once_for_as_long_as_it_is_the_same() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("model.gguf");
        fs::write(&file, "one").unwrap();
        let hashes = at_once(home.path());
        assert_eq!(hashes.sha256(&file).unwrap(), digest::sha256_of(b"one"));
        let other = "0".repeat(64);
        tamper(home.path(), &other);
        assert_eq!(hashes.sha256(&file).unwrap(), other, "remembered");
        fs::write(&file, "two").unwrap();
        assert_eq!(hashes.sha256(&file).unwrap(), digest::sha256_of(b"two"), "the same size, another time");
        tamper(home.path(), &other);
        let moved = home.path().join("moved.gguf");
        fs::write(&moved, "two").unwrap();
        fs::rename(&moved, &file).unwrap();
        assert_eq!(hashes.sha256(&file).unwrap(), digest::sha256_of(b"two"), "another file in its place");
    }

    #[cfg(unix)]
    #[test]
    fn a_time_that_was_set_back_is_noticed() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("model.gguf");
        fs::write(&file, "one").unwrap();
        let modified = fs::metadata(&file).unwrap().modified().unwrap();
        let hashes = at_once(home.path());
        hashes.sha256(&file).unwrap();
        // The clock of the file system may tick slowly.
        let changed = || Stamp::from_file(&File::open(&file).unwrap()).unwrap().changed;
        let before = changed();
        while changed() == before {
            fs::write(&file, "two").unwrap();
            fs::File::options().append(true).open(&file).unwrap().set_modified(modified).unwrap();
        }
        assert_eq!(hashes.sha256(&file).unwrap(), digest::sha256_of(b"two"));
    }

    #[test]
    fn what_has_just_changed_is_not_remembered() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("model.gguf");
        fs::write(&file, "one").unwrap();
        let hashes = Hashes::in_home(home.path());
        for text in ["one", "two", "six"] {
            fs::write(&file, text).unwrap();
            assert_eq!(hashes.sha256(&file).unwrap(), digest::sha256_of(text.as_bytes()));
        }
        let names: Vec<_> =
            fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["model.gguf"], "nothing is left behind");
    }

    #[cfg(unix)]
    #[test]
    fn hashes_that_others_can_have_written_are_not_believed() {
        use std::os::unix::fs::PermissionsExt as _;

        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("model.gguf");
        fs::write(&file, "one").unwrap();
        let hashes = at_once(home.path());
        hashes.sha256(&file).unwrap();
        let forged = "0".repeat(64);
        tamper(home.path(), &forged);
        assert_eq!(hashes.sha256(&file).unwrap(), forged);
        fs::set_permissions(home.path().join(MEMORY), fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(hashes.sha256(&file).unwrap(), digest::sha256_of(b"one"));
    }

    #[test]
    fn a_damaged_memory_is_forgotten_and_none_is_needed() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("model.gguf");
        fs::write(&file, "one").unwrap();
        let right = digest::sha256_of(b"one");
        let hashes = at_once(home.path());
        hashes.sha256(&file).unwrap();
        let whole = fs::read(home.path().join(MEMORY)).unwrap();
        for n in [0, 1, whole.len() / 2, whole.len() - 3] {
            fs::write(home.path().join(MEMORY), &whole[..n]).unwrap();
            assert_eq!(hashes.sha256(&file).unwrap(), right, "cut after {n} bytes");
        }
        tamper(home.path(), "no hash");
        assert_eq!(hashes.sha256(&file).unwrap(), right);
        let nowhere = at_once(&file);
        assert_eq!(nowhere.sha256(&file).unwrap(), right, "a home that is not a folder");
        assert_eq!(Hashes { memory: None, ..hashes }.sha256(&file).unwrap(), right);
        assert!(matches!(nowhere.sha256(&home.path().join("missing")), Err(Error::Io { .. })));
    }
}
