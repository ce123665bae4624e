//! Consistency of a run folder's files: required files, incomplete last lines, and agreement with `run.json`
//! and `summary.json`.

use std::{
    io::{self, BufRead, BufReader},
    path::Path,
};

use serde_json::Value;

use super::difference::{Difference, Differences, around, unlike};
use crate::{
    calls::{self, Sums},
    description::{RUN, RunFile},
    error::Error,
    files,
    finish::{self, SUMMARY, VERDICTS},
    groups::Shard,
    input::INPUT,
    journal::{
        JOURNAL,
        index::{ForeignLine, Index},
    },
    layout::Layout,
    segment::numbered,
};

/// A folder and what is known of it.
pub struct Folder<'a> {
    pub dir: &'a Path,
    pub run: &'a RunFile,
    pub index: &'a Index,
    pub layout: &'a Layout<'a>,
    /// True if every unit of the run's share has a verdict.
    pub is_done: bool,
}

/// Number of units of the run's share without a verdict; `None` where the share is unknown.
pub fn unjudged(run: &RunFile, layout: &Layout<'_>, index: &Index) -> Option<usize> {
    let is_missing = |unit: &&u32| !index.has(**unit as usize);
    let mine = run.shard.parse::<Shard>().ok()?.choose(layout.task.segments, &layout.groups);
    Some(mine.iter().flat_map(|&group| layout.units.of_group(group)).filter(is_missing).count())
}

impl Folder<'_> {
    /// Lines of the journal that a run does not write.
    pub fn odd_lines(&self, foreign: &[ForeignLine], found: &mut Differences) {
        if let Some(first) = foreign.first() {
            let (place, n) = (format!("{JOURNAL} line {}", first.number), foreign.len().to_string());
            found.add(&place, "verdicts on units that the input does not have", &n, "0");
        }
        if let Some((unit, _)) = &self.index.apart {
            let (subject, unit) = ("two different verdicts on one unit", self.layout.units.key(*unit));
            let seg = unit.seg.map_or_else(String::new, |seg| format!(" {}", numbered(seg)));
            let unit = format!("system `{}` document `{}`{seg}", unit.system, unit.doc);
            found.add(JOURNAL, subject, &unit, "one verdict on each");
        }
        if self.index.is_shared {
            found.add(JOURNAL, "verdicts that stand there twice", "some", "none");
        }
        if self.index.is_torn && self.is_done {
            let subject = "bytes behind the last verdict of a run that is finished";
            found.add(JOURNAL, subject, "some", "none");
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
            found.add(INPUT, "the copy of the input", "no such file", "a file");
        }
        for name in [VERDICTS, SUMMARY].into_iter().filter(|name| self.is_done && !is_there(name)) {
            let subject = "a file of every run that is finished";
            found.add(name, subject, "no such file", "a file");
        }
        if calls::NAMES.iter().filter(|name| is_there(name)).count() > 1 {
            found.add(calls::NAMES[1], "a second file of calls", "a file", "no such file");
        }
        self.verdicts(found)
    }

    /// Checks the fields of `run.json` that follow from its other fields and the input.
    fn description(&self, found: &mut Differences) -> Result<(), Error> {
        let run = self.run;
        let path = self.dir.join(RUN);
        let io = Error::reading(&path);
        let recorded: Value =
            serde_json::from_slice(&files::read_own(&self.dir.join(RUN)).map_err(io)?).unwrap_or_default();
        let derived = serde_json::to_value(run).unwrap_or_default();
        if let Some((at, recorded, derived)) = unlike(&recorded, &derived) {
            found.add(RUN, &format!("the field `{at}` as a run writes it"), &recorded, &derived);
        }
        if run.units != RunFile::pack(self.layout.units.keys()) {
            let count = |n: usize| format!("{n} units");
            let (recorded, derived) = (count(run.keys().len()), count(self.layout.units.len()));
            found.add(RUN, "the units of the input, in order", &recorded, &derived);
        }
        let is_apart = self.layout.groups.iter().any(|group| group.is_apart);
        if run.apart != is_apart {
            let subject = "`apart`: whether segments of a document are groups of their own";
            found.add(RUN, subject, &run.apart.to_string(), &is_apart.to_string());
        }
        let Ok(shard) = run.shard.parse::<Shard>() else {
            found.add(RUN, "`shard`", &run.shard, "a part like 1/4");
            return Ok(());
        };
        let mine = shard.choose(self.layout.task.segments, &self.layout.groups);
        let units = mine.iter().map(|&group| self.layout.units.of_group(group).len()).sum();
        let share = (shard != Shard::WHOLE).then_some(units);
        if run.share != share {
            let count = |share: Option<usize>| {
                share.map_or_else(|| "the whole input".into(), |n| format!("{n} units"))
            };
            found.add(RUN, "`share`, the units of this shard", &count(run.share), &count(share));
        }
        if !self.is_done && (self.dir.join(VERDICTS).exists() || self.dir.join(SUMMARY).exists()) {
            let subject =
                format!("`shard`: a run that is finished has all verdicts of its part, {}", run.shard);
            let (recorded, derived) =
                (format!("{} verdicts", self.index.n_verdicts()), format!("{units} at least"));
            found.add(RUN, &subject, &recorded, &derived);
        }
        Ok(())
    }

    /// Compares `verdicts.jsonl` with the journal, byte for byte.
    fn verdicts(&self, found: &mut Differences) -> Result<(), Error> {
        let path = self.dir.join(VERDICTS);
        let io = Error::reading(&path);
        let file = match files::open_own(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened.map_err(&io)?,
        };
        let mut recorded = BufReader::with_capacity(1 << 18, file);
        let mut other = Vec::new();
        for (at, line) in self.index.verdicts().enumerate() {
            let line = line?;
            other.clear();
            recorded.read_until(b'\n', &mut other).map_err(&io)?;
            if other.strip_suffix(b"\n") != Some(line.as_bytes()) {
                let (other, line) = around(&String::from_utf8_lossy(&other), &line);
                let place = format!("{VERDICTS} line {}", at + 1);
                found.add(&place, "the verdict in the journal", &other, &line);
            }
        }
        let n_left = io::copy(&mut recorded, &mut io::sink()).map_err(io)?;
        if n_left > 0 {
            let recorded = format!("{n_left} bytes");
            found.add(VERDICTS, "what the journal does not have", &recorded, "nothing");
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
            read => read.map_err(Error::reading(&path))?,
        };
        let derived = finish::summary(self.index, &self.run.signature, &self.run.cautions, sums)?;
        let mut derived = serde_json::to_value(derived).unwrap_or_default();
        let mut recorded: Value = match serde_json::from_slice(&bytes) {
            Ok(recorded) => recorded,
            Err(error) => {
                found.add(SUMMARY, "a summary as JSON", &error.to_string(), "one that can be read");
                return Ok(());
            }
        };
        if let Some(subject) = settle(&mut recorded) {
            found.add(SUMMARY, &subject, "something else", "a number");
        }
        settle(&mut derived);
        let empty = serde_json::Map::new();
        let fields = |value: &Value| value.as_object().unwrap_or(&empty).clone();
        let (recorded, derived) = (fields(&recorded), fields(&derived));
        let gone = recorded.keys().filter(|name| !derived.contains_key(*name));
        for name in derived.keys().chain(gone) {
            let (recorded, derived) = (recorded.get(name), derived.get(name));
            if recorded != derived {
                let text =
                    |value: Option<&Value>| value.map_or_else(|| "no such field".into(), Value::to_string);
                let (recorded, derived) = around(&text(recorded), &text(derived));
                found.push(
                    Difference::new(SUMMARY, &format!("`{name}`"), &recorded, &derived).at((usize::MAX, 0)),
                );
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
