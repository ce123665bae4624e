//! Encoders: the hidden states and the tokens of transformers, the same bits in any company, and what is
//! refused.

use std::{ops::Range, path::Path};

use candle_core::Tensor;
use serde_json::{Value, json};
use tribunal_core::llm::{self, Chat, Llm, ResponseFormat, Sampling};
use tribunal_cpu::{Activations, Compute};
use tribunal_engine::{
    Device, Engine, Format, KvType, Options,
    tokenizer::{Files, Tokenizer},
};
use tribunal_model::{BLOCK, Model, Part, Step, Weights};

use crate::model::{root, tiny};

pub const NAMES: [&str; 3] = ["xlm-roberta", "xlm-roberta-xl", "bert"];

/// The hidden states of a text at all depths, by the encoder alone.
fn states(model: &mut dyn Model, ids: &[u32], kv: KvType) -> Vec<Vec<f32>> {
    let blocks: Vec<u32> = (0..ids.len().div_ceil(BLOCK) as u32).rev().collect();
    model.runtime_mut().reserve(blocks.len(), kv).unwrap();
    let part = Part {
        tokens: ids,
        position: 0,
        blocks: &blocks,
        logits_from: ids.len(),
        states_from: 0,
        adapter: None,
        state: None,
    };
    let n_layers = model.config().n_layers as u32;
    model.run(Step::new([part], Vec::new()).at_depths(0..=n_layers)).unwrap();
    model.hidden_states().to_vec()
}

fn golden(name: &str) -> Value {
    let text = std::fs::read(root().join(format!("tests/golden/models/{name}.json"))).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// The ids of each golden sequence, and its hidden states at all depths.
pub fn sequences(name: &str) -> Vec<(Vec<u32>, Vec<Vec<f32>>)> {
    let path = root().join(format!("tests/golden/models/{name}.safetensors"));
    let tensors = candle_core::safetensors::load(Path::new(&path), &candle_core::Device::Cpu).unwrap();
    let sequences: Vec<Vec<u32>> = serde_json::from_value(golden(name)["sequences"].clone()).unwrap();
    let states = |i: usize| {
        let depths = tensors[&i.to_string()].chunk(3, 0).unwrap();
        depths.iter().map(|depth: &Tensor| depth.flatten_all().unwrap().to_vec1().unwrap()).collect()
    };
    sequences.into_iter().enumerate().map(|(i, ids)| (ids, states(i))).collect()
}

fn worst(ours: &[Vec<f32>], theirs: &[Vec<f32>]) -> f32 {
    assert_eq!(
        ours.iter().map(Vec::len).collect::<Vec<_>>(),
        theirs.iter().map(Vec::len).collect::<Vec<_>>()
    );
    ours.iter().flatten().zip(theirs.iter().flatten()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn hidden_states_equal_those_of_transformers_at_every_depth() {
    for name in NAMES {
        let compute = Compute { activations: Activations::Float, ..Compute::default() };
        let mut model = Device::Cpu.load(&Weights::open(&tiny(name)).unwrap(), compute).unwrap();
        for (ids, theirs) in sequences(name) {
            let differs = worst(&states(&mut *model, &ids, KvType::F32), &theirs);
            assert!(differs <= 1e-4, "{name}: {} tokens differ by {differs}", ids.len());
        }
    }
}

/// The tokenizer of a model whose `tokenizer.json` is changed.
fn tokenizer(name: &str, change: impl FnOnce(&mut Value)) -> Tokenizer {
    let read = |file: &str| std::fs::read(tiny(name).join(file)).unwrap();
    let (mut json, config) =
        (serde_json::from_slice(&read("tokenizer.json")).unwrap(), read("tokenizer_config.json"));
    change(&mut json);
    let (json, config) = (json.to_string().into_bytes(), Some(&*config));
    Tokenizer::from_files(Files { json: &json, config, model_type: Some(name) }, None).unwrap()
}

#[test]
fn tokens_and_their_bytes_are_those_of_transformers() {
    // The class has steps of its own, but for the map of characters.
    let other_steps = |json: &mut Value| {
        let lower = json!({"type": "Lowercase"});
        let both = json!({"type": "Sequence", "normalizers": [lower, json["normalizer"]]});
        (json["normalizer"], json["pre_tokenizer"]) = (both, json!({"type": "Whitespace"}));
    };
    let mut tokenizers: Vec<_> = NAMES.map(|name| (name, tokenizer(name, |_| {}))).into();
    tokenizers.push(("xlm-roberta", tokenizer("xlm-roberta", other_steps)));
    for (name, tokenizer) in tokenizers {
        for text in golden(name)["texts"].as_array().unwrap() {
            let ids: Vec<u32> = serde_json::from_value(text["ids"].clone()).unwrap();
            let spans: Vec<[usize; 2]> = serde_json::from_value(text["spans"].clone()).unwrap();
            let [_, inner @ .., _] = &*ids.into_iter().zip(spans).collect::<Vec<_>>() else {
                panic!("{text}")
            };
            let expected: Vec<(u32, Range<usize>)> =
                inner.iter().map(|(id, [start, end])| (*id, *start..*end)).collect();
            assert_eq!(
                tokenizer.encode_spans(text["text"].as_str().unwrap()).unwrap(),
                expected,
                "{name}: {text}"
            );
        }
    }
    let spans = tokenizer("xlm-roberta", |_| {}).encode_spans("a <s> the").unwrap();
    assert!(spans.iter().all(|(id, _)| *id != 0), "a name in data is no control token: {spans:?}");
    assert_eq!(spans.last(), Some(&(96, 6..9)), "{spans:?}");
}

pub fn open(name: &str, options: &Options) -> Engine {
    Engine::open(&tiny(name), options).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Checks that texts have the same bits one by one on one thread, and all at once in short steps.
pub fn check_company(device: &Device) {
    for name in NAMES {
        let on = || Options { kv_bytes: Some(4 << 20), ..Options::on(device.clone()) };
        let alone = open(name, &Options { threads: Some(1), n_rows: 1, ..on() });
        let busy = open(name, &Options { threads: Some(2), step_tokens: 40, ..on() });
        let text = |i: u32| (0..=i * 7 % 120).map(|at| 5 + (at * 31 + i) % 300).collect::<Vec<u32>>();
        let bits = |states: Vec<Vec<f32>>| states.iter().flatten().map(|x| x.to_bits()).collect::<Vec<u32>>();
        let expected: Vec<Vec<u32>> =
            (0..24).map(|i| bits(alone.encode(text(i), &[0, 1, 2]).unwrap())).collect();
        let ask = |i: u32| {
            let [top, first] = &busy.encode(text(i), &[2, 1]).unwrap()[..] else { panic!("two depths") };
            let [words] = &busy.encode(text(i), &[0]).unwrap()[..] else { panic!("one depth") };
            bits(vec![words.clone(), first.clone(), top.clone()])
        };
        let together: Vec<Vec<u32>> = std::thread::scope(|scope| {
            let ask = &ask;
            let asked: Vec<_> = (0..24).map(|i| scope.spawn(move || ask(i))).collect();
            asked.into_iter().map(|asked| asked.join().unwrap()).collect()
        });
        assert_eq!(expected, together, "{name}");
        assert_ne!(expected[8], expected[9]);
    }
}

#[test]
fn a_text_has_the_same_bits_alone_and_in_company() {
    check_company(&Device::Cpu);
}

/// The second products of the tiny models have rows of 48 values, which are no whole blocks and stay f32.
#[test]
fn weights_in_memory_may_have_fewer_bits() {
    for (name, format) in NAMES.into_iter().flat_map(|name| [(name, Format::Bf16), (name, Format::Q8_0)]) {
        let compute = Compute { floats: Some(format), ..Compute::default() };
        let engine = open(name, &Options { compute, ..Options::default() });
        for (ids, theirs) in sequences(name) {
            let differs = worst(&engine.encode(ids, &[0, 1, 2]).unwrap(), &theirs);
            assert!(differs > 1e-4 && differs < 0.3, "{name}, {format:?}: {differs}");
        }
    }
}

#[test]
fn what_an_encoder_cannot_do_is_refused() {
    let engine = open("xlm-roberta", &Options::default());
    assert_eq!(engine.facts().context, 128);
    let asked = engine.ask(&Chat::raw("x"), &ResponseFormat::Text, &Sampling::default()).unwrap_err();
    assert!(asked.to_string().contains("is an encoder and generates no text"), "{asked}");
    let long = engine.encode(vec![5; 129], &[1]).unwrap_err();
    assert!(matches!(long, llm::Error::TooLong { prompt: 129, context: 128, .. }), "{long}");
    assert!(engine.encode(vec![5; 128], &[1]).is_ok());
    for (ids, depths, reason) in [
        (vec![5, 1], &[1][..], "does not take the token 1"),
        (vec![5, 320], &[1], "does not take the token 320"),
        (vec![5], &[3], "after 3 layers were requested, but the encoder has 2"),
        (Vec::new(), &[1], "the prompt is empty"),
    ] {
        let error = engine.encode(ids, depths).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let options = Options { context: Some(129), ..Options::default() };
    let error = Engine::open(&tiny("xlm-roberta"), &options).map(drop).unwrap_err().to_string();
    assert!(error.contains("leaves 128 positions for a text; hint: `--context 128`"), "{error}");
    let decoder = open("qwen2", &Options { kv_bytes: Some(4 << 20), ..Options::default() });
    let error = decoder.encode(vec![5], &[1]).unwrap_err().to_string();
    assert!(error.contains("is not an encoder"), "{error}");
}
