//! Ratings and texts from files: human annotations, run folders, tables. It checks nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    path::PathBuf,
};

use anyhow::Result;

use crate::{
    cli::raters::is_annotations,
    eval::{
        Pair,
        raters::{annotations, in_order},
    },
    meta::{
        lint::{
            Material,
            ratings::{Place, Rating},
            texts::Text,
        },
        verdicts,
    },
    mqm::{ErrorSpan, Side, raters::Annotation},
    run::{self, Record, UnitKey},
    segment::{Segment, read},
};

/// Reads every input; those of one language pair are checked together.
///
/// # Errors
/// Inputs that cannot be read.
pub fn read(inputs: &[PathBuf], pair: Option<&Pair>) -> Result<Vec<Material>> {
    let mut pairs: BTreeMap<String, Material> = BTreeMap::new();
    for path in inputs {
        if path.is_file() && is_annotations(path) {
            annotated(path, annotations(path, pair)?, &mut pairs);
        } else if verdicts::is_run(path) {
            let records = run::verdicts(path)?;
            // Some judges give scores without errors.
            let names_errors = records.iter().any(|record| !record.errors.is_empty());
            for record in records {
                judged(path, record, names_errors, &mut pairs);
            }
        } else {
            let languages = pair.map(|pair| (pair.src.clone(), pair.tgt.clone()));
            for segment in read::table(path, languages.as_ref())?.segments {
                material(&segment, &mut pairs).texts.push(text(path, None, &segment));
            }
        }
    }
    Ok(pairs.into_values().collect())
}

fn material<'a>(segment: &Segment, pairs: &'a mut BTreeMap<String, Material>) -> &'a mut Material {
    let lp = format!("{}-{}", segment.src_lang, segment.tgt_lang);
    pairs.entry(lp.clone()).or_insert_with(|| Material { lp, ..Material::default() })
}

/// Annotations, and each translation once, in the version of its first rater, by segment.
fn annotated(path: &Path, annotations: Vec<Annotation>, pairs: &mut BTreeMap<String, Material>) {
    let (mut seen, mut texts) = (BTreeSet::new(), Vec::new());
    // Some campaigns ask for scores without errors.
    let names_errors = annotations.iter().any(|annotation| !annotation.errors.is_empty());
    for Annotation { segment, rater, score, errors, line } in annotations {
        if seen.insert(UnitKey::of_segment(&segment)) {
            texts.push((segment.clone(), line));
        }
        let rating = Rating {
            file: path.to_owned(),
            line,
            system: segment.system.clone(),
            doc: segment.doc.clone(),
            seg: segment.seg,
            source: segment.source.clone(),
            translation: segment.hypothesis.clone(),
            annotator: rater,
            score,
            errors: errors.iter().filter_map(place).collect(),
            n_errors: names_errors.then_some(errors.len()),
        };
        material(&segment, pairs).ratings.push(rating);
    }
    in_order(&mut texts, |(segment, _)| segment);
    for (segment, line) in texts {
        material(&segment, pairs).texts.push(text(path, line, &segment));
    }
}

/// The verdict of a judge as a rating; the judge is called by its folder.
fn judged(path: &Path, record: Record, names_errors: bool, pairs: &mut BTreeMap<String, Material>) {
    let Some(seg) = record.seg else { return };
    let annotator = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let segment = Segment {
        system: record.system,
        doc: record.doc,
        seg,
        src_lang: record.src_lang,
        tgt_lang: record.tgt_lang,
        source: record.source,
        hypothesis: record.hypothesis,
        reference: None,
        domain: None,
        reference_kind: None,
    };
    let material = material(&segment, pairs);
    material.texts.push(text(path, None, &segment));
    if record.status == run::Status::Ok {
        let errors: Vec<Place> = record.errors.iter().filter_map(place).collect();
        material.ratings.push(Rating {
            file: path.to_owned(),
            line: None,
            system: segment.system,
            doc: segment.doc,
            seg,
            source: segment.source,
            translation: segment.hypothesis,
            annotator,
            score: record.score,
            n_errors: names_errors.then_some(record.errors.len()),
            errors,
        });
    }
}

fn place(error: &ErrorSpan) -> Option<Place> {
    Some(Place { in_source: error.side == Side::Source, start: error.start?, end: error.end? })
}

fn text(path: &Path, line: Option<usize>, segment: &Segment) -> Text {
    Text {
        file: path.to_owned(),
        line,
        system: segment.system.clone(),
        doc: segment.doc.clone(),
        seg: segment.seg,
        source: segment.source.clone(),
        translation: segment.hypothesis.clone(),
    }
}
