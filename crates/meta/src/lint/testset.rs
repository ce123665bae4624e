//! Texts, ratings and metrics of a test set in the layout of mt-metrics-eval. It checks metrics alone.

use std::collections::BTreeMap;
use std::path::Path;

use super::Material;
use super::ratings::{Place, Rating};
use super::scores::lint;
use super::texts::Text;
use crate::Error;
use crate::coverage::CoveragePolicy;
use crate::eval_set::EvalSet;
use crate::gold::Wanted;
use crate::mqm::ratings;
use crate::scores::SegmentScores;
use crate::scores::read_text;
use crate::selection::{Brought, Selection};
use crate::testset::TestSet;

/// Reads a language pair; without human scores only its texts.
///
/// # Errors
/// Files that cannot be read, or do not fit together.
pub fn read(testset: &TestSet, dir: &Path, gold: &Wanted, brought: Vec<Brought>) -> Result<Material, Error> {
    let lp = testset.lp.clone();
    let sources = testset.sources()?;
    let mut outputs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for system in &testset.systems {
        outputs.insert(system.clone(), testset.output(system)?);
    }
    let translations = Translations { testset, sources, outputs };
    let mut material = Material { texts: translations.texts(), lp: lp.clone(), ..Material::default() };
    let selection =
        Selection { gold: gold.clone(), brought, coverage: CoveragePolicy::Each, ..Selection::default() };
    match EvalSet::load(dir, &lp, &selection) {
        // A set whose ratings are still to come.
        Err(Error::NoGold { known, .. }) if known == "none" && *gold == Wanted::default() => {}
        Err(error) => return Err(error),
        Ok(set) => {
            material.ratings = translations.ratings(&set)?;
            material.n_metrics = set.metrics.len();
            material.findings = lint(&set)?;
        }
    }
    Ok(material)
}

/// The texts of a language pair.
struct Translations<'a> {
    testset: &'a TestSet,
    sources: Vec<String>,
    outputs: BTreeMap<String, Vec<String>>,
}

impl Translations<'_> {
    /// The translations of all systems; references stand beside them where they are none of these.
    fn texts(&self) -> Vec<Text> {
        let mut texts = Vec::new();
        let systems = self.outputs.iter().filter(|(system, _)| !self.testset.references.contains(system));
        for (system, output) in systems {
            for (seg, translation) in output.iter().enumerate() {
                texts.push(Text {
                    file: self.testset.output_file(system),
                    line: Some(seg + 1),
                    system: system.clone(),
                    doc: self.testset.places[seg].doc.clone(),
                    seg,
                    source: self.sources[seg].clone(),
                    translation: translation.clone(),
                });
            }
        }
        texts
    }

    /// What the annotators of the human scores marked.
    fn ratings(&self, set: &EvalSet) -> Result<Vec<Rating>, Error> {
        let mut all = Vec::new();
        let files = set.gold_source.rating_files(self.testset)?;
        let scored = set.gold_source.scored_annotators(self.testset)?;
        for file in &files {
            let own = scored.iter().find(|annotator| annotator.name == file.annotator);
            let scores = match (files.len(), own) {
                (1, _) => set.gold.segments.as_ref(),
                (_, own) => own.map(|own| &own.scores),
            };
            let rows = rows(&file.path)?;
            for (system, segments) in ratings::read(&file.path)? {
                let Some(output) = self.outputs.get(&system) else { continue };
                for (seg, errors) in segments.iter().enumerate() {
                    let (Some(errors), Some(translation)) = (errors, output.get(seg)) else { continue };
                    let row = rows.get(&system).and_then(|rows| rows.get(seg));
                    let rater = row.and_then(|row| row.rater.as_ref());
                    let place = |error: &ratings::Marked| Place {
                        in_source: error.is_source_error,
                        start: error.start,
                        end: error.end,
                    };
                    all.push(Rating {
                        file: file.path.clone(),
                        line: row.map(|row| row.line),
                        system: system.clone(),
                        doc: self.testset.places[seg].doc.clone(),
                        seg,
                        source: self.sources[seg].clone(),
                        translation: translation.clone(),
                        annotator: rater.unwrap_or(&file.annotator).clone(),
                        score: score(scores, &system, seg),
                        errors: errors.iter().map(place).collect(),
                        n_errors: Some(errors.len()),
                    });
                }
            }
        }
        Ok(all)
    }
}

fn score(scores: Option<&SegmentScores>, system: &str, seg: usize) -> Option<f64> {
    *scores?.get(system)?.get(seg)?
}

/// A row of a file of ratings.
struct Row {
    /// From 1.
    line: usize,
    /// Who rated, where the file says so: a file can hold the ratings of several annotators.
    rater: Option<String>,
}

/// The rows of a file of ratings by system, in the order of its segments.
fn rows(path: &Path) -> Result<BTreeMap<String, Vec<Row>>, Error> {
    let text = read_text(path)?;
    let mut rows: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for (idx, line) in text.lines().enumerate() {
        let fields: Vec<&str> = line.split('\t').collect();
        let rater = fields.get(2).map(|name| name.trim().to_owned());
        let rater = rater.filter(|name| !name.is_empty() && name != "None");
        let system = fields.first().copied().unwrap_or_default();
        rows.entry(system.to_owned()).or_default().push(Row { line: idx + 1, rater });
    }
    Ok(rows)
}
