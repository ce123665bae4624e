//! Models in the cache of the Hugging Face hub, which its own tools fill: `models--OWNER--NAME` with
//! `refs/REVISION`, `snapshots/COMMIT` and `blobs`, into which the files of a snapshot are links. It fetches
//! and changes nothing.
//!
//! Source: `huggingface/huggingface_hub`, `docs/source/en/guides/manage-cache.md`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{Card, Error, Identity, Local, Result, Source, choice::choose, home_folder, is_there, shards};
use crate::{files, gguf};

/// The most bytes of a revision's file, which holds a commit.
const MAX_REF_BYTES: u64 = 256;

/// The hub's cache on this machine: `$HF_HUB_CACHE`, else `hub` in `$HF_HOME`, else in `huggingface` in the
/// user's cache folder (`$XDG_CACHE_HOME` or `~/.cache`, on every platform). `None` where there is no home
/// folder.
pub fn hub_cache() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let of_user = || set("XDG_CACHE_HOME").or_else(|| Some(home_folder()?.join(".cache")));
    set("HF_HUB_CACHE")
        .or_else(|| Some(set("HF_HOME")?.join("hub")))
        .or_else(|| Some(of_user()?.join("huggingface/hub")))
}

impl Card {
    /// The repository and the revision that `hf:OWNER/NAME@REVISION` names; `None` for a card of this
    /// program's own.
    fn of_hub(&self) -> Option<(&str, &str)> {
        match self.sources.as_slice() {
            [Source::Hub { repository, revision, .. }] if self.name.starts_with("hf:") => {
                Some((repository, revision.digits().unwrap_or("main")))
            }
            _ => None,
        }
    }

    /// The model's files in a cache of the hub; `None` for a card of another kind, and where the cache does
    /// not have the repository at this revision. Every file is hashed.
    ///
    /// # Errors
    /// [`Error::Cached`] for a snapshot without some of its files, or with a link that leads out of the
    /// cache; [`Error::Choice`] where the name does not say which of several GGUF models is meant;
    /// [`Error::Io`].
    pub fn cached_in(&self, cache: &Path) -> Result<Option<Local>> {
        let Some((repository, revision)) = self.of_hub() else { return Ok(None) };
        let folder = cache.join(format!("models--{}", repository.replace('/', "--")));
        if !is_there(&folder)? {
            return Ok(None);
        }
        let Some(commit) = commit(&folder, revision)? else { return Ok(None) };
        let snapshot = folder.join("snapshots").join(&commit);
        if !is_there(&snapshot)? {
            return Ok(None);
        }
        let root = fs::canonicalize(cache).map_err(Error::io("read", cache))?;
        let paths = self.linked(&root, &snapshot, &snapshot)?;
        let model = self.gguf_model(&snapshot, paths)?;
        // Before its files are hashed, which takes minutes where they are large.
        if model.is_none() {
            self.check_complete(&snapshot)?;
        }
        let identity = Identity::from_path(model.as_deref().unwrap_or(&snapshot))?;
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

    fn broken(&self, snapshot: &Path, complaint: String) -> Error {
        Error::Cached { name: self.name.clone(), snapshot: snapshot.into(), problem: complaint }
    }

    /// The files of a snapshot in a folder and its subfolders. Links lead to files of the same cache, whose
    /// folder is `root`.
    fn linked(&self, root: &Path, snapshot: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder).map_err(Error::io("read", folder))? {
            let entry = entry.map_err(Error::io("read", folder))?;
            let path = entry.path();
            let name = relative(snapshot, &path);
            let Ok(target) = fs::canonicalize(&path) else {
                return Err(self.broken(snapshot, format!("`{name}` is a link to a file that is not there")));
            };
            if !target.starts_with(root) {
                return Err(self.broken(snapshot, format!("`{name}` is a link out of the cache")));
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                paths.extend(self.linked(root, snapshot, &path)?);
            } else {
                paths.push(path);
            }
        }
        Ok(paths)
    }

    /// The GGUF model of a snapshot, which may lie in a subfolder; `None` where it has safetensors or none,
    /// and the name does not ask for one.
    fn gguf_model(&self, snapshot: &Path, paths: Vec<PathBuf>) -> Result<Option<PathBuf>> {
        let quant = self.quant.as_deref();
        let has_safetensors =
            paths.iter().any(|path| path.extension().is_some_and(|end| end == "safetensors"));
        let models = if quant.is_none() && has_safetensors { Vec::new() } else { gguf::model_files(paths) };
        let names: Vec<String> = models.iter().map(|path| relative(snapshot, path)).collect();
        if names.is_empty() && quant.is_none() {
            return Ok(None);
        }
        let choice = choose(&names, quant);
        let name = choice.map_err(|reason| Error::Choice { name: self.name.clone(), reason })?;
        Ok(Some(snapshot.join(name)))
    }

    /// Checks that a snapshot has all of a model's files; an interrupted download leaves some of them.
    fn check_complete(&self, snapshot: &Path) -> Result<()> {
        let weights = shards::weight_files(snapshot);
        let needed = ["config.json", "tokenizer.json"].map(str::to_owned).into_iter().chain(weights);
        match needed.into_iter().find(|name| !snapshot.join(name).is_file()) {
            Some(name) => Err(self.broken(snapshot, format!("`{name}` is missing"))),
            None => Ok(()),
        }
    }
}

/// A path's name within a snapshot.
fn relative(snapshot: &Path, path: &Path) -> String {
    path.strip_prefix(snapshot).unwrap_or(path).to_string_lossy().into_owned()
}

/// The commit of a revision: the revision itself, or the one that its file names.
fn commit(folder: &Path, revision: &str) -> Result<Option<String>> {
    if is_there(&folder.join("snapshots").join(revision))? {
        return Ok(Some(revision.to_owned()));
    }
    let file = folder.join("refs").join(revision);
    let named = match files::read_at_most(&file, MAX_REF_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        named => named.map_err(Error::io("read", &file))?,
    };
    let commit = String::from_utf8_lossy(&named).trim().to_owned();
    let is_plain = !commit.is_empty() && commit.bytes().all(|b| b.is_ascii_alphanumeric());
    Ok(Some(commit).filter(|_| is_plain))
}

#[cfg(test)]
mod tests;
