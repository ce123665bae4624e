//! Rendered chats and their ids against transformers' (tests/golden), and contents that look like control
//! tokens.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::llm::{Message, Reasoning};
use crate::tokenizer::{
    GgufVocab,
    tests::{model, not_checked, tiny, tiny_vocab},
};

mod jinja;
mod reasoning;
mod whole;

#[derive(Deserialize)]
struct Golden {
    templates: BTreeMap<String, Template>,
}

#[derive(Deserialize)]
struct Template {
    #[serde(rename = "template")]
    source: String,
    bos: String,
    eos: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    turns: Vec<Message>,
    rendered: Option<String>,
    ids: Option<Vec<u32>>,
}

fn golden() -> BTreeMap<String, Template> {
    let text = include_str!("../../../../tests/golden/chat_templates.json");
    serde_json::from_str::<Golden>(text).unwrap().templates
}

const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + \
    message['content'] + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' \
    }}{% endif %}";

#[test]
fn templates_render_as_transformers_does() {
    for (name, golden) in golden() {
        let template = ChatTemplate::with_tokens(&golden.source, &golden.bos, &golden.eos).unwrap();
        for case in golden.cases {
            let chat = Chat::from_messages(case.turns);
            let rendered = template.render(&chat);
            match case.rendered {
                Some(want) => assert_eq!(rendered.unwrap(), want, "{name}: {chat:?}"),
                None => assert!(rendered.is_err(), "{name}: {chat:?}"),
            }
        }
    }
}

#[test]
fn ids_equal_apply_chat_template() {
    let golden = golden();
    for (card, name) in [
        ("smollm2-135m-instruct", "smollm2"),
        ("qwen2.5-coder-0.5b-instruct", "qwen2_5"),
        ("gemma-3-270m", "gemma3"),
    ] {
        let Some(tokenizer) = model(card) else { continue };
        let template = ChatTemplate::new(&golden[name].source, &tokenizer).unwrap();
        for case in &golden[name].cases {
            let chat = Chat::from_messages(case.turns.clone());
            let ids = encode(&chat, Some(&template), &tokenizer).unwrap();
            assert_eq!(&ids, case.ids.as_ref().unwrap(), "{name}: {chat:?}");
        }
    }
}

#[test]
fn a_template_may_refuse_and_says_why() {
    let source = "{{ raise_exception('roles must alternate') }}";
    let template = ChatTemplate::with_tokens(source, "", "").unwrap();
    let error = template.render(&Chat::new().user("x")).unwrap_err().to_string();
    assert_eq!(error, "the chat template refused the conversation: roles must alternate");
    let broken = ChatTemplate::with_tokens("{% if %}", "", "").err().unwrap().to_string();
    assert!(broken.contains("does not parse"), "{broken}");
    let none = encode(&Chat::new().user("x"), None, &tiny()).unwrap_err().to_string();
    assert!(none.contains("hint: give one"), "{none}");
}

#[test]
fn a_template_reads_what_transformers_passes() {
    let source = "{{ tools is none }}{{ documents is none }}{{ tools is defined }}{{ add_generation_prompt }}\
        {{ bos_token }}{{ pad_token is defined }}{{ x }}";
    let template = ChatTemplate::with_tokens(source, "<s>", "").unwrap();
    assert_eq!(template.render(&Chat::new()).unwrap(), "TrueTrueTrueTrue<s>False");
    let options = serde_json::json!({ "x": 1, "tools": [], "messages": 2 });
    let template = ChatTemplate::with_tokens(source, "<s>", "").unwrap().with_options(&options);
    assert_eq!(template.render(&Chat::new()).unwrap(), "FalseTrueTrueTrue<s>False1");
    let vocab = GgufVocab { padding: Some(3), unknown: Some(4), ..tiny_vocab() };
    let tokenizer = Tokenizer::from_gguf(&vocab, None).unwrap();
    let template = ChatTemplate::new("{{ pad_token }}{{ unk_token }}{{ eos_token }}", &tokenizer).unwrap();
    let expected = format!("{}{}<|im_end|>", vocab.tokens[3], vocab.tokens[4]);
    assert_eq!(template.render(&Chat::new()).unwrap(), expected);
}

#[test]
fn templates_that_can_think_do_so_only_where_it_is_given() {
    let source = "A: {{ '<think>\\n' if enable_thinking is undefined or enable_thinking is true else '' }}";
    let rendered = |given: serde_json::Value| {
        let template = ChatTemplate::with_tokens(source, "", "").unwrap();
        template.with_options(&variables(source, &given)).render(&Chat::new()).unwrap()
    };
    assert_eq!(rendered(serde_json::Value::Null), "A: ");
    assert_eq!(rendered(serde_json::json!({"x": 1})), "A: ");
    assert_eq!(rendered(serde_json::json!({"enable_thinking": true})), "A: <think>\n");
    // A template without the switch keeps its variables, and with them its signature.
    assert_eq!(variables("{{ x }}", &serde_json::Value::Null), serde_json::Value::Null);
}

#[test]
fn today_is_fixed() {
    let source = "{{ strftime_now('%d %b %Y') }}|{{ strftime_now('%Y-%m-%d') }}";
    let template = ChatTemplate::with_tokens(source, "", "").unwrap();
    assert_eq!(template.render(&Chat::new()).unwrap(), format!("26 Jul 2024|{TEMPLATE_DATE}"));
    let unknown = ChatTemplate::with_tokens("{{ strftime_now('%U') }}", "", "").unwrap();
    assert!(unknown.render(&Chat::new()).unwrap_err().to_string().contains("`%U`"));
}

#[test]
fn prefill_continues_the_assistants_turn() {
    let tokenizer = tiny();
    let template = ChatTemplate::new(CHATML, &tokenizer).unwrap();
    let chat = Chat { prefill: "{\"errors\": <|im_end|>".into(), ..Chat::new().user("x") };
    let ids = encode(&chat, Some(&template), &tokenizer).unwrap();
    assert_eq!(tokenizer.decode(&ids), template.render(&chat).unwrap());
    let ends = ids.iter().filter(|&&id| Some(id) == tokenizer.eos()).count();
    assert_eq!(ends, 1, "the prefill's end of turn is text");
}

#[test]
fn a_thought_stands_before_the_prefill() {
    let check = |source: &str, thought: Reasoning, expected: &str| {
        let template = ChatTemplate::with_tokens(source, "", "").unwrap();
        let chat = Chat { thought: Some(thought), prefill: "{".into(), ..Chat::new() };
        assert_eq!(template.render(&chat).unwrap(), expected, "{source}");
    };
    // Templates without marks, that close an empty thought, and that open one.
    for source in ["A: ", "A: {{ '<think>\\n\\n</think>\\n\\n' }}", "A: {{ '<think>\\n' }}", "A: <think>"] {
        check(source, Reasoning::Open, "A: <think>\n{");
        check(source, Reasoning::Closed("so <b>".into()), "A: <think>\nso <b>\n</think>\n\n{");
    }
    // A thought's text cannot end the turn.
    let tokenizer = tiny();
    let template = ChatTemplate::new(CHATML, &tokenizer).unwrap();
    let chat = Chat { thought: Some(Reasoning::Closed("a<|im_end|>b".into())), ..Chat::new().user("x") };
    let ids = encode(&chat, Some(&template), &tokenizer).unwrap();
    assert_eq!(ids.iter().filter(|&&id| Some(id) == tokenizer.eos()).count(), 1);
}

#[test]
fn control_tokens_act_in_a_raw_prompt() {
    let tokenizer = tiny();
    let ids = encode(&Chat::raw("<|im_start|>x"), None, &tokenizer).unwrap();
    assert!(tokenizer.is_control(ids[0]));
}

#[test]
fn all_noncharacters_in_use_is_an_error() {
    let all: String = ('\u{FDD0}'..='\u{FDEF}').collect();
    let tokenizer = tiny();
    let template = ChatTemplate::new(CHATML, &tokenizer).unwrap();
    let most = encode(&Chat::new().user(&all[3..]), Some(&template), &tokenizer).unwrap();
    assert!(tokenizer.decode(&most).contains(&all[3..]));
    assert!(encode(&Chat::new().user(all), Some(&template), &tokenizer).is_err());
}

/// Pieces that try to form control tokens, alone or with their neighbours.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("<|im_end|>"),
        Just("<|im_"),
        Just("end|>"),
        Just("<"),
        Just(">"),
        Just("|>"),
        Just("<think>"),
        Just("<<|im_start|>think>"),
        Just("\u{FDD0}"),
        Just("\n"),
        Just("x"),
        Just("é"),
        Just("[PAD]"),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn contents_never_act(contents in proptest::collection::vec(hostile(), 1..4), prefill in hostile()) {
        let tokenizer = tiny();
        let template = ChatTemplate::new(CHATML, &tokenizer).unwrap();
        let mut chat = contents.iter().fold(Chat::new(), |chat, content| chat.user(content.as_str()));
        chat.prefill = prefill;
        let ids = encode(&chat, Some(&template), &tokenizer).unwrap();
        let control = ids.iter().filter(|&&id| tokenizer.is_control(id)).count();
        prop_assert_eq!(control, 2 * contents.len() + 1);
        prop_assert_eq!(tokenizer.decode(&ids), template.render(&chat).unwrap());
    }
}
