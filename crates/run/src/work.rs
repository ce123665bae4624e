//! The work of a run: groups are judged in parallel on plain threads and journalled as soon as they are done.
//! Forming groups and processing their records happen elsewhere.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use super::{
    Error, Record, RunConfig, RunStatus, Task, UnitKey,
    call::CallLine,
    calls::Sums,
    groups::{self, Group, GroupId},
    journal::{Done, Groups, Journal},
    progress::{Extent, Meter},
    semaphore::{Limited, PrioritySemaphore},
    units::Units,
    written::Written,
};
use crate::{
    judges::{self, Call, Panel, Unit, Verdict},
    llm::{self, Sampling},
    segment::Segment,
};

/// Added to the temperature when a unit without a verdict is judged again: at temperature 0 another seed has
/// no effect. The number is ours, and the same as that of [`judges::Retry::AGENT`].
const WARMER: f32 = 0.3;

/// Offset of the seed of such a question from the run's own: further than samples and tries go.
const OTHER_SEED: u64 = 1 << 48;

/// Context of the threads that judge groups.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    pub task: Task<'a>,
    pub groups: &'a [Group],
    pub units: &'a Units,
    pub ids: &'a [GroupId],
    pub retry_missing: bool,
}

impl<'a> Work<'a> {
    /// The groups for the journal.
    #[must_use]
    pub fn known(&self) -> Groups<'a> {
        Groups { units: self.units, ids: self.ids }
    }

    /// Judges the remaining groups, `jobs` at a time; the first error of the disk stops it, and so does an
    /// engine that has stopped.
    ///
    /// # Errors
    /// [`Error::Append`], [`Error::Gone`], [`Error::Stopped`], [`Error::Differs`], [`Error::Interrupted`],
    /// [`Error::Input`].
    pub fn run_all(
        &self,
        mine: &[usize],
        (journal, done): (Journal, Done),
        config: &RunConfig,
    ) -> Result<Sums, Error> {
        let waiting: Vec<usize> = mine.iter().copied().filter(|group| !done.groups.contains(group)).collect();
        let n_units =
            |groups: &[usize]| groups.iter().map(|&group| self.units.of_group(group).len()).sum::<usize>();
        let units = n_units(mine);
        let resumed = units - n_units(&waiting);
        let work = waiting.iter().map(|&group| self.estimate(group)).sum();
        let progress = Arc::new(Meter::start(Extent { units, resumed, work }, config.progress.clone()));
        *config.writing.lock() =
            RunStatus { dir: Some(config.out.clone()), done: resumed, units, retained: None };
        let semaphore = PrioritySemaphore::new(config.questions);
        let shared = Mutex::new(Written::new(journal, done.sums));
        let (next, stop, over) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicBool::new(false));
        let worker = || {
            loop {
                let rank = next.fetch_add(1, Ordering::Relaxed);
                let Some(&group) = waiting.get(rank).filter(|_| !stop.load(Ordering::Relaxed)) else {
                    return Ok(());
                };
                let limited =
                    |llm| Arc::new(Limited::new(llm, &semaphore, &config.stop, &progress, rank)) as _;
                let judged = self.judge(group, &self.task.panel.wrapped(limited)).inspect_err(|_| {
                    stop.store(true, Ordering::Relaxed);
                })?;
                if let Some(error) = ended(&judged.1) {
                    // The rest is judged when the run is continued.
                    stop.store(true, Ordering::Relaxed);
                    return Err(error);
                }
                let confirmed = self.task.panel.confirmed();
                let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
                progress.finished(&judged.0, &judged.1, self.estimate(group));
                if let Err(error) = shared.append(judged, confirmed, config) {
                    stop.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        };
        let finished: Result<(), Error> = std::thread::scope(|scope| {
            let jobs = config.jobs.clamp(1, waiting.len().max(1));
            let watching = scope.spawn(|| progress.watch(&over, &|| self.task.panel.computed()));
            let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(worker)).collect();
            let results = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|panic| {
                    over.store(true, Ordering::Relaxed);
                    std::panic::resume_unwind(panic)
                })
            });
            let mut results = results.collect::<Vec<Result<(), Error>>>();
            // Verdicts may have to be taken back, whatever else has happened.
            results.sort_by_key(|result| !matches!(result, Err(Error::Differs { .. })));
            over.store(true, Ordering::Relaxed);
            watching.thread().unpark();
            results.into_iter().collect()
        });
        progress.finish();
        let shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut sums = self.end(shared, finished, config)?;
        sums.cost.wall_seconds = progress.seconds();
        Ok(sums)
    }

    /// Ends the journal once all threads have ended, and with them the number of verdicts.
    fn end(
        &self,
        mut written: Written,
        finished: Result<(), Error>,
        config: &RunConfig,
    ) -> Result<Sums, Error> {
        match finished {
            Err(Error::Interrupted(_)) => return Err(Error::Interrupted(config.writing.lock().clone())),
            Err(Error::Differs { reason, .. }) => {
                return Err(written.drop_unconfirmed(reason, self.task.panel, config)?);
            }
            finished => finished?,
        }
        written.journal.sync()?;
        Ok(written.sums)
    }

    /// The estimated work of a group, in tokens.
    #[must_use]
    pub fn estimate(&self, group: usize) -> usize {
        groups::estimated_tokens(self.task.segments, &self.groups[group])
    }

    /// Judges one group: its records, and the calls that led to them.
    ///
    /// # Errors
    /// [`Error::Input`] when the texts cannot be read back.
    pub fn judge(&self, idx: usize, panel: &Panel) -> Result<(Vec<Record>, Vec<CallLine>), Error> {
        let (group, judge) = (&self.groups[idx], self.task.judge);
        let members = group.read(self.task.segments)?;
        let panel = panel.fresh().wanting(&group.wanted);
        let mut verdicts = judge.judge(&panel, &members);
        if self.retry_missing {
            self.judge_missing(group, &members, &panel, &mut verdicts);
        }
        let calls = panel.take_calls();
        let keys = UnitKey::of_group(&members, judge.unit);
        let n_calls = calls_of_units(&calls, keys.len());
        let records = Record::of_group(&members, judge, verdicts, &n_calls, &group.wanted);
        let id = self.ids[idx].to_string();
        let calls = calls.into_iter().map(|call| CallLine::new(&id, &keys, call)).collect();
        Ok((records, calls))
    }

    /// Asks once more, at another seed and warmer, about the units whose answers could not be used. A unit
    /// that has no verdict after that keeps its first reason.
    fn judge_missing(
        &self,
        group: &Group,
        members: &[Segment],
        panel: &Panel,
        verdicts: &mut [Result<Verdict, judges::Error>],
    ) {
        let is_missing = |at: &usize| {
            verdicts.get(*at).is_some_and(|v| v.as_ref().is_err_and(judges::Error::is_of_the_answer))
        };
        let (asked, missing): (Vec<usize>, Vec<usize>) = match self.task.judge.unit {
            Unit::Segment => {
                let missing: Vec<usize> = group.wanted.iter().copied().filter(is_missing).collect();
                (missing.clone(), missing)
            }
            Unit::Group => (group.wanted.clone(), Some(0).filter(is_missing).into_iter().collect()),
        };
        if missing.is_empty() {
            return;
        }
        let sampling = Sampling {
            temperature: panel.sampling.temperature + WARMER,
            seed: panel.sampling.seed.wrapping_add(OTHER_SEED),
            ..panel.sampling.clone()
        };
        let mut warmer = panel.wanting(&asked);
        warmer.sampling = sampling;
        let mut again = self.task.judge.judge(&warmer, members);
        for at in missing {
            let better = again.get_mut(at).filter(|verdict| verdict.is_ok());
            if let (Some(first), Some(better)) = (verdicts.get_mut(at), better) {
                std::mem::swap(first, better);
            }
        }
    }
}

/// Number of calls of each unit: its own, and its share of those about the whole group. Calls that the model
/// rejected before it read them do not count.
fn calls_of_units(calls: &[Call], n_units: usize) -> Vec<usize> {
    let mut counts = vec![0; n_units];
    let mut whole = 0;
    for call in calls.iter().filter(|call| call.error.is_none()) {
        match call.unit.and_then(|unit| counts.get_mut(unit)) {
            Some(count) => *count += 1,
            None => whole += 1,
        }
    }
    counts.iter().map(|count| count + whole / n_units.max(1)).collect()
}

/// Reason to stop the run in one of its calls: the engine has stopped or found its results wrong, or the run
/// was cancelled.
fn ended(calls: &[CallLine]) -> Option<Error> {
    calls.iter().find_map(|call| match &call.error {
        Some(llm::Error::Stopped(reason)) => Some(Error::Stopped(reason.clone())),
        Some(llm::Error::Differs(reason)) => {
            Some(Error::Differs { reason: reason.clone(), dropped: 0, retained: 0 })
        }
        Some(llm::Error::Interrupted) => Some(Error::Interrupted(RunStatus::default())),
        _ => None,
    })
}
