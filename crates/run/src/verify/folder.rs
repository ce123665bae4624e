//! Consistency of a run folder's files: required files, incomplete last lines, and agreement with `run.json`
//! and `summary.json`.

use std::{
    io::{self, BufRead, BufReader},
    path::Path,
};

use serde_json::Value;

use super::{Difference, around, found::Differences};
use crate::{
    Error, RunFile, Shard,
    calls::{self, Sums},
    description::RUN,
    files,
    finish::{self, SUMMARY, VERDICTS},
    input::INPUT,
    journal::{Index, JOURNAL},
    segment::numbered,
    work::Work,
};

/// A folder and what is known of it.
pub struct Folder<'a> {
    pub dir: &'a Path,
    pub run: &'a RunFile,
    pub index: &'a Index,
    pub work: &'a Work<'a>,
    /// True if every unit of the run's share has a verdict.
    pub is_done: bool,
}

/// Number of units of the run's share without a verdict; `None` where the share is unknown.
pub fn unjudged(run: &RunFile, work: &Work<'_>, index: &Index) -> Option<usize> {
    let is_missing = |unit: &&u32| !index.has(**unit as usize);
    let mine = run.shard.parse::<Shard>().ok()?.choose(work.task.segments, work.groups);
    Some(mine.iter().flat_map(|&group| work.units.of_group(group)).filter(is_missing).count())
}

impl Folder<'_> {
    /// Lines of the journal that a run does not write.
    pub fn odd_lines(&self, foreign: &[usize], found: &mut Differences) {
        if let Some(first) = foreign.first() {
            let (place, n) = (format!("{JOURNAL} line {first}"), foreign.len().to_string());
            found.push(Difference::new(&place, "verdicts on units that the input does not have", &n, "0"));
        }
        if let Some((unit, _)) = &self.index.apart {
            let (what, unit) = ("two different verdicts on one unit", self.work.units.key(*unit));
            let seg = unit.seg.map_or_else(String::new, |seg| format!(" {}", numbered(seg)));
            let unit = format!("system `{}` document `{}`{seg}", unit.system, unit.doc);
            found.push(Difference::new(JOURNAL, what, &unit, "one verdict on each"));
        }
        if self.index.is_shared {
            found.push(Difference::new(JOURNAL, "verdicts that stand there twice", "some", "none"));
        }
        if self.index.is_torn && self.is_done {
            let what = "bytes behind the last verdict of a run that is finished";
            found.push(Difference::new(JOURNAL, what, "some", "none"));
        }
    }

    /// Compares the files of the folder with each other.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Damaged`].
    pub fn files(&self, found: &mut Differences) -> Result<(), Error> {
        self.description(found)?;
        let is_there = |name: &str| self.dir.join(name).exists();
        let is_kept = self.run.shard == "1/1" && self.run.merged.is_empty();
        if is_kept && !is_there(INPUT) {
            found.push(Difference::new(INPUT, "the copy of the input", "no such file", "a file"));
        }
        for name in [VERDICTS, SUMMARY].into_iter().filter(|name| self.is_done && !is_there(name)) {
            let what = "a file of every run that is finished";
            found.push(Difference::new(name, what, "no such file", "a file"));
        }
        if calls::PLACES.iter().filter(|name| is_there(name)).count() > 1 {
            found.push(Difference::new(calls::PLACES[1], "a second file of calls", "a file", "no such file"));
        }
        self.verdicts(found)
    }

    /// Checks the fields of `run.json` that follow from its other fields and the input.
    fn description(&self, found: &mut Differences) -> Result<(), Error> {
        let run = self.run;
        let path = self.dir.join(RUN);
        let io = |source| Error::Io { action: "read", path, source };
        let there: Value =
            serde_json::from_slice(&files::read_own(&self.dir.join(RUN)).map_err(io)?).unwrap_or_default();
        let here = serde_json::to_value(run).unwrap_or_default();
        if let Some((at, there, here)) = unlike(&there, &here) {
            found.push(Difference::new(RUN, &format!("the field `{at}` as a run writes it"), &there, &here));
        }
        if run.units != RunFile::pack(self.work.units.keys()) {
            let count = |n: usize| format!("{n} units");
            let (there, here) = (count(run.keys().len()), count(self.work.units.len()));
            found.push(Difference::new(RUN, "the units of the input, in order", &there, &here));
        }
        let is_apart = self.work.groups.iter().any(|group| group.is_apart);
        if run.apart != is_apart {
            let what = "`apart`: whether segments of a document are groups of their own";
            found.push(Difference::new(RUN, what, &run.apart.to_string(), &is_apart.to_string()));
        }
        let Ok(shard) = run.shard.parse::<Shard>() else {
            found.push(Difference::new(RUN, "`shard`", &run.shard, "a part like 1/4"));
            return Ok(());
        };
        let mine = shard.choose(self.work.task.segments, self.work.groups);
        let units = mine.iter().map(|&group| self.work.units.of_group(group).len()).sum();
        let share = (shard != Shard::WHOLE).then_some(units);
        if run.share != share {
            let count = |share: Option<usize>| {
                share.map_or_else(|| "the whole input".into(), |n| format!("{n} units"))
            };
            found.push(Difference::new(
                RUN,
                "`share`, the units of this shard",
                &count(run.share),
                &count(share),
            ));
        }
        if !self.is_done && (self.dir.join(VERDICTS).exists() || self.dir.join(SUMMARY).exists()) {
            let what = format!("`shard`: a run that is finished has all verdicts of its part, {}", run.shard);
            let (there, here) = (format!("{} verdicts", self.index.len()), format!("{units} at least"));
            found.push(Difference::new(RUN, &what, &there, &here));
        }
        Ok(())
    }

    /// Compares `verdicts.jsonl` with the journal, byte for byte.
    fn verdicts(&self, found: &mut Differences) -> Result<(), Error> {
        let path = self.dir.join(VERDICTS);
        let io = |source| Error::Io { action: "read", path: path.clone(), source };
        let file = match files::open_own(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened.map_err(io)?,
        };
        let mut there = BufReader::with_capacity(1 << 18, file);
        let (mut number, mut other) = (0, Vec::new());
        self.index.each(|line| {
            number += 1;
            other.clear();
            there.read_until(b'\n', &mut other).map_err(io)?;
            if other.strip_suffix(b"\n") != Some(line.as_bytes()) {
                let (other, line) = around(&String::from_utf8_lossy(&other), line);
                let place = format!("{VERDICTS} line {number}");
                found.push(Difference::new(&place, "the verdict in the journal", &other, &line));
            }
            Ok(())
        })?;
        let rest = io::copy(&mut there, &mut io::sink()).map_err(io)?;
        if rest > 0 {
            let there = format!("{rest} bytes");
            found.push(Difference::new(VERDICTS, "what the journal does not have", &there, "nothing"));
        }
        Ok(())
    }

    /// Compares the summary with the totals of verdicts and calls, except for the machine's figures. An
    /// unreadable summary is a difference too.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Damaged`].
    pub fn summary(&self, sums: &Sums, found: &mut Differences) -> Result<(), Error> {
        let path = self.dir.join(SUMMARY);
        let bytes = match files::read_own(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            read => read.map_err(|source| Error::Io { action: "read", path, source })?,
        };
        let here = finish::summary(self.index, &self.run.signature, sums, sums.cost.clone())?;
        let mut here = serde_json::to_value(here).unwrap_or_default();
        let mut there: Value = match serde_json::from_slice(&bytes) {
            Ok(there) => there,
            Err(error) => {
                found.push(Difference::new(
                    SUMMARY,
                    "a summary as JSON",
                    &error.to_string(),
                    "one that can be read",
                ));
                return Ok(());
            }
        };
        if let Some(what) = settle(&mut there) {
            found.push(Difference::new(SUMMARY, &what, "something else", "a number"));
        }
        settle(&mut here);
        let empty = serde_json::Map::new();
        let fields = |value: &Value| value.as_object().unwrap_or(&empty).clone();
        let (there, here) = (fields(&there), fields(&here));
        let gone = there.keys().filter(|name| !here.contains_key(*name));
        for name in here.keys().chain(gone) {
            let (there, here) = (there.get(name), here.get(name));
            if there != here {
                let text =
                    |value: Option<&Value>| value.map_or_else(|| "no such field".into(), Value::to_string);
                let (there, here) = around(&text(there), &text(here));
                found.push(Difference::new(SUMMARY, &format!("`{name}`"), &there, &here).at((usize::MAX, 0)));
            }
        }
        Ok(())
    }
}

/// Resets times and the figures of prompt computation, which depend on the machine. Prompts count as if
/// computed whole. Returns the name of a field that is not a number.
fn settle(summary: &mut Value) -> Option<String> {
    let cost = summary.get_mut("cost")?.as_object_mut()?;
    let mut wrong = None;
    for name in ["call_seconds", "wall_seconds"] {
        if !cost.insert(name.into(), 0.into()).is_some_and(|value| value.is_number()) {
            wrong = Some(format!("`cost.{name}`"));
        }
    }
    let usage = cost.get_mut("usage")?.as_object_mut()?;
    let cached = usage.insert("cached".into(), 0.into()).and_then(|value| value.as_u64());
    let computed = usage.get("computed").and_then(Value::as_u64);
    match computed.zip(cached) {
        Some((computed, cached)) => {
            usage.insert("computed".into(), computed.saturating_add(cached).into());
        }
        None => wrong = Some("`cost.usage`".into()),
    }
    for name in ["distinct", "forced", "drafted", "accepted"] {
        if usage.insert(name.into(), 0.into()).is_none_or(|value| value.as_u64().is_none()) {
            wrong = Some(format!("`cost.usage.{name}`"));
        }
    }
    wrong
}

/// The first place at which two JSON values differ, as a path of fields, with both values there.
fn unlike(there: &Value, here: &Value) -> Option<(String, String, String)> {
    let missing = || "no such field".to_owned();
    let deeper = |name: String, found: Option<(String, String, String)>| {
        found.map(|(at, there, here)| {
            (if at.is_empty() { name.clone() } else { format!("{name}.{at}") }, there, here)
        })
    };
    match (there, here) {
        (Value::Object(a), Value::Object(b)) => {
            let gone = b.iter().find(|(name, _)| !a.contains_key(*name));
            let gone = gone.map(|(name, value)| (name.clone(), missing(), value.to_string()));
            let of_field = |(name, value): (&String, &Value)| match b.get(name) {
                Some(other) => deeper(name.clone(), unlike(value, other)),
                None => Some((name.clone(), value.to_string(), missing())),
            };
            a.iter().find_map(of_field).or(gone)
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().find_map(|(i, (a, b))| deeper(i.to_string(), unlike(a, b)))
        }
        (a, b) => (a != b).then(|| (String::new(), a.to_string(), b.to_string())),
    }
}
