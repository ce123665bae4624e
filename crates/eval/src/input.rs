//! From an [`InputSpec`] to segments. There must be exactly one kind of input, and it must be complete.

use std::{collections::BTreeSet, path::Path};

use crate::{
    error::{Error, InputKind, Result},
    files::text,
    judges::Grouping,
    mqm, raters,
    run::selection::{Drawn, Selection},
    segment::{
        Lang, Segments,
        read::{self, Input, Parallel, Streamed, TestSet, layout::TestsetFiles},
    },
    spec::{InputSpec, Pair},
};

/// Reads the translations that a specification names.
///
/// # Errors
/// Fields that cannot be combined, and the readers' errors.
pub fn read(spec: &InputSpec) -> Result<Input> {
    need_translations(spec)?;
    read_any(spec)
}

/// Checks that a source text comes with translations.
///
/// # Errors
/// [`Error::NoTranslations`].
pub fn need_translations(spec: &InputSpec) -> Result<()> {
    if spec.source.is_some() && spec.hypotheses.is_empty() {
        return Err(Error::NoTranslations);
    }
    Ok(())
}

/// Reads the input that a specification names, which may be a source text alone.
///
/// # Errors
/// The errors of [`read`], but for sources without translations.
pub fn read_any(spec: &InputSpec) -> Result<Input> {
    let text = spec.source.is_some() || !spec.hypotheses.is_empty();
    match (text, &spec.table, &spec.testset) {
        (true, None, None) => parallel(spec),
        (false, Some(file), None) => {
            table_alone(spec)?;
            if mqm::raters::is_annotations(file) {
                return raters::input(file, spec.pair.as_ref());
            }
            Ok(read::table(file, languages(spec).as_ref())?)
        }
        (false, None, Some(dir)) => {
            let Pair { name, src, tgt } = pair(spec, InputKind::TestSet)?.clone();
            let systems = Some(spec.systems.clone()).filter(|systems| !systems.is_empty());
            let reference = spec.reference.as_ref().map(|name| name.display().to_string());
            no_docs(spec, InputKind::TestSet)?;
            Ok(read::testset(&TestSet { dir: dir.clone(), pair: (name, src, tgt), systems, reference })?)
        }
        (false, None, None) => Err(Error::NoInput),
        _ => Err(Error::SeveralInputs),
    }
}

/// Reads the input as [`read_any`] does, with the texts on disk, so that a large input takes little memory.
///
/// # Errors
/// The errors of [`read_any`].
pub fn stream_any(spec: &InputSpec) -> Result<Streamed> {
    let text = spec.source.is_some() || !spec.hypotheses.is_empty();
    match (&spec.table, text || spec.testset.is_some()) {
        (Some(file), false) if !mqm::raters::is_annotations(file) => {
            table_alone(spec)?;
            Ok(read::stream(file, languages(spec).as_ref())?)
        }
        _ => Ok(read_any(spec)?.try_into()?),
    }
}

/// Refuses what does not go with a table.
fn table_alone(spec: &InputSpec) -> Result<()> {
    no_docs(spec, InputKind::Table)?;
    no_reference(spec)?;
    no_systems(spec)
}

fn languages(spec: &InputSpec) -> Option<(Lang, Lang)> {
    spec.pair.as_ref().map(|pair| (pair.src.clone(), pair.tgt.clone()))
}

/// Selects the segments of the input that get a verdict: all, the first ones, or a sample drawn by the seed.
/// Notes for the user about a draw are added to the input's notes.
///
/// # Errors
/// A limit that leaves nothing, a sample that cannot be drawn.
pub fn select(spec: &InputSpec, input: &mut Input, seed: u64, grouping: Grouping) -> Result<Selection> {
    select_from(spec, &input.segments, &mut input.notes, (seed, || Ok(grouping)))
}

/// Selects from segments in any representation. The grouping is used only where a subset is drawn.
///
/// # Errors
/// The errors of [`select`].
pub fn select_from<S: Segments + ?Sized>(
    spec: &InputSpec,
    segments: &S,
    notes: &mut Vec<String>,
    (seed, grouping): (u64, impl FnOnce() -> Result<Grouping>),
) -> Result<Selection> {
    let among = match &spec.documents {
        None => Selection::All,
        Some(file) => named(file, segments)?,
    };
    let among = if spec.rated { rated(spec, &among, segments, notes)? } else { among };
    if let Some(n) = spec.limit {
        return Ok(among.first(segments, n)?);
    }
    let Some(n) = spec.subset else { return Ok(among) };
    let drawn = among.draw(segments, n, seed, grouping()?)?;
    let Drawn { documents, segments, left_out, .. } = drawn;
    let unit_note = if segments > n {
        format!(", not {n}, since this method judges whole documents")
    } else {
        String::new()
    };
    notes.push(format!(
        "segments of each system in the subset: {segments}{unit_note}; documents: {documents}"
    ));
    if left_out > 0 {
        notes.push(format!(
            "documents left out of the draw, since some system did not translate them: {left_out}"
        ));
    }
    Ok(drawn.selection)
}

/// The names in a file of documents, `DOC` or `PAIR/DOC`, one a line.
///
/// # Errors
/// A file that cannot be read.
pub fn document_names(file: &Path) -> Result<BTreeSet<String>> {
    let text = text::read(file).map_err(|source| Error::Read { path: file.into(), source })?;
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// The documents that a file names.
fn named<S: Segments + ?Sized>(file: &Path, segments: &S) -> Result<Selection> {
    let selection = Selection::named(segments, &document_names(file)?);
    selection.map_err(|source| Error::Documents { file: file.into(), source })
}

/// The segments of a selection that raters scored.
fn rated<S: Segments + ?Sized>(
    spec: &InputSpec,
    among: &Selection,
    segments: &S,
    notes: &mut Vec<String>,
) -> Result<Selection> {
    let (Some(dir), Some(pair)) = (&spec.testset, &spec.pair) else { return Err(Error::NothingRated) };
    let rated = TestsetFiles::new(dir, &pair.name).rated()?;
    let is_rated = |idx: &usize| among.wants(*idx) && rated.contains(&segments.outline(*idx).seg);
    let chosen: BTreeSet<usize> = (0..segments.n_segments()).filter(is_rated).collect();
    if chosen.is_empty() {
        return Err(Error::NothingRated);
    }
    notes.push(format!("{} of {} translations are of rated segments", chosen.len(), segments.n_segments()));
    Ok(Selection::Only(chosen))
}

fn parallel(spec: &InputSpec) -> Result<Input> {
    no_systems(spec)?;
    let Some(source) = spec.source.clone() else {
        return Err(Error::NoSource);
    };
    let pair = pair(spec, InputKind::Texts)?;
    Ok(read::parallel(&Parallel {
        source,
        hypotheses: spec.hypotheses.clone(),
        reference: spec.reference.clone(),
        docs: spec.docs.clone(),
        pair: (pair.src.clone(), pair.tgt.clone()),
    })?)
}

fn pair(spec: &InputSpec, kind: InputKind) -> Result<&Pair> {
    spec.pair.as_ref().ok_or(Error::NoLanguages(kind))
}

fn no_docs(spec: &InputSpec, kind: InputKind) -> Result<()> {
    if spec.docs.is_some() {
        return Err(Error::DocumentsBesideTexts(kind));
    }
    Ok(())
}

fn no_reference(spec: &InputSpec) -> Result<()> {
    if spec.reference.is_some() {
        return Err(Error::ReferenceBesideTable);
    }
    Ok(())
}

fn no_systems(spec: &InputSpec) -> Result<()> {
    if !spec.systems.is_empty() {
        return Err(Error::SystemsBesideTestSet);
    }
    Ok(())
}
