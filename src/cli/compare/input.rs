//! What `tribunal compare` reads: run folders and score files, system by system, unit by unit. It compares nothing
//! but signatures.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use anyhow::{Result, anyhow, bail};

use super::super::{args::Pair, raters};
use crate::meta::scores::{self, ScoreFile};
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
    /// Whether every translation has a score.
    pub complete: bool,
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
    /// Reads a run folder, its `verdicts.jsonl`, or a score file.
    ///
    /// # Errors
    /// What cannot be read, and two verdicts on one translation.
    pub fn read(path: &Path, pair: Option<&Pair>) -> Result<Self> {
        let name = path.display().to_string();
        let systems = if path.is_file() && raters::is_mqm_tsv(path) {
            systems(path, raters::verdicts(path, pair)?)?
        } else if path.is_dir() && !path.join("verdicts.jsonl").exists() {
            RunFile::read(path)?;
            bail!("the run in `{name}` is not finished\nhint: run its command again to continue it")
        } else if verdicts::is_run(path) {
            systems(path, verdicts::read(path)?)?
        } else {
            read_file(path)?
        };
        Ok(Self { signature: signature(path)?, ..Self::from_systems(name, systems) })
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
        Self { name, signature: None, systems, complete }
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

fn signature(path: &Path) -> Result<Option<Signature>> {
    let dir = if path.is_dir() { Some(path) } else { path.parent().filter(|_| verdicts::is_run(path)) };
    match dir.filter(|dir| dir.join("run.json").is_file()) {
        Some(dir) => Ok(Some(RunFile::read(dir)?.signature)),
        None => Ok(None),
    }
}

fn systems(path: &Path, verdicts: Vec<Verdict>) -> Result<BTreeMap<String, Units>> {
    let mut systems: BTreeMap<String, Units> = BTreeMap::new();
    for verdict in verdicts {
        let unit = Unit::of(&verdict);
        let judged = Judged {
            score: verdict.usable_score(),
            is_empty: verdict.status == Status::Empty.name(),
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

/// Translations are what people have in files, and give in the place of scores.
fn with_hint(error: crate::meta::Error) -> anyhow::Error {
    match &error {
        crate::meta::Error::Line { .. } => anyhow!(
            "{error}\nhint: without `-s`, files hold scores; translations are judged and compared by `tribunal compare -s \
             SOURCE.txt -t A.txt B.txt -l en-de`"
        ),
        _ => error.into(),
    }
}

fn read_file(path: &Path) -> Result<BTreeMap<String, Units>> {
    let numbered = |column: Vec<Option<f64>>| -> Units {
        let judged = |score| Judged { score, ..Judged::default() };
        column.into_iter().enumerate().map(|(seg, score)| (Unit::numbered(seg), judged(score))).collect()
    };
    Ok(match scores::read(path, None).map_err(with_hint)? {
        ScoreFile::Named(columns) | ScoreFile::Numbered(columns) => {
            columns.into_iter().map(|(system, column)| (system, numbered(column))).collect()
        }
        ScoreFile::Column(column) => {
            let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
            BTreeMap::from([(stem.unwrap_or_else(|| "system".into()), numbered(column))])
        }
    })
}
