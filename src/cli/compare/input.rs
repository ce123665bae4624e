//! Input of `tribunal compare`: run folders and score files, system by system, unit by unit. It compares
//! nothing but signatures.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};

use super::super::raters;
use crate::eval::Pair;
use crate::files;
use crate::meta::judgements::Judgements;
use crate::meta::scores::numbering::Numbered;
use crate::meta::scores::{self, ScoreFile};
use crate::meta::verdicts;
use crate::run::{RunFile, cautions::cautions};
use crate::signature::Signature;

/// One run folder or score file.
pub struct Input {
    /// Its name is the path as it was given.
    pub judgements: Judgements,
    /// Signature of the run, for a run folder that has one.
    pub signature: Option<Signature>,
    /// The systems in the order of the run's input; empty for inputs without a run.
    pub order: Vec<String>,
    /// Cautions about the judge on the run's input.
    stored_cautions: Vec<String>,
    /// Segment numbers of a score file that can count from 0 or from 1; its units have these numbers until
    /// [`Input::read_all`] settles them.
    unsettled: Option<Numbered>,
}

impl Input {
    /// Reads run folders, their `verdicts.jsonl`, or score files. A score file whose segment numbers can
    /// count from 0 or from 1 counts as another input does that has the same segments; alone it counts in
    /// either way.
    ///
    /// # Errors
    /// A file that cannot be read, two verdicts on one translation, and segment numbers that do not fit any
    /// other input.
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
                inputs[idx].judgements = Judgements::of_numbers(&inputs[idx].judgements.name, &rows, first);
            }
        }
        Ok(inputs)
    }

    /// The numbers of all segments.
    fn numbers(&self) -> BTreeSet<usize> {
        match &self.unsettled {
            Some(rows) => rows.numbers(),
            None => self.judgements.segments(),
        }
    }

    fn read(path: &Path, pair: Option<&Pair>) -> Result<Self> {
        let name = path.display().to_string();
        let mut unsettled = None;
        let judgements = if path.is_file() && raters::is_annotations(path) {
            Judgements::new(&name, raters::verdicts(path, pair)?)?
        } else if path.is_dir() && !path.join("verdicts.jsonl").exists() {
            RunFile::read(path)?;
            bail!("the run in `{name}` is not finished\nhint: run its command again to continue it")
        } else if verdicts::is_run(path) {
            Judgements::new(&name, verdicts::read(path)?)?
        } else {
            let (judgements, rows) = read_file(path, pair)?;
            unsettled = rows;
            judgements
        };
        let run = run_of(path)?;
        let (signature, order, stored_cautions) =
            run.map(|run| (Some(run.signature), run.systems, run.cautions)).unwrap_or_default();
        Ok(Self { judgements, signature, order, stored_cautions, unsettled })
    }

    /// All cautions about a run that is compared with others, which together have this number of systems.
    pub fn cautions(&self, n_systems: usize) -> Vec<String> {
        let cautions = |signature| cautions(signature, &self.stored_cautions, n_systems);
        self.signature.as_ref().map_or_else(Vec::new, cautions)
    }

    /// The fields in which two runs' signatures differ, each with both values; `None` where one has none.
    pub fn differences(&self, other: &Self) -> Option<Vec<(String, String)>> {
        let (first, second) = (self.signature.as_ref()?, other.signature.as_ref()?);
        let value = |value: Option<String>| value.map_or_else(|| "nothing".into(), |v| format!("`{v}`"));
        let differences = second.differences(first).into_iter();
        Some(
            differences.map(|d| (d.key, format!("{} and {}", value(d.recorded), value(d.present)))).collect(),
        )
    }
}

/// The run that an input is of, or the folder that a `verdicts.jsonl` lies in.
fn run_of(path: &Path) -> Result<Option<RunFile>> {
    let dir = if path.is_dir() { Some(path) } else { path.parent().filter(|_| verdicts::is_run(path)) };
    Ok(dir.filter(|dir| dir.join("run.json").is_file()).map(RunFile::read).transpose()?)
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

/// The scores of a file; with the numbers of its segments where it is not known how they count.
fn read_file(path: &Path, pair: Option<&Pair>) -> Result<(Judgements, Option<Numbered>)> {
    let (name, stem) = (path.display().to_string(), || files::stem(path));
    Ok(match scores::read(path, pair.map(|pair| pair.name.as_str())).map_err(with_hint)? {
        ScoreFile::Named(named) => (Judgements::of_columns(&name, named), None),
        ScoreFile::Numbered(rows) => {
            let rows = if rows.is_column() { rows.of_system(stem()) } else { rows };
            let judgements = Judgements::of_numbers(&name, &rows, 0);
            (judgements, Some(rows).filter(|rows| rows.first(None).is_none()))
        }
        ScoreFile::Column(column) => {
            (Judgements::of_columns(&name, BTreeMap::from([(stem(), column)])), None)
        }
    })
}
