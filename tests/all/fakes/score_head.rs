//! Tiny models with a score head, as folders: the tensors of a model with the head of its golden scores.

use std::{collections::HashMap, fs, path::Path};

use candle_core::{Device, Tensor, safetensors};
use serde_json::{Map, Value, json};

pub type Tensors = HashMap<String, Tensor>;

/// The settings and tensors of the golden heads, with their scores.
pub fn golden(root: &Path) -> (Value, Tensors) {
    let file = |kind: &str| root.join(format!("tests/golden/heads.{kind}"));
    let json = serde_json::from_slice(&fs::read(file("json")).unwrap()).unwrap();
    (json, safetensors::load(file("safetensors"), &Device::Cpu).unwrap())
}

/// Writes a tiny model with the head of its golden scores, after changes to both.
pub fn write_with_head(folder: &Path, model: &str, change: impl Fn(&mut Map<String, Value>, &mut Tensors)) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|dir| dir.join("models/tiny").is_dir());
    let root = root.unwrap();
    let (json, heads) = golden(root);
    let source = root.join("models/tiny").join(model);
    let mut config: Map<String, Value> =
        serde_json::from_slice(&fs::read(source.join("config.json")).unwrap()).unwrap();
    config.extend(json["cases"][model].as_object().unwrap().clone());
    let mut tensors = safetensors::load(source.join("model.safetensors"), &Device::Cpu).unwrap();
    for part in ["weight", "bias"] {
        let head = heads.get(&format!("{model}.{part}")).cloned();
        tensors.extend(head.map(|head| (format!("score.{part}"), head)));
    }
    change(&mut config, &mut tensors);
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("config.json"), Value::Object(config).to_string()).unwrap();
    safetensors::save(&tensors, folder.join("model.safetensors")).unwrap();
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(source.join(file), folder.join(file)).unwrap();
    }
}

/// Gemma 2's tokenizer puts `<bos>` before every text, and its template writes one too.
pub fn write_bos(folder: &Path) {
    let read =
        |name: &str| -> Value { serde_json::from_slice(&fs::read(folder.join(name)).unwrap()).unwrap() };
    let bos = "<|endoftext|>";
    let mut tokenizer = read("tokenizer.json");
    tokenizer["post_processor"] = json!({
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": bos, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {bos: {"id": bos, "ids": [317], "tokens": [bos]}},
    });
    let mut config = read("tokenizer_config.json");
    config["bos_token"] = json!(bos);
    config["add_bos_token"] = json!(true);
    let template = config["chat_template"].as_str().unwrap();
    config["chat_template"] = format!("{{{{ bos_token }}}}{template}").into();
    fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    fs::write(folder.join("tokenizer_config.json"), config.to_string()).unwrap();
}
