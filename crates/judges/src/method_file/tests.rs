//! Files that are refused, each with its place, and those that are read.

use std::fs;

use super::*;

const METHOD: &str = r#"
name = "mine"
summary = "s"
citation = "c"
[prompts]
question = "question.j2"
[answer]
schema = "answer.json"
max-tokens = 100
[score]
lowest = 0
highest = 10
better = "lower"
field = "score"
[errors]
list = "errors"
span = "span"
category = "type"
severity = "severity"
[weights]
critical = 10
major = 4
minor = 0.5
"#;

const SCHEMA_TEXT: &str = r#"{"properties": {"score": {"type": "integer"}, "errors": {"items": {"properties":
    {"span": {"substringOf": "translation"}, "type": {}, "severity": {}}}}}}"#;

const PROMPT: &str = "{{ source_lang }}: {{ source }}\n{{ target }}\n{{ schema }}\n";

/// A folder of a method, changed.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(changes: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        let change = |text: &str| {
            changes.iter().fold(text.to_owned(), |text, (from, to)| {
                assert!([METHOD, SCHEMA_TEXT, PROMPT].concat().contains(from), "{from}");
                text.replace(from, to)
            })
        };
        for (name, text) in [(FILE, METHOD), ("answer.json", SCHEMA_TEXT), ("question.j2", PROMPT)] {
            fs::write(folder.0.path().join(name), change(text)).unwrap();
        }
        folder
    }

    fn read(&self) -> Result<MethodFile, String> {
        let path = self.0.path();
        MethodFile::read(path).map_err(|e| e.to_string().replace(&path.display().to_string(), "DIR"))
    }
}

fn refused(changes: &[(&str, &str)]) -> String {
    Folder::new(changes).read().err().unwrap_or_else(|| panic!("{changes:?} is read"))
}

#[test]
fn a_method_is_read_from_its_file_or_its_folder() {
    let folder = Folder::new(&[]);
    let method = folder.read().unwrap();
    let of_file = MethodFile::read(&folder.0.path().join(FILE)).unwrap();
    assert_eq!(of_file.hash(), method.hash());
    let described = method.method();
    assert_eq!((described.name, described.weights), ("mine", Some("10/4/0.5")));
    assert_eq!(described.scale.to_string(), "-10 to 0, higher is better; raw scores without the minus");
    assert!(described.options.is_empty() && described.granularities.len() == 3);
    let names: Vec<&str> = method.files().iter().map(|file| &*file.name).collect();
    assert_eq!(names, [FILE, "question.j2", "answer.json"]);
    // Other files of the folder do not count.
    fs::write(folder.0.path().join("notes.txt"), "x").unwrap();
    assert_eq!(folder.read().unwrap().hash(), method.hash());
    fs::write(folder.0.path().join("question.j2"), "{{ source }}").unwrap();
    assert_ne!(folder.read().unwrap().hash(), method.hash());
    let reference = Folder::new(&[("{{ target }}", "{% if reference %}{{ reference }}{% endif %}")]);
    let method = reference.read().unwrap();
    assert_eq!((method.method().options[0].name, method.method().granularities.len()), ("reference", 1));
}

#[test]
fn a_request_is_told_from_a_name() {
    let seen = |text| request(text).map(|(path, options)| format!("{} {options}", path.display()));
    assert_eq!(seen("gemba-mqm:form=json"), None);
    assert_eq!(seen("himate:calibration=a/b.toml"), None);
    assert_eq!(seen("./mine"), Some("./mine ".into()));
    assert_eq!(seen("./mine:reference=on"), Some("./mine reference=on".into()));
    assert_eq!(seen("/a:b/c"), Some("/a:b/c ".into()));
    assert_eq!(seen("/x=1:y/mine.toml:reference=on"), Some("/x=1:y/mine.toml reference=on".into()));
    assert_eq!(seen("mine.toml"), Some("mine.toml ".into()));
}

#[test]
fn files_that_are_refused() {
    let keys = [
        refused(&[("summary", "sumary")]),
        refused(&[("better = \"lower\"", "better = \"worse\"")]),
        refused(&[("max-tokens = 100", "max-tokens = 0")]),
        refused(&[("lowest = 0", "lowest = 10")]),
        refused(&[("name = \"mine\"", "name = \"Mine/..\"")]),
        refused(&[("citation = \"c\"", "citation = \"c\"\nrole = \"referee\"")]),
        refused(&[("field = \"score\"", "field = \"total\"")]),
        refused(&[("field = \"score\"", "after = \"x\"")]),
        refused(&[("schema = \"answer.json\"", "schema = \"answer.json\"\npattern = \"1\"")]),
        refused(&[("schema = \"answer.json\"", "pattern = \"(\"")]),
        refused(&[("minor = 0.5", "minor = -1")]),
        refused(&[("span = \"span\"", "span = \"text\"")]),
    ];
    insta::assert_snapshot!(keys.join("\n"), @r#"
    `DIR/method.toml` line 3: unknown field `sumary`, expected one of `name`, `summary`, `citation`, `role`, `prompts`, `answer`, `score`, `errors`, `weights`
    `DIR/method.toml` line 13: unknown variant `worse`, expected `higher` or `lower`
    `DIR/method.toml` line 9: it can be 1 to 16384
    `DIR/method.toml` line 11: `lowest` 10 is not below `highest` 10
    `DIR/method.toml` line 2: a name has 1 to 64 lower-case letters, digits, hyphens and dots
    `DIR/method.toml` line 5: a role cannot be `referee`
    hint: it can be annotator, debater-a, debater-b, checker, reviewer, judge, tier-1, tier-2, single, core, evaluator, search, comparer or editor
    `DIR/method.toml` line 14: the schema has no property `total`
    `DIR/method.toml` line 10: the number of a JSON answer is at `field` or `mean`, that of others the answer or `after` a text
    `DIR/method.toml` line 7: an answer has one form: `schema`, `choices` or `pattern`
    `DIR/method.toml` line 8: regex parse error:     (     ^ error: unclosed group
    `DIR/method.toml` line 20: a penalty is a number from 0
    `DIR/method.toml` line 17: the schema has no property `text`
    "#);
    let files = [
        refused(&[("question.j2", "../question.j2")]),
        refused(&[("question.j2", "/etc/passwd.j2")]),
        refused(&[("question.j2", "other.j2")]),
        refused(&[("question.j2", "question.txt")]),
        refused(&[("\"translation\"", "\"reference\"")]),
        refused(&[(SCHEMA_TEXT, "[]")]),
        refused(&[("{{ target }}", "{{ target")]),
        refused(&[("{{ target }}", "{% if reference %}{{ tarqet }}{% endif %}")]),
        refused(&[("{{ target }}", "{% include 'method.toml' %}")]),
        refused(&[("{{ target }}", "{{ reference }}")]),
        refused(&[("{{ target }}", "{% if reference %}{{ target | shout }}{% endif %}")]),
    ];
    insta::assert_snapshot!(files.join("\n"), @r#"
    `DIR/method.toml` line 6: `../question.j2` cannot be read: `../question.j2` leads out of the folder
    `DIR/method.toml` line 6: `/etc/passwd.j2` cannot be read: `/etc/passwd.j2` leads out of the folder
    `DIR/method.toml` line 6: `other.j2` cannot be read: there is no such file or folder
    `DIR/method.toml` line 6: `question.txt` does not end in `.j2`
    `DIR/method.toml` line 8: `substringOf` names "reference"; it can name source and translation
    `DIR/method.toml` line 8: `answer.json` is no schema: it is no object
    prompt `question.j2` cannot be used: unexpected `{`, expected end of variable block (line 3)
    `DIR/question.j2` line 2: there is no value `tarqet`; did you mean `target`?
    hint: a template can use source_lang, source, target_lang, target, reference, schema
    prompt `question.j2`: tried to include non-existing template 'method.toml' (line 2); hint: a template may only use the values that the method gives
    `DIR/question.j2` line 2: a reference that is not shown prints `none` here; hint: {% if reference %} ... {% endif %}
    prompt `question.j2`: filter shout is unknown (line 2); hint: a template may only use the values that the method gives
    "#);
}

#[cfg(unix)]
#[test]
fn links_out_of_the_folder_are_refused() {
    let folder = Folder::new(&[]);
    let outside = tempfile::NamedTempFile::new().unwrap();
    let link = folder.0.path().join("question.j2");
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(outside.path(), &link).unwrap();
    let error = folder.read().unwrap_err();
    assert!(error.starts_with("`DIR/method.toml` line 6: `question.j2` cannot be read"), "{error}");
    assert!(error.ends_with("leads over a link, which may point anywhere"), "{error}");
    fs::remove_file(&link).unwrap();
    fs::write(&link, "x".repeat(MAX_BYTES as usize + 1)).unwrap();
    assert!(folder.read().unwrap_err().contains("question.j2"), "too large");
}
