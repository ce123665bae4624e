//! The lock of a run folder: one process at a time writes to it; the error for another one names the holder.

use std::{
    fs::{File, TryLockError},
    io::{Read, Write},
    path::{Path, PathBuf},
};

use crate::{clock::utc, error::Error, files};

/// The lock file's name.
pub const LOCK: &str = ".lock";

/// The most of a lock file that is read: it holds one short line.
const MOST: u64 = 512;

/// A lock that is held until this value is dropped. The kernel releases it too when the process dies.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Locks a folder and writes the holder into the lock file. A folder whose file of the name `written` is
    /// locked too is held, even if its lock file was removed.
    ///
    /// # Errors
    /// [`Error::Locked`] when another process holds it, [`Error::Unlockable`] where the file system has no
    /// locks, and [`Error::Io`], for a lock file that is a link among others.
    pub fn take(dir: &Path, written: &str) -> Result<Self, Error> {
        Self::take_by(dir, written, File::try_lock)
    }

    /// Locks a folder as [`Lock::take`] does, with another way to lock a file.
    fn take_by(
        dir: &Path,
        written: &str,
        lock: impl Fn(&File) -> Result<(), TryLockError>,
    ) -> Result<Self, Error> {
        let path = dir.join(LOCK);
        let io = |source| Error::Io { action: "write", path: path.clone(), source };
        let mut file = files::update(&path)?;
        match lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Locked { dir: dir.into(), by: holder(&mut file) });
            }
            Err(TryLockError::Error(source)) => {
                return Err(Error::Unlockable { dir: dir.into(), kind: file_system(dir), source });
            }
        }
        if is_locked(&dir.join(written)) {
            // Its holder's name went with the lock file.
            return Err(Error::Locked {
                dir: dir.into(),
                by: "another process, whose `.lock` was removed".into(),
            });
        }
        file.set_len(0).map_err(io)?;
        writeln!(file, "process {} on `{}`", std::process::id(), host()).map_err(io)?;
        Ok(Self(file))
    }
}

impl Lock {
    /// Locks a file of a locked folder itself, so that the folder stays held when its lock file is removed.
    /// `None` where a lock would keep this process from writing to the file.
    ///
    /// # Errors
    /// The errors of [`Lock::take`].
    pub fn of_file(path: &Path) -> Result<Option<Self>, Error> {
        if !cfg!(unix) {
            return Ok(None);
        }
        let dir = path.parent().unwrap_or(path);
        let file = files::update(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => {
                Err(Error::Locked { dir: dir.into(), by: "another process".into() })
            }
            Err(TryLockError::Error(source)) => {
                Err(Error::Unlockable { dir: dir.into(), kind: file_system(dir), source })
            }
        }
    }
}

impl Drop for Lock {
    /// Unlocks by name: a child process that is being started at this moment may still hold the file open.
    fn drop(&mut self) {
        let _ = self.0.unlock(); // closing it would unlock it too
    }
}

/// Returns true if a process holds a folder's lock now, or that of its file of the name `written`, as far as
/// this machine can detect.
pub fn is_held(dir: &Path, written: &str) -> bool {
    is_locked(&dir.join(LOCK)) || is_locked(&dir.join(written))
}

fn is_locked(path: &Path) -> bool {
    let file = files::open_own(path);
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// The holder of a lock file and the time of locking, in words.
fn holder(file: &mut File) -> String {
    let mut holder = String::new();
    let _ = file.take(MOST).read_to_string(&mut holder); // a holder without a name is still one
    let who = match holder.trim() {
        "" => "another process",
        holder => holder,
    };
    let since = file.metadata().and_then(|meta| meta.modified()).ok().and_then(utc);
    since.map_or_else(|| who.to_owned(), |since| format!("{who}, since {since}"))
}

/// This machine's name.
pub fn host() -> String {
    let named = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let named =
        named.or_else(|| std::env::var("HOSTNAME").ok()).or_else(|| std::env::var("COMPUTERNAME").ok());
    named
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".into())
}

/// The kind of file system that a folder is on, where the platform provides it: `nfs4`, `ext4`.
fn file_system(dir: &Path) -> String {
    let dir = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.into());
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let of_line = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        let (place, kind) = (PathBuf::from(fields.next()?), fields.next()?.to_owned());
        dir.starts_with(&place).then_some((place.components().count(), kind))
    };
    // Of mounts at the same place, the last one is seen.
    let found = mounts.lines().filter_map(of_line).max_by_key(|(depth, _)| *depth);
    found.map_or_else(|| "unknown".into(), |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_file_system_without_locks_is_told_and_loses_nothing() {
        // ENOLCK (NFS without its lock daemon), ENOSYS (Lustre without `flock`), EOPNOTSUPP.
        for code in [37, 38, 95] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("journal.jsonl"), "a verdict\n").unwrap();
            std::fs::write(dir.path().join(LOCK), "process 7 on `node`\n").unwrap();
            let refuse = |_: &File| Err(TryLockError::Error(io::Error::from_raw_os_error(code)));
            let error = Lock::take_by(dir.path(), "journal.jsonl", refuse).unwrap_err();
            assert!(
                matches!(&error, Error::Unlockable { source, .. } if source.raw_os_error() == Some(code))
            );
            let said = error.to_string();
            assert!(said.contains("cannot be locked") && said.contains("on another disk"), "{said}");
            let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
            assert_eq!(read("journal.jsonl"), "a verdict\n");
            assert_eq!(read(LOCK), "process 7 on `node`\n", "who else may hold it still stands there");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_stays_held_when_its_lock_file_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let journal = dir.path().join("journal.jsonl");
        let take = || Lock::take(dir.path(), "journal.jsonl");
        let lock = take().unwrap();
        let guard = Lock::of_file(&journal).unwrap();
        assert!(matches!(take(), Err(Error::Locked { .. })));
        std::fs::remove_file(dir.path().join(LOCK)).unwrap();
        for _ in 0..2 {
            let error = take().unwrap_err().to_string();
            assert!(error.contains("another process, whose `.lock` was removed"), "{error}");
        }
        assert!(is_held(dir.path(), "journal.jsonl"));
        drop((lock, guard));
        take().unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn file_systems_have_names() {
        assert_eq!(file_system(Path::new("/proc/self")), "proc");
        assert_ne!(file_system(&std::env::temp_dir()), "unknown");
    }
}
