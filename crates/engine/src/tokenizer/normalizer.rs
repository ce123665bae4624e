//! Checks the normalizers and pre-tokenizers of a `tokenizer.json`: only those that terminate and enlarge a
//! text little are accepted. They are checked before the tokenizer is built, which can itself exhaust memory.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

use super::{Error, Result};

/// The longest text that a step prepends or substitutes. Unit: bytes. SentencePiece's mark has three.
const MAX_CONTENT_BYTES: usize = 64;

/// The longest text that one character becomes. Unit: bytes. Unicode's own have 33.
const MAX_MAPPED_BYTES: usize = 256;

/// The largest growth of a text's length over all steps together, as a factor, and the largest number of
/// steps.
const MAX_GROWTH: f64 = 1000.0;
const MAX_STEPS: usize = 100;

/// The parts of the file that work on texts; all others are skipped.
#[derive(Deserialize)]
struct Parts {
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
}

/// Rejects steps that would not terminate, or enlarge a text without bound.
///
/// # Errors
/// [`Error::Json`] names the step.
pub fn check(json: &[u8]) -> Result<()> {
    let parts: Parts = serde_json::from_slice(json).map_err(|e| Error::Json(e.to_string()))?;
    let (mut growth, mut n_steps) = (1.0, 0);
    for part in [&parts.normalizer, &parts.pre_tokenizer] {
        walk(part, &mut |by| {
            growth *= by;
            n_steps += 1;
        })?;
    }
    if growth > MAX_GROWTH {
        return Err(bad(&format!("its steps make a text {growth} times as long")));
    }
    if n_steps > MAX_STEPS {
        return Err(bad(&format!("it takes {n_steps} steps before it cuts a text into tokens")));
    }
    Ok(())
}

fn bad(reason: &str) -> Error {
    Error::Json(format!("{reason}, which no real tokenizer does"))
}

/// Visits a step and those within it; `grown` is called with the largest factor by which each can multiply a
/// text's length. (Unicode composition, decomposition and case folding grow a text once, and not again.)
fn walk(part: &Value, grown: &mut impl FnMut(f64)) -> Result<()> {
    for list in ["normalizers", "pretokenizers"] {
        for inner in part[list].as_array().into_iter().flatten() {
            walk(inner, grown)?;
        }
    }
    let kind = part["type"].as_str().unwrap_or_default();
    let content = part["content"].as_str().or_else(|| part["prepend"].as_str()).unwrap_or_default();
    if content.len() > MAX_CONTENT_BYTES {
        return Err(bad(&format!("its `{kind}` puts {} bytes in a place", content.len())));
    }
    let least = shortest(kind, &part["pattern"])?;
    let mapped = part["precompiled_charsmap"].as_str().map(check_charsmap).transpose()?;
    grown(match (kind, least, mapped) {
        // Bytes become characters of two bytes.
        ("ByteLevel", ..) => 2.0,
        // A blank becomes SentencePiece's mark.
        ("Metaspace", ..) => 3.0,
        (_, Some(least), _) => (content.len() as f64 / least as f64).max(1.0),
        (.., Some(longest)) => (longest as f64).max(1.0),
        _ => 1.0,
    });
    Ok(())
}

/// The fewest bytes that a pattern matches; `None` without one.
fn shortest(kind: &str, pattern: &Value) -> Result<Option<usize>> {
    let (text, least, is_empty) = match (pattern["String"].as_str(), pattern["Regex"].as_str()) {
        (Some(text), _) => (text, text.len(), text.is_empty()),
        // A pattern outside this reader's syntax (lookaround) splits, and is not checked here.
        (_, Some(regex)) => (regex, 1, Regex::new(regex).is_ok_and(|regex| regex.is_match(""))),
        _ => return Ok(None),
    };
    if text.is_empty() || (is_empty && kind == "Replace") {
        return Err(bad(&format!("its `{kind}` looks for `{text}`, which matches an empty text")));
    }
    Ok(Some(least))
}

/// Checks a compiled map of characters: four bytes with the size of a trie, the trie, and the texts that
/// characters become, each of which ends with a zero. The length of the longest of these.
///
/// Source: SentencePiece, `normalizer.cc`, `DecodePrecompiledCharsMap`.
fn check_charsmap(map: &str) -> Result<usize> {
    let broken = |reason: String| Error::Json(format!("its `precompiled_charsmap` is broken: {reason}"));
    let bytes = STANDARD.decode(map).map_err(|e| broken(e.to_string()))?;
    let Some((size, tail)) = bytes.split_first_chunk::<4>() else { return Err(broken("it is empty".into())) };
    let size = u32::from_le_bytes(*size) as usize;
    // At least one unit of the trie, and whole units only.
    if size < 4 || !size.is_multiple_of(4) || size > tail.len() {
        return Err(broken(format!("it claims a trie of {size} bytes and holds {}", tail.len())));
    }
    let longest = tail[size..].split(|&byte| byte == 0).map(<[u8]>::len).max().unwrap_or(0);
    if longest > MAX_MAPPED_BYTES {
        return Err(broken(format!("it makes {longest} bytes of one character")));
    }
    Ok(longest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tokenizer::Tokenizer;

    /// The tests' tokenizer with this normalizer.
    fn with(normalizer: &Value) -> Vec<u8> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny/qwen2/tokenizer.json");
        let mut json: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        json["normalizer"] = normalizer.clone();
        json.to_string().into_bytes()
    }

    fn refused(normalizer: &Value) -> String {
        Tokenizer::from_json(&with(normalizer), None, None).err().map(|e| e.to_string()).unwrap_or_default()
    }

    fn replace(pattern: &Value, content: &str) -> Value {
        json!({ "type": "Replace", "pattern": pattern, "content": content })
    }

    #[test]
    fn real_normalizers_are_read() {
        for normalizer in [
            Value::Null,
            json!({ "type": "NFC" }),
            replace(&json!({ "String": " " }), "\u{2581}"),
            replace(&json!({ "Regex": " {2,}" }), "\u{2581}"),
            json!({ "type": "Sequence", "normalizers": [
                { "type": "Prepend", "prepend": "\u{2581}" },
                replace(&json!({ "String": " " }), "\u{2581}"),
            ]}),
        ] {
            let tokenizer = Tokenizer::from_json(&with(&normalizer), None, None).unwrap();
            tokenizer.encode_data("a b  c").unwrap();
        }
    }

    #[test]
    fn what_matches_nothing_or_grows_without_bound_is_refused() {
        for pattern in [json!({ "String": "" }), json!({ "Regex": "" }), json!({ "Regex": "x*" })] {
            let error = refused(&replace(&pattern, "y"));
            assert!(error.contains("matches an empty text"), "{pattern}: {error}");
        }
        let eight = replace(&json!({ "String": "a" }), "aaaaaaaa");
        let error = refused(&json!({ "type": "Sequence", "normalizers": [eight, eight, eight, eight] }));
        assert!(error.contains("8192 times as long"), "{error}");
        for kind in ["ByteLevel", "NFC"] {
            let steps = vec![json!({ "type": kind }); 200];
            let error = refused(&json!({ "type": "Sequence", "normalizers": steps }));
            assert!(error.contains("times as long") || error.contains("steps before"), "{kind}: {error}");
        }
        let long = "x".repeat(1 << 20);
        for normalizer in [
            json!({ "type": "Prepend", "prepend": long }),
            json!({ "type": "Sequence", "normalizers": [{ "type": "Prepend", "prepend": long }] }),
            replace(&json!({ "String": " " }), &long),
        ] {
            assert!(refused(&normalizer).contains("puts 1048576 bytes in a place"));
        }
    }

    #[test]
    fn a_map_of_characters_holds_the_trie_that_it_claims() {
        let refused = |bytes: &[u8]| {
            let map = STANDARD.encode(bytes);
            refused(&json!({ "type": "Precompiled", "precompiled_charsmap": map }))
        };
        for (bytes, claims) in
            [(&[0; 8][..], 0), (&[0xff, 0xff, 0xff, 0x7f, 0, 0], 0x7fff_ffff), (&[4, 0, 0, 0], 4)]
        {
            let error = refused(bytes);
            assert!(error.contains(&format!("claims a trie of {claims} bytes")), "{error}");
        }
        assert!(refused(&[]).contains("it is empty"));
        let long = [&[4, 0, 0, 0, 0, 0, 0, 0][..], &[b'x'; 1000]].concat();
        assert!(refused(&long).contains("makes 1000 bytes of one character"));
        // No content of the trie makes reading a text panic: here it sends every character out of bounds.
        let trie = "BAAAAP////8AAAAA";
        let json = with(&json!({ "type": "Precompiled", "precompiled_charsmap": trie }));
        if let Ok(tokenizer) = Tokenizer::from_json(&json, None, None) {
            let _ = tokenizer.encode_data("a b");
        }
    }
}
