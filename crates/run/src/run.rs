//! A run with an opened folder: the groups that the folder lacks are judged in parallel and journalled as
//! soon as they are done; then the folder is finished.

use std::sync::Arc;

use crate::{
    description::{self, FORMAT, InputId, RUN, RunFile},
    error::Error,
    files, finish,
    folder::Folder,
    groups::Shard,
    grow::{FolderState, RETRY},
    interrupt::RunStatus,
    journal::{
        JOURNAL,
        index::Index,
        resume::{Missing, Resumed, resume},
    },
    judges::{Judge, Panel, registry},
    layout::Layout,
    lock::Lock,
    outcome::Outcome,
    output::Output,
    own, parallel,
    progress::{Extent, Meter},
    queue::Queue,
    segment::{Corpus, Segment},
    semaphore::{Limited, PrioritySemaphore},
    signature::Signature,
    task::{RunConfig, Task},
};

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
    let segments = &Corpus::from_segments(segments.iter().cloned()).map_err(Error::Input)?;
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

    /// Opens the run folder, with the parts of this run that it holds, and writes `run.json`.
    ///
    /// # Errors
    /// [`Error`] where the folder cannot be written, or holds another run.
    pub fn open<'a>(&'a self, config: &'a RunConfig) -> Result<Run<'a>, Error> {
        // A run goes on as it began.
        let recorded = RunFile::read(&config.out).ok();
        let layout = Layout::new(*self, &config.selection, config.seed, recorded.as_ref());
        let layout = Layout { retry_missing: config.retry_missing, ..layout };
        let share = config.shard.choose(self.segments, &layout.groups);
        let folder = Folder::open(&config.out)?;
        own::discard_unfinished(&folder)?;
        let new = describe(&layout, &share, config)?;
        let signature = new.signature.clone();
        let state = FolderState::compare(&folder, new, self, config)?;
        let missing = if state.asks_again { Missing::Drop } else { Missing::Keep };
        let resumed = resume(&folder, &layout.units, &layout.ids, config.calls, missing)?;
        let guard = Lock::of_file(&resumed.journal.path)?;
        state.write(&folder, self.segments, config.shard, &config.copies)?;
        folder.sync()?;
        let path = folder.path(RUN);
        let description = files::read_own(&path).map_err(Error::reading(&path))?;
        Ok(Run { config, layout, share, signature, folder, description, resumed, _guard: guard })
    }
}

/// The contents of `run.json` for a new run.
fn describe(layout: &Layout<'_>, share: &[usize], config: &RunConfig) -> Result<RunFile, Error> {
    let Task { signature, segments, .. } = layout.task;
    let signature = signature.clone();
    let signature = if config.retry_missing { signature.with(RETRY, "missing") } else { signature };
    Ok(RunFile {
        format: FORMAT,
        short_signature: signature.short(),
        signature,
        command: config.command.clone(),
        directory: config.directory.clone(),
        merged: Vec::new(),
        shard: config.shard.to_string(),
        input: InputId::new(segments, &config.selection)?,
        selection: config.selection.ranges(),
        apart: layout.groups.iter().any(|group| group.is_apart),
        share: (config.shard != Shard::WHOLE).then(|| layout.n_units(share)),
        origin: config.origin.clone(),
        trained_on: config.trained_on.clone(),
        cautions: config.cautions.clone(),
        systems: description::systems_of(segments),
        units: RunFile::pack(layout.units.keys()),
    })
}

/// A run with an opened folder.
pub struct Run<'a> {
    config: &'a RunConfig,
    pub(crate) layout: Layout<'a>,
    /// The groups that this process judges, in order.
    pub(crate) share: Vec<usize>,
    signature: Signature,
    folder: Folder,
    /// The bytes of `run.json`.
    description: Vec<u8>,
    pub(crate) resumed: Resumed,
    _guard: Option<Lock>,
}

impl Run<'_> {
    /// The groups that are judged again because their calls were lost, in words; `None` if there are none.
    pub fn lost(&self) -> Option<&str> {
        self.resumed.lost.as_deref()
    }

    /// Judges the groups that the folder does not have yet, and finishes the folder.
    ///
    /// # Errors
    /// The errors of [`Task::run`].
    pub fn judge(mut self) -> Result<Outcome, Error> {
        let (complete, waiting) = self.by_state();
        let resumed = self.layout.n_units(&complete);
        self.judge_groups(waiting)?;
        let Self { config, layout, signature, folder, description, resumed: Resumed { sums, .. }, .. } =
            &self;
        let mut index = Index::new(&layout.units);
        index.add(&folder.path(JOURNAL), &layout.units)?;
        let summary = finish::summary(&index, signature, &config.cautions, sums)?;
        // It may have been removed while the run wrote to the folder, which cannot be read without it.
        folder.write(RUN, description)?;
        let summary = finish::write(folder, &index, summary)?;
        Ok(Outcome { summary, dir: config.out.clone(), resumed })
    }

    /// The groups of the share that are complete in the folder, and the others, each in order.
    pub(crate) fn by_state(&self) -> (Vec<usize>, Vec<usize>) {
        self.share.iter().partition(|group| self.resumed.groups.contains(group))
    }

    /// Judges some groups, `jobs` at a time; the first error of the disk stops it, and so does an engine that
    /// has stopped.
    ///
    /// # Errors
    /// [`Error::Append`], [`Error::Gone`], [`Error::Stopped`], [`Error::Differs`], [`Error::Interrupted`],
    /// [`Error::Input`].
    pub(crate) fn judge_groups(&mut self, groups: Vec<usize>) -> Result<(), Error> {
        let Self { config, layout, share, resumed, signature, .. } = self;
        let (panel, n_groups) = (layout.task.panel, groups.len());
        let units = layout.n_units(share);
        let done = units - layout.n_units(&groups);
        let method = registry::of_signature(signature);
        let answers = layout.task.judge.calls_per_unit(method.map(|method| method.calls)).typical;
        let extent = Extent { units, resumed: done, work: layout.estimate(&groups), answers };
        let progress = Arc::new(Meter::start(extent, config.progress.clone()));
        *config.writing.lock() = RunStatus { dir: Some(config.out.clone()), done, units, retained: None };
        let semaphore = PrioritySemaphore::new(config.questions);
        let queue = Queue::new(layout.queued(groups));
        let output = Output::new(resumed, &config.writing);
        let judge_turns = || {
            while let Some(turn) = queue.take() {
                progress.begun(turn.rank, layout.share(turn.group));
                let limited =
                    |llm| Arc::new(Limited::new(llm, &semaphore, &config.stop, &progress, turn.rank)) as _;
                let judged = layout.judge(turn.group, &panel.wrapped(limited))?;
                judged.check()?;
                let confirmed = panel.confirmed();
                progress.finished(turn.rank, &judged.records, &judged.calls);
                output.append(judged, confirmed)?;
            }
            Ok(())
        };
        let worker = || judge_turns().inspect_err(|_| queue.close());
        let jobs = config.jobs.clamp(1, n_groups.max(1));
        let results = progress.watched(&|| panel.computed(), || parallel::on_threads(jobs, worker));
        progress.finish();
        let errors = results.into_iter().filter_map(Result::err);
        // Verdicts may have to be taken back, whatever else has happened.
        match errors.min_by_key(|error| !matches!(error, Error::Differs { .. })) {
            None => output.finish()?,
            Some(Error::Interrupted(_)) => return Err(Error::Interrupted(config.writing.lock().clone())),
            Some(Error::Differs { reason, .. }) => {
                return Err(output.drop_unconfirmed(reason, &panel.confirmed())?);
            }
            Some(error) => return Err(error),
        }
        resumed.sums.cost.wall_seconds = progress.seconds();
        Ok(())
    }
}
