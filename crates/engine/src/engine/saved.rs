//! Keys and values of prefixes in files, with the recurrent states after them, so that the next process does not compute
//! them again. A file is for one prefix, one model, one build and one set of options: its name is a hash of all four. It
//! knows no request and no step.

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

/// Where prefixes are saved, and for which model.
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
    /// What the keys and values of a prefix depend on besides the prefix.
    engine: String,
    max_bytes: u64,
}

/// The end of the files' names.
const EXTENSION: &str = "kv";

/// Bytes of the hash at the start of a file.
const HASH: usize = 32;

impl PrefixFiles {
    /// Files for an engine with this signature on these CPU kernels.
    #[must_use]
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

    /// What was saved of a prefix, so many bytes. `None` where there is no file, or one that is damaged.
    #[must_use]
    pub fn read(&self, prefix: &Prefix, n_bytes: usize) -> Option<Vec<u8>> {
        let path = self.path(prefix);
        let mut bytes = Vec::new();
        let file = files::open_own(&path).ok()?;
        io::Read::read_to_end(&mut io::Read::take(&file, (HASH + n_bytes + 1) as u64), &mut bytes).ok()?;
        let is_whole = bytes.len() == HASH + n_bytes && bytes[..HASH] == hash(&path, &bytes[HASH..]);
        // One whose time cannot be set is only removed earlier than others.
        let _ = file.set_modified(SystemTime::now());
        is_whole.then(|| bytes.split_off(HASH))
    }

    /// Saves a prefix. Where it cannot be, the next process computes it again.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub fn write(&self, prefix: &Prefix, bytes: &[u8]) -> Result<(), files::Error> {
        if (HASH + bytes.len()) as u64 > self.max_bytes {
            return Ok(());
        }
        let path = self.path(prefix);
        let failed = |source| files::Error { action: "write", path: path.clone(), source };
        fs::create_dir_all(&self.folder).map_err(failed)?;
        files::discard_abandoned(&path);
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
    #[must_use]
    pub fn new(files: PrefixFiles, block_bytes: usize, state_bytes: usize) -> Self {
        Self { files, block_bytes, state_bytes, missing: Vec::new(), writing: Vec::new() }
    }

    #[must_use]
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// The keys and values of a prefix, block after block, and the state after it; one without a file is saved later.
    pub fn find(&mut self, prefix: &Prefix) -> Option<Vec<u8>> {
        let n_bytes = prefix.tokens.len() / BLOCK * self.block_bytes + self.state_bytes;
        let found = self.files.read(prefix, n_bytes);
        if found.is_none() && !self.missing.contains(prefix) {
            self.missing.push(prefix.clone());
        }
        found
    }

    /// Saves what `computed` has of the missing prefixes by now. Another thread writes the files.
    pub fn save(&mut self, mut computed: impl FnMut(&Prefix) -> Option<Vec<u8>>) {
        let Self { files, writing, .. } = self;
        self.missing.retain(|prefix| {
            let Some(bytes) = computed(prefix) else { return true };
            let (files, prefix) = (files.clone(), prefix.clone());
            writing.push(thread::spawn(move || {
                // Where it cannot be written, the next process computes it again.
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

/// Removes the least recently used prefixes until all files of a folder together take at most so many bytes.
fn remove_oldest(folder: &Path, most: u64) -> io::Result<()> {
    let mut found = Vec::new();
    // Another process may remove them meanwhile.
    for entry in fs::read_dir(folder)?.flatten() {
        let (path, Ok(there)) = (entry.path(), entry.metadata()) else { continue };
        if there.is_file() && path.extension().is_some_and(|extension| extension == EXTENSION) {
            found.push((there.modified()?, there.len(), path));
        }
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
        assert_eq!(own.read(&prefix(&[1, 2]), 3), None);
        own.write(&prefix(&[1, 2]), &[7, 8, 9]).unwrap();
        assert_eq!(files(dir.path(), "abc", "kv:bf16").read(&prefix(&[1, 2]), 3), Some(vec![7, 8, 9]));
        assert_eq!(own.read(&prefix(&[1, 2, 3]), 3), None);
        let of_adapter = Prefix { variant: Variant { adapter: Some(0), n_layers: None }, ..prefix(&[1, 2]) };
        assert_eq!(own.read(&of_adapter, 3), None);
        for other in [files(dir.path(), "abd", "kv:bf16"), files(dir.path(), "abc", "kv:f32")] {
            assert_eq!(other.read(&prefix(&[1, 2]), 3), None);
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
            assert_eq!(own.read(&known, 100), None, "byte {wrong}");
        }
        for n in [0, HASH, whole.len() - 1] {
            fs::write(&path, &whole[..n]).unwrap();
            assert_eq!(own.read(&known, 100), None, "{n} bytes");
        }
        fs::write(&path, [&whole[..], &[0]].concat()).unwrap();
        assert_eq!(own.read(&known, 100), None, "a byte too many");
        // The content of another prefix under this name.
        own.write(&prefix(&[2]), &[7; 100]).unwrap();
        fs::copy(own.path(&prefix(&[2])), &path).unwrap();
        assert_eq!(own.read(&known, 100), None);
        // A process that was killed while it wrote.
        let name = path.file_name().unwrap().to_str().unwrap();
        let unfinished = path.with_file_name(format!(".{name}.abc123.new"));
        fs::write(&unfinished, [7; 50]).unwrap();
        own.write(&known, &[7; 100]).unwrap();
        assert_eq!(own.read(&known, 100), Some(vec![7; 100]));
        assert!(!unfinished.exists());
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
        fs::write(own.folder.join("other.txt"), [0; 1000]).unwrap();
        assert!(own.read(&prefix(&[1]), 100).is_some(), "which is now the latest");
        remove_oldest(&own.folder, 2 * (100 + HASH as u64)).unwrap();
        let there = [1, 2, 3].map(|id| own.read(&prefix(&[id]), 100).is_some());
        assert_eq!((there, own.folder.join("other.txt").exists()), ([true, false, true], true));
        own.write(&prefix(&[4]), &[0; 1000]).unwrap();
        assert_eq!(own.read(&prefix(&[4]), 1000), None, "a longer one than all may be is not written");
    }
}
