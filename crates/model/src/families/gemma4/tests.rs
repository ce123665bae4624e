//! Settings of Gemma 4 and gpt-oss.

use serde_json::{Value, json};

use crate::{
    Config,
    config::{Activation, LayerNorms, Scaling},
    families::from_json,
};

fn gemma4() -> Value {
    json!({
        "model_type": "gemma4_text", "vocab_size": 320, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "global_head_dim": 32,
        "hidden_size_per_layer_input": 0, "layer_types":
            ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
    })
}

fn gpt_oss() -> Value {
    json!({
        "model_type": "gpt_oss", "vocab_size": 320, "hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "num_local_experts": 8,
    })
}

fn with(mut base: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        base[key] = value.clone();
    }
    base
}

fn read(json: &Value) -> Config {
    from_json("config.json", json).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(json: &Value) -> String {
    from_json("config.json", json).map(drop).unwrap_err().to_string()
}

#[test]
fn kinds_of_layers_have_heads_of_their_own() {
    let c = read(&gemma4());
    let sliding = c.sliding.clone().unwrap();
    assert_eq!((c.full.head_dim, c.full.n_kv_heads, c.full.window), (32, 2, None));
    assert_eq!((sliding.head_dim, sliding.n_kv_heads, sliding.window), (16, 2, Some(512)));
    assert_eq!(c.full.rope.scaling, Scaling::Proportional { pairs: 4, factor: 1.0 });
    assert_eq!((c.full.rope.theta, sliding.rope.theta), (1e6, 1e4));
    assert_eq!((c.full.rotary_dim, sliding.rotary_dim), (32, 16));
    assert_eq!(c.slides, [true, false, true, false]);
    assert!(c.value_norm && c.layer_scalars && c.norms == LayerNorms::Around && !c.norm_plus_one && !c.sinks);
    assert_eq!(c.attention_scale.to_bits(), 1.0_f32.to_bits());
    // Two layers of each kind: 2 (2 heads of 32 + 2 heads of 16), keys and values.
    assert_eq!(c.cached(), 2 * 2 * (64 + 32));
}

#[test]
fn heads_of_full_layers_are_counted_apart_where_keys_are_values() {
    let heads = json!({"num_global_key_value_heads": 1});
    assert_eq!(read(&with(gemma4(), &heads)).full.n_kv_heads, 2);
    let c = read(&with(with(gemma4(), &heads), &json!({"attention_k_eq_v": true})));
    assert_eq!((c.full.n_kv_heads, c.full.values_are_keys), (1, true));
    assert!(!c.sliding.unwrap().values_are_keys);
}

#[test]
fn settings_by_layer_say_the_same() {
    let by_layer = |layers: &Value| with(gemma4(), &json!({"per_layer_config": layers}));
    let heads = json!({"head_dim": 32, "num_key_value_heads": 1});
    let c = read(&by_layer(&json!({"1": heads, "3": heads})));
    assert_eq!((c.full.head_dim, c.full.n_kv_heads), (32, 1));
    for (layers, words) in [
        (json!({"1": heads}), "gives layer 3 other heads"),
        (json!({"0": heads, "1": heads, "3": heads}), "gives layer 0 other heads"),
        (json!({"1": heads, "3": heads, "4": heads}), "has `4`, which is none of 4 layers"),
        (json!({"1": {"head_dim": "32"}}), "has `head_dim` `\"32\"`"),
        (json!({"1": {"rope": 1}}), "has `rope`"),
    ] {
        let said = refusal(&by_layer(&layers));
        assert!(said.contains("per_layer_config") && said.contains(words), "{said}");
    }
}

#[test]
fn the_last_layer_is_a_full_one() {
    let all = json!({"layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention"]});
    assert_eq!(read(&with(gemma4(), &all)).slides, [true, true, true, false]);
    let twelve = json!({"layer_types": null, "num_hidden_layers": 12});
    let slides = read(&with(gemma4(), &twelve)).slides;
    assert_eq!(slides.iter().filter(|slides| !**slides).count(), 2);
    assert!(!slides[5] && !slides[11]);
}

#[test]
fn what_is_not_computed_is_refused_by_name() {
    for (more, words) in [
        (json!({"hidden_size_per_layer_input": 256}), "hidden_size_per_layer_input` is not 0"),
        (json!({"num_kv_shared_layers": 2}), "num_kv_shared_layers` is not 0"),
        (json!({"use_bidirectional_attention": "all"}), "use_bidirectional_attention` is `all`"),
        (json!({"enable_moe_block": true}), "num_experts` is null"),
        (json!({"enable_moe_block": true, "num_experts": 4, "top_k_experts": 5}), "top_k_experts` is 5"),
        (json!({"attn_logit_softcapping": 50.0}), "attn_logit_softcapping` is `50.0`"),
        (json!({"wonder": 1}), "wonder` is `1`"),
        (
            json!({"rope_parameters": {"sliding_attention": {"rope_type": "proportional"}, "full_attention": {}}}),
            "supported for full layers only",
        ),
        (
            json!({"rope_parameters": {"sliding_attention": {"partial_rotary_factor": 0.5}, "full_attention": {}}}),
            "only 1.0 is supported",
        ),
    ] {
        let said = refusal(&with(gemma4(), &more));
        assert!(said.contains(words), "{words}: {said}");
    }
    let mut small = gemma4();
    small.as_object_mut().unwrap().remove("hidden_size_per_layer_input");
    // The class's default.
    assert!(refusal(&small).contains("E2B and E4B"));
    let assistant = json!({"model_type": "gemma4_assistant", "text_config": gemma4()});
    assert!(refusal(&assistant).contains("gemma4_assistant"));
    let unified =
        with(gemma4(), &json!({"model_type": "gemma4_unified_text", "hidden_size_per_layer_input": null}));
    assert_eq!(read(&unified).sliding.unwrap().window, Some(1024));
}

#[test]
fn experts_stand_beside_the_dense_half() {
    let moe =
        json!({"enable_moe_block": true, "num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 16});
    let experts = read(&with(gemma4(), &moe)).experts.unwrap();
    assert!(experts.beside_dense && experts.routing.expert_factors && !experts.biases);
    assert_eq!((experts.n, experts.width, experts.routing.top_k), (8, 16, 2));
}

#[test]
fn gpt_oss_has_the_settings_of_its_class() {
    let c = read(&gpt_oss());
    assert_eq!((c.window(), c.slides.clone()), (Some(128), vec![true, false, true]));
    assert!(c.sinks && c.qkv_bias && c.o_bias && !c.mlp_bias && !c.tied);
    assert_eq!(c.activation, Activation::ClampedSilu { alpha: 1.702, limit: 7.0 });
    let experts = c.experts.unwrap();
    assert!(experts.biases && experts.routing.logit_bias && !experts.beside_dense);
    assert_eq!((experts.n, experts.width, experts.routing.top_k), (8, 32, 4));
    assert!(matches!(
        c.full.rope.scaling,
        Scaling::Yarn { factor: 32.0, original: 4096.0, truncate: false, .. }
    ));
    for (more, words) in [
        (json!({"experts_per_token": 2}), "experts_per_token` is not 4"),
        (json!({"hidden_act": "gelu_pytorch_tanh"}), "is not `silu`"),
        (json!({"num_experts_per_tok": 9}), "num_experts_per_tok` is 9"),
        (json!({"quantization_config": {"quant_method": "mxfp4", "wonder": 1}}), "wonder"),
        (json!({"initial_context_length": 2048}), "initial_context_length` is 2048"),
    ] {
        let said = refusal(&with(gpt_oss(), &more));
        assert!(said.contains(words), "{words}: {said}");
    }
    read(&with(gpt_oss(), &json!({"initial_context_length": 4096, "experts_per_token": 4})));
}
