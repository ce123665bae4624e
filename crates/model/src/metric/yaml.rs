//! The part of YAML that `hparams.yaml` is written in: keys with a plain value or a list of them. A nested
//! value, a tag or an alias stays text: nothing is built or executed, and a setting that is read rejects it.

use serde_json::{Map, Value};

/// The keys of a document.
///
/// # Errors
/// The line, from 1, that is no key, and the reason.
pub(super) fn read(text: &str) -> Result<Map<String, Value>, (usize, String)> {
    let mut keys: Map<String, Value> = Map::new();
    let mut last: Option<String> = None;
    for (i, line) in text.lines().enumerate() {
        let content = line.split(" #").next().unwrap_or("").trim_end();
        if content.trim().is_empty() || content.starts_with('#') || content == "---" {
            continue;
        }
        let entry =
            content.trim_start().strip_prefix('-').filter(|entry| entry.is_empty() || entry.starts_with(' '));
        match (last.as_ref().and_then(|key| keys.get_mut(key)), entry) {
            (Some(Value::Array(list)), Some(entry)) => list.push(scalar(entry.trim())),
            (Some(value @ Value::Null), Some(entry)) => *value = Value::Array(vec![scalar(entry.trim())]),
            // The lines of a longer value.
            (Some(value), _) if content.starts_with(' ') => {
                *value = format!("{value} {}", content.trim()).into();
            }
            _ => {
                let (key, value) = content
                    .split_once(':')
                    .filter(|(key, value)| {
                        !key.starts_with([' ', '-', '{', '[']) && (value.is_empty() || value.starts_with(' '))
                    })
                    .ok_or_else(|| (i + 1, "is not `key: value`".to_owned()))?;
                if keys.insert(key.to_owned(), plain(value.trim())).is_some() {
                    return Err((i + 1, format!("has `{key}` a second time")));
                }
                last = Some(key.to_owned());
            }
        }
    }
    Ok(keys)
}

/// A value behind its key: a scalar, or a list of them in brackets.
fn plain(text: &str) -> Value {
    match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        Some("") => Value::Array(Vec::new()),
        Some(list) => list.split(',').map(|entry| scalar(entry.trim())).collect(),
        None => scalar(text),
    }
}

fn scalar(text: &str) -> Value {
    let quoted = |mark| text.strip_prefix(mark).and_then(|text: &str| text.strip_suffix(mark));
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => true.into(),
        "false" | "False" | "FALSE" => false.into(),
        _ if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
            serde_json::from_str(text).ok().filter(Value::is_number).unwrap_or_else(|| text.into())
        }
        _ => quoted('\'').or_else(|| quoted('"')).unwrap_or(text).into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_with_values_and_lists() {
        let text = "# made by Lightning\nlayer: mix\nlayer_norm: False\nhidden_sizes:\n- 3072\n- 1024\nfinal: null\n\
                    learning_rate: 1.0e-06 # small\ntrain_data: [a, 'b']\nempty: []\nlong: one\n  two\nmax: -1\n";
        let expected = json!({
            "layer": "mix", "layer_norm": false, "hidden_sizes": [3072, 1024], "final": null, "learning_rate": 1.0e-6,
            "train_data": ["a", "b"], "empty": [], "long": "\"one\" two", "max": -1,
        });
        assert_eq!(Value::Object(read(text).unwrap()), expected);
    }

    #[test]
    fn tags_stay_text() {
        let read =
            read("layer: !!python/object/apply:os.system ['true']\npool: &a avg\nx:\n  y: 1\n").unwrap();
        assert!(read["layer"].as_str().unwrap().starts_with("!!python"));
        assert_eq!((&read["pool"], &read["x"]), (&json!("&a avg"), &json!("null y: 1")));
    }

    #[test]
    fn other_lines_are_named() {
        assert_eq!(read("a: 1\nb\n").unwrap_err(), (2, "is not `key: value`".into()));
        assert_eq!(read("a: 1\na: 2\n").unwrap_err().0, 2);
        assert!(read("{a: 1}").is_err());
    }
}
