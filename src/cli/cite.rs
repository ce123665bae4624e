//! `tribunal cite`: a paragraph about a run for a paper, its BibTeX entries and facts for a checklist, which
//! `eval::citation` writes.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Result;
use serde_json::{Map, Value};

use super::output::TextOrJson;
use crate::{console::wrap, eval::citation::Citation, run::RunFile};

/// Cite runs in a paper.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Run folders
    #[arg(required = true, value_name = "DIR")]
    pub runs: Vec<PathBuf>,
    #[command(flatten)]
    pub printed: TextOrJson,
}

/// Runs `tribunal cite`.
///
/// # Errors
/// A folder without a run that can be read.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<ExitCode> {
    let runs = args.runs.iter().map(|dir| of(dir, &RunFile::read(dir)?));
    let runs: Vec<Citation> = runs.collect::<Result<_>>()?;
    if args.printed.is_json() {
        writeln!(out, "{}", serde_json::to_string_pretty(&runs)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let width = wrap::stdout_columns();
    let wrapped = |text: &str| wrap::broken(text, width.unwrap_or(usize::MAX)).join("\n");
    let mut entries = Map::new();
    for Citation { paragraph, bibtex, .. } in &runs {
        writeln!(out, "{}\n", wrapped(paragraph))?;
        entries.extend(bibtex.clone());
    }
    for entry in entries.values().filter_map(Value::as_str) {
        writeln!(out, "{entry}\n")?;
    }
    for Citation { run, checklist, .. } in &runs {
        writeln!(out, "For the ACL Responsible NLP checklist, {}:", run.display())?;
        let items: Vec<_> =
            checklist.iter().filter_map(|(item, facts)| Some((item, facts.as_str()?))).collect();
        write!(out, "{}", wrap::fields(&items, width))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The citation of the run in a folder, with the input that its command names.
///
/// # Errors
/// Those of [`Citation::of`].
pub fn of(dir: &Path, run: &RunFile) -> Result<Citation> {
    Ok(Citation::of(dir, run, super::again::input(dir, run).as_ref())?)
}
