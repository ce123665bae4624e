//! Settings of published checkpoints, and settings that must be rejected.

use super::*;

/// The result of reading a `quantization_config`, or its error.
fn quantization(settings: &Value) -> Result<Quantization, String> {
    let file = json!({"quantization_config": settings});
    read("config.json", file.as_object().unwrap(), None)
        .map(Option::unwrap)
        .map_err(|error| error.to_string())
}

/// A `quantization_config` of compressed-tensors with these weights.
fn compressed(weights: &Value) -> Value {
    let group = json!({"targets": ["Linear"], "weights": weights, "input_activations": null});
    json!({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": group}})
}

#[test]
fn settings_of_quantisation_are_read() {
    let four =
        json!({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": false});
    for (settings, expected) in [
        (
            json!({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": false, "sym": true}),
            Quantization::Gptq { bits: 4, stored: 1, is_symmetric: true, skips: Vec::new() },
        ),
        (
            json!({"quant_method": "gptq", "bits": 4, "dynamic": {"-:lm_head": {}, "-:.*visual.*": {}}}),
            Quantization::Gptq {
                bits: 4,
                stored: 1,
                is_symmetric: true,
                skips: vec!["lm_head".to_owned(), ".*visual.*".to_owned()],
            },
        ),
        (
            json!({"quant_method": "gptq", "bits": 8, "sym": false, "checkpoint_format": "gptq_v2"}),
            Quantization::Gptq { bits: 8, stored: 0, is_symmetric: false, skips: Vec::new() },
        ),
        (json!({"quant_method": "awq", "bits": 4, "zero_point": true, "version": "gemm"}), Quantization::Awq),
        (
            json!({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 64], "activation_scheme": "dynamic"}),
            Quantization::Float { tile: Some([128, 64]) },
        ),
        (json!({"quant_method": "fp8", "activation_scheme": "static"}), Quantization::Float { tile: None }),
        (compressed(&four), Quantization::Compressed { bits: 4, tile: None }),
    ] {
        assert_eq!(quantization(&settings), Ok(expected), "{settings}");
    }
}

#[test]
fn settings_of_quantisation_are_refused_by_name() {
    for (settings, named) in [
        (json!({"quant_method": "gptq", "bits": 3}), "`quantization_config.bits` is neither 4 nor 8"),
        (
            json!({"quant_method": "gptq", "bits": 4, "desc_act": true}),
            "`quantization_config.desc_act` is `true`",
        ),
        (
            json!({"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*down_proj": {"bits": 8}}}),
            "`quantization_config.dynamic` has settings of `\"+:.*down_proj\"`",
        ),
        (
            json!({"quant_method": "gptq", "bits": 4, "dynamic": {"-:(": {}}}),
            "`quantization_config.dynamic` has settings of",
        ),
        (
            json!({"quant_method": "gptq", "bits": 4, "rotation": "hadamard"}),
            "`quantization_config.rotation`",
        ),
        (
            json!({"quant_method": "awq", "bits": 4, "zero_point": true, "version": "gemv"}),
            "`quantization_config.version`",
        ),
        (json!({"quant_method": "awq", "bits": 4, "zero_point": false}), "`quantization_config.zero_point`"),
        (json!({"quant_method": "fp8", "fmt": "e5m2"}), "`quantization_config.fmt`"),
        (json!({"quant_method": "fp8", "weight_block_size": [128]}), "not two sizes above 0"),
        (compressed(&json!({"num_bits": 4, "type": "float"})), "weights.num_bits` is 4, of floats"),
        (compressed(&json!({"num_bits": 8, "type": "int", "dynamic": true})), "weights.dynamic`"),
        (compressed(&Value::Null), "config_groups.group_0.weights` is not an object"),
        (
            json!({"quant_method": "compressed-tensors", "format": "marlin-24"}),
            "`quantization_config.format`",
        ),
        (
            json!({"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8}}),
            "`quantization_config.kv_cache_scheme`",
        ),
        (json!({"quant_method": "compressed-tensors"}), "has no groups"),
    ] {
        let said = quantization(&settings).unwrap_err();
        assert!(said.contains(named) && said.contains("hint: "), "{settings}: {said}");
    }
}
