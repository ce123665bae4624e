//! Errors of preparing, running and checking an evaluation, as data. The command line's option names do not
//! occur here.

use std::{fmt, io, path::PathBuf};

use crate::{
    engine::{self, KvType},
    files, hub,
    judges::{self, Role, setup},
    llm, mqm,
    run::{self, description::InputId, selection},
    segment::{mixed_up, read},
    spec::DeviceRequest,
};

/// The kinds of input that a specification may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// A source text and translations, line by line.
    Texts,
    Table,
    TestSet,
}

impl fmt::Display for InputKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Texts => "a source text with translations",
            Self::Table => "a table",
            Self::TestSet => "a test set",
        })
    }
}

/// A setting of a CPU that a GPU does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpuSetting {
    /// Activations that are not quantised.
    FloatActivations,
    /// A number format of the KV cache.
    CacheType(KvType),
    /// A set of instructions.
    Isa(String),
}

impl fmt::Display for CpuSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FloatActivations => f.write_str("an activation type of `float`"),
            Self::CacheType(kv) => write!(f, "a KV cache of `{}`", kv.name()),
            Self::Isa(isa) => write!(f, "the instruction set `{isa}`"),
        }
    }
}

/// Error of preparing, running or checking an evaluation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("nothing to judge")]
    NoInput,
    /// A model whose head is not the one that the method reads.
    #[error("`{method}` cannot use `{model}`, which {reason}\nhint: {hint}")]
    Head { method: String, model: String, reason: String, hint: String },
    #[error("texts, a table and a test set cannot be combined")]
    SeveralInputs,
    #[error("the source text has no translations")]
    NoTranslations,
    #[error("the translations have no source text")]
    NoSource,
    #[error("{0} needs the languages of the translations")]
    NoLanguages(InputKind),
    #[error("`{}` holds human annotations, which do not name their languages", .0.display())]
    NoLanguagesOfRaters(PathBuf),
    #[error("a file of documents belongs to texts; {0} has its own documents")]
    DocumentsBesideTexts(InputKind),
    #[error("a reference belongs to texts, or is one of a test set; a table has its own references")]
    ReferenceBesideTable,
    #[error(
        "the input has no human scores of this language pair, so none of its segments is known to be rated"
    )]
    NothingRated,
    #[error("systems are chosen only of a test set")]
    SystemsBesideTestSet,
    #[error("the documents that `{}` names", file.display())]
    Documents { file: PathBuf, source: selection::Error },
    #[error("cannot read `{}`: {}", path.display(), files::explain(path, source))]
    Read { path: PathBuf, source: io::Error },
    #[error("`{}`", path.display())]
    File { path: PathBuf, source: io::Error },

    #[error("`{model}` has {positions} positions, so it has no context of {context}")]
    Positions { model: String, positions: usize, context: usize },
    #[error("not even the shortest question fits the model: {0}")]
    NoRoom(llm::Error),
    #[error("the role `{0}` is given twice")]
    RoleTwice(Role),
    #[error(
        "unknown model `{name}`\nhint: {hint}; models of open weights run here, by a card's name, a GGUF file or a folder"
    )]
    UnknownModel { name: String, hint: String },
    #[error("`{name}`: no such file or folder{hint}")]
    NoModel { name: String, hint: String },
    #[error(
        "`{0}` has no `config.json` and no GGUF file, so it is not a model\nhint: a model is a folder with `config.json`, \
         `tokenizer.json` and safetensors, a GGUF file, or a folder with one"
    )]
    NotAModel(String),
    #[error("`{}` is neither a file nor a folder, so it is no part of a model", .0.display())]
    NotAFile(PathBuf),
    #[error("`{}` is an empty file, so it is no part of a model", .0.display())]
    EmptyFile(PathBuf),
    #[error("the chat template `{}`: {reason}", file.display())]
    ChatTemplate { file: PathBuf, reason: String },
    #[error("`{0}`: no such folder")]
    NoFolder(String),
    #[error("`{folder}` is not an adapter: it has no `{file}`")]
    NotAnAdapter { folder: String, file: &'static str },
    #[error("`{folder}` is an adapter, not a model")]
    AdapterAsModel {
        folder: String,
        /// Base model of the adapter's training; empty if unstated.
        base: String,
    },
    #[error(
        "`{}` line {line} is not a sha256\nhint: `tribunal tune export` writes one for each source text that is trained on; \
         without the file, runs do not warn about them", file.display()
    )]
    TrainedOn { file: PathBuf, line: usize },
    #[error("`{}` is not a JSON object; hint: training writes it; the adapter works without it", .0.display())]
    Training(PathBuf),

    #[error("`{0}` is not a GPU")]
    NotAGpu(DeviceRequest),
    #[error("{gpu} computes wrong results by every set of kernels: {wrong}")]
    WrongGpu { gpu: String, wrong: String },
    #[error("this processor does not support `{isa}`, only {available}")]
    Isa { isa: String, available: String },
    #[error("{setting} is for CPUs, not for `{device}`")]
    OnlyOnCpu { setting: CpuSetting, device: DeviceRequest },

    #[error("the name of the run folder is empty")]
    EmptyFolder,
    #[error("`{}` keeps no copy of its input (the first shard and the merged folder do)", .0.display())]
    NoCopyOfInput(PathBuf),
    #[error(
        "the folder keeps no copy of its input (the first shard and the merged folder do), and the command's own cannot be read"
    )]
    InputNotFound(#[source] Box<Error>),
    #[error("the input has changed since the run: {recorded} then, {present} now")]
    InputChanged { recorded: Box<InputId>, present: Box<InputId> },
    #[error("`{}` keeps no copy of `{}`, which its command names with `{option}`", folder.display(), file.display())]
    NoCopy { folder: PathBuf, file: PathBuf, option: String },

    #[error(transparent)]
    Input(#[from] read::Error),
    #[error(transparent)]
    Raters(#[from] mqm::raters::Error),
    #[error(transparent)]
    Selection(#[from] selection::Error),
    #[error(transparent)]
    Language(#[from] mixed_up::Refusal),
    #[error(transparent)]
    Judge(#[from] setup::Error),
    #[error(transparent)]
    Verdict(#[from] judges::Error),
    #[error(transparent)]
    Card(#[from] hub::Error),
    #[error(transparent)]
    Device(#[from] engine::DeviceError),
    #[error(transparent)]
    Engine(#[from] engine::Error),
    #[error(transparent)]
    Model(#[from] tribunal_model::Error),
    #[error(transparent)]
    Run(#[from] run::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Result of an evaluation step.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The error of a file that cannot be read.
    pub(crate) fn file(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self::File { path: path.into(), source }
    }
}
