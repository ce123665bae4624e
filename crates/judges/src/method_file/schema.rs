//! Checks a schema of JSON answers against the fields that are read. Answers are neither written nor read
//! here.

use std::cell::Cell;

use serde_json::Value;

use super::Fault;
use crate::{
    answers::fields::{ErrorList, FieldPath, Fields, Form, Number, Places, TEXTS},
    setup,
};

/// The most parts of a schema that are looked at, and the most references and choices within each other.
const MAX_PARTS: usize = 10_000;
const MAX_DEPTH: usize = 32;

/// The types of a number, and of a word that stands for one or leaves it out.
const NUMBERS: &[&str] = &["number", "integer", "string", "null"];

/// The type of a severity, a span and a category.
const WORDS: &[&str] = &["string"];

/// Checks that every field that is read has a place in the schema, with values that can be read, and that
/// spans are copied from texts that exist. Other forms than a schema have no fields.
///
/// # Errors
/// The reason why an answer of this form cannot be read.
pub fn check(fields: &Fields) -> Result<(), Fault> {
    let Form::Schema(root) = &fields.form else { return Ok(()) };
    let schema = Schema { root, n_left: Cell::new(MAX_PARTS) };
    if let Some(number) = &fields.number {
        schema.check_number(number)?;
    }
    if let Some(errors) = &fields.errors {
        schema.check_errors(errors)?;
    }
    check_spans(root).map_err(|reason| Fault::new("schema", reason))
}

struct Schema<'s> {
    root: &'s Value,
    /// Parts that may still be looked at.
    n_left: Cell<usize>,
}

impl<'s> Schema<'s> {
    fn check_number(&self, number: &Number) -> Result<(), Fault> {
        let Places::Mean(fields) = &number.places else { return Ok(()) };
        for (path, _) in fields {
            let fault = |reason: String| Fault::new(&path.0, reason);
            for value in self.alternatives(&self.at(path).map_err(fault)?, 0).map_err(fault)? {
                check_type(value, &path.0, NUMBERS).map_err(fault)?;
                let readable = listed(value).try_for_each(|value| number.of_value(value).map(drop));
                readable
                    .map_err(|reason| fault(format!("a value of the schema cannot be read: {reason}")))?;
            }
        }
        Ok(())
    }

    fn check_errors(&self, errors: &ErrorList) -> Result<(), Fault> {
        let of_list = |reason: String| Fault::new("list", reason);
        let lists = self.alternatives(&self.at(&errors.list).map_err(of_list)?, 0).map_err(of_list)?;
        let items: Option<Vec<&Value>> = lists.iter().map(|list| list.get("items")).collect();
        let items =
            items.ok_or_else(|| of_list(format!("`{}` must be an array with `items`", errors.list.0)))?;
        if let Some(name) = &errors.explanation {
            self.field(&items, name).map_err(|reason| Fault::new("explanation", reason))?;
        }
        let words = |key: &str, name: &str| {
            let fields = self.field(&items, name).and_then(|fields| self.alternatives(&fields, 0));
            let is_word = |field: &&Value| check_type(field, name, WORDS);
            fields
                .and_then(|fields| fields.iter().try_for_each(is_word).map(|()| fields))
                .map_err(|reason| Fault::new(key, reason))
        };
        words("span", &errors.span)?;
        words("category", &errors.category)?;
        for severity in words("severity", &errors.severity)? {
            let mut known = listed(severity).filter_map(Value::as_str);
            known
                .try_for_each(|word| errors.severity_of(word).map(drop))
                .map_err(|reason| Fault::new("severity", reason))?;
        }
        Ok(())
    }

    /// The schemas of the values at a path.
    fn at(&self, path: &FieldPath) -> Result<Vec<&'s Value>, String> {
        path.names().try_fold(vec![self.root], |schemas, name| self.field(&schemas, name))
    }

    /// The schemas of a field of objects, each of which must have it.
    fn field(&self, objects: &[&'s Value], name: &str) -> Result<Vec<&'s Value>, String> {
        let of = |schema: &&'s Value| schema.get("properties").and_then(|all| all.get(name));
        let alternatives = self.alternatives(objects, 0)?;
        let found = alternatives
            .iter()
            .map(|schema| of(schema).ok_or_else(|| format!("the schema has no property `{name}`")));
        found.collect()
    }

    /// The alternatives of these schemas: those of `anyOf` and `oneOf`, behind references.
    fn alternatives(&self, schemas: &[&'s Value], depth: usize) -> Result<Vec<&'s Value>, String> {
        let mut all = Vec::new();
        for schema in schemas {
            self.n_left.set(self.n_left.get().saturating_sub(1));
            if depth > MAX_DEPTH || self.n_left.get() == 0 {
                return Err("the schema has too many references and choices within each other".into());
            }
            let choices = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array);
            if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
                let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
                let target = target.ok_or_else(|| format!("the schema has nothing at `{reference}`"))?;
                all.extend(self.alternatives(&[target], depth + 1)?);
            } else if let Some(choices) = choices {
                all.extend(self.alternatives(&choices.iter().collect::<Vec<_>>(), depth + 1)?);
            } else {
                all.push(*schema);
            }
        }
        Ok(all)
    }
}

/// Checks that a field's schema allows one of these types. One without `type` allows those of the values that
/// it lists, or any.
fn check_type(schema: &Value, name: &str, types: &[&str]) -> Result<(), String> {
    let is_one = |found: &Value| found.as_str().is_some_and(|found| types.contains(&found));
    let is_allowed = match schema.get("type") {
        None => types != WORDS || listed(schema).next().is_none() || listed(schema).any(Value::is_string),
        Some(Value::Array(names)) => names.iter().any(is_one),
        Some(name) => is_one(name),
    };
    let known = || setup::either(types.iter().copied());
    is_allowed.then_some(()).ok_or_else(|| format!("the type of `{name}` in the schema must be {}", known()))
}

/// The values that a schema lists.
fn listed(schema: &Value) -> impl Iterator<Item = &Value> {
    schema.get("enum").and_then(Value::as_array).into_iter().flatten().chain(schema.get("const"))
}

fn check_spans(schema: &Value) -> Result<(), String> {
    match schema {
        Value::Array(items) => items.iter().try_for_each(check_spans),
        Value::Object(object) => {
            let names = match object.get("substringOf") {
                Some(Value::Array(names)) => names.iter().collect(),
                name => name.into_iter().collect::<Vec<_>>(),
            };
            let is_text = |name: &&&Value| name.as_str().is_some_and(|name| TEXTS.contains(&name));
            if let Some(name) = names.iter().find(|name| !is_text(name)) {
                return Err(format!("`substringOf` names {name}; it can name {}", TEXTS.join(" and ")));
            }
            object.values().try_for_each(check_spans)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::mqm::Severity;

    fn fields() -> Fields {
        let entry = json!({"properties": {
            "span": {"substringOf": "translation"}, "type": {}, "severity": {"enum": ["high", "minor"]}
        }});
        let schema =
            json!({"properties": {"score": {"enum": [1, "n/a"]}, "errors": {"items": {"anyOf": [entry]}}}});
        let errors = ErrorList {
            list: FieldPath("errors".into()),
            span: "span".into(),
            category: "type".into(),
            severity: "severity".into(),
            explanation: None,
            severities: BTreeMap::from([("high".to_owned(), Severity::Major)]),
        };
        let places = Places::Mean(vec![(FieldPath("score".into()), 1.0)]);
        let number =
            Number { places, ends: [1.0, 5.0], values: BTreeMap::new(), missing: vec!["n/a".into()] };
        Fields { form: Form::Schema(schema), number: Some(number), errors: Some(errors) }
    }

    #[test]
    fn schemas_without_the_fields_that_are_read() {
        let fault = |change: &dyn Fn(&mut Fields)| {
            let mut fields = fields();
            change(&mut fields);
            check(&fields).map_err(|fault| format!("{}: {}", fault.key, fault.reason))
        };
        let set = |pointer: &'static str, value: Value| {
            move |fields: &mut Fields| {
                let Form::Schema(schema) = &mut fields.form else { panic!("a schema") };
                *schema.pointer_mut(pointer).unwrap() = value.clone();
            }
        };
        assert_eq!(fault(&|_| {}), Ok(()));
        let refused = |change: &dyn Fn(&mut Fields)| fault(change).unwrap_err();
        insta::assert_snapshot!(
            [
                refused(&set("/properties/score/enum", json!([9]))),
                refused(&set("/properties/score", json!({"enum": ["bad"]}))),
                refused(&set("/properties/score", json!({"type": "boolean"}))),
                refused(&set("/properties/score", json!({"$ref": "#/$defs/none"}))),
                refused(&set("/properties/score", json!({"$ref": "#/properties/score"}))),
                refused(&set("/properties", json!({"score": {}}))),
                refused(&set("/properties/errors", json!({"type": "string"}))),
                refused(&set("/properties/errors/items/anyOf", json!([{"properties": {"span": {}}}]))),
                refused(&set("/properties/errors/items/anyOf/0/properties/type", json!({"type": "integer"}))),
                refused(&set("/properties/errors/items/anyOf/0/properties/severity", json!({"type": ["null"]}))),
                refused(&set("/properties/errors/items/anyOf/0/properties/severity/enum", json!([1, 2]))),
                refused(&|fields| fields.errors.as_mut().unwrap().severities.clear()),
                refused(&set("/properties/errors/items/anyOf/0/properties/span/substringOf", json!("target"))),
            ]
            .join("\n"),
            @r#"
        score: a value of the schema cannot be read: 9 is outside 1 to 5
        score: a value of the schema cannot be read: `bad` is not a number
        score: the type of `score` in the schema must be number, integer, string or null
        score: the schema has nothing at `#/$defs/none`
        score: the schema has too many references and choices within each other
        list: the schema has no property `errors`
        list: `errors` must be an array with `items`
        category: the schema has no property `type`
        category: the type of `type` in the schema must be string
        severity: the type of `severity` in the schema must be string
        severity: the type of `severity` in the schema must be string
        severity: unknown severity `high`; hint: it can be critical, major, minor or neutral
        schema: `substringOf` names "target"; it can name source and translation
        "#
        );
    }
}
