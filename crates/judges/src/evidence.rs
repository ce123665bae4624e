//! Evidence: an offline index over the user's own documents, which RATE's search agent queries. Nothing is
//! judged here.
//!
//! The same documents give the same fingerprint and the same answers, on every machine.

#[cfg(not(feature = "search"))]
use std::path::Path;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub mod read;

#[cfg(feature = "search")]
mod index;

#[cfg(feature = "search")]
pub use index::{Index, Manifest, build};

/// A passage: a part of a document, short enough for a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// The document's or entry's name; empty when it has none.
    #[serde(default)]
    pub title: String,
    pub text: String,
    /// Its place, `FILE:LINE`, or an address.
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

/// A result with the [`Error`] of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why evidence cannot be indexed or found.
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
}

/// The index of a build without the feature `search`: none can be opened.
#[cfg(not(feature = "search"))]
pub enum Index {}

#[cfg(not(feature = "search"))]
impl Index {
    /// # Errors
    /// [`Error::NotBuilt`], always.
    pub fn open(dir: &Path) -> Result<Self> {
        Err(Error::NotBuilt(dir.into()))
    }

    /// The fingerprint of an index; there is none without the feature.
    pub fn fingerprint(&self) -> &str {
        match *self {}
    }

    /// # Errors
    /// None: there is no index.
    pub fn search(&self, _: &str, _: usize) -> Result<Vec<Hit>> {
        match *self {}
    }
}
