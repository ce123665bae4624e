//! Files of human annotations (MQM TSV) wherever a run or an input may stand. Reading is in `mqm::raters`, scores are
//! in `report::raters`.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Context, Result};

use super::args::Pair;
use crate::{
    meta::verdicts::Verdict,
    mqm::raters::{self, Annotation},
    report,
    run::{self, Record},
    segment::read::Input,
};

pub use raters::is_mqm_tsv;

/// The verdicts of a run folder, of a `verdicts.jsonl`, or of human raters.
///
/// # Errors
/// What cannot be read, and human annotations without their languages.
pub fn records(path: &Path, pair: Option<&Pair>) -> Result<Vec<Record>> {
    if path.is_file() && is_mqm_tsv(path) {
        return Ok(report::raters::records(&annotations(path, pair)?));
    }
    Ok(run::verdicts(path)?)
}

/// Human annotations as `meta` reads verdicts.
///
/// # Errors
/// As [`records`].
pub fn verdicts(path: &Path, pair: Option<&Pair>) -> Result<Vec<Verdict>> {
    as_read(&report::raters::records(&annotations(path, pair)?))
}

/// Verdicts as `meta` would read them from a run's folder.
///
/// # Errors
/// None that a user can cause.
pub fn as_read(records: &[Record]) -> Result<Vec<Verdict>> {
    let as_read = |record: &Record| Ok(serde_json::from_value(serde_json::to_value(record)?)?);
    records.iter().map(as_read).collect()
}

/// The translations that human raters saw, each once.
///
/// # Errors
/// As [`records`].
pub fn input(path: &Path, pair: Option<&Pair>) -> Result<Input> {
    let mut seen = BTreeSet::new();
    let mut segments = Vec::new();
    for Annotation { segment, .. } in annotations(path, pair)? {
        if seen.insert((segment.system.clone(), segment.doc.clone(), segment.seg)) {
            segments.push(segment);
        }
    }
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
