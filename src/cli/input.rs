//! From the input arguments to segments. There must be exactly one kind of input, and it must be complete.

use anyhow::{Result, bail};

use super::{
    args::{InputArgs, Pair},
    raters,
};
use crate::{
    run::selection::{Drawn, Selection},
    segment::read::{self, Input, Parallel, TestSet},
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
            no_docs(args, "--input")?;
            no_reference(args)?;
            no_systems(args)?;
            if raters::is_mqm_tsv(file) {
                return raters::input(file, args.pair.as_ref());
            }
            let pair = args.pair.as_ref().map(|pair| (pair.src.clone(), pair.tgt.clone()));
            Ok(read::table(file, pair.as_ref())?)
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

/// Which segments of the input get a verdict: all, the first ones, or a sample drawn by the seed. What the user
/// should know of a draw is added to the input's notes.
///
/// # Errors
/// A limit that leaves nothing, a sample that cannot be drawn.
pub fn select(args: &InputArgs, input: &mut Input, seed: u64) -> Result<Selection> {
    if let Some(n) = args.limit {
        return Ok(Selection::first(&input.segments, n)?);
    }
    let Some(n) = args.subset else { return Ok(Selection::All) };
    let drawn = Selection::draw(&input.segments, n, seed)?;
    let Drawn { documents, segments, left_out, .. } = drawn;
    input.notes.push(format!("the subset has {segments} segments of each system, in {documents} documents"));
    if left_out > 0 {
        let note = "documents were not in the draw, because some system did not translate them";
        input.notes.push(format!("{left_out} {note}"));
    }
    Ok(drawn.selection)
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
