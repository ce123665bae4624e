//! Human raters as another judge: their annotations of a translation as a verdict, with WMT's weights. Raters
//! of different versions of a translation are distinguished by its text.

use std::{collections::BTreeMap, path::Path};

use crate::{
    error::{Error, Result},
    mqm::{
        ErrorSpan, Side,
        raters::{self, Annotation, Counted},
        weights::{self, Weights},
    },
    run::{Record, Status, UnitKey, record::Direction},
    segment::{Lang, Segment, numbered, read::Input},
    spec::Pair,
};

/// The annotations of a file.
///
/// # Errors
/// A file that cannot be read, and annotations without their languages.
pub fn annotations(path: &Path, pair: Option<&Pair>) -> Result<Vec<Annotation>> {
    counted(path, pair, Counted::default())
}

/// The annotations of a file, of a log those that count.
///
/// # Errors
/// The errors of [`annotations`].
pub fn counted(path: &Path, pair: Option<&Pair>, counted: Counted) -> Result<Vec<Annotation>> {
    let languages = pair.map(|pair| (pair.src.clone(), pair.tgt.clone()));
    if languages.is_none() && !raters::names_languages(path) {
        return Err(Error::NoLanguagesOfRaters(path.into()));
    }
    Ok(raters::read_any(path, languages.as_ref(), counted)?)
}

/// The translations that human raters saw, each once: of several versions that of most raters.
///
/// # Errors
/// The errors of [`annotations`].
pub fn input(path: &Path, pair: Option<&Pair>) -> Result<Input> {
    let annotations = annotations(path, pair)?;
    let note = other_versions(path, &annotations, "the version of most raters is judged");
    // Judges see no reference here, as raters saw none.
    let segment = |rated: &Rated<'_>| Segment { reference: None, ..rated.segment().clone() };
    let mut segments: Vec<_> = rated(&annotations).iter().map(segment).collect();
    in_order(&mut segments, |segment| segment);
    Ok(Input::new(segments, note.into_iter().collect(), path)?)
}

/// Sorts what belongs to segments as their author wrote them; raters have an order of their own. Where
/// numbers begin anew in each document, documents stay in the order in which they come first.
fn in_order<T>(all: &mut [T], segment: impl Fn(&T) -> &Segment) {
    let mut numbers = BTreeMap::new();
    let mut documents: BTreeMap<(Lang, Lang, String), usize> = BTreeMap::new();
    let document =
        |segment: &Segment| (segment.src_lang.clone(), segment.tgt_lang.clone(), segment.doc.clone());
    let mut begins_anew = false;
    for segment in all.iter().map(&segment) {
        let n = documents.len();
        let place = *documents.entry(document(segment)).or_insert(n);
        let old = numbers.insert((segment.system.clone(), segment.seg), place);
        begins_anew |= old.is_some_and(|old| old != place);
    }
    let place = |segment: &Segment| if begins_anew { documents[&document(segment)] } else { 0 };
    all.sort_by(|a, b| {
        let (a, b) = (segment(a), segment(b));
        (&a.system, place(a), a.seg).cmp(&(&b.system, place(b), b.seg))
    });
}

/// Warning about raters who saw another translation than most, as a sentence that ends in `what`, the
/// treatment of their ratings; `None` if all saw the same.
pub fn other_versions(path: &Path, annotations: &[Annotation], noun: &str) -> Option<String> {
    let rated = rated(annotations);
    let mut others: Vec<&Annotation> = rated.iter().flat_map(Rated::others).collect();
    others.sort_by_key(|annotation| annotation.line);
    let Annotation { segment, rater, line, .. } = others.first()?;
    let (path, seg, system) = (path.display(), numbered(segment.seg), &segment.system);
    let line = line.map_or_else(String::new, |line| format!(" line {line}"));
    let more = match others.len() {
        1 => String::new(),
        n => format!(" ({n} such ratings)"),
    };
    Some(format!(
        "`{path}`{line}: rater `{rater}` saw another translation of {seg} by `{system}` than most raters{more}; {noun}"
    ))
}

/// The weights that human annotations are scored with.
pub const WEIGHTS: &str = "wmt";

/// The annotations of one segment of a system, by the version of the translation that raters saw: that of
/// most raters first, of as many the one that comes first in the file. Versions that differ in white space at
/// the end are one.
#[derive(Clone, Debug, Default)]
pub struct Rated<'a> {
    versions: Vec<Vec<&'a Annotation>>,
}

impl<'a> Rated<'a> {
    /// The translation that most raters saw.
    pub fn segment(&self) -> &'a Segment {
        base(&self.versions[0])
    }

    /// The annotations of other versions.
    pub fn others(&self) -> impl Iterator<Item = &'a Annotation> {
        self.versions[1..].iter().flatten().copied()
    }
}

/// The segments of an annotation file, in the order of their first annotations.
pub fn rated<'a>(annotations: &'a [Annotation]) -> Vec<Rated<'a>> {
    let mut places: BTreeMap<UnitKey, usize> = BTreeMap::new();
    let mut all: Vec<Rated<'a>> = Vec::new();
    for annotation in annotations {
        let place = *places.entry(UnitKey::of_segment(&annotation.segment)).or_insert_with(|| {
            all.push(Rated::default());
            all.len() - 1
        });
        let text = |annotation: &'a Annotation| annotation.segment.hypothesis.trim_end();
        let is_its = |version: &&mut Vec<&'a Annotation>| text(version[0]) == text(annotation);
        let versions = &mut all[place].versions;
        match versions.iter_mut().find(is_its) {
            Some(version) => version.push(annotation),
            None => versions.push(vec![annotation]),
        }
    }
    for rated in &mut all {
        rated.versions.sort_by_key(|version| std::cmp::Reverse(by_rater(version).len()));
    }
    all
}

/// One verdict for each segment of a system, on the translation that most raters saw. Its score is the mean
/// of all scores that raters gave, or else of each rater's penalty; its errors are those of all of them,
/// without offsets where another version of the text differs.
///
/// # Panics
/// Never: the weights are among the presets.
pub fn records(annotations: &[Annotation]) -> Vec<Record> {
    rated(annotations).iter().map(|rated| record(rated.segment(), &rated.versions.concat())).collect()
}

/// One verdict for each version of a translation, by the raters who saw it.
///
/// # Panics
/// Never: the weights are among the presets.
pub fn translations(annotations: &[Annotation]) -> Vec<Record> {
    let versions = rated(annotations).into_iter().flat_map(|rated| rated.versions);
    versions.map(|version| record(base(&version), &version)).collect()
}

/// The longest text of a version, which holds every span.
fn base<'a>(version: &[&'a Annotation]) -> &'a Segment {
    let longest = version.iter().rev().max_by_key(|annotation| annotation.segment.hypothesis.len());
    &longest.expect("a version has annotations").segment
}

/// Annotations by rater, in the order in which raters come.
fn by_rater<'a>(annotations: &[&'a Annotation]) -> Vec<Vec<&'a Annotation>> {
    let mut raters: Vec<Vec<&Annotation>> = Vec::new();
    for &annotation in annotations {
        match raters.iter_mut().find(|rater| rater[0].rater == annotation.rater) {
            Some(rater) => rater.push(annotation),
            None => raters.push(vec![annotation]),
        }
    }
    raters
}

fn record(segment: &Segment, annotations: &[&Annotation]) -> Record {
    let weights = weights::find(WEIGHTS).expect("a preset");
    let on_segment = |annotation: &Annotation| {
        let errors = weighed(&annotation.errors, weights).into_iter();
        errors.map(|error| on_version(error, &annotation.segment, segment)).collect::<Vec<_>>()
    };
    let (mut errors, mut scores, mut assessed) = (Vec::new(), Vec::new(), Vec::new());
    for rater in by_rater(annotations) {
        assessed.extend(rater.iter().filter_map(|annotation| annotation.score));
        let found: Vec<ErrorSpan> = last(&rater).into_iter().flat_map(on_segment).collect();
        scores.push(weights.score(&found));
        errors.extend(found);
    }
    let quality_score = mean(&assessed);
    let score = quality_score.or_else(|| mean(&scores));
    Record { score, raw: score, quality_score, errors, ..blank(segment) }
}

/// The last of one rater's annotations of each text.
fn last<'a>(rater: &[&'a Annotation]) -> Vec<&'a Annotation> {
    let text = |annotation: &'a Annotation| annotation.segment.hypothesis.as_str();
    let places: BTreeMap<&str, usize> = rater.iter().enumerate().map(|(at, it)| (text(it), at)).collect();
    rater.iter().enumerate().filter(|(at, it)| places[text(it)] == *at).map(|(_, it)| *it).collect()
}

/// `None` of no values.
fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64 + 0.0)
}

/// The errors with their weights; one that the file gives stays.
fn weighed(errors: &[ErrorSpan], weights: &Weights) -> Vec<ErrorSpan> {
    let weigh = |error: &ErrorSpan| {
        let weight =
            if error.weight == 0.0 { weights.penalty(error.severity, &error.category) } else { error.weight };
        ErrorSpan { weight, ..error.clone() }
    };
    errors.iter().map(weigh).collect()
}

fn on_version(error: ErrorSpan, from: &Segment, to: &Segment) -> ErrorSpan {
    match error.side {
        Side::Source => error.in_version(&from.source, &to.source),
        Side::Target => error.in_version(&from.hypothesis, &to.hypothesis),
    }
}

fn blank(segment: &Segment) -> Record {
    Record {
        system: segment.system.clone(),
        doc: segment.doc.clone(),
        seg: Some(segment.seg),
        segs: Vec::new(),
        src_lang: segment.src_lang.clone(),
        tgt_lang: segment.tgt_lang.clone(),
        source: segment.source.clone(),
        hypothesis: segment.hypothesis.clone(),
        score: None,
        raw: None,
        direction: Direction::Higher,
        quality_score: None,
        interval: None,
        warning: None,
        errors: Vec::new(),
        status: Status::Ok,
        reason: None,
        n_calls: 0,
    }
}
