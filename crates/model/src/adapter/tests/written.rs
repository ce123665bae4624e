//! Writes PEFT's two files, for tests only.

use std::{collections::BTreeSet, path::Path};

use safetensors::{Dtype, tensor::TensorView};
use serde_json::{Value, json};

use super::peft::{At, CONFIG_FILE, WEIGHTS_FILE};
use crate::{
    Error,
    adapter::{Adapter, AdapterConfig, Module, Numbers},
    files,
};

/// Writes a folder that PEFT, vLLM and [`Adapter::read`] load. Each file is put in place once it is complete.
///
/// # Errors
/// Errors of the disk, and an adapter that PEFT's layout cannot express: no parts, or layers with different
/// modules.
pub fn write(adapter: &Adapter, dir: &Path) -> Result<(), Error> {
    let at = At(dir);
    let modules = adapter.modules();
    let adapted = adapter.adapted_layers();
    if adapted.is_empty() {
        return Err(at.bad("an adapter without matrices cannot be written", "train at least one module"));
    }
    let same = |&&layer: &&usize| adapter.layers[layer].keys().eq(modules.iter());
    if let Some(layer) = adapted.iter().find(|layer| !same(layer)) {
        return Err(at.bad(
            format!("layer {layer} has other modules than the other layers"),
            "PEFT's layout names one list of modules for all layers",
        ));
    }
    std::fs::create_dir_all(dir).map_err(|e| at.io(e))?;
    put(&dir.join(WEIGHTS_FILE), &tensor_bytes(adapter, dir)?)?;
    let text = serde_json::to_string_pretty(&config_json(adapter)).expect("plain values are JSON");
    put(&dir.join(CONFIG_FILE), format!("{text}\n").as_bytes())
}

/// The settings as PEFT writes them; omitted ones have its defaults.
fn config_json(adapter: &Adapter) -> Value {
    let AdapterConfig { base, rank, alpha, rslora, dropout, numbers: _in_the_tensors } = &adapter.config;
    let names: BTreeSet<&str> = adapter.modules().into_iter().map(Module::name).collect();
    // A whole number where it is one: vLLM reads an integer.
    let whole = alpha.fract() == 0.0 && alpha.abs() < 1e9;
    json!({
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "inference_mode": true,
        "r": rank,
        "lora_alpha": if whole { json!(*alpha as i64) } else { json!(alpha) },
        "lora_dropout": dropout,
        "use_rslora": rslora,
        "bias": "none",
        "fan_in_fan_out": false,
        "init_lora_weights": true,
        "layers_pattern": null,
        "layers_to_transform": adapter.adapted_layers(),
        "modules_to_save": null,
        "target_modules": names,
        "use_dora": false,
    })
}

fn tensor_bytes(adapter: &Adapter, dir: &Path) -> Result<Vec<u8>, Error> {
    let (numbers, rank) = (adapter.config.numbers, adapter.config.rank);
    let mut encoded: Vec<(String, [usize; 2], Vec<u8>)> = Vec::new();
    for (i, layer) in adapter.layers.iter().enumerate() {
        for (module, part) in layer {
            let name =
                |half| format!("base_model.model.model.layers.{i}.{}.lora_{half}.weight", module.path());
            encoded.push((name('A'), [rank, part.n_in], numbers.encode(&part.a)));
            encoded.push((name('B'), [part.n_out, rank], numbers.encode(&part.b)));
        }
    }
    let bad = |e: safetensors::SafeTensorError| At(dir).bad(e.to_string(), "rank and matrices must agree");
    let mut views: Vec<(&str, TensorView<'_>)> = Vec::new();
    for (name, shape, bytes) in &encoded {
        views.push((name, TensorView::new(numbers.dtype(), shape.to_vec(), bytes).map_err(bad)?));
    }
    let metadata = [("format".to_owned(), "pt".to_owned())].into();
    safetensors::serialize(views, Some(metadata)).map_err(bad)
}

impl Numbers {
    fn dtype(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::F16 => Dtype::F16,
            Self::Bf16 => Dtype::BF16,
        }
    }

    fn encode(self, values: &[f32]) -> Vec<u8> {
        match self {
            Self::F32 => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Self::F16 => values.iter().flat_map(|&x| half::f16::from_f32(x).to_le_bytes()).collect(),
            Self::Bf16 => values.iter().flat_map(|&x| half::bf16::from_f32(x).to_le_bytes()).collect(),
        }
    }
}

/// Writes a temporary file beside the final path, then renames it.
fn put(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    files::replace(path, |file| file.write_all(bytes)).map_err(|e| At(path).io(e.source))
}
