//! JSON schemas of files and outputs: those in `docs/schemas` are generated from the types, and what the
//! program writes conforms to them. `TRIBUNAL_TEST_WRITE_SCHEMAS=1` writes them anew.

use std::{collections::BTreeMap, fs, path::Path};

use clap::CommandFactory;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Value, json};
use tribunal::{
    cli::Cli,
    report::statistics::Output,
    run::{Record, RunFile, Summary, call::CallLine},
};

use crate::{fakes::program_with, families, meta_cli};

fn of<T: JsonSchema>(about: &str) -> Value {
    let schema = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    let mut schema = schema.to_value();
    schema["title"] = about.into();
    schema
}

/// Options by their names, and tables of the options of single commands.
fn config() -> Value {
    let cli = Cli::command();
    let mut common = BTreeMap::new();
    let mut tables = BTreeMap::new();
    for command in cli.get_subcommands() {
        let mut own = BTreeMap::new();
        for inner in std::iter::once(command).chain(command.get_subcommands()) {
            for argument in inner.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let Some(long) = argument.get_long() else { continue };
                let kind = if argument.get_action().takes_values() { "value" } else { "flag" };
                own.insert(long.to_owned(), json!({"$ref": format!("#/$defs/{kind}")}));
            }
        }
        common.extend(own.clone());
        let table = json!({"type": "object", "properties": own, "additionalProperties": false});
        tables.insert(command.get_name().to_owned(), table);
    }
    common.extend(tables);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "config.toml",
        "description": "Options of every command that has them, and a table for those of a single one.",
        "type": "object",
        "properties": common,
        "additionalProperties": false,
        "$defs": {
            "flag": {"type": "boolean"},
            "scalar": {"type": ["string", "number", "boolean"]},
            "value": {
                "anyOf": [
                    {"$ref": "#/$defs/scalar"},
                    {"type": "array", "items": {"$ref": "#/$defs/scalar"}},
                ],
            },
        },
    })
}

fn all() -> [(&'static str, Value); 6] {
    [
        ("verdicts", of::<Record>("a line of verdicts.jsonl")),
        ("calls", of::<CallLine>("a line of calls.jsonl")),
        ("run", of::<RunFile>("run.json")),
        ("summary", of::<Summary>("summary.json")),
        ("meta", of::<Output<'_>>("tribunal meta --format json")),
        ("config", config()),
    ]
}

fn schema(name: &str) -> jsonschema::Validator {
    let (_, schema) = all().into_iter().find(|(other, _)| *other == name).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

#[track_caller]
fn conforms(name: &str, instance: &Value) {
    let schema = schema(name);
    let faults: Vec<String> =
        schema.iter_errors(instance).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(faults.is_empty(), "{name}: {faults:#?}");
}

#[test]
fn schemas_are_those_of_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas");
    for (name, schema) in all() {
        let path = folder.join(format!("{name}.json"));
        let text = format!("{schema:#}\n");
        if std::env::var_os("TRIBUNAL_TEST_WRITE_SCHEMAS").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &text).unwrap();
        }
        let written = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == text,
            "{} is not that of its type; set TRIBUNAL_TEST_WRITE_SCHEMAS=1",
            path.display()
        );
    }
}

#[test]
fn what_is_written_conforms() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    fs::write(at("source"), "The cat sat.\nTwo.\n").unwrap();
    fs::write(at("a"), "Die Katze saß.\nZwei.\n").unwrap();
    fs::write(at("b"), "Der Hund saß.\n\n").unwrap();
    let model = &at("model");
    families::with_long_context("qwen2", Path::new(model));
    let (source, a, b) = (at("source"), at("a"), at("b"));
    let score = ["score", "-s", &source, "-t", &a, &b, "-l", "en-de", "--max-tokens", "32", "--model", model];
    let run = |method: &str, out: &str| {
        let words = [&score[..], &["--method", method, "--out", out]].concat();
        program_with(tribunal::eval::models::load, &words).unwrap();
        let read = |name: &str| fs::read_to_string(Path::new(out).join(name)).unwrap();
        for (file, schema) in [("run.json", "run"), ("summary.json", "summary")] {
            conforms(schema, &read(file).parse().unwrap());
        }
        for (file, schema) in [("verdicts.jsonl", "verdicts"), ("calls.jsonl", "calls")] {
            let text = read(file);
            assert!(!text.is_empty());
            text.lines().for_each(|line| conforms(schema, &line.parse().unwrap()));
        }
    };
    run("gemba-mqm", &at("mqm"));
    run("fsp", &at("fsp"));
    run("gemba-da:score=expected", &at("da"));
}

#[test]
fn a_meta_evaluation_conforms() {
    let testset = meta_cli::testset();
    let words = ["-l", "en-de", "--also", "significance,calibration,testset", "--format", "json"];
    let text = meta_cli::meta(testset.path(), &words).unwrap();
    conforms("meta", &text.parse().unwrap());
}

#[test]
fn another_file_does_not_conform() {
    let mut verdict = json!({"system": "a"});
    assert!(schema("verdicts").validate(&verdict).is_err(), "fields are missing");
    verdict = toml::from_str("kv_cache = 3\n[score]\nmethod = [1, {}]\n").unwrap();
    assert!(schema("config").validate(&verdict).is_err());
    verdict = toml::from_str("kv-cache = '3G'\n[score]\nmethod = 'fsp'\nquiet = true\n").unwrap();
    conforms("config", &verdict);
}
