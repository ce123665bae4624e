//! Metrics of the COMET family: the scores, their parts and the error spans of `unbabel-comet`, and checkpoints that
//! are refused.

use std::{fs, path::Path};

use serde_json::Value;
use tempfile::TempDir;
use tribunal_core::llm::{Chat, Counter, Estimate, Llm, MetricTexts};
use tribunal_cpu::{Activations, Compute};
use tribunal_engine::{Engine, Options};
use tribunal_model::{
    Weights,
    metric::{Delimiters, Metric, Texts, Tokens},
};

use crate::{
    metric::{golden, write_metric},
    model::root,
};

/// The largest difference from a score of the reference.
const TOLERANCE: f64 = 1e-4;

pub fn folder(case: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_metric(&root(), folder.path(), case);
    folder
}

fn options() -> Options {
    let compute = Compute { activations: Activations::Float, ..Compute::default() };
    Options { compute, kv_bytes: Some(1 << 20), ..Options::default() }
}

pub fn cases() -> Vec<(String, Value)> {
    let (json, _) = golden(&root());
    json["cases"].as_object().unwrap().clone().into_iter().collect()
}

pub fn texts<'t>(input: &'t Value, fields: &Value) -> MetricTexts<'t> {
    let has = |field: &str| fields.as_array().unwrap().iter().any(|one| one == field);
    let text = |field: &str| input[field].as_str().filter(|_| has(field));
    MetricTexts { source: text("src"), translation: input["mt"].as_str().unwrap(), reference: text("ref") }
}

/// The bytes of a span of characters.
fn bytes(text: &str, span: &Value) -> (usize, usize) {
    let place = |end: &Value| {
        text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(end.as_u64().unwrap() as usize).unwrap()
    };
    (place(&span["start"]), place(&span["end"]))
}

#[track_caller]
fn close(about: &str, ours: f64, theirs: &Value) {
    let theirs = theirs.as_f64().unwrap();
    assert!((ours - theirs).abs() <= TOLERANCE, "{about}: {ours}, expected {theirs}");
}

#[test]
fn predictions_from_the_reference_states_are_the_references() {
    let (json, tensors) = golden(&root());
    let mut n_cut = 0;
    for (name, case) in cases() {
        let weights = Weights::open(folder(&name).path()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let metric = Metric::load(&weights).unwrap().unwrap();
        for (i, input) in json["inputs"].as_array().unwrap()[..2].iter().enumerate() {
            let text = input["mt"].as_str().unwrap();
            let offsets = json["mt_offsets"][i].as_array().unwrap();
            let ranges = offsets[1..offsets.len() - 1].iter().map(|offset| {
                let span = serde_json::json!({"start": offset[0], "end": offset[1]});
                let (start, end) = bytes(text, &span);
                start..end
            });
            let ranges: Vec<_> = ranges.collect();
            let translation = Tokens { ids: vec![7; ranges.len()], ranges };
            let other = Tokens { ids: vec![8; 3], ranges: vec![0..1; 3] };
            let texts = texts(input, &case["fields"]);
            let of = |text: Option<&str>| text.map(|_| &other);
            let tokens =
                Texts { source: of(texts.source), translation: &translation, reference: of(texts.reference) };
            let inputs = metric.inputs(&tokens, Delimiters { first: 0, last: 2 }).unwrap();
            n_cut += usize::from(inputs.is_cut);
            let sequences: &[&str] = match (metric.settings().class.joins_texts(), inputs.sequences.len()) {
                (true, 3) => &["mt+src", "mt+ref", "mt+src+ref"],
                (true, _) if texts.source.is_some() => &["mt+src"],
                (true, _) => &["mt+ref"],
                (false, 3) => &["src", "mt", "ref"],
                (false, _) => &["src", "mt"],
            };
            let states = sequences.iter().map(|sequence| {
                let all = &tensors[&format!("{i}/{sequence}")];
                let layer =
                    |depth: &u32| all.get(*depth as usize).unwrap().flatten_all().unwrap().to_vec1().unwrap();
                metric.depths().iter().map(layer).collect::<Vec<Vec<f32>>>()
            });
            let states: Vec<_> = states.collect();
            let states: Vec<&[Vec<f32>]> = states.iter().map(|layers| &**layers).collect();
            let predicted = metric.predict(&states, &translation);
            let expected = &case["results"][i];
            close(&name, predicted.score, &expected["score"]);
            let spans = expected["error_spans"].as_array().map_or(0, Vec::len);
            assert_eq!(predicted.spans.len(), spans, "{name}: {:?}", predicted.spans);
        }
    }
    assert_eq!(n_cut, 0);
}

fn estimate(engine: &Engine, name: &str, texts: &MetricTexts<'_>) -> Estimate {
    engine.estimate(texts).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn scores_parts_and_spans_are_those_of_comet() {
    let (json, _) = golden(&root());
    let mut n_cut = 0;
    for (name, case) in cases() {
        let folder = folder(&name);
        let engine =
            Engine::open(folder.path(), &options()).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (i, input) in json["inputs"].as_array().unwrap().iter().enumerate() {
            let (texts, expected) = (texts(input, &case["fields"]), &case["results"][i]);
            let found = estimate(&engine, &name, &texts);
            let about = format!("{name}, input {i}");
            close(&about, found.score, &expected["score"]);
            for (part, score) in &found.parts {
                close(&format!("{about}, {part}"), *score, &expected[part]);
            }
            let n_parts = expected.as_object().unwrap().keys().filter(|key| key.ends_with("_scores")).count();
            assert_eq!(found.parts.len(), n_parts, "{about}");
            let none = Vec::new();
            let spans = expected["error_spans"].as_array().unwrap_or(&none);
            assert_eq!(found.spans.len(), spans.len(), "{about}: {:?}", found.spans);
            for (ours, theirs) in found.spans.iter().zip(spans) {
                assert_eq!((ours.start, ours.end), bytes(texts.translation, theirs), "{about}");
                assert_eq!(ours.severity, theirs["severity"], "{about}");
                close(&about, ours.confidence, &theirs["confidence"]);
                assert_eq!(&texts.translation[ours.start..ours.end], theirs["verbatim"], "{about}");
            }
            n_cut += usize::from(found.is_cut);
            let read = found.usage.computed + found.usage.cached;
            assert_eq!(engine.count(&texts.chat()).unwrap(), read, "{about}");
        }
    }
    assert!(n_cut > 10, "{n_cut} texts were cut");
}

#[test]
fn an_estimate_does_not_depend_on_its_company() {
    let (json, _) = golden(&root());
    let folder = folder("xcomet");
    let alone = Engine::open(folder.path(), &Options { n_rows: 1, threads: Some(1), ..options() }).unwrap();
    let engine = Engine::open(folder.path(), &options()).unwrap();
    let fields = serde_json::json!(["src", "mt", "ref"]);
    let inputs = json["inputs"].as_array().unwrap();
    std::thread::scope(|scope| {
        let running: Vec<_> = inputs
            .iter()
            .map(|input| scope.spawn(|| estimate(&engine, "xcomet", &texts(input, &fields))))
            .collect();
        for (input, running) in inputs.iter().zip(running) {
            assert_eq!(running.join().unwrap(), estimate(&alone, "xcomet", &texts(input, &fields)));
        }
    });
}

#[test]
fn control_tokens_in_a_text_are_data() {
    let engine = Engine::open(folder("unified").path(), &options()).unwrap();
    let count = |translation: &str| {
        let texts = MetricTexts { source: Some("He went."), translation, reference: None };
        engine.count(&texts.chat()).unwrap()
    };
    for name in ["</s>", "<pad>"] {
        assert!(count(&format!("Er {name} ging.")) > count("Er ging.") + 2);
    }
}

#[test]
fn questions_that_a_metric_cannot_answer() {
    let engine = Engine::open(folder("regression").path(), &options()).unwrap();
    let texts = MetricTexts { source: Some("a"), translation: "b", reference: None };
    let error = engine.estimate(&texts).unwrap_err().to_string();
    assert!(error.contains("needs the reference"), "{error}");
    let error = engine.score(&Chat::raw("a")).unwrap_err().to_string();
    assert!(error.contains("no score head"), "{error}");
    let encoder = crate::model::tiny("xlm-roberta");
    let error = Engine::open(&encoder, &options()).unwrap().estimate(&texts).unwrap_err().to_string();
    assert!(error.contains("not a metric"), "{error}");
}

/// The error of a folder after a change to it.
fn refused(case: &str, change: impl Fn(&Path)) -> String {
    let folder = folder(case);
    change(folder.path());
    match Engine::open(folder.path(), &options()) {
        Ok(_) => panic!("{case} is opened"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn settings_and_files_that_are_refused_are_named() {
    let setting = |from: &'static str, to: &'static str| {
        move |folder: &Path| {
            let path = folder.join("hparams.yaml");
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains(from), "{text}");
            fs::write(path, text.replace(from, to)).unwrap();
        }
    };
    for (case, from, to, words) in [
        ("regression", "regression_metric", "ranking_metric", "`class_identifier` is `ranking_metric`"),
        ("regression", "encoder_model: XLM-RoBERTa", "encoder_model: BERT", "`encoder_model` is `BERT`"),
        ("regression", "pool: avg", "pool: mean", "`pool` is `mean`"),
        ("regression", "layer: mix", "layer: 9", "`layer` is 9, of 3 layers"),
        (
            "regression",
            "layer_transformation: sparsemax",
            "layer_transformation: !!python/name:x",
            "!!python/name:x",
        ),
        ("regression", "activations: Tanh", "activations: ReLU", "`activations` is `relu`"),
        ("regression", "loss: mse", "temperature: 2", "`temperature` is not a setting"),
        ("unified", "- src", "- ctx", "`input_segments` is `ctx`"),
        ("xcomet", "word_layer: 2", "word_layer: 4", "`word_layer` is 4, of 3 layers"),
    ] {
        let error = refused(case, setting(from, to));
        assert!(error.contains(words) && error.contains("hparams.yaml"), "{to}: {error}");
    }
    let error = refused("xcomet", |folder| fs::remove_file(folder.join("tokenizer.json")).unwrap());
    assert!(error.contains("`tokenizer.json` of `xlm-roberta-large`"), "{error}");
    let error = refused("xcomet", |folder| fs::remove_file(folder.join("config.json")).unwrap());
    assert!(error.contains("put `config.json` of `xlm-roberta-large` beside it"), "{error}");
    let error = refused("xcomet", |folder| {
        let path = folder.join("checkpoints/model.ckpt");
        let bytes = fs::read(&path).unwrap();
        fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    });
    assert!(error.contains("is not a whole checkpoint of PyTorch Lightning"), "{error}");
}
