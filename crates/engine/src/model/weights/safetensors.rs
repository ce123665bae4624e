//! Safetensors folders: `config.json` with one file or an index of shards.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use candle_core::quantized::GgmlDType;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

use super::{Entry, Mapped, RowOrder, Weights};
use crate::model::{Error, config::from_json};

/// Opens a folder.
pub fn open(path: &Path) -> Result<Weights, Error> {
    let config_path = path.join("config.json");
    let config = from_json(&config_path.display().to_string(), &json(&config_path)?)?;
    let (mut files, mut index) = (Vec::new(), BTreeMap::new());
    for shard in shards(path)? {
        let shard_path = path.join(shard);
        let file = Mapped::open(&shard_path)?;
        list(&shard_path, &file.map, files.len(), &mut index)?;
        files.push(file);
    }
    Ok(Weights { path: path.into(), files, index, config, metadata: None, seed: None, remarks: Vec::new() })
}

fn bad(path: &Path, reason: impl Into<String>, hint: &str) -> Error {
    Error::File { path: path.display().to_string(), reason: reason.into(), hint: hint.into() }
}

fn json(path: &Path) -> Result<Value, Error> {
    let io = |source| Error::Io { path: path.display().to_string(), source };
    let text = std::fs::read_to_string(path).map_err(io)?;
    serde_json::from_str(&text).map_err(|e| bad(path, format!("is not JSON: {e}"), "fetch the file again"))
}

/// The shard files, in order of their names.
fn shards(folder: &Path) -> Result<BTreeSet<String>, Error> {
    let index_path = folder.join("model.safetensors.index.json");
    if !index_path.exists() {
        return Ok(BTreeSet::from(["model.safetensors".to_owned()]));
    }
    let index = json(&index_path)?;
    let map = index.get("weight_map").and_then(Value::as_object);
    let map = map.ok_or_else(|| bad(&index_path, "has no `weight_map`", "fetch the file again"))?;
    let names: BTreeSet<String> = map.values().filter_map(Value::as_str).map(str::to_owned).collect();
    if names.iter().any(|name| name.contains(['/', '\\'])) {
        return Err(bad(&index_path, "names a file outside its folder", "fetch the file again"));
    }
    Ok(names)
}

/// Adds one shard's tensors to the index.
fn list(path: &Path, file: &[u8], file_idx: usize, index: &mut BTreeMap<String, Entry>) -> Result<(), Error> {
    let parsed = SafeTensors::deserialize(file)
        .map_err(|e| bad(path, format!("is not a whole safetensors file: {e}"), "fetch it again"))?;
    for (name, view) in parsed.iter() {
        let dtype = match view.dtype() {
            Dtype::F32 => GgmlDType::F32,
            Dtype::F16 => GgmlDType::F16,
            Dtype::BF16 => GgmlDType::BF16,
            other => return Err(bad(path, format!("tensor `{name}` is {other:?}"), "floats are supported")),
        };
        let start = view.data().as_ptr() as usize - file.as_ptr() as usize;
        let (end, shape) = (start + view.data().len(), view.shape().to_vec());
        let name = name.strip_prefix("language_model.").unwrap_or(name).to_owned();
        index.insert(name, Entry { file: file_idx, start, end, dtype, shape, order: RowOrder::Plain });
    }
    Ok(())
}
