//! Resumes a journal: which groups are complete, with their calls, and which are judged again.

use std::{
    collections::HashSet,
    io::{self, Write},
    path::Path,
};

use super::{JOURNAL, Journal, UnitFields};
use crate::{
    calls::{self, CallRetention, Sums, census::Census},
    error::Error,
    files,
    folder::{self, Folder},
    groups::GroupId,
    lines::{Kind, Lines, Span},
    record::Status,
    segment::corpus::read_at,
    units::Units,
};

/// Units without a verdict in a journal that is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Keep,
    /// Drop their groups, so that they are judged again.
    Drop,
}

/// A journal that is appended to, and the part of the run that it has.
pub struct Resumed {
    pub journal: Journal,
    /// Groups in which every unit has a record.
    pub groups: HashSet<usize>,
    pub sums: Sums,
    /// Groups that are judged again because of their calls, in words.
    pub lost: Option<String>,
}

/// Opens the journal of a folder for appending; `ids` are the names of the groups in its calls. Complete
/// groups are kept. A torn last line, groups that were cut short, groups in which something
/// [`Status::Failed`] and groups whose calls are damaged or missing are dropped, so that they are judged
/// again.
///
/// # Errors
/// [`Error::Damaged`] for a line before the last that is not a record, [`Error::Foreign`] for a unit that is
/// not in the input, [`Error::Io`].
pub fn resume(
    folder: &Folder,
    units: &Units,
    ids: &[GroupId],
    retention: CallRetention,
    missing: Missing,
) -> Result<Resumed, Error> {
    let path = folder.path(JOURNAL);
    let mut valid = ValidLines::read(&path, units, missing)?;
    let known: HashSet<GroupId> = ids.iter().copied().collect();
    let lost = valid.drop_lost(&Census::read(folder.dir(), |group| known.contains(&group))?, units, ids);
    let lines = valid.spans(units);
    if lines.iter().map(|span| u64::from(span.len) + 1).sum::<u64>() != valid.size {
        folder::replace(&path, |file| copy_lines(&path, file, &lines))?;
    }
    let complete: HashSet<GroupId> = valid.groups.iter().map(|&group| ids[group]).collect();
    let sums = calls::keep(folder.dir(), |group| complete.contains(&group), retention)?;
    Ok(Resumed { journal: Journal::open(folder.dir(), retention)?, groups: valid.groups, sums, lost })
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
    fn read(path: &Path, units: &Units, missing: Missing) -> Result<Self, Error> {
        let mut again: HashSet<usize> = HashSet::new();
        let mut spans: Vec<Option<(Span, usize)>> = vec![None; units.len()];
        let mut lines = Lines::<UnitFields>::open(path, Kind::Journal)?;
        while let Some(line) = lines.next() {
            let fields = line?;
            let (status, n_calls) = (fields.status, fields.n_calls);
            let key = fields.key();
            let Some(unit) = units.number(&key) else {
                return Err(Error::Foreign { path: path.into(), line: lines.number, key: Box::new(key) });
            };
            if spans[unit].replace((lines.span, n_calls)).is_some() {
                return Err(lines.damaged("this unit appears twice"));
            }
            if status == Status::Failed || (missing == Missing::Drop && status.is_of_the_answer()) {
                again.insert(units.group(unit));
            }
        }
        let has_line = |&unit: &u32| spans[unit as usize].is_some();
        let is_complete =
            |group: &usize| units.of_group(*group).iter().all(has_line) && !again.contains(group);
        let groups = (0..units.n_groups()).filter(is_complete).collect();
        Ok(Self { groups, lines: spans, size: lines.size })
    }

    /// Drops the groups of which calls are damaged or missing; which these are, in words.
    fn drop_lost(&mut self, census: &Census, units: &Units, ids: &[GroupId]) -> Option<String> {
        let n_calls = |&unit: &u32| self.lines[unit as usize].map_or(0, |(_, n)| n);
        let recorded = |group: usize| units.of_group(group).iter().map(n_calls).sum::<usize>();
        let is_lost = |&group: &usize| !census.has_all(ids[group], recorded(group));
        let lost: HashSet<usize> = self.groups.iter().copied().filter(is_lost).collect();
        let n_verdicts = lost.iter().map(|&group| units.of_group(group).len()).sum::<usize>();
        self.groups.retain(|group| !lost.contains(group));
        (!lost.is_empty()).then(|| census.message(lost.len(), n_verdicts))
    }

    /// The lines of the groups that are kept, as they stand in the file.
    fn spans(&self, units: &Units) -> Vec<Span> {
        let valid = (0..units.len()).filter(|&unit| self.groups.contains(&units.group(unit)));
        let mut lines: Vec<Span> = valid.filter_map(|unit| Some(self.lines[unit]?.0)).collect();
        lines.sort_unstable_by_key(|span| span.offset);
        lines
    }
}

/// Copies some lines of a file.
fn copy_lines(path: &Path, to: &mut dyn Write, lines: &[Span]) -> io::Result<()> {
    let file = files::open_own(path)?;
    lines.iter().try_for_each(|span| to.write_all(&read_at(&file, span.offset, span.len as usize + 1)?))
}
