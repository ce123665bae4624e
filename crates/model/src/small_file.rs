//! Reads the files beside a checkpoint's weights: plain files only, up to a size, without a byte order mark.
//! Links are followed, since the hub's cache has them. It does not interpret them.

use std::{io, path::Path};

use serde_json::Value;

use super::{Error, Result};
use crate::files;

/// The most bytes of `config.json` and its like: those of real checkpoints have some megabytes at most.
pub const MAX_SETTINGS_BYTES: u64 = 16 << 20;

/// The most bytes of a `tokenizer.json` and of an index of shards: real ones stay below 40 MB.
pub const MAX_TOKENIZER_BYTES: u64 = 256 << 20;

/// The bytes of a file.
///
/// # Errors
/// A file that is missing, is not plain or has more than `most` bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = files::read_at_most(path, most)?;
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    Ok(bytes)
}

/// The bytes of a file that may be missing.
///
/// # Errors
/// A file that exists and cannot be read.
pub fn read_if_there(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    match read(path, most) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => Ok(None),
        Err(error) => Err(error),
    }
}

/// A file of JSON.
pub(super) fn json(path: &Path, bytes: &[u8]) -> Result<Value> {
    serde_json::from_slice(bytes).map_err(|error| Error::File {
        path: path.display().to_string(),
        reason: format!("is not JSON: {error}"),
        hint: "fetch the file again".into(),
    })
}
