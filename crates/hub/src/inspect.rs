//! Inspects a model file on disk: its metadata and its tensors by type. It loads no weights.

use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use safetensors::tensor::Metadata;

use super::{Error, Result};
use crate::gguf::{self, Header, in_words, shown};

/// A safetensors header is JSON of at most this size.
const MAX_HEADER_BYTES: u64 = 100 << 20;

/// Description of a model file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// `gguf` or `safetensors`.
    pub format: &'static str,
    /// The files that were read, in order; several of a folder and of a GGUF model in parts.
    pub files: Vec<PathBuf>,
    /// Unit: bytes of all files.
    pub size: u64,
    /// Key and value, sorted by key; long ones are cut, and control characters escaped.
    pub metadata: Vec<(String, String)>,
    /// Number of tensors and of weights in them, by data type.
    pub tensors: BTreeMap<String, (usize, u64)>,
}

/// Describes a GGUF or safetensors file, or all files of a folder. Any part of a GGUF model stands for the
/// whole.
///
/// # Errors
/// [`Error::Unreadable`] when it is neither; [`Error::Gguf`]; [`Error::Io`].
pub fn describe(path: &Path) -> Result<Description> {
    if path.is_dir() {
        return describe_folder(path);
    }
    let mut file = fs::File::open(path).map_err(Error::io("open", path))?;
    let mut magic = [0; 4];
    let is_gguf = file.read_exact(&mut magic).is_ok() && magic == gguf::MAGIC;
    if is_gguf { describe_gguf(path) } else { describe_safetensors(path) }
}

fn unreadable(path: &Path, reason: &(impl ToString + ?Sized)) -> Error {
    Error::Unreadable { path: path.into(), reason: reason.to_string() }
}

fn describe_folder(folder: &Path) -> Result<Description> {
    let entries = fs::read_dir(folder).map_err(Error::io("read", folder))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "safetensors"));
    paths.extend(gguf::models(folder)?);
    paths.sort();
    let mut description = Description::default();
    for path in &paths {
        let one = describe(path)?;
        description.format = one.format;
        description.files.extend(one.files);
        description.size += one.size;
        description.metadata.extend(one.metadata);
        for (dtype, (n_tensors, n_weights)) in one.tensors {
            let sum = description.tensors.entry(dtype).or_default();
            *sum = (sum.0 + n_tensors, sum.1.saturating_add(n_weights));
        }
    }
    if paths.is_empty() {
        Err(unreadable(folder, "the folder has no .gguf or .safetensors file"))
    } else {
        Ok(description)
    }
}

fn describe_gguf(path: &Path) -> Result<Description> {
    let files = gguf::files(path)?;
    let headers = files.iter().map(|path| Header::of_file(path)).collect::<Result<Vec<_>, _>>()?;
    let parts: Vec<(&Path, &Header)> = files.iter().map(PathBuf::as_path).zip(&headers).collect();
    gguf::check(&parts)?;
    let mut description = Description { format: "gguf", ..Description::default() };
    // The first part holds all metadata; its own number does not describe the whole model.
    let is_of_whole = |key: &String| files.len() == 1 || key != "split.no";
    let first =
        headers.iter().take(1).flat_map(|header| &header.metadata).filter(|(key, _)| is_of_whole(key));
    description.metadata = first.map(|(key, value)| (shown(key), in_words(value))).collect();
    description.metadata.sort();
    for tensor in headers.iter().flat_map(|header| &header.tensors) {
        let unread = if tensor.kind.is_read() { "" } else { " (not supported)" };
        let sum = description.tensors.entry(format!("{}{unread}", tensor.kind)).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(n_weights(&tensor.shape)));
    }
    for path in &files {
        description.size += fs::metadata(path).map_err(Error::io("read", path))?.len();
    }
    Ok(Description { files, ..description })
}

fn describe_safetensors(path: &Path) -> Result<Description> {
    let mut reader = fs::File::open(path).map_err(Error::io("open", path))?;
    let size = reader.metadata().map_err(Error::io("read", path))?.len();
    let mut length = [0; 8];
    reader.read_exact(&mut length).map_err(|e| unreadable(path, &e))?;
    let n_header = u64::from_le_bytes(length);
    if n_header > MAX_HEADER_BYTES.min(size) {
        return Err(unreadable(
            path,
            "it starts neither with `GGUF` nor with the length of a safetensors header",
        ));
    }
    // The tensors behind the header are not read, so it is parsed without them.
    let mut head = Vec::new();
    reader.take(n_header).read_to_end(&mut head).map_err(Error::io("read", path))?;
    let header: Metadata = serde_json::from_slice(&head)
        .map_err(|e| unreadable(path, &format!("its header is damaged: {e}")))?;
    let files = vec![path.to_owned()];
    let mut description = Description { format: "safetensors", files, size, ..Description::default() };
    let metadata = header.metadata().clone().unwrap_or_default();
    description.metadata = metadata.into_iter().map(|(key, value)| (shown(&key), shown(&value))).collect();
    description.metadata.sort();
    for tensor in header.tensors().values() {
        let sum = description.tensors.entry(format!("{:?}", tensor.dtype)).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(n_weights(&tensor.shape)));
    }
    Ok(description)
}

/// The weights in a tensor of this shape; the most that can be counted where a file claims more.
fn n_weights(shape: &[usize]) -> u64 {
    shape.iter().fold(1, |n: u64, &dim| n.saturating_mul(dim as u64))
}
