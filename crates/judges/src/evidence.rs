//! Evidence: an offline index over the user's own documents, which RATE's search agent queries. It judges nothing
//! and never leaves this machine: [`backend`] can ask a local program or a local address instead.
//!
//! The same documents give the same fingerprint and the same answers, on every machine.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub mod backend;

pub mod read;

#[cfg(feature = "search")]
mod index;

pub use backend::Backend;
#[cfg(feature = "search")]
pub use index::{Index, Manifest, build};

/// What a search finds: a part of a document, short enough for a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// The document's or entry's name; empty when it has none.
    #[serde(default)]
    pub title: String,
    pub text: String,
    /// Where it comes from: `FILE:LINE`, or an address.
    #[serde(default)]
    pub origin: String,
}

/// A passage that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hit {
    #[serde(flatten)]
    pub passage: Passage,
    /// BM25 over title (double weight) and text; above 0, and higher for a better match.
    pub score: f32,
}

/// Why evidence cannot be indexed or found.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
    #[error("`{}` is not empty; hint: give a new folder, or remove the index that is there", .0.display())]
    NotEmpty(PathBuf),
    #[error("`{}` holds no text; hint: .txt, .md, .jsonl and .tsv files are read", .0.display())]
    NoText(PathBuf),
    #[error("`{}` line {line}: {reason}", path.display())]
    Line { path: PathBuf, line: usize, reason: String },
    #[error("`{}` is not an evidence index: {reason}; hint: make one with `tribunal search build`", dir.display())]
    NoIndex { dir: PathBuf, reason: String },
    #[cfg(feature = "search")]
    #[error("the index cannot be used: {0}")]
    Tantivy(#[from] tantivy::TantivyError),
    #[error("`{}`: this program was built without the search index; hint: `cargo build --release` builds it in", .0.display())]
    NotBuilt(PathBuf),
    #[error("`{backend}` gave no evidence: {reason}")]
    Backend { backend: String, reason: String },
    #[error(
        "`{0}` is not on this machine; hint: only http://localhost, http://127.0.0.1 and http://[::1] are asked"
    )]
    Remote(String),
    /// The address itself is not repeated: it may hold a password.
    #[error(
        "the address of the search service cannot be used: {0}; hint: give one like http://localhost:8080/search"
    )]
    Address(String),
}
