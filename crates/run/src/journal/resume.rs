//! Resumes a journal: which groups are complete, with their calls, and which are judged again.

use std::{
    collections::HashSet,
    io::{self, Write},
    path::Path,
};

use super::{Done, End, JOURNAL, Journal, Line, Span, UnitFields, damaged, each_line, parse};
use crate::{
    Error,
    calls::{self, CallRetention, Calls, census::Census},
    files,
    folder::{self, Folder},
    groups::GroupId,
    record::Status,
    segment::corpus::read_at,
    units::Units,
};

/// Options of resuming a folder's journal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resume {
    pub keeping: CallRetention,
    /// Drop groups in which a unit has no verdict, so that they are judged again.
    pub drops_missing: bool,
}

/// The groups of a run for the journal.
#[derive(Clone, Copy)]
pub struct Groups<'a> {
    /// The units of the verdicts.
    pub units: &'a Units,
    /// By the number of the group: what its calls name it by.
    pub ids: &'a [GroupId],
}

/// Opens the journal of a folder for appending. Complete groups are kept. A torn last line, groups that were
/// cut short, groups in which something [`Status::Failed`] and groups whose calls are damaged or missing are
/// dropped, so that they are judged again.
///
/// # Errors
/// [`Error::Damaged`] for a line before the last that is not a record, [`Error::Foreign`] for a unit that is
/// not in the input, [`Error::Io`].
pub fn resume(folder: &Folder, of: Groups<'_>, how: Resume) -> Result<(Journal, Done), Error> {
    let path = folder.path(JOURNAL);
    let mut kept = ValidLines::read(&path, of.units, how)?;
    let known: HashSet<GroupId> = of.ids.iter().copied().collect();
    let lost = kept.drop_lost(&Census::of(folder.dir(), |group| known.contains(&group))?, of);
    let lines = kept.spans(of.units);
    if lines.iter().map(|span| u64::from(span.len) + 1).sum::<u64>() != kept.size {
        folder::replace(&path, |file| copy_lines(&path, file, &lines))?;
    }
    let ids: HashSet<GroupId> = kept.groups.iter().map(|&group| of.ids[group]).collect();
    let sums = calls::keep(folder.dir(), |group| ids.contains(&group), how.keeping)?;
    let records = files::append(&path)?;
    let journal = Journal { records, calls: Calls::open(folder.dir(), how.keeping)?, path };
    Ok((journal, Done { groups: kept.groups, sums, lost }))
}

/// The lines of a journal that are kept.
struct ValidLines {
    groups: HashSet<usize>,
    /// Line of each unit, by its number, and the number of its calls.
    lines: Vec<Option<(Span, usize)>>,
    /// Size of the whole file. Unit: bytes.
    size: u64,
}

impl ValidLines {
    fn read(path: &Path, units: &Units, how: Resume) -> Result<Self, Error> {
        let mut is_again: HashSet<usize> = HashSet::new();
        let mut lines: Vec<Option<(Span, usize)>> = vec![None; units.len()];
        let End { size, .. } = each_line(path, Line::Journal, |number, span, json| {
            let judged: UnitFields = parse(Line::Journal, path, number, json)?;
            let (status, n_calls) = (judged.status, judged.n_calls);
            let key = judged.key();
            let Some(unit) = units.number(&key) else {
                return Err(Error::Foreign { path: path.into(), line: number, key: Box::new(key) });
            };
            if lines[unit].replace((span, n_calls)).is_some() {
                return Err(damaged(Line::Journal, path, number, "this unit appears twice"));
            }
            if status == Status::Failed || (how.drops_missing && status.is_of_the_answer()) {
                is_again.insert(units.group(unit));
            }
            Ok(())
        })?;
        let has_line = |&unit: &u32| lines[unit as usize].is_some();
        let is_whole =
            |group: &usize| units.of_group(*group).iter().all(has_line) && !is_again.contains(group);
        let groups = (0..units.n_groups()).filter(is_whole).collect();
        Ok(Self { groups, lines, size })
    }

    /// Drops the groups of which calls are damaged or missing; which these are, in words.
    fn drop_lost(&mut self, census: &Census, of: Groups<'_>) -> Option<String> {
        let n_calls = |&unit: &u32| self.lines[unit as usize].map_or(0, |(_, n)| n);
        let told = |group: usize| of.units.of_group(group).iter().map(n_calls).sum::<usize>();
        let is_lost = |&group: &usize| !census.has_all(of.ids[group], told(group));
        let lost: HashSet<usize> = self.groups.iter().copied().filter(is_lost).collect();
        let n_verdicts = lost.iter().map(|&group| of.units.of_group(group).len()).sum::<usize>();
        self.groups.retain(|group| !lost.contains(group));
        (!lost.is_empty()).then(|| census.said(lost.len(), n_verdicts))
    }

    /// The lines of the groups that are kept, as they stand in the file.
    fn spans(&self, units: &Units) -> Vec<Span> {
        let kept = (0..units.len()).filter(|&unit| self.groups.contains(&units.group(unit)));
        let mut lines: Vec<Span> = kept.filter_map(|unit| Some(self.lines[unit]?.0)).collect();
        lines.sort_unstable_by_key(|span| span.offset);
        lines
    }
}

/// Copies some lines of a file.
fn copy_lines(path: &Path, to: &mut dyn Write, lines: &[Span]) -> io::Result<()> {
    let file = files::open_own(path)?;
    lines.iter().try_for_each(|span| to.write_all(&read_at(&file, span.offset, span.len as usize + 1)?))
}
