//! The file format GGUF: headers, the types of tensors, models in parts. It reads no tensor's values and does
//! not interpret keys.

use std::{collections::HashMap, io, path::PathBuf};

pub use candle_core::quantized::gguf_file::Value;

mod header;
mod kind;
mod parts;

pub use header::{Header, MAGIC, TensorInfo};
pub use kind::Kind;
pub use parts::{check, files, model_files, models, number as part_number, only_model, siblings, stem};

/// The key-value section of a file, or of a model in parts.
pub type Metadata = HashMap<String, Value>;

/// Longer names and values are cut for display.
const MAX_SHOWN_CHARS: usize = 120;

/// A result with the [`Error`] of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of reading a file as GGUF.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{}`: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "`{}`: it is not a GGUF file; hint: a model is a GGUF file, or a folder with `config.json`, `tokenizer.json` and \
         safetensors", .0.display()
    )]
    Other(PathBuf),
    #[error(
        "`{}`: its header is damaged: {reason}; hint: is it a whole GGUF file? `tribunal models verify` checks a pulled \
         one", path.display()
    )]
    Header { path: PathBuf, reason: String },
    #[error("`{}`: {reason}; hint: {hint}", path.display())]
    Part { path: PathBuf, reason: String, hint: String },
    #[error(
        "`{}` holds {} models: `{}`; hint: give one of them", folder.display(), names.len(), names.join("`, `")
    )]
    Several { folder: PathBuf, names: Vec<String> },
}

/// A name or value from a file, for display: at most 120 characters, with control characters and quotes
/// escaped.
pub fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_SHOWN_CHARS).collect::<String>().escape_debug().to_string();
    if text.chars().nth(MAX_SHOWN_CHARS).is_some() {
        shown.push_str("...");
    }
    shown
}

fn cut(text: String) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => text[..end].to_owned() + "...",
        None => text,
    }
}

/// The type of a file that is not a model (`mmproj`, `imatrix`, `adapter`).
pub fn other_type(metadata: &Metadata) -> Option<&Value> {
    let stated = metadata.get("general.type");
    stated.filter(|kind| !kind.to_string().is_ok_and(|kind| kind == "model"))
}

/// A value of any of GGUF's integer types; `None` for others.
fn integer(value: &Value) -> Option<i128> {
    Some(match *value {
        Value::U8(v) => v.into(),
        Value::U16(v) => v.into(),
        Value::U32(v) => v.into(),
        Value::U64(v) => v.into(),
        Value::I8(v) => v.into(),
        Value::I16(v) => v.into(),
        Value::I32(v) => v.into(),
        Value::I64(v) => v.into(),
        _ => return None,
    })
}

/// A value of any of GGUF's integer types that is not negative; `None` for others.
pub fn whole(value: &Value) -> Option<usize> {
    integer(value).and_then(|integer| usize::try_from(integer).ok())
}

/// A value of any of GGUF's number types; `None` for others.
pub fn number(value: &Value) -> Option<f64> {
    match *value {
        Value::F32(v) => Some(v.into()),
        Value::F64(v) => Some(v),
        _ => integer(value).map(|integer| integer as f64),
    }
}

/// Returns true if two values are equal; numbers may be of different types.
pub fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        _ => number(a).zip(number(b)).is_some_and(|(a, b)| a.total_cmp(&b).is_eq()),
    }
}

/// A value for display: strings by [`shown`], lists by length and first items.
pub fn in_words(value: &Value) -> String {
    match value {
        Value::String(text) => shown(text),
        Value::Array(items) => {
            let first: Vec<_> = items.iter().take(3).map(in_words).collect();
            let more = if items.len() > 3 { ", ..." } else { "" };
            // The items are escaped already.
            cut(format!("{} items: {}{more}", items.len(), first.join(", ")))
        }
        Value::Bool(b) => b.to_string(),
        Value::F32(x) => x.to_string(),
        Value::F64(x) => x.to_string(),
        integral => integer(integral).map_or_else(String::new, |integer| integer.to_string()),
    }
}
