//! Answers conform by construction: random walks under the mask against a plain check of the schema.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Instant;

use proptest::prelude::*;
use serde_json::{Value, json};
use tribunal_core::random::SplitMix;

use super::*;
use crate::tokenizer::tests::{model, tiny};

#[path = "../../../../tests/all/fakes/random_answer.rs"]
mod random_answer;

pub(super) use random_answer::random_answer;

pub(super) fn tiny_vocabulary() -> &'static Vocabulary {
    static VOCABULARY: OnceLock<Vocabulary> = OnceLock::new();
    VOCABULARY.get_or_init(|| Vocabulary::new(&Arc::new(tiny()), 0).unwrap())
}

fn texts() -> BTreeMap<String, String> {
    let source = "He said \"wäre\" – or so; 大众点评 👩‍👩‍👧 C:\\temp\tx.\nSecond line\u{1}";
    let target = "Er sagte: \u{ab}wäre\u{bb} e\u{301}, 3 < 4 <|im_end|>";
    let none = "";
    [("source", source), ("target", target), ("none", none)].map(|(k, v)| (k.to_owned(), v.to_owned())).into()
}

fn schemas() -> Vec<Value> {
    let error = json!({
        "type": "object",
        "properties": {
            "category": {"type": "string", "enum": ["accuracy/mistranslation", "fluency", "other"]},
            "span": {"type": "string", "substringOf": "target"},
            "explanation": {"type": "string", "maxLength": 40},
            "severity": {"enum": ["critical", "major", "minor"]},
        },
        "required": ["category", "span", "severity"],
    });
    let either = json!({"anyOf": [
        {"type": "object", "properties": {
            "category": {"const": "omission"}, "span": {"type": "string", "substringOf": "source", "maxLength": 9},
        }, "required": ["category", "span"]},
        {"type": "object", "properties": {
            "category": {"enum": ["addition", "other"]},
            "span": {"type": "string", "substringOf": ["source", "target"], "minLength": 0},
        }, "required": ["category", "span"]},
        {"type": "object", "properties": {"span": {"type": "string", "substringOf": "none"}}, "required": ["span"]},
    ]});
    vec![
        json!({"type": "object", "properties": {
            "errors": {"type": "array", "items": error},
            "quality_score": {"type": "integer", "minimum": 0, "maximum": 100},
        }, "required": ["errors", "quality_score"]}),
        json!({"type": "object", "x-indent": 2, "properties": {
            "a": {"type": "array", "items": either, "minItems": 1, "maxItems": 3},
            "b": {"type": "boolean"},
            "c": {"type": ["null", "number"], "minimum": -3, "maximum": 12},
        }, "required": ["a"]}),
        json!({"type": "array", "minItems": 2, "maxItems": 4, "items": {"$ref": "#/$defs/id"},
            "$defs": {"id": {"type": "string", "pattern": "^[a-z]{2,3}-[0-9]+$"}}}),
        json!({"type": "object", "properties": {
            "x": {"type": "string", "minLength": 3}, "y": {"type": "integer", "exclusiveMinimum": 9},
            "z": {"type": "array", "items": {"type": "string", "substringOf": "none"}},
        }}),
    ]
}

/// Returns true if a value conforms; a plain reading of the keywords in the schemas above.
fn conforms(value: &Value, schema: &Value, root: &Value) -> bool {
    if let Some(name) = schema["$ref"].as_str() {
        return conforms(value, root.pointer(&name[1..]).unwrap(), root);
    }
    if let Some(branches) = schema["anyOf"].as_array() {
        return branches.iter().any(|branch| conforms(value, branch, root));
    }
    let list_allows = schema["enum"].as_array().is_none_or(|values| values.contains(value));
    let const_allows = schema.get("const").is_none_or(|constant| constant == value);
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        _ => value.is_null(),
    };
    let kind_allows = match &schema["type"] {
        Value::String(kind) => is(kind),
        Value::Array(kinds) => kinds.iter().any(|kind| is(kind.as_str().unwrap())),
        _ => true,
    };
    list_allows && const_allows && kind_allows && details(value, schema, root)
}

fn details(value: &Value, schema: &Value, root: &Value) -> bool {
    let at_least = |key: &str, n: f64| schema[key].as_f64().is_none_or(|min| n >= min);
    let at_most = |key: &str, n: f64| schema[key].as_f64().is_none_or(|max| n <= max);
    match value {
        Value::Object(map) => {
            let known = map.iter().all(|(k, v)| conforms(v, &schema["properties"][k], root));
            let required = schema["required"].as_array().into_iter().flatten();
            let order = schema["properties"].as_object().unwrap().keys().filter(|k| map.contains_key(*k));
            known
                && required.into_iter().all(|k| map.contains_key(k.as_str().unwrap()))
                && order.eq(map.keys())
        }
        Value::Array(items) => {
            let n = items.len() as f64;
            items.iter().all(|v| conforms(v, &schema["items"], root))
                && at_least("minItems", n)
                && at_most("maxItems", n)
        }
        Value::String(text) => {
            let n = text.chars().count() as f64;
            let spans = match &schema["substringOf"] {
                Value::Null => true,
                Value::String(name) => texts()[name].contains(text.as_str()),
                names => names
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|t| texts()[t.as_str().unwrap()].contains(text.as_str())),
            };
            let unset = !schema["substringOf"].is_null() && schema["minLength"].is_null();
            spans && at_least("minLength", n) && at_most("maxLength", n) && !(unset && text.is_empty())
        }
        Value::Number(n) => {
            let n = n.as_f64().unwrap();
            at_least("minimum", n)
                && at_most("maximum", n)
                && schema["exclusiveMinimum"].as_f64().is_none_or(|m| n > m)
        }
        _ => true,
    }
}

pub(super) fn allowed(mask: &[u32]) -> Vec<u32> {
    let bits = |(word, bits): (usize, &u32)| {
        let bits = *bits;
        (0..32).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word as u32 * 32 + bit)
    };
    mask.iter().enumerate().flat_map(bits).collect()
}

#[track_caller]
fn check_walk(vocabulary: &Vocabulary, schema: &Value, n_free: usize, seed: u64) {
    let form = ResponseFormat::Json { schema: schema.clone(), texts: texts() };
    let text =
        random_answer(vocabulary.grammar(&form).unwrap().unwrap(), &vocabulary.tokenizer, n_free, seed);
    let value: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}, seed {seed}: {text}"));
    assert!(conforms(&value, schema, schema), "seed {seed}: {text}\n{schema}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn random_walks_conform(which in 0..4_usize, n_free in 0..150_usize, seed in any::<u64>()) {
        check_walk(tiny_vocabulary(), &schemas()[which], n_free, seed);
    }
}

#[test]
fn random_walks_conform_with_a_real_vocabulary() {
    for card in ["smollm2-135m-instruct", "qwen2.5-coder-0.5b-instruct", "gemma-3-270m"] {
        let Some(tokenizer) = model(card) else { continue };
        let vocabulary = Vocabulary::new(&Arc::new(tokenizer), 0).unwrap();
        for (which, schema) in schemas().iter().enumerate() {
            for seed in 0..6 {
                check_walk(&vocabulary, schema, seed * 17, (1000 * which + seed) as u64);
            }
        }
    }
}

#[test]
fn the_shortest_answers_are_as_expected() {
    for (schema, want) in [
        (schemas()[0].clone(), r#"{"errors": [], "quality_score": 0}"#),
        (schemas()[2].clone(), r#"["aa-0", "aa-0"]"#),
        (schemas()[3].clone(), "{}"),
        (json!({"type": "array", "items": {"type": "string", "substringOf": "none"}}), "[]"),
        (json!({"type": "string", "substringOf": "none", "minLength": 0}), "\"\""),
    ] {
        let shape = schema::shape(&schema, &texts()).unwrap();
        assert_eq!(String::from_utf8(shape.shortest().unwrap()).unwrap(), want);
    }
}

/// Drives a form with a given text; returns true if the answer may end after it.
pub(super) fn accepts(form: &ResponseFormat, text: &str) -> bool {
    let vocabulary = tiny_vocabulary();
    let mut grammar = vocabulary.grammar(form).unwrap().unwrap();
    for token in text.bytes() {
        let id = (0..vocabulary.tokenizer.vocab_size() as u32)
            .find(|&id| vocabulary.tokenizer.bytes(id) == [token]);
        if grammar.must_stop() || grammar.advance(id.unwrap()).is_err() {
            return false;
        }
    }
    grammar.may_stop()
}

#[test]
fn spans_are_verbatim_and_never_empty() {
    let form = |schema: Value| ResponseFormat::Json { schema, texts: texts() };
    let span = form(json!({"type": "string", "substringOf": "source"}));
    for good in
        [r#""He""#, r#""\"wäre\"""#, r#""C:\\temp\tx.\nSecond""#, r#""大众""#, r#""line\u0001""#, "\"👩‍👩‍👧 C\""]
    {
        assert!(accepts(&span, good), "{good}");
    }
    for bad in [r#""""#, r#""he""#, r#""Hesaid""#, r#""\u0048e""#, "\"👩\"", r#""He"#, "He"] {
        assert!(!accepts(&span, bad), "{bad}");
    }
    let long = form(json!({"type": "string", "substringOf": "source", "minLength": 2, "maxLength": 4}));
    assert!(accepts(&long, r#""\"wär""#) && !accepts(&long, r#""\"wäre""#) && !accepts(&long, r#""H""#));
    let empty = form(json!({"type": "string", "substringOf": "source", "minLength": 0}));
    assert!(accepts(&empty, r#""""#) && accepts(&empty, r#""He""#));
}

#[test]
fn each_value_has_one_spelling() {
    let form = ResponseFormat::json(schemas()[3].clone());
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "integer"}, "b": {"type": "boolean"}, "c": {"type": "null"}}, "required": ["b"]});
    let three = ResponseFormat::json(schema);
    for good in [
        r#"{"b": true}"#,
        r#"{"a": -5, "b": false}"#,
        r#"{"b": true, "c": null}"#,
        r#"{"a": 0, "b": true, "c": null}"#,
    ] {
        assert!(accepts(&three, good), "{good}");
    }
    for bad in [
        "{}",
        r#"{"b":true}"#,
        r#"{ "b": true}"#,
        r#"{"c": null, "b": true}"#,
        r#"{"a": 01, "b": true}"#,
        r#"{"a": 1}"#,
    ] {
        assert!(!accepts(&three, bad), "{bad}");
    }
    assert!(matches!(tiny_vocabulary().grammar(&form), Err(Error::Form(_))), "its text is not given");
}

#[test]
fn regular_expressions_and_choices_hold_for_the_whole_answer() {
    let score = ResponseFormat::Regex("[0-9]{1,2}|100".into());
    assert!(accepts(&score, "7") && accepts(&score, "85") && accepts(&score, "100"));
    assert!(!accepts(&score, "") && !accepts(&score, "101") && !accepts(&score, "8 "));
    let choice = ResponseFormat::Choice(vec!["major".into(), "majority".into(), "a \"b\"\n/é".into()]);
    for good in ["major", "majority", "a \"b\"\n/é"] {
        assert!(accepts(&choice, good), "{good}");
    }
    assert!(!accepts(&choice, "majorit") && !accepts(&choice, "minor"));
    let mut grammar = tiny_vocabulary().grammar(&choice).unwrap().unwrap();
    for id in tiny_vocabulary().tokenizer.encode_data("major").unwrap() {
        grammar.advance(id).unwrap();
    }
    assert!(grammar.may_stop() && !grammar.must_stop(), "`majority` is still possible");
    let stop = tiny_vocabulary().tokenizer.stops()[0];
    assert!(allowed(&grammar.mask().unwrap()).contains(&stop));
    grammar.advance(stop).unwrap();
    assert!(grammar.must_stop());
}

#[test]
fn stop_tokens_wait_for_the_end_and_control_tokens_never_come() {
    let tokenizer = &tiny_vocabulary().tokenizer;
    let form = ResponseFormat::json(
        json!({"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}),
    );
    let mut grammar = tiny_vocabulary().grammar(&form).unwrap().unwrap();
    for id in tokenizer.encode_data("{\"x\": \"<|im_").unwrap() {
        assert!(!allowed(&grammar.mask().unwrap()).iter().any(|&id| tokenizer.is_control(id)));
        grammar.advance(id).unwrap();
    }
    assert!(!allowed(&grammar.mask().unwrap()).iter().any(|&id| tokenizer.is_control(id)));
    assert!(grammar.advance(tokenizer.stops()[0]).is_err());
}

#[test]
fn forced_tokens_and_rollback() {
    let tokenizer = &tiny_vocabulary().tokenizer;
    let form = ResponseFormat::Json { schema: schemas()[0].clone(), texts: texts() };
    let mut grammar = tiny_vocabulary().grammar(&form).unwrap().unwrap();
    let before = grammar.mask().unwrap();
    assert!(grammar.fast_forward(3).unwrap().is_empty(), "they are more than three");
    assert_eq!(grammar.mask().unwrap(), before);
    let forced = grammar.fast_forward(99).unwrap();
    assert_eq!(tokenizer.decode(&forced), "{\"errors\": [", "up to the first choice");
    let after = grammar.mask().unwrap();
    grammar.rollback(forced.len()).unwrap();
    assert_eq!(grammar.mask().unwrap(), before);
    for &id in &forced {
        grammar.advance(id).unwrap();
    }
    assert_eq!(grammar.mask().unwrap(), after);
    assert!(grammar.fast_forward(99).unwrap().is_empty(), "a choice");
    assert!(grammar.rollback(99).is_err());
}

#[test]
fn what_cannot_be_promised_is_refused() {
    let refused = |schema: Value| {
        let form = ResponseFormat::Json { schema, texts: texts() };
        tiny_vocabulary().grammar(&form).err().map(|e| e.to_string()).unwrap_or_default()
    };
    assert!(refused(json!({"type": "string", "substringOf": "nothing"})).contains("`nothing`"));
    assert!(refused(json!({"type": "string", "substringOf": "none"})).contains("empty"));
    assert!(
        refused(json!({"type": "string", "substringOf": "source", "format": "date"})).contains("`format`")
    );
    assert!(refused(json!({"type": "object", "properties": {}, "required": ["x"]})).contains("`x`"));
    assert!(refused(json!({"type": "integer", "minimum": 3, "maximum": 2})).contains("`maximum`"));
    assert!(refused(json!({"enum": []})).contains("`enum`"));
    assert!(tiny_vocabulary().grammar(&ResponseFormat::Choice(Vec::new())).is_err());
    assert!(tiny_vocabulary().grammar(&ResponseFormat::Regex("(".into())).is_err());
    assert!(tiny_vocabulary().grammar(&ResponseFormat::Text).unwrap().is_none());
}

#[test]
fn recursive_schemas_hold_or_say_why_not() {
    let node = |next: Value| json!({"$ref": "#/$defs/n", "$defs": {"n": next}});
    let n = || json!({"$ref": "#/$defs/n"});
    let object = |required: bool, next: Value| {
        let required: &[&str] = if required { &["next"] } else { &[] };
        node(json!({"type": "object", "properties": {"next": next}, "required": required,
            "additionalProperties": false}))
    };
    let or_null = || json!({"oneOf": [n(), {"type": "null"}]});
    for (schema, answer) in [
        (object(false, n()), r#"{"next": {"next": {}}}"#),
        (object(true, or_null()), r#"{"next": {"next": null}}"#),
        (node(json!({"type": "array", "items": n()})), "[[], [[]]]"),
        (node(json!({"anyOf": [n(), {"type": "integer"}]})), "7"),
    ] {
        assert!(accepts(&ResponseFormat::json(schema.clone()), answer), "{schema}");
    }
    let endless = "`$ref`s lead back to themselves without end";
    let beside = json!({"type": "array", "items": {"$ref": "#/$defs/n", "minItems": 1}});
    for (schema, reason) in [
        (json!({"$ref": "#"}), endless),
        (node(n()), endless),
        (node(json!({"anyOf": [{"$ref": "#"}]})), endless),
        (object(true, n()), endless),
        (node(json!({"type": "array", "items": n(), "minItems": 1})), endless),
        (node(beside), "circular references with sibling keys"),
        (json!({"$ref": "#/$defs/none"}), "not found in '#/$defs/none'"),
    ] {
        let refused =
            tiny_vocabulary().grammar(&ResponseFormat::json(schema.clone())).err().unwrap().to_string();
        assert!(refused.contains(reason) && refused.lines().count() == 1, "{schema}: {refused}");
    }
}

#[test]
fn schemas_beyond_our_own_go_to_llguidance() {
    let form = ResponseFormat::json(
        json!({"type": "object", "properties": {"d": {"type": "string", "format": "date"}},
        "required": ["d"], "additionalProperties": false}),
    );
    assert!(accepts(&form, r#"{"d": "2024-07-26"}"#) && !accepts(&form, r#"{"d":  "2024-07-26"}"#));
    assert_eq!(shortest(&form).unwrap(), None);
}

/// A whole document as the text of spans compiles and stays within llguidance's limits. Prints the times.
#[test]
fn a_document_of_spans_compiles() {
    let Some(tokenizer) = model("smollm2-135m-instruct") else { return };
    let started = Instant::now();
    let vocabulary = Vocabulary::new(&Arc::new(tokenizer), 0).unwrap();
    eprintln!("vocabulary tree: {:?}", started.elapsed());
    let sentence = "The ministers met again in Vienna on Tuesday; no. 12 said \"perhaps\", others nothing. ";
    for n_sentences in [1, 5, 50, 200] {
        let text = (0..n_sentences).map(|i| i.to_string()).collect::<Vec<_>>().join(sentence) + sentence;
        let texts = [("target".to_owned(), text.clone())].into();
        let schema = json!({"type": "array", "items": {"type": "string", "substringOf": "target"}});
        let started = Instant::now();
        let mut grammar = vocabulary.grammar(&ResponseFormat::Json { schema, texts }).unwrap().unwrap();
        let built = started.elapsed();
        let answer = format!("[{}, {}]", json!(&text[3..70]), json!(&text[text.len() - 40..]));
        let [mut slowest, mut total] = [std::time::Duration::ZERO; 2];
        let ids = vocabulary.tokenizer.encode_data(&answer).unwrap();
        for &id in &ids {
            let started = Instant::now();
            let mask = grammar.mask().unwrap();
            let took = started.elapsed();
            assert!(
                mask[id as usize / 32] >> (id % 32) & 1 == 1 || grammar.matcher.compute_ff_tokens() != [id]
            );
            (slowest, total) = (took.max(slowest), total + took);
            grammar.advance(id).unwrap();
        }
        assert!(grammar.must_stop());
        let n = ids.len() as u32;
        eprintln!("{} chars: built in {built:?}, mask {:?} (slowest {slowest:?})", text.len(), total / n);
    }
}

#[test]
fn a_list_of_errors_or_of_one_other_thing() {
    let error = |span: &str| {
        json!({"type": "object", "properties": {
            "category": {"enum": ["style", "fluency"]},
            "span": {"type": "string", "substringOf": span},
        }, "required": ["category", "span"]})
    };
    let alone = json!({"type": "object", "properties": {
        "category": {"const": "non-translation"}, "span": {"const": "all"},
    }, "required": ["category", "span"]});
    let either = |span: &str| {
        json!({"type": "object", "properties": {"thoughts": {"type": "string", "maxLength": 80}, "errors": {"anyOf": [
            {"type": "array", "maxItems": 3, "items": error(span)},
            {"type": "array", "minItems": 1, "maxItems": 1, "items": alone},
        ]}}, "required": ["thoughts", "errors"]})
    };
    let answer = |errors: &str| format!(r#"{{"thoughts": "x", "errors": [{errors}]}}"#);
    let (style, other) =
        (r#"{"category": "style", "span": "sagte"}"#, r#"{"category": "non-translation", "span": "all"}"#);
    for span in ["target", "none"] {
        for seed in 1..10 {
            check_walk(tiny_vocabulary(), &either(span), seed * 9, seed as u64);
        }
        let form = ResponseFormat::Json { schema: either(span), texts: texts() };
        assert!(accepts(&form, &answer("")) && accepts(&form, &answer(other)));
        assert_eq!(accepts(&form, &answer(&format!("{style}, {style}"))), span == "target");
        assert!(!accepts(&form, &answer(&format!("{other}, {other}"))));
        assert!(!accepts(&form, &answer(&format!("{style}, {other}"))));
    }
}

#[test]
fn the_shortest_answer_of_a_form_is_one_that_it_accepts() {
    let json = |schema: Value| ResponseFormat::Json { schema, texts: texts() };
    for (form, want) in [
        (json(schemas()[0].clone()), r#"{"errors": [], "quality_score": 0}"#),
        (json(json!({"type": "string", "substringOf": "target"})), r#""E""#),
        (ResponseFormat::Choice(vec!["perhaps".into(), "yes".into()]), "yes"),
        (ResponseFormat::Choice(vec!["only".into()]), "only"),
        (ResponseFormat::Regex("score: [0-9]+".into()), "score: 0"),
    ] {
        assert_eq!(shortest(&form).unwrap().as_deref(), Some(want));
        assert!(accepts(&form, want), "{want}");
    }
    assert_eq!(shortest(&ResponseFormat::Text).unwrap(), None, "free text is no answer");
    let date = json!({"type": "object", "properties": {"d": {"type": "string", "format": "date"}}});
    assert_eq!(shortest(&ResponseFormat::json(date)).unwrap(), None, "its end is not known");
    assert!(shortest(&ResponseFormat::Choice(Vec::new())).is_err());
}
