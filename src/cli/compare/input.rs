//! What `tribunal compare` reads: run folders and score files, system by system, unit by unit. It compares nothing
//! but signatures.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};

use super::super::raters;
use crate::eval::Pair;
use crate::meta::scores::numbering::Numbered;
use crate::meta::scores::{self, ScoreFile, SegmentScores};
use crate::meta::verdicts::{self, JudgedError, Verdict};
use crate::run::{RunFile, Status};
use crate::segment::numbered;
use crate::signature::Signature;

/// One run folder or score file.
pub struct Input {
    /// The path as it was given.
    pub name: String,
    /// Of a run folder that has one.
    pub signature: Option<Signature>,
    pub systems: BTreeMap<String, Units>,
    /// The systems in the order of the run's input; empty where no run says it.
    pub order: Vec<String>,
    /// Whether every translation has a score.
    pub complete: bool,
    /// Of a score file whose segment numbers can count from 0 or from 1; its units have these numbers until
    /// [`Input::read_all`] knows.
    unsettled: Option<Numbered>,
}

/// Units of a system.
pub type Units = BTreeMap<Unit, Judged>;

/// A segment or a document, whatever system translated it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unit {
    /// Language pair; empty in score files.
    pub pair: String,
    /// `None` for documents.
    pub seg: Option<usize>,
    /// Empty in score files.
    pub doc: String,
    /// The segments of a document.
    pub segs: Vec<usize>,
}

/// What a judge said of a translation.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    pub score: Option<f64>,
    /// Whether there is none because the translation is empty.
    pub is_empty: bool,
    /// Why it is not a translation, where it is none.
    pub warning: Option<String>,
    pub source: String,
    pub hypothesis: String,
    pub errors: Vec<JudgedError>,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pair = if self.pair.is_empty() { String::new() } else { format!("{} ", self.pair) };
        match self.seg {
            Some(seg) => write!(f, "{pair}{}", numbered(seg)),
            None => write!(f, "{pair}document `{}`", self.doc),
        }
    }
}

impl Unit {
    fn of(verdict: &Verdict) -> Self {
        let (doc, segs) = (verdict.doc.clone(), verdict.segs.clone());
        Self { pair: verdict.pair(), seg: verdict.seg, doc, segs }
    }

    fn numbered(seg: usize) -> Self {
        Self { pair: String::new(), seg: Some(seg), doc: String::new(), segs: Vec::new() }
    }
}

impl Input {
    /// Reads run folders, their `verdicts.jsonl`, or score files. A score file whose segment numbers can count from 0
    /// or from 1 counts as another input does that has the same segments; alone it counts in either way.
    ///
    /// # Errors
    /// What cannot be read, two verdicts on one translation, and segment numbers that do not fit any other input.
    pub fn read_all(paths: &[PathBuf], pair: Option<&Pair>) -> Result<Vec<Self>> {
        let mut inputs = paths.iter().map(|path| Self::read(path, pair)).collect::<Result<Vec<_>>>()?;
        let numbers: Vec<BTreeSet<usize>> = inputs.iter().map(Self::numbers).collect();
        for (idx, path) in paths.iter().enumerate() {
            let Some(rows) = inputs[idx].unsettled.take() else { continue };
            let other = |shift: usize| {
                let moved: BTreeSet<usize> = numbers[idx].iter().map(|number| number - shift).collect();
                numbers.iter().enumerate().any(|(at, numbers)| at != idx && *numbers == moved)
            };
            let Some(first) = [0, 1].into_iter().find(|first| paths.len() == 1 || other(*first)) else {
                bail!(rows.unknown(path, "0 does not occur, and no other input has the same segments"));
            };
            if first > 0 {
                inputs[idx].systems = by_number(&rows, first);
            }
        }
        Ok(inputs)
    }

    /// The numbers of all segments.
    fn numbers(&self) -> BTreeSet<usize> {
        match &self.unsettled {
            Some(rows) => rows.numbers(),
            None => self.systems.values().flat_map(BTreeMap::keys).filter_map(|unit| unit.seg).collect(),
        }
    }

    fn read(path: &Path, pair: Option<&Pair>) -> Result<Self> {
        let name = path.display().to_string();
        let mut unsettled = None;
        let systems = if path.is_file() && raters::is_mqm_tsv(path) {
            systems(path, raters::verdicts(path, pair)?)?
        } else if path.is_dir() && !path.join("verdicts.jsonl").exists() {
            RunFile::read(path)?;
            bail!("the run in `{name}` is not finished\nhint: run its command again to continue it")
        } else if verdicts::is_run(path) {
            systems(path, verdicts::read(path)?)?
        } else {
            let (systems, rows) = read_file(path)?;
            unsettled = rows;
            systems
        };
        let run = run_of(path)?;
        let (signature, order) = run.map(|run| (Some(run.signature), run.systems)).unwrap_or_default();
        Ok(Self { signature, order, unsettled, ..Self::from_systems(name, systems) })
    }

    /// Verdicts that are in no file of their own.
    ///
    /// # Errors
    /// Two verdicts on one translation.
    pub fn of(name: &str, verdicts: Vec<Verdict>) -> Result<Self> {
        Ok(Self::from_systems(name.to_owned(), systems(Path::new(name), verdicts)?))
    }

    fn from_systems(name: String, systems: BTreeMap<String, Units>) -> Self {
        let complete = systems.values().flat_map(BTreeMap::values).all(|judged| judged.score.is_some());
        Self { name, signature: None, systems, order: Vec::new(), complete, unsettled: None }
    }

    /// The language pairs of its units; the empty one in score files.
    #[must_use]
    pub fn pairs(&self) -> BTreeSet<&str> {
        self.systems.values().flat_map(BTreeMap::keys).map(|unit| unit.pair.as_str()).collect()
    }

    /// The part of it that is of one language pair.
    #[must_use]
    pub fn of_pair(&self, pair: &str) -> Self {
        let of = |units: &Units| {
            let here = units.iter().filter(|(unit, _)| unit.pair == pair);
            here.map(|(unit, judged)| (unit.clone(), judged.clone())).collect::<Units>()
        };
        let systems = self.systems.iter().map(|(system, units)| (system.clone(), of(units)));
        let systems = systems.filter(|(_, units)| !units.is_empty()).collect();
        Self { signature: self.signature.clone(), ..Self::from_systems(self.name.clone(), systems) }
    }

    /// Whether two inputs judge one translation.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.systems.iter().any(|(system, units)| {
            let others = other.systems.get(system);
            others.is_some_and(|others| units.keys().any(|unit| others.contains_key(unit)))
        })
    }

    /// The fields in which two runs' signatures differ, each with both values; `None` where one has none.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Option<Vec<(String, String)>> {
        let (first, second) = (self.signature.as_ref()?, other.signature.as_ref()?);
        let value = |value: Option<String>| value.map_or_else(|| "nothing".into(), |v| format!("`{v}`"));
        let differences = second.differences(first).into_iter();
        Some(differences.map(|d| (d.key, format!("{} and {}", value(d.there), value(d.here)))).collect())
    }
}

/// The run that an input is of, or the folder that a `verdicts.jsonl` lies in.
fn run_of(path: &Path) -> Result<Option<RunFile>> {
    let dir = if path.is_dir() { Some(path) } else { path.parent().filter(|_| verdicts::is_run(path)) };
    Ok(dir.filter(|dir| dir.join("run.json").is_file()).map(RunFile::read).transpose()?)
}

fn systems(path: &Path, verdicts: Vec<Verdict>) -> Result<BTreeMap<String, Units>> {
    let mut systems: BTreeMap<String, Units> = BTreeMap::new();
    for verdict in verdicts {
        let unit = Unit::of(&verdict);
        let judged = Judged {
            score: verdict.usable_score(),
            is_empty: verdict.status == Status::Empty.name(),
            warning: verdict.warning,
            source: verdict.source,
            hypothesis: verdict.hypothesis,
            errors: verdict.errors,
        };
        if systems.entry(verdict.system.clone()).or_default().insert(unit.clone(), judged).is_some() {
            bail!("`{}` has two verdicts on `{}`, {unit}", path.display(), verdict.system);
        }
    }
    Ok(systems)
}

/// Files of translations are often given where scores are expected.
fn with_hint(error: crate::meta::Error) -> anyhow::Error {
    match &error {
        crate::meta::Error::Line { .. } => anyhow!(
            "{error}\nhint: without `-s`, files hold scores; translations are judged and compared by `tribunal compare -s \
             SOURCE.txt -t A.txt B.txt -l en-de`"
        ),
        _ => error.into(),
    }
}

/// The units of a score file; with the numbers of its segments where it is not known how they count.
fn read_file(path: &Path) -> Result<(BTreeMap<String, Units>, Option<Numbered>)> {
    let stem =
        || path.file_stem().map_or_else(|| "system".into(), |stem| stem.to_string_lossy().into_owned());
    Ok(match scores::read(path, None).map_err(with_hint)? {
        ScoreFile::Named(named) => (columns(named), None),
        ScoreFile::Numbered(rows) => {
            let rows = if rows.is_column() { rows.of_system(stem()) } else { rows };
            (by_number(&rows, 0), Some(rows).filter(|rows| rows.first(None).is_none()))
        }
        ScoreFile::Column(column) => (columns(BTreeMap::from([(stem(), column)])), None),
    })
}

/// The units of numbered scores, without those that no line is about.
fn by_number(rows: &Numbered, first: usize) -> BTreeMap<String, Units> {
    let (mut systems, numbers) = (columns(rows.from(first)), rows.numbers());
    for units in systems.values_mut() {
        units.retain(|unit, _| unit.seg.is_some_and(|seg| numbers.contains(&(seg + first))));
    }
    systems
}

fn columns(columns: SegmentScores) -> BTreeMap<String, Units> {
    let numbered = |column: Vec<Option<f64>>| -> Units {
        let judged = |score| Judged { score, ..Judged::default() };
        column.into_iter().enumerate().map(|(seg, score)| (Unit::numbered(seg), judged(score))).collect()
    };
    columns.into_iter().map(|(system, column)| (system, numbered(column))).collect()
}
