//! `tribunal export`: a run in the formats of the field. The formats are in `report::export`; names, test
//! sets and files are here.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};

use super::{
    output::{Printed, spare_runs},
    raters,
};
use crate::{
    console::args,
    eval::{Pair, raters as of_raters},
    files,
    judges::{Reads, registry},
    mqm::raters::Counted,
    report::export::{
        self, Format, Job, Origin, Rows,
        testset::{self, Raters},
        wmt26::{TASK_THRESHOLD, Task},
    },
    run::{self, Record, RunFile, finish::VERDICTS, record::Scale, trained_on},
    segment::trained::Overlap,
    signature::Signature,
};

/// Write a run in a format of the field.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// A run folder, a `verdicts.jsonl`, or human annotations: an MQM TSV, WMT25's or Pearmut's
    #[arg(value_name = "DIR|FILE")]
    pub run: PathBuf,
    /// The format
    #[arg(long = "as", value_name = "FORMAT", value_enum)]
    pub format: Format,
    /// The file to write; for mtme a folder, such as the `metric-scores` of a test set
    #[arg(long, value_name = "PATH")]
    pub out: PathBuf,
    /// Name of the judge as a rater or a metric; default: tribunal-METHOD-MODEL
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// mtme: the reference that the judge was shown; default: src, for none
    #[arg(long, value_name = "NAME")]
    pub reference: Option<String>,
    /// mtme: the test set's folder, for the number of its segments and their domains; wmt26: the task's file
    /// (required); testset: the task's file, to include items that were not rated
    #[arg(long, value_name = "DIR|FILE")]
    pub testset: Option<PathBuf>,
    /// wmt26: the score, of 0 to 100, from which a translation without an error is error-free (Task 3)
    /// [default: 85]
    #[arg(long, value_name = "SCORE", value_parser = args::percent)]
    pub threshold: Option<f64>,
    /// The language pair of human annotations that name none; otherwise the only pair to export
    #[arg(short = 'l', long = "language-pair", visible_alias = "lp", value_name = "SRC-TGT")]
    pub pair: Option<Pair>,
}

/// Runs `tribunal export`.
///
/// # Errors
/// A run that cannot be read, a format that cannot hold it, files that cannot be written.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<ExitCode> {
    spare_runs(&args.out)?;
    if args.threshold.is_some() && args.format != Format::Wmt26 {
        bail!("`--threshold` is for error-free decisions\nhint: add `--as wmt26`, or leave it out");
    }
    let signature = signature(&args.run)?;
    say_cautions(&args.run);
    let name = args.name.clone().unwrap_or_else(|| export::default_name(&args.run, signature.as_ref()));
    let reference = reference(args, signature.as_ref())?;
    let is_human = args.run.is_file() && raters::is_annotations(&args.run);
    if is_human && args.format == Format::Testset {
        return test_set(args, out);
    }
    let text = signature.as_ref().map(ToString::to_string);
    let task = task(args, signature.as_ref());
    let mut origin = Origin { signature: text.as_deref(), task };
    if let Some(rows) = export::rows(args.format, &name, origin)?.filter(|_| !is_human) {
        say_replaced(&args.out);
        say_notes(&stream(args, rows)?);
        say_lost(args.format);
        written(&args.out, out)?;
        return checked(args);
    }
    // A score file has one score for a segment, whatever versions of a translation raters saw.
    let records = if is_human && args.format != Format::Mtme {
        raters::translations(&args.run, args.pair.as_ref())?
    } else {
        raters::records(&args.run, args.pair.as_ref())?
    };
    if let Some(task) = origin.task.as_mut().filter(|_| is_human) {
        task.scale = Some(scale_of_raters(&records)?);
    }
    let test_sets = match &args.testset {
        Some(dir) if args.format != Format::Wmt26 => export::test_sets(dir, &args.run, &records)?,
        _ => Vec::new(),
    };
    let records = export::placed(records, &test_sets);
    let job = Job { records: &records, name: &name, reference: &reference, test_sets: &test_sets, origin };
    let export = export::export(args.format, &job)?;
    say_notes(&export.notes);
    say_lost(args.format);
    let trained_on = if args.format == Format::Mtme { trained_on::of(&args.run) } else { Vec::new() };
    for overlap in &trained_on {
        say!("warning: {overlap}");
    }
    let beside = beside(args, &export.files, &trained_on)?;
    let files = export.files.iter().map(|(path, bytes)| (path, bytes)).chain(&beside);
    let at =
        |path: &PathBuf| if path.as_os_str().is_empty() { args.out.clone() } else { args.out.join(path) };
    let files: Vec<_> = files.map(|(path, bytes)| (at(path), bytes)).collect();
    write_all(&files)?;
    files.iter().try_for_each(|(path, _)| written(path, out))?;
    checked(args)
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    create_parent(path)?;
    say_replaced(path);
    Ok(files::write(path, |file| file.write_all(bytes))?)
}

/// Writes all files of an export, or none: where one fails, those that are new go again, with their folders.
fn write_all(files: &[(PathBuf, &Vec<u8>)]) -> Result<()> {
    let mut new: Vec<&Path> = Vec::new();
    for (path, bytes) in files {
        let folders = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        new.extend(folders.take_while(|folder| !folder.exists()).collect::<Vec<_>>().into_iter().rev());
        let is_new = !path.exists();
        if let Err(error) = write(path, bytes) {
            for path in new.into_iter().rev() {
                let _ = std::fs::remove_file(path).or_else(|_| std::fs::remove_dir(path));
            }
            return Err(error);
        }
        new.extend(is_new.then_some(path.as_path()));
    }
    Ok(())
}

/// Writes human annotations as a test set.
fn test_set(args: &Args, out: &mut dyn Write) -> Result<ExitCode> {
    let counted = |counted| of_raters::counted(&args.run, args.pair.as_ref(), counted);
    let annotations = counted(Counted::Official)?;
    let versions = of_raters::translations(&annotations);
    let last = of_raters::translations(&counted(Counted::Last)?);
    let (name, task) = (args.name.as_deref(), args.testset.as_deref());
    let last = (last != versions).then_some(last.as_slice());
    let raters = Raters { annotations: &annotations, versions: &versions, last, name, task };
    let export = testset::export(&raters)?;
    say_notes(&export.notes);
    let files: Vec<_> = export.files.iter().map(|(path, bytes)| (args.out.join(path), bytes)).collect();
    write_all(&files)?;
    written(&args.out, out)?;
    Ok(ExitCode::SUCCESS)
}

/// The task of a submission, and the scale of the run's scores.
fn task<'a>(args: &'a Args, signature: Option<&Signature>) -> Option<Task<'a>> {
    let file = args.testset.as_deref().filter(|_| args.format == Format::Wmt26)?;
    let method = signature.and_then(registry::of_signature);
    let rates = method.filter(|method| method.reads == Reads::Translations);
    Some(Task {
        file,
        marks: method.is_none_or(|method| method.marks_errors()),
        scale: signature.zip(rates).map(|(signature, method)| registry::scale(&method, signature)),
        has_references: signature.and_then(|signature| signature.get("reference")) == Some("on"),
        threshold: args.threshold.unwrap_or(TASK_THRESHOLD),
    })
}

/// The scale of raters' scores: that of direct assessments, or of penalties where they only marked errors.
fn scale_of_raters(records: &[Record]) -> Result<Scale> {
    match records.iter().filter(|record| record.quality_score.is_some()).count() {
        0 => Ok(Scale::PENALTY),
        n if n == records.len() => Ok(Scale::PERCENT),
        _ => bail!(
            "raters scored translations of some language pairs and only marked errors in others, which are two scales\nhint: \
             export one pair with `-l`"
        ),
    }
}

/// Checks a submission that was written, and prints its faults: exit code 1 where the task would not accept
/// it.
fn checked(args: &Args) -> Result<ExitCode> {
    match &args.testset {
        Some(task) if args.format == Format::Wmt26 && !files::is_stream(&args.out) => {
            let mut report = Vec::new();
            let code = super::submission::check(task, &args.out, Printed::default(), &mut report)?;
            String::from_utf8_lossy(&report).lines().for_each(|line| say!("{line}"));
            Ok(code)
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// The signature of a run folder, or of the folder of its verdicts.
fn signature(path: &Path) -> Result<Option<Signature>> {
    let folder = match path.parent() {
        Some(folder) if path.file_name().is_some_and(|name| name == VERDICTS) => folder,
        _ => path,
    };
    let is_run = folder.join("run.json").is_file();
    Ok(is_run.then(|| RunFile::read(folder)).transpose()?.map(|run| run.signature))
}

/// Prints the name of a file that was written; not in a pipe, whose bytes are the result.
fn written(path: &Path, out: &mut dyn Write) -> Result<()> {
    if !files::is_stream(path) {
        writeln!(out, "{}", path.display())?;
    }
    Ok(())
}

/// Writes the overlap of the judge's training data with the input into a file beside each score file, for
/// `tribunal meta`; an older one is emptied.
fn beside(
    args: &Args,
    files: &[(PathBuf, Vec<u8>)],
    trained_on: &[Overlap],
) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let json = serde_json::to_vec(trained_on)?;
    let paths = files.iter().filter_map(|(path, _)| trained_on::beside(path));
    let written = paths.filter(|path| !trained_on.is_empty() || args.out.join(path).exists());
    Ok(written.map(|path| (path, json.clone())).collect())
}

/// Writes a format of rows; what it could not hold.
fn stream(args: &Args, rows: Box<dyn Rows>) -> Result<Vec<String>> {
    create_parent(&args.out)?;
    let mut ended = Ok(Vec::new());
    let written = files::write(&args.out, |file| {
        ended = all_rows(args, rows, file);
        if ended.is_ok() { Ok(()) } else { Err(io::Error::other("the format does not hold the run")) }
    });
    // The cause first.
    let notes = ended?;
    written?;
    Ok(notes)
}

/// Goes through the run's verdicts, one in memory at a time.
fn all_rows(args: &Args, mut rows: Box<dyn Rows>, file: &mut dyn Write) -> Result<Vec<String>> {
    let mut unfit = None;
    for record in run::verdicts(&args.run)? {
        let record = record?;
        if unfit.is_none() {
            unfit = rows.add(&record, file).err();
        }
    }
    unfit.map_or(Ok(()), Err)?;
    Ok(rows.finish(file)?)
}

fn create_parent(path: &Path) -> Result<()> {
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => {
            std::fs::create_dir_all(parent).with_context(|| format!("cannot create `{}`", parent.display()))
        }
        None => Ok(()),
    }
}

fn say_notes(notes: &[String]) {
    for note in notes {
        say!("note: {note}");
    }
}

/// Lists what the format cannot hold.
fn say_lost(format: Format) {
    if let Some(lost) = format.loses() {
        say!("note: the format has no place for {lost}");
    }
}

/// Prints the cautions about a run: formats of other programs have no place for them.
fn say_cautions(run: &Path) {
    let run = RunFile::read(run).ok();
    run.iter().flat_map(RunFile::all_cautions).for_each(|caution| say!("caution: {caution}"));
}

/// Prints a note that an existing file is replaced.
fn say_replaced(path: &Path) {
    if path.is_file() {
        say!("note: `{}` is replaced", path.display());
    }
}

/// The reference in file names.
fn reference(args: &Args, signature: Option<&Signature>) -> Result<String> {
    let shown = signature.and_then(|signature| signature.get("reference")) == Some("on");
    match &args.reference {
        Some(name) => Ok(name.clone()),
        None if shown && args.format == Format::Mtme => bail!(
            "this judge was shown a reference, which the names of score files tell\nhint: add `--reference refA`"
        ),
        None => Ok("src".into()),
    }
}
