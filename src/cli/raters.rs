//! Files of human annotations (MQM TSV) wherever a run or an input may stand. Reading is in `mqm::raters`,
//! scores are in `eval::raters`.

use std::path::Path;

use anyhow::Result;

use crate::{
    eval::{
        Pair,
        raters::{annotations, other_versions, records as of_raters, translations as seen_translations},
    },
    meta::verdicts::Verdict,
    mqm::raters::{self, Annotation},
    report::as_verdicts,
    run::{self, Record},
};

pub use raters::is_annotations;

/// The verdicts of a run folder, of a `verdicts.jsonl`, or of human raters.
///
/// # Errors
/// A file that cannot be read, and human annotations without their languages.
pub fn records(path: &Path, pair: Option<&Pair>) -> Result<Vec<Record>> {
    if path.is_file() && is_annotations(path) {
        let annotations = annotations(path, pair)?;
        say_versions(path, &annotations, "these count in scores, without places where texts differ");
        return Ok(of_raters(&annotations));
    }
    Ok(run::verdicts(path)?.collect::<Result<_, _>>()?)
}

/// The verdicts of human raters, one for each version of a translation that they saw.
///
/// # Errors
/// The errors of [`records`].
pub fn translations(path: &Path, pair: Option<&Pair>) -> Result<Vec<Record>> {
    let annotations = annotations(path, pair)?;
    say_versions(path, &annotations, "each version has its own verdict");
    Ok(seen_translations(&annotations))
}

/// Human annotations as `meta` reads verdicts.
///
/// # Errors
/// The errors of [`records`].
pub fn verdicts(path: &Path, pair: Option<&Pair>) -> Result<Vec<Verdict>> {
    Ok(as_verdicts(&records(path, pair)?))
}

/// Prints which raters saw another translation than most, and how their ratings are treated.
fn say_versions(path: &Path, annotations: &[Annotation], noun: &str) {
    if let Some(note) = other_versions(path, annotations, noun) {
        say!("note: {note}");
    }
}
