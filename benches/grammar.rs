//! The cost of a form: building its grammar, and the mask of one token at several places of an answer.
//!
//! `cargo bench --bench grammar`; it takes the model that `TRIBUNAL_BENCH_MODEL` names, a GGUF file, for its
//! vocabulary.
#![expect(clippy::print_stderr, reason = "a benchmark's note")]

use std::{collections::BTreeMap, path::PathBuf};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use serde_json::json;
use tribunal::{
    engine::{Engine, Options},
    llm::ResponseFormat,
};

/// An MQM answer with spans of a sentence.
fn form() -> ResponseFormat {
    let text = "Die alte Brücke ist bis zum Frühjahr gesperrt, deshalb fahren alle über die Ringstraße.";
    let error = json!({
        "type": "object",
        "properties": {
            "category": {"enum": ["accuracy/mistranslation", "accuracy/omission", "fluency/grammar", "style"]},
            "span": {"type": "string", "substringOf": "text"},
            "severity": {"enum": ["critical", "major", "minor"]},
            "explanation": {"type": "string"},
        },
        "required": ["category", "span", "severity", "explanation"],
    });
    let schema = json!({
        "type": "object",
        "properties": {"errors": {"type": "array", "items": error, "maxItems": 10}},
        "required": ["errors"],
    });
    ResponseFormat::Json { schema, texts: BTreeMap::from([("text".to_owned(), text.to_owned())]) }
}

/// Places of an answer, by what stands before them.
const PLACES: [(&str, &str); 4] = [
    ("category", r#"{"errors": [{"category": ""#),
    ("span, first token", r#"{"errors": [{"category": "style", "span": ""#),
    ("span, inside", r#"{"errors": [{"category": "style", "span": "Die alte"#),
    (
        "explanation",
        r#"{"errors": [{"category": "style", "span": "Die", "severity": "minor", "explanation": "It is"#,
    ),
];

fn benches(criterion: &mut Criterion) {
    let Some(path) = std::env::var_os("TRIBUNAL_BENCH_MODEL").map(PathBuf::from) else {
        eprintln!("TRIBUNAL_BENCH_MODEL is not set: no vocabulary to build masks for");
        return;
    };
    let engine = Engine::open(&path, &Options::default()).expect("a model");
    let form = form();
    criterion.bench_function("build", |b| b.iter(|| engine.grammar(&form).expect("a grammar")));
    for (name, before) in PLACES {
        let mut grammar = engine.grammar(&form).expect("a form").expect("constrained");
        for id in engine.tokenizer().encode_data(before).expect("plain text") {
            grammar.advance(id).expect("the answer conforms");
        }
        criterion.bench_function(&format!("mask: {name}"), |b| {
            b.iter_batched(|| grammar.clone(), |mut g| g.mask(), BatchSize::SmallInput);
        });
    }
}

criterion_group!(grammar, benches);
criterion_main!(grammar);
