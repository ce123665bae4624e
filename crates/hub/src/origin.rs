//! The interface of a source of files. The sources are in `hub` and `packages`.

use std::io::{self, Read, Write};

use super::{Card, Error, Result, home_folder};

/// A source of a card's files.
pub trait Origin {
    /// In words, for messages.
    fn name(&self) -> String;

    /// The files that this source has for the card.
    ///
    /// # Errors
    /// [`Error::Origin`], without a long wait, when it cannot be reached; [`Error::Mismatch`] when it has
    /// other files.
    fn list(&self, card: &Card) -> Result<Listing>;

    /// Writes the bytes of one file from offset `from` on.
    ///
    /// # Errors
    /// [`Error::Origin`] when the transfer breaks off; [`Error::Io`] when writing to `to` fails.
    fn send(&self, item: &Item, from: u64, to: &mut dyn Write) -> Result<()>;

    /// Unit: bytes of disk space needed in addition to the files themselves.
    fn beside(&self) -> u64 {
        0
    }
}

/// The files that a source has for a card.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The commit, where the source has commits.
    pub revision: Option<String>,
    pub items: Vec<Item>,
}

/// One file of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Relative to the model's folder.
    pub path: String,
    /// The file's name at the source.
    pub remote: String,
    pub size: Option<u64>,
    /// Expected hash, from the card or else from the source.
    pub sha256: Option<String>,
}

/// Address and credentials of the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    pub endpoint: String,
    pub token: Option<String>,
}

impl Access {
    /// `HF_ENDPOINT` and `HF_TOKEN`, or the token that the hub's own tools have stored.
    pub fn from_env() -> Self {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            endpoint: set("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".into()),
            token: set("HF_TOKEN").or_else(|| {
                let is_known = set("HF_HOME").is_some() || home_folder().is_some();
                is_known.then(|| hf_hub::Cache::from_env().token())?
            }),
        }
    }
}

/// Copies to the end; an error tells the reading side from the writing side.
pub(super) fn copy(from: &mut dyn Read, to: &mut dyn Write, path: &str, origin: &str) -> Result<()> {
    let mut buffer = vec![0; 1 << 18];
    loop {
        let n = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Error::origin(origin, format!("`{path}` broke off: {e}"))),
        };
        to.write_all(&buffer[..n]).map_err(Error::io("write", path))?;
    }
}
