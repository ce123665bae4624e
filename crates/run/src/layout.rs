//! A task divided into groups and units, and the judging of one group. Threads and files are elsewhere.

use crate::{
    call::CallLine,
    description::RunFile,
    error::Error,
    groups::{self, Group, GroupId},
    interrupt::RunStatus,
    judges::{self, Call, Panel, Unit, Verdict},
    llm::{self, Sampling},
    progress::GroupShare,
    record::{Record, UnitKey},
    segment::Segment,
    selection::Selection,
    task::Task,
    units::Units,
};

/// Added to the temperature when a unit without a verdict is judged again: at temperature 0 another seed has
/// no effect. The number is ours, and the same as that of [`judges::Retry::AGENT`].
const WARMER: f32 = 0.3;

/// Offset of the seed of such a question from the run's own: further than samples and tries go.
const OTHER_SEED: u64 = 1 << 48;

/// A task divided into groups and units.
pub struct Layout<'a> {
    pub task: Task<'a>,
    pub groups: Vec<Group>,
    /// The names of the groups in their calls.
    pub ids: Vec<GroupId>,
    pub units: Units,
    /// Ask once more about units whose answers could not be used.
    pub retry_missing: bool,
}

/// A group's records, and the calls that led to them.
pub struct Judged {
    pub records: Vec<Record>,
    pub calls: Vec<CallLine>,
}

impl Judged {
    /// Reason to stop the run in one of its calls: the engine has stopped or found its results wrong, or the
    /// run was cancelled. The group is then judged when the run is continued.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::Differs`], [`Error::Interrupted`].
    pub fn check(&self) -> Result<(), Error> {
        self.calls.iter().try_for_each(|call| match &call.error {
            Some(llm::Error::Stopped(reason)) => Err(Error::Stopped(reason.clone())),
            Some(llm::Error::Differs(reason)) => {
                Err(Error::Differs { reason: reason.clone(), dropped: 0, retained: 0 })
            }
            Some(llm::Error::Interrupted) => Err(Error::Interrupted(RunStatus::default())),
            _ => Ok(()),
        })
    }
}

impl<'a> Layout<'a> {
    /// The groups of the selected segments; segments of a document are apart as in the run that the folder
    /// holds already, if it holds one.
    pub fn new(task: Task<'a>, selection: &Selection, seed: u64, recorded: Option<&RunFile>) -> Self {
        let groups = groups::groups(task.segments, selection, task.judge.grouping, seed);
        let may_be_apart = recorded.is_none_or(|run| run.apart);
        let groups = if may_be_apart { groups::each_apart(groups, task.judge) } else { groups };
        let units = Units::new(task.segments, &groups, task.judge.unit);
        let ids = groups.iter().map(|group| group.id(task.segments)).collect();
        Self { task, groups, ids, units, retry_missing: false }
    }

    /// These groups in the order in which they are judged: that of the input, or source by source.
    pub fn queued(&self, mut groups: Vec<usize>) -> Vec<usize> {
        if self.task.judge.shares_sources {
            let sources = groups::first_of_source(self.task.segments);
            groups.sort_by_key(|&group| sources[self.groups[group].members[0]]);
        }
        groups
    }

    /// Number of units of some groups.
    pub fn n_units(&self, groups: &[usize]) -> usize {
        groups.iter().map(|&group| self.units.of_group(group).len()).sum()
    }

    /// The estimated work of some groups. Unit: tokens.
    pub fn estimate(&self, groups: &[usize]) -> usize {
        let of_group = |&group: &usize| groups::estimated_tokens(self.task.segments, &self.groups[group]);
        groups.iter().map(of_group).sum()
    }

    /// A group's part of the work.
    pub fn share(&self, group: usize) -> GroupShare {
        GroupShare { units: self.n_units(&[group]), work: self.estimate(&[group]), answers: 0 }
    }

    /// Judges one group.
    ///
    /// # Errors
    /// [`Error::Input`] when the texts cannot be read back.
    pub fn judge(&self, idx: usize, panel: &Panel) -> Result<Judged, Error> {
        let (group, judge) = (&self.groups[idx], self.task.judge);
        let members = group.read(self.task.segments)?;
        let panel = panel.fresh().wanting(&group.judged);
        let mut verdicts = judge.judge(&panel, &members);
        if self.retry_missing {
            self.judge_missing(group, &members, &panel, &mut verdicts);
        }
        let calls = panel.take_calls();
        let keys = UnitKey::of_group(&members, judge.unit);
        let n_calls = calls_of_units(&calls, keys.len());
        let records = Record::of_group(&members, judge, verdicts, &n_calls, &group.judged);
        let id = self.ids[idx].to_string();
        let calls = calls.into_iter().map(|call| CallLine::new(&id, &keys, call)).collect();
        Ok(Judged { records, calls })
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
        let (missing_units, missing): (Vec<usize>, Vec<usize>) = match self.task.judge.unit {
            Unit::Segment => {
                let missing: Vec<usize> = group.judged.iter().copied().filter(is_missing).collect();
                (missing.clone(), missing)
            }
            Unit::Group => (group.judged.clone(), Some(0).filter(is_missing).into_iter().collect()),
        };
        if missing.is_empty() {
            return;
        }
        let sampling = Sampling {
            temperature: panel.sampling.temperature + WARMER,
            seed: panel.sampling.seed.wrapping_add(OTHER_SEED),
            ..panel.sampling.clone()
        };
        let mut warmer = panel.wanting(&missing_units);
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
    let mut of_group = 0;
    for call in calls.iter().filter(|call| call.error.is_none()) {
        match call.unit.and_then(|unit| counts.get_mut(unit)) {
            Some(count) => *count += 1,
            None => of_group += 1,
        }
    }
    counts.iter().map(|count| count + of_group / n_units.max(1)).collect()
}
