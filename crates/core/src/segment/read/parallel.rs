//! Parallel text: one segment a line in a source file and in one file for each system.
//! It aligns nothing: line N is segment N.

use std::path::{Path, PathBuf};

use super::{Error, Input, Result, layout, text};
use crate::{
    files::stem,
    segment::{Lang, Segment},
};

/// The files of a parallel text.
#[derive(Clone, Debug)]
pub struct Parallel {
    pub source: PathBuf,
    /// One file for each system, which is called like the file without the ending of its format. Without any,
    /// every segment is an empty translation by a system that is called like the source file.
    pub hypotheses: Vec<PathBuf>,
    pub reference: Option<PathBuf>,
    /// `DOC` or mt-metrics-eval's `DOMAIN DOC` on each line; without it every segment stands alone.
    pub docs: Option<PathBuf>,
    pub pair: (Lang, Lang),
}

/// Reads a parallel text.
///
/// # Errors
/// [`Error`]: files that cannot be read, line counts that differ, empty sources, scattered documents.
pub fn parallel(files: &Parallel) -> Result<Input> {
    let sources = sources(&files.source)?;
    let docs = files.docs.as_deref().map(|path| docs(path, &files.source, sources.len())).transpose()?;
    let mut notes = Vec::new();
    let references = match &files.reference {
        Some(path) => Some(references(path, &files.source, sources.len(), &mut notes)?),
        None => None,
    };
    let mut segments = Vec::with_capacity(sources.len() * files.hypotheses.len().max(1));
    if files.pair.0 == files.pair.1 {
        notes.push(format!("source and translation are both said to be in `{}`", files.pair.0));
    }
    for (system, hypotheses) in translations(files, sources.len(), &mut notes)? {
        for (seg, hypothesis) in hypotheses.into_iter().enumerate() {
            segments.push(Segment {
                system: system.clone(),
                doc: docs.as_ref().map_or_else(String::new, |docs| docs[seg].clone()),
                seg,
                src_lang: files.pair.0.clone(),
                tgt_lang: files.pair.1.clone(),
                source: sources[seg].clone(),
                hypothesis,
                reference: references.as_ref().and_then(|lines| lines[seg].clone()),
                domain: None,
                reference_kind: None,
            });
        }
    }
    Input::new(segments, notes, &files.source)
}

/// The systems with their translations, one for every source.
fn translations(
    files: &Parallel,
    n_sources: usize,
    notes: &mut Vec<String>,
) -> Result<Vec<(String, Vec<String>)>> {
    if files.hypotheses.is_empty() {
        return Ok(vec![(stem(&files.source), vec![String::new(); n_sources])]);
    }
    let read = |(system, path): (String, &Path)| {
        let hypotheses = text::lines(path)?;
        same_length(&files.source, n_sources, path, hypotheses.len())?;
        note_empty(path, &hypotheses, notes);
        Ok((system, hypotheses))
    };
    systems(&files.hypotheses)?.into_iter().map(read).collect()
}

/// The lines of a source file; none of them is empty.
pub fn sources(path: &Path) -> Result<Vec<String>> {
    let sources = layout::texts(path, "source")?;
    let empty: Vec<usize> = (0..sources.len()).filter(|&i| sources[i].trim().is_empty()).collect();
    match empty.as_slice() {
        [] => Ok(sources),
        [first, rest @ ..] => {
            let more =
                if rest.is_empty() { String::new() } else { format!(" ({} more such lines)", rest.len()) };
            Err(Error::EmptySource { path: path.into(), line: first + 1, more })
        }
    }
}

/// The document of each line.
pub fn docs(path: &Path, source: &Path, n_sources: usize) -> Result<Vec<String>> {
    let places = layout::places(path)?;
    same_length(source, n_sources, path, places.len())?;
    Ok(places.into_iter().map(|place| place.doc).collect())
}

/// The reference of each line; an empty line is no reference.
pub fn references(
    path: &Path,
    source: &Path,
    n_sources: usize,
    notes: &mut Vec<String>,
) -> Result<Vec<Option<String>>> {
    let lines = layout::texts(path, "target")?;
    same_length(source, n_sources, path, lines.len())?;
    let references: Vec<Option<String>> =
        lines.into_iter().map(|line| Some(line).filter(|line| !line.trim().is_empty())).collect();
    let missing: Vec<usize> = (0..references.len()).filter(|&i| references[i].is_none()).collect();
    if !missing.is_empty() {
        notes.push(format!("`{}` has no reference on {}", path.display(), line_list(&missing)));
    }
    Ok(references)
}

pub fn same_length(a: &Path, n_a: usize, b: &Path, n_b: usize) -> Result<()> {
    if n_a == n_b {
        return Ok(());
    }
    let hint = match n_a.min(n_b) {
        0 => format!("; `{}` is empty", if n_a == 0 { a } else { b }.display()),
        least => format!("; the files diverge at line {} or earlier", least + 1),
    };
    Err(Error::Lengths { a: a.into(), n_a, b: b.into(), n_b, hint })
}

/// Adds a note about empty translations, which are allowed (and bad).
pub fn note_empty(path: &Path, hypotheses: &[String], notes: &mut Vec<String>) {
    let empty: Vec<usize> = (0..hypotheses.len()).filter(|&i| hypotheses[i].trim().is_empty()).collect();
    if !empty.is_empty() {
        notes.push(format!("`{}` has an empty translation on {}", path.display(), line_list(&empty)));
    }
}

/// `line 3`, `lines 3, 5 and 8`, `lines 3, 5, 8 and 12 more`, from indices that start at 0.
pub fn line_list(indices: &[usize]) -> String {
    let shown: Vec<String> = indices.iter().take(3).map(|i| (i + 1).to_string()).collect();
    match (shown.as_slice(), indices.len()) {
        ([one], _) => format!("line {one}"),
        (_, n) if n > 3 => format!("lines {} and {} more", shown.join(", "), n - 3),
        ([most @ .., last], _) => format!("lines {} and {last}", most.join(", ")),
        ([], _) => "no line".into(),
    }
}

fn systems(hypotheses: &[PathBuf]) -> Result<Vec<(String, &Path)>> {
    let mut systems: Vec<(String, &Path)> = Vec::new();
    for path in hypotheses {
        let system = stem(path);
        if let Some((_, a)) = systems.iter().find(|(other, _)| *other == system) {
            let (a, b) = (a.to_path_buf(), path.clone());
            let is_same =
                a.canonicalize().is_ok_and(|real| b.canonicalize().is_ok_and(|other| real == other));
            return Err(if is_same { Error::Twice(b) } else { Error::SameSystem { system, a, b } });
        }
        systems.push((system, path));
    }
    Ok(systems)
}
