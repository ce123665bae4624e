//! Small templates as transformers renders them (`tests/golden/jinja.json`, by `scripts/golden_jinja.py`).

use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Golden {
    values: serde_json::Value,
    rendered: Vec<(String, Option<String>)>,
}

fn render(source: &str, values: &serde_json::Value) -> Result<String, llm::Error> {
    let template = ChatTemplate::with_tokens(source, "<s>", "</s>")?.with_options(values);
    let chat = Chat::from_messages(vec![
        Message { role: crate::llm::MessageRole::User, content: "Hi".into() },
        Message { role: crate::llm::MessageRole::Assistant, content: "Yo".into() },
    ]);
    template.render(&chat)
}

/// Templates that contain one of these strings may render otherwise than with Jinja2, for the reason given.
const DIFFERENT: [(&str, &[&str]); 7] = [
    (
        "methods and filters that no published template uses",
        &[
            ".swapcase(",
            ".casefold(",
            ".zfill(",
            ".center(",
            ".ljust(",
            ".rjust(",
            ".expandtabs(",
            ".istitle(",
            ".isprintable(",
            ".isidentifier(",
            ".isdecimal(",
            ".find('a', ",
            ".count('a', 1",
            ".startswith('b', 2",
            ".title()",
            "| wordcount",
            "| urlencode",
            "| truncate",
            "| center",
            "map | last",
            "lipsum",
        ],
    ),
    ("minijinja has no operator `%` of strings", &["' % "]),
    (
        "minijinja's backward slices: an empty list is an error, an end of 0 no end",
        &["{{ ''[::-1]", "[2:0:-1]", "[-9::-1]"],
    ),
    ("minijinja prints floats without an exponent", &["1e20 }}{{ 1e-7"]),
    ("minijinja iterates over none", &["in none %}"]),
    ("an undefined value is 0", &["missing | int"]),
    (
        "minijinja has neither `varargs` nor `kwargs` of macros, nor methods as attributes",
        &["varargs", "attr('upper')"],
    ),
];

#[test]
fn small_templates_render_as_jinja2_does() {
    let golden: Golden =
        serde_json::from_str(include_str!("../../../../../tests/golden/jinja.json")).unwrap();
    let mut known: Vec<&str> = DIFFERENT.iter().flat_map(|(_, parts)| *parts).copied().collect();
    let n_rendered = golden.rendered.len();
    let mut wrong: Vec<String> = Vec::new();
    for (source, expected) in golden.rendered {
        let made = render(&source, &golden.values);
        if made.as_ref().ok() == expected.as_ref() {
            continue;
        }
        if DIFFERENT.iter().flat_map(|(_, parts)| *parts).any(|part| source.contains(part)) {
            known.retain(|part| !source.contains(part));
        } else {
            wrong.push(format!("{source:?}\n  {expected:?} expected\n  {made:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {n_rendered} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(known.is_empty(), "these do not differ: {known:?}");
}
