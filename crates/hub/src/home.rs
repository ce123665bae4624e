//! Locations of models on this machine: the folder of a card, the record of a pull into it, and the paths
//! that the engine loads. It fetches nothing.

use std::{
    collections::BTreeMap,
    fs,
    path::{Component, Path, PathBuf},
};

use super::{
    Card, Error, Pin, Result, cache::hub_cache, check, digest, hashes::Hashes, is_there, receipt::Receipt,
    shards,
};
use crate::{files::Stamp, gguf};

/// Files of a safetensors folder that are read beside the safetensors themselves.
const READ: [&str; 7] = [
    "config.json",
    "generation_config.json",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    shards::METRIC,
];

/// The folder of all models: `$TRIBUNAL_HOME`, or `tribunal` in the platform's cache folder
/// (`~/.cache` on Linux, `~/Library/Caches` on macOS, `%LOCALAPPDATA%` on Windows).
///
/// # Errors
/// [`Error::Homeless`] when the platform names no cache folder.
pub fn home() -> Result<PathBuf> {
    match std::env::var_os("TRIBUNAL_HOME").filter(|value| !value.is_empty()) {
        Some(folder) => Ok(folder.into()),
        // A relative one would be another folder in every working directory.
        None => match dirs::cache_dir().filter(|cache| cache.is_absolute()) {
            Some(cache) => Ok(cache.join("tribunal")),
            None => Err(Error::Homeless),
        },
    }
}

/// A model whose files are on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Local {
    pub card: Card,
    pub folder: PathBuf,
    /// A GGUF file, the first of a model in parts, or the folder that holds `config.json` and the
    /// safetensors.
    pub weights: PathBuf,
    /// A `tokenizer.json`; `None` when the GGUF file holds the tokenizer.
    pub tokenizer: Option<PathBuf>,
    pub template: Template,
    /// The hash of the GGUF file on disk. For a model in parts, the hash of their `hash  number` lines
    /// (`00001-of-00003.gguf`) in order; for a safetensors folder, that of the `hash  path` lines of all
    /// files that are read (weights, configuration, tokenizer, chat template), sorted by path.
    pub sha256: String,
    /// True if the card pins the weights, rather than only this machine's record.
    pub is_pinned: bool,
    /// The commit the files came from, where they came from a hub repository.
    pub revision: Option<String>,
}

/// Location of a model's chat template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Template {
    /// In the model's own files: GGUF metadata, `chat_template.jinja` or `tokenizer_config.json`.
    Model,
    /// On the card.
    Text(&'static str),
}

impl Local {
    /// The first eight digits of [`Local::sha256`]: the signature's field.
    pub fn fingerprint(&self) -> String {
        short(&self.sha256)
    }
}

/// How much of a model is on this machine, judging by file sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Absent,
    /// An unfinished pull.
    Partial,
    /// All files exist, but no pull or verify has hashed them.
    Unchecked,
    /// A pull or verify hashed all files, and their sizes have not changed since.
    Pulled,
}

impl Card {
    /// The folder of this card's files under `home`.
    pub fn folder(&self, home: &Path) -> PathBuf {
        home.join(self.name.replace([':', '/', '@'], "--"))
    }

    /// The model's files on this machine: the pulled ones, else, for a repository of the hub, those in the
    /// hub's own cache.
    ///
    /// # Errors
    /// [`Error::NotPulled`] when a file is missing, [`Error::NotCached`] for one of a repository;
    /// [`Error::Homeless`]; those of [`Card::cached_in`].
    pub fn local(&self) -> Result<Local> {
        self.local_or_cached(&home()?, hub_cache().as_deref())
    }

    /// [`Card::local`] with a given home and a given cache of the hub.
    ///
    /// # Errors
    /// Those of [`Card::local`].
    pub fn local_or_cached(&self, home: &Path, cache: Option<&Path>) -> Result<Local> {
        match (self.local_in(home), cache.filter(|_| self.name.starts_with("hf:"))) {
            (Err(Error::NotPulled { name, folder }), Some(cache)) => {
                let not_cached = || Error::NotCached { name, folder, cache: cache.into() };
                self.cached_in(cache)?.ok_or_else(not_cached)
            }
            (pulled, _) => pulled,
        }
    }

    /// The pulled files under a given home. Every file is hashed and compared with the card and the record.
    ///
    /// # Errors
    /// [`Error::NotPulled`]; [`Error::Changed`] when a file is not the one that was pulled; [`Error::Io`]
    /// when one cannot be read.
    pub fn local_in(&self, home: &Path) -> Result<Local> {
        let folder = self.folder(home);
        if !is_there(&folder)? || !matches!(self.state_in(home), State::Unchecked | State::Pulled) {
            return Err(Error::NotPulled { name: self.name.clone(), folder });
        }
        let receipt = Receipt::read(&folder);
        if let (Some(_), Some(receipt)) = (self.quant.as_ref().filter(|_| self.is_listed()), &receipt) {
            return self.with_files(receipt).local_in(home);
        }
        let hashes = Hashes::in_home(home);
        let checked = self.check_files(&folder, receipt.as_ref(), &hashes)?;
        let sha256 = |name: &str| match checked.get(name) {
            Some(sha256) => Ok(sha256.clone()),
            None => hashes.sha256(&folder.join(name)),
        };
        let names = self.weight_names();
        let weights = if self.is_folder() { folder.clone() } else { folder.join(&names[0]) };
        let part = |name: &String| Ok((part_name(Path::new(name)), sha256(name)?));
        Ok(Local {
            card: self.clone(),
            sha256: if self.is_folder() {
                Identity::list_hash(&files_read(&folder, sha256)?)
            } else {
                hash_of(&names.iter().map(part).collect::<Result<Vec<_>>>()?)
            },
            weights,
            tokenizer: (self.tokenizer != "model").then(|| folder.join(&self.tokenizer)),
            template: self.template(),
            is_pinned: self.weight_pins().is_some(),
            revision: receipt.and_then(|r| r.revision),
            folder,
        })
    }

    /// The card of a GGUF model with the files that a pull recorded.
    fn with_files(&self, receipt: &Receipt) -> Self {
        let file = |path: &String| super::File { path: path.clone(), size: None, sha256: Pin::Unpinned };
        let files: Vec<super::File> = receipt.files.iter().map(|received| file(&received.path)).collect();
        let weights = files.iter().map(|file| file.path.clone()).min().unwrap_or_default();
        Self { weights, files, ..self.clone() }
    }

    /// Compares every file with the card's hash, or else with the one recorded by the pull, and returns the
    /// hashes by path.
    fn check_files(
        &self,
        folder: &Path,
        receipt: Option<&Receipt>,
        hashes: &Hashes,
    ) -> Result<BTreeMap<String, String>> {
        let mut checked = BTreeMap::new();
        for (name, expected, _) in check::expectations(self, receipt) {
            let Some(expected) = expected else { continue };
            let path = folder.join(&name);
            let actual = hashes.sha256(&path)?;
            if actual != expected {
                return Err(Error::Changed { name: self.name.clone(), path, expected, actual });
            }
            checked.insert(name, actual);
        }
        Ok(checked)
    }

    /// How much of the model is under `home`, without reading its files.
    pub fn state_in(&self, home: &Path) -> State {
        let folder = self.folder(home);
        if Receipt::read(&folder).is_some_and(|receipt| receipt.is_intact(&folder)) {
            return State::Pulled;
        }
        let is_there = |f: &super::File| {
            fs::metadata(folder.join(&f.path)).is_ok_and(|m| f.size.is_none_or(|size| size == m.len()))
        };
        // The names of a model's safetensors are only in the record.
        if !self.is_listed() && self.files.iter().all(is_there) {
            return State::Unchecked;
        }
        // A pull that received nothing leaves only its lock behind.
        let is_of_a_file =
            |entry: std::io::Result<fs::DirEntry>| entry.is_ok_and(|e| e.file_name() != ".lock");
        let has_bytes = fs::read_dir(&folder).is_ok_and(|mut entries| entries.any(is_of_a_file));
        if has_bytes { State::Partial } else { State::Absent }
    }
}

/// The first eight digits of [`Identity::sha256`].
///
/// # Errors
/// [`Error::Io`].
pub fn fingerprint(path: &Path) -> Result<String> {
    Ok(Identity::from_path(path)?.fingerprint())
}

/// The identity of a model by its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The path that the engine loads: a GGUF file, the first of a model in parts, or a safetensors folder.
    pub weights: PathBuf,
    /// The hash defined in [`Local::sha256`].
    pub sha256: String,
    /// Every file that is read, with its SHA-256; the path is relative to the folder, and a part is named by
    /// its number (`00001-of-00003.gguf`).
    pub files: Vec<(String, String)>,
    /// Stamps of the hashed files, in their order, by which a file replaced before loading is detected.
    pub stamps: Vec<Stamp>,
}

impl Identity {
    /// Hashes a GGUF file, all parts of a model given by any one of them, or the files of a safetensors
    /// folder that are read. A folder with one GGUF model stands for that model.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Gguf`] names parts that are missing, or the models of a folder that has
    /// several.
    pub fn from_path(path: &Path) -> Result<Self> {
        let hashes = hashes();
        let file = if path.is_dir() { gguf::only_model(path)? } else { Some(path.into()) };
        let mut stamps = Vec::new();
        let mut hashed = |path: &Path| {
            let (sha256, stamp) = hashes.stamped(path)?;
            stamps.push(stamp);
            Ok(sha256)
        };
        let Some(file) = file else {
            let files = files_read(path, |name| hashed(&path.join(name)))?;
            return Ok(Self { weights: path.into(), sha256: Identity::list_hash(&files), files, stamps });
        };
        let parts = gguf::files(&file)?;
        let part = |path: &PathBuf| Ok((part_name(path), hashed(path)?));
        let files = parts.iter().map(part).collect::<Result<Vec<_>>>()?;
        let weights = parts.into_iter().next().unwrap_or(file);
        Ok(Self { weights, sha256: hash_of(&files), files, stamps })
    }

    /// The model's name by its files: the folder of safetensors, or the GGUF file without its extension and
    /// part number; `None` for a path without a name (`.`).
    pub fn name(&self) -> Option<String> {
        if self.weights.is_dir() {
            return self.weights.file_name().map(|name| name.to_string_lossy().into_owned());
        }
        gguf::stem(&self.weights)
    }

    /// Hashes some files of a folder; missing ones are left out.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn from_files(dir: &Path, names: &[&str]) -> Result<Self> {
        let hashes = hashes();
        let (mut files, mut stamps) = (Vec::new(), Vec::new());
        for name in names.iter().filter(|name| dir.join(name).is_file()) {
            let (sha256, stamp) = hashes.stamped(&dir.join(name))?;
            files.push(((*name).to_owned(), sha256));
            stamps.push(stamp);
        }
        Ok(Self { weights: dir.into(), sha256: Identity::list_hash(&files), files, stamps })
    }

    /// The SHA-256 of a model's files, given with their own hashes.
    pub fn list_hash(files: &[(String, String)]) -> String {
        let lines: String = files.iter().map(|(name, sha256)| format!("{sha256}  {name}\n")).collect();
        digest::sha256_of(lines.as_bytes())
    }

    /// The first eight digits: the signature's field.
    pub fn fingerprint(&self) -> String {
        short(&self.sha256)
    }

    /// The card of this model: one that pins these weights, or one that was pulled as these files. So a model
    /// has one identity whether a card or a path names it.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn card(&self) -> Result<Option<Card>> {
        let home = home().ok();
        Ok(super::all()?.into_iter().find(|card| self.is_of(card, home.as_deref())))
    }

    /// Returns true if the card pins these weights, or was pulled as these files.
    pub fn is_of(&self, card: &Card, home: Option<&Path>) -> bool {
        let hashes = || self.files.iter().map(|(_, sha256)| sha256.as_str());
        let is_pinned = card.weight_pins().is_some_and(|pins| hashes().eq(pins));
        is_pinned || home.is_some_and(|home| self.was_pulled(card, home))
    }

    /// Returns true if the record of the card's pull names exactly these files.
    fn was_pulled(&self, card: &Card, home: &Path) -> bool {
        if !card.is_folder() {
            return false;
        }
        let Some(receipt) = Receipt::read(&card.folder(home)) else { return false };
        let of = |name: &String| receipt.files.iter().find(|f| f.path == *name).map(|f| f.sha256.as_str());
        self.files.iter().all(|(name, sha256)| of(name) == Some(sha256))
    }
}

/// The cache of hashes in the user's folder of models; none on a machine without such a folder.
fn hashes() -> Hashes {
    home().map_or_else(|_| Hashes::forgotten(), |home| Hashes::in_home(&home))
}

fn short(sha256: &str) -> String {
    sha256.get(..8).unwrap_or(sha256).to_owned()
}

/// A GGUF file's name among a model's files.
fn part_name(path: &Path) -> String {
    let name = || path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    gguf::part_number(path).unwrap_or_else(name)
}

/// The hash of a GGUF model: that of its file, or of the list of its parts.
fn hash_of(files: &[(String, String)]) -> String {
    match files {
        [(_, sha256)] => sha256.clone(),
        parts => Identity::list_hash(parts),
    }
}

/// The files of a safetensors folder that are read, with hashes, sorted by path.
fn files_read(
    folder: &Path,
    mut sha256: impl FnMut(&str) -> Result<String>,
) -> Result<Vec<(String, String)>> {
    let mut names = shards::weight_files(folder);
    names.extend(READ.map(str::to_owned));
    let names = names.into_iter().filter(|name| folder.join(name).is_file());
    names.map(|name| Ok((name.clone(), sha256(&name)?))).collect()
}

/// Returns true if the path stays inside the folder it is joined to.
pub(super) fn is_plain(path: &str) -> bool {
    let path = Path::new(path);
    path.file_name().is_some() && path.components().all(|part| matches!(part, Component::Normal(_)))
}
