//! Adapters written by PEFT, read and written again; and invalid ones.

use serde_json::{Value, json};

mod written;

use super::*;
use written::write;

fn golden(name: &str) -> std::path::PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/golden/adapters").join(name)
}

/// A copy of an adapter of PEFT's whose settings are changed.
fn changed(change: impl FnOnce(&mut Value)) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(golden("qwen2-qv").join(CONFIG_FILE)).unwrap();
    let mut json: Value = serde_json::from_str(&text).unwrap();
    change(&mut json);
    std::fs::write(dir.path().join(CONFIG_FILE), json.to_string()).unwrap();
    std::fs::copy(golden("qwen2-qv").join(WEIGHTS_FILE), dir.path().join(WEIGHTS_FILE)).unwrap();
    dir
}

fn model(name: &str) -> Config {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("models/tiny").join(name);
    crate::Weights::open(&path).unwrap().config().clone()
}

#[test]
fn what_peft_writes_is_read() {
    let adapter = Adapter::read(&golden("qwen2-all")).unwrap();
    assert_eq!(adapter.modules(), Module::ALL);
    assert_eq!(adapter.adapted_layers(), [0, 1]);
    assert_eq!((adapter.config.rank, adapter.scale()), (4, 2.0));
    assert_eq!(adapter.config.base, "models/tiny/qwen2");
    assert_eq!(adapter.n_parameters(), 2 * 4 * (4 * 64 + 2 * 32 + 8 * 64));
    adapter.check(&model("qwen2")).unwrap();

    let adapter = Adapter::read(&golden("mistral-rslora")).unwrap();
    assert_eq!(adapter.modules(), [Module::Q, Module::K, Module::V, Module::O]);
    assert_eq!(adapter.adapted_layers(), [1], "`layers_to_transform` names the second layer alone");
    assert_eq!((adapter.config.numbers, adapter.scale()), (Numbers::Bf16, 4.0 / 3_f64.sqrt()));
    adapter.check(&model("mistral")).unwrap();
}

#[test]
fn what_is_written_is_read_back() {
    for name in ["qwen2-all", "qwen2-qv", "mistral-rslora", "gemma3-mlp"] {
        let adapter = Adapter::read(&golden(name)).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("new");
        write(&adapter, &dir).unwrap();
        assert_eq!(Adapter::read(&dir).unwrap(), adapter, "{name}");
        let mut files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|f| f.unwrap().file_name()).collect();
        files.sort();
        assert_eq!(files, [CONFIG_FILE, WEIGHTS_FILE], "nothing is left beside them");
    }
}

#[test]
fn what_would_change_a_score_and_is_not_followed_is_refused_by_name() {
    let refused = |key: &str, value: Value| {
        let dir = changed(|json| json[key] = value);
        Adapter::read(dir.path()).unwrap_err().to_string()
    };
    for (key, value) in [
        ("use_dora", json!(true)),
        ("bias", json!("lora_only")),
        ("modules_to_save", json!(["lm_head"])),
        ("rank_pattern", json!({"q_proj": 8})),
        ("alpha_pattern", json!({"q_proj": 8})),
        ("fan_in_fan_out", json!(true)),
        ("layer_replication", json!([[0, 2]])),
        ("lora_bias", json!(true)),
        ("trainable_token_indices", json!([1])),
        ("init_lora_weights", json!("pissa_niter_16")),
        ("a_setting_of_next_year", json!("on")),
    ] {
        let error = refused(key, value);
        assert!(error.contains(&format!("`{key}` is ")) && error.contains("merge_and_unload"), "{error}");
    }
    assert!(refused("peft_type", json!("PREFIX_TUNING")).contains("`peft_type` is `PREFIX_TUNING`"));
    assert!(refused("r", json!(0)).contains("`r` is 0"));
    assert!(refused("lora_alpha", Value::Null).contains("`lora_alpha` is missing"));
    let error = refused("r", json!(4));
    assert!(error.contains("A [2, 64] and B [64, 2], which are not of rank 4"), "{error}");
    let error = refused("use_rslora", json!("yes"));
    assert!(error.contains("`use_rslora` is \"yes\"; `true` or `false` was expected"), "{error}");
    for targets in [json!(["q_proj"]), json!(["q_proj", "v_proj", "o_proj"]), json!([]), json!({"q_proj": 1})]
    {
        let error = refused("target_modules", targets);
        assert!(error.contains("`target_modules` is "), "{error}");
    }
    for targets in [json!(["v_proj", "self_attn.q_proj"]), json!("all-linear"), Value::Null] {
        let dir = changed(|json| json["target_modules"] = targets);
        assert!(Adapter::read(dir.path()).is_ok());
    }
    // Settings that only describe the training may be anything.
    let dir = changed(|json| json["init_lora_weights"] = json!("gaussian"));
    assert!(Adapter::read(dir.path()).is_ok());
}

#[test]
fn tensors_that_are_no_pairs_of_a_layer_are_refused() {
    use safetensors::{Dtype, tensor::TensorView};
    let with = |names: &[&str], value: f32| {
        let dir = changed(|json| json["target_modules"] = json!(["q_proj"]));
        let bytes: Vec<u8> = [value; 128].iter().flat_map(|x| x.to_le_bytes()).collect();
        let shape = |name: &&str| if name.contains("lora_A") { vec![2, 64] } else { vec![64, 2] };
        let view = |name: &&'static str| (*name, TensorView::new(Dtype::F32, shape(name), &bytes).unwrap());
        let names: Vec<&'static str> = names.iter().map(|name| &*name.to_string().leak()).collect();
        let bytes = safetensors::serialize(names.iter().map(view).collect::<Vec<_>>(), None).unwrap();
        std::fs::write(dir.path().join(WEIGHTS_FILE), bytes).unwrap();
        Adapter::read(dir.path()).map(|_| ()).map_err(|e| e.to_string())
    };
    let (a, b) = (
        "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
        "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight",
    );
    with(&[a, b], 0.5).unwrap();
    assert!(with(&[a], 0.5).unwrap_err().contains("has only one of `lora_A` and `lora_B`"));
    assert!(with(&[], 0.5).unwrap_err().contains("holds no tensors"));
    assert!(with(&[a, b], f32::NAN).unwrap_err().contains("holds NaN at [0, 0]"));
    for stranger in [
        "base_model.model.lm_head.lora_A.weight",
        "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector",
        "base_model.model.model.layers.0.self_attn.qkv_proj.lora_A.weight",
        "base_model.model.vision_tower.layers.0.self_attn.q_proj.lora_A.weight",
        "base_model.model.model.layers.99999999999.self_attn.q_proj.lora_A.weight",
        // A second name of an existing layer.
        "base_model.model.model.layers.+0.self_attn.q_proj.lora_A.weight",
        "base_model.model.model.layers.00.self_attn.q_proj.lora_A.weight",
    ] {
        let error = with(&[a, b, stranger], 0.5).unwrap_err();
        assert!(
            error.contains(stranger) && error.contains("is not one of a layer's LoRA matrices"),
            "{error}"
        );
    }
    let twice = a.replace("model.model.", "model.model.language_model.");
    assert!(with(&[a, b, &twice], 0.5).unwrap_err().contains("twice"));
    // The language model of a checkpoint with several parts.
    let nested = [a, b].map(|name| name.replace("model.model.", "model.model.language_model."));
    with(&nested.each_ref().map(String::as_str), 0.5).unwrap();
}

#[test]
fn an_adapter_of_another_base_names_both_sizes() {
    let adapter = Adapter::read(&golden("qwen2-all")).unwrap();
    let error = adapter.check(&model("gemma3")).unwrap_err().to_string();
    assert_eq!(
        error,
        "the adapter is one for another model: layer 0's `self_attn.q_proj` is [64, 64] in the adapter and [64, 32] \
         in the model; hint: it was trained on `models/tiny/qwen2`"
    );
    let adapter = Adapter::read(&golden("gemma3-mlp")).unwrap();
    let error = adapter.check(&Config { n_layers: 2, ..model("gemma3") }).unwrap_err().to_string();
    assert!(error.contains("it has weights for layer 3, the model has 2 layers"), "{error}");
}

#[test]
fn what_the_layout_cannot_say_is_not_written() {
    let mut adapter = Adapter::read(&golden("qwen2-all")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    adapter.layers[1].remove(&Module::Down);
    let error = write(&adapter, dir.path()).unwrap_err().to_string();
    assert!(error.contains("layer 1 has other modules than the other layers"), "{error}");
    adapter.layers.clear();
    assert!(write(&adapter, dir.path()).unwrap_err().to_string().contains("without matrices"));
}

#[test]
fn a_broken_folder_is_named() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Adapter::read(dir.path()).unwrap_err().to_string().contains(CONFIG_FILE));
    let dir = changed(|_| ());
    std::fs::write(dir.path().join(WEIGHTS_FILE), [1, 2, 3]).unwrap();
    let error = Adapter::read(dir.path()).unwrap_err().to_string();
    assert!(error.contains("is not a whole safetensors file"), "{error}");
    std::fs::write(dir.path().join(CONFIG_FILE), "{").unwrap();
    assert!(Adapter::read(dir.path()).unwrap_err().to_string().contains("is not JSON"));
}
