//! Parsing of JSON lines, with errors that quote the offending text. Programs write `NaN` and half surrogate
//! pairs, which JSON does not have. The meaning of a line is left to the caller.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The value that a number which is none is read as: no reader takes it for a text, a number or an object.
const NO_NUMBER: &str = "[\"NaN\"]";

/// Reads a line of JSON. `NaN` and infinities are errors only where the value is read.
///
/// # Errors
/// The offending text and its column, from 1; or the missing field, in the words of `serde_json`.
///
/// ```
/// use tribunal_core::files::json::parse;
/// let line = r#"{"score": 0.5, "loss": NaN}"#;
/// #[derive(serde::Deserialize)]
/// struct Row { score: f64 }
/// assert_eq!(parse::<Row>(line).unwrap().score, 0.5);
/// let wrong = parse::<Row>(r#"{"score": NaN}"#).err().unwrap();
/// assert!(wrong.starts_with("`NaN` in column 11 is not JSON"));
/// ```
pub fn parse<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    let error = match serde_json::from_str(line) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    if !error.is_syntax() {
        return Err(if error.is_eof() { CUT.into() } else { error.to_string() });
    }
    let odd = odd(line);
    let plain = odd.iter().rev().fold(line.to_owned(), |mut plain, odd| {
        if odd.is_number {
            plain.replace_range(odd.at..odd.at + odd.text.len(), NO_NUMBER);
        }
        plain
    });
    serde_json::from_str(&plain).map_err(|_| {
        let shown = |odd: &Odd| {
            let column = line[..odd.at].chars().count() + 1;
            let why = if odd.is_number {
                "is not JSON\nhint: write `null`, or leave the field out"
            } else {
                "is half of a character\nhint: write both halves, as in `\\ud83d\\ude00`, or the character itself"
            };
            format!("`{}` in column {column} {why}", odd.text)
        };
        odd.first().map_or_else(|| syntax(line, &error), shown)
    })
}

/// The reason why a text is not JSON: what was expected, and what stands there. Columns are characters, from
/// 1.
#[must_use]
pub fn syntax(text: &str, error: &serde_json::Error) -> String {
    let reason = error.to_string();
    let reason = reason.split(" at line ").next().unwrap_or_default();
    let reason = reason.replace("expected ident", "expected `null`, `true` or `false`");
    let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
    let mut at = error.column().saturating_sub(1).min(line.len());
    while !line.is_char_boundary(at) {
        at -= 1;
    }
    let found: String = line[at..].chars().take(SHOWN).collect();
    if error.is_eof() || found.is_empty() {
        return format!("not JSON: {reason}");
    }
    format!("not JSON: {reason} in column {}, where `{found}` stands", line[..at].chars().count() + 1)
}

/// Characters of a text that are shown from an error on.
const SHOWN: usize = 12;

const CUT: &str = "the line ends in the middle of its JSON object\nhint: is a `}` or `\"` missing?";

/// Returns true if a value stands for a number that is none, such as `NaN`.
pub fn is_no_number(value: &Value) -> bool {
    matches!(value, Value::Array(items) if matches!(items.as_slice(), [Value::String(text)] if text == "NaN"))
}

/// A token that is not JSON.
struct Odd<'l> {
    at: usize,
    text: &'l str,
    is_number: bool,
}

/// Numbers that are none outside of strings, and halves of surrogate pairs within.
fn odd(line: &str) -> Vec<Odd<'_>> {
    let (mut found, mut at, mut in_string) = (Vec::new(), 0, false);
    while let Some(c) = line[at..].chars().next() {
        let tail = &line[at..];
        let number = ["NaN", "-Infinity", "Infinity"].into_iter().find(|name| tail.starts_with(name));
        let mut length = c.len_utf8();
        match (in_string, number) {
            (_, _) if c == '"' => in_string = !in_string,
            (true, _) if c == '\\' => match surrogate(tail) {
                Some(is_high)
                    if is_high && surrogate(tail.get(ESCAPE..).unwrap_or_default()) == Some(false) =>
                {
                    length = 2 * ESCAPE;
                }
                Some(_) => {
                    found.push(Odd { at, text: &tail[..ESCAPE], is_number: false });
                    length = ESCAPE;
                }
                None => length += tail[1..].chars().next().map_or(0, char::len_utf8),
            },
            (false, Some(name)) => {
                found.push(Odd { at, text: &tail[..name.len()], is_number: true });
                length = name.len();
            }
            _ => {}
        }
        at += length;
    }
    found
}

/// Bytes of `\ud83d`.
const ESCAPE: usize = 6;

/// Returns true if a text begins with the escape of the first half of a surrogate pair, false if of the
/// second; `None` if of neither.
fn surrogate(text: &str) -> Option<bool> {
    let digits = text.get(..ESCAPE)?.strip_prefix("\\u")?;
    match u32::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(true),
        0xdc00..=0xdfff => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_json_does_not_have_is_named() {
        for (line, expected) in [
            (r#"{"a": "\ud83d"}"#, "`\\ud83d` in column 8 is half of a character"),
            (r#"{"é": "x\ude00 \ud83d\ude00"}"#, "`\\ude00` in column 9 is half of a character"),
            (r#"{"a": "\\ud83d" x}"#, "not JSON: expected `,` or `}` in column 17, where `x}` stands"),
            (r#"{"a": NaN x}"#, "`NaN` in column 7 is not JSON"),
            (r#"{"a": "NaN" x}"#, "not JSON: expected `,` or `}` in column 13, where `x}` stands"),
            (r#"{"é": 'x'}"#, "not JSON: expected value in column 7, where `'x'}` stands"),
            (r#"{"a": 1, b: 2}"#, "not JSON: key must be a string in column 10, where `b: 2}` stands"),
            (r#"{"a": 1,}"#, "not JSON: trailing comma in column 9, where `}` stands"),
            (r#"{"a": "x"#, "the line ends in the middle of its JSON object"),
        ] {
            let reason = parse::<Value>(line).unwrap_err();
            assert!(reason.starts_with(expected), "{line}: {reason}");
        }
    }

    #[test]
    fn numbers_that_are_none_do_no_harm_where_they_are_not_read() {
        let row: Value =
            parse(r#"{"a": NaN, "b": [-Infinity, 1], "c": "NaN \" NaN", "d": Infinity}"#).unwrap();
        assert!(is_no_number(&row["a"]) && is_no_number(&row["b"][0]) && is_no_number(&row["d"]));
        assert_eq!((&row["c"], &row["b"][1]), (&Value::from("NaN \" NaN"), &Value::from(1)));
    }
}
