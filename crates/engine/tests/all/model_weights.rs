//! Model files that are cut short, of another format, or absurd: an error that names the file, no panic, no
//! allocation by a number from the file. And every stored format of a GGUF file.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use candle_core::{
    Device, Tensor,
    quantized::{GgmlDType, gguf_file},
};
use tribunal_cpu::{Activations, Compute};
use tribunal_engine::{self as engine, Engine, Options};
use tribunal_hub::Identity;
use tribunal_model::{BLOCK, KvType, Model, Part, Step, Weights};

use crate::gguf::gguf;

/// Logits of the last of some tokens, with exact activations.
fn logits(mut model: Box<dyn Model>, tokens: &[u32]) -> Vec<f32> {
    model.runtime_mut().reserve(8, KvType::F32).unwrap();
    let blocks: Vec<u32> = (0..tokens.len().div_ceil(BLOCK) as u32).collect();
    let part = Part {
        tokens,
        position: 0,
        blocks: &blocks,
        logits_from: tokens.len() - 1,
        states_from: tokens.len(),
        adapter: None,
        state: None,
    };
    model.run(Step::new([part], Vec::new())).unwrap();
    model.runtime().logits().unwrap().remove(0)
}

/// The logits of this model by candle's own loader and decoder.
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
            logits(engine::Device::Cpu.load(&weights, compute).unwrap(), &tokens)
        };
        let theirs = candle_logits(&path, &tokens);
        let spread = theirs.iter().map(|x| x * x).sum::<f32>().sqrt();
        // candle quantises activations too, so both modes may differ from it by that much.
        for activations in [Activations::Float, Activations::Q8] {
            let ours = run(activations);
            let apart = ours.iter().zip(&theirs).map(|(a, b)| (a - b) * (a - b)).sum::<f32>().sqrt();
            assert!(apart < 0.05 * spread, "{dtype:?} {activations:?}: {} apart", apart / spread);
        }
    }
}

/// Opens a file that must not open and returns the error.
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
    assert!(changed("magic.gguf", 0, b"GGML").contains("it is not a GGUF file"));
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
    let tiny = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("models/tiny/qwen2");
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
        ("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 20000000", "num_hidden_layers"),
        ("\"intermediate_size\": ", "\"intermediate_size\": 9", "has shape"),
    ] {
        file(folder.path(), "config.json", config.replace(from, to).as_bytes());
        assert!(refused().contains(said), "{}", refused());
    }
}

#[test]
fn a_file_that_is_cut_while_it_is_loaded_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.gguf");
    gguf(&path, GgmlDType::F32);
    let whole = std::fs::read(&path).unwrap();
    let weights = Weights::open(&path).unwrap();
    let (name, shape) = weights
        .tensors()
        .map(|(name, _, shape)| (name.to_owned(), shape.to_vec()))
        .find(|(name, _)| name == "model.embed_tokens.weight")
        .unwrap();
    assert!(weights.get(&name, &shape).is_ok());
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(whole.len() as u64 / 2).unwrap();
    let said = weights.get(&name, &shape).map(drop).unwrap_err().to_string();
    let cut = format!(
        "the file was cut from {} to {} bytes while it was being loaded",
        whole.len(),
        whole.len() / 2
    );
    assert!(said.contains(&cut) && said.contains(&name) && said.contains("hint"), "{said}");
}

#[test]
fn what_is_loaded_is_what_was_hashed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("model.gguf"), folder.path().join("other.gguf"));
    gguf(&path, GgmlDType::F32);
    gguf(&other, GgmlDType::Q8_0);
    let hashed = Identity::from_path(&path).unwrap().stamps;
    let options = || Options { kv_bytes: Some(64 << 20), hashed: hashed.clone(), ..Options::default() };
    Engine::open(&path, &options()).unwrap();
    // A whole file, as valid as the first, but not the one that the signature names.
    std::fs::rename(&other, &path).unwrap();
    let said = Engine::open(&path, &options()).err().expect("refused").to_string();
    assert!(
        said.contains("model.gguf") && said.contains("replaced or changed after its hash was taken"),
        "{said}"
    );
    // The same file, overwritten in place.
    gguf(&path, GgmlDType::F32);
    let hashed = Identity::from_path(&path).unwrap().stamps;
    std::thread::sleep(std::time::Duration::from_millis(20));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, bytes).unwrap();
    let weights = Weights::open(&path).unwrap();
    assert!(weights.check(&hashed).is_err());
    assert!(weights.check(&Identity::from_path(&path).unwrap().stamps).is_ok());
}
