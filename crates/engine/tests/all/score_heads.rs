//! Models with a score head: the scores of transformers, the same bits in any company, and heads that are
//! refused.

use std::{collections::HashMap, fs, path::Path};

use candle_core::{DType, Device as Candle, Tensor, safetensors};
use serde_json::{Map, Value, json};
use tribunal_core::llm::{Chat, Llm, ResponseFormat, Sampling};
use tribunal_cpu::{Activations, Compute};
use tribunal_engine::{Device, Engine, Options};
use tribunal_model::{KvType, Part, Step, Weights, score_head::Head};

use crate::model::{root, tiny};

type Tensors = HashMap<String, Tensor>;

fn golden() -> (Value, Tensors) {
    let file = |kind: &str| root().join(format!("tests/golden/heads.{kind}"));
    let json = serde_json::from_slice(&fs::read(file("json")).unwrap()).unwrap();
    (json, safetensors::load(file("safetensors"), &Candle::Cpu).unwrap())
}

/// Writes a tiny model with the head of its golden scores, after changes to both.
pub fn write_with_head(folder: &Path, model: &str, change: impl Fn(&mut Map<String, Value>, &mut Tensors)) {
    let (json, heads) = golden();
    let source = tiny(model);
    let mut config: Map<String, Value> =
        serde_json::from_slice(&fs::read(source.join("config.json")).unwrap()).unwrap();
    config.extend(json["cases"][model].as_object().unwrap().clone());
    let mut tensors = safetensors::load(source.join("model.safetensors"), &Candle::Cpu).unwrap();
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

fn with_head(model: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_with_head(folder.path(), model, |_, _| {});
    folder
}

fn options() -> Options {
    Options { kv_bytes: Some(4 << 20), context: Some(512), ..Options::default() }
}

/// Options with exact activations and keys.
fn exact() -> Options {
    let compute = Compute { activations: Activations::Float, ..Compute::default() };
    Options { compute, kv: KvType::F32, ..options() }
}

fn scores(engine: &Engine, chat: &Chat) -> Vec<f64> {
    engine.score(chat).unwrap_or_else(|error| panic!("{error}")).reading.unwrap().values.remove(0)
}

/// Checks the scores of the golden texts.
#[track_caller]
fn check(path: &Path, model: &str, options: &Options) {
    let (json, heads) = golden();
    let engine = Engine::open(path, options).unwrap_or_else(|error| panic!("{model}: {error}"));
    let expected: Vec<Vec<f32>> = heads[&format!("{model}.scores")].to_vec2().unwrap();
    for (text, expected) in json["texts"].as_array().unwrap().iter().zip(&expected) {
        let ours = scores(&engine, &Chat::raw(text.as_str().unwrap()));
        let worst = ours.iter().zip(expected).map(|(a, b)| (a - f64::from(*b)).abs()).fold(0.0, f64::max);
        assert!(ours.len() == expected.len() && worst <= 1e-4, "{model}: {ours:?}, {expected:?}");
    }
}

/// The scores of some tokens, by the decoder alone.
pub fn score_of_ids(path: &Path) -> Vec<f64> {
    let weights = Weights::open(path).unwrap_or_else(|error| panic!("{error}"));
    let head = Head::load(&weights).unwrap().unwrap();
    let n_layers = weights.config().n_layers as u32;
    let mut model = Device::Cpu.load(&weights, exact().compute).unwrap();
    model.runtime_mut().reserve(2, KvType::F32).unwrap();
    let tokens: Vec<u32> = (0..20).map(|i| i * 37 % 300).collect();
    let part = Part {
        tokens: &tokens,
        position: 0,
        blocks: &[1, 0],
        logits_from: tokens.len(),
        states_from: tokens.len() - 1,
        adapter: None,
        state: None,
    };
    model.run(Step::new([part], Vec::new()).at_depths([n_layers])).unwrap();
    head.outputs(&model.hidden_states()[0])
}

#[test]
fn scores_equal_those_of_transformers() {
    let (json, _) = golden();
    let cases = json["cases"].as_object().unwrap();
    assert!(cases.len() > 12);
    for model in cases.keys() {
        check(with_head(model).path(), model, &exact());
    }
}

#[test]
fn a_head_of_16_bits_and_an_output_matrix_beside_it_change_no_score() {
    for kind in [DType::BF16, DType::F16] {
        let folder = tempfile::tempdir().unwrap();
        write_with_head(folder.path(), "qwen2", |_, tensors| {
            let table = tensors["model.embed_tokens.weight"].clone();
            tensors.insert("lm_head.weight".into(), (table * 2.0).unwrap());
            for part in ["score.weight", "score.bias"] {
                tensors.insert(part.into(), tensors[part].to_dtype(kind).unwrap());
            }
        });
        check(folder.path(), "qwen2", &exact());
    }
}

/// Scores of some chats on a device, the same bits one after the other without a cache and all at once.
pub fn scores_in_company(device: &Device) -> Vec<Vec<f64>> {
    let folder = with_head("qwen2");
    let open = |prefix_cache, threads| {
        let options = Options { prefix_cache, threads: Some(threads), ..Options::on(device.clone()) };
        let (kv_bytes, context) = (Some(4 << 20), Some(256));
        Engine::open(folder.path(), &Options { kv_bytes, context, step_tokens: 48, ..options }).unwrap()
    };
    let (engine, plain) = (open(true, 2), open(false, 1));
    let chat = |i: usize| {
        let question = format!("English: one and {}\nGerman:", i % 3);
        Chat::new().user(question).assistant(format!("eins und {i}{}", " noch".repeat(i % 5)))
    };
    let alone: Vec<Vec<f64>> = (0..24).map(|i| scores(&plain, &chat(i))).collect();
    let together: Vec<Vec<f64>> = std::thread::scope(|scope| {
        let (engine, chat) = (&engine, &chat);
        let asked: Vec<_> = (0..24).map(|i| scope.spawn(move || scores(engine, &chat(i)))).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    let bits = |all: &[Vec<f64>]| -> Vec<u64> { all.iter().flatten().map(|x| x.to_bits()).collect() };
    assert_eq!(bits(&alone), bits(&together));
    assert_ne!(alone[0], alone[1]);
    alone
}

#[test]
fn scores_have_the_same_bits_alone_and_in_company() {
    scores_in_company(&Device::Cpu);
}

#[test]
fn a_chat_is_scored_as_it_stands() {
    let engine = Engine::open(with_head("qwen2").path(), &options()).unwrap();
    let ids = |chat: &Chat| engine.prompt_ids(chat).unwrap();
    let chat = Chat::new().user("a").assistant("b");
    let rendered = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n";
    assert_eq!(ids(&chat), ids(&Chat::raw(rendered)));
    let answer = engine.ask(&chat, &ResponseFormat::Text, &Sampling::default()).unwrap_err().to_string();
    assert!(answer.contains("has a score head"), "{answer}");
    assert!(engine.states(&chat, "b", &[1]).is_err());
    assert!(engine.score_continuations(&chat, &["b".into()]).is_err());
    let language_model = Engine::open(&tiny("qwen2"), &options()).unwrap();
    let error = language_model.score(&chat).unwrap_err().to_string();
    assert!(error.contains("no score head"), "{error}");
}

#[test]
fn a_head_unlike_its_settings_is_refused_by_name() {
    let floats = |shape: &[usize]| Tensor::ones(shape, DType::F32, &Candle::Cpu).unwrap();
    type Change = Box<dyn Fn(&mut Map<String, Value>, &mut Tensors)>;
    let cases: [(Change, &str); 5] = [
        (
            Box::new(|config, _| drop(config.insert("id2label".into(), json!({"0": "good"})))),
            "`score.weight` has 3 rows, but the settings have 1 labels",
        ),
        (
            Box::new(|config, _| {
                config.remove("id2label");
                config.insert("num_labels".into(), json!(4));
            }),
            "has 3 rows, but the settings have 4 labels",
        ),
        (Box::new(|_, tensors| drop(tensors.remove("score.weight"))), "`score.weight` is missing"),
        (
            Box::new(move |_, tensors| drop(tensors.insert("score.0.weight".into(), floats(&[64, 64])))),
            "`score.0.weight` belongs to a head of several layers",
        ),
        (
            Box::new(|config, _| {
                config.insert("model_type".into(), json!("bert"));
            }),
            "architecture `bert` is not known",
        ),
    ];
    for (change, words) in cases {
        let folder = tempfile::tempdir().unwrap();
        write_with_head(folder.path(), "qwen2", change);
        let error = Weights::open(folder.path()).map(drop).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
