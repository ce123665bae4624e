//! Verifies a model's files against its card and the record of a pull. Nothing is fetched or repaired.

use std::{fs, path::Path};

use super::{
    Card, Error, Pin, Result,
    digest::sha256_watched,
    receipt::{Receipt, Received},
};

/// Result of the check of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    pub path: String,
    pub finding: Finding,
}

/// The outcome for one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The file's hash is the one that the card pins.
    Ok,
    /// The card pins no hash; the file has the hash recorded by the pull.
    AsPulled,
    /// The card pins no hash and there is no record of a pull.
    Unknown {
        actual: String,
    },
    Mismatch {
        expected: String,
        actual: String,
    },
    Missing,
}

impl Finding {
    /// True if the file can be used unchanged.
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Ok | Self::AsPulled)
    }
}

/// Hashes all files of a model, and writes a receipt if all match hashes that the card pins. `watch` receives
/// the number of bytes read.
///
/// # Errors
/// [`Error::Io`] when an existing file cannot be read; [`Error::NotPulled`] when neither the card nor a
/// pull lists files.
pub fn verify(card: &Card, home: &Path, watch: &mut dyn FnMut(u64)) -> Result<Vec<Checked>> {
    let folder = card.folder(home);
    let receipt = Receipt::read(&folder);
    let (mut checked, mut received) = (Vec::new(), Vec::new());
    for (path, expected, is_pinned) in expectations(card, receipt.as_ref()) {
        let file = folder.join(&path);
        if !file.is_file() {
            checked.push(Checked { path, finding: Finding::Missing });
            continue;
        }
        let actual = sha256_watched(&file, watch)?;
        let finding = match expected {
            Some(expected) if expected != actual => Finding::Mismatch { expected, actual: actual.clone() },
            Some(_) if is_pinned => Finding::Ok,
            Some(_) => Finding::AsPulled,
            None => Finding::Unknown { actual: actual.clone() },
        };
        let size = fs::metadata(&file).map_err(Error::io("read", &file))?.len();
        received.push(Received { path: path.clone(), size, sha256: actual });
        checked.push(Checked { path, finding });
    }
    if checked.is_empty() {
        return Err(Error::NotPulled { name: card.name.clone(), folder });
    }
    if receipt.is_none() && checked.iter().all(|c| c.finding == Finding::Ok) {
        let source = "files found in place and verified".into();
        Receipt { card: card.name.clone(), source, revision: None, files: received }.write(&folder)?;
    }
    Ok(checked)
}

/// Path, expected hash and a flag that is true for hashes pinned by the card, of the card's files and those
/// that a pull found.
pub(super) fn expectations(card: &Card, receipt: Option<&Receipt>) -> Vec<(String, Option<String>, bool)> {
    let recorded =
        |path: &str| receipt.and_then(|r| r.files.iter().find(|f| f.path == path)).map(|f| f.sha256.clone());
    let mut list: Vec<_> = card
        .files
        .iter()
        .map(|file| match &file.sha256 {
            Pin::Pinned(digits) => (file.path.clone(), Some(digits.clone()), true),
            Pin::Unpinned => (file.path.clone(), recorded(&file.path), false),
        })
        .collect();
    if card.is_safetensors() && receipt.is_none() {
        list.push(("model.safetensors".into(), None, false));
    }
    for file in receipt.iter().flat_map(|r| &r.files) {
        if !list.iter().any(|(path, ..)| *path == file.path) {
            list.push((file.path.clone(), Some(file.sha256.clone()), false));
        }
    }
    list
}
