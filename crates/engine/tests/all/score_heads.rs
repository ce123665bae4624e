//! Models with a score head: the scores of transformers, the same bits in any company, and heads that are
//! refused.

use std::path::Path;

use candle_core::{DType, Device as Candle, Tensor};
use serde_json::{Map, Value, json};
use tribunal_core::llm::{Chat, Llm, ResponseFormat, Sampling};
use tribunal_cpu::{Activations, Compute};
use tribunal_engine::{Device, Engine, Options};
use tribunal_model::{KvType, Part, Step, Weights, score_head::Head};

use crate::{
    model::{root, tiny},
    score_head::{Tensors, golden, write_bos, write_with_head},
};

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
    let (json, heads) = golden(&root());
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
    let (json, _) = golden(&root());
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

/// The ids that transformers 5.24 gives: those of the rendered chat, and those of its text as any other.
#[test]
fn a_chat_tokenized_as_text_begins_with_a_second_bos() {
    let folder = with_head("gemma2");
    write_bos(folder.path());
    let engine = Engine::open(folder.path(), &options()).unwrap();
    let rendered =
        [317, 318, 84, 82, 280, 198, 64, 319, 198, 318, 314, 82, 302, 83, 285, 83, 198, 65, 319, 198];
    let chat = Chat::new().user("a").assistant("b");
    assert_eq!(engine.prompt_ids(&chat).unwrap(), rendered);
    let as_text = Chat { tokenized_as_text: true, ..chat };
    assert_eq!(engine.prompt_ids(&as_text).unwrap(), [&[317], &rendered[..]].concat());
}

#[test]
fn a_head_unlike_its_settings_is_refused_by_name() {
    type Change = Box<dyn Fn(&mut Map<String, Value>, &mut Tensors)>;
    let floats = |shape: &[usize]| Tensor::ones(shape, DType::F32, &Candle::Cpu).unwrap();
    let cases: [(Change, &str); 5] = [
        (
            Box::new(|config, _| drop(config.insert("id2label".into(), json!({"0": "good"})))),
            "`score.weight` has 3 rows, but the settings name 1 labels",
        ),
        (
            Box::new(|config, _| {
                config.remove("id2label");
                config.insert("num_labels".into(), json!(4));
            }),
            "has 3 rows, but the settings name 4 labels",
        ),
        (Box::new(|_, tensors| drop(tensors.remove("score.weight"))), "`score.weight` is missing"),
        (
            Box::new(move |_, tensors| drop(tensors.insert("score.0.weight".into(), floats(&[64, 64])))),
            "`score.0.weight` belongs to a head of several layers",
        ),
        (
            Box::new(|config, _| {
                config.insert("model_type".into(), json!("electra"));
            }),
            "architecture `electra` is not known",
        ),
    ];
    for (change, words) in cases {
        let folder = tempfile::tempdir().unwrap();
        write_with_head(folder.path(), "qwen2", change);
        let error = Weights::open(folder.path()).map(drop).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
