//! `tribunal search build` and `query`, run and printed.

use std::{io::Write, process::ExitCode};

use anyhow::Result;

use super::Command;
use crate::{
    console::table::Table,
    evidence::{self, Hit, Index},
};

/// Runs `tribunal search`; the exit code is 1 if a query finds nothing.
///
/// # Errors
/// If documents cannot be read, or the folder is not an index.
pub fn run(command: &Command, out: &mut dyn Write) -> Result<ExitCode> {
    match command {
        Command::Build { input, out: folder } => {
            let (manifest, skipped) = evidence::build(input, folder)?;
            if skipped.files > 0 {
                say!("note: {} files of other kinds were skipped", skipped.files);
            }
            if skipped.entries > 0 {
                say!("note: {} entries without a text were skipped", skipped.entries);
            }
            writeln!(out, "passages  {}\nsha256    {}", manifest.passages, manifest.sha256)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Query { index, text, limit, printed } => {
            let hits = Index::open(index)?.search(&text.join(" "), *limit)?;
            if printed.table(&table(&hits), out)? {
                return Ok(found(&hits));
            }
            for (idx, hit) in hits.iter().enumerate() {
                if printed.is_json() {
                    writeln!(out, "{}", serde_json::to_string(hit)?)?;
                    continue;
                }
                let evidence::Passage { title, text, origin } = &hit.passage;
                writeln!(
                    out,
                    "{}. {title}  [{origin}]  {:.3}\n   {}\n",
                    idx + 1,
                    hit.score,
                    text.replace('\n', "\n   ")
                )?;
            }
            Ok(found(&hits))
        }
    }
}

fn found(hits: &[Hit]) -> ExitCode {
    ExitCode::from(u8::from(hits.is_empty()))
}

fn table(hits: &[Hit]) -> Table {
    let mut table = Table::new();
    table.head(["rank", "score", "title", "origin", "text"]);
    for (idx, hit) in hits.iter().enumerate() {
        let evidence::Passage { title, text, origin } = &hit.passage;
        let (rank, score) = ((idx + 1).to_string(), hit.score.to_string());
        table.row([rank, score, title.clone(), origin.clone(), text.clone()]);
    }
    table
}
