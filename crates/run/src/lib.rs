//! Runs a judge on a test set: groups are judged in parallel and journalled as soon as they are done; runs
//! can be resumed, sharded and merged. Models and prompts are elsewhere.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use tribunal_core::{digest, files, llm, mqm, parallel, random, segment, signature};
use tribunal_judges as judges;

use judges::{Judge, Panel};
use llm::CancellationToken;
use segment::{Corpus, Segment, numbered, trained::Overlap};
use signature::Signature;

pub mod call;
pub mod calls;
pub mod clock;
mod complete;
pub mod description;
mod draw;
pub mod finish;
pub mod folder;
pub mod groups;
mod grow;
pub mod health;
pub mod input;
pub mod interrupt;
pub mod journal;
pub mod keep;
pub mod lock;
pub mod materials;
pub mod merge;
pub mod own;
pub mod plan;
pub mod progress;
pub mod record;
pub mod selection;
mod semaphore;
pub mod summary;
pub mod trained_on;
pub mod trial;
pub mod units;
pub mod verify;
mod work;
mod written;

pub use calls::CallRetention;
pub use description::{Origin, RunFile};
pub use groups::Shard;
pub use interrupt::{RunStatus, Writing};
pub use keep::Keep;
pub use merge::merge;
pub use plan::{Plan, plan};
pub use progress::{Progress, Silent, Snapshot};
pub use record::{Record, Status, UnitKey};
pub use selection::Selection;
pub use summary::Summary;

use description::{InputId, RUN};
use folder::Folder;
use groups::{Group, GroupId};
use grow::{FolderState, RETRY};
use journal::{Done, Index, Journal, Resume};
use lock::Lock;
use units::Units;
use work::Work;

/// The input of a run, its judge and its models.
#[derive(Clone, Copy)]
pub struct Task<'a> {
    pub panel: &'a Panel,
    pub judge: &'a Judge,
    pub segments: &'a Corpus,
    pub signature: &'a Signature,
}

/// Configuration of a run. Of its fields, selection, shard, seed and asking again determine which units are
/// judged; nothing else can change a verdict.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// The run folder.
    pub out: PathBuf,
    /// The segments that get a verdict; the others are shown as context.
    pub selection: Selection,
    pub shard: Shard,
    /// Groups in flight; verdicts do not depend on it.
    pub jobs: usize,
    /// Draws the documents of [`crate::judges::Grouping::FiveDocuments`].
    pub seed: u64,
    /// The command line, for `run.json`.
    pub command: Vec<String>,
    pub progress: Arc<dyn Progress>,
    /// Questions that are in flight at the same time: the number that the engine takes into one step, and
    /// some more.
    pub questions: usize,
    pub calls: CallRetention,
    /// Ask once more about units whose answers could not be used; recorded in the signature.
    pub retry_missing: bool,
    /// Directory of the command.
    pub directory: String,
    pub origin: Origin,
    /// Overlap of the judge's training data with the input.
    pub trained_on: Vec<Overlap>,
    /// Copies of files that the command names, for the run folder.
    pub copies: Vec<Copy>,
    pub writing: Writing,
    /// Ends the run between two groups after cancellation; finished groups are kept.
    pub stop: CancellationToken,
}

/// A file that the run folder keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Relative to the run folder.
    pub name: String,
    pub bytes: Vec<u8>,
}

impl RunConfig {
    /// A whole input into a run folder, one group at a time, in silence.
    #[must_use]
    pub fn new(out: impl Into<PathBuf>) -> Self {
        Self {
            out: out.into(),
            selection: Selection::All,
            shard: Shard::WHOLE,
            jobs: 1,
            seed: 0,
            command: Vec::new(),
            progress: Arc::new(Silent),
            questions: 80,
            calls: CallRetention::default(),
            retry_missing: false,
            directory: String::new(),
            origin: Origin::default(),
            trained_on: Vec::new(),
            copies: Vec::new(),
            writing: Writing::default(),
            stop: CancellationToken::default(),
        }
    }
}

/// Result of a run in its folder.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub summary: Summary,
    /// The run folder.
    pub dir: PathBuf,
    /// Units of this process's share that were there before it started.
    pub resumed: usize,
}

impl Outcome {
    /// Returns true if every unit has a verdict.
    #[must_use]
    pub fn complete(&self) -> bool {
        self.summary.scored == self.summary.units
    }

    /// All verdicts, in the order of `verdicts.jsonl`.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Damaged`].
    pub fn records(&self) -> Result<Vec<Record>, Error> {
        let mut records = Vec::with_capacity(self.summary.units);
        self.each_record(|record| {
            records.push(record);
            Ok(())
        })?;
        Ok(records)
    }

    /// Goes through all verdicts in that order, one in memory at a time.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Damaged`], and what `visit` returns.
    pub fn each_record(&self, visit: impl FnMut(Record) -> Result<(), Error>) -> Result<(), Error> {
        let verdicts = self.dir.join(finish::VERDICTS);
        // A partial merge has a journal alone, in verdict order.
        if verdicts.exists() {
            journal::each_verdict(&verdicts, visit)
        } else {
            journal::each_record(&self.dir.join(journal::JOURNAL), visit)
        }
    }
}

/// Judges a test set into a run folder. Work that the folder already holds under the same signature is kept.
///
/// # Errors
/// The errors of [`Task::run`].
pub fn run(
    panel: &Panel,
    judge: &Judge,
    segments: &[Segment],
    signature: &Signature,
    config: &RunConfig,
) -> Result<Outcome, Error> {
    let segments = &Corpus::of(segments.iter().cloned()).map_err(Error::Input)?;
    Task { panel, judge, segments, signature }.run(config)
}

impl Task<'_> {
    /// Judges a test set into a run folder. Work that the folder already holds under the same signature is
    /// kept, also where the input has grown since, or where another shard did it.
    ///
    /// # Errors
    /// [`Error`]; verdicts up to then are in the journal and are kept when the command is repeated.
    pub fn run(&self, config: &RunConfig) -> Result<Outcome, Error> {
        self.open(config)?.judge()
    }

    /// Opens the run folder without judging.
    ///
    /// # Errors
    /// [`Error`] where the folder cannot be written, or holds another run.
    pub fn open<'a>(&'a self, config: &'a RunConfig) -> Result<Opened<'a>, Error> {
        let share = Share::of(self, config);
        let folder = self.begin(&share, config)?;
        Ok(Opened { task: *self, config, share, folder })
    }

    /// Opens the run folder, with the parts of this run that it holds, and writes `run.json`.
    fn begin(&self, share: &Share, config: &RunConfig) -> Result<OpenFolder, Error> {
        let own = self.signature.clone();
        let signature = if config.retry_missing { own.with(RETRY, "missing") } else { own };
        let folder = Folder::open(&config.out)?;
        own::discard_unfinished(&folder)?;
        let wanted = RunFile {
            signature: signature.clone(),
            command: config.command.clone(),
            directory: config.directory.clone(),
            merged: Vec::new(),
            shard: config.shard.to_string(),
            input: InputId::of(self.segments, &config.selection)?,
            selection: config.selection.ranges(),
            apart: share.groups.iter().any(|group| group.is_apart),
            share: (config.shard != Shard::WHOLE).then(|| share.n_units(share.mine.iter())),
            origin: config.origin.clone(),
            trained_on: config.trained_on.clone(),
            systems: description::systems_of(self.segments),
            units: RunFile::pack(share.units.keys()),
        };
        let state = FolderState::of(&folder, wanted, self, config)?;
        let how = Resume { keeping: config.calls, drops_missing: state.asks_again };
        let (journal, done) = journal::resume(&folder, share.work(self, config).known(), how)?;
        let guard = Lock::of_file(&journal.path)?;
        state.write(&folder, self.segments, config.shard, &config.copies)?;
        folder.sync()?;
        let path = folder.path(RUN);
        let description =
            files::read_own(&path).map_err(|source| Error::Io { action: "read", path, source })?;
        Ok(OpenFolder { signature, folder, description, journal, done, _guard: guard })
    }
}

/// The part of a run that one process judges.
struct Share {
    groups: Vec<Group>,
    units: Units,
    ids: Vec<GroupId>,
    /// Its groups, by their numbers.
    mine: Vec<usize>,
}

impl Share {
    fn of(task: &Task<'_>, config: &RunConfig) -> Self {
        // A run goes on as it began.
        let may_be_apart = RunFile::read(&config.out).map_or(true, |run| run.apart);
        let groups = groups::groups(task.segments, &config.selection, task.judge.grouping, config.seed);
        let groups = if may_be_apart { groups::each_apart(groups, task.judge) } else { groups };
        let units = Units::of(task.segments, &groups, task.judge.unit);
        let mine = config.shard.choose(task.segments, &groups);
        let ids = groups.iter().map(|group| group.id(task.segments)).collect();
        Self { groups, units, ids, mine }
    }

    fn n_units<'a>(&self, groups: impl Iterator<Item = &'a usize>) -> usize {
        groups.map(|&group| self.units.of_group(group).len()).sum()
    }

    fn work<'a>(&'a self, task: &Task<'a>, config: &RunConfig) -> Work<'a> {
        let retry_missing = config.retry_missing;
        Work { task: *task, groups: &self.groups, units: &self.units, ids: &self.ids, retry_missing }
    }
}

/// A run with an opened output folder.
pub struct Opened<'a> {
    task: Task<'a>,
    config: &'a RunConfig,
    share: Share,
    folder: OpenFolder,
}

impl Opened<'_> {
    /// The groups that are judged again because their calls were lost, in words; `None` if there are none.
    #[must_use]
    pub fn lost(&self) -> Option<&str> {
        self.folder.done.lost.as_deref()
    }

    /// Judges the groups that the folder does not have yet.
    ///
    /// # Errors
    /// The errors of [`Task::run`].
    pub fn judge(self) -> Result<Outcome, Error> {
        let Self { task, config, share, folder } = self;
        let resumed = share.n_units(share.mine.iter().filter(|group| folder.done.groups.contains(group)));
        let sums = share.work(&task, config).run_all(&share.mine, (folder.journal, folder.done), config)?;
        let mut index = Index::new(&share.units);
        index.add(&folder.folder.path(journal::JOURNAL), &share.units)?;
        let summary = finish::summary(&index, &folder.signature, &sums, sums.cost.clone())?;
        // It may have been removed while the run wrote to the folder, which cannot be read without it.
        folder.folder.write(RUN, &folder.description)?;
        let summary = finish::write(&folder.folder, &index, summary)?;
        Ok(Outcome { summary, dir: config.out.clone(), resumed })
    }
}

/// An opened run folder.
struct OpenFolder {
    signature: Signature,
    folder: Folder,
    /// The bytes of `run.json`.
    description: Vec<u8>,
    journal: Journal,
    done: Done,
    _guard: Option<Lock>,
}

/// Reads the verdicts of a finished run, or of a `verdicts.jsonl` file.
///
/// # Errors
/// [`Error::Unfinished`] for a folder whose run has not come to its end, [`Error::Io`], [`Error::Damaged`].
pub fn verdicts(path: &Path) -> Result<Vec<Record>, Error> {
    let mut records = Vec::new();
    each_verdict(path, |record| {
        records.push(record);
        Ok(())
    })?;
    Ok(records)
}

/// Goes through those verdicts, one in memory at a time.
///
/// # Errors
/// The errors of [`verdicts`], and what `visit` returns.
pub fn each_verdict(path: &Path, visit: impl FnMut(Record) -> Result<(), Error>) -> Result<(), Error> {
    let file = if path.is_dir() { path.join(finish::VERDICTS) } else { path.into() };
    if path.is_dir() {
        match files::open_own(&file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                RunFile::read(path)?;
                return Err(Error::Unfinished(path.into()));
            }
            Err(source) => return Err(Error::Io { action: "read", path: file, source }),
            Ok(_) => return journal::each_verdict(&file, visit),
        }
    }
    match journal::each_named(&file, visit) {
        // A file that the user names may be anything; only in a run folder is it a verdict that was damaged.
        Err(Error::Damaged { path, line: 1, .. }) if !path.with_file_name(RUN).exists() => {
            Err(Error::NoVerdicts(path))
        }
        read => read,
    }
}

impl From<files::Error> for Error {
    fn from(error: files::Error) -> Self {
        let files::Error { action, path, source } = error;
        Self::Io { action, path, source }
    }
}

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
        "`{dir}` holds a run on a different input: {there} there, {here} now\n{reason}\nhint: use another folder; a run \
         may only grow, by more systems or a larger limit"
    )]
    OtherInput { dir: PathBuf, there: String, here: String, reason: String },
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
        "`{path}` is not what `run.json` says: its sha256 is `{here}`, there it is `{there}`\nhint: restore it from a copy"
    )]
    Changed { path: PathBuf, there: String, here: String },
    #[error(
        "`{dir}` has {there} calls where its verdicts tell of {told}\nhint: copy the folder again, or delete \
         its `journal.jsonl` and run its command again"
    )]
    CallsMissing { dir: PathBuf, there: usize, told: usize },
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
