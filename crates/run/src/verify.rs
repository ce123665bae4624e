//! Verifies a run folder: verdicts are derived again from the recorded answers, files are checked for
//! consistency, and, if the model is available, calls are replayed bit by bit. It changes nothing in the
//! folder, and has the verdicts and calls of the groups in flight in memory, not those of the run.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::Path,
    sync::{Arc, Mutex, PoisonError, mpsc},
};

use super::{
    Error, Record, RunFile, Selection, Task,
    call::{CallLine, prompt_hash},
    calls::{self, Sums},
    draw::shuffle,
    groups::{self, Group, GroupId},
    journal::{self, Index, JOURNAL},
    units::Units,
    work::Work,
};
use crate::segment::{Segments as _, numbered};

mod folder;
mod found;
mod named;
mod replay;

use found::Differences;
use named::Named;
use replay::{RecordedCalls, Replayed};

/// Options of verifying a folder.
#[derive(Clone, Debug)]
pub struct How {
    pub selection: Selection,
    /// Draws the documents of a group, as when the run was made.
    pub seed: u64,
    /// So many groups, drawn by this seed; `None` for all of them.
    pub sample: Option<(usize, u64)>,
    pub replay: Replay,
    /// Groups in flight.
    pub jobs: usize,
}

/// Replay of the panel's models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    WithModel,
    /// The recorded answers stand for the models.
    FromRecord,
}

/// Result of verifying a folder.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Verdicts derived again, and those in the folder.
    pub derived: usize,
    pub verdicts: usize,
    /// Calls whose answers were read again, those of them that a model answered again, and those in the
    /// folder.
    pub read: usize,
    pub replayed: usize,
    pub calls: usize,
    /// Units that the run has not judged yet.
    pub unfinished: usize,
    /// The first differences, in the order of the record.
    pub differences: Vec<Difference>,
    pub n_differences: usize,
}

/// A difference between a folder's records and the re-derived values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The file and the line or field.
    pub place: String,
    pub what: String,
    pub there: String,
    pub here: String,
    /// Sort key among the differences.
    rank: (usize, usize),
}

impl Difference {
    /// A difference between the recorded value (`there`) and the derived one (`here`).
    #[must_use]
    pub fn new(place: &str, what: &str, there: &str, here: &str) -> Self {
        let text = str::to_owned;
        Self { place: place.into(), what: what.into(), there: text(there), here: text(here), rank: (0, 0) }
    }

    /// Renames the object of the difference.
    #[must_use]
    pub fn about(self, what: String) -> Self {
        Self { what, ..self }
    }

    fn at(self, rank: (usize, usize)) -> Self {
        Self { rank, ..self }
    }
}

/// A group's recorded calls, with the number of the first line.
type Recorded = (usize, Vec<CallLine>);

/// Verifies a folder against its task: the judge and the input that `run.json` names, and the panel to replay
/// it on.
///
/// # Errors
/// [`Error::Unrecorded`] where the run kept no answers and no model is replayed; [`Error::Damaged`] for lines
/// that were changed; [`Error::Io`].
pub fn verify(dir: &Path, run: &RunFile, task: Task<'_>, how: &How) -> Result<Report, Error> {
    let groups = groups::groups(task.segments, &how.selection, task.judge.grouping, how.seed);
    let groups = if run.apart { groups::each_apart(groups, task.judge) } else { groups };
    let units = Units::of(task.segments, &groups, task.judge.unit);
    let ids: Vec<GroupId> = groups.iter().map(|group| group.id(task.segments)).collect();
    let retry_missing = run.signature.get(super::grow::RETRY).is_some();
    let work = Work { task, groups: &groups, units: &units, ids: &ids, retry_missing };
    let mut index = Index::new(&units);
    let foreign = index.add_known(&dir.join(JOURNAL), &units)?;
    let unjudged = folder::unjudged(run, &work, &index);
    let mut report = Report {
        verdicts: index.len() + foreign.len(),
        unfinished: unjudged.unwrap_or(units.len() - index.len()),
        ..Report::default()
    };
    let mut found = Differences::default();
    let is_done = unjudged == Some(0);
    let folder = folder::Folder { dir, run, index: &index, work: &work, is_done };
    folder.odd_lines(&foreign, &mut found);
    folder.files(&mut found)?;
    let chosen = chosen(&work, &index, how);
    let ids = ids.iter().copied().collect();
    let check = Check { index: &index, chosen, ids, work, replay: how.replay, is_done };
    let (sums, more) = check.run_all(dir, how.jobs, &mut report)?;
    found.join(more);
    folder.summary(&sums, &mut found)?;
    (report.differences, report.n_differences) = found.told();
    Ok(report)
}

/// The groups that are judged again: all that the journal has in full, or some of them.
fn chosen(work: &Work<'_>, index: &Index, how: &How) -> BTreeMap<String, usize> {
    let is_there = |unit: &u32| index.has(*unit as usize);
    let mut whole: Vec<usize> =
        (0..work.groups.len()).filter(|&group| work.units.of_group(group).iter().all(is_there)).collect();
    if let Some((n, seed)) = how.sample {
        shuffle(&mut whole, seed);
        whole.truncate(n);
    }
    whole.into_iter().map(|group| (work.ids[group].to_string(), group)).collect()
}

/// Context that groups are checked against.
struct Check<'a> {
    work: Work<'a>,
    index: &'a Index,
    chosen: BTreeMap<String, usize>,
    /// The names of all groups of the run.
    ids: HashSet<GroupId>,
    replay: Replay,
    is_done: bool,
}

impl Check<'_> {
    /// Goes through the recorded calls once, group by group, and judges those that are chosen again.
    fn run_all(&self, dir: &Path, jobs: usize, report: &mut Report) -> Result<(Sums, Differences), Error> {
        let found = Mutex::new(Differences::default());
        let counts = Mutex::new((0, 0, 0));
        let failed = Mutex::new(None);
        let (sender, receiver) = mpsc::sync_channel::<(usize, Recorded)>(jobs.max(1));
        let receiver = Mutex::new(receiver);
        let worker = || {
            loop {
                let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok((group, recorded)) = next else { return };
                let (differences, n_read, n_replayed) = match self.judge(group, recorded) {
                    Ok(judged) => judged,
                    Err(error) => {
                        failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                        continue;
                    }
                };
                found.lock().unwrap_or_else(PoisonError::into_inner).extend(differences);
                let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
                *counts = (
                    counts.0 + self.work.units.of_group(group).len(),
                    counts.1 + n_read,
                    counts.2 + n_replayed,
                );
            }
        };
        let read = std::thread::scope(|scope| {
            for _ in 0..jobs.max(1) {
                scope.spawn(worker);
            }
            // Dropped when all is read, which ends the workers.
            let sender = sender;
            self.read(dir, &sender)
        });
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Read { sums, calls, differences } = read?;
        found.join(differences);
        let (derived, read, replayed) = counts.into_inner().unwrap_or_else(PoisonError::into_inner);
        *report = Report { derived, read, replayed, calls, ..report.clone() };
        Ok((sums, found))
    }

    /// Reads the calls and sends each chosen group with its own; those without any come last.
    fn read(&self, dir: &Path, sender: &mpsc::SyncSender<(usize, Recorded)>) -> Result<Read, Error> {
        let mut read = Read::default();
        let mut left: BTreeSet<&str> = self.chosen.keys().map(String::as_str).collect();
        let mut open: Option<(String, Recorded)> = None;
        let mut is_bare = false;
        let mut seen: HashSet<GroupId> = HashSet::new();
        let mut send = |open: Option<(String, Recorded)>| {
            let Some((id, recorded)) = open else { return };
            if let Some(group) = self.chosen.get(&id).filter(|_| left.remove(id.as_str())) {
                let _ = sender.send((*group, recorded)); // ends only with this loop
            }
        };
        let is_torn = calls::each_parsed(dir, |number, call: CallLine, line| {
            if open.as_ref().is_none_or(|(id, _)| *id != call.group) {
                read.differences.extend(self.misplaced(number, &call.group, &mut seen));
            }
            read.calls += 1;
            read.sums.add(&call);
            is_bare |= call.content.is_none();
            read.differences.extend(unlike_its_hash(number, &call));
            read.differences.extend(unlike_its_line(number, &call, line));
            read.differences.extend(named::uneven(number, &call));
            match &mut open {
                Some((id, (_, calls))) if *id == call.group => calls.push(call),
                _ => send(open.replace((call.group.clone(), (number, vec![call])))),
            }
        })?;
        send(open.take());
        if is_torn && self.is_done {
            let (place, what) = ("calls.jsonl", "bytes behind the last call of a run that is finished");
            read.differences.push(Difference::new(place, what, "some", "none"));
        }
        if is_bare && self.replay == Replay::FromRecord {
            return Err(Error::Unrecorded(dir.into()));
        }
        for id in left {
            let _ = sender.send((self.chosen[id], (read.calls + 1, Vec::new())));
        }
        Ok(read)
    }

    /// Calls of a group that the run does not have, or that stand apart from the group's others.
    fn misplaced(&self, number: usize, group: &str, seen: &mut HashSet<GroupId>) -> Option<Difference> {
        let here = match GroupId::parse(group).filter(|id| self.ids.contains(id)) {
            Some(id) if seen.insert(id) => return None,
            Some(_) => "calls of this group stand together, elsewhere",
            None => "no such group",
        };
        let place = format!("calls.jsonl line {number}");
        Some(Difference::new(&place, "the group of a call", group, here).at((number, 0)))
    }

    /// Judges a group again from its calls; what differs, the calls read, and those replayed.
    fn judge(
        &self,
        group: usize,
        (line, recorded): Recorded,
    ) -> Result<(Vec<Difference>, usize, usize), Error> {
        let is_bare = recorded.iter().any(|call| call.content.is_none());
        let named = Named::of(&recorded);
        let n_read = recorded.len();
        let models = (self.replay == Replay::WithModel).then(|| self.work.task.panel.clone());
        if is_bare {
            // Nothing but the verdicts can be compared.
            let (records, calls) = self.work.judge(group, self.work.task.panel)?;
            let mut differences = self.compare(&records, line)?;
            if differences.is_empty() {
                differences.extend(named.unlike(&calls, line));
            }
            return Ok((differences, 0, calls.len()));
        }
        let recorded_calls = Arc::new(RecordedCalls::of(recorded));
        let panel = Replayed { recorded_calls: recorded_calls.clone(), models }.panel(self.work.task.panel);
        let (records, calls) = self.work.judge(group, &panel)?;
        let of = name(&self.work, group);
        let (mut differences, n_replayed) = recorded_calls.differences(&of, line);
        // Where the calls differ, so will the verdicts; the calls are the cause.
        if differences.is_empty() {
            differences = self.compare(&records, line)?;
            differences.extend(named.unlike(&calls, line));
        }
        Ok((differences, n_read, n_replayed))
    }

    fn compare(&self, records: &[Record], line: usize) -> Result<Vec<Difference>, Error> {
        let mut differences = Vec::new();
        for record in records {
            let json = journal::json(record);
            let unit = self.work.units.number(&record.key());
            let there = unit.map(|unit| self.index.json(unit)).transpose()?.flatten();
            let Some(there) = there else { continue };
            if json != there {
                let (there, here) = around(&there, &json);
                let seg = record.seg.map_or_else(String::new, |seg| format!(" {}", numbered(seg)));
                let place =
                    format!("journal.jsonl: system `{}` document `{}`{seg}", record.system, record.doc);
                let what = "the verdict that its recorded answers lead to";
                differences.push(Difference::new(&place, what, &there, &here).at((line, usize::MAX)));
            }
        }
        Ok(differences)
    }
}

/// Totals of reading the calls.
#[derive(Default)]
struct Read {
    sums: Sums,
    calls: usize,
    differences: Differences,
}

/// A call whose prompt is not the one that its hash was made of.
fn unlike_its_hash(number: usize, call: &CallLine) -> Option<Difference> {
    let hash = prompt_hash(&call.content.as_ref()?.chat);
    let place = format!("calls.jsonl line {number}");
    let differs = hash != call.prompt_sha256;
    let what = "the sha256 of the prompt";
    differs.then(|| Difference::new(&place, what, &call.prompt_sha256, &hash).at((number, 0)))
}

/// A line that holds the call otherwise than a run writes it: with another field, or a number that is read as
/// a shorter one.
fn unlike_its_line(number: usize, call: &CallLine, line: &[u8]) -> Option<Difference> {
    let here = serde_json::to_vec(call).ok()?;
    let (there, here) = (String::from_utf8_lossy(line), String::from_utf8_lossy(&here));
    let (shown_there, shown_here) = (there != here).then(|| around(&there, &here))?;
    let place = format!("calls.jsonl line {number}");
    let what = "the call as a run writes it";
    Some(Difference::new(&place, what, &shown_there, &shown_here).at((number, 0)))
}

fn name(work: &Work<'_>, group: usize) -> String {
    let Group { members, .. } = &work.groups[group];
    let first = work.task.segments.outline(members[0]);
    format!("system `{}` document `{}` {}", first.system, first.doc, numbered(first.seg))
}

/// Two texts from shortly before the first character at which they differ.
fn around(a: &str, b: &str) -> (String, String) {
    const BEFORE: usize = 30;
    const SHOWN: usize = 100;
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(BEFORE);
    let cut = |text: &str| {
        let part: String = text.chars().skip(from).take(SHOWN).collect();
        let before = if from > 0 { "…" } else { "" };
        let after = if text.chars().count() > from + SHOWN { "…" } else { "" };
        format!("{before}{part}{after}")
    };
    (cut(a), cut(b))
}
