//! Reads PEFT's two files. Unsupported settings that would change a score are errors.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde_json::Value;

use super::{Adapter, AdapterConfig, AdapterLayer, LowRank, Module, Numbers};
use crate::{
    Error, Result, files,
    small_file::{self, MAX_SETTINGS_BYTES},
};

/// The settings.
pub const CONFIG_FILE: &str = "adapter_config.json";
/// The tensors.
pub const WEIGHTS_FILE: &str = "adapter_model.safetensors";

/// The most bytes of the tensors, which are read into memory.
const MAX_WEIGHTS_BYTES: u64 = 64 << 30;

/// The most layers, above those of any decoder: checked before memory is allocated for them.
const MAX_LAYERS: usize = 1 << 10;
const MAX_RANK: usize = 1 << 12;

/// Settings that only describe an adapter's training, or that are read here, separated by spaces; no other
/// may be on.
const UNDERSTOOD: &str = "\
    auto_mapping base_model_name_or_path bias ensure_weight_tying eva_config exclude_modules \
    inference_mode init_lora_weights layers_pattern layers_to_transform lora_alpha lora_dropout \
    megatron_core peft_type peft_version qalora_group_size r revision target_modules task_type \
    use_rslora";

/// Initialisations of training that leave the base model unchanged; others modify it.
const STARTS: &[&str] = &["gaussian", "eva", "orthogonal"];

/// Returns true if a folder looks like an adapter.
pub fn is_adapter(dir: &Path) -> bool {
    dir.join(CONFIG_FILE).is_file()
}

/// The file of an error.
pub(super) struct At<'a>(pub &'a Path);

impl At<'_> {
    pub fn bad(&self, reason: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::File { path: self.0.display().to_string(), reason: reason.into(), hint: hint.into() }
    }

    pub fn io(&self, source: std::io::Error) -> Error {
        Error::Io { path: self.0.display().to_string(), source }
    }
}

pub(super) fn read(dir: &Path) -> Result<Adapter> {
    let (config_path, weights_path) = (dir.join(CONFIG_FILE), dir.join(WEIGHTS_FILE));
    let at = At(&config_path);
    let text = small_file::read(&config_path, MAX_SETTINGS_BYTES).map_err(|e| at.io(e))?;
    let json: Value = serde_json::from_slice(&text)
        .map_err(|e| at.bad(format!("is not JSON: {e}"), "copy the adapter's folder again"))?;
    let mut config = settings(&at, &json)?;
    let at = At(&weights_path);
    let bytes = files::read_at_most(&weights_path, MAX_WEIGHTS_BYTES).map_err(|e| at.io(e))?;
    let tensors = SafeTensors::deserialize(&bytes).map_err(|e| {
        at.bad(format!("is not a whole safetensors file: {e}"), "copy the adapter's folder again")
    })?;
    let (layers, numbers) = layers(&at, &tensors, config.rank)?;
    check_targets(&At(&config_path), &json["target_modules"], &layers)?;
    config.numbers = numbers;
    Ok(Adapter { config, layers })
}

/// The settings, all of which must be supported.
fn settings(at: &At<'_>, json: &Value) -> Result<AdapterConfig> {
    let kind = json.get("peft_type").and_then(Value::as_str).unwrap_or("");
    if kind != "LORA" {
        return Err(at.bad(format!("`peft_type` is `{kind}`"), "only adapters of type `LORA` are supported"));
    }
    refuse_unsupported(at, json)?;
    let number = |key: &str| json.get(key).and_then(Value::as_f64).filter(|x| x.is_finite());
    let missing = |key: &str| at.bad(format!("`{key}` is missing or not a number"), "PEFT always writes it");
    let rank = json.get("r").and_then(Value::as_u64).ok_or_else(|| missing("r"))? as usize;
    if !(1..=MAX_RANK).contains(&rank) {
        let reason = format!("`r` is {rank}; a rank from 1 to {MAX_RANK} was expected");
        return Err(at.bad(reason, "copy the adapter's folder again"));
    }
    let base = json.get("base_model_name_or_path").and_then(Value::as_str).unwrap_or("");
    let rslora = match json.get("use_rslora") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(rslora)) => *rslora,
        Some(other) => {
            let reason = format!("`use_rslora` is {other}; `true` or `false` was expected");
            return Err(at.bad(reason, "the adapter's scale depends on it; PEFT writes one of the two"));
        }
    };
    Ok(AdapterConfig {
        base: base.to_owned(),
        rank,
        alpha: number("lora_alpha").ok_or_else(|| missing("lora_alpha"))?,
        rslora,
        dropout: number("lora_dropout").unwrap_or(0.0),
        numbers: Numbers::default(),
    })
}

/// Rejects the first setting, by name, that would change the adapter's result and is not supported.
fn refuse_unsupported(at: &At<'_>, json: &Value) -> Result<()> {
    let hint = "merge the adapter into its base with PEFT's `merge_and_unload` and use the merged model";
    let text = |key: &str| json.get(key).and_then(Value::as_str);
    if let Some(bias) = text("bias").filter(|&bias| bias != "none") {
        return Err(at.bad(format!("`bias` is `{bias}`, which is not supported"), hint));
    }
    if let Some(start) = text("init_lora_weights").filter(|start| !STARTS.contains(start)) {
        let reason = format!("`init_lora_weights` is `{start}`, which changes the base's own weights");
        return Err(at.bad(reason, hint));
    }
    let on = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    };
    let settings = json.as_object().into_iter().flatten();
    let is_understood = |key: &str| UNDERSTOOD.split(' ').any(|understood| understood == key);
    match settings.into_iter().find(|(key, value)| !is_understood(key) && on(value)) {
        Some((key, value)) => Err(at.bad(format!("`{key}` is {value}, which is not supported"), hint)),
        None => Ok(()),
    }
}

/// Checks that the modules named by the settings are those that have tensors. A pattern in place of a list is
/// not checked.
fn check_targets(at: &At<'_>, targets: &Value, layers: &[AdapterLayer]) -> Result<()> {
    let Value::Array(targets) = targets else {
        if targets.is_null() || targets.is_string() {
            return Ok(());
        }
        let reason = format!("`target_modules` is {targets}; a list of names was expected");
        return Err(at.bad(reason, "copy the adapter's folder again"));
    };
    // A module, or one in a layer that is named with it: `layers.3.self_attn.q_proj`.
    let module = |target: &Value| target.as_str()?.rsplit('.').next().and_then(Module::named);
    // A name that no decoder has matches nothing, as in PEFT.
    let named: BTreeSet<Module> = targets.iter().filter_map(module).collect();
    let found: BTreeSet<Module> = layers.iter().flat_map(BTreeMap::keys).copied().collect();
    if named == found {
        return Ok(());
    }
    let found = found.into_iter().map(Module::name).collect::<Vec<_>>().join(", ");
    let reason =
        format!("`target_modules` is {}, but there are tensors of {found}", Value::from(targets.clone()));
    Err(at.bad(reason, "settings and tensors are of different adapters; copy the adapter's folder again"))
}

/// One half of a pair, from the file.
struct Half {
    shape: [usize; 2],
    values: Vec<f32>,
}

#[derive(Default)]
struct Halves {
    a: Option<Half>,
    b: Option<Half>,
}

fn layers(at: &At<'_>, tensors: &SafeTensors<'_>, rank: usize) -> Result<(Vec<AdapterLayer>, Numbers)> {
    let mut halves: Vec<BTreeMap<Module, Halves>> = Vec::new();
    let mut numbers = None;
    for (name, view) in tensors.iter() {
        let (layer, module, is_a) = place(name).ok_or_else(|| {
            let known = Module::ALL.map(Module::name).join(", ");
            at.bad(
                format!("tensor `{name}` is not one of a layer's LoRA matrices"),
                format!("an adapter of {known} is supported, and nothing trained beside it"),
            )
        })?;
        let (half, kind) = half(at, name, &view)?;
        numbers.get_or_insert(kind);
        if halves.len() <= layer {
            halves.resize_with(layer + 1, Default::default);
        }
        let pair = halves[layer].entry(module).or_default();
        let place = if is_a { &mut pair.a } else { &mut pair.b };
        if place.replace(half).is_some() {
            let reason = format!("has tensor `{name}` twice");
            return Err(at.bad(reason, "copy the adapter's folder again"));
        }
    }
    let Some(numbers) = numbers else {
        return Err(at.bad("holds no tensors", "copy the adapter's folder again"));
    };
    let pair = |layer: usize, (module, Halves { a, b }): (Module, Halves)| {
        let name = format!("layers.{layer}.{}", module.path());
        let (Some(a), Some(b)) = (a, b) else {
            return Err(at.bad(format!("`{name}` has only one of `lora_A` and `lora_B`"), "copy it again"));
        };
        let ([rank_a, n_in], [n_out, rank_b]) = (a.shape, b.shape);
        if (rank_a, rank_b) != (rank, rank) {
            return Err(at.bad(
                format!("`{name}` has A {:?} and B {:?}, which are not of rank {rank}", a.shape, b.shape),
                format!("`r` in `{CONFIG_FILE}` and the tensors are of different adapters"),
            ));
        }
        Ok((module, LowRank { a: a.values, b: b.values, n_in, n_out }))
    };
    let layer = |(i, halves): (usize, BTreeMap<Module, Halves>)| {
        halves.into_iter().map(|entry| pair(i, entry)).collect::<Result<AdapterLayer>>()
    };
    Ok((halves.into_iter().enumerate().map(layer).collect::<Result<_, _>>()?, numbers))
}

/// The layer and the module of a tensor, with true for an A:
/// `base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight`.
fn place(name: &str) -> Option<(usize, Module, bool)> {
    let (before, tail) = name.strip_prefix("base_model.model.")?.split_once("layers.")?;
    // The language model of a checkpoint with several parts is one level down.
    if before.split('.').any(|part| !matches!(part, "" | "model" | "language_model")) {
        return None;
    }
    let (layer, tail) = tail.split_once('.')?;
    // `+0` and `00` are not names of layer 0: two tensors would be one layer's.
    let layer: usize = layer.parse().ok().filter(|n: &usize| *n < MAX_LAYERS && n.to_string() == layer)?;
    let (module, is_a) = match tail.strip_suffix(".lora_A.weight") {
        Some(module) => (module, true),
        None => (tail.strip_suffix(".lora_B.weight")?, false),
    };
    let module = Module::ALL.into_iter().find(|known| known.path() == module)?;
    Some((layer, module, is_a))
}

fn half(at: &At<'_>, name: &str, view: &TensorView<'_>) -> Result<(Half, Numbers)> {
    let &[rows, columns] = view.shape() else {
        let reason = format!("tensor `{name}` has shape {:?}, a matrix was expected", view.shape());
        return Err(at.bad(reason, "only adapters of linear layers are supported"));
    };
    let numbers = match view.dtype() {
        Dtype::F32 => Numbers::F32,
        Dtype::F16 => Numbers::F16,
        Dtype::BF16 => Numbers::Bf16,
        other => {
            return Err(at.bad(format!("tensor `{name}` is {other:?}"), "f32, f16 and bf16 are supported"));
        }
    };
    let values = numbers.decode(view.data());
    if let Some(i) = values.iter().position(|x| !x.is_finite()) {
        let reason = format!("tensor `{name}` holds {} at [{}, {}]", values[i], i / columns, i % columns);
        return Err(at.bad(reason, "the training that made it went wrong; take an earlier state of it"));
    }
    Ok((Half { shape: [rows, columns], values }, numbers))
}

impl Numbers {
    fn decode(self, bytes: &[u8]) -> Vec<f32> {
        let pairs = || bytes.as_chunks::<2>().0.iter().copied();
        match self {
            Self::F32 => bytes.as_chunks::<4>().0.iter().copied().map(f32::from_le_bytes).collect(),
            Self::F16 => pairs().map(|b| half::f16::from_le_bytes(b).to_f32()).collect(),
            Self::Bf16 => pairs().map(|b| half::bf16::from_le_bytes(b).to_f32()).collect(),
        }
    }
}
