//! Safetensors folders: `config.json` with one file or an index of shards; and folders of metrics, whose
//! tensors may be in a checkpoint by PyTorch Lightning.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

use super::{
    Entry, Format, Mapped, Source, Weights, experts, hybrid, lightning, of_metric, projections,
    quantised::Piece,
    score_head,
    unread::{self, Names},
};
use crate::{
    Config, Error, Result,
    config::{
        ScoreHead,
        hf::{Renames, stop_ids},
    },
    families,
    metric::Settings,
    small_file::{self, MAX_SETTINGS_BYTES, MAX_TOKENIZER_BYTES},
};

mod fit;
mod quantised;

const EMBEDDINGS: &str = "model.embed_tokens.weight";
const OUTPUT: &str = "lm_head.weight";

/// Opens a folder.
pub fn open(path: &Path) -> Result<Weights> {
    let metric = Settings::read(path)?;
    let config_path = path.join("config.json");
    let shards = shards(path, metric.as_ref())?;
    let derived = metric.as_ref().filter(|_| !config_path.exists());
    let json = if let Some(metric) = derived {
        of_metric::encoder_config(metric, &tensors(&path.join(&shards[0]), 0)?.1)?
    } else {
        let bytes = small_file::read(&config_path, MAX_SETTINGS_BYTES).map_err(io(&config_path))?;
        small_file::json(&config_path, &bytes)?
    };
    let reading = families::read_json(&config_path.display().to_string(), &json)?;
    let (mut files, mut pieces, mut heads) = (Vec::new(), BTreeMap::new(), Vec::new());
    for shard in shards {
        let shard_path = path.join(shard);
        let (file, mut listed) = tensors(&shard_path, files.len())?;
        if metric.is_some() {
            heads.extend(of_metric::take_head(&shard_path, &mut listed)?);
        }
        name(&shard_path, listed, reading.names, &mut pieces)?;
        files.push(file);
    }
    let named = |piece: &Piece| ((piece.file, piece.start), piece.name.clone());
    let names: Names = pieces.values().map(named).collect();
    pieces.retain(|name, _| !unread::is_unused(&reading.config, name));
    if let (true, Some(first)) = (pieces.is_empty(), names.values().next()) {
        let reason = format!("has no tensors of a decoder; the first that it has is `{first}`");
        return Err(bad(path, reason, "weights are named as `transformers` does, `model.layers.0. ...`"));
    }
    let mut index = quantised::gather(&mut pieces, reading.quantization.as_ref())
        .map_err(|(name, reason)| Error::Tensor { path: path.display().to_string(), name, reason })?;
    for (name, piece) in pieces {
        index.insert(name, plain(&files[piece.file].path, piece)?);
    }
    let mut config = reading.config.clone();
    experts::split_in_turns(&config, &mut index);
    experts::split(&mut index);
    hybrid::split(&config, &mut index);
    projections::split(path, &config, &mut index)?;
    projections::lengthen_scalars(&mut index);
    if config.neighbours_rotate {
        projections::mark_neighbours(&config, &mut index);
    }
    tie(&mut config, &files, &mut index);
    fit::check(&config_path, &reading, &index)?;
    score_head::check(path, &config, &mut index)?;
    // Layers that predict further tokens, or that the file excludes from the computation.
    index.retain(|name, _| fit::layer(name).is_none_or(|layer| layer < config.n_layers));
    unread::check(path, &config, (&files, &names), |name| name == ScoreHead::BIAS, &mut index)?;
    for head in heads {
        index.insert(head.name.clone(), plain(&files[head.file].path, head)?);
    }
    if let Some(ids) = generation_stops(path)? {
        config.stop_ids = ids;
    }
    let (path, remarks) = (path.into(), Vec::new());
    Ok(Weights { path, files, index, config, metric, metadata: None, seed: None, remarks })
}

fn bad(path: &Path, reason: impl Into<String>, hint: &str) -> Error {
    Error::File { path: path.display().to_string(), reason: reason.into(), hint: hint.into() }
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> Error {
    let path = path.display().to_string();
    move |source| Error::Io { path: path.clone(), source }
}

/// The stop tokens of `generation_config.json`, which take precedence over those of `config.json`.
fn generation_stops(folder: &Path) -> Result<Option<Vec<u32>>> {
    let path = folder.join("generation_config.json");
    let Some(bytes) = small_file::read_if_there(&path, MAX_SETTINGS_BYTES).map_err(io(&path))? else {
        return Ok(None);
    };
    let json = small_file::json(&path, &bytes)?;
    let ids = stop_ids(&path.display().to_string(), json.get("eos_token_id"))?;
    Ok(Some(ids).filter(|ids| !ids.is_empty()))
}

/// The shard files, in order of their names.
fn shards(folder: &Path, metric: Option<&Settings>) -> Result<Vec<String>> {
    if metric.is_some() && folder.join(lightning::FILE).exists() {
        return Ok(vec![lightning::FILE.to_owned()]);
    }
    let index_path = folder.join("model.safetensors.index.json");
    let bytes = small_file::read_if_there(&index_path, MAX_TOKENIZER_BYTES).map_err(io(&index_path))?;
    let Some(bytes) = bytes else { return Ok(vec!["model.safetensors".to_owned()]) };
    let index = small_file::json(&index_path, &bytes)?;
    let map = index.get("weight_map").and_then(Value::as_object);
    let map = map.ok_or_else(|| bad(&index_path, "has no `weight_map`", "fetch the file again"))?;
    let names: BTreeSet<String> = map.values().filter_map(Value::as_str).map(str::to_owned).collect();
    if names.iter().any(|name| name.contains(['/', '\\'])) {
        return Err(bad(&index_path, "names a file outside its folder", "fetch the file again"));
    }
    Ok(names.into_iter().collect())
}

/// Maps a shard, and lists its tensors.
fn tensors(path: &Path, file_idx: usize) -> Result<(Mapped, Vec<Piece>)> {
    let file = Mapped::open(path)?;
    if path.ends_with(lightning::FILE) {
        let pieces = lightning::pieces(path, file_idx, &file.map)?;
        return Ok((file, pieces));
    }
    let parsed = SafeTensors::deserialize(&file.map)
        .map_err(|e| bad(path, format!("is not a whole safetensors file: {e}"), "fetch it again"))?;
    let pieces = parsed.iter().map(|(name, view)| {
        let start = view.data().as_ptr() as usize - file.map.as_ptr() as usize;
        let (end, shape) = (start + view.data().len(), view.shape().to_vec());
        Piece { name: name.to_owned(), file: file_idx, start, end, dtype: view.dtype(), shape }
    });
    let pieces = pieces.collect();
    Ok((file, pieces))
}

/// Adds one shard's tensors to the list, with the names that the family's have here.
fn name(path: &Path, listed: Vec<Piece>, names: Renames, pieces: &mut BTreeMap<String, Piece>) -> Result<()> {
    for piece in listed {
        let name = piece.name.clone();
        if let Some(other) = pieces.insert(canonical(&name, names), piece).filter(|other| other.name != name)
        {
            let reason = format!("has the same tensor as `{}` and as `{name}`", other.name);
            return Err(bad(path, reason, "remove one of them"));
        }
    }
    Ok(())
}

/// A tensor of floats.
fn plain(path: &Path, piece: Piece) -> Result<Entry> {
    let Piece { name, file, start, end, dtype, shape } = piece;
    let dtype = match dtype {
        Dtype::F32 => Format::F32,
        Dtype::F16 => Format::F16,
        Dtype::BF16 => Format::Bf16,
        other => {
            let hint = "floats are supported, and what `quantization_config` of `config.json` explains";
            return Err(bad(path, format!("tensor `{name}` is {other:?}"), hint));
        }
    };
    Ok(Entry { file, start, end, dtype, shape, rows: None, source: Source::Plain })
}

/// The name of a tensor in a text-only checkpoint, which the decoder uses.
fn canonical(name: &str, names: Renames) -> String {
    let name = &names.iter().fold(name.to_owned(), |name, (of_family, ours)| name.replace(of_family, ours));
    let name = match name.strip_prefix("model.language_model.") {
        Some(rest) => format!("model.{rest}"),
        None => name.strip_prefix("language_model.").unwrap_or(name).to_owned(),
    };
    // A model saved without its head.
    let is_bare =
        ["layers.", "embed_tokens", "norm.", "per_layer_"].iter().any(|start| name.starts_with(start));
    let name = if is_bare { format!("model.{name}") } else { name };
    // The names in files of Gemma 4 and gpt-oss.
    let name = match name.split_once(".experts.") {
        Some((layer, rest)) => {
            let layer = layer.strip_suffix(".mlp").or_else(|| layer.strip_suffix(".moe")).unwrap_or(layer);
            format!("{layer}.mlp.experts.{}", of_expert(rest))
        }
        _ => name,
    };
    let name = name
        .replace(".mlp.router.linear.", ".mlp.gate.")
        .replace(".mlp.router.", ".mlp.gate.")
        .replace(".router.proj.", ".mlp.gate.")
        .replace(".router.", ".mlp.gate.");
    // The names in files of Hunyuan and of Qwen's hybrids.
    name.replace(".mlp.shared_expert.", ".mlp.shared_experts.")
        .replace(".self_attn.query_layernorm.", ".self_attn.q_norm.")
        .replace(".self_attn.key_layernorm.", ".self_attn.k_norm.")
}

/// Moves the number of an expert before its matrix, for files that have it after: `gate_up_projs.7.weight`.
fn of_expert(rest: &str) -> String {
    let part = ["gate_up_proj", "down_proj"].into_iter().find(|part| rest.starts_with(&format!("{part}s.")));
    let number = part.and_then(|part| rest[part.len() + 2..].split_once('.'));
    match part.zip(number) {
        Some((part, (expert, kind))) => format!("{expert}.{part}.{kind}"),
        None => rest.to_owned(),
    }
}

/// Resolves `tie_word_embeddings` as the reference does: matrices that differ in the file stay untied, and
/// where the file has only one of the two, it serves as both.
fn tie(config: &mut Config, files: &[Mapped], index: &mut BTreeMap<String, Entry>) {
    if !config.tied {
        return;
    }
    match (index.get(EMBEDDINGS), index.get(OUTPUT)) {
        (Some(embeddings), Some(output)) => {
            let bytes = |entry: &Entry| files[entry.file].map.get(entry.start..entry.end);
            config.tied = embeddings.dtype == output.dtype
                && embeddings.shape == output.shape
                && bytes(embeddings) == bytes(output);
            if config.tied {
                index.remove(OUTPUT);
            }
        }
        (None, Some(_)) => {
            if let Some(output) = index.remove(OUTPUT) {
                index.insert(EMBEDDINGS.into(), output);
            }
        }
        _ => {}
    }
}
