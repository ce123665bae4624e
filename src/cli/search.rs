//! `tribunal search`: an offline evidence index for RATE's search agent. Reading and ranking are in `evidence`.

use std::{io::Write, path::PathBuf, process::ExitCode};

use anyhow::Result;

use crate::evidence::{self, Index};

/// An evidence index over your own documents.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Command {
    /// Make an index of text, Markdown, JSONL and TSV files
    Build {
        /// A file, or a folder with all files below it
        #[arg(value_name = "DIR|FILE")]
        input: PathBuf,
        /// The new index
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// The passages that an index finds
    Query {
        /// The index
        #[arg(value_name = "DIR")]
        index: PathBuf,
        /// What is searched
        #[arg(value_name = "TEXT", required = true)]
        text: Vec<String>,
        /// Passages at most
        #[arg(long, value_name = "N", default_value_t = 5)]
        limit: usize,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
}

/// Runs `tribunal search`; exit code 1 where a query finds nothing.
///
/// # Errors
/// Documents that cannot be read, a folder that is no index.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<ExitCode> {
    match &args.command {
        Command::Build { input, out: folder } => {
            let (manifest, skipped) = evidence::build(input, folder)?;
            if skipped.files > 0 {
                writeln!(std::io::stderr(), "note: {} files of other kinds were left out", skipped.files)?;
            }
            if skipped.entries > 0 {
                writeln!(
                    std::io::stderr(),
                    "note: {} entries without a text were left out",
                    skipped.entries
                )?;
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
