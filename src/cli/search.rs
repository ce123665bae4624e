//! `tribunal search`: an offline evidence index for RATE's search agent. Reading and ranking are in
//! `evidence`.

use std::path::PathBuf;

use super::output::Printed;
use crate::console::args;

#[cfg(feature = "search")]
mod found;

#[cfg(feature = "search")]
pub use found::run;

/// Build and query an evidence index over your own documents.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
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
        /// The query
        #[arg(value_name = "TEXT", required = true)]
        text: Vec<String>,
        /// The most passages to print
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = args::up_to::<10_000>)]
        limit: usize,
        #[command(flatten)]
        printed: Printed,
    },
}

/// Fails: this build has no index.
///
/// # Errors
/// Always.
#[cfg(not(feature = "search"))]
pub fn run(command: &Command, _: &mut dyn std::io::Write) -> anyhow::Result<std::process::ExitCode> {
    let (Command::Build { input: path, .. } | Command::Query { index: path, .. }) = command;
    Err(crate::evidence::Error::NotBuilt(path.clone()).into())
}
