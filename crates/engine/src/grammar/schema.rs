//! The part of JSON Schema that judges use, as shapes: the values of an answer, in one canonical spelling.
//!
//! It compiles nothing; [`super::lark`] writes the grammar of a shape.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::regex::{self, Pattern};
use super::span::SpanText;

/// The set of JSON values allowed, spelled out: every literal is the JSON text itself.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// A number, a string, a word: text that one regular expression over the JSON text describes.
    Scalar(Pattern),
    /// A JSON string whose content is a run of chunks of one of the texts.
    Span {
        texts: Vec<Arc<SpanText>>,
        min: usize,
        max: Option<usize>,
    },
    Array {
        item: Box<Shape>,
        min: usize,
        max: Option<usize>,
        brackets: Brackets,
    },
    Object {
        properties: Vec<Property>,
        brackets: Brackets,
    },
    AnyOf(Vec<Shape>),
}

impl Shape {
    /// The texts that its spans are copied from, each once.
    pub(super) fn texts(&self) -> Vec<Arc<SpanText>> {
        let parts: Vec<&Self> = match self {
            Self::Scalar(_) => Vec::new(),
            Self::Span { texts, .. } => return texts.clone(),
            Self::Array { item, .. } => vec![item],
            Self::Object { properties, .. } => properties.iter().map(|property| &property.shape).collect(),
            Self::AnyOf(shapes) => shapes.iter().collect(),
        };
        super::span::distinct(parts.into_iter().flat_map(Self::texts))
    }

    /// The shortest value; `None` where that of a pattern is unknown.
    pub(super) fn shortest(&self) -> Option<Vec<u8>> {
        match self {
            Self::Scalar(pattern) => pattern.shortest(),
            Self::Span { texts, min, max } => {
                Some([b"\"", &*super::span::shortest(texts, *min, *max)?, b"\""].concat())
            }
            Self::Array { item, min, brackets, .. } => {
                let items = (0..*min).map(|_| item.shortest()).collect::<Option<Vec<_>>>()?;
                Some(brackets.around(&items))
            }
            Self::Object { properties, brackets } => {
                let members = properties
                    .iter()
                    .filter(|property| property.required)
                    .map(|property| Some([property.key.as_bytes(), &*property.shape.shortest()?].concat()));
                Some(brackets.around(&members.collect::<Option<Vec<_>>>()?))
            }
            Self::AnyOf(shapes) => shapes.iter().filter_map(Self::shortest).min_by_key(Vec::len),
        }
    }
}

/// One property of an object: `"name": ` and its value.
#[derive(Clone, Debug)]
pub(super) struct Property {
    pub key: String,
    pub shape: Shape,
    pub required: bool,
}

/// The printed delimiters of a list or object, whitespace included.
#[derive(Clone, Debug)]
pub(super) struct Brackets {
    pub open: String,
    pub separator: String,
    pub close: String,
    /// The whole value of an empty list or object.
    pub empty: String,
}

impl Brackets {
    fn around(&self, parts: &[Vec<u8>]) -> Vec<u8> {
        if parts.is_empty() {
            return self.empty.clone().into_bytes();
        }
        [self.open.as_bytes(), &*parts.join(self.separator.as_bytes()), self.close.as_bytes()].concat()
    }
}

/// Reasons why a schema has no shape.
#[derive(Debug)]
pub(super) enum Refusal {
    /// A keyword that this compiler does not support; another compiler may.
    Unknown(String),
    /// An invalid schema, or one that nothing can satisfy.
    Wrong(String),
}

type MaybeShape = Result<Option<Shape>, Refusal>;

/// Keywords that restrict nothing, or nothing that an answer in schema order could violate.
const ANNOTATIONS: [&str; 11] = [
    "title",
    "description",
    "default",
    "examples",
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "additionalProperties",
    "x-indent",
];

/// References may be nested this deep; deeper ones are taken to be recursive.
const MAX_DEPTH: usize = 24;

/// Reads a schema. `"x-indent": 2` at its root selects the layout of `json.dumps(.., indent=2)` instead of
/// one line with `", "` and `": "`.
pub(super) fn shape(schema: &Value, texts: &BTreeMap<String, String>) -> Result<Shape, Refusal> {
    let texts = texts.iter().map(|(name, text)| (name.as_str(), Arc::new(SpanText::json(text)))).collect();
    let indent = schema["x-indent"].as_u64().map(|width| width as usize);
    let reader = Reader { root: schema, texts, indent };
    if !is_finite(schema) {
        return Err(wrong("no answer can satisfy it: its `$ref`s lead back to themselves without end"));
    }
    reader.read(schema, 0)?.ok_or_else(|| {
        Refusal::Wrong("no answer can satisfy it: a text that a span must be copied from is empty".into())
    })
}

struct Reader<'a> {
    root: &'a Value,
    texts: BTreeMap<&'a str, Arc<SpanText>>,
    indent: Option<usize>,
}

impl Reader<'_> {
    /// `None`: nothing can satisfy this part (a span of an empty text).
    fn read(&self, schema: &Value, depth: usize) -> MaybeShape {
        if depth > MAX_DEPTH {
            return Err(Refusal::Unknown("a recursive `$ref`".into()));
        }
        let Some(schema) = schema.as_object() else {
            return Err(Refusal::Unknown(format!("`{schema}` where a schema is expected")));
        };
        if let Some(name) = schema.get("$ref") {
            known(schema, &["$ref"])?;
            return self.read(resolved(self.root, name)?, depth + 1);
        }
        if let Some(branches) = schema.get("anyOf").or_else(|| schema.get("oneOf")) {
            return self.any_of(schema, branches, depth);
        }
        if let Some(value) = schema.get("const") {
            known(schema, &["const", "type"])?;
            return Ok(Some(literals(std::slice::from_ref(value))?));
        }
        if let Some(values) = schema.get("enum") {
            known(schema, &["enum", "type"])?;
            let values = values.as_array().ok_or_else(|| wrong("`enum` is not a list"))?;
            return Ok(Some(literals(values)?));
        }
        match schema.get("type") {
            Some(Value::String(kind)) => self.typed(schema, kind, depth),
            Some(Value::Array(kinds)) => {
                let kinds = kinds.iter().map(|kind| {
                    let mut one = schema.clone();
                    one.insert("type".into(), kind.clone());
                    Value::Object(one)
                });
                self.alternatives(kinds.collect::<Vec<_>>().iter(), depth)
            }
            _ if schema.contains_key("properties") => self.object(schema, depth),
            _ => Err(Refusal::Unknown("a schema without `type`".into())),
        }
    }

    fn typed(&self, schema: &Map<String, Value>, kind: &str, depth: usize) -> MaybeShape {
        let only =
            |text: &str| Ok(Some(Shape::Scalar(Pattern::literals(&[text.to_owned()]).map_err(wrong)?)));
        match kind {
            "object" => self.object(schema, depth),
            "array" => self.array(schema, depth),
            "string" => self.string(schema),
            "integer" | "number" => number(schema, kind == "integer"),
            "boolean" => {
                known(schema, &["type"])?;
                Ok(Some(literals(&[Value::Bool(true), Value::Bool(false)])?))
            }
            "null" => only("null"),
            other => Err(Refusal::Wrong(format!("`{other}` is not a type"))),
        }
    }

    fn any_of(&self, schema: &Map<String, Value>, branches: &Value, depth: usize) -> MaybeShape {
        known(schema, &["anyOf", "oneOf"])?;
        let branches = branches.as_array().ok_or_else(|| wrong("`anyOf` is not a list"))?;
        self.alternatives(branches.iter(), depth)
    }

    fn alternatives<'v>(&self, branches: impl Iterator<Item = &'v Value>, depth: usize) -> MaybeShape {
        let mut shapes = Vec::new();
        for branch in branches {
            shapes.extend(self.read(branch, depth + 1)?);
        }
        Ok(match shapes.len() {
            0 => None,
            1 => shapes.pop(),
            _ => Some(Shape::AnyOf(shapes)),
        })
    }

    fn object(&self, schema: &Map<String, Value>, depth: usize) -> MaybeShape {
        known(schema, &["type", "properties", "required"])?;
        let none = Map::new();
        let properties = match schema.get("properties") {
            Some(properties) => {
                properties.as_object().ok_or_else(|| wrong("`properties` is not an object"))?
            }
            None => &none,
        };
        let required: Vec<&str> = match schema.get("required") {
            Some(names) => strings(names, "required")?,
            None => Vec::new(),
        };
        if let Some(name) = required.iter().find(|name| !properties.contains_key(**name)) {
            return Err(Refusal::Wrong(format!("`required` names `{name}`, which is not a property")));
        }
        let mut shapes = Vec::new();
        for (name, property) in properties {
            let required = required.contains(&name.as_str());
            match self.read(property, depth + 1)? {
                Some(shape) => {
                    let key = format!("{}: ", Value::from(name.as_str()));
                    shapes.push(Property { key, shape, required });
                }
                None if required => return Ok(None),
                None => {}
            }
        }
        Ok(Some(Shape::Object { properties: shapes, brackets: self.brackets('{', '}', depth) }))
    }

    fn array(&self, schema: &Map<String, Value>, depth: usize) -> MaybeShape {
        known(schema, &["type", "items", "minItems", "maxItems"])?;
        let min = count(schema, "minItems")?.unwrap_or(0);
        let max = count(schema, "maxItems")?;
        if max.is_some_and(|max| max < min) {
            return Err(wrong("`maxItems` is below `minItems`"));
        }
        let items = schema.get("items").ok_or_else(|| Refusal::Unknown("an array without `items`".into()))?;
        let brackets = self.brackets('[', ']', depth);
        Ok(match self.read(items, depth + 1)? {
            Some(item) => Some(Shape::Array { item: Box::new(item), min, max, brackets }),
            None if min == 0 => Some(literals_text(&brackets.empty)?),
            None => None,
        })
    }

    fn string(&self, schema: &Map<String, Value>) -> MaybeShape {
        let min = count(schema, "minLength")?;
        let max = count(schema, "maxLength")?;
        if max.is_some_and(|max| max < min.unwrap_or(0)) {
            return Err(wrong("`maxLength` is below `minLength`"));
        }
        if let Some(names) = schema.get("substringOf") {
            known(schema, &["type", "substringOf", "minLength", "maxLength"])?;
            return self.span(names, min.unwrap_or(1), max);
        }
        if let Some(pattern) = schema.get("pattern") {
            known(schema, &["type", "pattern"])?;
            let pattern = pattern.as_str().ok_or_else(|| wrong("`pattern` is not a string"))?;
            return Ok(Some(Shape::Scalar(Pattern::json_string_matching(pattern).map_err(wrong)?)));
        }
        known(schema, &["type", "minLength", "maxLength"])?;
        Ok(Some(Shape::Scalar(Pattern::json_string(min.unwrap_or(0), max).map_err(wrong)?)))
    }

    fn span(&self, names: &Value, min: usize, max: Option<usize>) -> MaybeShape {
        let names = match names {
            Value::String(name) => vec![name.as_str()],
            list => strings(list, "substringOf")?,
        };
        let mut texts = Vec::new();
        for name in names {
            let text = self.texts.get(name);
            let text = text
                .ok_or_else(|| wrong(format!("`substringOf` names the text `{name}`, which is not given")))?;
            if text.len() >= min && (min > 0 || !text.is_empty()) {
                texts.push(Arc::clone(text));
            }
        }
        Ok(match (texts.is_empty(), min) {
            (true, 0) => Some(literals_text("\"\"")?),
            (true, _) => None,
            (false, _) => Some(Shape::Span { texts, min, max }),
        })
    }

    fn brackets(&self, open: char, close: char, depth: usize) -> Brackets {
        let empty = format!("{open}{close}");
        match self.indent {
            None => Brackets { open: open.into(), separator: ", ".into(), close: close.into(), empty },
            Some(width) => {
                let inner = format!("\n{}", " ".repeat(width * (depth + 1)));
                let outer = format!("\n{}", " ".repeat(width * depth));
                Brackets {
                    open: format!("{open}{inner}"),
                    separator: format!(",{inner}"),
                    close: format!("{outer}{close}"),
                    empty,
                }
            }
        }
    }
}

fn resolved<'v>(root: &'v Value, name: &Value) -> Result<&'v Value, Refusal> {
    let pointer = name.as_str().and_then(|name| name.strip_prefix('#'));
    let target = pointer.and_then(|pointer| root.pointer(pointer));
    target.ok_or_else(|| Refusal::Unknown(format!("the reference `{name}`")))
}

/// Returns true if some answer to the schema is finite: a list may be empty, and a property left out, where a
/// reference leads back.
fn is_finite(root: &Value) -> bool {
    let mut refs = Vec::new();
    references(root, &mut refs);
    let mut finite = BTreeSet::new();
    loop {
        let known = finite.len();
        let ending = refs.iter().filter(|name| match resolved(root, &Value::from(**name)) {
            Ok(target) => ends(target, &finite),
            Err(_) => true,
        });
        finite = ending.copied().collect();
        if finite.len() == known {
            return ends(root, &finite);
        }
    }
}

/// The references in a schema.
fn references<'v>(schema: &'v Value, found: &mut Vec<&'v str>) {
    match schema {
        Value::Object(parts) => {
            found.extend(parts.get("$ref").and_then(Value::as_str));
            parts.values().for_each(|part| references(part, found));
        }
        Value::Array(parts) => parts.iter().for_each(|part| references(part, found)),
        _ => {}
    }
}

/// Returns true if some answer is finite, given finite answers to these references.
fn ends(schema: &Value, finite: &BTreeSet<&str>) -> bool {
    let branches = |key: &str| schema[key].as_array();
    let may_only_be = |kind: &str| matches!(&schema["type"], Value::Null) || schema["type"] == kind;
    let required = || schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let is_filled = || schema["minItems"].as_u64().is_some_and(|n| n > 0);
    let one_ends = |any: &Vec<Value>| any.is_empty() || any.iter().any(|one| ends(one, finite));
    schema["$ref"].as_str().is_none_or(|name| finite.contains(name))
        && ["anyOf", "oneOf"].into_iter().filter_map(branches).all(one_ends)
        && branches("allOf").is_none_or(|all| all.iter().all(|one| ends(one, finite)))
        && (!may_only_be("object") || required().all(|name| ends(&schema["properties"][name], finite)))
        && (!may_only_be("array") || !is_filled() || ends(&schema["items"], finite))
}

fn number(schema: &Map<String, Value>, is_integer: bool) -> MaybeShape {
    known(schema, &["type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"])?;
    let bound = |key: &str| match schema.get(key) {
        None => Ok(None),
        Some(value) => match value.as_i64().or_else(|| value.as_f64().and_then(whole_number)) {
            Some(bound) => Ok(Some(bound)),
            None => Err(Refusal::Unknown(format!("the bound `{key}: {value}`, which is not a whole number"))),
        },
    };
    if !is_integer && (bound("exclusiveMinimum")?.is_some() || bound("exclusiveMaximum")?.is_some()) {
        return Err(Refusal::Unknown("an exclusive bound of a `number`".into()));
    }
    let min = bound("exclusiveMinimum")?.map(|min| min + 1).or(bound("minimum")?);
    let max = bound("exclusiveMaximum")?.map(|max| max - 1).or(bound("maximum")?);
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        return Err(wrong("`maximum` is below `minimum`"));
    }
    let source = if is_integer { regex::integer(min, max) } else { regex::number(min, max) };
    Ok(Some(Shape::Scalar(Pattern::new(&source).map_err(wrong)?)))
}

fn whole_number(value: f64) -> Option<i64> {
    (value.fract() == 0.0 && value.abs() < 1e15).then_some(value as i64)
}

fn literals(values: &[Value]) -> Result<Shape, Refusal> {
    if values.is_empty() {
        return Err(wrong("`enum` is empty"));
    }
    if let Some(value) = values.iter().find(|value| value.is_object() || value.is_array()) {
        return Err(Refusal::Unknown(format!("the constant `{value}`")));
    }
    let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
    Ok(Shape::Scalar(Pattern::literals(&texts).map_err(wrong)?))
}

fn literals_text(text: &str) -> Result<Shape, Refusal> {
    Ok(Shape::Scalar(Pattern::literals(&[text.to_owned()]).map_err(wrong)?))
}

fn count(schema: &Map<String, Value>, key: &str) -> Result<Option<usize>, Refusal> {
    match schema.get(key) {
        None => Ok(None),
        Some(value) => match value.as_u64() {
            Some(n) => Ok(Some(n as usize)),
            None => Err(Refusal::Wrong(format!("`{key}` is `{value}`, not a count"))),
        },
    }
}

fn strings<'v>(list: &'v Value, key: &str) -> Result<Vec<&'v str>, Refusal> {
    let names = list.as_array().and_then(|list| list.iter().map(Value::as_str).collect());
    names.ok_or_else(|| Refusal::Wrong(format!("`{key}` is not a list of strings")))
}

/// Rejects keywords other than these and annotations: an ignored keyword would not be enforced.
fn known(schema: &Map<String, Value>, keys: &[&str]) -> Result<(), Refusal> {
    let unknown = schema.keys().find(|key| {
        let key = key.as_str();
        !keys.contains(&key) && !ANNOTATIONS.contains(&key)
    });
    match unknown {
        Some(key) => Err(Refusal::Unknown(format!("the keyword `{key}` beside `{}`", keys[0]))),
        None => Ok(()),
    }
}

fn wrong(message: impl std::fmt::Display) -> Refusal {
    Refusal::Wrong(message.to_string())
}
