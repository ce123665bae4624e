//! A JSON object of settings with the defaults of its class. A value of the wrong type is an error.

use serde_json::{Map, Value};

use super::{Schema, classes::Class};
use crate::{Error, Result};

/// The most characters of a value that a message shows.
const MAX_SHOWN: usize = 60;

/// The settings of one decoder.
#[derive(Clone, Copy)]
pub struct Settings<'a> {
    pub path: &'a str,
    /// The prefix of keys in messages: `text_config.`, or nothing.
    pub prefix: &'static str,
    pub file: &'a Map<String, Value>,
    pub class: &'static Class,
    pub schema: &'static Schema,
}

impl<'a> Settings<'a> {
    pub fn bad(&self, key: &str, reason: impl Into<String>) -> Error {
        let key = format!("{}{key}", self.prefix);
        Error::Config { path: self.path.into(), key, reason: reason.into() }
    }

    /// The file's own value; `null` counts as missing.
    pub fn given(&self, key: &str) -> Option<&'a Value> {
        self.file.get(key).filter(|value| !value.is_null())
    }

    /// The file's value or, where the key is missing, the class's; `null` counts as no value.
    pub fn value(&self, key: &str) -> Option<&'a Value> {
        let value = self.file.get(key).or_else(|| self.class.defaults.get(key));
        value.filter(|value| !value.is_null())
    }

    pub fn size(&self, key: &str) -> Result<Option<usize>> {
        let integer = |value: &Value| value.as_u64().and_then(|n| usize::try_from(n).ok());
        self.typed(key, integer, "is {}, not a whole number")
    }

    pub fn needed_size(&self, key: &str) -> Result<usize> {
        self.size(key)?.ok_or_else(|| self.bad(key, "is null; a whole number was expected"))
    }

    /// A finite number above 0.
    pub fn positive(&self, key: &str) -> Result<Option<f64>> {
        self.typed(key, positive, "is {}, not a number above 0")
    }

    pub fn needed_positive(&self, key: &str) -> Result<f64> {
        self.positive(key)?.ok_or_else(|| self.bad(key, "is null; a number above 0 was expected"))
    }

    /// A switch; off without a value.
    pub fn flag(&self, key: &str) -> Result<bool> {
        Ok(self.typed(key, Value::as_bool, "is {}, not true or false")?.unwrap_or(false))
    }

    pub fn text(&self, key: &str) -> Result<Option<&'a str>> {
        self.typed(key, Value::as_str, "is {}, not a text")
    }

    pub fn object(&self, key: &str) -> Result<Option<&'a Map<String, Value>>> {
        self.typed(key, Value::as_object, "is {}, not an object")
    }

    /// The error is `otherwise`, in which `{}` stands for the value.
    fn typed<T>(
        &self,
        key: &str,
        read: impl Fn(&'a Value) -> Option<T>,
        otherwise: &str,
    ) -> Result<Option<T>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let read = read(value).ok_or_else(|| self.bad(key, otherwise.replace("{}", &shown(value))));
        read.map(Some)
    }
}

/// A finite number above 0.
pub fn positive(value: &Value) -> Option<f64> {
    value.as_f64().filter(|x| x.is_finite() && *x > 0.0)
}

/// A value, for messages.
pub fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("`{}..`", &text[..end]),
        None => format!("`{text}`"),
    }
}

/// Returns true if two values are equal; numbers are compared as floats.
pub fn is_same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b).is_eq(),
        _ => a == b,
    }
}
