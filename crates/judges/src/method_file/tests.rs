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

/// The refusals of folders, each with its changes.
fn refusals(folders: &[&[(&str, &str)]]) -> String {
    let refused = |changes: &&[(&str, &str)]| {
        Folder::new(changes).read().err().unwrap_or_else(|| panic!("{changes:?} is read"))
    };
    folders.iter().map(refused).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_method_is_read_from_its_file_or_its_folder() {
    let folder = Folder::new(&[]);
    let method = folder.read().unwrap();
    let of_file = MethodFile::read(&folder.0.path().join(FILE)).unwrap();
    assert_eq!(of_file.files(), method.files());
    let described = method.method();
    assert_eq!((described.name, described.weights), ("mine", Some("10/4/0.5")));
    assert_eq!(described.scale.to_string(), "-10 to 0, higher is better; raw scores without the minus");
    assert!(described.options.is_empty() && described.granularities.len() == 3);
    let names: Vec<&str> = method.files().iter().map(|file| &*file.name).collect();
    assert_eq!(names, [FILE, "question.j2", "answer.json"]);
    // Other files of the folder do not count.
    fs::write(folder.0.path().join("notes.txt"), "x").unwrap();
    assert_eq!(folder.read().unwrap().files(), method.files());
    fs::write(folder.0.path().join("question.j2"), "{{ source }}").unwrap();
    assert_ne!(folder.read().unwrap().files(), method.files());
    for condition in ["reference", "reference is not none", "reference is none %}none{% else"] {
        let text = format!("{{% if {condition} %}}Reference: {{{{ reference }}}}{{% endif %}}");
        let method = Folder::new(&[("{{ target }}", &text)]).read().unwrap();
        assert_eq!((method.method().options[0].name, method.method().granularities.len()), ("reference", 1));
    }
    assert_eq!(place(Path::new("a/b.toml")), (PathBuf::from("a"), "b.toml".to_owned()));
    assert_eq!(place(Path::new("a/b")), (PathBuf::from("a/b"), FILE.to_owned()));
}

#[test]
fn names_of_files_are_spelled_in_one_way() {
    for name in ["x//answer.json", "x/./answer.json"] {
        let folder = Folder::new(&[("\"answer.json\"", &format!("\"{name}\""))]);
        fs::create_dir(folder.0.path().join("x")).unwrap();
        fs::write(folder.0.path().join("x/answer.json"), SCHEMA_TEXT).unwrap();
        let refused = format!("`DIR/method.toml` line 8: `{name}` must be written `x/answer.json`");
        assert_eq!(folder.read().unwrap_err(), refused);
    }
}

#[test]
fn lines_of_keys_are_not_those_of_comments() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/methods/five-criteria");
    let text = fs::read_to_string(example.join(FILE)).unwrap();
    for (key, line) in [
        ("name", "name ="),
        ("role", "role ="),
        ("question", "question ="),
        ("answer", "[answer]"),
        ("schema", "schema ="),
        ("score", "[score]"),
        ("lowest", "lowest ="),
        ("style.score", "mean ="),
        ("not applicable", "missing ="),
    ] {
        let found = text.lines().nth(line_of(&text, key) - 1).unwrap();
        assert!(found.starts_with(line), "{key}: {found}");
    }
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
fn keys_that_are_refused() {
    let keys = refusals(&[
        &[("summary", "sumary")],
        &[("better = \"lower\"", "better = \"worse\"")],
        &[("max-tokens = 100", "max-tokens = 0")],
        &[("lowest = 0", "lowest = 10")],
        &[("name = \"mine\"", "name = \"Mine/..\"")],
        &[("citation = \"c\"", "citation = \"c\"\nrole = \"referee\"")],
        &[("field = \"score\"", "field = \"total\"")],
        &[("field = \"score\"", "after = \"x\"")],
        &[("schema = \"answer.json\"", "schema = \"answer.json\"\npattern = \"1\"")],
        &[("schema = \"answer.json\"", "pattern = \"(\"")],
        &[("minor = 0.5", "minor = -1")],
        &[("span = \"span\"", "span = \"text\"")],
        &[("better = \"lower\"", "values = { maybe = 70 }")],
        &[("summary = \"s\"", "summary = \"\"")],
    ]);
    insta::assert_snapshot!(keys, @r#"
    `DIR/method.toml` line 3: unknown field `sumary`, expected one of `name`, `summary`, `citation`, `role`, `prompts`, `answer`, `score`, `errors`, `weights`
    `DIR/method.toml` line 13: unknown variant `worse`, expected `higher` or `lower`
    `DIR/method.toml` line 9: `max-tokens` must be 1 to 16384
    `DIR/method.toml` line 11: `lowest` 10 is not below `highest` 10
    `DIR/method.toml` line 2: a name consists of 1 to 64 lower-case letters, digits, hyphens and dots
    `DIR/method.toml` line 5: a role cannot be `referee`
    hint: it can be annotator, debater-a, debater-b, checker, reviewer, judge, tier-1, tier-2, single, core, evaluator, search, comparer or editor
    `DIR/method.toml` line 14: the schema has no property `total`
    `DIR/method.toml` line 10: with `schema`, `[score]` needs `field` or `mean`; without it, the score is the whole answer or the text `after` a mark
    `DIR/method.toml` line 7: an answer has one form: `schema`, `choices` or `pattern`
    `DIR/method.toml` line 8: `pattern` cannot be compiled: unclosed group
    `DIR/method.toml` line 20: penalties must be at least 0, `critical` above 0 and not below `major`, `major` not below `minor`; a `cap` must be above 0
    `DIR/method.toml` line 17: the schema has no property `text`
    `DIR/method.toml` line 13: `maybe` stands for 70, which is outside 0 to 10
    `DIR/method.toml` line 3: `summary` must be one line of text without control characters
    "#);
}

#[test]
fn files_that_are_refused() {
    let files = refusals(&[
        &[("question.j2", "../question.j2")],
        &[("question.j2", "/etc/passwd.j2")],
        &[("question.j2", "other.j2")],
        &[("question.j2", "question.txt")],
        &[("\"translation\"", "\"reference\"")],
        &[(SCHEMA_TEXT, "[]")],
        &[("{{ target }}", "{{ target")],
        &[("{{ target }}", "{% if reference %}{{ tarqet }}{% endif %}")],
        &[("{{ target }}", "{% include 'method.toml' %}")],
        &[("{{ target }}", "{{ reference }}")],
        &[("{{ target }}", "{% if reference %}{{ target | shout }}{% endif %}")],
    ]);
    insta::assert_snapshot!(files, @r#"
    `DIR/method.toml` line 6: `../question.j2` cannot be read: `../question.j2` leads out of the folder
    `DIR/method.toml` line 6: `/etc/passwd.j2` cannot be read: `/etc/passwd.j2` leads out of the folder
    `DIR/method.toml` line 6: `other.j2` cannot be read: there is no such file or folder
    `DIR/method.toml` line 6: `question.txt` does not end in `.j2`
    `DIR/method.toml` line 8: `substringOf` names "reference"; it can name source and translation
    `DIR/method.toml` line 8: `answer.json` must contain a JSON object
    prompt `DIR/question.j2` cannot be used: unexpected `{`, expected end of variable block (line 3)
    `DIR/question.j2` line 2: unknown variable `tarqet`
    hint: did you mean `target`? available variables: source_lang, source, target_lang, target, reference, schema
    `DIR/question.j2` line 2: tried to include non-existing template 'method.toml'
    `DIR/question.j2` line 2: without a reference, it prints `none`; hint: {% if reference %} ... {% endif %}
    `DIR/question.j2` line 2: filter shout is unknown
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
