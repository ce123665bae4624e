//! Every form of a strict judge, answered by random weights: each answer is whole and valid, and each span is
//! verbatim. A plain reading of the forms checks what the engine's compiler of grammars promises.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use regex::Regex;
use serde_json::Value;
use tribunal::{
    engine::Engine,
    judges::{Granularity, Panel, Settings},
    llm::{Layout, ResponseFormat, Sampling},
    random::SplitMix,
};

use crate::fakes::{Collector, document, judged, random_answer, tiny_engine};

/// Answers in all; `TRIBUNAL_ANSWERS` may name more, such as 10000.
const ANSWERS: usize = 600;

/// Every method with a form, in the variants that ask for other ones.
const REQUESTS: &[&str] = &[
    "gemba-da",
    "gemba-sqm",
    "gemba-stars",
    "gemba-classes",
    "gemba-mqm",
    "gemba-mqm:form=json,da=on",
    "gemba-esa",
    "eaprompt",
    "eaprompt:steps=1",
    "rubric-mqm",
    "rubric-mqm:scenario=deepq-4",
    "rubric-mqm:scenario=deepcat",
    "fsp:omissions=on,sentences=on",
    "fsp:score=da",
    "gmicl",
    "m-mad:shots=0",
    "himate:shots=0",
    "rate:rounds=2",
    "difficulty",
    "thinking:budget=8",
];

/// The forms of all methods; those of stages that only some answers lead to come with luck.
fn forms() -> (Engine, Vec<ResponseFormat>) {
    let engine = tiny_engine("qwen2", 8, 2048);
    let collector = Arc::new(Collector::over(engine));
    let rated = tempfile::NamedTempFile::new().unwrap();
    let line = r#"{"source_lang":"A","source":"s","target_lang":"B","target":"t","errors":[]}"#;
    std::fs::write(rated.path(), [line; 5].join("\n")).unwrap();
    for request in REQUESTS {
        let shots = (*request == "gmicl").then(|| rated.path().into());
        let granularity = request.starts_with("fsp").then_some(Granularity::Seg);
        let judge =
            tribunal::replication::build(request, &Settings { shots, granularity, ..Settings::default() })
                .unwrap();
        for seed in 0..3 {
            let panel = Panel::new(collector.clone(), Sampling { seed, ..Sampling::default() });
            judged(&judge, &panel, &document()[..1]);
        }
    }
    Arc::into_inner(collector).unwrap().parts()
}

#[test]
fn answers_of_random_weights_are_valid_and_their_spans_verbatim() {
    let (engine, forms) = forms();
    let kinds: BTreeSet<&str> = forms
        .iter()
        .map(|form| match form {
            ResponseFormat::Text => "text",
            ResponseFormat::Json { .. } => "json",
            ResponseFormat::Regex(_) => "regex",
            ResponseFormat::Choice(_) => "choice",
            ResponseFormat::Layout { .. } => "layout",
        })
        .collect();
    assert!(forms.len() >= 20 && kinds.len() == 4, "{} forms of {kinds:?}", forms.len());
    let n = std::env::var("TRIBUNAL_ANSWERS").ok().map_or(ANSWERS, |n| n.parse().unwrap());
    let mut random = SplitMix(1);
    let mut n_spans = 0;
    for form in &forms {
        let fresh = engine.grammar(form).unwrap().unwrap();
        for _ in 0..n.div_ceil(forms.len()) {
            let (n_free, seed) = (random.draw() as usize % 80, random.draw());
            let answer = random_answer(fresh.clone(), engine.tokenizer(), n_free, seed);
            assert!(holds(form, &answer, &mut n_spans), "seed {seed}: {answer:?}\n{form:?}");
        }
    }
    assert!(n_spans > n / 20, "{n_spans} spans");
    println!("{} forms, {n} answers, {n_spans} spans", forms.len());
}

/// Returns true if an answer matches its form, and adds to the number of its spans.
fn holds(form: &ResponseFormat, answer: &str, n_spans: &mut usize) -> bool {
    match form {
        ResponseFormat::Text => true,
        ResponseFormat::Choice(texts) => texts.iter().any(|text| text == answer),
        ResponseFormat::Regex(source) => whole(source).is_match(answer),
        ResponseFormat::Json { schema, texts } => match serde_json::from_str(answer) {
            Ok(value) => Schema { texts, n_spans }.allows(&value, schema),
            Err(_) => false,
        },
        ResponseFormat::Layout { layout, texts } => {
            *n_spans += answer.matches('"').count() / 2;
            ends(layout, texts, answer, 0).contains(&answer.len())
        }
    }
}

fn whole(source: &str) -> Regex {
    Regex::new(&format!("^(?:{source})$")).unwrap()
}

/// A plain reading of the keywords that our schemas use.
struct Schema<'a> {
    texts: &'a BTreeMap<String, String>,
    n_spans: &'a mut usize,
}

impl Schema<'_> {
    fn allows(&mut self, value: &Value, schema: &Value) -> bool {
        if let Some(branches) = schema["anyOf"].as_array() {
            return branches.iter().any(|branch| self.allows(value, branch));
        }
        let known = ["type", "properties", "required", "items", "enum", "const", "description", "title"];
        let limits = ["minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "substringOf"];
        for key in schema.as_object().unwrap().keys() {
            let is_known = known.contains(&key.as_str()) || limits.contains(&key.as_str());
            assert!(is_known || key.starts_with("x-"), "`{key}` is not checked here");
        }
        let listed = schema["enum"].as_array().is_none_or(|values| values.contains(value));
        let constant = schema.get("const").is_none_or(|constant| constant == value);
        let is_a = match schema["type"].as_str() {
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("integer") => value.is_i64(),
            Some("number") => value.is_number(),
            Some("boolean") => value.is_boolean(),
            _ => true,
        };
        listed && constant && is_a && self.details(value, schema)
    }

    fn details(&mut self, value: &Value, schema: &Value) -> bool {
        let within = |least: &str, most: &str, n: f64| {
            schema[least].as_f64().is_none_or(|min| n >= min)
                && schema[most].as_f64().is_none_or(|max| n <= max)
        };
        match value {
            Value::Object(map) => {
                let mut required = schema["required"].as_array().into_iter().flatten();
                required.all(|key| map.contains_key(key.as_str().unwrap()))
                    && map.iter().all(|(key, value)| {
                        schema["properties"].get(key).is_some_and(|schema| self.allows(value, schema))
                    })
            }
            Value::Array(items) => {
                within("minItems", "maxItems", items.len() as f64)
                    && items.iter().all(|item| self.allows(item, &schema["items"]))
            }
            Value::String(text) => {
                let may_be_empty = schema["minLength"] == 0;
                let names = match &schema["substringOf"] {
                    Value::Null => return within("minLength", "maxLength", text.chars().count() as f64),
                    Value::Array(names) => names.clone(),
                    name => vec![name.clone()],
                };
                *self.n_spans += usize::from(!text.is_empty());
                let is_span =
                    names.iter().any(|name| self.texts[name.as_str().unwrap()].contains(text.as_str()));
                is_span
                    && (may_be_empty || !text.is_empty())
                    && within("minLength", "maxLength", text.chars().count() as f64)
            }
            Value::Number(n) => within("minimum", "maximum", n.as_f64().unwrap()),
            _ => true,
        }
    }
}

/// Possible ends of an answer that the layout begins to read at `from`, by a plain and slow method.
fn ends(layout: &Layout, texts: &BTreeMap<String, String>, answer: &str, from: usize) -> BTreeSet<usize> {
    let step = |heads: &BTreeSet<usize>, part: &Layout| -> BTreeSet<usize> {
        heads.iter().flat_map(|&head| ends(part, texts, answer, head)).collect()
    };
    let later = |at: &usize| answer.is_char_boundary(*at);
    match layout {
        Layout::Literal(text) => {
            answer[from..].starts_with(text).then(|| from + text.len()).into_iter().collect()
        }
        Layout::Matching(source) => {
            let whole = whole(source);
            (from..=answer.len()).filter(later).filter(|&to| whole.is_match(&answer[from..to])).collect()
        }
        Layout::Span { texts: names, without } => {
            let is_span = |at: &usize| {
                let span = &answer[from..*at];
                names.iter().any(|name| texts[name].contains(span)) && !span.contains(|c| without.contains(c))
            };
            (from + 1..=answer.len()).filter(later).filter(is_span).collect()
        }
        Layout::Sequence(parts) => {
            parts.iter().fold(BTreeSet::from([from]), |heads, part| step(&heads, part))
        }
        Layout::OneOf(parts) => parts.iter().flat_map(|part| ends(part, texts, answer, from)).collect(),
        Layout::Repeat { part, min, max } => {
            let (mut heads, mut all) = (BTreeSet::from([from]), BTreeSet::new());
            for n in 0..=max.unwrap_or(answer.len()) {
                if n >= *min {
                    all.extend(&heads);
                }
                heads = step(&heads, part);
            }
            all
        }
    }
}
