//! `--format`, the same for every command that prints a table: text for people, JSON, TSV or CSV for
//! programs, LaTeX for papers.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;

use crate::{console::table::Table, files, report::quoted, run::own};

/// Output format of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Tables and sentences
    #[default]
    Text,
    /// JSON
    Json,
    /// Rows of fields separated by tabs, below a header
    Tsv,
    /// Rows of fields separated by commas, below a header
    Csv,
    /// A table for LaTeX with the package booktabs
    Latex,
}

/// `--format` of a command that prints a table.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Printed {
    /// How results are printed: text, json, tsv, csv or latex
    #[arg(long, value_enum, default_value_t, hide_possible_values = true)]
    pub format: Format,
    /// The same as `--format json`
    #[arg(long, hide = true)]
    pub json: bool,
}

/// `--format` of a command that prints a text.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct TextOrJson {
    /// How results are printed: text or json
    #[arg(long, default_value = "text", hide_possible_values = true, value_parser = text_or_json())]
    format: Format,
    /// The same as `--format json`
    #[arg(long, hide = true)]
    json: bool,
}

impl TextOrJson {
    /// Returns true if the output is one JSON value.
    pub fn is_json(self) -> bool {
        self.json || self.format == Format::Json
    }
}

fn text_or_json() -> impl TypedValueParser<Value = Format> {
    let names = PossibleValuesParser::new(["text", "json"]);
    names.map(|name| if name == "json" { Format::Json } else { Format::Text })
}

/// Writes a text as a file of a folder, which is made where there is none; returns the file's path.
///
/// # Errors
/// When the folder or the file cannot be written.
pub fn write_in(folder: &Path, name: impl AsRef<Path>, text: &str) -> Result<PathBuf> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
    let path = folder.join(name);
    files::write(&path, |file| file.write_all(text.as_bytes()))?;
    Ok(path)
}

/// Refuses to write a result over a file of a run.
///
/// # Errors
/// When the path names one.
pub fn spare_runs(path: &Path) -> Result<()> {
    match own::run_of(path) {
        None => Ok(()),
        Some(dir) => bail!(
            "`{}` is a file of the run in `{}`\nhint: write the result to another file",
            path.display(),
            dir.display()
        ),
    }
}

impl Printed {
    /// The format, whichever option names it.
    pub fn format(self) -> Format {
        if self.json { Format::Json } else { self.format }
    }

    /// Returns true if the output is one JSON value.
    pub fn is_json(self) -> bool {
        self.format() == Format::Json
    }

    /// Returns true if the output is a table alone, without room for sentences.
    pub fn is_table(self) -> bool {
        matches!(self.format(), Format::Tsv | Format::Csv | Format::Latex)
    }

    /// Prints a result: as JSON, as the rows of a table, or as text.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn print<T: Serialize>(
        self,
        out: &mut dyn Write,
        json: impl FnOnce() -> T,
        table: impl FnOnce() -> Table,
        text: impl FnOnce(&mut dyn Write) -> Result<()>,
    ) -> Result<()> {
        match self.format() {
            Format::Text => text(out),
            Format::Json => Ok(writeln!(out, "{}", serde_json::to_string_pretty(&json())?)?),
            Format::Tsv | Format::Csv | Format::Latex => self.table(&table(), out).map(drop),
        }
    }

    /// Prints a command's main table where a table alone is wanted; returns true if it did. Missing values
    /// are empty fields.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn table(self, table: &Table, out: &mut dyn Write) -> Result<bool> {
        let separator = match self.format() {
            Format::Text | Format::Json => return Ok(false),
            Format::Latex => {
                out.write_all(table.latex(&[]).as_bytes())?;
                return Ok(true);
            }
            Format::Tsv => b'\t',
            Format::Csv => b',',
        };
        let mut writer = csv::WriterBuilder::new().delimiter(separator).flexible(true).from_writer(out);
        for row in table.flat() {
            let row = row.into_iter().map(|cell| if cell == "-" { String::new() } else { cell });
            writer.write_record(quoted(row.collect()))?;
        }
        writer.flush()?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        cli::{Cli, parse},
        eval::models::load,
    };

    fn printed(command: &[&str], format: &str) -> String {
        let argv = [&["tribunal"][..], command, &["--format", format]].concat();
        let cli: Cli = parse(argv.iter().map(|arg| (*arg).to_owned())).unwrap();
        let mut out = Vec::new();
        cli.run(load, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_table_is_printed_for_programs_too() {
        let model = concat!(env!("CARGO_MANIFEST_DIR"), "/models/tiny/qwen2");
        for command in [
            &["methods", "list"][..],
            &["methods", "show", "fsp"],
            &["methods", "show", "gemba-mqm", "--prompts"],
            &["models", "show", "qwen2.5-7b-instruct"],
            &["models", "show", model],
        ] {
            let json: serde_json::Value = serde_json::from_str(&printed(command, "json")).unwrap();
            assert!(json.is_array() || json.is_object());
            for (format, delimiter) in [("tsv", b'\t'), ("csv", b',')] {
                let text = printed(command, format);
                // The reader rejects rows of different lengths.
                let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(text.as_bytes());
                let rows = reader.records().collect::<Result<Vec<_>, _>>();
                assert!(rows.is_ok_and(|rows| rows.len() > 3), "{command:?} {format}: {text}");
            }
        }
        assert!(printed(&["methods", "show", "gemba-mqm", "--prompts"], "json").contains("\"prompts\""));
    }
}
