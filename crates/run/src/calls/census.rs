//! The groups whose calls are in a folder's file, and the damaged lines of it. It repairs nothing.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    path::{Path, PathBuf},
};

use super::{PLACES, each_line, place};
use crate::{Error, call::CallLine, groups::GroupId};

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
    pub fn of(dir: &Path, is_known: impl Fn(GroupId) -> bool) -> Result<Self, Error> {
        let mut census = Self { path: dir.join(PLACES[0]), ..Self::default() };
        let Some(path) = place(dir) else { return Ok(census) };
        let (mut before, mut is_after_damage) = (None, false);
        let read = each_line(&path, |number, line| {
            let Some((group, is_answered)) = intact(line) else {
                census.damaged.get_or_insert((number, 0)).1 += 1;
                let named: Vec<GroupId> = named(line).filter(|group| is_known(*group)).collect();
                if named.is_empty() {
                    census.doubtful.extend(before);
                    is_after_damage = true;
                }
                census.doubtful.extend(named);
                return Ok(());
            };
            let n_answered = census.answered.entry(group);
            let is_apart = before != Some(group) && matches!(n_answered, Entry::Occupied(_));
            *n_answered.or_default() += usize::from(is_answered);
            if is_after_damage || is_apart {
                census.doubtful.insert(group);
            }
            (before, is_after_damage) = (Some(group), false);
            Ok(())
        });
        match read {
            Ok(_) => Ok(Self { path, ..census }),
            Err(source) => Err(Error::Io { action: "read", path, source }),
        }
    }

    /// Returns true if a group has so many answered calls, and none of them may be damaged.
    #[must_use]
    pub fn has_all(&self, group: GroupId, told: usize) -> bool {
        let there = self.answered.get(&group).copied().unwrap_or(0);
        there >= told && !self.doubtful.contains(&group)
    }

    /// Message that so many groups, with so many verdicts, are judged again.
    #[must_use]
    pub fn said(&self, n_groups: usize, n_verdicts: usize) -> String {
        let path = self.path.display();
        let what = match self.damaged {
            None => "lacks calls that the journal tells of".to_owned(),
            Some((line, 1)) => format!("line {line} is damaged"),
            Some((line, n)) => format!("line {line} and {} more are damaged", n - 1),
        };
        let group = if n_groups == 1 { "group" } else { "groups" };
        let verdict = if n_verdicts == 1 { "verdict" } else { "verdicts" };
        format!("`{path}` {what}: {n_groups} {group} with {n_verdicts} {verdict} will be judged again")
    }
}

/// The group of a line, and whether the call was answered; `None` for a line that no run writes.
fn intact(line: &[u8]) -> Option<(GroupId, bool)> {
    let call: CallLine = serde_json::from_slice(line).ok()?;
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
