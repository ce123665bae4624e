//! What a model file on disk says about itself: its metadata and its tensors by type. It loads no weights.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufReader, Read},
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
};

use candle_core::quantized::gguf_file::{Content, Value};
use safetensors::tensor::Metadata;

use super::Error;

/// A safetensors header is JSON of at most this size.
const MAX_HEADER_BYTES: u64 = 100 << 20;

/// Longer values are cut in [`Description::metadata`].
const MAX_CHARS: usize = 120;

/// A model file in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// `gguf` or `safetensors`.
    pub format: &'static str,
    /// Unit: bytes.
    pub size: u64,
    /// Key and value, sorted by key; long values are cut.
    pub metadata: Vec<(String, String)>,
    /// Number of tensors and of weights in them, by data type.
    pub tensors: BTreeMap<String, (usize, u64)>,
}

/// Describes a GGUF or safetensors file, or all safetensors of a folder.
///
/// # Errors
/// [`Error::Unreadable`] when it is neither; [`Error::Io`].
pub fn describe(path: &Path) -> Result<Description, Error> {
    if path.is_dir() {
        return describe_folder(path);
    }
    let mut file = fs::File::open(path).map_err(Error::io("open", path))?;
    let size = file.metadata().map_err(Error::io("read", path))?.len();
    let mut magic = [0; 4];
    let is_gguf = file.read_exact(&mut magic).is_ok() && &magic == b"GGUF";
    let description = if is_gguf { describe_gguf(path) } else { describe_safetensors(path) }?;
    Ok(Description { size, ..description })
}

fn unreadable(path: &Path, reason: &(impl ToString + ?Sized)) -> Error {
    Error::Unreadable { path: path.into(), reason: reason.to_string() }
}

fn describe_folder(folder: &Path) -> Result<Description, Error> {
    let entries = fs::read_dir(folder).map_err(Error::io("read", folder))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "safetensors" || e == "gguf"));
    paths.sort();
    let mut whole = Description::default();
    for path in &paths {
        let one = describe(path)?;
        whole.format = one.format;
        whole.size += one.size;
        whole.metadata.extend(one.metadata);
        for (dtype, (n_tensors, n_weights)) in one.tensors {
            let sum = whole.tensors.entry(dtype).or_default();
            *sum = (sum.0 + n_tensors, sum.1.saturating_add(n_weights));
        }
    }
    if paths.is_empty() {
        Err(unreadable(folder, "the folder has no .gguf or .safetensors file"))
    } else {
        Ok(whole)
    }
}

fn describe_gguf(path: &Path) -> Result<Description, Error> {
    let mut file = BufReader::new(fs::File::open(path).map_err(Error::io("open", path))?);
    // Some damaged headers make the reader panic; what it says of them goes to standard error.
    let read = std::panic::catch_unwind(AssertUnwindSafe(|| Content::read(&mut file)));
    let content = read.map_err(|_| unreadable(path, "its header is damaged"))?;
    let content = content.map_err(|e| unreadable(path, e.to_string().lines().next().unwrap_or_default()))?;
    let mut description = Description { format: "gguf", ..Description::default() };
    description.metadata =
        content.metadata.iter().map(|(key, value)| (key.clone(), in_words(value))).collect();
    description.metadata.sort();
    for tensor in content.tensor_infos.values() {
        let dtype = format!("{:?}", tensor.ggml_dtype);
        let sum = description.tensors.entry(dtype).or_default();
        *sum = (sum.0 + 1, sum.1.saturating_add(n_weights(tensor.shape.dims())));
    }
    Ok(description)
}

fn describe_safetensors(path: &Path) -> Result<Description, Error> {
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
    let mut description = Description { format: "safetensors", ..Description::default() };
    let metadata = header.metadata().clone().unwrap_or_default();
    description.metadata = metadata.into_iter().map(|(key, value)| (key, cut(&value))).collect();
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

fn in_words(value: &Value) -> String {
    match value {
        Value::String(text) => cut(text),
        Value::Array(items) => {
            let first: Vec<_> = items.iter().take(3).map(in_words).collect();
            let more = if items.len() > 3 { ", ..." } else { "" };
            cut(&format!("{} items: {}{more}", items.len(), first.join(", ")))
        }
        Value::Bool(b) => b.to_string(),
        Value::F32(x) => x.to_string(),
        Value::F64(x) => x.to_string(),
        Value::U8(n) => n.to_string(),
        Value::U16(n) => n.to_string(),
        Value::U32(n) => n.to_string(),
        Value::U64(n) => n.to_string(),
        Value::I8(n) => n.to_string(),
        Value::I16(n) => n.to_string(),
        Value::I32(n) => n.to_string(),
        Value::I64(n) => n.to_string(),
    }
}

fn cut(text: &str) -> String {
    let mut cut: String = text.chars().take(MAX_CHARS).collect::<String>().escape_debug().to_string();
    if text.chars().nth(MAX_CHARS).is_some() {
        cut.push_str("...");
    }
    cut
}
