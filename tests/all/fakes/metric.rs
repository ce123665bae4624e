//! Tiny metrics of COMET's classes as folders: those in `models/tiny`, and golden heads over the encoder of one.

use std::{collections::HashMap, fs, path::Path};

use candle_core::{Device, Tensor, pickle::PthTensors, safetensors};
use serde_json::Value;

/// The golden cases of metrics, and the tensors of their heads and states.
pub fn golden(root: &Path) -> (Value, HashMap<String, Tensor>) {
    let file = |kind: &str| root.join(format!("tests/golden/comet.{kind}"));
    let json = serde_json::from_slice(&fs::read(file("json")).unwrap()).unwrap();
    (json, safetensors::load(file("safetensors"), &Device::Cpu).unwrap())
}

/// Writes the folder of a golden case: `hparams.yaml` and tensors, with the files of its encoder beside them. The
/// cases without a folder in `models/tiny` are saved as safetensors.
pub fn write_metric(root: &Path, folder: &Path, case: &str) {
    let (json, tensors) = golden(root);
    let case = &json["cases"][case];
    let source = root.join("models/tiny").join(case["folder"].as_str().unwrap_or("comet-da"));
    fs::create_dir_all(folder).unwrap();
    for file in ["config.json", "tokenizer.json"] {
        fs::copy(source.join(file), folder.join(file)).unwrap();
    }
    if case["folder"].is_string() {
        fs::create_dir_all(folder.join("checkpoints")).unwrap();
        for file in ["hparams.yaml", "checkpoints/model.ckpt"] {
            fs::copy(source.join(file), folder.join(file)).unwrap();
        }
        return;
    }
    let hparams = case["hparams"].as_object().unwrap().iter();
    let line = |(key, value): (&String, &Value)| match value {
        Value::String(text) => format!("{key}: {text}\n"),
        Value::Array(list) => {
            let entries: Vec<String> = list.iter().map(|entry| entry.to_string().replace('"', "")).collect();
            format!("{key}:\n{}", entries.iter().map(|entry| format!("- {entry}\n")).collect::<String>())
        }
        other => format!("{key}: {other}\n"),
    };
    fs::write(folder.join("hparams.yaml"), hparams.map(line).collect::<String>()).unwrap();
    let encoder = PthTensors::new(source.join("checkpoints/model.ckpt"), Some("state_dict")).unwrap();
    let of_encoder = encoder.tensor_infos().keys().filter(|name| name.starts_with("encoder."));
    let mut all: HashMap<String, Tensor> =
        of_encoder.map(|name| (name.clone(), encoder.get(name).unwrap().unwrap())).collect();
    let head = format!("{}/", case["head"].as_str().unwrap());
    let heads =
        tensors.into_iter().filter_map(|(name, tensor)| Some((name.strip_prefix(&head)?.to_owned(), tensor)));
    all.extend(heads);
    safetensors::save(&all, folder.join("model.safetensors")).unwrap();
}
