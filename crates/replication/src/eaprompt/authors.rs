//! The authors' own file of constants with their worked examples, which comes from the user: its repository
//! carries no licence. Nothing is rendered here.
//!
//! Source: `EAPrompt/constants/context.py` of Coldmist-Lu/ErrorAnalysis_Prompt at c74bf779.

use std::collections::BTreeMap;

use tribunal_core::segment::lang;
use tribunal_judges::shots::Shot;

use super::{Example, Words};

/// Style of the errors in the authors' examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demo {
    Itemized,
    Detailed,
}

/// The examples of the authors' file, with or without their references.
///
/// # Errors
/// A sentence that names the constant that is missing or cannot be read.
pub fn read_authors(text: &str, demo: Demo, with_references: bool) -> Result<Vec<Example>, String> {
    let constants = constants(text)?;
    let constant = |name: &str| {
        let text = constants.get(name).ok_or_else(|| format!("the constant `{name}` is missing"))?;
        Ok::<String, String>(text.trim().to_owned())
    };
    let kind = if with_references { "REF" } else { "SRC" };
    let demo = if demo == Demo::Itemized { "ITEMIZED" } else { "DETAILED" };
    let pairs = constants.keys().filter_map(|name| name.strip_prefix("EXAMPLE_")?.strip_suffix("_SRC"));
    let example = |pair: &str| {
        let (src, tgt) = lang::parse_pair(&pair.to_lowercase()).map_err(|e| e.to_string())?;
        let name = format!("EXAMPLE_{pair}_{kind}");
        let texts = constant(&name)?;
        let [source, reference, target] = cut(&texts, with_references)
            .ok_or_else(|| format!("the constant `{name}` does not run from `Source:` to `Translation:`"))?;
        let shot = Shot {
            source_lang: src.name().into(),
            target_lang: tgt.name().into(),
            source: source.into(),
            reference: with_references.then(|| reference.into()),
            target: target.into(),
            errors: Vec::new(),
        };
        let words = Words {
            errors: constant(&format!("EXAMPLE_ERROR_{demo}_{pair}"))?,
            counts: constant(&format!("EXAMPLE_COUNT_{pair}"))?,
        };
        Ok(Example { shot, words: Some(words) })
    };
    let examples = pairs.map(example).collect::<Result<Vec<_>, String>>()?;
    if examples.is_empty() { Err("it has no constant `EXAMPLE_..._SRC`".into()) } else { Ok(examples) }
}

/// Source, reference (empty without one) and translation of an example.
fn cut(texts: &str, with_reference: bool) -> Option<[&str; 3]> {
    let tail = texts.strip_prefix("Source: ")?;
    if !with_reference {
        return tail.split_once("\nTranslation: ").map(|(source, target)| [source, "", target]);
    }
    let (source, tail) = tail.split_once("\nReference: ")?;
    let (reference, target) = tail.split_once("\nTranslation: ")?;
    Some([source, reference, target])
}

/// The string constants of a Python file, `NAME = "..."` at the start of a line; everything else is skipped.
///
/// # Errors
/// A sentence about a string that does not end or has an escape that is not read here.
fn constants(text: &str) -> Result<BTreeMap<String, String>, String> {
    let text = text.replace("\r\n", "\n");
    let mut constants = BTreeMap::new();
    let mut tail = text.as_str();
    while !tail.is_empty() {
        let line = tail.split('\n').next().unwrap_or_default();
        let (name, value) = line.split_once(" = ").unwrap_or(("", line));
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
        let start = if is_name { value } else { line };
        if !start.starts_with(['"', '\'']) {
            tail = tail.get(line.len() + 1..).unwrap_or_default();
            continue;
        }
        // A string without a name, such as the file's own description, is skipped whole.
        let from = line.len() - start.len();
        let (value, behind) = string(&tail[from..]).map_err(|why| match name {
            "" => why.to_owned(),
            name => format!("the constant `{name}` {why}"),
        })?;
        tail = behind.split_once('\n').map_or("", |(_, tail)| tail);
        if is_name {
            constants.insert(name.to_owned(), value);
        }
    }
    Ok(constants)
}

/// The string at the start of a text, and the text after it.
fn string(text: &str) -> Result<(String, &str), &'static str> {
    let quote = &text[..1];
    let triple = quote.repeat(3);
    let close = if text.starts_with(&triple) { triple.as_str() } else { quote };
    let body = &text[close.len()..];
    let end = body.find(close).ok_or("is a string that does not end")?;
    if body[..end].contains('\\') {
        return Err("holds a backslash, and escapes are not read here");
    }
    Ok((body[..end].to_owned(), &body[end + close.len()..]))
}

#[cfg(test)]
mod tests {
    use tribunal_judges::eaprompt::examples::is_authors;

    use super::*;

    const OURS: &str = include_str!("../../../../tests/golden/eaprompt_examples.py");

    #[test]
    fn the_layout_of_the_authors_file() {
        assert!(is_authors(OURS) && !is_authors("{\"source\": \"EXAMPLE_\"}"));
        let [de, zh] = &read_authors(OURS, Demo::Itemized, true).unwrap()[..] else { panic!("two examples") };
        assert_eq!((de.shot.source_lang.as_str(), de.shot.target_lang.as_str()), ("English", "German"));
        assert_eq!(de.shot.reference.as_deref(), Some("Sie machte das Fenster zu und las weiter."));
        assert_eq!(zh.shot.source, "他把\"窗户\"关上了。");
        let Words { errors, counts } = de.words.as_ref().unwrap();
        assert!(errors.starts_with("Major errors:\n(1) “ging") && errors.ends_with("Grammar'"), "{errors}");
        assert_eq!(counts, "1, 1");
        let detailed = read_authors(OURS, Demo::Detailed, false).unwrap();
        assert_eq!(
            (detailed[0].shot.reference.as_ref(), detailed[0].shot.target.as_str()),
            (None, de.shot.target.as_str())
        );
        assert!(detailed[0].words.as_ref().unwrap().errors.starts_with("The words"));
    }

    #[test]
    fn what_is_wrong_with_a_file() {
        let check = |text: &str, expected: &str| {
            let error = read_authors(text, Demo::Itemized, false).unwrap_err();
            assert_eq!(error, expected, "{text}");
        };
        check("\"\"\"\nEXAMPLE_ENDE_SRC = \"x\"\n\"\"\"\n", "it has no constant `EXAMPLE_..._SRC`");
        check(
            "EXAMPLE_ENDE_SRC = \"\"\"\nSource: a",
            "the constant `EXAMPLE_ENDE_SRC` is a string that does not end",
        );
        check(
            "EXAMPLE_ENDE_SRC = \"a\\n\"",
            "the constant `EXAMPLE_ENDE_SRC` holds a backslash, and escapes are not read here",
        );
        check(
            "EXAMPLE_ENDE_SRC = \"Source: a\"",
            "the constant `EXAMPLE_ENDE_SRC` does not run from `Source:` to `Translation:`",
        );
        let texts = "EXAMPLE_ENDE_SRC = \"\"\"Source: a\nTranslation: b\"\"\"";
        check(texts, "the constant `EXAMPLE_ERROR_ITEMIZED_ENDE` is missing");
    }
}
