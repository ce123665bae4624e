//! Relatives of llama as GGUF files.

use super::*;

/// Architectures whose files have the two rotary halves of heads interleaved.
pub const INTERLEAVED: [&str; 4] = ["granite", "llama", "mistral3", "smollm3"];

/// A family with these settings beside the number of layers and the base of the rope.
fn family(
    (tiny, arch, mlp_norm): (&'static str, &'static str, &'static str),
    (layers, base): (u32, f32),
    more: &[(&'static str, Value)],
) -> Family {
    let mut settings = vec![("block_count", size(layers)), ("rope.freq_base", Value::F32(base))];
    settings.extend(more.iter().cloned());
    Family { tiny, arch, settings, mlp_norm }
}

fn epsilon(epsilon: f32) -> (&'static str, Value) {
    ("attention.layer_norm_rms_epsilon", Value::F32(epsilon))
}

pub fn families() -> Vec<Family> {
    let window = ("attention.sliding_window", size(24));
    let wide = ("embedding_length", size(64));
    let centred = ("attention.layer_norm_epsilon", Value::F32(1e-5));
    let logit_scale = ("logit_scale", Value::F32(0.8));
    vec![
        family(("smollm3", "smollm3", "ffn_norm"), (4, 5e6), &[epsilon(1e-6)]),
        family(("olmo2", "olmo2", "post_attention_norm"), (2, 5e5), &[epsilon(1e-6)]),
        family(
            ("olmo3", "olmo2", "post_attention_norm"),
            (4, 5e5),
            &[
                epsilon(1e-6),
                window.clone(),
                ("rope.scaling.type", Value::String("yarn".into())),
                ("rope.scaling.factor", Value::F32(8.0)),
                ("rope.scaling.original_context_length", size(64)),
            ],
        ),
        family(
            ("granite", "granite", "ffn_norm"),
            (2, 1e7),
            &[
                epsilon(1e-5),
                wide.clone(),
                ("attention.scale", Value::F32(0.125)),
                ("embedding_scale", Value::F32(12.0)),
                ("residual_scale", Value::F32(0.22)),
                ("logit_scale", Value::F32(1.25)),
            ],
        ),
        family(("glm4", "glm4", "ffn_norm"), (2, 1e4), &[epsilon(1e-5), ("rope.dimension_count", size(8))]),
        family(("exaone4", "exaone4", "post_attention_norm"), (4, 1e6), &[epsilon(1e-5), window.clone()]),
        family(
            ("mixtral", "llama", "ffn_norm"),
            (2, 1e6),
            &[
                epsilon(1e-5),
                ("feed_forward_length", size(16)),
                ("expert_count", size(8)),
                ("expert_used_count", size(2)),
            ],
        ),
        family(
            ("cohere", "command-r", ""),
            (2, 8e6),
            &[
                centred.clone(),
                wide.clone(),
                logit_scale.clone(),
                ("rope.scaling.type", Value::String("none".into())),
            ],
        ),
        family(
            ("cohere2", "cohere2", ""),
            (4, 5e4),
            &[centred, wide, logit_scale, window, ("feed_forward_length", size(32))],
        ),
    ]
}

/// The name that a tensor of Mixtral has in other families.
pub fn renamed(name: &str) -> String {
    let parts = [
        ("block_sparse_moe", "mlp"),
        ("w1.w", "gate_proj.w"),
        ("w2.w", "down_proj.w"),
        ("w3.w", "up_proj.w"),
    ];
    parts.iter().fold(name.to_owned(), |name, (theirs, ours)| name.replace(theirs, ours))
}

/// The divisors of frequencies that scale as in Llama 3.
pub fn factors(arch: &str) -> BTreeMap<String, Tensor> {
    if arch != "exaone4" {
        return BTreeMap::new();
    }
    let (factor, low, high, original) = (16.0, 1.0, 4.0, 64.0);
    let by = |i: u32| {
        let wavelength = 2.0 * std::f64::consts::PI * 1e6_f64.powf(f64::from(2 * i) / 16.0);
        if wavelength < original / high {
            return 1.0;
        }
        if wavelength > original / low {
            return factor as f32;
        }
        let smooth = (original / wavelength - low) / (high - low);
        (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
    };
    let by: Vec<f32> = (0..8).map(by).collect();
    [("rope_freqs.weight".to_owned(), Tensor::from_vec(by, 8, &Candle::Cpu).unwrap())].into()
}

/// The format has no short and long factors; without them the tiny model is one with a plain rope.
#[test]
fn a_gguf_file_of_phi3_has_the_bits_of_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let file = fs::read(tiny("phi3").join("config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_slice(&file).unwrap();
    config["rope_scaling"] = serde_json::Value::Null;
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    fs::copy(tiny("phi3").join("model.safetensors"), folder.path().join("model.safetensors")).unwrap();
    let path = folder.path().join("m.gguf");
    let more = [epsilon(1e-5), ("embedding_length", size(64)), ("rope.dimension_count", size(12))];
    family(("phi3", "phi3", "ffn_norm"), (2, 1e4), &more).write(&path, 2, &[]);
    let ids: Vec<u32> = (0..40).map(|i| i * 37 % 300).collect();
    assert_eq!(logits(&path, &ids), logits(folder.path(), &ids));
}

#[test]
fn a_window_that_a_file_of_cohere2_lacks_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let cohere2 = families().pop().unwrap();
    cohere2.write(&path, 4, &[("attention.sliding_window", size(0))]);
    let said = Weights::open(&path).map(drop).unwrap_err().to_string();
    assert!(said.contains("`cohere2.attention.sliding_window` is missing or 0"), "{said}");
}
