//! The translations of an mt-metrics-eval folder (its files are found by [`layout`]), of a folder of WMT's
//! general task, or of MENT. Human and metric scores are read by `meta`.
//!
//! Source: `data.py: EvalSet` of google-research/mt-metrics-eval at 68a481ae.

use std::path::{Path, PathBuf};

use super::{
    Error, Input, general, genmt,
    layout::{self, NO_TRANSLATION, TestsetFiles, names},
    ment, parallel,
};
use crate::segment::{Lang, Segment};

/// A choice from a test set.
#[derive(Clone, Debug)]
pub struct TestSet {
    pub dir: PathBuf,
    /// The pair as the folder's files spell it, and its languages.
    pub pair: (String, Lang, Lang),
    /// `None`: all systems but references.
    pub systems: Option<Vec<String>>,
    /// Name of the reference shown to judges that use one (`refA`).
    pub reference: Option<String>,
}

/// Reads the chosen systems of a test set. Lines without a translation are left out and noted.
///
/// # Errors
/// [`Error::Layout`] for a folder that is not a test set, [`Error::System`] for an unknown system, and the
/// errors of parallel text.
pub fn testset(choice: &TestSet) -> Result<Input, Error> {
    if let Some(files) = genmt::files(&choice.dir) {
        return genmt::testset(choice, &files);
    }
    if let Some(input) = ment::testset(choice)? {
        return Ok(input);
    }
    let choice = &TestSet { dir: general::root(&choice.dir), ..choice.clone() };
    if let Some(files) = general::files(&choice.dir, &choice.pair.0)? {
        return general_task(choice, &files);
    }
    let layout = TestsetFiles::new(&choice.dir, &choice.pair.0);
    let source = existing(choice, "sources", layout.source())?;
    let outputs = existing(choice, "system-outputs", choice.dir.join("system-outputs").join(&choice.pair.0))?;
    let sources = parallel::sources(&source)?;
    let docs = parallel::docs(&existing(choice, "documents", layout.docs())?, &source, sources.len())?;
    let mut notes = Vec::new();
    let references = match &choice.reference {
        None => None,
        Some(name) => {
            let path = existing(choice, "references", layout.reference(name))?;
            Some(parallel::references(&path, &source, sources.len(), &mut notes)?)
        }
    };
    let systems = systems(choice, &layout, outputs)?.into_iter();
    let outputs: Vec<(String, PathBuf)> =
        systems.map(|system| (system.clone(), layout.output(&system))).collect();
    let texts = Texts { source: &source, sources, docs, references };
    texts.segments(choice, &outputs, notes)
}

/// The texts that all systems share.
struct Texts<'a> {
    source: &'a Path,
    sources: Vec<String>,
    /// One for each source; empty where there are no documents.
    docs: Vec<String>,
    references: Option<Vec<Option<String>>>,
}

impl Texts<'_> {
    /// With the systems' translations.
    fn segments(
        &self,
        choice: &TestSet,
        outputs: &[(String, PathBuf)],
        mut notes: Vec<String>,
    ) -> Result<Input, Error> {
        let (_, src_lang, tgt_lang) = &choice.pair;
        let mut segments = Vec::new();
        for (system, path) in outputs {
            let hypotheses = layout::texts(path, "hypothesis")?;
            parallel::same_length(self.source, self.sources.len(), path, hypotheses.len())?;
            note_missing(path, &hypotheses, &mut notes);
            parallel::note_empty(path, &hypotheses, &mut notes);
            for (seg, hypothesis) in hypotheses.into_iter().enumerate().filter(|(_, h)| h != NO_TRANSLATION) {
                segments.push(Segment {
                    system: system.clone(),
                    doc: self.docs.get(seg).cloned().unwrap_or_default(),
                    seg,
                    src_lang: src_lang.clone(),
                    tgt_lang: tgt_lang.clone(),
                    source: self.sources[seg].clone(),
                    hypothesis,
                    reference: self.references.as_ref().and_then(|lines| lines[seg].clone()),
                    domain: None,
                    reference_kind: None,
                });
            }
        }
        Input::new(segments, notes, &choice.dir)
    }
}

/// A folder of the general task that names its files `TEST.LP.hyp.SYSTEM.TGT`.
fn general_task(choice: &TestSet, files: &general::Files) -> Result<Input, Error> {
    let sources = parallel::sources(&files.source)?;
    let mut notes = Vec::new();
    let references = match &choice.reference {
        None => None,
        Some(name) => {
            let found = files.references.iter().find(|(known, _)| known == name);
            let (_, path) = found.ok_or_else(|| Error::Reference {
                name: name.clone(),
                pair: choice.pair.0.clone(),
                dir: choice.dir.join("references"),
                listed: named(&files.references),
            })?;
            Some(parallel::references(path, &files.source, sources.len(), &mut notes)?)
        }
    };
    let outputs = match &choice.systems {
        None => files.outputs.clone(),
        Some(systems) => {
            let one = |system: &String| {
                let found = files.outputs.iter().find(|(known, _)| known == system).cloned();
                let (dir, known) = (choice.dir.join("system-outputs"), named(&files.outputs));
                found.ok_or_else(|| Error::System { system: system.clone(), dir, listed: known })
            };
            systems.iter().map(one).collect::<Result<_, _>>()?
        }
    };
    Texts { source: &files.source, sources, docs: Vec::new(), references }.segments(choice, &outputs, notes)
}

fn named(files: &[(String, PathBuf)]) -> String {
    list(&files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>())
}

fn note_missing(path: &Path, hypotheses: &[String], notes: &mut Vec<String>) {
    let missing: Vec<usize> = (0..hypotheses.len()).filter(|&i| hypotheses[i] == NO_TRANSLATION).collect();
    if !missing.is_empty() {
        let lines = parallel::line_list(&missing);
        notes.push(format!(
            "`{}` has no translation on {lines}; those segments get no verdict",
            path.display()
        ));
    }
}

/// A file or folder of the test set; if it is missing, the error lists the existing ones.
fn existing(choice: &TestSet, folder: &str, path: PathBuf) -> Result<PathBuf, Error> {
    if path.exists() {
        return Ok(path);
    }
    let names = names(&choice.dir.join(folder)).unwrap_or_default();
    let names = if names.is_empty() { String::new() } else { format!("; {folder}/ has {}", list(&names)) };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Err(Error::Layout {
        dir: choice.dir.clone(),
        missing: format!("{folder}/{name}"),
        pair: choice.pair.0.clone(),
        listed: names,
    })
}

/// The systems to read, sorted by name when all are meant.
fn systems(choice: &TestSet, layout: &TestsetFiles, dir: PathBuf) -> Result<Vec<String>, Error> {
    let all = layout.systems()?;
    let Some(chosen) = &choice.systems else {
        let is_reference = |system: &String| layout.reference(system).exists();
        return Ok(all.into_iter().filter(|system| !is_reference(system)).collect());
    };
    if let Some(system) = chosen.iter().find(|system| !all.contains(system)) {
        return Err(Error::System { system: system.clone(), dir, listed: list(&all) });
    }
    Ok(chosen.clone())
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
