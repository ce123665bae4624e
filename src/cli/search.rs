//! `tribunal search`: an offline evidence index for RATE's search agent. Reading and ranking are in `evidence`.

use std::{io::Write, path::PathBuf, process::ExitCode};

use anyhow::Result;

use super::{args, output::Printed, table::Table};
use crate::evidence::{self, Hit, Index};

/// Build and query an evidence index over your own documents.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Command {
    /// Index text, Markdown, JSONL and TSV files
    Build {
        /// A file, or a folder, which is searched for files at every level
        #[arg(value_name = "DIR|FILE")]
        input: PathBuf,
        /// The folder for the new index
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Print the passages that an index finds
    Query {
        /// The index
        #[arg(value_name = "DIR")]
        index: PathBuf,
        /// What to search for
        #[arg(value_name = "TEXT", required = true)]
        text: Vec<String>,
        /// The most passages to print
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = args::hits)]
        limit: usize,
        #[command(flatten)]
        printed: Printed,
    },
}

/// Runs `tribunal search`; the exit code is 1 if a query finds nothing.
///
/// # Errors
/// If documents cannot be read, or the folder is not an index.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<ExitCode> {
    match &args.command {
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
            if printed.rows(&table(&hits), out)? {
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
