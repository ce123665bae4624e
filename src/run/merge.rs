//! Joins the folders of shards into one: the same `verdicts.jsonl` as an unsharded run, byte for byte. It takes the
//! shards as they are: of different counts, overlapping where they agree, and, if asked, not all of them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
};

use super::{
    Error, Outcome, Record, Summary, UnitKey, calls,
    description::{RUN, RunFile},
    finish::{self, in_order},
    folder::{Folder, json_lines},
    input,
    journal::{self, JOURNAL},
};

/// Whether units may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Need {
    #[default]
    Everything,
    /// What is there; the merged folder can be continued.
    WhatIsThere,
}

/// What came of a merge.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    pub outcome: Outcome,
    /// What no folder has, in words; `None` when nothing is missing.
    pub missing: Option<String>,
}

/// Joins shards into the folder `out`.
///
/// # Errors
/// [`Error::Strangers`] when signatures or inputs differ, [`Error::Contradiction`] when two folders hold different
/// verdicts on the same unit, [`Error::Incomplete`] when some unit is in none although everything is needed,
/// [`Error::Io`], [`Error::Damaged`].
pub fn merge(dirs: &[PathBuf], out: &Path, command: &[String], need: Need) -> Result<Merged, Error> {
    let runs: Vec<RunFile> = dirs.iter().map(|dir| RunFile::read(dir)).collect::<Result<_, _>>()?;
    let Some(first) = runs.first() else { return Err(Error::NoRun(out.into())) };
    for (dir, run) in dirs.iter().zip(&runs) {
        same_run(&dirs[0], first, dir, run)?;
    }
    let keys = first.keys();
    let found = collect(dirs, &keys)?;
    let missing = (found.lines.len() < keys.len()).then(|| incomplete(&found.lines, &keys, &runs));
    let missing = match missing {
        Some(error) if need == Need::Everything => return Err(error),
        missing => missing.map(|error| error.to_string()),
    };
    let folder = Folder::open(out)?;
    claim(&folder, first, command)?;
    if let Some(from) = dirs.iter().find(|dir| dir.join(input::INPUT).exists()) {
        input::carry_over(from, out)?;
    }
    let sums = calls::join(dirs, |dir, group| found.bringer.get(group).is_none_or(|own| *own == dir), out)?;
    let journal: String = found.lines.iter().map(|(_, line)| journal::sealed(line) + "\n").collect();
    folder.write(JOURNAL, journal.as_bytes())?;
    let records: Vec<Record> = found.lines.iter().map(|(record, _)| record.clone()).collect();
    let mut cost = sums.cost.clone();
    cost.wall_seconds =
        dirs.iter().filter_map(|dir| finish::read_summary(dir)).map(|s| s.cost.wall_seconds).sum();
    let summary = Summary::of(&records, &first.signature, &sums.questions(), cost);
    let summary = if missing.is_none() { finish::write(&folder, &found.lines, summary)? } else { summary };
    Ok(Merged { outcome: Outcome { resumed: records.len(), dir: out.into(), records, summary }, missing })
}

fn same_run(a_dir: &Path, a: &RunFile, b_dir: &Path, b: &RunFile) -> Result<(), Error> {
    let mut differences: Vec<String> =
        b.signature.differences(&a.signature).iter().map(|d| format!("\n  {d}")).collect();
    if a.input != b.input || a.units != b.units {
        differences.push("\n  they judged different inputs".into());
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(Error::Strangers { a: a_dir.into(), b: b_dir.into(), differences: differences.concat() })
}

/// Writes `run.json` as a run of the whole input would have it, or checks that the folder holds that run.
fn claim(folder: &Folder, first: &RunFile, command: &[String]) -> Result<(), Error> {
    let merged = RunFile { shard: "1/1".into(), share: None, merged: command.to_vec(), ..first.clone() };
    match RunFile::read(folder.dir()) {
        Ok(there) => same_run(folder.dir(), &there, folder.dir(), &merged)?,
        Err(Error::NoRun(_)) if folder.is_blank(JOURNAL) => {}
        Err(error) => return Err(error),
    }
    folder.write(RUN, &json_lines(std::slice::from_ref(&merged)))
}

/// What the journals of all folders hold.
struct Found {
    /// In verdict order.
    lines: Vec<(Record, String)>,
    /// Which folder brings the calls of a group that several judged, by the group's name.
    bringer: HashMap<String, usize>,
}

/// The lines of all journals in verdict order. Units that several folders judged must have the same line in each.
fn collect(dirs: &[PathBuf], keys: &[UnitKey]) -> Result<Found, Error> {
    let wanted: BTreeSet<&UnitKey> = keys.iter().collect();
    let mut found: BTreeMap<UnitKey, (usize, usize)> = BTreeMap::new();
    let mut apart: BTreeMap<UnitKey, (usize, usize)> = BTreeMap::new();
    let mut lines: Vec<(Record, String)> = Vec::new();
    let mut is_shared = false;
    for (at, dir) in dirs.iter().enumerate() {
        let path = dir.join(JOURNAL);
        for (line, (record, text)) in journal::records(&path)?.into_iter().enumerate() {
            let key = record.key();
            if !wanted.contains(&key) {
                return Err(Error::Foreign { path, line: line + 1, key: Box::new(key) });
            }
            match found.get(&key) {
                Some(&(_, place)) if lines[place].1 == text => is_shared = true,
                Some(&(other, _)) => {
                    apart.insert(key, (other, at));
                }
                None => {
                    found.insert(key, (at, lines.len()));
                    lines.push((record, text));
                }
            }
        }
    }
    // The order of a journal is chance; the order of the verdicts is not, so this always finds the same one.
    if let Some((key, (a, b))) = keys.iter().find_map(|key| Some((key, apart.get(key)?))) {
        return Err(Error::Contradiction { a: dirs[*a].clone(), b: dirs[*b].clone(), unit: name(key) });
    }
    let bringer = if is_shared { bringers(dirs)? } else { HashMap::new() };
    Ok(Found { lines: in_order(lines, keys), bringer })
}

/// The first folder that has calls of each group.
fn bringers(dirs: &[PathBuf]) -> Result<HashMap<String, usize>, Error> {
    let mut bringer = HashMap::new();
    for (at, dir) in dirs.iter().enumerate() {
        calls::each(dir, |_, call| {
            bringer.entry(call.group).or_insert(at);
        })?;
    }
    Ok(bringer)
}

fn incomplete(lines: &[(Record, String)], keys: &[UnitKey], runs: &[RunFile]) -> Error {
    let there: BTreeSet<UnitKey> = lines.iter().map(|(record, _)| record.key()).collect();
    let first = keys.iter().find(|key| !there.contains(key)).map_or_else(String::new, name);
    let count: usize = runs[0].shard.split('/').nth(1).and_then(|n| n.parse().ok()).unwrap_or(1);
    let given: BTreeSet<&str> = runs.iter().map(|run| run.shard.as_str()).collect();
    let absent: Vec<String> =
        (1..=count).map(|i| format!("{i}/{count}")).filter(|shard| !given.contains(shard.as_str())).collect();
    let shards =
        if absent.is_empty() { given.into_iter().collect::<Vec<_>>().join(", ") } else { absent.join(", ") };
    Error::Incomplete { missing: keys.len() - lines.len(), units: keys.len(), first, shards }
}

fn name(key: &UnitKey) -> String {
    let seg = key.seg.map_or_else(String::new, |seg| format!("{seg} "));
    format!("{seg}of document `{}` and system `{}`", key.doc, key.system)
}
