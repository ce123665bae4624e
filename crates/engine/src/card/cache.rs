//! Models in the cache of the Hugging Face hub, which its own tools fill: `models--OWNER--NAME` with `refs/REVISION`,
//! `snapshots/COMMIT` and `blobs`, into which the files of a snapshot are links. It fetches and changes nothing.
//!
//! Source: `huggingface/huggingface_hub`, `docs/source/en/guides/manage-cache.md`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{Card, Error, Identity, Local, Source, shards};
use crate::{files, gguf};

/// A revision's file holds a commit; more bytes are something else.
const MAX_REF_BYTES: u64 = 256;

/// The hub's cache on this machine: `$HF_HUB_CACHE`, else `hub` in `$HF_HOME`, else in `huggingface` in the user's cache
/// folder (`$XDG_CACHE_HOME` or `~/.cache`, on every platform). `None` where there is no home folder.
#[must_use]
pub fn hub_cache() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let of_user = || set("XDG_CACHE_HOME").or_else(|| Some(dirs::home_dir()?.join(".cache")));
    set("HF_HUB_CACHE")
        .or_else(|| Some(set("HF_HOME")?.join("hub")))
        .or_else(|| Some(of_user()?.join("huggingface/hub")))
}

impl Card {
    /// The repository and the revision that `hf:OWNER/NAME@REVISION` names; `None` for a card of this program's own.
    fn of_hub(&self) -> Option<(&str, &str)> {
        match self.sources.as_slice() {
            [Source::Hub { repository, revision, .. }] if self.name.starts_with("hf:") => {
                Some((repository, revision.digits().unwrap_or("main")))
            }
            _ => None,
        }
    }

    /// The model's files in a cache of the hub; `None` for a card of another kind, and where the cache does not have the
    /// repository at this revision. Every file is hashed.
    ///
    /// # Errors
    /// [`Error::Cached`] for a snapshot without some of its files, or with a link that leads out of the cache;
    /// [`Error::Io`].
    pub fn cached_in(&self, cache: &Path) -> Result<Option<Local>, Error> {
        let Some((repository, revision)) = self.of_hub() else { return Ok(None) };
        let folder = cache.join(format!("models--{}", repository.replace('/', "--")));
        let Some(commit) = commit(&folder, revision) else { return Ok(None) };
        let snapshot = folder.join("snapshots").join(&commit);
        if !snapshot.is_dir() {
            return Ok(None);
        }
        self.check_links(cache, &snapshot)?;
        // Before its files are hashed, which takes minutes where they are large.
        if gguf::only_model(&snapshot)?.is_none() {
            self.check_complete(&snapshot)?;
        }
        let identity = Identity::of(&snapshot)?;
        Ok(Some(Local {
            card: self.clone(),
            folder: snapshot.clone(),
            tokenizer: identity.weights.is_dir().then(|| snapshot.join(&self.tokenizer)),
            template: self.template(),
            sha256: identity.sha256,
            weights: identity.weights,
            is_pinned: false,
            revision: Some(commit),
        }))
    }

    fn broken(&self, snapshot: &Path, what: String) -> Error {
        Error::Cached { name: self.name.clone(), snapshot: snapshot.into(), what }
    }

    /// Links of a snapshot lead to files of the same cache.
    fn check_links(&self, cache: &Path, snapshot: &Path) -> Result<(), Error> {
        let root = fs::canonicalize(cache).map_err(Error::io("read", cache))?;
        let entries = fs::read_dir(snapshot).map_err(Error::io("read", snapshot))?;
        for entry in entries {
            let path = entry.map_err(Error::io("read", snapshot))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Ok(target) = fs::canonicalize(&path) else {
                return Err(self.broken(snapshot, format!("`{name}` is a link to a file that is not there")));
            };
            if !target.starts_with(&root) {
                return Err(self.broken(snapshot, format!("`{name}` is a link out of the cache")));
            }
        }
        Ok(())
    }

    /// A download that was broken off has some of a model's files.
    fn check_complete(&self, snapshot: &Path) -> Result<(), Error> {
        let weights = shards::weight_files(snapshot);
        let needed = ["config.json", "tokenizer.json"].map(str::to_owned).into_iter().chain(weights);
        match needed.into_iter().find(|name| !snapshot.join(name).is_file()) {
            Some(name) => Err(self.broken(snapshot, format!("`{name}` is missing"))),
            None => Ok(()),
        }
    }
}

/// The commit of a revision: the one that it is, or the one that its file names.
fn commit(folder: &Path, revision: &str) -> Option<String> {
    if folder.join("snapshots").join(revision).is_dir() {
        return Some(revision.to_owned());
    }
    let named = files::read_at_most(&folder.join("refs").join(revision), MAX_REF_BYTES).ok()?;
    let commit = String::from_utf8(named).ok()?.trim().to_owned();
    let is_plain = !commit.is_empty() && commit.bytes().all(|b| b.is_ascii_alphanumeric());
    is_plain.then_some(commit)
}

#[cfg(test)]
mod tests;
