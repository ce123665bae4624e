//! Files of human annotations (MQM TSV) wherever a run or an input may stand. Reading is in `mqm::raters`, scores are
//! in `report::raters`.

use std::path::Path;

use anyhow::{Context, Result};

use super::args::Pair;
use crate::{
    meta::verdicts::Verdict,
    mqm::raters::{self, Annotation},
    report::{
        self,
        raters::{Rated, rated},
    },
    run::{self, Record},
    segment::{numbered, read::Input},
};

pub use raters::is_mqm_tsv;

/// The verdicts of a run folder, of a `verdicts.jsonl`, or of human raters.
///
/// # Errors
/// What cannot be read, and human annotations without their languages.
pub fn records(path: &Path, pair: Option<&Pair>) -> Result<Vec<Record>> {
    if path.is_file() && is_mqm_tsv(path) {
        let annotations = annotations(path, pair)?;
        say_versions(path, &annotations, "these count in scores, without places where texts differ");
        return Ok(report::raters::records(&annotations));
    }
    Ok(run::verdicts(path)?)
}

/// The verdicts of human raters, one for each version of a translation that they saw.
///
/// # Errors
/// As [`records`].
pub fn translations(path: &Path, pair: Option<&Pair>) -> Result<Vec<Record>> {
    let annotations = annotations(path, pair)?;
    say_versions(path, &annotations, "each version has its own verdict");
    Ok(report::raters::translations(&annotations))
}

/// Human annotations as `meta` reads verdicts.
///
/// # Errors
/// As [`records`].
pub fn verdicts(path: &Path, pair: Option<&Pair>) -> Result<Vec<Verdict>> {
    as_read(&records(path, pair)?)
}

/// Verdicts as `meta` would read them from a run's folder.
///
/// # Errors
/// None that a user can cause.
pub fn as_read(records: &[Record]) -> Result<Vec<Verdict>> {
    let as_read = |record: &Record| Ok(serde_json::from_value(serde_json::to_value(record)?)?);
    records.iter().map(as_read).collect()
}

/// The translations that human raters saw, each once: of several versions that of most raters.
///
/// # Errors
/// As [`records`].
pub fn input(path: &Path, pair: Option<&Pair>) -> Result<Input> {
    let annotations = annotations(path, pair)?;
    say_versions(path, &annotations, "the version of most raters is judged");
    let mut segments: Vec<_> = rated(&annotations).iter().map(|rated| rated.segment().clone()).collect();
    // Raters work through a document in their own order; judges read it in the author's.
    segments.sort_by(|a, b| (&a.system, a.seg).cmp(&(&b.system, b.seg)));
    Ok(Input::new(segments, Vec::new(), path)?)
}

fn annotations(path: &Path, pair: Option<&Pair>) -> Result<Vec<Annotation>> {
    let pair = pair.with_context(|| {
        format!(
            "`{}` holds human annotations, which do not name their languages; hint: add `-l en-de`",
            path.display()
        )
    })?;
    Ok(raters::read(path, &(pair.src.clone(), pair.tgt.clone()))?)
}

/// Says which raters saw another translation than most, and what becomes of their ratings.
fn say_versions(path: &Path, annotations: &[Annotation], what: &str) {
    let rated = rated(annotations);
    let mut others: Vec<&Annotation> = rated.iter().flat_map(Rated::others).collect();
    others.sort_by_key(|annotation| annotation.line);
    let Some(Annotation { segment, rater, line, .. }) = others.first() else { return };
    let (path, seg, system) = (path.display(), numbered(segment.seg), &segment.system);
    let more = match others.len() {
        1 => String::new(),
        n => format!(" ({n} such ratings)"),
    };
    say!(
        "note: `{path}` line {line}: rater `{rater}` saw another translation of {seg} by `{system}` than most raters{more}; {what}"
    );
}
