//! Folders of safetensors with other settings than the tiny models have, against logits that transformers
//! computed; the files beside the weights; and the tokens that end an answer.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::Path,
};

use candle_core::{Device as Candle, Tensor};
use serde_json::{Value, json};
use tribunal_core::llm::{Chat, Finish, Llm, ResponseFormat, Sampling};
use tribunal_cpu::{Activations, Compute};
use tribunal_engine::{Device, Engine, Options};
use tribunal_model::{Adapter, KvType, Weights};

use crate::model::{Desk, root, tiny};

/// A folder with a tiny model's weights and tokenizer and another `config.json`.
fn folder(model: &str, config: &Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in ["model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        fs::copy(tiny(model).join(file), folder.path().join(file)).unwrap();
    }
    write(folder.path(), "config.json", config);
    folder
}

fn write(folder: &Path, name: &str, value: &Value) {
    fs::write(folder.join(name), value.to_string()).unwrap();
}

fn config(model: &str) -> Value {
    serde_json::from_slice(&fs::read(tiny(model).join("config.json")).unwrap()).unwrap()
}

/// The object that a path's last key belongs to, and that key.
fn at<'a>(config: &'a mut Value, path: &'a str) -> (&'a mut Value, &'a str) {
    match path.rsplit_once('.') {
        Some((inner, key)) => (inner.split('.').fold(config, |at, key| &mut at[key]), key),
        None => (config, path),
    }
}

/// The tensors of a case, equal to those of `scripts/golden_checkpoints.py`.
fn with_tensors(mut tensors: HashMap<String, Tensor>, kind: &str) -> HashMap<String, Tensor> {
    let embeddings = tensors.keys().find(|name| name.ends_with("embed_tokens.weight")).unwrap().clone();
    let prefix = if embeddings.starts_with("language_model.") { "language_model." } else { "" };
    let output = format!("{prefix}lm_head.weight");
    let table = tensors[&embeddings].clone();
    let modules: &[&str] = match kind {
        "attention biases" => &["q", "k", "v", "o"],
        "mlp biases" => &["gate", "up", "down"],
        _ => &[],
    };
    for module in modules {
        let end = format!("{module}_proj.weight");
        let matrices: Vec<String> = tensors.keys().filter(|name| name.ends_with(&end)).cloned().collect();
        for name in matrices {
            let column = tensors[&name].narrow(1, 0, 1).unwrap().flatten_all().unwrap();
            tensors.insert(format!("{}bias", name.strip_suffix("weight").unwrap()), column);
        }
    }
    match kind {
        "other output" => {
            let rows = (0..table.dim(0).unwrap() as u32).rev().collect::<Vec<_>>();
            let rows = Tensor::new(rows, &Candle::Cpu).unwrap();
            tensors.insert(output, table.index_select(&rows, 0).unwrap());
        }
        "same output" => drop(tensors.insert(output, table)),
        "no embeddings" => drop(tensors.remove(&embeddings)),
        _ => assert!(!modules.is_empty(), "{kind}"),
    }
    tensors
}

/// Logits of the last token, with exact activations.
fn logits(folder: &Path, ids: &[u32]) -> Vec<f32> {
    let weights = Weights::open(folder).unwrap_or_else(|error| panic!("{error}"));
    let compute = Compute { activations: Activations::Float, ..Compute::default() };
    let mut model = Device::Cpu.load(&weights, compute).unwrap();
    let mut desk = Desk::new(&mut *model, &[ids.to_vec()], KvType::F32);
    desk.step(&[(0, ids.len())]).pop().unwrap()
}

#[test]
fn a_checkpoint_computes_what_its_settings_say() {
    let text = fs::read_to_string(root().join("tests/golden/checkpoints.json")).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    let ids: Vec<u32> = serde_json::from_value(golden["ids"].clone()).unwrap();
    let expected =
        candle_core::safetensors::load(root().join("tests/golden/checkpoints.safetensors"), &Candle::Cpu)
            .unwrap();
    let cases: BTreeMap<String, Value> = serde_json::from_value(golden["cases"].clone()).unwrap();
    assert!(cases.len() > 50);
    for (name, case) in cases {
        let model = case["model"].as_str().unwrap();
        let mut config = config(model);
        for path in case["leave_out"].as_array().unwrap() {
            let (inner, key) = at(&mut config, path.as_str().unwrap());
            assert!(inner.as_object_mut().unwrap().remove(key).is_some(), "{name}: {path}");
        }
        for (path, value) in case["set"].as_object().unwrap() {
            let (inner, key) = at(&mut config, path);
            inner[key] = value.clone();
        }
        let folder = folder(model, &config);
        let added = case["tensors"].as_array().unwrap();
        if !added.is_empty() {
            let file = folder.path().join("model.safetensors");
            let tensors = candle_core::safetensors::load(&file, &Candle::Cpu).unwrap();
            let tensors = added.iter().fold(tensors, |all, kind| with_tensors(all, kind.as_str().unwrap()));
            candle_core::safetensors::save(&tensors, file).unwrap();
        }
        let (ours, theirs) = (logits(folder.path(), &ids), expected[&name].to_vec1::<f32>().unwrap());
        let worst = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(ours.len() == theirs.len() && worst <= 1e-4, "{name}: differs by {worst}");
    }
}

/// The logits of a tiny model with other tensors and settings, or the error.
fn changed(
    model: &str,
    settings: &Value,
    change: impl Fn(HashMap<String, Tensor>) -> HashMap<String, Tensor>,
) -> Result<Vec<f32>, String> {
    let mut config = config(model);
    config.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    let folder = folder(model, &config);
    let file = folder.path().join("model.safetensors");
    let tensors = change(candle_core::safetensors::load(&file, &Candle::Cpu).unwrap());
    candle_core::safetensors::save(&tensors, file).unwrap();
    Weights::open(folder.path()).map(|_| logits(folder.path(), &[1, 2, 3])).map_err(|error| error.to_string())
}

#[test]
fn a_tensor_that_a_setting_leaves_out_is_refused() {
    let none = json!({});
    let with = |name: &'static str, value: f32, n: usize| {
        move |mut all: HashMap<String, Tensor>| {
            all.insert(name.to_owned(), Tensor::full(value, n, &Candle::Cpu).unwrap());
            all
        }
    };
    let (o_bias, head_bias) = ("model.layers.1.self_attn.o_proj.bias", "lm_head.bias");
    let same = |all: HashMap<String, Tensor>| all;
    for (said, named) in [
        (changed("gpt-oss", &json!({"attention_bias": false}), same), "model.layers.0.self_attn.k_proj.bias"),
        (
            changed("glm4-moe", &json!({"n_shared_experts": 0}), same),
            "model.layers.1.mlp.shared_experts.down",
        ),
        (changed("glm4-moe", &json!({"use_qk_norm": false}), same), "model.layers.0.self_attn.k_norm.weight"),
        (
            changed("gemma4-moe", &json!({"enable_moe_block": false}), same),
            "model.layers.0.experts.down_proj",
        ),
        (changed("llama", &none, |all| with_tensors(all, "mlp biases")), "model.layers.0.mlp.down_proj.bias"),
        (changed("qwen2", &none, with(o_bias, 0.5, 64)), o_bias),
        (changed("llama", &none, with(head_bias, 0.5, 320)), head_bias),
        (changed("llama", &none, with("model.layers.0.mlp.act.scales", 2.0, 64)), "mlp.act.scales"),
    ] {
        let said = said.unwrap_err();
        let is_unread = said.contains(named) && said.contains("is not one that the decoder reads");
        assert!(is_unread || said.contains("`number of experts` is 0, but tensor"), "{said}");
    }
    // Biases of zeros, of which GPTQ's files are full, and numbers that follow from the settings.
    let plain = changed("qwen2", &none, same);
    assert_eq!(changed("qwen2", &none, with(o_bias, 0.0, 64)), plain);
    assert_eq!(changed("qwen2", &none, with("model.layers.0.self_attn.rotary_emb.inv_freq", 0.1, 8)), plain);
}

#[test]
fn names_without_the_prefix_of_the_model_are_read() {
    let renamed = |from: &'static str, to: &'static str| {
        move |all: HashMap<String, Tensor>| -> HashMap<String, Tensor> {
            all.into_iter().map(|(name, tensor)| (name.replacen(from, to, 1), tensor)).collect()
        }
    };
    let none = json!({});
    for (model, from, to) in
        [("llama", "model.", ""), ("qwen3-5-multimodal", "model.language_model.", "language_model.")]
    {
        assert_eq!(changed(model, &none, renamed(from, to)), changed(model, &none, |all| all), "{model}");
    }
    let said = changed("llama", &none, renamed("model.layers", "model.blocks")).unwrap_err();
    assert!(said.contains("tensor `model.blocks.0.input_layernorm.weight`"), "{said}");
    let said = changed("llama", &none, renamed("", "transformer.")).unwrap_err();
    assert!(said.contains("the first that it has is `transformer."), "{said}");
    let twice = |mut all: HashMap<String, Tensor>| {
        all.insert("norm.weight".into(), all["model.norm.weight"].clone());
        all
    };
    let said = changed("llama", &none, twice).unwrap_err();
    assert!(said.contains("`model.norm.weight`") && said.contains("`norm.weight`"), "{said}");
}

/// Opens a folder that must not open and returns the error.
fn refusal(folder: &Path) -> String {
    Engine::open(folder, &options()).err().expect("refused").to_string()
}

fn options() -> Options {
    Options { kv_bytes: Some(8 << 20), context: Some(256), threads: Some(1), ..Options::default() }
}

#[test]
fn sizes_that_the_tensors_do_not_have_are_refused_with_the_key() {
    let mut left_out = config("llama");
    left_out.as_object_mut().unwrap().remove("intermediate_size");
    let said = refusal(folder("llama", &left_out).path());
    for words in [
        "`intermediate_size` is 11008",
        "shape [64, 64]",
        "the default of `LlamaConfig` does not fit",
        "hint",
    ] {
        assert!(said.contains(words), "{said}");
    }
    // A default that is smaller than the number of layers would make another model of it.
    let mut layers = config("gemma3-nested");
    layers["text_config"].as_object_mut().unwrap().remove("num_hidden_layers");
    let said = refusal(folder("gemma3-nested", &layers).path());
    assert!(said.contains("`num_hidden_layers` is 26") && said.contains("4 layers"), "{said}");
    let mut other = config("qwen3");
    other["num_key_value_heads"] = 4.into();
    let said = refusal(folder("qwen3", &other).path());
    assert!(said.contains("`num_key_value_heads` times `head_dim` is 128"), "{said}");
}

/// Marked as another format, it is rejected before a tensor is looked for.
#[test]
fn a_quantised_checkpoint_is_refused_before_its_tensors_are_read() {
    let mut config = config("llama");
    config["quantization_config"] = json!({"quant_method": "hqq", "group_size": 64});
    let folder = folder("llama", &config);
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    let said = refusal(folder.path());
    assert!(said.contains("`quantization_config` names `hqq`") && said.contains("GGUF"), "{said}");
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_setting() {
    let folder = folder("qwen2", &config("qwen2"));
    for name in ["config.json", "tokenizer_config.json", "tokenizer.json"] {
        let file = folder.path().join(name);
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("\u{feff}{text}")).unwrap();
    }
    write(folder.path(), "generation_config.json", &json!({"eos_token_id": 319}));
    Engine::open(folder.path(), &options()).unwrap();
}

#[cfg(unix)]
#[test]
fn files_beside_the_weights_are_plain_and_small() {
    use std::os::unix::fs::symlink;
    let whole = || {
        let folder = folder("qwen2", &config("qwen2"));
        write(folder.path(), "generation_config.json", &json!({"eos_token_id": 319}));
        folder
    };
    let names = [
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "model.safetensors.index.json",
    ];
    for name in names {
        let folder = whole();
        let file = folder.path().join(name);
        let replaced = |make: &dyn Fn(&Path)| {
            let _ = fs::remove_file(&file);
            make(&file);
            refusal(folder.path())
        };
        let pipe = replaced(&|file| {
            assert!(std::process::Command::new("mkfifo").arg(file).status().unwrap().success());
        });
        assert!(pipe.contains(name) && pipe.contains("a pipe or a device"), "{pipe}");
        let device = replaced(&|file| symlink("/dev/zero", file).unwrap());
        assert!(device.contains(name) && device.contains("a pipe or a device"), "{device}");
        let large = replaced(&|file| fs::File::create(file).unwrap().set_len(1 << 30).unwrap());
        assert!(large.contains(name) && large.contains("1073741824 bytes"), "{large}");
        let inside = replaced(&|file| fs::create_dir(file).unwrap());
        assert!(inside.contains(name) && inside.contains("it is a folder"), "{inside}");
    }
    let pipe = whole();
    let file = pipe.path().join("model.safetensors");
    fs::remove_file(&file).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    assert!(refusal(pipe.path()).contains("is not a plain file"));
    // The hub's cache has links to all of them.
    let (files, links) = (whole(), tempfile::tempdir().unwrap());
    for entry in fs::read_dir(files.path()).unwrap().map(Result::unwrap) {
        symlink(entry.path(), links.path().join(entry.file_name())).unwrap();
    }
    Engine::open(links.path(), &options()).unwrap();
}

#[cfg(unix)]
#[test]
fn files_of_an_adapter_are_plain() {
    let whole = root().join("tests/golden/adapters/qwen2-all");
    for name in ["adapter_config.json", "adapter_model.safetensors"] {
        let folder = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(&whole).unwrap().map(Result::unwrap) {
            fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
        Adapter::read(folder.path()).unwrap();
        let file = folder.path().join(name);
        fs::remove_file(&file).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        let said = Adapter::read(folder.path()).map(drop).unwrap_err().to_string();
        assert!(said.contains(name) && said.contains("a pipe or a device"), "{said}");
    }
}

/// The tokens of an answer of twelve.
fn answer(folder: &Path) -> (Vec<u32>, Finish) {
    let engine = Engine::open(folder, &options()).unwrap();
    let sampling = Sampling { temperature: 0.0, max_tokens: 12, ..Sampling::default() };
    let reply = engine.ask(&Chat::new().user("Hello"), &ResponseFormat::Text, &sampling).unwrap();
    (reply.tokens.iter().map(|token| token.id).collect(), reply.finish)
}

#[test]
fn the_stop_tokens_of_the_files_end_an_answer() {
    let plain = config("qwen2");
    let (tokens, finish) = answer(folder("qwen2", &plain).path());
    assert_eq!((tokens.len(), finish), (12, Finish::Length), "no stop token comes by itself");
    // The first occurrence of a token late in the answer.
    let late = (2..12).rev().find(|&i| !tokens[..i].contains(&tokens[i]));
    let stop = tokens[late.expect("the answer repeats itself only in part")];
    let cut = |config: &Value, generation: Option<Value>| {
        let folder = folder("qwen2", config);
        if let Some(generation) = generation {
            write(folder.path(), "generation_config.json", &generation);
        }
        answer(folder.path()).0.len()
    };
    let stopping = {
        let mut config = plain.clone();
        config["eos_token_id"] = json!([319, stop]);
        config
    };
    let ended = cut(&stopping, None);
    assert!(ended < 12, "a list in config.json");
    assert_eq!(
        cut(&plain, Some(json!({"eos_token_id": [319, stop]}))),
        ended,
        "a list in generation_config.json"
    );
    assert_eq!(cut(&plain, Some(json!({"eos_token_id": stop}))), ended, "one id");
    // `generation_config.json` replaces `config.json`, unless it names no token.
    assert_eq!(cut(&stopping, Some(json!({"eos_token_id": 319}))), 12);
    assert_eq!(cut(&stopping, Some(json!({"temperature": 0.7}))), ended);
    // An id past the vocabulary ends nothing.
    assert_eq!(cut(&plain, Some(json!({"eos_token_id": [319, 4_000_000]}))), 12);
    let folder = folder("qwen2", &plain);
    write(folder.path(), "generation_config.json", &json!({"eos_token_id": "319"}));
    let said = refusal(folder.path());
    assert!(said.contains("generation_config.json") && said.contains("`eos_token_id`"), "{said}");
}

#[test]
fn a_dynamic_rope_has_no_positions_past_the_model() {
    let mut config = config("llama");
    config["rope_scaling"] = json!({"type": "dynamic", "factor": 2.0});
    let folder = folder("llama", &config);
    let long = Options { context: Some(1024), ..options() };
    let said = Engine::open(folder.path(), &long).err().expect("refused").to_string();
    assert!(said.contains("`dynamic`") && said.contains("`--context 512`"), "{said}");
    Engine::open(folder.path(), &options()).unwrap();
}

/// The name of a tensor without the numbers of its layer and its expert.
fn kind(name: &str) -> String {
    name.split('.').filter(|part| part.parse::<u32>().is_err()).collect::<Vec<_>>().join(".")
}

/// The tensor with NaN in its first number; in all of them where a row may not be used, as an expert's or a
/// token's.
fn with_nan(name: &str, tensor: &Tensor) -> Tensor {
    let mut values = tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    let n = if name.contains("expert") || name.contains("embed") { values.len() } else { 1 };
    values[..n].fill(f32::NAN);
    Tensor::from_vec(values, tensor.shape(), &Candle::Cpu).unwrap()
}

#[test]
fn weights_that_are_not_numbers_leave_no_logits() {
    let ids: Vec<u32> = (0..24).map(|i| 40 + i * 7 % 60).collect();
    let models = ["gemma2", "gemma3", "gemma4-moe", "glm4-moe", "gpt-oss", "hunyuan", "llama", "ministral3"];
    let more = ["qwen2", "qwen3", "qwen3-moe", "qwen3-5", "qwen3-5-moe", "qwen3-next", "smollm2"];
    let latent = ["deepseek-v2-lite", "deepseek-v3"];
    let others = ["apertus", "cohere", "cohere2", "exaone4", "glm4", "granite", "granite-hybrid", "mixtral"];
    let last = ["ministral", "olmo2", "olmo3", "phi3", "smollm3"];
    for model in models.into_iter().chain(more).chain(latent).chain(others).chain(last) {
        let clean =
            candle_core::safetensors::load(tiny(model).join("model.safetensors"), &Candle::Cpu).unwrap();
        let folder = folder(model, &config(model));
        // Not of the layer that predicts a further token, which is not computed.
        let is_read =
            |name: &&String| !["eh_proj", "enorm", "hnorm", "shared_head"].iter().any(|of| name.contains(of));
        let kinds: BTreeSet<String> = clean.keys().filter(is_read).map(|name| kind(name)).collect();
        for of in kinds {
            let nan = |(name, tensor): (&String, &Tensor)| {
                let tensor = if kind(name) == of { with_nan(name, tensor) } else { tensor.clone() };
                (name.clone(), tensor)
            };
            let tensors: HashMap<String, Tensor> = clean.iter().map(nan).collect();
            candle_core::safetensors::save(&tensors, folder.path().join("model.safetensors")).unwrap();
            let weights = Weights::open(folder.path()).unwrap();
            for kv in [KvType::Bf16, KvType::F32] {
                let mut loaded = Device::Cpu.load(&weights, Compute::default()).unwrap();
                let row = Desk::new(&mut *loaded, std::slice::from_ref(&ids), kv)
                    .step(&[(0, ids.len())])
                    .pop()
                    .unwrap();
                assert!(row.iter().any(|x| x.is_nan()), "{model}, {of}, {kv:?}: {:?}", &row[..4]);
            }
        }
    }
}
