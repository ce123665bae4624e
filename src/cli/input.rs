//! From the input arguments to segments. There must be exactly one kind of input, and it must be complete.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Context, Result, anyhow, bail};

use super::{
    args::{InputArgs, Pair},
    raters,
};
use crate::{
    files::{self, text},
    judges::Grouping,
    run::selection::{Drawn, Selection},
    segment::{
        Lang, Segments,
        read::{self, Input, Parallel, Streamed, TestSet},
    },
};

/// Reads the translations that the arguments name.
///
/// # Errors
/// Arguments that cannot be combined, and the readers' errors.
pub fn read(args: &InputArgs) -> Result<Input> {
    need_translations(args)?;
    read_any(args)
}

/// Checks that a source text comes with translations.
///
/// # Errors
/// `-s` without `-t`.
pub fn need_translations(args: &InputArgs) -> Result<()> {
    if args.source.is_some() && args.hypothesis.is_empty() {
        bail!("`-s` needs translations\nhint: add `-t HYPOTHESIS.txt`, one file for each system");
    }
    Ok(())
}

/// Reads the input that the arguments name, which may be a source text alone.
///
/// # Errors
/// As [`read`], but for sources without translations.
pub fn read_any(args: &InputArgs) -> Result<Input> {
    let text = args.source.is_some() || !args.hypothesis.is_empty();
    match (text, &args.input, &args.testset) {
        (true, None, None) => parallel(args),
        (false, Some(file), None) => {
            table_alone(args)?;
            if raters::is_mqm_tsv(file) {
                return raters::input(file, args.pair.as_ref());
            }
            Ok(read::table(file, languages(args).as_ref())?)
        }
        (false, None, Some(dir)) => {
            let Pair { given, src, tgt } = pair(args, "--testset")?.clone();
            let systems = Some(args.systems.clone()).filter(|systems| !systems.is_empty());
            let reference = args.reference.as_ref().map(|name| name.display().to_string());
            no_docs(args, "--testset")?;
            Ok(read::testset(&TestSet { dir: dir.clone(), pair: (given, src, tgt), systems, reference })?)
        }
        (false, None, None) => bail!(
            "nothing to judge\nhint: give `-s SOURCE.txt -t HYPOTHESIS.txt -l en-de`, `--input FILE.jsonl`, or \
             `--testset DIR -l en-de`"
        ),
        _ => bail!("`-s/-t`, `--input` and `--testset` cannot be combined\nhint: give only one of them"),
    }
}

/// As [`read_any`], with the texts on disk, so that a large input takes little memory.
///
/// # Errors
/// As [`read_any`].
pub fn stream_any(args: &InputArgs) -> Result<Streamed> {
    let text = args.source.is_some() || !args.hypothesis.is_empty();
    match (&args.input, text || args.testset.is_some()) {
        (Some(file), false) if !raters::is_mqm_tsv(file) => {
            table_alone(args)?;
            Ok(read::stream(file, languages(args).as_ref())?)
        }
        _ => Ok(read_any(args)?.try_into()?),
    }
}

/// Refuses what does not go with `--input`.
fn table_alone(args: &InputArgs) -> Result<()> {
    no_docs(args, "--input")?;
    no_reference(args)?;
    no_systems(args)
}

fn languages(args: &InputArgs) -> Option<(Lang, Lang)> {
    args.pair.as_ref().map(|pair| (pair.src.clone(), pair.tgt.clone()))
}

/// Which segments of the input get a verdict: all, the first ones, or a sample drawn by the seed. What the user
/// should know of a draw is added to the input's notes.
///
/// # Errors
/// A limit that leaves nothing, a sample that cannot be drawn.
pub fn select(args: &InputArgs, input: &mut Input, seed: u64, grouping: Grouping) -> Result<Selection> {
    select_from(args, &input.segments, &mut input.notes, (seed, || Ok(grouping)))
}

/// The same for segments in whatever form. What is judged together is asked where a subset is drawn.
///
/// # Errors
/// As [`select`].
pub fn select_from<S: Segments + ?Sized>(
    args: &InputArgs,
    segments: &S,
    notes: &mut Vec<String>,
    (seed, grouping): (u64, impl FnOnce() -> Result<Grouping>),
) -> Result<Selection> {
    let among = match &args.documents {
        None => Selection::All,
        Some(file) => named(file, segments)?,
    };
    if let Some(n) = args.limit {
        return Ok(among.first(segments, n)?);
    }
    let Some(n) = args.subset else { return Ok(among) };
    let drawn = among.draw(segments, n, seed, grouping()?)?;
    let Drawn { documents, segments, left_out, .. } = drawn;
    let whole = if segments > n {
        format!(", not {n}, since this method judges whole documents")
    } else {
        String::new()
    };
    notes.push(format!("the subset has {segments} segments of each system, in {documents} documents{whole}"));
    if left_out > 0 {
        let note = "documents were not in the draw, because some system did not translate them";
        notes.push(format!("{left_out} {note}"));
    }
    Ok(drawn.selection)
}

/// The names in a file of documents, `DOC` or `PAIR/DOC`, one a line.
///
/// # Errors
/// A file that cannot be read.
pub fn document_names(file: &Path) -> Result<BTreeSet<String>> {
    let text = text::read(file)
        .map_err(|error| anyhow!("cannot read `{}`: {}", file.display(), files::why(file, &error)))?;
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// The documents that a file names.
fn named<S: Segments + ?Sized>(file: &Path, segments: &S) -> Result<Selection> {
    Selection::named(segments, &document_names(file)?)
        .with_context(|| format!("`--documents {}`", file.display()))
}

fn parallel(args: &InputArgs) -> Result<Input> {
    no_systems(args)?;
    let Some(source) = args.source.clone() else {
        bail!("`-t` needs the source text\nhint: add `-s SOURCE.txt`");
    };
    let pair = pair(args, "-s")?;
    Ok(read::parallel(&Parallel {
        source,
        hypotheses: args.hypothesis.clone(),
        reference: args.reference.clone(),
        docs: args.docs.clone(),
        pair: (pair.src.clone(), pair.tgt.clone()),
    })?)
}

fn pair<'a>(args: &'a InputArgs, with: &str) -> Result<&'a Pair> {
    match &args.pair {
        Some(pair) => Ok(pair),
        None => bail!("`{with}` needs the languages\nhint: add `-l en-de`; the prompts name them"),
    }
}

fn no_docs(args: &InputArgs, kind: &str) -> Result<()> {
    if args.docs.is_some() {
        bail!("`--docs` belongs to `-s` and `-t`; `{kind}` brings its own documents");
    }
    Ok(())
}

fn no_reference(args: &InputArgs) -> Result<()> {
    if args.reference.is_some() {
        bail!(
            "`-r` belongs to `-s` and `-t`, or names the reference of `--testset`; `--input` brings its own references"
        );
    }
    Ok(())
}

fn no_systems(args: &InputArgs) -> Result<()> {
    if !args.systems.is_empty() {
        bail!("`--systems` works only with `--testset`");
    }
    Ok(())
}
