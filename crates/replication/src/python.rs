//! Python's text form of values in the authors' messages, and Python's parsing of numbers.

use std::{fmt, sync::LazyLock};

use regex::Regex;
use serde_json::{Value, json};

use tribunal_judges::reading::{self, pattern};

/// A number with its Python type, `int` or `float`: 4 prints as `4`, 4.0 as `4.0`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    pub fn value(self) -> f64 {
        match self {
            Self::Int(n) => n as f64,
            Self::Float(x) => x,
        }
    }

    /// The sum with a whole number: an `int` stays one.
    #[must_use]
    pub fn plus_whole(self, n: i64) -> Self {
        match self {
            Self::Int(m) => Self::Int(m + n),
            Self::Float(x) => Self::Float(x + n as f64),
        }
    }

    /// Python's `min(self, limit)`: the first of two equal numbers.
    #[must_use]
    pub fn at_most(self, limit: i64) -> Self {
        if self.value() <= limit as f64 { self } else { Self::Int(limit) }
    }

    /// Python's `max(limit, self)`.
    #[must_use]
    pub fn at_least(self, limit: i64) -> Self {
        if self.value() > limit as f64 { self } else { Self::Int(limit) }
    }

    pub fn json(self) -> Value {
        match self {
            Self::Int(n) => json!(n),
            Self::Float(x) => json!(x),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&repr(&self.json()))
    }
}

/// `float(text)`: digits of any script, with single underscores between them; `inf` and `nan` are numbers.
pub fn parse_float(text: &str) -> Option<f64> {
    let text = ascii_digits(reading::strip(text));
    let parts: Vec<&str> = text.split('_').collect();
    let joins = |pair: &[&str]| {
        pair[0].ends_with(|c: char| c.is_ascii_digit()) && pair[1].starts_with(|c: char| c.is_ascii_digit())
    };
    parts.windows(2).all(joins).then(|| parts.concat().parse().ok()).flatten()
}

/// A JSON value as `str` prints it: a string is itself.
pub fn display(value: &Value) -> String {
    value.as_str().map_or_else(|| repr(value), ToOwned::to_owned)
}

/// A JSON value as `repr` prints the result of `json.loads`.
pub fn repr(value: &Value) -> String {
    match value {
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Number(number) => match number.as_f64() {
            Some(x) if number.is_f64() => float(x),
            _ => number.to_string(),
        },
        Value::String(text) => string(text),
        Value::Array(items) => format!("[{}]", items.iter().map(repr).collect::<Vec<_>>().join(", ")),
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| format!("{}: {}", string(key), repr(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}

/// The shortest digits that give the number back, with an exponent from 1e16 on and below 1e-4.
fn float(x: f64) -> String {
    if x == 0.0 || (1e-4..1e16).contains(&x.abs()) {
        return format!("{x:?}");
    }
    let text = format!("{x:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(("+", exponent), |digits| ("-", digits));
    format!("{digits}e{sign}{exponent:0>2}")
}

/// Characters for which `str.isprintable` is false: controls, formats, unassigned ones, and every space but
/// the plain one.
static UNPRINTABLE: LazyLock<Regex> = LazyLock::new(|| pattern(r"[\p{C}\p{Z}--\x20]"));

fn string(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => out += r"\\",
            '\n' => out += r"\n",
            '\r' => out += r"\r",
            '\t' => out += r"\t",
            c if c == quote => out.extend(['\\', c]),
            c if !UNPRINTABLE.is_match(c.encode_utf8(&mut [0; 4])) => out.push(c),
            c => out += &escaped(u32::from(c)),
        }
    }
    out.push(quote);
    out
}

fn escaped(code: u32) -> String {
    match code {
        ..=0xff => format!("\\x{code:02x}"),
        0x100..=0xffff => format!("\\u{code:04x}"),
        _ => format!("\\U{code:08x}"),
    }
}

/// A text whose decimal digits of any script are written in ASCII.
pub fn ascii_digits(text: &str) -> String {
    let is_digit = |c: char| DIGIT.is_match(c.encode_utf8(&mut [0; 4]));
    let ascii = |c: char| {
        if c.is_ascii() || !is_digit(c) {
            return c;
        }
        // Digits stand in rows of ten, from zero on.
        let before = (1..).map_while(|n| char::from_u32(u32::from(c) - n).filter(|c| is_digit(*c)));
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'][before.count() % 10]
    };
    text.chars().map(ascii).collect()
}

static DIGIT: LazyLock<Regex> = LazyLock::new(|| pattern(r"\d"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_print_as_in_python() {
        // Python 3.11: print(repr(json.loads(text))).
        let check = |text: &str, printed: &str| {
            assert_eq!(repr(&serde_json::from_str(text).unwrap()), printed, "{text}");
        };
        check(
            r#"{"a": [1, 2.0, -0.5, 1e2], "b": null, "c": true}"#,
            "{'a': [1, 2.0, -0.5, 100.0], 'b': None, 'c': True}",
        );
        check(
            "[1e16, 1.5e-05, 0.0001, 1e300, 0.95, 123456789012345.6]",
            "[1e+16, 1.5e-05, 0.0001, 1e+300, 0.95, 123456789012345.6]",
        );
        check(r#""it's""#, r#""it's""#);
        check(r#""it's \"so\"""#, r#"'it\'s "so"'"#);
        check(r#""夺笋\n\t\\ \u00a0\u200b\ud83d\ude00 é""#, r"'夺笋\n\t\\ \xa0\u200b😀 é'");
        check("{}", "{}");
    }

    /// The right sides are the output of Python 3.11 for `str(json.loads(...))`.
    #[test]
    fn values_as_python_shows_them() {
        let check = |json: &str, expected: &str| {
            assert_eq!(repr(&serde_json::from_str(json).unwrap()), expected, "{json}");
        };
        check(
            r#"{"z": "a", "b": [true, null, 1, 2.0, 1e-7, 1e22]}"#,
            "{'z': 'a', 'b': [True, None, 1, 2.0, 1e-07, 1e+22]}",
        );
        check(r#"["it's", "\"q\"", "it's \"q\""]"#, r#"["it's", '"q"', 'it\'s "q"']"#);
        check(
            r#"["a\\b\n\t\u0000\u00a0\u3000\u200b", "银行 é e\u0301 😀"]"#,
            "['a\\\\b\\n\\t\\x00\\xa0\\u3000\\u200b', '银行 é e\u{301} 😀']",
        );
    }

    /// Python 3.11: `float(text)`.
    #[test]
    fn numbers_as_python_reads_them() {
        for (text, expected) in [
            ("８５", Some(85.0)),
            (" ٣.٥\u{1f}", Some(3.5)),
            ("𝟗𝟟", Some(97.0)),
            ("2_0", Some(20.0)),
            ("1_0.5e1_0", Some(105e9)),
            ("-.5", Some(-0.5)),
            ("1e400", Some(f64::INFINITY)),
            ("Infinity", Some(f64::INFINITY)),
            ("2__0", None),
            ("_2", None),
            ("2_", None),
            ("2_.5", None),
            ("²", None),
            ("九", None),
            ("", None),
        ] {
            assert_eq!(parse_float(text), expected, "{text}");
        }
        assert!(parse_float("NaN").unwrap().is_nan());
        assert_eq!(display(&json!("it's")), "it's");
    }

    #[test]
    fn numbers_keep_their_kind() {
        let printed = |number: Number| number.to_string();
        assert_eq!(printed(Number::Int(1).plus_whole(1).at_most(4)), "2");
        assert_eq!(printed(Number::Float(3.0).plus_whole(1).at_most(4)), "4.0");
        assert_eq!(printed(Number::Int(4).plus_whole(1).at_most(4)), "4");
        assert_eq!(printed(Number::Float(1.0).plus_whole(-1).at_least(0)), "0");
        assert_eq!(printed(Number::Float(0.5)), "0.5");
    }
}
