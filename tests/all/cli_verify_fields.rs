//! `tribunal verify` on a finished run with one changed field at a time: each change is found, or the docs
//! list the field as unchecked.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::{Value, json};

use crate::fakes::{SmallRun, said};

/// The fields of each file that docs/running.md declares unchecked, as patterns with `*` for one step.
fn unchecked() -> BTreeMap<String, BTreeSet<String>> {
    let docs = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/running.md")).unwrap();
    let table = docs.split("| file | not checked |").nth(1).unwrap();
    let mut fields: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in table.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').collect();
        let file = cells[1].trim().trim_matches('`').to_owned();
        let names = cells[2].split('`').skip(1).step_by(2).map(str::to_owned);
        fields.entry(file).or_default().extend(names);
    }
    fields
}

/// The pattern that a field's path matches, or that it is below; `None` if there is none.
fn matched<'a>(path: &str, patterns: &'a BTreeSet<String>) -> Option<&'a String> {
    let is = |pattern: &&String| {
        let mut path = path.split('.');
        pattern.split('.').all(|step| path.next().is_some_and(|own| step == "*" || step == own))
    };
    patterns.iter().find(is)
}

/// Paths of all fields of a value; of a list, those of the first and the last item.
fn paths(value: &Value, at: &str, found: &mut Vec<String>) {
    if !at.is_empty() {
        found.push(at.to_owned());
    }
    let below = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, field)| paths(field, &below(name), found)),
        Value::Array(items) => {
            let ends: BTreeSet<usize> = [0, items.len().saturating_sub(1)].into();
            ends.iter().filter_map(|&i| Some((i, items.get(i)?))).for_each(|(i, item)| {
                paths(item, &below(&i.to_string()), found);
            });
        }
        _ => {}
    }
}

/// Another value of the same kind; `None` where a field holds others.
fn other(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Null => json!(0),
        Value::Bool(is) => json!(!is),
        Value::Number(n) if n.is_f64() => json!(n.as_f64()? - 0.25),
        Value::Number(n) => json!(n.as_u64()? + 1),
        Value::String(text)
            if text.starts_with(|c: char| c.is_ascii_hexdigit()) && text.len().is_multiple_of(8) =>
        {
            let first = if text.starts_with('0') { "1" } else { "0" };
            json!(format!("{first}{}", &text[1..]))
        }
        Value::String(text) => json!(format!("{text}x")),
        Value::Array(items) => json!(items[..items.len().checked_sub(1)?]),
        Value::Object(_) => return None,
    })
}

/// The value with one field changed, and without it.
fn changes(value: &Value, path: &str) -> Vec<Value> {
    let pointer = format!("/{}", path.replace('~', "~0").replace('/', "~1").replace('.', "/"));
    let mut changed = Vec::new();
    if let Some(new) = value.pointer(&pointer).and_then(other) {
        let mut value = value.clone();
        *value.pointer_mut(&pointer).unwrap() = new;
        changed.push(value);
    }
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let mut without = value.clone();
    if let Some(Value::Object(fields)) = without.pointer_mut(parent)
        && fields.shift_remove(&name.replace("~1", "/").replace("~0", "~")).is_some()
    {
        changed.push(without);
    }
    changed
}

/// Verifies a folder with a changed file: true if the change is found, and the output.
fn is_found(small: &SmallRun, file: &str, text: &str) -> (bool, String) {
    let path = small.at("out").join(file);
    let before = fs::read(&path).unwrap();
    fs::write(&path, text).unwrap();
    let mut told = String::new();
    let mut found = false;
    for args in [&["verify", "out", "--without-model"][..], &["verify", "out"]] {
        let (code, text) = said(small.tribunal(args));
        assert!(matches!(code, 0..=2) && !text.contains("panicked"), "{file}: {code}: {text}");
        found |= code != 0;
        told = text;
        if found {
            break;
        }
    }
    fs::write(&path, before).unwrap();
    (found, told)
}

/// Changes each field of a line of a file in turn.
fn check_line(
    small: &SmallRun,
    file: &str,
    line: usize,
    patterns: &BTreeSet<String>,
    seen: &mut BTreeSet<String>,
) {
    let text = small.read(&format!("out/{file}"));
    let is_lines = Path::new(file).extension().is_some_and(|ending| ending == "jsonl");
    let lines: Vec<&str> = if is_lines { text.lines().collect() } else { vec![&text] };
    let value: Value = serde_json::from_str(lines[line]).unwrap();
    let mut fields = Vec::new();
    paths(&value, "", &mut fields);
    for field in fields {
        let of_docs = matched(&field, patterns);
        for changed in changes(&value, &field) {
            let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            lines[line] = changed.to_string();
            let (found, told) = is_found(small, file, &(lines.join("\n") + "\n"));
            if !found {
                assert!(
                    of_docs.is_some(),
                    "{file} line {line}: `{field}` is not checked: {changed:.300}\n{told}"
                );
                seen.extend(of_docs.cloned());
            }
        }
    }
}

fn finished() -> SmallRun {
    let small = SmallRun::scoring(1);
    let (code, text) = said(small.score("out", &["--threads", "1"]));
    assert!(matches!(code, 0 | 1), "{text}");
    small
}

#[test]
fn every_field_is_checked_or_declared_unchecked() {
    let (small, unchecked) = (finished(), unchecked());
    let none = BTreeSet::new();
    let of = |file: &str| unchecked.get(file).unwrap_or(&none);
    let calls = small.read("out/calls.jsonl");
    let scored = calls.lines().position(|line| line.contains("\"scored\"")).unwrap();
    let asked = calls.lines().position(|line| !line.contains("\"scored\"")).unwrap();
    for (file, lines) in [
        ("run.json", &[0][..]),
        ("summary.json", &[0]),
        ("calls.jsonl", &[asked, scored]),
        ("verdicts.jsonl", &[0]),
        ("journal.jsonl", &[0]),
        ("input.jsonl", &[0]),
    ] {
        let mut seen = BTreeSet::new();
        for &line in lines {
            check_line(&small, file, line, of(file), &mut seen);
        }
        // A model without a hub has neither of these, and a run that was not merged lacks that one.
        let absent = ["merged", "origin.models.*.revision", "origin.models.*.sources.*"];
        let idle: Vec<_> =
            of(file).difference(&seen).filter(|name| !absent.contains(&name.as_str())).collect();
        assert!(idle.is_empty(), "{file}: docs say that these are not checked, but they are: {idle:?}");
    }
    let (code, text) = said(small.tribunal(&["verify", "out"]));
    assert_eq!(code, 0, "{text}");
}

/// The fields that `verify --without-model` lists as unchecked.
fn named_unchecked(small: &SmallRun) -> BTreeMap<String, BTreeSet<String>> {
    let (code, text) = said(small.tribunal(&["verify", "out", "--without-model", "--json"]));
    assert_eq!(code, 0, "{text}");
    let report: Value = serde_json::from_str(&text).unwrap();
    let (_, shown) = said(small.tribunal(&["verify", "out", "--without-model"]));
    let (_, with_model) = said(small.tribunal(&["verify", "out", "--json"]));
    assert!(with_model.contains("\"unchecked\": {}"), "{with_model}");
    let names = |fields: &Value| -> BTreeSet<String> {
        fields.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    let unchecked: BTreeMap<_, _> =
        report["unchecked"].as_object().unwrap().iter().map(|(file, of)| (file.clone(), names(of))).collect();
    for name in unchecked.values().flatten() {
        assert!(shown.contains(name.as_str()), "{name}: {shown}");
    }
    unchecked
}

#[test]
fn what_only_the_model_confirms_is_named() {
    let (small, mut unchecked) = (finished(), unchecked());
    let named = named_unchecked(&small);
    let of_calls = unchecked.entry("calls.jsonl".into()).or_default();
    of_calls.extend(named["calls.jsonl"].iter().cloned());
    let calls = small.read("out/calls.jsonl");
    let lines: Vec<&str> = calls.lines().collect();
    for at in [
        lines.iter().position(|line| line.contains("\"scored\"")).unwrap(),
        lines.iter().position(|line| !line.contains("\"scored\"")).unwrap(),
    ] {
        let value: Value = serde_json::from_str(lines[at]).unwrap();
        let mut fields = Vec::new();
        paths(&value, "", &mut fields);
        for field in fields {
            for changed in changes(&value, &field) {
                let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
                lines[at] = changed.to_string();
                fs::write(small.at("out/calls.jsonl"), lines.join("\n") + "\n").unwrap();
                let (code, text) = said(small.tribunal(&["verify", "out", "--without-model"]));
                let is_named = matched(&field, &unchecked["calls.jsonl"]).is_some();
                assert!(code != 0 || is_named, "`{field}` is neither checked nor named: {text}");
            }
        }
    }
}

/// Changes of a whole file: the change of its bytes, and the message of `verify`.
#[test]
fn every_file_is_missed_and_so_is_its_end() {
    let small = finished();
    for (file, said) in [
        ("verdicts.jsonl", "verdicts.jsonl: a file of every run that is finished"),
        ("summary.json", "summary.json: a file of every run that is finished"),
        ("calls.jsonl", "a question of"),
        ("input.jsonl", "keeps no copy of its input"),
        ("materials/prompts/gemba_scales/sqm.j2", "no file in `out/materials/prompts`"),
    ] {
        let path = small.at("out").join(file);
        let before = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let (code, text) = crate::fakes::said(small.tribunal(&["verify", "out", "--without-model"]));
        // Without the prompt there is no judge, and without the input no text, to check anything with.
        let expected = if file.starts_with("materials") || file == "input.jsonl" { 2 } else { 1 };
        assert!(code == expected && text.contains(said), "without {file}: {code}: {text}");
        fs::write(&path, [&before[..], b"{\"x\":"].concat()).unwrap();
        let (code, text) = crate::fakes::said(small.tribunal(&["verify", "out", "--without-model"]));
        assert_eq!(code, 1, "bytes behind {file}: {text}");
        fs::write(&path, "").unwrap();
        let (code, text) = crate::fakes::said(small.tribunal(&["verify", "out", "--without-model"]));
        assert!(matches!(code, 1 | 2), "{file} without a byte: {code}: {text}");
        fs::write(&path, before).unwrap();
    }
    let journal = small.read("out/journal.jsonl");
    fs::write(small.at("out/journal.jsonl"), journal.clone() + "{").unwrap();
    let (code, text) = said(small.tribunal(&["verify", "out", "--without-model"]));
    assert!(code == 1 && text.contains("journal.jsonl: bytes behind the last verdict"), "{text}");
    fs::write(small.at("out/journal.jsonl"), journal).unwrap();
    let summary = small.read("out/summary.json");
    let score = summary.split("\"score\": ").nth(1).unwrap().split(',').next().unwrap();
    for other in ["\"99.0\"", "null", "{}"] {
        let changed = summary.replacen(&format!("\"score\": {score}"), &format!("\"score\": {other}"), 1);
        fs::write(small.at("out/summary.json"), changed).unwrap();
        let (code, text) = said(small.tribunal(&["verify", "out", "--without-model"]));
        assert!(code == 1 && text.contains("summary.json: `systems`"), "{other}: {text}");
    }
}
