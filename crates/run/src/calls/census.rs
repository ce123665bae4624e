//! The groups whose calls are in a folder's file, and the damaged lines of it. It repairs nothing.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    path::{Path, PathBuf},
};

use crate::{call::CallLine, calls, error::Error, groups::GroupId, lines::Lines};

/// The calls of a folder, counted by group.
#[derive(Debug, Default)]
pub struct Census {
    /// The file, whether it is there or not.
    path: PathBuf,
    /// Calls that were answered.
    answered: HashMap<GroupId, usize>,
    /// Groups that a damaged line names, or else those before and after it, whose it may be; and groups whose
    /// calls stand apart.
    doubtful: HashSet<GroupId>,
    /// The first damaged line, and how many there are.
    damaged: Option<(usize, usize)>,
}

impl Census {
    /// Reads the calls of a folder of a run with these groups.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn read(dir: &Path, is_known: impl Fn(GroupId) -> bool) -> Result<Self, Error> {
        let path = calls::path(dir).unwrap_or_else(|| dir.join(calls::NAMES[0]));
        let mut census = Self { path, ..Self::default() };
        let (mut before, mut is_after_damage) = (None, false);
        let mut lines = calls::lines::<CallLine>(dir)?;
        while lines.advance()? {
            let Some((group, is_answered)) = intact(&lines) else {
                census.damaged.get_or_insert((lines.number, 0)).1 += 1;
                let named: Vec<GroupId> = named(&lines.json).filter(|group| is_known(*group)).collect();
                if named.is_empty() {
                    census.doubtful.extend(before);
                    is_after_damage = true;
                }
                census.doubtful.extend(named);
                continue;
            };
            let n_answered = census.answered.entry(group);
            let is_apart = before != Some(group) && matches!(n_answered, Entry::Occupied(_));
            *n_answered.or_default() += usize::from(is_answered);
            if is_after_damage || is_apart {
                census.doubtful.insert(group);
            }
            (before, is_after_damage) = (Some(group), false);
        }
        Ok(census)
    }

    /// Returns true if a group has so many answered calls, and none of them may be damaged.
    pub fn has_all(&self, group: GroupId, recorded: usize) -> bool {
        let answered = self.answered.get(&group).copied().unwrap_or(0);
        answered >= recorded && !self.doubtful.contains(&group)
    }

    /// Message that so many groups, with so many verdicts, are judged again.
    pub fn message(&self, n_groups: usize, n_verdicts: usize) -> String {
        let path = self.path.display();
        let damage = match self.damaged {
            None => "lacks calls that the journal tells of".to_owned(),
            Some((line, 1)) => format!("line {line} is damaged"),
            Some((line, n)) => format!("line {line} and {} more are damaged", n - 1),
        };
        let group = if n_groups == 1 { "group" } else { "groups" };
        let verdict = if n_verdicts == 1 { "verdict" } else { "verdicts" };
        format!("`{path}` {damage}: {n_groups} {group} with {n_verdicts} {verdict} will be judged again")
    }
}

/// The group of a line, and whether the call was answered; `None` for a line that no run writes.
fn intact(line: &Lines<CallLine>) -> Option<(GroupId, bool)> {
    let call: CallLine = line.parse().ok()?;
    let group = GroupId::parse(&call.group)?;
    call.is_intact().then_some((group, call.error.is_none()))
}

/// Beginning of a line, up to the group's name.
const HEAD: &[u8] = b"{\"group\":\"";

/// Digits of a group's name.
const DIGITS: usize = 16;

/// The groups that a damaged line names: two where a line end was lost. Inside of texts, quotes are escaped.
fn named(line: &[u8]) -> impl Iterator<Item = GroupId> + '_ {
    let heads = line.windows(HEAD.len() + DIGITS).filter(|window| window.starts_with(HEAD));
    heads.filter_map(|window| GroupId::parse(std::str::from_utf8(&window[HEAD.len()..]).ok()?))
}
