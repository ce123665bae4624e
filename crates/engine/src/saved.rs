//! Keys and values of prefixes in files, with the recurrent states after them, so that the next process does
//! not compute them again. A file is for one prefix, one model, one build and one set of options: its name is
//! a hash of all four. It handles no requests or steps.

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread::{self, JoinHandle},
    time::SystemTime,
};

use sha2::{Digest, Sha256};

use tribunal_core::digest;

use crate::{files, model::BLOCK};

use super::radix::{Prefix, Variant};

/// The folder of saved prefixes, and their model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedPrefixes {
    pub folder: PathBuf,
    /// The hashes of the files of the weights and of all adapters, in order.
    pub model: String,
    /// The limit for all files of the folder; the least recently used are removed.
    pub max_bytes: u64,
}

/// The files of one engine's prefixes.
#[derive(Clone, Debug)]
pub struct PrefixFiles {
    folder: PathBuf,
    /// Everything that the keys and values of a prefix depend on besides the prefix.
    engine: String,
    max_bytes: u64,
}

/// The end of the files' names.
const EXTENSION: &str = "kv";

/// Bytes of the hash at the start of a file.
const HASH: usize = 32;

impl PrefixFiles {
    /// Files for an engine with this signature on these CPU kernels.
    pub fn new(saved: &SavedPrefixes, signature: &str, kernels: &str) -> Self {
        // Another build may compute other bits, or lay blocks out in another way.
        let engine = [env!("ENGINE_SOURCES"), &saved.model, signature, kernels].join("\n");
        Self { folder: saved.folder.clone(), engine, max_bytes: saved.max_bytes }
    }

    fn path(&self, prefix: &Prefix) -> PathBuf {
        let mut hash = Sha256::new();
        hash.update(&self.engine);
        let Variant { adapter, n_layers } = prefix.variant;
        hash.update(format!("\n{adapter:?} {n_layers:?}\n"));
        for id in &prefix.tokens {
            hash.update(id.to_le_bytes());
        }
        self.folder.join(digest::hex(&hash.finalize())).with_extension(EXTENSION)
    }

    /// The reason why prefixes, or some of them, are not read: a file's hash does not identify its writer, so
    /// only files that the user alone can have written are read.
    pub fn remark(&self) -> Option<String> {
        let Err(error) = files::check_private(&self.folder) else {
            let files = files_in(&self.folder).unwrap_or_default();
            return files.iter().find_map(|(path, _)| remark(path, &files::check_private(path).err()?));
        };
        remark(&self.folder, &error)
    }

    /// The saved keys and values of a prefix, so many bytes. `None` where the file is missing or damaged.
    ///
    /// # Errors
    /// A file or folder that the user alone cannot have written, or that cannot be read.
    pub fn read(&self, prefix: &Prefix, n_bytes: usize) -> io::Result<Option<Vec<u8>>> {
        let path = self.path(prefix);
        let file = match files::check_private(&self.folder).and_then(|()| files::open_private(&path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(&file, (HASH + n_bytes + 1) as u64), &mut bytes)?;
        let is_whole = bytes.len() == HASH + n_bytes && bytes[..HASH] == hash(&path, &bytes[HASH..]);
        // If its time cannot be set, the file is only removed earlier than others.
        let _ = file.set_modified(SystemTime::now());
        Ok(is_whole.then(|| bytes.split_off(HASH)))
    }

    /// Saves a prefix. After a failed write, the next process computes it again.
    ///
    /// # Errors
    /// A folder that is not the user's alone, or cannot be written to.
    pub fn write(&self, prefix: &Prefix, bytes: &[u8]) -> Result<(), files::Error> {
        if (HASH + bytes.len()) as u64 > self.max_bytes {
            return Ok(());
        }
        let path = self.path(prefix);
        let failed = |source| files::Error { action: "write", path: path.clone(), source };
        files::make_private(&self.folder).map_err(failed)?;
        files::discard_abandoned(&self.folder, is_name);
        files::replace(&path, |file| {
            file.write_all(&hash(&path, bytes))?;
            file.write_all(bytes)
        })?;
        remove_oldest(&self.folder, self.max_bytes).map_err(failed)
    }
}

/// The prefixes of one engine that are saved as soon as they are computed.
pub struct Saving {
    files: PrefixFiles,
    /// Bytes of a block's keys and values.
    block_bytes: usize,
    /// Bytes of a recurrent state; 0 for a model without.
    state_bytes: usize,
    missing: Vec<Prefix>,
    writing: Vec<JoinHandle<()>>,
}

impl Saving {
    pub fn new(files: PrefixFiles, block_bytes: usize, state_bytes: usize) -> Self {
        Self { files, block_bytes, state_bytes, missing: Vec::new(), writing: Vec::new() }
    }

    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// The keys and values of a prefix, block after block, and the state after it; a prefix without a file is
    /// saved later, unless its file may not be read.
    pub fn find(&mut self, prefix: &Prefix) -> Option<Vec<u8>> {
        let n_bytes = prefix.tokens.len() / BLOCK * self.block_bytes + self.state_bytes;
        let found = self.files.read(prefix, n_bytes).ok()?;
        if found.is_none() && !self.missing.contains(prefix) {
            self.missing.push(prefix.clone());
        }
        found
    }

    /// Saves those of the missing prefixes that `computed` has. Another thread writes the files.
    pub fn save(&mut self, mut computed: impl FnMut(&Prefix) -> Option<Vec<u8>>) {
        let Self { files, writing, .. } = self;
        self.missing.retain(|prefix| {
            let Some(bytes) = computed(prefix) else { return true };
            let (files, prefix) = (files.clone(), prefix.clone());
            writing.push(thread::spawn(move || {
                // After a failed write, the next process computes it again.
                let _ = files.write(&prefix, &bytes);
            }));
            false
        });
    }
}

/// Waits for the files.
impl Drop for Saving {
    fn drop(&mut self) {
        for thread in self.writing.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The hash of a file's name and its content.
fn hash(path: &Path, bytes: &[u8]) -> [u8; HASH] {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    Sha256::new().chain_update(name).chain_update(bytes).finalize().into()
}

fn remark(path: &Path, error: &io::Error) -> Option<String> {
    let hint = "`chmod go-w` makes your own private; delete what another user made";
    let path = path.display();
    (error.kind() != io::ErrorKind::NotFound)
        .then(|| format!("saved prefixes are not read from `{path}`: {error}\nhint: {hint}"))
}

/// Returns true if a file's name is that of a prefix: a hash.
fn is_name(name: &str) -> bool {
    let hash = name.strip_suffix(EXTENSION).and_then(|name| name.strip_suffix('.'));
    hash.is_some_and(|hash| hash.len() == 2 * HASH && hash.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The prefixes' files in a folder. Another process may remove them meanwhile.
fn files_in(folder: &Path) -> io::Result<Vec<(PathBuf, fs::Metadata)>> {
    let named =
        fs::read_dir(folder)?.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_name));
    Ok(named.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?))).collect())
}

/// Removes the least recently used prefixes until all files of a folder together take at most so many bytes.
fn remove_oldest(folder: &Path, most: u64) -> io::Result<()> {
    let mut found = Vec::new();
    for (path, metadata) in files_in(folder)?.into_iter().filter(|(_, metadata)| metadata.is_file()) {
        found.push((metadata.modified()?, metadata.len(), path));
    }
    found.sort();
    let mut total: u64 = found.iter().map(|(_, n_bytes, _)| n_bytes).sum();
    for (_, n_bytes, path) in found {
        if total <= most {
            break;
        }
        let _ = fs::remove_file(path);
        total -= n_bytes;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(tokens: &[u32]) -> Prefix {
        Prefix { variant: Variant::default(), tokens: tokens.into() }
    }

    fn files(folder: &Path, model: &str, signature: &str) -> PrefixFiles {
        let saved = SavedPrefixes { folder: folder.join("prefixes"), model: model.into(), max_bytes: 1000 };
        PrefixFiles::new(&saved, signature, "avx2")
    }

    #[test]
    fn a_prefix_is_found_by_the_same_engine_alone() {
        let dir = tempfile::tempdir().unwrap();
        let own = files(dir.path(), "abc", "kv:bf16");
        assert_eq!(own.read(&prefix(&[1, 2]), 3).unwrap(), None);
        own.write(&prefix(&[1, 2]), &[7, 8, 9]).unwrap();
        assert_eq!(
            files(dir.path(), "abc", "kv:bf16").read(&prefix(&[1, 2]), 3).unwrap(),
            Some(vec![7, 8, 9])
        );
        assert_eq!(own.read(&prefix(&[1, 2, 3]), 3).unwrap(), None);
        let of_adapter = Prefix { variant: Variant { adapter: Some(0), n_layers: None }, ..prefix(&[1, 2]) };
        assert_eq!(own.read(&of_adapter, 3).unwrap(), None);
        for other in [files(dir.path(), "abd", "kv:bf16"), files(dir.path(), "abc", "kv:f32")] {
            assert_eq!(other.read(&prefix(&[1, 2]), 3).unwrap(), None);
        }
    }

    #[test]
    fn a_damaged_file_counts_as_none() {
        let dir = tempfile::tempdir().unwrap();
        let (own, known) = (files(dir.path(), "abc", ""), prefix(&[1]));
        own.write(&known, &[7; 100]).unwrap();
        let path = own.path(&known);
        let whole = fs::read(&path).unwrap();
        for wrong in [0, HASH, whole.len() - 1] {
            let mut bytes = whole.clone();
            bytes[wrong] ^= 1;
            fs::write(&path, bytes).unwrap();
            assert_eq!(own.read(&known, 100).unwrap(), None, "byte {wrong}");
        }
        for n in [0, HASH, whole.len() - 1] {
            fs::write(&path, &whole[..n]).unwrap();
            assert_eq!(own.read(&known, 100).unwrap(), None, "{n} bytes");
        }
        fs::write(&path, [&whole[..], &[0]].concat()).unwrap();
        assert_eq!(own.read(&known, 100).unwrap(), None, "a byte too many");
        // The content of another prefix under this name.
        own.write(&prefix(&[2]), &[7; 100]).unwrap();
        fs::copy(own.path(&prefix(&[2])), &path).unwrap();
        assert_eq!(own.read(&known, 100).unwrap(), None);
    }

    /// Files and folders of other users, or open to them, are neither read nor replaced.
    #[cfg(unix)]
    #[test]
    fn a_prefix_that_others_can_have_written_is_not_read() {
        use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

        let dir = tempfile::tempdir().unwrap();
        let (own, known) = (files(dir.path(), "abc", ""), prefix(&[1]));
        own.write(&known, &[7; 100]).unwrap();
        let (folder, file) = (own.folder.clone(), own.path(&known));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&file), own.remark()), (0o700, 0o600, None));
        let check = |at: &Path, reason: &str| {
            assert!(own.read(&known, 100).unwrap_err().to_string().contains(reason), "{reason}");
            let remark = own.remark().unwrap();
            assert!(remark.contains(&format!("`{}`: {reason}", at.display())), "{remark}");
            let mut saving = Saving::new(own.clone(), 100, 0);
            assert_eq!((saving.find(&known), saving.missing.len()), (None, 0));
        };
        for (path, usual) in [(&folder, 0o700), (&file, 0o600)] {
            for open in [0o020, 0o002] {
                fs::set_permissions(path, fs::Permissions::from_mode(usual | open)).unwrap();
                check(path, "other users may write to it");
            }
            fs::set_permissions(path, fs::Permissions::from_mode(usual)).unwrap();
            // Only root can give a file away.
            if chown(path, Some(65534), None).is_ok() {
                check(path, "it belongs to another user");
                chown(path, Some(0), None).unwrap();
            }
            let aside = dir.path().join("aside");
            fs::rename(path, &aside).unwrap();
            symlink(&aside, path).unwrap();
            check(path, "it is a link");
            fs::remove_file(path).unwrap();
            fs::rename(&aside, path).unwrap();
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(own.write(&prefix(&[2]), &[7; 100]).is_err());
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!((own.remark(), own.read(&known, 100).unwrap()), (None, Some(vec![7; 100])));
    }

    #[test]
    fn what_was_used_least_recently_gives_way() {
        let dir = tempfile::tempdir().unwrap();
        let own = files(dir.path(), "abc", "");
        for (i, id) in [1, 2, 3].into_iter().enumerate() {
            own.write(&prefix(&[id]), &[0; 100]).unwrap();
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(i as u64);
            fs::File::options()
                .write(true)
                .open(own.path(&prefix(&[id])))
                .unwrap()
                .set_modified(time)
                .unwrap();
        }
        let of_user = ["other.txt", "notes.kv", ".notes.kv.abc123.new"].map(|name| own.folder.join(name));
        for path in &of_user {
            fs::write(path, [0; 1000]).unwrap();
        }
        assert!(own.read(&prefix(&[1]), 100).unwrap().is_some(), "which is now the latest");
        remove_oldest(&own.folder, 2 * (100 + HASH as u64)).unwrap();
        let there = [1, 2, 3].map(|id| own.read(&prefix(&[id]), 100).unwrap().is_some());
        assert_eq!((there, of_user.iter().all(|path| path.exists())), ([true, false, true], true));
        // Processes that were killed while they wrote.
        let unfinished = [5, 6].map(|id| {
            let path = own.path(&prefix(&[id]));
            path.with_file_name(format!(".{}.abc123.new", path.file_name().unwrap().display()))
        });
        for path in &unfinished {
            fs::write(path, [7; 50]).unwrap();
        }
        own.write(&prefix(&[5]), &[0; 100]).unwrap();
        assert!(!unfinished.iter().any(|path| path.exists()) && of_user.iter().all(|path| path.exists()));
        own.write(&prefix(&[4]), &[0; 1000]).unwrap();
        assert_eq!(
            own.read(&prefix(&[4]), 1000).unwrap(),
            None,
            "a longer one than all may be is not written"
        );
    }
}
