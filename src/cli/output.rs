//! `--format`, the same for every command that prints a table: text for people, JSON, TSV or CSV for programs.

use std::io::Write;

use anyhow::Result;

use super::table::Table;

/// How results are printed.
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
}

/// `--format`, and `--json` for short.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Printed {
    /// How results are printed
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The same as `--format json`
    #[arg(long)]
    pub json: bool,
}

impl Printed {
    /// Whether one JSON value is wanted.
    #[must_use]
    pub fn is_json(self) -> bool {
        self.json || self.format == Format::Json
    }

    /// Prints a command's main table where rows of fields are wanted; whether it did.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn rows(self, table: &Table, out: &mut dyn Write) -> Result<bool> {
        let separator = match self.format {
            _ if self.json => return Ok(false),
            Format::Text | Format::Json => return Ok(false),
            Format::Tsv => b'\t',
            Format::Csv => b',',
        };
        let mut writer = csv::WriterBuilder::new().delimiter(separator).flexible(true).from_writer(out);
        for row in table.flat() {
            writer.write_record(row)?;
        }
        writer.flush()?;
        Ok(true)
    }
}
