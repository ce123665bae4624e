//! Answers shared by several methods: their forms, and their readers. Nothing here depends on a method.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::llm::ResponseFormat;

pub mod errors;

pub mod blocks;

pub mod rating;

pub mod chances;

pub mod fields;

/// A JSON form with spans of these texts, given by their names; those of an empty text are taken out of the
/// schema.
pub fn form_about(mut schema: Value, texts: [(&str, &str); 2]) -> ResponseFormat {
    let texts = texts.iter().filter(|(_, text)| !text.is_empty());
    let texts = texts.map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    restrict_to(&mut schema, &texts);
    ResponseFormat::Json { schema, texts }
}

/// Takes the spans of absent texts out of a schema: alternatives that need one go, lists of texts shrink, and
/// where none is left the span is the empty string.
fn restrict_to(schema: &mut Value, texts: &BTreeMap<String, String>) {
    let is_absent = |value: &Value| value.as_str().is_some_and(|name| !texts.contains_key(name));
    match schema {
        Value::Array(items) => items.iter_mut().for_each(|item| restrict_to(item, texts)),
        Value::Object(object) => {
            if let Some(Value::Array(alternatives)) = object.get_mut("anyOf") {
                let lacks = |property: &Value| property.get("substringOf").is_some_and(is_absent);
                let properties = |a: &Value| a.get("properties").and_then(Value::as_object).cloned();
                alternatives.retain(|a| !properties(a).is_some_and(|all| all.values().any(lacks)));
            }
            let is_empty = match object.get_mut("substringOf") {
                Some(Value::Array(names)) => {
                    names.retain(|name| !is_absent(name));
                    names.is_empty()
                }
                name => name.is_some_and(|name| is_absent(name)),
            };
            if is_empty {
                *object = serde_json::Map::from_iter([("const".to_owned(), json!(""))]);
            }
            object.values_mut().for_each(|value| restrict_to(value, texts));
        }
        _ => {}
    }
}
