//! Verifies a run folder: verdicts are derived again from the recorded answers, files are checked for
//! consistency, and, if the model is available, calls are replayed bit by bit. It changes nothing in the
//! folder, and has the verdicts and calls of the groups in flight in memory, not those of the run.

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
    sync::Arc,
};

use parking_lot::Mutex;

use crate::{
    call::{CallLine, prompt_hash},
    calls::{self, Sums},
    description::RunFile,
    draw::shuffle,
    error::Error,
    groups::GroupId,
    grow::RETRY,
    journal::{self, JOURNAL, index::Index},
    layout::{Judged, Layout},
    lines::Lines,
    parallel,
    segment::{Segments as _, numbered},
    selection::Selection,
    task::Task,
};

mod difference;
mod folder;
mod named;
mod replay;

pub use difference::Difference;
use difference::{Differences, around};
use named::Named;
use replay::RecordedCalls;

/// Options of verifying a folder.
#[derive(Clone, Debug)]
pub struct Options {
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

/// Verifies a folder against its task: the judge and the input that `run.json` names, and the panel to replay
/// it on.
///
/// # Errors
/// [`Error::Unrecorded`] where the run kept no answers and no model is replayed; [`Error::Damaged`] for lines
/// that were changed; [`Error::Io`].
pub fn verify(dir: &Path, run: &RunFile, task: Task<'_>, options: &Options) -> Result<Report, Error> {
    let layout = Layout::new(task, &options.selection, options.seed, Some(run));
    let layout = Layout { retry_missing: run.signature.get(RETRY).is_some(), ..layout };
    let mut index = Index::new(&layout.units);
    let foreign = index.add_known(&dir.join(JOURNAL), &layout.units)?;
    let unjudged = folder::unjudged(run, &layout, &index);
    let is_done = unjudged == Some(0);
    let mut found = Differences::default();
    let folder = folder::Folder { dir, run, index: &index, layout: &layout, is_done };
    folder.odd_lines(&foreign, &mut found);
    folder.files(&mut found)?;
    let check = Check { index: &index, layout: &layout, replay: options.replay };
    let mut calls = CallsOfGroups::open(dir, &layout, chosen(&layout, &index, options))?;
    let checked = check.judge_again(&mut calls, options.jobs)?;
    let CallsOfGroups { lines, n_calls, sums, is_bare, differences, .. } = calls;
    if is_bare && options.replay == Replay::FromRecord {
        return Err(Error::Unrecorded(dir.into()));
    }
    found.join(checked.differences);
    found.join(differences);
    if lines.is_torn && is_done {
        let subject = "bytes behind the last call of a run that is finished";
        found.add("calls.jsonl", subject, "some", "none");
    }
    folder.summary(&sums, &mut found)?;
    let (differences, n_differences) = found.first();
    Ok(Report {
        derived: checked.n_units,
        verdicts: index.n_verdicts() + foreign.len(),
        read: checked.n_read,
        replayed: checked.n_replayed,
        calls: n_calls,
        unfinished: unjudged.unwrap_or(layout.units.len() - index.n_verdicts()),
        differences,
        n_differences,
    })
}

/// The groups that are judged again, by their names in calls: all that the journal has in full, or some of
/// them.
fn chosen(layout: &Layout<'_>, index: &Index, options: &Options) -> BTreeMap<String, usize> {
    let has_verdict = |unit: &u32| index.has(*unit as usize);
    let is_complete = |&group: &usize| layout.units.of_group(group).iter().all(has_verdict);
    let mut complete: Vec<usize> = (0..layout.groups.len()).filter(is_complete).collect();
    if let Some((n, seed)) = options.sample {
        shuffle(&mut complete, seed);
        complete.truncate(n);
    }
    complete.into_iter().map(|group| (layout.ids[group].to_string(), group)).collect()
}

/// The recorded calls of a group.
struct Recorded {
    group: usize,
    /// The number of the first line.
    line: usize,
    calls: Vec<CallLine>,
}

/// The recorded calls of a folder, group by group: all are checked and summed up, those of chosen groups
/// returned.
struct CallsOfGroups {
    lines: Lines<CallLine>,
    /// The first call of the next group, with its line number.
    ahead: Option<(usize, CallLine)>,
    /// Chosen groups of which no calls were found yet.
    left: BTreeMap<String, usize>,
    /// The names of all groups of the run, and of those seen so far.
    ids: HashSet<GroupId>,
    seen: HashSet<GroupId>,
    n_calls: usize,
    sums: Sums,
    /// True if a call has no question and answer.
    is_bare: bool,
    differences: Differences,
}

impl CallsOfGroups {
    fn open(dir: &Path, layout: &Layout<'_>, chosen: BTreeMap<String, usize>) -> Result<Self, Error> {
        Ok(Self {
            lines: calls::read(dir)?,
            ahead: None,
            left: chosen,
            ids: layout.ids.iter().copied().collect(),
            seen: HashSet::new(),
            n_calls: 0,
            sums: Sums::default(),
            is_bare: false,
            differences: Differences::default(),
        })
    }

    /// The next chosen group; those without any calls come last.
    fn next_group(&mut self) -> Result<Option<Recorded>, Error> {
        while let Some((line, first)) = self.next_call()? {
            let misplaced = self.misplaced(line, &first.group);
            self.differences.extend(misplaced);
            let id = first.group.clone();
            let mut calls = vec![first];
            while let Some((number, call)) = self.next_call()? {
                if call.group != id {
                    self.ahead = Some((number, call));
                    break;
                }
                calls.push(call);
            }
            if let Some(group) = self.left.remove(&id) {
                return Ok(Some(Recorded { group, line, calls }));
            }
        }
        let bare = self.left.pop_first();
        Ok(bare.map(|(_, group)| Recorded { group, line: self.n_calls + 1, calls: Vec::new() }))
    }

    fn next_call(&mut self) -> Result<Option<(usize, CallLine)>, Error> {
        if self.ahead.is_some() {
            return Ok(self.ahead.take());
        }
        let Some(call) = self.lines.next().transpose()? else { return Ok(None) };
        let number = self.lines.number;
        self.n_calls += 1;
        self.sums.add(&call);
        self.is_bare |= call.content.is_none();
        self.differences.extend(unlike_its_hash(number, &call));
        self.differences.extend(unlike_its_line(number, &call, &self.lines.json));
        self.differences.extend(named::uneven(number, &call));
        Ok(Some((number, call)))
    }

    /// Calls of a group that the run does not have, or that stand apart from the group's others.
    fn misplaced(&mut self, number: usize, group: &str) -> Option<Difference> {
        let derived = match GroupId::parse(group).filter(|id| self.ids.contains(id)) {
            Some(id) if self.seen.insert(id) => return None,
            Some(_) => "calls of this group stand together, elsewhere",
            None => "no such group",
        };
        let place = format!("calls.jsonl line {number}");
        Some(Difference::new(&place, "the group of a call", group, derived).at((number, 0)))
    }
}

/// Result of judging groups again.
#[derive(Default)]
struct Checked {
    differences: Differences,
    n_units: usize,
    n_read: usize,
    n_replayed: usize,
}

/// Context that groups are checked against.
struct Check<'a> {
    layout: &'a Layout<'a>,
    index: &'a Index,
    replay: Replay,
}

impl Check<'_> {
    /// Judges groups again, as many at a time as there are jobs.
    fn judge_again(&self, calls: &mut CallsOfGroups, jobs: usize) -> Result<Checked, Error> {
        let calls = Mutex::new(calls);
        let next = || calls.lock().next_group();
        let worker = || {
            let mut checked = Checked::default();
            while let Some(recorded) = next()? {
                checked.n_units += self.layout.units.of_group(recorded.group).len();
                self.judge(recorded, &mut checked)?;
            }
            Ok::<_, Error>(checked)
        };
        let mut sum = Checked::default();
        for checked in parallel::on_threads(jobs.max(1), worker) {
            let Checked { differences, n_units, n_read, n_replayed } = checked?;
            sum.differences.join(differences);
            sum.n_units += n_units;
            sum.n_read += n_read;
            sum.n_replayed += n_replayed;
        }
        Ok(sum)
    }

    /// Judges a group again from its calls.
    fn judge(&self, recorded: Recorded, checked: &mut Checked) -> Result<(), Error> {
        let Recorded { group, line, calls } = recorded;
        let panel = self.layout.task.panel;
        let named = Named::new(&calls);
        if calls.iter().any(|call| call.content.is_none()) {
            // Nothing but the verdicts can be compared.
            let judged = self.layout.judge(group, panel)?;
            checked.n_replayed += judged.calls.len();
            return self.compare(&judged, named, line, checked);
        }
        checked.n_read += calls.len();
        let models = Some(panel).filter(|_| self.replay == Replay::WithModel);
        let recorded = Arc::new(RecordedCalls::new(calls));
        let judged = self.layout.judge(group, &recorded.panel(panel, models))?;
        let (differences, n_replayed) = recorded.differences(&name(self.layout, group), line);
        checked.n_replayed += n_replayed;
        // Where the calls differ, so will the verdicts; the calls are the cause.
        if differences.is_empty() {
            return self.compare(&judged, named, line, checked);
        }
        checked.differences.extend(differences);
        Ok(())
    }

    /// Compares the verdicts on a group with those of the journal, and its calls, from `line` on, with the
    /// recorded ones.
    fn compare(
        &self,
        judged: &Judged,
        named: Named,
        line: usize,
        checked: &mut Checked,
    ) -> Result<(), Error> {
        for record in &judged.records {
            let derived = journal::json(record);
            let unit = self.layout.units.number(&record.key());
            let recorded = unit.map(|unit| self.index.json(unit)).transpose()?.flatten();
            let Some(recorded) = recorded.filter(|recorded| *recorded != derived) else { continue };
            let (recorded, derived) = around(&recorded, &derived);
            let seg = record.seg.map_or_else(String::new, |seg| format!(" {}", numbered(seg)));
            let place = format!("journal.jsonl: system `{}` document `{}`{seg}", record.system, record.doc);
            let subject = "the verdict that its recorded answers lead to";
            let difference = Difference::new(&place, subject, &recorded, &derived);
            checked.differences.push(difference.at((line, usize::MAX)));
        }
        checked.differences.extend(named.unlike(&judged.calls, line));
        Ok(())
    }
}

/// A call whose prompt is not the one that its hash was made of.
fn unlike_its_hash(number: usize, call: &CallLine) -> Option<Difference> {
    let hash = prompt_hash(&call.content.as_ref()?.chat);
    let place = format!("calls.jsonl line {number}");
    let subject = "the sha256 of the prompt";
    let difference = || Difference::new(&place, subject, &call.prompt_sha256, &hash).at((number, 0));
    (hash != call.prompt_sha256).then(difference)
}

/// A line that holds the call otherwise than a run writes it: with another field, or a number that is read as
/// a shorter one.
fn unlike_its_line(number: usize, call: &CallLine, line: &[u8]) -> Option<Difference> {
    let derived = serde_json::to_vec(call).ok()?;
    let (recorded, derived) = (String::from_utf8_lossy(line), String::from_utf8_lossy(&derived));
    let (recorded, derived) = (recorded != derived).then(|| around(&recorded, &derived))?;
    let place = format!("calls.jsonl line {number}");
    let subject = "the call as a run writes it";
    Some(Difference::new(&place, subject, &recorded, &derived).at((number, 0)))
}

fn name(layout: &Layout<'_>, group: usize) -> String {
    let first = layout.task.segments.outline(layout.groups[group].members[0]);
    format!("system `{}` document `{}` {}", first.system, first.doc, numbered(first.seg))
}
