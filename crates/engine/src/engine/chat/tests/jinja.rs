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
    let chat = Chat::of(vec![
        Message { role: crate::llm::MessageRole::User, content: "Hi".into() },
        Message { role: crate::llm::MessageRole::Assistant, content: "Yo".into() },
    ]);
    template.render(&chat)
}

#[test]
fn small_templates_render_as_jinja2_does() {
    let golden: Golden =
        serde_json::from_str(include_str!("../../../../../../tests/golden/jinja.json")).unwrap();
    let mut wrong = Vec::new();
    for (source, expected) in &golden.rendered {
        let made = render(source, &golden.values);
        if made.as_ref().ok() != expected.as_ref() {
            wrong.push(format!("{source:?}\n  {expected:?} expected\n  {made:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), golden.rendered.len(), wrong.join("\n"));
}
