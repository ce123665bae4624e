//! Joins the folders of shards into one: the same `verdicts.jsonl` as an unsharded run, byte for byte. Shards
//! may have different counts, may overlap where they agree, and need not be complete if that is allowed.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
};

use crate::{
    calls::{self, CallCost},
    checksum::with_checksum,
    complete,
    description::{RUN, RunFile},
    error::Error,
    finish,
    folder::{self, Folder, json_lines},
    groups::{GroupId, Shard},
    input,
    journal::{JOURNAL, index::Index},
    outcome::Outcome,
    own,
    record::UnitKey,
    units::Units,
};

/// Treatment of missing units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Need {
    #[default]
    Everything,
    /// Merge the existing units; the merged folder can be continued.
    WhatIsThere,
}

/// Result of a merge.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    pub outcome: Outcome,
    /// The units that are in no folder, in words; `None` when nothing is missing.
    pub missing: Option<String>,
}

/// Joins shards into the folder `out`.
///
/// # Errors
/// [`Error::DifferentRuns`] when signatures or inputs differ, [`Error::Contradiction`] when two folders hold
/// different verdicts on the same unit, [`Error::Incomplete`] when some unit is in none although everything
/// is needed, [`Error::CallsMissing`] when a folder has not all calls that its verdicts count,
/// [`Error::NoInput`] when no folder has the copy of the input, [`Error::Changed`], [`Error::Io`],
/// [`Error::Damaged`].
pub fn merge(dirs: &[PathBuf], out: &Path, command: &[String], need: Need) -> Result<Merged, Error> {
    let Some(first_dir) = dirs.first() else { return Err(Error::NoRun(out.into())) };
    let first = &RunFile::read(first_dir)?;
    let mut shards: Vec<String> = Vec::with_capacity(dirs.len());
    for dir in dirs {
        // Each lists the units of the whole run; one such list at a time is enough.
        let run = RunFile::read(dir)?;
        same_run(first_dir, first, dir, &run)?;
        shards.push(run.shard);
    }
    let units = Units::listed(first.keys());
    let mut index = Index::new(&units);
    dirs.iter().try_for_each(|dir| index.add(&dir.join(JOURNAL), &units))?;
    if let Some((unit, [a, b])) = &index.apart {
        let folder = |journal: &Path| journal.parent().unwrap_or(journal).to_path_buf();
        return Err(Error::Contradiction { a: folder(a), b: folder(b), unit: name(&units.key(*unit)) });
    }
    let bringer = if dirs.len() > 1 { bringers(dirs)? } else { HashMap::new() };
    let missing = (index.n_verdicts() < units.len()).then(|| incomplete(&index, &units, &shards));
    let missing = match missing {
        None => without_calls(dirs)?,
        missing => missing,
    };
    let missing = match missing {
        Some(error) if need == Need::Everything => return Err(error),
        missing => missing.map(|error| error.to_string()),
    };
    let keepers = keepers(dirs)?;
    if keepers.is_empty() && need == Need::Everything {
        return Err(Error::NoInput(first_dir.into()));
    }
    let folder = Folder::open(out)?;
    own::discard_unfinished(&folder)?;
    state(&folder, first, command)?;
    if let Some((from, run)) = keepers.first().filter(|(from, _)| *from != out) {
        input::carry_over(from, run, out)?;
    }
    let brings = |dir: usize, group: &str| {
        let first = GroupId::parse(group).and_then(|group| bringer.get(&group));
        first.is_none_or(|(first, _)| *first == dir)
    };
    let sums = calls::join(dirs, brings, out)?;
    folder::replace(&folder.path(JOURNAL), |file| {
        for json in index.verdicts() {
            let json = json.map_err(std::io::Error::other)?;
            file.write_all((with_checksum(&json) + "\n").as_bytes())?;
        }
        Ok(())
    })?;
    let mut summary = finish::summary(&index, &first.signature, &first.cautions, &sums)?;
    summary.cost.wall_seconds =
        dirs.iter().filter_map(|dir| finish::read_summary(dir)).map(|s| s.cost.wall_seconds).sum();
    let summary = if missing.is_none() { finish::write(&folder, &index, summary)? } else { summary };
    Ok(Merged { outcome: Outcome { resumed: index.n_verdicts(), dir: out.into(), summary }, missing })
}

fn same_run(a_dir: &Path, a: &RunFile, b_dir: &Path, b: &RunFile) -> Result<(), Error> {
    let value = |value: &Option<String>| value.as_ref().map_or("not set".to_owned(), |v| format!("`{v}`"));
    let fields = b.signature.differences(&a.signature);
    let mut differences: Vec<String> = (fields.iter())
        .map(|d| {
            format!("\n  {}: {} in the first, {} in the second", d.key, value(&d.recorded), value(&d.present))
        })
        .collect();
    if a.input != b.input || a.units != b.units {
        differences.push("\n  they judged different inputs".into());
    }
    if a.apart != b.apart {
        // Their calls are named otherwise.
        differences.push("\n  one judged whole documents at a time, the other segment by segment".into());
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(Error::DifferentRuns { a: a_dir.into(), b: b_dir.into(), differences: differences.concat() })
}

/// The first folder of which calls are missing, in words.
fn without_calls(dirs: &[PathBuf]) -> Result<Option<Error>, Error> {
    for dir in dirs {
        match complete::check(dir) {
            Ok(()) => {}
            Err(error @ Error::CallsMissing { .. }) => return Ok(Some(error)),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The folders that keep a copy of the input, which each must match its `run.json`.
fn keepers(dirs: &[PathBuf]) -> Result<Vec<(&Path, RunFile)>, Error> {
    let mut keepers = Vec::new();
    for dir in dirs {
        let run = RunFile::read(dir)?;
        if input::read(dir, &run)?.is_some() {
            keepers.push((dir.as_path(), run));
        }
    }
    Ok(keepers)
}

/// Writes `run.json` as a run of the whole input would have it, or checks that the folder holds that run.
fn state(folder: &Folder, first: &RunFile, command: &[String]) -> Result<(), Error> {
    let merged = RunFile { shard: "1/1".into(), share: None, merged: command.to_vec(), ..first.clone() };
    match RunFile::read(folder.dir()) {
        Ok(existing) => same_run(folder.dir(), &existing, folder.dir(), &merged)?,
        Err(Error::NoRun(_)) if folder.is_blank(JOURNAL) => {}
        Err(error) => return Err(error),
    }
    folder.write(RUN, &json_lines(std::slice::from_ref(&merged)))
}

/// Of each group that has calls, the first folder with calls and verdicts, and true; or else the first with
/// calls alone, as a process leaves them that is killed between the two.
fn bringers(dirs: &[PathBuf]) -> Result<HashMap<GroupId, (usize, bool)>, Error> {
    let mut bringer: HashMap<GroupId, (usize, bool)> = HashMap::new();
    for (at, dir) in dirs.iter().enumerate() {
        let judged = complete::JudgedUnits::read(dir)?;
        for call in calls::lines::<CallCost>(dir)? {
            let call = call?;
            let Some(group) = GroupId::parse(&call.group) else { continue };
            let is_judged = judged.has(&call);
            let first = bringer.entry(group).or_insert((at, is_judged));
            if is_judged && !first.1 {
                *first = (at, true);
            }
        }
    }
    Ok(bringer)
}

fn incomplete(index: &Index, units: &Units, shards: &[String]) -> Error {
    let first = (0..units.len()).find(|&unit| !index.has(unit));
    let first = first.map_or_else(String::new, |unit| name(&units.key(unit)));
    let count = shards[0].parse::<Shard>().map_or(1, |shard| shard.count);
    let shards: BTreeSet<&str> = shards.iter().map(String::as_str).collect();
    let absent: Vec<String> = (1..=count)
        .map(|i| format!("{i}/{count}"))
        .filter(|shard| !shards.contains(shard.as_str()))
        .collect();
    let shards =
        if absent.is_empty() { shards.into_iter().collect::<Vec<_>>().join(", ") } else { absent.join(", ") };
    let (missing, units) = (units.len() - index.n_verdicts(), units.len());
    Error::Incomplete { missing, units, first, shards }
}

fn name(key: &UnitKey) -> String {
    let seg = key.seg.map_or_else(String::new, |seg| format!("{seg} "));
    format!("{seg}of document `{}` and system `{}`", key.doc, key.system)
}
