//! A test set in the layout of mt-metrics-eval, made of human annotations: sources, documents, translations,
//! the raters' scores, and what each of them marked, and the references that the annotations or the task's
//! file have. It has no metrics.
//!
//! Source: mt-metrics-eval, `README.md` and `data.py`; `ratings.py` for what raters marked.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Write,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{
    Error, Export, counted,
    names::{Names, file_name, unspaced},
    score_text,
};
use crate::{
    mqm::{Side, raters::Annotation, ratings::RatedError},
    run::Record,
    segment::{Segment, read, wmt},
};

/// Human annotations that a test set is made from.
#[derive(Clone, Copy, Debug)]
pub struct Raters<'a> {
    pub annotations: &'a [Annotation],
    /// A verdict for each version of a translation, by the raters who saw it.
    pub versions: &'a [Record],
    /// The verdicts from only the last annotation by each rater, of a log in which others count too.
    pub last: Option<&'a [Record]>,
    /// Name of the scores; `None`: `esa` for direct assessments, else `mqm`.
    pub name: Option<&'a str>,
    /// The task's file, whose items are all in the test set; without it those that were rated.
    pub task: Option<&'a Path>,
}

/// mt-metrics-eval's placeholder for a missing translation.
const NO_TRANSLATION: &str = "[No translation supplied]";

/// The name of the task's reference.
const REFERENCE: &str = "refA";

/// Returns true if a system of human annotations is a reference: `refA`, `refB`.
fn is_reference(system: &str) -> bool {
    system
        .strip_prefix("ref")
        .is_some_and(|which| which.len() == 1 && which.as_bytes()[0].is_ascii_uppercase())
}

/// A segment in its document.
type Place = (String, usize);

/// One language pair.
#[derive(Default)]
struct Set {
    /// In order, documents together.
    places: Vec<Place>,
    sources: Vec<String>,
    index: HashMap<Place, usize>,
    /// Each system's translations.
    outputs: BTreeMap<String, Vec<Option<String>>>,
    references: BTreeMap<String, Vec<Option<String>>>,
}

impl Set {
    fn add(&mut self, place: Place, source: &str) -> usize {
        let n = self.places.len();
        let idx = *self.index.entry(place.clone()).or_insert(n);
        if idx == n {
            self.places.push(place);
            self.sources.push(source.to_owned());
            let columns = self.outputs.values_mut().chain(self.references.values_mut());
            columns.for_each(|column| column.push(None));
        }
        idx
    }

    fn translate(&mut self, system: &str, idx: usize, text: &str) {
        let n = self.places.len();
        let column = self.outputs.entry(system.to_owned()).or_insert_with(|| vec![None; n]);
        // Of several versions the first is that of most raters.
        column[idx].get_or_insert_with(|| text.to_owned());
    }

    fn refer(&mut self, name: &str, idx: usize, text: &str) {
        let n = self.places.len();
        let column = self.references.entry(name.to_owned()).or_insert_with(|| vec![None; n]);
        column[idx].get_or_insert_with(|| text.to_owned());
    }

    /// Index of a segment if the test set has this translation, as a rater saw it; white space at the end
    /// does not count.
    fn has(&self, segment: &Segment) -> Option<usize> {
        let idx = *self.index.get(&(segment.doc.clone(), segment.seg))?;
        let text = self.outputs.get(&segment.system)?.get(idx)?.as_deref()?;
        (text.trim_end() == segment.hypothesis.trim_end()).then_some(idx)
    }
}

/// The files of every language pair.
///
/// # Errors
/// Two systems that would be written alike, a task's file that cannot be read.
pub fn export(raters: &Raters<'_>) -> Result<Export, Error> {
    let rated: BTreeSet<String> = raters.versions.iter().map(Record::pair).collect();
    let mut sets: BTreeMap<String, Set> = rated.iter().map(|lp| (lp.clone(), Set::default())).collect();
    match raters.task {
        Some(file) => of_task(file, &mut sets)?,
        // Those with the last annotations alone are all that count in some way.
        None => of_raters(raters.last.unwrap_or(raters.versions), &mut sets),
    }
    raters.annotations.iter().for_each(|annotation| of_annotation(&annotation.segment, &mut sets));
    let mut export = Export::default();
    let (mut systems, mut documents) = (Names::new("system", file_name), Names::new("document", unspaced));
    let mut names = Names::new("rater", file_name);
    for (lp, set) in &sets {
        texts(lp, set, (&mut systems, &mut documents), &mut export)?;
        let name = score_name(raters);
        scores(lp, set, (raters.versions, &name), &mut systems, &mut export)?;
        if let Some(last) = raters.last {
            scores(lp, set, (last, &format!("{name}-last")), &mut systems, &mut export)?;
        }
        ratings(lp, set, raters, (&mut systems, &mut names), &mut export)?;
    }
    let why = "score files are cut at white space, and systems and raters are parts of file names";
    export.notes.extend([systems, documents, names].iter().flat_map(|names| names.notes(why)));
    Ok(export)
}

/// All items of the rated language pairs.
fn of_task(file: &Path, sets: &mut BTreeMap<String, Set>) -> Result<(), Error> {
    read::task(file, |item| {
        if let Some(set) = sets.get_mut(&item.pair()) {
            let idx = set.add((item.id.doc.clone(), item.seg()), &item.source);
            for (system, text) in &item.translations {
                set.translate(system, idx, text);
            }
            if let Some(text) = &item.reference {
                set.refer(REFERENCE, idx, text);
            }
        }
        Ok(())
    })?;
    Ok(())
}

/// The references that an annotation has: the task's own beside the rated translation, or that translation
/// itself.
fn of_annotation(segment: &Segment, sets: &mut BTreeMap<String, Set>) {
    let Some(set) = sets.get_mut(&format!("{}-{}", segment.src_lang, segment.tgt_lang)) else { return };
    let Some(&idx) = set.index.get(&(segment.doc.clone(), segment.seg)) else { return };
    if let Some(text) = &segment.reference {
        set.refer(REFERENCE, idx, text);
    }
    if is_reference(&segment.system) {
        set.refer(&segment.system, idx, &segment.hypothesis);
    }
}

/// The rated segments, documents in the order in which they come first, their segments by number.
fn of_raters(versions: &[Record], sets: &mut BTreeMap<String, Set>) {
    for (lp, set) in sets {
        let mut documents: BTreeMap<&str, usize> = BTreeMap::new();
        let mut of_pair: Vec<&Record> =
            versions.iter().filter(|record| record.seg.is_some() && record.pair() == *lp).collect();
        for record in &of_pair {
            let n = documents.len();
            documents.entry(&record.doc).or_insert(n);
        }
        of_pair.sort_by_key(|record| (documents[record.doc.as_str()], record.seg));
        for record in &of_pair {
            set.add((record.doc.clone(), record.seg.unwrap_or_default()), &record.source);
        }
        for record in &of_pair {
            let idx = set.index[&(record.doc.clone(), record.seg.unwrap_or_default())];
            set.translate(&record.system, idx, &record.hypothesis);
        }
    }
}

fn texts(
    lp: &str,
    set: &Set,
    (systems, documents): (&mut Names, &mut Names),
    export: &mut Export,
) -> Result<(), Error> {
    let mut add = |folder: &str, stem: &str, field: &str, texts: &[String]| {
        let (ending, bytes) = lines(field, texts);
        export.files.push((PathBuf::from(folder).join(format!("{stem}.{ending}")), bytes));
    };
    let supplied = |column: &'_ [Option<String>]| {
        column.iter().map(|text| text.clone().unwrap_or_else(|| NO_TRANSLATION.into())).collect::<Vec<_>>()
    };
    add("sources", lp, "source", &set.sources);
    for (name, column) in &set.references {
        add("references", &format!("{lp}.{name}"), "target", &supplied(column));
    }
    for (system, column) in &set.outputs {
        let name = systems.written(system)?;
        add("system-outputs", &format!("{lp}/{name}"), "hypothesis", &supplied(column));
    }
    let mut docs = String::new();
    for (doc, _) in &set.places {
        let domain = wmt::domain(doc).unwrap_or("none");
        let _ = writeln!(docs, "{domain}\t{}", documents.written(doc)?);
    }
    export.files.push((PathBuf::from("documents").join(format!("{lp}.docs")), docs.into_bytes()));
    Ok(())
}

/// Texts line by line, or as JSON lines where one holds a line end or white space at its end.
fn lines(field: &str, texts: &[String]) -> (&'static str, Vec<u8>) {
    if texts.iter().all(|text| !text.contains(['\n', '\r']) && text.trim_end() == text) {
        return ("txt", texts.iter().map(|text| format!("{text}\n")).collect::<String>().into_bytes());
    }
    (
        "jsonl",
        texts.iter().map(|text| format!("{}\n", json!({ field: text }))).collect::<String>().into_bytes(),
    )
}

fn score_name(raters: &Raters<'_>) -> String {
    let is_assessed = raters.versions.iter().any(|record| record.quality_score.is_some());
    raters.name.map_or_else(|| if is_assessed { "esa" } else { "mqm" }.to_owned(), file_name)
}

/// The means over raters, of segments and of systems.
fn scores(
    lp: &str,
    set: &Set,
    (versions, name): (&[Record], &str),
    systems: &mut Names,
    export: &mut Export,
) -> Result<(), Error> {
    let mut columns: BTreeMap<&str, Vec<Option<f64>>> = BTreeMap::new();
    let mut other_texts = 0;
    for record in versions {
        if record.pair() != lp {
            continue;
        }
        match set.has(&segment_of(record)) {
            Some(idx) => {
                let column = columns.entry(&record.system).or_insert_with(|| vec![None; set.places.len()]);
                column[idx] = record.score;
            }
            None => other_texts += 1,
        }
    }
    if other_texts > 0 {
        export.notes.push(format!(
            "{lp}: left out: the ratings of {}, which the test set has with another text or not at all",
            counted(other_texts, "translation")
        ));
    }
    let (mut seg, mut sys) = (String::new(), String::new());
    for system in set.outputs.keys() {
        let written = systems.written(system)?;
        let none = vec![None; set.places.len()];
        let column = columns.get(system.as_str()).unwrap_or(&none);
        for score in column {
            let _ = writeln!(seg, "{written}\t{}", score_text(*score));
        }
        let known_scores: Vec<f64> = column.iter().copied().flatten().collect();
        let mean =
            (!known_scores.is_empty()).then(|| known_scores.iter().sum::<f64>() / known_scores.len() as f64);
        let _ = writeln!(sys, "{written}\t{}", score_text(mean));
    }
    for (level, text) in [("seg", seg), ("sys", sys)] {
        let file = format!("{lp}.{name}.{level}.score");
        export.files.push((PathBuf::from("human-scores").join(file), text.into_bytes()));
    }
    Ok(())
}

/// Marks of each rater, `None` where the rater saw no translation of the segment, or another one.
fn ratings(
    lp: &str,
    set: &Set,
    raters: &Raters<'_>,
    (systems, names): (&mut Names, &mut Names),
    export: &mut Export,
) -> Result<(), Error> {
    type Columns<'a> = BTreeMap<&'a str, Vec<Option<Vec<Value>>>>;
    let mut by_rater: BTreeMap<String, Columns<'_>> = BTreeMap::new();
    let mut unplaced = 0;
    for annotation in raters.annotations {
        let segment = &annotation.segment;
        if format!("{}-{}", segment.src_lang, segment.tgt_lang) != lp {
            continue;
        }
        let Some(idx) = set.has(segment) else { continue };
        let columns = by_rater.entry(names.written(&annotation.rater)?).or_default();
        let column = columns.entry(&segment.system).or_insert_with(|| vec![None; set.places.len()]);
        // The last of a rater's annotations.
        let errors = column[idx].insert(Vec::new());
        for error in &annotation.errors {
            let Some((start, end)) = error.start.zip(error.end) else {
                unplaced += 1;
                continue;
            };
            let (category, severity) = (error.category.clone(), error.severity.name().to_owned());
            let is_source_error = error.side == Side::Source;
            errors.push(json!(RatedError { start, end, category, severity, score: None, is_source_error }));
        }
    }
    if unplaced > 0 {
        let errors = counted(unplaced, "error");
        export.notes.push(format!(
            "{lp}: left out of ratings: {errors} without a place in the text, such as omissions"
        ));
    }
    let name = score_name(raters);
    for (rater, columns) in by_rater {
        let mut text = String::new();
        for system in set.outputs.keys() {
            let written = systems.written(system)?;
            let none = vec![None; set.places.len()];
            for errors in columns.get(system.as_str()).unwrap_or(&none) {
                let rating = errors
                    .as_ref()
                    .map_or_else(|| "None".into(), |errors| json!({ "errors": errors }).to_string());
                let _ = writeln!(text, "{written}\t{rating}");
            }
        }
        let file = format!("{lp}.{name}.{rater}.seg.rating");
        export.files.push((PathBuf::from("human-scores").join(file), text.into_bytes()));
    }
    Ok(())
}

fn segment_of(record: &Record) -> Segment {
    Segment {
        system: record.system.clone(),
        doc: record.doc.clone(),
        seg: record.seg.unwrap_or_default(),
        ..Segment::new((record.src_lang.clone(), record.tgt_lang.clone()), &record.source, &record.hypothesis)
    }
}
