//! GGUF files of hybrids: the layers with linear attention, and rejected settings of it.

use std::collections::HashMap;

use super::*;

#[test]
fn settings_of_linear_attention_that_are_not_followed_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    for (key, value, words) in [
        (
            "ssm.time_step_rank",
            size(3),
            "qwen35.ssm.time_step_rank` is 3, not a multiple of `ssm.group_count`, 2",
        ),
        ("ssm.inner_size", size(126), "qwen35.ssm.inner_size` is 126"),
        ("ssm.state_size", size(8), "key head size of its linear attention` is 8, not a multiple of 16"),
        ("ssm.conv_kernel", size(1), "size of the convolution of its linear attention` is 1"),
        ("ssm.wonder", size(1), "qwen35.ssm.wonder"),
        ("full_attention_interval", size(0), "full_attention_interval` is 0"),
        ("full_attention_interval", size(4), "layer types` end in linear attention"),
        (
            "full_attention_interval",
            size(1),
            "tensor `blk.0.ssm_conv1d.weight` is not one that the decoder reads",
        ),
    ] {
        qwen35(false).write(&path, 3, &[(key, value)]);
        let said = match Weights::open(&path) {
            Ok(weights) => Device::Cpu.load(&weights, Compute::default()).map(drop).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(said.contains(words), "{key}: {said}");
    }
}

/// The list that llama.cpp's converters write since September 2026.
#[test]
fn recurrent_layers_may_be_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let listed = |layers: &[bool]| {
        let layers = layers.iter().map(|is_recurrent| Value::Bool(*is_recurrent));
        ("attention.recurrent_layers", Value::Array(layers.collect()))
    };
    let ids: Vec<u32> = (0..40).map(|i| i * 37 % 300).collect();
    qwen35(false).write(&path, 3, &[]);
    let expected = logits(&path, &ids);
    qwen35(false).write(&path, 3, &[listed(&[true, true, false])]);
    assert_eq!(logits(&path, &ids), expected);
    for (layers, words) in [
        (
            &[true, false, false][..],
            "`qwen35.attention.recurrent_layers` contradicts `qwen35.full_attention_interval`, 3",
        ),
        (&[true, false], "is not a list of true or false for each of 3 layers"),
    ] {
        qwen35(false).write(&path, 3, &[listed(layers)]);
        let said = Weights::open(&path).map(drop).unwrap_err().to_string();
        assert!(said.contains(words), "{said}");
    }
    // No interval has full attention in the first layer and in the third.
    let source = tiny("qwen3-5");
    let mut config: serde_json::Value =
        serde_json::from_slice(&fs::read(source.join("config.json")).unwrap()).unwrap();
    config["layer_types"] = serde_json::json!(["full_attention", "linear_attention", "full_attention"]);
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let tensors = load(source.join("model.safetensors"), &Candle::Cpu).unwrap();
    let mut moved = HashMap::new();
    for (name, tensor) in tensors {
        match name.split_once(".layers.").and_then(|(_, rest)| rest.split_once('.')) {
            Some(("0", rest)) => drop(moved.insert(format!("model.layers.1.{rest}"), tensor)),
            Some(("2", rest)) => {
                moved.insert(format!("model.layers.0.{rest}"), tensor.clone());
                moved.insert(name, tensor);
            }
            Some(_) => {}
            None => drop(moved.insert(name, tensor)),
        }
    }
    candle_core::safetensors::save(&moved, folder.path().join("model.safetensors")).unwrap();
    let mut family = qwen35(false);
    family.settings.retain(|(key, _)| *key != "full_attention_interval");
    family.write_from(folder.path(), &path, 3, &[listed(&[false, true, false])]);
    for (ours, theirs) in logits(&path, &ids).iter().zip(logits(folder.path(), &ids)) {
        let worst = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst <= 1e-4, "differs by {worst}");
    }
}
