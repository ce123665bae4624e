//! `tribunal search`: an offline evidence index for RATE's search agent. Reading and ranking are in `evidence`.

use std::{io::Write, path::PathBuf, process::ExitCode};

use anyhow::Result;

use super::args;
use crate::evidence::{self, Index};

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
        /// One JSON object per line
        #[arg(long)]
        json: bool,
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
        Command::Query { index, text, limit, json } => {
            let hits = Index::open(index)?.search(&text.join(" "), *limit)?;
            for (idx, hit) in hits.iter().enumerate() {
                if *json {
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
            Ok(if hits.is_empty() { ExitCode::from(1) } else { ExitCode::SUCCESS })
        }
    }
}
