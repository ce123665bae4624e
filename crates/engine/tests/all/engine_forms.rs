//! Answers under forms: those that a form forces whole, those that a budget cuts, those in a layout.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tribunal_core::llm::{Chat, Counter, Error, Finish, Layout, Llm, Reply, ResponseFormat, Sampling};
use tribunal_engine::{Engine, Options};

use crate::model::tiny;

fn engine(path: &Path, prefix_cache: bool) -> Engine {
    let options = Options { kv_bytes: Some(8 << 20), context: Some(640), prefix_cache, ..Options::default() };
    Engine::open(path, &options).unwrap()
}

fn json_form(schema: Value) -> ResponseFormat {
    let texts = [("text", "The old bridge is closed."), ("empty", "")];
    ResponseFormat::Json { schema, texts: texts.map(|(k, v)| (k.to_owned(), v.to_owned())).into() }
}

/// Forms that leave nothing to choose.
fn forced_forms() -> Vec<(&'static str, ResponseFormat)> {
    let span = json!({"type": "object", "properties": {
        "error": {"type": "string", "substringOf": "empty"}}, "required": ["error"]});
    vec![
        (
            "a single choice",
            ResponseFormat::Choice(vec!["the only answer there is, of more tokens than a block".into()]),
        ),
        ("a constant", json_form(json!({"const": "no-error"}))),
        ("an enumeration of one", json_form(json!({"enum": ["x"]}))),
        ("a fixed expression", ResponseFormat::Regex("score: 0".into())),
        ("spans of an empty text", json_form(json!({"type": "array", "items": span}))),
        (
            "a layout of one text",
            ResponseFormat::Layout { layout: "no-error".into(), texts: BTreeMap::new() },
        ),
    ]
}

fn chat() -> Chat {
    Chat::new().system("You judge.").user("Is the old bridge closed until spring?")
}

/// Texts, tokens, every bit of every log-probability.
fn bits(reply: &Reply) -> (String, Vec<(u32, u64)>, Finish) {
    let tokens = reply.tokens.iter().map(|t| (t.id, t.logprob.to_bits())).collect();
    (reply.text.clone(), tokens, reply.finish)
}

fn ask(engine: &Engine, form: &ResponseFormat, max_tokens: usize) -> Reply {
    let sampling = Sampling { temperature: 1.0, seed: 3, max_tokens, ..Sampling::default() };
    engine.ask(&chat(), form, &sampling).unwrap()
}

#[test]
fn a_form_that_forces_everything_is_answered_with_and_without_the_prefix_cache() {
    let (cached, plain) = (engine(&tiny("qwen2"), true), engine(&tiny("qwen2"), false));
    for (name, form) in forced_forms() {
        let first = ask(&cached, &form, 64);
        assert_eq!(Some(&first.text), cached.shortest(&form).unwrap().as_ref(), "{name}");
        assert_eq!(first.finish, Finish::Form, "{name}");
        let again = ask(&cached, &form, 64);
        assert!(again.usage.cached > 0, "{name}");
        let free = ask(&cached, &ResponseFormat::Text, 9);
        for (asked, of) in [(&first, &form), (&again, &form), (&free, &ResponseFormat::Text)] {
            let max_tokens = if *of == ResponseFormat::Text { 9 } else { 64 };
            assert_eq!(bits(asked), bits(&ask(&plain, of, max_tokens)), "{name}");
        }
    }
}

#[test]
fn the_next_turn_finds_a_forced_answer_in_the_cache() {
    let engine = engine(&tiny("qwen2"), true);
    let (_, form) = forced_forms().swap_remove(0);
    let answer = ask(&engine, &form, 64).text;
    let before = ask(&engine, &ResponseFormat::Text, 1).usage.cached;
    let next = chat().assistant(answer).user("Why?");
    let sampling = Sampling { max_tokens: 4, ..Sampling::default() };
    let reply = engine.ask(&next, &ResponseFormat::Text, &sampling).unwrap();
    assert!(reply.usage.cached > before, "{} after {before}", reply.usage.cached);
}

/// A model with NaN weights.
fn broken_model(folder: &Path) -> PathBuf {
    for entry in fs::read_dir(tiny("qwen2")).unwrap() {
        let from = entry.unwrap().path();
        fs::copy(&from, folder.join(from.file_name().unwrap())).unwrap();
    }
    let file = folder.join("model.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    let n_header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[8 + n_header..].fill(0xff);
    fs::write(&file, bytes).unwrap();
    folder.to_owned()
}

#[test]
fn an_answer_that_fails_leaves_the_engine_running() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&broken_model(folder.path()), true);
    // The form's first tokens are forced, so that the error comes in the middle of the answer.
    let choice = ResponseFormat::Choice(vec!["it is good".into(), "it is bad".into()]);
    // Even a form that forces everything has log-probabilities, and they would be NaN.
    for form in [&choice, &ResponseFormat::Text, &forced_forms()[0].1, &choice] {
        let sampling = Sampling { max_tokens: 64, ..Sampling::default() };
        let error = engine.ask(&chat(), form, &sampling).unwrap_err();
        assert!(matches!(&error, Error::Engine(reason) if reason.contains("not numbers")), "{error}");
    }
}

fn error_schema() -> Value {
    json!({"type": "object", "properties": {
        "errors": {"type": "array", "maxItems": 2, "items": {"type": "object", "properties": {
            "severity": {"enum": ["major", "minor"]},
            "span": {"type": "string", "substringOf": "text"},
        }, "required": ["severity", "span"]}},
        "score": {"type": "integer", "minimum": 0, "maximum": 100},
    }, "required": ["errors", "score"]})
}

fn layout() -> ResponseFormat {
    let error = Layout::sequence([
        "\n".into(),
        Layout::one_of(["accuracy/mistranslation", "fluency/grammar"]),
        " - ".into(),
        Layout::quoted(["text"]),
    ]);
    let block = |name: &str| {
        let errors = Layout::one_of(["\nno-error".into(), error.clone().repeat(1, Some(2))]);
        Layout::sequence([name.into(), errors])
    };
    let texts = BTreeMap::from([("text".to_owned(), "The old bridge is closed.".to_owned())]);
    ResponseFormat::Layout { layout: Layout::sequence([block("Major:"), block("\nMinor:")]), texts }
}

#[test]
fn a_cut_answer_begins_as_the_whole_one() {
    let engine = engine(&tiny("qwen2"), true);
    let forms = [
        ("json", json_form(error_schema())),
        ("layout", layout()),
        ("regex", ResponseFormat::Regex("[0-9]{2,40}".into())),
        (
            "choice",
            ResponseFormat::Choice(vec!["good".into(), "good, but".into(), "bad, and more so".into()]),
        ),
    ];
    for (name, form) in forms {
        let free = ask(&engine, &form, 400);
        assert_ne!(free.finish, Finish::Length, "{name}: {}", free.text);
        for budget in 1..free.tokens.len() + 3 {
            let reply = ask(&engine, &form, budget);
            if reply.finish == Finish::Length {
                assert!(reply.tokens.len() == budget, "{name}: {budget}");
                assert!(free.text.starts_with(&reply.text), "{name}: {budget}: {}", reply.text);
            } else {
                assert_eq!(bits(&reply), bits(&free), "{name}: {budget}");
            }
        }
    }
}

#[test]
fn a_layout_is_answered_the_same_with_and_without_guesses() {
    let form = layout();
    let options = Options { kv_bytes: Some(8 << 20), context: Some(640), ..Options::default() };
    let guessing = Engine::open(&tiny("qwen2"), &options).unwrap();
    let plain = Engine::open(&tiny("qwen2"), &Options { drafts: false, ..options }).unwrap();
    let mut usage = (0, 0, 0);
    for seed in 0..12 {
        let sampling = Sampling { temperature: 0.6, seed, max_tokens: 300, ..Sampling::default() };
        let [one, other] = [&guessing, &plain].map(|engine| engine.ask(&chat(), &form, &sampling).unwrap());
        assert_eq!(bits(&one), bits(&other));
        assert!(one.text.starts_with("Major:\n") && one.text.contains("\nMinor:\n"), "{}", one.text);
        for line in one.text.lines().filter(|line| line.contains('"')) {
            let span = line.split('"').nth(1).unwrap();
            assert!(!span.is_empty() && "The old bridge is closed.".contains(span), "{line}");
        }
        usage.0 += one.usage.forced;
        usage.1 += one.usage.drafted;
        usage.2 += one.usage.accepted;
    }
    assert!(usage.0 > 0 && usage.1 > 0 && usage.2 > 0, "forced, drafted, accepted: {usage:?}");
}
