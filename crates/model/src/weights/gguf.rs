//! GGUF models, in one file or in parts: tensors served from the maps under Hugging Face names.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{
    Entry, Format, Mapped, Source, Weights, experts, floats, hybrid, latent, projections, score_head,
    unread::{self, Names},
};
use crate::{
    Error, Result,
    config::{
        MAX_LAYERS, ScoreHead,
        gguf::{Schema, Tensors, tensors::UNUSED},
    },
    families,
    gguf::{self, Header, Kind, Metadata, TensorInfo, shown},
};

/// Opens a GGUF file, or all parts of the model that it is a part of.
pub fn open(path: &Path) -> Result<Weights> {
    let paths = gguf::files(path)?;
    let maps = paths.iter().map(|path| Mapped::open(path)).collect::<Result<Vec<_>, _>>()?;
    let headers = paths.iter().zip(&maps).map(|(path, mapped)| Header::of_bytes(path, &mapped.map));
    let headers = headers.collect::<Result<Vec<_>, _>>()?;
    let parts: Vec<(&Path, &Header)> = paths.iter().map(PathBuf::as_path).zip(&headers).collect();
    let remark = gguf::check(&parts)?;
    let metadata = &headers[0].metadata;
    check_type(&paths[0], metadata)?;
    let shown_path = paths[0].display().to_string();
    let schema = families::of_gguf(&shown_path, metadata)?;
    let (mut index, mut names) = (BTreeMap::new(), Names::new());
    for (i, (path, header)) in parts.iter().enumerate() {
        for tensor in &header.tensors {
            let name = schema.tensor_name(&tensor.name);
            let name = name.ok_or_else(|| unknown(path, tensor, schema.architecture))?;
            if name == UNUSED {
                continue;
            }
            let dtype = Format::of(tensor.kind).ok_or_else(|| unread(path, tensor))?;
            let (start, end) =
                range(tensor, dtype, header.data, maps[i].map.len()).map_err(|e| bad(path, e))?;
            names.insert((i, start), tensor.name.clone());
            let (shape, source) = (tensor.shape.clone(), Source::Plain);
            let entry = Entry { file: i, start, end, dtype, shape, rows: None, source };
            index.insert(name, entry);
        }
    }
    experts::split(&mut index);
    experts::columns(&mut index);
    latent::columns(&mut index);
    let bytes = |e: &Entry| {
        let values = floats(e.dtype, &maps[e.file].map[e.start..e.end]);
        let reason = || format!("is {:?}, floats were expected", e.dtype);
        let (path, name) = (shown_path.clone(), "rope_freqs.weight".into());
        values.ok_or_else(|| Error::Tensor { path, name, reason: reason() })
    };
    let tensors = Tensors {
        vocab: index.get("model.embed_tokens.weight").and_then(|e| e.shape.first().copied()).unwrap_or(0),
        tied: !index.contains_key("lm_head.weight"),
        has_head_norms: index.contains_key("model.layers.0.self_attn.q_norm.weight"),
        without_values: (0..MAX_LAYERS)
            .take_while(|layer| index.contains_key(&format!("model.layers.{layer}.self_attn.q_proj.weight")))
            .filter(|layer| !index.contains_key(&format!("model.layers.{layer}.self_attn.v_proj.weight")))
            .collect(),
        has_query_bias: index.contains_key("model.layers.0.self_attn.q_proj.bias"),
        factors: index.get("rope_freqs.weight").map(bytes).transpose()?,
    };
    let config = schema.read(&shown_path, metadata, &tensors)?;
    hybrid::split(&config, &mut index);
    projections::split(&paths[0], &config, &mut index)?;
    drop_predicting(&mut index, metadata, schema, config.n_layers);
    check_index(&paths[0], &index, config.n_layers, config.qkv_bias)?;
    score_head::check(&paths[0], &config, &mut index)?;
    unread::check(&paths[0], &config, (&maps, &names), is_read, &mut index)?;
    if schema.is_interleaved || config.neighbours_rotate {
        projections::mark_neighbours(&config, &mut index);
    }
    let metadata = headers.into_iter().next().map(|header| header.metadata);
    let (path, remarks) = (paths[0].clone(), remark.into_iter().collect());
    Ok(Weights { path, files: maps, index, config, metric: None, metadata, seed: None, remarks })
}

fn bad(path: &Path, reason: String) -> Error {
    let hint = "is it a whole GGUF file? `tribunal models verify` checks a pulled one";
    Error::File { path: path.display().to_string(), reason, hint: hint.into() }
}

/// Rejects files of this format that are not models.
fn check_type(path: &Path, metadata: &Metadata) -> Result<()> {
    match gguf::other_type(metadata) {
        None => Ok(()),
        Some(value) => {
            let reason = format!("its `general.type` is `{}`, not `model`", gguf::in_words(value));
            let hint = "give the GGUF file of the language model".into();
            Err(Error::File { path: path.display().to_string(), reason, hint })
        }
    }
}

/// A tensor of a type that is not read.
fn unread(path: &Path, tensor: &TensorInfo) -> Error {
    let reason =
        format!("tensor `{}` is of type {}, which is not supported", shown(&tensor.name), tensor.kind);
    let hint = format!("take a file whose tensors are of {}", Kind::all_read().join(", "));
    Error::File { path: path.display().to_string(), reason, hint }
}

/// A tensor that this decoder does not use.
fn unknown(path: &Path, tensor: &TensorInfo, arch: &str) -> Error {
    let (name, arch) = (shown(&tensor.name), shown(arch));
    let reason = format!("tensor `{name}` is not one of the architecture `{arch}` as it is supported here");
    let hint =
        "the model computes something else; take its safetensors folder, which names its architecture".into();
    Error::File { path: path.display().to_string(), reason, hint }
}

/// A tensor's bytes, checked to lie within the file.
fn range(tensor: &TensorInfo, dtype: Format, data: u64, len: usize) -> Result<(usize, usize), String> {
    let (name, block) = (shown(&tensor.name), dtype.block());
    let row = tensor.shape.last().copied().unwrap_or(0);
    if row == 0 || !row.is_multiple_of(block) {
        return Err(format!("tensor `{name}` has rows of {row}, not a multiple of its block of {block}"));
    }
    let elements = tensor.shape.iter().try_fold(1_usize, |n, &dim| n.checked_mul(dim));
    let size = elements.and_then(|n| (n / block).checked_mul(dtype.block_bytes()));
    let start = data.checked_add(tensor.offset).and_then(|start| usize::try_from(start).ok());
    let end = start.zip(size).and_then(|(start, size)| start.checked_add(size));
    match start.zip(end) {
        Some((start, end)) if end <= len => Ok((start, end)),
        _ => Err(format!("tensor `{name}` reaches past the end of the file ({len} bytes): it is cut short")),
    }
}

/// Rejects tensors of layers that the model does not have, and a model without the biases of its
/// architecture: both would be another model than the file's.
fn check_index(path: &Path, index: &BTreeMap<String, Entry>, n_layers: usize, qkv_bias: bool) -> Result<()> {
    let tensor = |name: &str, reason: String| {
        Err(Error::Tensor { path: path.display().to_string(), name: name.into(), reason })
    };
    if let Some(name) = index.keys().find(|name| layer(name).is_some_and(|layer| layer >= n_layers)) {
        return tensor(name, format!("belongs to a layer behind the {n_layers} that `block_count` says"));
    }
    if index.contains_key("lm_head.bias") && !index.contains_key("lm_head.weight") {
        return tensor("lm_head.bias", "has no output matrix to be added to".into());
    }
    for layer in (0..n_layers).filter(|_| qkv_bias) {
        for part in ["q_proj", "k_proj", "v_proj"] {
            let name = format!("model.layers.{layer}.self_attn.{part}.bias");
            if !index.contains_key(&name) {
                return tensor(&name, "is missing".into());
            }
        }
    }
    Ok(())
}

/// Returns true if the decoder reads a tensor that safetensors do not have, or not for every setting.
fn is_read(name: &str) -> bool {
    let is_of_heads = latent::PARTS.iter().any(|part| name.ends_with(part));
    let is_bias = name.ends_with("_proj.bias") && !name.contains(".experts.");
    is_bias
        || is_of_heads
        || matches!(name, "rope_freqs.weight" | "lm_head.bias" | ScoreHead::BIAS)
        || name.ends_with(".linear_attn.decay")
}

/// Drops the layers behind the decoder's that predict further tokens.
fn drop_predicting(
    index: &mut BTreeMap<String, Entry>,
    metadata: &Metadata,
    schema: &Schema,
    n_layers: usize,
) {
    let n = metadata
        .get(&format!("{}.nextn_predict_layers", schema.architecture))
        .and_then(gguf::whole)
        .unwrap_or(0);
    let predicting = n_layers..n_layers.saturating_add(n);
    index.retain(|name, _| !layer(name).is_some_and(|layer| predicting.contains(&layer)));
}

/// The number of the layer that a tensor belongs to.
fn layer(name: &str) -> Option<usize> {
    name.strip_prefix("model.layers.")?.split('.').next()?.parse().ok()
}
