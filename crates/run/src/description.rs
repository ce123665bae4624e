//! `run.json`: the input and the configuration of a run, so that it can be repeated. It is written once, and
//! again only when the run grows.

use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    cautions::cautions,
    digest,
    error::Error,
    files,
    folder::json_lines,
    record::UnitKey,
    segment::{Segments, trained::Overlap},
    selection::Selection,
    signature::Signature,
};

/// The file's name in the run folder.
pub const RUN: &str = "run.json";

/// Format of a run folder's files. Fields that readers may ignore are added without a new number; a program
/// reads folders of its own format alone.
pub const FORMAT: u32 = 1;

/// `run.json`: a description of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunFile {
    /// [`FORMAT`].
    pub format: u32,
    /// [`Signature::short`].
    pub short_signature: String,
    pub signature: Signature,
    /// The command line that started the run.
    pub command: Vec<String>,
    /// Directory of the command: relative paths in it start there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub directory: String,
    /// The command line that merged it from shards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<String>,
    /// `I/N`; `1/1` is the whole input.
    pub shard: String,
    pub input: InputId,
    /// The positions in the input that were selected, from the first of each pair up to but not including the
    /// second; `None` for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<Vec<[usize; 2]>>,
    /// Number of the units of this shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<usize>,
    /// True if each segment of a document is judged, and written, as a group of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub apart: bool,
    #[serde(default)]
    pub origin: Origin,
    /// Overlap of the judge's training data with the input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trained_on: Vec<Overlap>,
    /// Cautions about the judge on this input, as sentences without full stops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<String>,
    /// The systems in the order in which the input names them first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub systems: Vec<String>,
    /// All units of the whole input (other shards' too) in the order of `verdicts.jsonl`.
    pub units: Vec<DocUnits>,
}

/// The field of `run.json` that every format has; 0 where it is missing.
#[derive(Deserialize)]
struct Numbered {
    #[serde(default)]
    format: u32,
}

/// Identity of a run's input, and the number of its segments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InputId {
    pub segments: usize,
    /// Number of selected segments; `None` for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected: Option<usize>,
    pub systems: usize,
    /// Of all segments with their references, one JSON line each, and of the positions that were selected.
    pub sha256: String,
}

/// The units of one document of one system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocUnits {
    pub system: String,
    pub src_lang: String,
    pub tgt_lang: String,
    pub doc: String,
    pub segs: Vec<Option<usize>>,
}

/// The origin of a run's models, prompts and files, beyond the signature. Nothing here can move a score
/// without a difference in the signature.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    pub build: Build,
    pub machine: Machine,
    pub models: Vec<ModelFiles>,
    /// The method's prompt files in force, with their SHA-256.
    pub prompts: Vec<NamedHash>,
    /// Files and folders that the command names, other than the input and the models.
    pub materials: Vec<Material>,
}

/// The program that started the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Build {
    pub version: String,
    /// The commit that it was built from, where the build recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    pub features: Vec<String>,
    /// `release` or `debug`.
    pub profile: String,
}

/// The machine that started the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    pub host: String,
    /// Operating system and architecture: `linux-x86_64`.
    pub platform: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
    pub cores: usize,
    /// The kernels that ran: `avx512`, `avx2` or `portable`, or a GPU and its set; those of a continued run's
    /// parts, separated by `; `.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kernels: String,
}

/// A model of the run and its files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelFiles {
    /// The roles that it plays; none for the model of all other roles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// The name in the command.
    pub given: String,
    /// The card's name, or the file's stem.
    pub name: String,
    /// Hash of the weights, whose first digits are in the signature: the GGUF file's, or of the list of all
    /// files read.
    pub sha256: String,
    /// The hub's commit, where the files came from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Download URLs of the files, from the card.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// Every file that is read, the tokenizer's and the configuration's among them.
    pub files: Vec<NamedHash>,
    /// Hash of the chat template, where it is not one of the model's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_sha256: Option<String>,
    /// The adapter that it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<AdapterFiles>,
}

/// An adapter and its files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AdapterFiles {
    /// The name in the command.
    pub given: String,
    /// The folder's name.
    pub name: String,
    /// Hash of the list of its files, whose first digits are in the signature.
    pub sha256: String,
    pub files: Vec<NamedHash>,
}

/// A file by name and content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedHash {
    pub name: String,
    pub sha256: String,
}

/// A file or folder that the command names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Material {
    /// The flag or the method's option: `--prompts`, `calibration`.
    pub flag: String,
    /// The name in the command.
    pub given: String,
    /// Path of the copy in the run folder; `None` for files that are too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// Hash of the file, or of the list of a folder's files with theirs.
    pub sha256: String,
}

impl InputId {
    /// Identifies an input and the selection from it.
    ///
    /// # Errors
    /// [`Error::Input`] when the texts cannot be read back.
    pub fn new<S: Segments + ?Sized>(segments: &S, selection: &Selection) -> Result<Self, Error> {
        let mut hash = Sha256::new();
        let mut systems: BTreeSet<&str> = BTreeSet::new();
        for idx in 0..segments.n_segments() {
            hash.update(segments.line(idx).map_err(Error::Input)?);
            let system = segments.outline(idx).system;
            if !systems.contains(system) {
                systems.insert(system);
            }
        }
        let selected = match selection {
            Selection::All => None,
            Selection::Only(chosen) => {
                hash.update(json_lines(std::slice::from_ref(chosen)));
                Some(chosen.len())
            }
        };
        let (segments, systems) = (segments.n_segments(), systems.len());
        Ok(Self { segments, selected, systems, sha256: digest::hex(&hash.finalize()) })
    }
}

impl fmt::Display for InputId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(selected) = self.selected {
            write!(f, "{selected} of ")?;
        }
        let Self { segments, systems, sha256, .. } = self;
        write!(f, "{segments} segments, systems: {systems}, sha256 `{sha256:.12}`")
    }
}

/// The systems of an input in the order in which it names them first.
pub fn systems_of<S: Segments + ?Sized>(segments: &S) -> Vec<String> {
    let (mut systems, mut known) = (Vec::new(), BTreeSet::new());
    for idx in 0..segments.n_segments() {
        let system = segments.outline(idx).system;
        if known.insert(system) {
            systems.push(system.to_owned());
        }
    }
    systems
}

impl RunFile {
    /// All cautions about the run ([`cautions`]).
    pub fn all_cautions(&self) -> Vec<String> {
        cautions(&self.signature, &self.cautions, self.input.systems)
    }

    /// Groups units, given in verdict order, by document.
    pub fn pack(keys: impl IntoIterator<Item = UnitKey>) -> Vec<DocUnits> {
        let mut units: Vec<DocUnits> = Vec::new();
        for key in keys {
            let same = |u: &&mut DocUnits| {
                (&u.system, &u.src_lang, &u.tgt_lang, &u.doc)
                    == (&key.system, &key.src_lang, &key.tgt_lang, &key.doc)
            };
            match units.last_mut().filter(same) {
                Some(doc) => doc.segs.push(key.seg),
                None => units.push(DocUnits {
                    system: key.system,
                    src_lang: key.src_lang,
                    tgt_lang: key.tgt_lang,
                    doc: key.doc,
                    segs: vec![key.seg],
                }),
            }
        }
        units
    }

    /// All units of the whole input in verdict order.
    pub fn keys(&self) -> Vec<UnitKey> {
        let of_doc = |doc: &DocUnits| {
            let doc = doc.clone();
            doc.segs.clone().into_iter().map(move |seg| UnitKey {
                system: doc.system.clone(),
                src_lang: doc.src_lang.clone(),
                tgt_lang: doc.tgt_lang.clone(),
                doc: doc.doc.clone(),
                seg,
            })
        };
        self.units.iter().flat_map(of_doc).collect()
    }

    /// Reads the `run.json` of a folder.
    ///
    /// # Errors
    /// [`Error::NoRun`] when there is none, [`Error::OtherFormat`] for another format than [`FORMAT`],
    /// [`Error::Damaged`] when it cannot be parsed.
    pub fn read(dir: &Path) -> Result<Self, Error> {
        if dir.is_file() {
            return Err(Error::FileOfRun(dir.into()));
        }
        let path = dir.join(RUN);
        let text = match files::read_own_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(Error::NoRun(dir.into())),
            Err(source) => return Err(Error::reading(&path)(source)),
        };
        if let Ok(Numbered { format }) = serde_json::from_str(&text)
            && format != FORMAT
        {
            return Err(Error::OtherFormat { dir: dir.into(), format, known: FORMAT });
        }
        let hint = "restore it from a copy; the verdicts do not depend on it, but continuing the run does";
        let run: Self = serde_json::from_str(&text).map_err(|source| Error::Damaged {
            line: source.line(),
            path: path.clone(),
            reason: source.to_string(),
            hint,
        })?;
        match run.repeated() {
            Some(name) => Err(Error::DamagedFile { path, reason: format!("it lists `{name}` twice"), hint }),
            None => Ok(run),
        }
    }

    /// The first entry that a list of the file has twice.
    fn repeated(&self) -> Option<&str> {
        let mut seen = BTreeSet::new();
        let materials = self.origin.materials.iter().map(|material| ("material", material.flag.as_str()));
        let prompts = self.origin.prompts.iter().map(|prompt| ("prompt", prompt.name.as_str()));
        let systems = self.systems.iter().map(|system| ("system", system.as_str()));
        let mut names = materials.chain(prompts).chain(systems);
        names.find(|name| !seen.insert(*name)).map(|(_, name)| name)
    }

    /// A path as it was meant where the command was given.
    pub fn resolve(&self, path: &Path) -> PathBuf {
        if self.directory.is_empty() { path.into() } else { Path::new(&self.directory).join(path) }
    }
}
