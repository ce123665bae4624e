//! The record of what was pulled into a model's folder. It hashes nothing.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};

use super::Error;

/// The record of a finished pull, in the model's folder.
const RECEIPT: &str = "pulled.json";

/// What a pull put into a model's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    pub card: String,
    /// What the source calls itself.
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
    /// The record in a folder; `None` when there is no readable one.
    #[must_use]
    pub fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(folder.join(RECEIPT)).ok()?).ok()
    }

    /// Puts the record into the folder, all at once.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        let path = folder.join(RECEIPT);
        let temporary = folder.join(format!("{RECEIPT}.partial"));
        let text = serde_json::to_string_pretty(self).map_err(std::io::Error::from);
        let text = text.map_err(Error::io("write", &path))? + "\n";
        fs::write(&temporary, text).map_err(Error::io("write", &temporary))?;
        fs::rename(&temporary, &path).map_err(Error::io("rename to", &path))
    }

    /// Its files are there at their sizes.
    pub(super) fn is_intact(&self, folder: &Path) -> bool {
        let same = |f: &Received| fs::metadata(folder.join(&f.path)).is_ok_and(|m| m.len() == f.size);
        !self.files.is_empty() && self.files.iter().all(same)
    }
}
