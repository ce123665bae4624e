//! The record of a pull into a model's folder. It hashes nothing.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};

use super::{Error, Result};
use crate::files;

/// The record of a finished pull, in the model's folder.
const RECEIPT: &str = "pulled.json";

/// The record of a pull into a model's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    pub card: String,
    /// The source's name for itself.
    pub source: String,
    pub revision: Option<String>,
    pub files: Vec<Received>,
}

/// One file of a [`Receipt`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    pub path: String,
    pub size: u64,
    pub sha256: String,
}

impl Receipt {
    /// The record in a folder; `None` without a readable one.
    pub fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(folder.join(RECEIPT)).ok()?).ok()
    }

    /// Writes the record into the folder atomically.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(RECEIPT);
        let text = serde_json::to_string_pretty(self).map_err(std::io::Error::from);
        let text = text.map_err(Error::io("write", &path))? + "\n";
        let written = files::replace(&path, |file| file.write_all(text.as_bytes()));
        written.map_err(|error| Error::io("write", &path)(error.source))
    }

    /// Returns true if its files exist with their recorded sizes.
    pub(super) fn is_intact(&self, folder: &Path) -> bool {
        let same = |f: &Received| fs::metadata(folder.join(&f.path)).is_ok_and(|m| m.len() == f.size);
        !self.files.is_empty() && self.files.iter().all(same)
    }
}
