//! Configurations read from `config.json`, and names of tensors in GGUF. Golden tests check that the decoder
//! computes the same as `transformers`.

use serde_json::{Value, json};

use super::*;
use crate::config::{
    EncoderConfig, Rope, Routing, Scaling, ScoreHead, Scoring, SharedExpert, gguf::tensors::UNUSED,
};

fn ok(json: &Value) -> Config {
    from_json("config.json", json).unwrap_or_else(|error| panic!("{error}: {json}"))
}

/// Checks that a file is rejected, with each of these words in the message.
#[track_caller]
fn refused(json: &Value, words: &[&str]) {
    let error = from_json("config.json", json).map(drop).expect_err("refused").to_string();
    assert!(words.iter().all(|word| error.contains(word)), "{error}");
}

/// `base` with the keys of `more`.
fn with(base: &Value, more: Value) -> Value {
    let mut all = base.clone();
    let Value::Object(more) = more else { panic!("an object") };
    for (key, value) in more {
        all[&key] = value;
    }
    all
}

fn llama() -> Value {
    json!({"model_type": "llama", "max_position_embeddings": 512})
}

fn score_head(more: Value) -> Value {
    with(&json!({"architectures": ["LlamaForSequenceClassification"]}), more)
}

fn gemma() -> Value {
    json!({"model_type": "gemma3_text", "num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"]})
}

#[test]
fn the_table_names_the_version_that_its_script_asks_for() {
    let table: Value = serde_json::from_str(include_str!("../config/classes.json")).unwrap();
    let version = table["with"]["transformers"].as_str().unwrap();
    assert_eq!(version, "5.24.0");
    let script = include_str!("../../../../scripts/config_classes.py");
    assert!(script.contains(&format!("\"transformers=={version}\"")), "the script asks for another version");
}

#[test]
fn what_a_file_leaves_out_is_the_default_of_its_class() {
    for (model_type, sizes, theta) in [
        ("llama", [32_000, 4096, 11_008, 32, 32, 32, 128, 2048], 1e4),
        ("mistral", [32_000, 4096, 14_336, 32, 32, 8, 128, 131_072], 1e4),
        ("qwen2", [151_936, 4096, 22_016, 32, 32, 32, 128, 32_768], 1e4),
        ("qwen3", [151_936, 4096, 22_016, 32, 32, 32, 128, 32_768], 1e4),
        ("gemma3_text", [262_208, 2304, 9216, 26, 8, 4, 256, 131_072], 1e6),
    ] {
        let c = ok(&json!({"model_type": model_type}));
        let read = [
            c.vocab,
            c.hidden,
            c.intermediate,
            c.n_layers,
            c.n_heads,
            c.full.n_kv_heads,
            c.full.head_dim,
            c.context,
        ];
        assert_eq!(read, sizes, "{model_type}");
        assert_eq!((c.norm_eps, c.full.rope.theta), (1e-6, theta), "{model_type}");
        let gemma = model_type == "gemma3_text";
        assert_eq!(c.tied, gemma);
        assert_eq!(c.window(), (gemma || model_type == "mistral").then_some(4096));
        assert!(c.sliding.is_none_or(|sliding| sliding.rope.theta.total_cmp(&1e4).is_eq()));
        // 256 to the power of -1/2, or the heads' size.
        let scale = if gemma { 0.0625 } else { 128_f32.powf(-0.5) };
        assert_eq!(c.attention_scale.to_bits(), scale.to_bits());
    }
}

/// A file with all fields of its class at their defaults is a file without any.
#[test]
fn every_field_of_a_class_is_known() {
    for model_type in [
        "llama",
        "mistral",
        "qwen2",
        "qwen3",
        "qwen3_moe",
        "glm4_moe",
        "gemma2",
        "gemma3_text",
        "hunyuan_v1_dense",
        "ministral3",
        "deepseek_v2",
        "deepseek_v3",
        "glm4_moe_lite",
        "ministral",
        "mixtral",
        "smollm3",
        "olmo2",
        "olmo3",
        "granite",
        "glm4",
        "exaone4",
        "phi3",
        "apertus",
        "cohere",
        "cohere2",
        "xlm-roberta",
        "xlm-roberta-xl",
        "bert",
    ] {
        let mut all = hf::Class::of(model_type).unwrap().defaults.clone();
        all.insert("model_type".into(), model_type.into());
        // Defaults of ids belong to the tokenizer.
        all.remove("eos_token_id");
        // Defaults that are no sizes of any model.
        let head = match model_type {
            "glm4_moe" => json!({"head_dim": 128}),
            "deepseek_v2" => json!({"num_experts_per_tok": 6, "moe_intermediate_size": 1408}),
            _ => json!({"head_dim": null}),
        };
        let bare = json!({"model_type": model_type});
        assert_eq!(ok(&with(&Value::Object(all), head.clone())), ok(&with(&bare, head)), "{model_type}");
    }
}

#[test]
fn an_encoder_has_positions_behind_its_padding_token_and_no_output_matrix() {
    // As published: XLM-R large, XLM-R XL, multilingual E5 small.
    let large = json!({"model_type": "xlm-roberta", "architectures": ["XLMRobertaForMaskedLM"], "hidden_size": 1024,
        "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 24, "max_position_embeddings": 514,
        "vocab_size": 250_002, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "position_embedding_type": "absolute",
        "output_past": true});
    let c = ok(&large);
    assert_eq!((c.n_layers, c.full.head_dim, c.context, c.norms), (24, 64, 512, LayerNorms::Behind));
    assert_eq!(c.encoder, Some(EncoderConfig { first_position: 2, n_types: 1 }));
    assert_eq!((c.encoder.unwrap().padding(), c.has_gate(), c.cached()), (Some(1), false, 2 * 1024));
    let xl = ok(&json!({"model_type": "xlm-roberta-xl"}));
    assert_eq!((xl.hidden, xl.full.head_dim, xl.context, xl.norms), (2560, 80, 512, LayerNorms::Before));
    let small = json!({"model_type": "bert", "hidden_size": 384, "intermediate_size": 1536, "pad_token_id": 0,
        "num_attention_heads": 12, "vocab_size": 250_037, "pooler_type": "first_token_transform"});
    let c = ok(&small);
    assert_eq!((c.full.head_dim, c.context, c.encoder.unwrap().padding()), (32, 512, None));
    for (more, words) in [
        (json!({"hidden_act": "relu"}), &["`hidden_act`", "not `gelu`"][..]),
        (json!({"position_embedding_type": "relative_key"}), &["`position_embedding_type`", "relative_key"]),
        (json!({"is_decoder": true}), &["`is_decoder`", "is true"]),
        (json!({"add_cross_attention": true}), &["`add_cross_attention`", "is true"]),
        (json!({"rope_theta": 10000.0}), &["`rope_theta`", "not a setting of an encoder"]),
        (json!({"max_position_embeddings": 2}), &["`max_position_embeddings`", "the first 2 positions"]),
        (json!({"num_attention_heads": 7}), &["`num_attention_heads`", "does not divide 1024"]),
        (json!({"shiny": 1}), &["`shiny`", "not known"]),
        (
            json!({"architectures": ["XLMRobertaForSequenceClassification"]}),
            &["`architectures`", "a classifier"],
        ),
        (json!({"architectures": ["XLMRobertaForTokenClassification"]}), &["`architectures`", "head is not"]),
    ] {
        refused(&with(&large, more), words);
    }
}

#[test]
fn a_nested_file_has_the_defaults_of_its_text_class() {
    let text = json!({"hidden_size": 2560, "intermediate_size": 10_240, "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024});
    let file =
        json!({"model_type": "gemma3", "text_config": text, "eos_token_id": [1, 106], "vision_config": {}});
    let c = ok(&file);
    assert_eq!(
        (c.n_heads, c.full.n_kv_heads, c.full.head_dim, c.context, c.vocab),
        (8, 4, 256, 131_072, 262_208)
    );
    assert_eq!((c.full.rope.theta, c.full.rope.scaling.clone()), (1e6, Scaling::Linear(8.0)));
    assert_eq!((c.tied, c.window(), c.stop_ids.clone()), (true, Some(1024), vec![1, 106]));
    assert_eq!(c.slides[..6], [true, true, true, true, true, false]);
    // `Mistral3Config` ties by its own default, `VoxtralConfig` has none.
    for (wrapper, text, tied) in [("mistral3", "mistral", true), ("voxtral", "llama", false)] {
        let c = ok(&json!({"model_type": wrapper, "text_config": {}}));
        let of_text = ok(&json!({"model_type": text}));
        assert_eq!(c, Config { tied, ..of_text });
    }
    // A text-only file that keeps the multimodal model's name.
    assert_eq!(ok(&json!({"model_type": "gemma3"})), ok(&json!({"model_type": "gemma3_text"})));
    refused(&with(&file, json!({"rope_theta": 5.0})), &["`rope_theta`", "beside `text_config`"]);
    assert_eq!(ok(&with(&file, json!({"hidden_size": 2560, "mm_tokens_per_image": 256}))), c);
}

#[test]
fn a_rope_is_the_same_wherever_it_stands() {
    let scaling = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64});
    let whole = with(&scaling, json!({"rope_theta": 5e5}));
    let expected = ok(&with(&llama(), json!({"rope_theta": 5e5, "rope_scaling": scaling})));
    assert_eq!(
        (expected.full.rope.theta, expected.full.rope.scaling.clone()),
        (5e5, Scaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 64.0 })
    );
    for rope in [
        json!({"rope_scaling": whole}),
        json!({"rope_parameters": whole}),
        json!({"rope_parameters": whole, "rope_scaling": null, "rope_theta": null}),
        json!({"rope_scaling": whole, "rope_parameters": null}),
        json!({"rope_theta": 500_000, "rope_scaling": scaling, "rope_parameters": whole}),
        json!({"rope_parameters": {"full_attention": whole}}),
        json!({"rope_scaling": {"full_attention": whole, "sliding_attention": null}}),
    ] {
        assert_eq!(ok(&with(&llama(), rope.clone())), expected, "{rope}");
    }
    let top = with(&llama(), json!({"original_max_position_embeddings": 64, "rope_theta": 5e5}));
    let mut without = scaling.clone();
    without.as_object_mut().unwrap().remove("original_max_position_embeddings");
    assert_eq!(ok(&with(&top, json!({"rope_scaling": without}))), expected);
}

#[test]
fn sliding_layers_have_a_rope_of_their_own() {
    let full = json!({"rope_type": "linear", "factor": 8.0, "rope_theta": 2e6});
    let scaling = json!({"rope_type": "linear", "factor": 8});
    let old = json!({"rope_theta": 2e6, "rope_local_base_freq": 2e4, "rope_scaling": scaling});
    let expected = ok(&with(&gemma(), old));
    assert_eq!(
        expected.sliding.clone().map(|sliding| sliding.rope),
        Some(Rope { theta: 2e4, scaling: Scaling::None })
    );
    for rope in [
        json!({"rope_parameters": {"full_attention": full, "sliding_attention": {"rope_theta": 2e4}}}),
        json!({"rope_parameters": {"full_attention": full}, "rope_local_base_freq": 2e4}),
        json!({"rope_parameters": {"full_attention": full, "sliding_attention": null}, "rope_local_base_freq": 2e4}),
    ] {
        assert_eq!(ok(&with(&gemma(), rope.clone())), expected, "{rope}");
    }
    let local = json!({"rope_parameters": {"sliding_attention": {"type": "linear", "factor": 2.0, "rope_theta": 3e4}}});
    let c = ok(&with(&gemma(), local));
    assert_eq!(
        c.sliding.map(|sliding| sliding.rope),
        Some(Rope { theta: 3e4, scaling: Scaling::Linear(2.0) })
    );
    assert_eq!(c.full.rope, Rope { theta: 1e6, scaling: Scaling::None });
    // Its class reads `rope_parameters` by layer type only.
    let flat = |theta: f64| {
        with(&gemma(), json!({"rope_parameters": {"rope_theta": theta, "rope_type": "default"}}))
    };
    assert_eq!(ok(&flat(1e6)), ok(&gemma()));
    refused(&flat(2e6), &["`rope_parameters.rope_theta`", "`full_attention`"]);
}

#[test]
fn ropes_that_contradict_each_other_are_refused_by_name() {
    for (rope, words) in [
        (
            json!({"rope_theta": 1e4, "rope_parameters": {"rope_theta": 5e5}}),
            ["`rope_parameters.rope_theta` is `500000.0`", "`rope_theta` is `10000.0`"],
        ),
        (
            json!({"rope_scaling": {"type": "linear", "factor": 2}, "rope_parameters": {"rope_type": "default"}}),
            ["`rope_parameters.rope_type` is `\"default\"`", "`rope_scaling.type` is `\"linear\"`"],
        ),
        (
            json!({"rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 2}}),
            ["`rope_scaling.type`", "`rope_scaling.rope_type`"],
        ),
        (
            json!({"original_max_position_embeddings": 32,
                "rope_scaling": {"type": "yarn", "factor": 2, "original_max_position_embeddings": 64}}),
            ["`rope_scaling.original_max_position_embeddings` is `64`", "is `32`"],
        ),
        (
            json!({"rope_parameters": {"full_attention": {"rope_theta": 1e4},
                "sliding_attention": {"rope_theta": 1e5}}}),
            ["`rope_parameters.sliding_attention.rope_theta`", "`rope_parameters.full_attention.rope_theta`"],
        ),
    ] {
        refused(&with(&llama(), rope), &words);
    }
}

#[test]
fn every_number_of_yarn_is_obeyed() {
    let yarn = |more: Value| {
        let rope = json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32});
        match ok(&with(&llama(), json!({"rope_scaling": with(&rope, more)}))).full.rope.scaling {
            Scaling::Yarn { factor, beta_fast, beta_slow, attention, truncate, .. } => {
                (factor, beta_fast, beta_slow, attention, truncate)
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(yarn(json!({})), (4.0, 32.0, 1.0, None, true));
    assert_eq!(yarn(json!({"beta_fast": 16, "beta_slow": 2.5})), (4.0, 16.0, 2.5, None, true));
    assert_eq!(yarn(json!({"attention_factor": 0.5, "truncate": false})), (4.0, 32.0, 1.0, Some(0.5), false));
    // 0.1 x 1 x ln(4) + 1 over 0.1 x 2 x ln(4) + 1.
    let (.., attention, _) = yarn(json!({"mscale": 1.0, "mscale_all_dim": 2.0}));
    assert!((attention.unwrap() - 1.138_629_436 / 1.277_258_872).abs() < 1e-9);
    assert_eq!(yarn(json!({"mscale": 1.0})).3, None);
    // 512 positions over 32.
    assert_eq!(yarn(json!({"factor": null})), (16.0, 32.0, 1.0, None, true));
}

#[test]
fn a_setting_that_is_not_obeyed_is_refused_by_name() {
    for (file, more, word) in [
        (llama(), json!({"hidden_act": "gelu"}), "`hidden_act` is `gelu`"),
        (llama(), json!({"hidden_act": null}), "`hidden_act` is null"),
        (llama(), json!({"hidden_activation": "gelu_new"}), "`hidden_activation` contradicts"),
        (gemma(), json!({"hidden_activation": "relu"}), "`hidden_activation` is `relu`"),
        (gemma(), json!({"hidden_act": "silu"}), "`hidden_act` contradicts"),
        (gemma(), json!({"final_logit_softcapping": 30.0}), "`final_logit_softcapping` is `30.0`"),
        (gemma(), json!({"attn_logit_softcapping": 50}), "`attn_logit_softcapping` is `50`"),
        (gemma(), json!({"use_bidirectional_attention": true}), "`use_bidirectional_attention`"),
        (llama(), json!({"final_logit_softcapping": 30.0}), "`final_logit_softcapping`"),
        (llama(), json!({"query_pre_attn_scalar": 64}), "`query_pre_attn_scalar`"),
        (llama(), json!({"embedding_multiplier": 12.0}), "`embedding_multiplier` is `12.0`"),
        (llama(), json!({"attention_multiplier": 0.02}), "`attention_multiplier`"),
        (llama(), json!({"residual_multiplier": 0.22}), "`residual_multiplier`"),
        (llama(), json!({"logits_scaling": 8.0}), "`logits_scaling`"),
        (llama(), json!({"partial_rotary_factor": 0.5}), "`partial_rotary_factor` is `0.5`"),
        (
            llama(),
            json!({"rope_scaling": {"partial_rotary_factor": 0.5}}),
            "`rope_scaling.partial_rotary_factor`",
        ),
        (llama(), json!({"rope_scaling": {"type": "su", "factor": 2}}), "`rope_scaling.type` is `\"su\"`"),
        (llama(), json!({"rope_scaling": {"type": "yarn"}}), "needs `factor`"),
        (
            llama(),
            json!({"rope_scaling": {"type": "linear", "factor": 2, "beta_fast": 3}}),
            "`rope_scaling.beta_fast`",
        ),
        (
            llama(),
            json!({"rope_scaling": {"type": "yarn", "factor": 2, "attn_factor": 3}}),
            "`rope_scaling.attn_factor`",
        ),
        (llama(), json!({"rope_scaling": {"factor": 2}}), "`rope_scaling.factor` is `2`"),
        (llama(), json!({"sliding_window": 64}), "`sliding_window` is `64`"),
        (llama(), json!({"num_experts": 8}), "`num_experts` is `8`, a setting that is not known"),
        (llama(), json!({"architectures": ["LlamaForTokenClassification"]}), "`architectures`"),
        (llama(), score_head(json!({"num_labels": 0})), "`num_labels` is 0"),
        (
            llama(),
            score_head(json!({"num_labels": 2, "id2label": {"0": "bad"}})),
            "`num_labels` is 2, but `id2label` has 1 entries",
        ),
        (json!({"model_type": "mistral"}), json!({"attention_bias": true}), "`attention_bias`"),
    ] {
        refused(&with(&file, more), &[word]);
    }
}

#[test]
fn a_score_head_has_an_output_for_each_label() {
    for (more, n_outputs, padding) in [
        (json!({}), 2, None),
        (json!({"num_labels": 1, "pad_token_id": 7}), 1, Some(7)),
        (json!({"id2label": {"0": "a", "1": "b", "2": "c"}}), 3, None),
        (json!({"architectures": ["LlamaForRewardModel"], "num_labels": 1}), 1, None),
    ] {
        let config = from_json("c", &with(&llama(), score_head(more))).unwrap();
        assert_eq!(config.score_head, Some(ScoreHead { n_outputs, padding }));
        assert!(!config.tied);
    }
    let gemma = json!({"model_type": "gemma2", "architectures": ["Gemma2ForSequenceClassification"]});
    let padding = Some(0);
    assert_eq!(from_json("c", &gemma).unwrap().score_head, Some(ScoreHead { n_outputs: 2, padding }));
    assert_eq!(from_json("c", &llama()).unwrap().score_head, None);
    refused(
        &json!({"model_type": "bert", "architectures": ["BertForSequenceClassification"]}),
        &["a classifier on an encoder"],
    );
}

#[test]
fn layers_that_the_class_does_not_have_are_refused_by_name() {
    for (file, more, word) in [
        (json!({"model_type": "mistral"}), json!({"sliding_window": 0}), "`sliding_window` is 0"),
        (
            json!({"model_type": "mistral", "num_hidden_layers": 2}),
            json!({"layer_types": ["full_attention", "sliding_attention"]}),
            "`layer_types` differs",
        ),
        (
            json!({"model_type": "qwen2", "num_hidden_layers": 1}),
            json!({"layer_types": ["sliding_attention"]}),
            "no `sliding_window` is in force",
        ),
        (gemma(), json!({"layer_types": ["full_attention"]}), "has 1 entries"),
        (gemma(), json!({"layer_types": ["full_attention", "chunked_attention"]}), "`\"chunked_attention\"`"),
        (
            json!({"model_type": "gemma3_text"}),
            json!({"_sliding_window_pattern": 2}),
            "`_sliding_window_pattern` is not 6",
        ),
    ] {
        refused(&with(&file, more), &[word]);
    }
}

#[test]
fn a_value_of_another_type_is_refused_and_never_passed_over() {
    for (key, value) in [
        ("hidden_size", json!("4096")),
        ("hidden_size", json!(4096.0)),
        ("vocab_size", json!(-1)),
        ("num_key_value_heads", json!("8")),
        ("head_dim", json!("128")),
        ("max_position_embeddings", json!("1e5")),
        ("rms_norm_eps", json!("1e-6")),
        ("rms_norm_eps", json!(null)),
        ("rope_theta", json!("1e6")),
        ("rope_theta", json!(-1e6)),
        ("rope_scaling", json!("yarn")),
        ("tie_word_embeddings", json!("true")),
        ("attention_bias", json!(1)),
        ("hidden_act", json!(1)),
        ("eos_token_id", json!("2")),
        ("eos_token_id", json!([1, -1])),
    ] {
        refused(&with(&llama(), json!({key: value})), &[&format!("`{key}`")]);
    }
    let rope = json!({"rope_scaling": {"rope_type": "linear", "factor": "8"}});
    refused(&with(&llama(), rope), &["`rope_scaling.factor` is `\"8\"`, not a number above 0"]);
    let switch = json!({"rope_scaling": {"rope_type": "yarn", "factor": 2, "truncate": "false"}});
    refused(&with(&llama(), switch), &["`rope_scaling.truncate`"]);
    refused(&json!(["llama"]), &["is not a JSON object"]);
}

#[test]
fn quantised_formats_are_refused_by_name() {
    for method in ["bitsandbytes", "nvfp4", "hqq", "aqlm"] {
        let file = with(&llama(), json!({"quantization_config": {"quant_method": method}}));
        refused(&file, &["`quantization_config`", &format!("`{method}`"), "bf16", "GGUF"]);
    }
    let nested =
        json!({"model_type": "gemma3", "text_config": {"quantization_config": {"quant_method": "hqq"}}});
    refused(&nested, &["`text_config.quantization_config`", "`hqq`"]);
    let nested = json!({"model_type": "gemma3", "text_config": {}});
    let beside = with(&nested, json!({"quantization_config": {"quant_method": "awq", "bits": 4}}));
    assert_eq!(ok(&beside), ok(&nested));
    refused(&with(&llama(), json!({"quantization": {"bits": 4}})), &["`quantization`", "GGUF"]);
    assert_eq!(ok(&with(&llama(), json!({"quantization_config": null}))), ok(&llama()));
}

/// Keys of published files that do not affect the computation.
#[test]
fn harmless_keys_change_nothing() {
    let harmless = json!({
        "_attn_implementation_autoset": true, "_name_or_path": "a/b", "architectures": ["LlamaForCausalLM"],
        "attention_dropout": 0.1, "bos_token_id": 1, "is_llama_config": true, "pad_token_id": -1, "pretraining_tp": 2,
        "rope_interleaved": false, "torch_dtype": "bfloat16", "dtype": "bfloat16", "transformers.js_config": {"a": 1},
        "transformers_version": "4.47.1", "unsloth_fixed": true, "use_cache": false, "use_mrope": false,
        "max_window_layers": 21, "use_sliding_window": false, "mlp_bias": false, "attention_bias": false, "top_p": 0.9,
        "partial_rotary_factor": 1.0, "logits_scaling": 1, "final_logit_softcapping": null, "some_key": null,
        "id2label": {"0": "a"}, "output_attentions": false, "pruned_heads": {}, "tie_encoder_decoder": false,
        "rope_scaling": {"rope_type": "default", "factor": 1.0}, "head_dim": 128, "num_key_value_heads": null,
    });
    assert_eq!(ok(&with(&llama(), harmless)), ok(&llama()));
}

#[test]
fn layers_are_as_the_class_lays_them_out() {
    let qwen = json!({"model_type": "qwen2", "num_hidden_layers": 3, "use_sliding_window": true, "sliding_window": 8});
    assert_eq!(ok(&qwen).slides, [false; 3], "`max_window_layers` is 28 by default");
    assert_eq!(ok(&with(&qwen, json!({"max_window_layers": 1}))).slides, [false, true, true]);
    let types = json!({"layer_types": ["sliding_attention", "attention", "full_attention"]});
    assert_eq!(ok(&with(&qwen, types)).slides, [true, false, false]);
    let mistral = json!({"model_type": "mistral", "num_hidden_layers": 2});
    assert_eq!(ok(&mistral).slides, [true; 2]);
    let none = ok(&with(
        &mistral,
        json!({"sliding_window": null, "layer_types": ["full_attention", "full_attention"]}),
    ));
    assert_eq!((none.window(), none.slides), (None, vec![false; 2]));
}

#[test]
fn a_dynamic_rope_ends_with_the_model() {
    let c = ok(&with(&llama(), json!({"rope_scaling": {"type": "dynamic", "factor": 2}})));
    assert_eq!(c.full.rope.frequencies(128), ok(&llama()).full.rope.frequencies(128));
    assert!(c.check_context("config.json", 512).is_ok());
    let error = c.check_context("config.json", 513).unwrap_err().to_string();
    assert!(error.contains("`dynamic`") && error.contains("`--context 512`"), "{error}");
    assert!(ok(&llama()).check_context("config.json", 4096).is_ok());
}

#[test]
fn experts_are_those_of_published_files() {
    // Qwen3-30B-A3B-Instruct-2507.
    let qwen = json!({"model_type": "qwen3_moe", "decoder_sparse_step": 1, "head_dim": 128, "hidden_size": 2048,
        "intermediate_size": 6144, "max_window_layers": 48, "mlp_only_layers": [], "moe_intermediate_size": 768,
        "norm_topk_prob": true, "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8,
        "num_hidden_layers": 48, "num_key_value_heads": 4, "rope_theta": 1e7, "router_aux_loss_coef": 0.001,
        "output_router_logits": false, "sliding_window": null, "use_sliding_window": false});
    let experts = ok(&qwen).experts.unwrap();
    assert_eq!((experts.n, experts.width, experts.shared), (128, 768, None));
    assert_eq!(experts.routing, Routing::softmax(8, true));
    assert_eq!(experts.layers, [true; 48]);
    let some = ok(&with(&qwen, json!({"decoder_sparse_step": 2, "mlp_only_layers": [3]}))).experts.unwrap();
    assert_eq!(some.layers[..6], [false, true, false, false, false, true]);
    // GLM-4.5-Air.
    let glm = json!({"model_type": "glm4_moe", "attention_bias": true, "head_dim": 128, "hidden_size": 4096,
        "partial_rotary_factor": 0.5, "intermediate_size": 10944, "moe_intermediate_size": 1408,
        "norm_topk_prob": true, "num_attention_heads": 96, "n_group": 1, "topk_group": 1, "n_routed_experts": 128,
        "n_shared_experts": 1, "routed_scaling_factor": 1.0, "num_experts_per_tok": 8, "first_k_dense_replace": 1,
        "num_hidden_layers": 46, "num_key_value_heads": 8, "num_nextn_predict_layers": 1, "use_qk_norm": false});
    let c = ok(&glm);
    assert_eq!((c.full.rotary_dim, c.qk_norm, c.qkv_bias, c.o_bias), (64, QkNorm::None, true, false));
    let experts = c.experts.unwrap();
    let shared = SharedExpert { width: 1408, is_gated: false };
    assert_eq!((experts.n, experts.width, experts.shared), (128, 1408, Some(shared)));
    assert_eq!((experts.layers[0], experts.layers[1], experts.layers.len()), (false, true, 46));
    let plain = Routing::softmax(8, true);
    let routing = Routing { scoring: Scoring::Sigmoid, has_bias: true, normalised: Some(1e-20), ..plain };
    assert_eq!(experts.routing, routing);
    refused(&with(&glm, json!({"partial_rotary_factor": 1.5})), &["`partial_rotary_factor` is `1.5`"]);
    refused(&with(&qwen, json!({"partial_rotary_factor": 0.5})), &["`partial_rotary_factor`", "only 1.0"]);
    refused(&with(&glm, json!({"topk_group": 2})), &["number of groups of experts for a token"]);
}

#[test]
fn attention_of_small_families_is_read() {
    let gemma = ok(
        &json!({"model_type": "gemma2", "hidden_act": "gelu_pytorch_tanh", "cache_implementation": "hybrid"}),
    );
    assert_eq!(
        (gemma.score_softcap, gemma.logit_softcap, gemma.window()),
        (Some(50.0), Some(30.0), Some(4096))
    );
    assert_eq!(gemma.slides[..3], [true, false, true]);
    let uncapped = json!({"model_type": "gemma2", "attn_logit_softcapping": null});
    assert_eq!(ok(&uncapped).score_softcap, None);
    refused(
        &json!({"model_type": "gemma3_text", "attn_logit_softcapping": 50.0}),
        &["attn_logit_softcapping"],
    );
    let scaling = json!({"type": "dynamic", "alpha": 1000.0, "factor": 1.0, "beta_fast": 32, "mscale": 1.0});
    let hunyuan = json!({"model_type": "hunyuan_v1_dense", "rope_scaling": scaling, "use_cla": false});
    assert_eq!(ok(&hunyuan).full.rope.scaling, Scaling::NtkAlpha(1000.0));
    assert!(ok(&hunyuan).norm_after_rotation);
    refused(&with(&hunyuan, json!({"use_cla": true})), &["`use_cla` is `true`"]);
    refused(&with(&llama(), json!({"rope_scaling": scaling})), &["rope_scaling.alpha"]);
    let ministral = ok(&json!({"model_type": "ministral3"}));
    let grown = ministral.query_growth.unwrap().at(3 * 16384);
    assert!((f64::from(grown) - (1.0 + 0.1 * 4_f64.ln())).abs() < 1e-6, "{grown}");
    assert_eq!(ministral.query_growth.unwrap().at(16383).to_bits(), 1_f32.to_bits());
    let without = json!({"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 16384});
    refused(
        &json!({"model_type": "ministral3", "rope_parameters": without}),
        &["llama_4_scaling_beta", "which is missing"],
    );
}

/// Sizes and settings of Qwen3.8 27B; all others are the defaults of its class.
#[test]
fn a_hybrid_is_read_with_the_settings_of_published_files() {
    let text = json!({"model_type": "qwen3_5_text", "hidden_size": 5120, "intermediate_size": 17_408,
        "num_hidden_layers": 64, "num_attention_heads": 24, "linear_num_value_heads": 48, "full_attention_interval": 4,
        "attn_output_gate": true, "mamba_ssm_dtype": "float32", "output_gate_type": "swish", "mlp_only_layers": [],
        "max_position_embeddings": 262_144, "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": false,
        "partial_rotary_factor": 0.25, "rope_parameters": {"mrope_interleaved": true, "mrope_section": [11, 11, 10],
        "partial_rotary_factor": 0.25, "rope_theta": 1e7, "rope_type": "default"}});
    let nested = |t: &Value| json!({"model_type": "qwen3_5", "text_config": t, "language_model_only": false});
    let c = ok(&nested(&text));
    assert_eq!((c.full.rotary_dim, c.full.rope.theta, c.n_attention_layers()), (64, 1e7, 16));
    // 48 layers, each with 48 matrices of 128 x 128 and three inputs of 10,240 channels.
    assert_eq!(c.state_bytes(), 48 * (48 * 128 * 128 + 3 * 10_240) * 4);
    for (key, value, shown) in [
        ("output_gate_type", json!("sigmoid"), "sigmoid"),
        ("mamba_ssm_dtype", json!("bfloat16"), "bfloat16"),
        ("attn_output_gate", json!(false), "only `true`"),
        ("mlp_only_layers", json!([1]), "only `[]`"),
        ("num_local_experts", json!(64), "not known"),
        ("linear_num_value_heads", json!(24), "not a multiple of `linear_num_key_heads`, 16"),
        ("layer_types", json!(vec!["sliding_attention"; 64]), "`linear_attention` are known"),
    ] {
        refused(&nested(&with(&text, json!({ key: value }))), &[&format!("`text_config.{key}`"), shown]);
    }
    refused(&nested(&with(&text, json!({"full_attention_interval": 5}))), &["end in linear attention"]);
}

#[test]
fn each_family_has_its_own_tensors() {
    let schema = |architecture| {
        let mut schemas = FAMILIES.iter().filter_map(|family| family.gguf.as_ref());
        schemas.find(|schema| schema.architecture == architecture).unwrap()
    };
    let read = |architecture, name| schema(architecture).tensor_name(name).unwrap();
    assert_eq!(read("llama", "blk.3.attn_q.bias"), "model.layers.3.self_attn.q_proj.bias");
    assert_eq!(read("qwen2", "blk.0.ffn_norm.weight"), "model.layers.0.post_attention_layernorm.weight");
    assert_eq!(read("gemma3", "blk.0.ffn_norm.weight"), "model.layers.0.pre_feedforward_layernorm.weight");
    assert_eq!(read("qwen3moe", "blk.1.ffn_gate_exps.weight"), "model.layers.1.mlp.experts.gate_proj.weight");
    assert_eq!(read("qwen3", "blk.0.attn_k_norm.weight"), "model.layers.0.self_attn.k_norm.weight");
    assert_eq!(read("llama", "blk.0.attn_rot_embd.inv_freq"), UNUSED);
    assert_eq!(read("gemma3", "v.blk.0.attn_q.weight"), UNUSED);
    for (arch, name) in [
        ("llama", "blk.0.attn_q_norm.weight"),
        ("llama", "blk.0.post_attention_norm.weight"),
        ("qwen2", "blk.0.ffn_gate_exps.weight"),
        ("qwen2", "blk.0.ffn_gate_inp.weight"),
        ("llama", "blk.0.attn_qkv.weight"),
        ("llama", "blk.0.attn_q.scale"),
        ("qwen2", "blk.0.attn_norm.bias"),
        ("qwen2", "blk.x.attn_norm.weight"),
        ("qwen2", "cls.output.weight"),
        ("gemma3", "rope_freqs.weight"),
    ] {
        assert_eq!(schema(arch).tensor_name(name), None, "{arch} {name}");
    }
}

/// Sizes and settings of published files, from DeepSeek-V2-Lite to Kimi-K2.
#[test]
fn latent_attention_is_read_with_the_settings_of_published_files() {
    let rope = |scale: f64| {
        json!({"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": scale, "mscale_all_dim": scale,
            "original_max_position_embeddings": 4096})
    };
    let lite = json!({"model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 27, "num_attention_heads": 16,
        "num_key_value_heads": 16, "q_lora_rank": null, "kv_lora_rank": 512, "num_experts_per_tok": 6,
        "first_k_dense_replace": 1, "moe_intermediate_size": 1408, "rope_scaling": rope(0.707), "seq_aux": true,
        "scoring_func": "softmax", "aux_loss_alpha": 0.001, "moe_layer_freq": 1, "n_group": 1, "topk_group": 1});
    let c = ok(&lite);
    assert_eq!(
        (c.cached(), c.full.head_dim, c.full.query_dim(), c.full.output_dim()),
        (27 * 576, 576, 192, 128)
    );
    let magnitude = 0.1 * 0.707 * 40_f64.ln() + 1.0;
    assert_eq!(c.attention_scale.to_bits(), ((192_f64.powf(-0.5) * magnitude * magnitude) as f32).to_bits());
    assert_eq!(c.full.rope.frequencies(64).1.to_bits(), 1_f32.to_bits());
    let experts = c.experts.unwrap();
    assert_eq!((experts.layers[..2].to_vec(), experts.shared.unwrap().width), (vec![false, true], 2816));
    assert_eq!(experts.routing, Routing { best_of_group: 1, ..Routing::softmax(6, false) });
    let grouped = json!({"topk_method": "group_limited_greedy", "n_group": 8, "topk_group": 3});
    assert_eq!(ok(&with(&lite, grouped)).experts.unwrap().routing.top_groups, 3);
    let v3 = json!({"model_type": "deepseek_v3", "rope_scaling": rope(1.0), "scoring_func": "sigmoid", "ep_size": 1,
        "topk_method": "noaux_tc", "num_nextn_predict_layers": 1, "quantization_config": {"quant_method": "fp8",
        "fmt": "e4m3", "activation_scheme": "dynamic", "scale_fmt": "ue8m0", "weight_block_size": [128, 128]}});
    let c = ok(&v3);
    let latent = c.full.latent.clone().unwrap();
    assert_eq!((c.cached(), latent.query_rank, latent.is_interleaved), (61 * 576, Some(1536), true));
    assert_eq!(c.experts.unwrap().routing.best_of_group, 2);
    let kimi = json!({"model_type": "kimi_k2", "n_routed_experts": 384, "n_group": 1, "topk_group": 1,
        "num_attention_heads": 64, "num_key_value_heads": 64, "first_k_dense_replace": 1});
    assert_eq!(ok(&kimi).experts.unwrap().n, 384);
    let flash =
        ok(&json!({"model_type": "glm4_moe_lite", "topk_method": "noaux_tc", "first_k_dense_replace": 1}));
    assert_eq!((flash.cached(), flash.full.query_dim(), flash.full.output_dim()), (47 * 576, 256, 256));
    for (file, more, words) in [
        (&lite, json!({"norm_topk_prob": true}), ["`norm_topk_prob`", "only `false`"]),
        (&lite, json!({"topk_method": "noaux_tc"}), ["`topk_method`", "group_limited_greedy"]),
        (&lite, json!({"scoring_func": "sigmoid"}), ["`scoring_func`", "only `\"softmax\"`"]),
        (&lite, json!({"num_key_value_heads": 4}), ["`num_key_value_heads` is 4", "give 16"]),
        (&lite, json!({"head_dim": 128}), ["`head_dim` is 128", "give 64"]),
        (&lite, json!({"kv_lora_rank": 500}), ["rank of keys and values` is 500", "multiple of 16"]),
        (&v3, json!({"moe_layer_freq": 2}), ["`moe_layer_freq`", "only `1`"]),
        (&v3, json!({"model_type": "deepseek_v32"}), ["`deepseek_v32`", "sparse"]),
        (&v3, json!({"model_type": "glm_moe_dsa"}), ["`glm_moe_dsa`", "sparse"]),
    ] {
        refused(&with(file, more), &words);
    }
}

#[test]
fn llama_like_families_have_the_settings_of_published_files() {
    // EuroLLM-9B-Instruct is a llama.
    let euro = json!({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "attention_bias": false,
        "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 4, "head_dim": 128, "hidden_act": "silu",
        "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 12288, "max_position_embeddings": 4096,
        "mlp_bias": false, "num_attention_heads": 32, "num_hidden_layers": 42, "num_key_value_heads": 8,
        "pretraining_tp": 1, "rms_norm_eps": 1e-5, "rope_scaling": null, "rope_theta": 10000.0,
        "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": false, "vocab_size": 128_000});
    let c = ok(&euro);
    assert_eq!((c.n_layers, c.full.n_kv_heads, c.context, c.norms), (42, 8, 4096, LayerNorms::Before));
    // SmolLM3: each fourth layer without a rope, by default and as listed.
    let smol = json!({"model_type": "smollm3", "num_hidden_layers": 8, "no_rope_layer_interval": 4,
        "use_sliding_window": false, "sliding_window": null, "max_window_layers": 28, "mlp_bias": false});
    let c = ok(&smol);
    let period = [false, false, false, true];
    assert_eq!((c.slides.clone(), c.window()), ([period, period].concat(), None));
    let unrotated = &c.sliding.as_ref().unwrap().rope;
    assert_eq!(unrotated.frequencies(128), (vec![0.0; 64], 1.0));
    assert_eq!(ok(&with(&smol, json!({"no_rope_layers": [1, 1, 1, 0, 1, 1, 1, 0]}))), c);
    refused(&with(&smol, json!({"no_rope_layers": [1, 1, 1]})), &["`no_rope_layers` is not a list"]);
    let slides = json!({"use_sliding_window": true, "sliding_window": 64, "layer_types": vec!["sliding_attention"; 8]});
    refused(&with(&smol, slides), &["`layer_types`", "`no_rope_layers`"]);
    // OLMo 3: only full layers have YaRN.
    let olmo =
        ok(&json!({"model_type": "olmo3", "num_hidden_layers": 4, "rope_scaling": {"rope_type": "yarn",
        "factor": 8.0, "original_max_position_embeddings": 8192}}));
    assert_eq!((olmo.norms, olmo.qk_norm), (LayerNorms::Behind, QkNorm::Projection));
    assert_eq!(
        (olmo.slides, olmo.sliding.unwrap().rope.scaling),
        (vec![true, true, true, false], Scaling::None)
    );
    assert!(matches!(olmo.full.rope.scaling, Scaling::Yarn { .. }));
    // Granite 3.3 2B: a factor r on outputs is the stream over r.
    let granite =
        ok(&json!({"model_type": "granite", "attention_multiplier": 0.015_625, "rms_norm_eps": 1e-5,
        "embedding_multiplier": 12.0, "residual_multiplier": 0.5, "logits_scaling": 8.0}));
    assert_eq!((granite.embedding_scale, granite.logit_scale), (Some(24.0), Some(0.125)));
    assert!((granite.norm_eps - 4e-5).abs() < 1e-12);
    // Without a window all layers of EXAONE 4 rotate (1.2B), with one only those that slide (32B).
    let exaone = json!({"model_type": "exaone4", "num_hidden_layers": 4, "sliding_window_pattern": "LLLG",
        "sliding_window": null, "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"]});
    assert_eq!(ok(&exaone).full.rope.scaling, Scaling::None);
    let types = ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"];
    let slides = ok(&with(&exaone, json!({"sliding_window": 4096, "layer_types": types})));
    assert_eq!((slides.full.rope.scaling.clone(), slides.window()), (Scaling::Unrotated, Some(4096)));
    // Aya Expanse 8B and Command A.
    let aya = ok(&json!({"model_type": "cohere", "hidden_size": 4096, "num_attention_heads": 32,
        "num_key_value_heads": 8, "logit_scale": 0.125, "use_qk_norm": false, "layer_norm_eps": 1e-5}));
    assert!(aya.norm_centred && aya.neighbours_rotate && aya.tied && aya.qk_norm == QkNorm::None);
    let command = json!({"model_type": "cohere2", "num_hidden_layers": 8, "hidden_size": 12288, "head_dim": 128,
        "num_attention_heads": 96, "num_key_value_heads": 8, "order_of_interleaved_layers": "local_attn_first",
        "position_embedding_type": "rope_gptj", "rotary_pct": 1.0, "sliding_window": 4096, "layer_switch": 4,
        "sliding_window_pattern": 4, "use_embedding_sharing": true, "use_gated_activation": true,
        "use_parallel_block": true, "use_parallel_embedding": true, "use_qk_norm": false, "logit_scale": 0.25,
        "cache_implementation": "hybrid", "rope_theta": 50000, "rope_scaling": null});
    let c = ok(&command);
    assert_eq!(c.slides, [true, true, true, false, true, true, true, false]);
    assert_eq!((c.full.rope.scaling.clone(), c.logit_scale), (Scaling::Unrotated, Some(0.25)));
    refused(&with(&command, json!({"use_parallel_block": false})), &["`use_parallel_block` is `false`"]);
}

#[test]
fn a_long_rope_ends_with_the_positions_of_pretraining() {
    let long = json!({"type": "longrope", "short_factor": vec![1.5; 48], "long_factor": vec![9.0; 48]});
    let phi = json!({"model_type": "phi3", "max_position_embeddings": 131_072, "partial_rotary_factor": 0.75,
        "original_max_position_embeddings": 4096, "num_attention_heads": 24, "rope_scaling": long});
    let c = ok(&phi);
    assert_eq!((c.context, c.full.rotary_dim), (4096, 96));
    let (frequencies, scale) = c.full.rope.frequencies(96);
    assert!((frequencies[0] - 1.0 / 1.5).abs() < 1e-6);
    // The root of 1 + ln 32 / ln 4096.
    assert!((scale - 1.190_238_1).abs() < 1e-6, "{scale}");
    let error = c.check_context("config.json", 4097).unwrap_err().to_string();
    assert!(error.contains("`longrope`") && error.contains("`--context 4096`"), "{error}");
    let other = json!({"rope_scaling": {"type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}});
    refused(&with(&phi, other), &["`short_factor` has 1 values", "48"]);
    refused(&with(&phi, json!({"rope_scaling": {"type": "longrope"}})), &["needs `short_factor`"]);
}

#[test]
fn recurrent_families_are_refused_by_name() {
    for name in [
        "mamba",
        "mamba2",
        "falcon_mamba",
        "nemotron_h",
        "lfm2",
        "jamba",
        "bamba",
        "falcon_h1",
        "olmo_hybrid",
        "recurrent_gemma",
        "rwkv",
        "xlstm",
        "zamba2",
        "kimi_linear",
    ] {
        refused(&json!({"model_type": name}), &[&format!("architecture `{name}` is not known"), "cohere2"]);
    }
    let granite = json!({"model_type": "granitemoehybrid", "num_hidden_layers": 2, "num_local_experts": 0});
    refused(&granite, &["`layer_types` is missing", "Mamba"]);
    refused(
        &with(&granite, json!({"layer_types": ["mamba", "attention"]})),
        &["`layer_types` has `\"mamba\"`"],
    );
    let experts = json!({"layer_types": ["attention", "attention"], "num_local_experts": 62});
    refused(&with(&granite, experts), &["`num_local_experts` is not 0"]);
}
