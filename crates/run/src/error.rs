//! The error of starting, continuing, reading or merging a run.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{files, interrupt::RunStatus, record::UnitKey, segment::numbered};

/// Error of starting or continuing a run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "cannot read back the texts of the input, which were put into a temporary file: {0}\nhint: `TMPDIR` names a \
         folder for it"
    )]
    Input(std::io::Error),
    #[error("cannot {action} `{path}`: {}", files::explain(path, source))]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
    #[error(
        "cannot append to `{path}`: {source}\nhint: everything judged so far is safe; free some space and run the \
         same command again to continue"
    )]
    Append { path: PathBuf, source: std::io::Error },
    #[error(
        "the engine has stopped: {0}\nhint: what is finished is kept; run the same command again to continue"
    )]
    Stopped(String),
    /// Numbers of verdicts: those since the last step that was confirmed, which are judged again, and the
    /// others.
    #[error(
        "a GPU computed a step again with another result: {reason}\nhint: {dropped} verdicts since the last step that had the \
         same result were taken out of the run folder, {retained} are kept; run the same command again to judge the rest, and \
         report the card, its driver and these lines"
    )]
    Differs { reason: String, dropped: usize, retained: usize },
    #[error("{0}")]
    Interrupted(RunStatus),
    #[error("`{path}` line {line} is damaged: {reason}\nhint: {hint}")]
    Damaged { path: PathBuf, line: usize, reason: String, hint: &'static str },
    #[error("`{path}` is damaged: {reason}\nhint: {hint}")]
    DamagedFile { path: PathBuf, reason: String, hint: &'static str },
    #[error(
        "`{0}` was removed or replaced while the run was writing to it\nhint: what was judged before that is gone with \
         it; run the same command again, and keep the folder until it is done"
    )]
    Gone(PathBuf),
    #[error("`{path}` line {line} is about {unit} of `{system}`, which is not in the input", unit = key.seg.map_or_else(|| format!("group `{}`", key.doc), numbered), system = key.system)]
    Foreign { path: PathBuf, line: usize, key: Box<UnitKey> },
    #[error(
        "`{dir}` holds a run with a different signature:{differences}\nhint: use another folder, or the options of \
         that run"
    )]
    OtherSignature { dir: PathBuf, differences: String },
    #[error(
        "`{dir}` holds a run on a different input: {recorded} there, {requested} now\n{reason}\nhint: use another folder; a run \
         may only grow, by more systems or a larger limit"
    )]
    OtherInput { dir: PathBuf, recorded: String, requested: String, reason: String },
    #[error("`{dir}` is being written to by {by}\nhint: wait for it to finish, or use another folder")]
    Locked { dir: PathBuf, by: String },
    #[error(
        "`{dir}` cannot be locked: its file system (`{kind}`) has no locks ({source})\nhint: nothing was changed; choose \
         a folder on another disk, or mount this one with locks (NFS: without `nolock`; Lustre: with `flock`)"
    )]
    Unlockable { dir: PathBuf, kind: String, source: std::io::Error },
    #[error("`{0}` is a file\nhint: a run folder is made where it does not exist")]
    NotAFolder(PathBuf),
    #[error("`{dir}` is a file\nhint: give the run folder, `{folder}`", dir = .0.display(), folder = .0.parent().map_or_else(|| ".".into(), |dir| if dir.as_os_str().is_empty() { ".".into() } else { dir.display().to_string() }))]
    FileOfRun(PathBuf),
    #[error(
        "`{0}` has no `run.json`, so it is not a run folder\nhint: run folders are what `tribunal score` writes"
    )]
    NoRun(PathBuf),
    #[error(
        "`{0}` is neither a run folder nor verdicts\nhint: give the folder that `tribunal score` wrote, its \
         `verdicts.jsonl`, or an MQM TSV of human raters"
    )]
    NoVerdicts(PathBuf),
    #[error(
        "`{dir}` is a run folder in format {format}; this version of tribunal reads format {known}\nhint: use the version \
         that wrote it (`origin.build` in its `run.json`)"
    )]
    OtherFormat { dir: PathBuf, format: u32, known: u32 },
    #[error("the run in `{0}` is not finished\nhint: run its command again to continue it")]
    Unfinished(PathBuf),
    #[error(
        "`{a}` and `{b}` are not parts of the same run:{differences}\nhint: merge only the shards of one command"
    )]
    DifferentRuns { a: PathBuf, b: PathBuf, differences: String },
    #[error(
        "`{a}` and `{b}` hold different verdicts on segment {unit}\nhint: the same signature gives the same verdict, so \
         one of them was changed or made by a faulty machine; `tribunal verify` tells which"
    )]
    Contradiction { a: PathBuf, b: PathBuf, unit: String },
    #[error(
        "{missing} of {units} segments are missing from these folders, the first being {first}\nhint: finish these shards first: {shards}"
    )]
    Incomplete { missing: usize, units: usize, first: String, shards: String },
    #[error(
        "`{path}` is not what `run.json` says: its sha256 is `{present}`, there it is `{recorded}`\nhint: restore it from a copy"
    )]
    Changed { path: PathBuf, recorded: String, present: String },
    #[error(
        "`{dir}` has {found} calls where its verdicts tell of {recorded}\nhint: copy the folder again, or delete \
         its `journal.jsonl` and run its command again"
    )]
    CallsMissing { dir: PathBuf, found: usize, recorded: usize },
    #[error(
        "none of the folders has `input.jsonl`, the copy of the input that the first shard keeps (`{0}` is the first here)\nhint: \
         copy the first shard's folder again"
    )]
    NoInput(PathBuf),
    #[error("`{0}` keeps no answers, so its verdicts cannot be derived again without the model")]
    Unrecorded(PathBuf),
    #[error("cannot count the tokens of the prompt about {} of `{system}`: {reason}", numbered(*seg))]
    Count { system: String, seg: usize, reason: String },
}

impl Error {
    /// A file that cannot be read.
    pub(crate) fn reading(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { action: "read", path: path.into(), source }
    }

    /// A file that cannot be appended to.
    pub(crate) fn appending(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Append { path: path.into(), source }
    }
}

impl From<files::Error> for Error {
    fn from(error: files::Error) -> Self {
        let files::Error { action, path, source } = error;
        Self::Io { action, path, source }
    }
}
