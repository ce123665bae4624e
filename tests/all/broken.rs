//! Model files that are cut short, not what they claim to be, or absurd: an error that names the file, no
//! panic, no allocation by a number from the file. And every stored format of a GGUF file.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use candle_core::{
    Device, Tensor,
    quantized::{
        GgmlDType, QTensor,
        gguf_file::{self, Value},
    },
};
use tribunal::{
    engine::{Engine, Options},
    model::{BLOCK, Compute, Decoder, Input, KvCache, KvType, Span, Weights, cpu::Activations},
};

/// Writes a small llama GGUF file whose matrices have the given type.
fn gguf(path: &Path, dtype: GgmlDType) {
    let (hidden, heads, vocab, ff, layers) = (256, 4, 256, 512, 2);
    let noise = |shape: &[usize], scale: f64| {
        let n: usize = shape.iter().product();
        let wave = (0..n).map(|i| ((i * 7919 % 10_007) as f64 / 5_003.5 - 1.0) * scale).map(|x| x as f32);
        Tensor::from_vec(wave.collect::<Vec<f32>>(), shape, &Device::Cpu).unwrap()
    };
    let mut tensors = Vec::new();
    let mut add = |name: String, shape: &[usize]| {
        let (values, dtype) = if shape.len() == 1 {
            ((noise(shape, 0.1) + 1.0).unwrap(), GgmlDType::F32)
        } else {
            (noise(shape, 0.2), dtype)
        };
        tensors.push((name, QTensor::quantize(&values, dtype).unwrap()));
    };
    add("token_embd.weight".into(), &[vocab, hidden]);
    add("output_norm.weight".into(), &[hidden]);
    for layer in 0..layers {
        for (part, shape) in [
            ("attn_norm", vec![hidden]),
            ("ffn_norm", vec![hidden]),
            ("attn_q", vec![hidden, hidden]),
            ("attn_k", vec![hidden / 2, hidden]),
            ("attn_v", vec![hidden / 2, hidden]),
            ("attn_output", vec![hidden, hidden]),
            ("ffn_gate", vec![ff, hidden]),
            ("ffn_up", vec![ff, hidden]),
            ("ffn_down", vec![hidden, ff]),
        ] {
            add(format!("blk.{layer}.{part}.weight"), &shape);
        }
    }
    let size = |n: usize| Value::U32(n as u32);
    let metadata = [
        ("general.architecture", Value::String("llama".into())),
        ("llama.embedding_length", size(hidden)),
        ("llama.block_count", size(layers)),
        ("llama.feed_forward_length", size(ff)),
        ("llama.attention.head_count", size(heads)),
        ("llama.attention.head_count_kv", size(heads / 2)),
        ("llama.rope.dimension_count", size(hidden / heads)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("llama.context_length", size(128)),
    ];
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(name, value)| (*name, value)).collect();
    let tensors: Vec<(&str, &QTensor)> = tensors.iter().map(|(name, t)| (name.as_str(), t)).collect();
    gguf_file::write(&mut std::fs::File::create(path).unwrap(), &metadata, &tensors).unwrap();
}

/// Logits of the last of some tokens, with exact activations.
fn logits(decoder: &Decoder, tokens: &[u32]) -> Vec<f32> {
    let mut cache = KvCache::new(decoder.config(), 8, KvType::F32, &Device::Cpu).unwrap();
    let blocks = (0..tokens.len().div_ceil(BLOCK) as u32).collect();
    let input = Input {
        tokens: tokens.to_vec(),
        spans: vec![Span { n_tokens: tokens.len(), position: 0, blocks }],
        logit_rows: vec![tokens.len() as u32 - 1],
    };
    decoder.forward(&input, &mut cache).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

/// The same model by candle's own loader and decoder.
fn candle_logits(path: &Path, tokens: &[u32]) -> Vec<f32> {
    use candle_transformers::models::quantized_llama::ModelWeights;
    let mut file = std::fs::File::open(path).unwrap();
    let content = gguf_file::Content::read(&mut file).unwrap();
    let mut model = ModelWeights::from_gguf(content, &mut file, &Device::Cpu).unwrap();
    let tokens = Tensor::new(tokens, &Device::Cpu).unwrap().unsqueeze(0).unwrap();
    model.forward(&tokens, 0).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

#[test]
fn every_gguf_format_gives_the_logits_that_candle_gives() {
    let folder = tempfile::tempdir().unwrap();
    let tokens: Vec<u32> = (0..40).map(|i| i * 37 % 256).collect();
    for dtype in [
        GgmlDType::F32,
        GgmlDType::F16,
        GgmlDType::BF16,
        GgmlDType::Q4_0,
        GgmlDType::Q4_1,
        GgmlDType::Q5_0,
        GgmlDType::Q5_1,
        GgmlDType::Q8_0,
        GgmlDType::Q4K,
        GgmlDType::Q5K,
        GgmlDType::Q6K,
    ] {
        let path = folder.path().join(format!("{dtype:?}.gguf"));
        gguf(&path, dtype);
        let weights = Weights::open(&path).unwrap();
        let run = |activations| {
            let compute = Compute { activations, ..Compute::default() };
            logits(&Decoder::load(&weights, &Device::Cpu, compute).unwrap(), &tokens)
        };
        let theirs = candle_logits(&path, &tokens);
        let spread = theirs.iter().map(|x| x * x).sum::<f32>().sqrt();
        // candle quantises activations too, so both of our modes may differ from it by that much.
        for activations in [Activations::Float, Activations::Q8] {
            let ours = run(activations);
            let apart = ours.iter().zip(&theirs).map(|(a, b)| (a - b) * (a - b)).sum::<f32>().sqrt();
            assert!(apart < 0.05 * spread, "{dtype:?} {activations:?}: {} apart", apart / spread);
        }
    }
}

/// Opens what should not open and gives what is said of it.
fn refusal(path: &Path) -> String {
    let error = Engine::open(path, &Options::default()).err().expect("a broken file is refused").to_string();
    assert!(error.contains(&path.display().to_string()), "the file is named: {error}");
    error
}

fn file(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::File::create(&path).unwrap().write_all(bytes).unwrap();
    path
}

#[test]
fn broken_gguf_files_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.gguf");
    gguf(&whole, GgmlDType::Q8_0);
    let bytes = std::fs::read(&whole).unwrap();
    for cut in [0, 3, 4, 11, 40, 300, bytes.len() / 2, bytes.len() - 1] {
        refusal(&file(folder.path(), "cut.gguf", &bytes[..cut]));
    }
    let changed = |name: &str, at: usize, with: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + with.len()].copy_from_slice(with);
        refusal(&file(folder.path(), name, &bytes))
    };
    assert!(changed("magic.gguf", 0, b"GGML").contains("magic"));
    // Bytes 8 to 24 count the tensors and the metadata; then comes the first key's length.
    changed("tensors.gguf", 8, &u64::MAX.to_le_bytes());
    changed("metadata.gguf", 16, &u64::MAX.to_le_bytes());
    changed("key.gguf", 24, &u64::MAX.to_le_bytes());
    let last = bytes.windows(16).rposition(|w| w.starts_with(b"ffn_down.weight")).unwrap();
    let dims = last + b"ffn_down.weight".len() + 4;
    changed("huge.gguf", dims, &(1_u64 << 60).to_le_bytes());
    assert!(changed("type.gguf", dims + 16, &77_u32.to_le_bytes()).contains("77"));
    changed("offset.gguf", dims + 20, &(u64::MAX / 2).to_le_bytes());
    assert!(refusal(&folder.path().join("none.gguf")).contains("No such file"));
}

#[test]
fn broken_folders_are_refused_by_name() {
    let tiny = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("models/tiny/qwen2");
    let folder = tempfile::tempdir().unwrap();
    let copy = |name: &str| std::fs::copy(tiny.join(name), folder.path().join(name)).unwrap();
    let refused = || Engine::open(folder.path(), &Options::default()).err().expect("refused").to_string();
    assert!(refused().contains("config.json"));
    copy("config.json");
    assert!(refused().contains("model.safetensors"));
    let weights = std::fs::read(tiny.join("model.safetensors")).unwrap();
    file(folder.path(), "model.safetensors", &weights[..weights.len() / 2]);
    assert!(refused().contains("not a whole safetensors file"));
    copy("model.safetensors");
    assert!(refused().contains("tokenizer.json"));
    copy("tokenizer.json");
    copy("tokenizer_config.json");
    Engine::open(folder.path(), &Options { kv_bytes: Some(64 << 20), ..Options::default() }).unwrap();
    let config = std::fs::read_to_string(tiny.join("config.json")).unwrap();
    for (from, to, said) in [
        ("\"model_type\": \"qwen2\"", "\"model_type\": \"mamba\"", "`mamba`"),
        ("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 20000000", "number of layers"),
        ("\"intermediate_size\": ", "\"intermediate_size\": 9", "has shape"),
    ] {
        file(folder.path(), "config.json", config.replace(from, to).as_bytes());
        assert!(refused().contains(said), "{}", refused());
    }
}
