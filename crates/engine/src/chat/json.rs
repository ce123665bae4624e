//! The filter `tojson` of chat templates: values as Python's `json.dumps` prints them.
//!
//! Source: transformers 5.24, `chat_template_utils.py`, `tojson`; Python 3.12, `json`.

use std::fmt::Write;

use minijinja::{
    Error, ErrorKind, Value,
    value::{Kwargs, ValueKind},
};

/// The deepest nesting of a value, the widest indent, and the most bytes printed.
const MAX_DEPTH: usize = 100;
const MAX_JSON_BYTES: usize = 64 << 20;

/// `tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
///
/// # Errors
/// A value that JSON cannot represent, or one too large.
#[expect(clippy::needless_pass_by_value, reason = "the shape of a filter")]
pub(super) fn tojson(
    value: &Value,
    ensure_ascii: Option<Value>,
    indent: Option<Value>,
    separators: Option<Value>,
    named: Kwargs,
) -> Result<String, Error> {
    let option = |argument: Option<Value>, name| -> Result<Option<Value>, Error> {
        let argument = if argument.is_some() { argument } else { named.get(name)? };
        Ok(argument.filter(|value| !value.is_none() && !value.is_undefined()))
    };
    let ensure_ascii = option(ensure_ascii, "ensure_ascii")?.is_some_and(|value| value.is_true());
    let sort_keys = option(None, "sort_keys")?.is_some_and(|value| value.is_true());
    let indent = option(indent, "indent")?.map(|indent| indent_of(&indent)).transpose()?;
    let separators = option(separators, "separators")?;
    named.assert_all_used()?;
    let part = |at: usize| -> Result<Option<String>, Error> {
        let part = separators.as_ref().map(|pair| pair.get_item(&at.into())).transpose()?;
        Ok(part.map(|part| part.to_string()))
    };
    let between = if indent.is_some() { "," } else { ", " };
    let style = Style {
        between: part(0)?.unwrap_or_else(|| between.to_owned()),
        colon: part(1)?.unwrap_or_else(|| ": ".to_owned()),
        indent,
        sort_keys,
    };
    if style.between.len() + style.colon.len() > MAX_DEPTH {
        return Err(too_large());
    }
    let mut text = String::new();
    style.write(value, 0, &mut text)?;
    Ok(if ensure_ascii { escape_non_ascii(&text) } else { text })
}

fn too_large() -> Error {
    let message = "tojson: the value is too deep or too large, or its indent or separators too wide";
    Error::new(ErrorKind::InvalidOperation, message)
}

/// The indentation of one level: so many blanks, or the text itself.
fn indent_of(indent: &Value) -> Result<String, Error> {
    let text = match (indent.as_str(), indent.as_i64()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(width)) => " ".repeat(usize::try_from(width).unwrap_or(0).min(MAX_DEPTH + 1)),
        _ => return Err(Error::new(ErrorKind::InvalidOperation, "tojson: `indent` is a number or a text")),
    };
    if text.len() > MAX_DEPTH { Err(too_large()) } else { Ok(text) }
}

/// The layout of printed lists and objects.
struct Style {
    between: String,
    colon: String,
    indent: Option<String>,
    sort_keys: bool,
}

impl Style {
    fn write(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        if depth > MAX_DEPTH || out.len() > MAX_JSON_BYTES {
            return Err(too_large());
        }
        match value.kind() {
            ValueKind::Undefined => {
                return Err(Error::new(ErrorKind::UndefinedError, "tojson: the value is undefined"));
            }
            ValueKind::None | ValueKind::Bool | ValueKind::Number => out.push_str(&scalar(value)),
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort_keys {
                    keys.sort_by(|a, b| match (a.as_str(), b.as_str()) {
                        (Some(a), Some(b)) => a.cmp(b),
                        _ => a.cmp(b),
                    });
                }
                self.list(['{', '}'], &keys, depth, out, |key, out| {
                    let name = key.as_str().map_or_else(|| scalar(key), str::to_owned);
                    push_string(&name, out);
                    out.push_str(&self.colon);
                    self.write(&value.get_item(key)?, depth + 1, out)
                })?;
            }
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.list(['[', ']'], &items, depth, out, |item, out| self.write(item, depth + 1, out))?;
            }
            _ => push_string(&value.to_string(), out),
        }
        Ok(())
    }

    fn list(
        &self,
        [open, close]: [char; 2],
        items: &[Value],
        depth: usize,
        out: &mut String,
        each: impl Fn(&Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(open);
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                out.push_str(&self.between);
            }
            self.new_line(depth + 1, out);
            each(item, out)?;
        }
        if !items.is_empty() {
            self.new_line(depth, out);
        }
        out.push(close);
        Ok(())
    }

    fn new_line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(indent.as_str(), depth));
        }
    }
}

/// A number, `true`, `false` or `null`.
fn scalar(value: &Value) -> String {
    match value.kind() {
        ValueKind::None => "null".to_owned(),
        ValueKind::Number if !value.is_integer() => {
            f64::try_from(value.clone()).map_or_else(|_| value.to_string(), float)
        }
        _ => value.to_string().to_lowercase(),
    }
}

/// A float as Python's `repr` prints it: the fewest digits that parse to the same number, with an exponent
/// for very large and very small ones.
fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        return format!("{value:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

fn push_string(text: &str, out: &mut String) {
    // serde_json escapes exactly the characters that Python's json escapes with ensure_ascii=False.
    out.push_str(&serde_json::Value::from(text).to_string());
}

fn escape_non_ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut units = [0; 2];
    for c in text.chars() {
        if c.is_ascii() && c != '\u{7f}' {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut units) {
                write!(out, "\\u{unit:04x}").expect("writing to a string cannot fail");
            }
        }
    }
    out
}
