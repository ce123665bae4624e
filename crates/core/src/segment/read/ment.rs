//! MENT, the test set of the RATE paper: `MENT.jsonl`, one line for each source, or the folder
//! `meta_eval/workspace` that the authors' scripts write from it. Scores are left in the rows, for `meta`.
//!
//! Source: `meta_eval/extract_metaeval_data.py` of BITHLP/RATE at 8efee2e3.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use super::{
    Error, Input, Result, TestSet,
    layout::{NO_TRANSLATION, Place, names},
    parallel,
    table::{self, Row},
};
use crate::segment::Segment;

const FILE: &str = "MENT.jsonl";
const WORKSPACE: &str = "workspace";

/// The reference's name, as mt-metrics-eval names a test set's first.
pub const REFERENCE: &str = "refA";

/// One language pair. All texts are in the order of the sources.
#[derive(Clone, Debug, Default)]
pub struct Ment {
    /// `MENT.jsonl`, or the workspace.
    pub path: PathBuf,
    /// The folder with `metric-scores`, perhaps.
    pub root: PathBuf,
    /// The domain, empty where none is named, and the source's id, or its number from 1.
    pub places: Vec<Place>,
    pub sources: Vec<String>,
    pub references: Vec<String>,
    /// By system, `system_0` to `system_9`.
    pub outputs: BTreeMap<String, Vec<String>>,
    /// The lines of `MENT.jsonl` with their numbers; empty for a workspace, which has files of scores.
    pub rows: Vec<(usize, serde_json::Map<String, serde_json::Value>)>,
}

/// The language pairs of a folder with MENT; none in another folder.
pub fn pairs(dir: &Path) -> BTreeSet<String> {
    let mut pairs = BTreeSet::new();
    if dir.join(FILE).is_file() {
        let path = dir.join(FILE);
        let mut add = |row: Row| {
            pairs.insert(pair(&path, &row)?);
            Ok(())
        };
        // A line that cannot be read is an error of `Ment::open`.
        let _ = table::jsonl(&path, &mut add);
    } else if !dir.join("documents").is_dir() {
        let scores = names(&dir.join("human-scores")).unwrap_or_default();
        let named = scores.iter().filter_map(|file| file.strip_suffix(".seg.score"));
        pairs.extend(named.filter(|lp| dir.join("system-outputs").join(lp).is_dir()).map(str::to_owned));
    }
    pairs
}

fn pair(path: &Path, row: &Row) -> Result<String> {
    let row = table::In { path, row };
    Ok(format!("{}-{}", row.required(&["src_lang"])?, row.required(&["trans_lang", "tgt_lang"])?))
}

/// The chosen systems' translations; `None` for a folder of another kind.
///
/// # Errors
/// The errors of [`Ment::open`], and a pair, a system or a reference that is not there.
pub fn testset(choice: &TestSet) -> Result<Option<Input>> {
    if let Some(ment) = Ment::open(&choice.dir, &choice.pair.0)? {
        return ment.input(choice).map(Some);
    }
    let pairs = Vec::from_iter(pairs(&choice.dir)).join(", ");
    if pairs.is_empty() {
        return Ok(None);
    }
    Err(Error::OtherPairs { path: choice.dir.clone(), pair: choice.pair.0.clone(), listed: pairs })
}

impl Ment {
    /// Opens one language pair; `None` where the folder is no MENT, or has no such pair.
    ///
    /// # Errors
    /// A field that is missing or of another kind, files of different lengths.
    pub fn open(dir: &Path, lp: &str) -> Result<Option<Self>> {
        if dir.join(FILE).is_file() {
            return Self::of_lines(dir, lp).map(|ment| Some(ment).filter(|ment| !ment.sources.is_empty()));
        }
        if !pairs(dir).contains(lp) {
            return Ok(None);
        }
        Self::of_workspace(dir, lp).map(Some)
    }

    fn of_lines(dir: &Path, lp: &str) -> Result<Self> {
        let path = dir.join(FILE);
        let root = Some(dir.join(WORKSPACE)).filter(|root| root.is_dir()).unwrap_or_else(|| dir.to_owned());
        let mut ment = Self { path: path.clone(), root, ..Self::default() };
        table::jsonl(&path, &mut |row| {
            if pair(&path, &row)? != lp {
                return Ok(());
            }
            let named = table::In { path: &path, row: &row };
            let n = ment.sources.len();
            ment.sources.push(source(&named)?);
            ment.references.push(named.text(&["ref"])?.unwrap_or_default().trim().to_owned());
            let doc = named.name(&["qid"])?.unwrap_or_else(|| (n + 1).to_string());
            ment.places.push(Place { domain: named.name(&["domain"])?.unwrap_or_default(), doc });
            for number in row.fields.keys().filter_map(|field| field.strip_prefix("trans_")) {
                if number.parse::<usize>().is_err() {
                    continue;
                }
                let text = named.text(&[&format!("trans_{number}")])?;
                let column = ment.outputs.entry(format!("system_{number}")).or_default();
                column.resize(n, NO_TRANSLATION.to_owned());
                column.push(text.unwrap_or_else(|| NO_TRANSLATION.to_owned()));
            }
            ment.rows.push((row.line, row.fields));
            Ok(())
        })?;
        for column in ment.outputs.values_mut() {
            column.resize(ment.sources.len(), NO_TRANSLATION.to_owned());
        }
        Ok(ment)
    }

    fn of_workspace(dir: &Path, lp: &str) -> Result<Self> {
        let sources_file = dir.join("sources").join(format!("{lp}.txt"));
        let mut sources = Vec::new();
        table::jsonl(&sources_file, &mut |row| {
            sources.push(source(&table::In { path: &sources_file, row: &row })?);
            Ok(())
        })?;
        let column = |path: &Path, field: &'static [&'static str]| {
            let mut column = Vec::new();
            table::jsonl(path, &mut |row| {
                column.push(table::In { path, row: &row }.required(field)?);
                Ok(())
            })?;
            parallel::same_length(&sources_file, sources.len(), path, column.len())?;
            Ok::<_, Error>(column)
        };
        let references = column(&dir.join("references").join(format!("{lp}.txt")), &["ref"])?;
        let folder = dir.join("system-outputs").join(lp);
        let mut outputs = BTreeMap::new();
        for system in names(&folder)? {
            outputs.insert(system.clone(), column(&folder.join(system), &["trans"])?);
        }
        let place = |number: usize| Place { domain: String::new(), doc: number.to_string() };
        let places = (1..=sources.len()).map(place).collect();
        let (path, root) = (dir.to_owned(), dir.to_owned());
        Ok(Self { path, root, places, sources, references, outputs, rows: Vec::new() })
    }

    fn input(&self, choice: &TestSet) -> Result<Input> {
        let (pair, src_lang, tgt_lang) = choice.pair.clone();
        let all: Vec<String> = self.outputs.keys().cloned().collect();
        let systems = choice.systems.as_ref().unwrap_or(&all);
        if let Some(name) = choice.reference.as_ref().filter(|name| *name != REFERENCE) {
            let (name, listed) = (name.clone(), format!("`{REFERENCE}`"));
            return Err(Error::Reference { name, pair, dir: self.path.clone(), listed });
        }
        let mut segments = Vec::new();
        for system in systems {
            let column = self.outputs.get(system).ok_or_else(|| Error::System {
                system: system.clone(),
                dir: self.path.clone(),
                listed: all.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
            })?;
            for (seg, hypothesis) in column.iter().enumerate().filter(|(_, text)| *text != NO_TRANSLATION) {
                let reference = choice.reference.as_ref().map(|_| self.references[seg].clone());
                segments.push(Segment {
                    system: system.clone(),
                    doc: self.places[seg].doc.clone(),
                    seg,
                    src_lang: src_lang.clone(),
                    tgt_lang: tgt_lang.clone(),
                    source: self.sources[seg].clone(),
                    hypothesis: hypothesis.clone(),
                    reference: reference.filter(|text| !text.is_empty()),
                    domain: None,
                    reference_kind: None,
                });
            }
        }
        Input::new(segments, Vec::new(), &self.path)
    }
}

/// The source of a row, without white space around it, as the authors' scripts take it.
fn source(row: &table::In<'_>) -> Result<String> {
    let source = row.required(&["src"])?.trim().to_owned();
    if source.is_empty() {
        let (path, line) = (row.path.into(), row.row.line);
        return Err(Error::EmptySource { path, line, more: String::new() });
    }
    Ok(source)
}
