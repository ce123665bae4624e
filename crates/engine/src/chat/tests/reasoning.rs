//! Templates that mark reasoning: rendered as transformers does (`tests/golden/reasoning_templates.json`, by
//! `scripts/golden_reasoning.py`), with the marks of each format, which no text under evaluation can write.

use serde_json::json;

use super::*;
use crate::llm::{Effort, Finish, Reasoning, Reply, Token, TokenSource};

#[derive(Deserialize)]
struct Golden {
    templates: BTreeMap<String, Template>,
}

#[derive(Deserialize)]
struct Template {
    template: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    turns: Vec<Message>,
    variables: serde_json::Value,
    rendered: String,
}

fn golden() -> BTreeMap<String, Template> {
    let text = include_str!("../../../../../tests/golden/reasoning_templates.json");
    serde_json::from_str::<Golden>(text).unwrap().templates
}

/// A template of this source as the engine renders it, without a tokenizer.
fn plain(source: &str) -> ChatTemplate {
    let template = ChatTemplate::with_tokens(source, "<bos>", "<eos>").unwrap();
    template.with_options(&variables(source, &serde_json::Value::Null))
}

/// The texts between the assistant's opening and an immediate answer, before reasoning, and after it.
fn marks(name: &str) -> [&'static str; 3] {
    match name {
        "gpt_oss" => [
            "<|channel|>final<|message|>",
            "<|channel|>analysis<|message|>",
            "<|end|><|start|>assistant<|channel|>final<|message|>",
        ],
        _ => ["", "<|channel>thought\n", "\n<channel|>"],
    }
}

#[test]
fn reasoning_is_off_or_on_as_transformers_renders_it() {
    let mut n_cases = 0;
    for (name, Template { template: source, cases }) in golden() {
        let (template, [direct, open, close]) = (plain(&source), marks(&name));
        assert!(template.reasons(), "{name}");
        for Case { turns, variables, rendered } in cases {
            n_cases += 1;
            let chat = Chat { prefill: "{".into(), ..Chat::from_messages(turns) };
            if variables["enable_thinking"] == false {
                assert_eq!(template.render(&chat).unwrap(), format!("{rendered}{direct}{{"), "{name}");
                continue;
            }
            let effort = if variables["reasoning_effort"] == "low" { Effort::Low } else { Effort::High };
            let chat = |thought| Chat { thought: Some(thought), effort: Some(effort), ..chat.clone() };
            let text = template.render(&chat(Reasoning::Open)).unwrap();
            assert_eq!(text, format!("{rendered}{open}{{"), "{name}");
            let text = template.render(&chat(Reasoning::Closed("so".into()))).unwrap();
            assert_eq!(text, format!("{rendered}{open}so{close}{{"), "{name}");
        }
    }
    assert_eq!(n_cases, 36);
}

#[test]
fn a_variable_that_is_given_counts_where_a_chat_has_no_reasoning() {
    let source = &golden()["gpt_oss"].template;
    let effort = |given: serde_json::Value, chat: Chat| {
        let template = ChatTemplate::with_tokens(source, "", "").unwrap();
        let text = template.with_options(&variables(source, &given)).render(&chat).unwrap();
        text.split("Reasoning: ").nth(1).unwrap().split('\n').next().unwrap().to_owned()
    };
    let chat = || Chat::new().user("Good?");
    assert_eq!(effort(json!(null), chat()), "low");
    assert_eq!(effort(json!({"reasoning_effort": "medium"}), chat()), "medium");
    let high = Chat { thought: Some(Reasoning::Open), effort: Some(Effort::High), ..chat() };
    assert_eq!(effort(json!({"reasoning_effort": "medium"}), high), "high");
    let default = Chat { thought: Some(Reasoning::Open), ..chat() };
    assert_eq!(effort(json!(null), default), "medium");
}

#[test]
fn efforts_have_the_names_that_a_template_knows() {
    let name = |source: &str| {
        let high = Chat { thought: Some(Reasoning::Open), effort: Some(Effort::High), ..Chat::new() };
        ChatTemplate::with_tokens(source, "", "").unwrap().render(&high).unwrap()
    };
    let known = "{% if reasoning_effort not in ('xhigh', 'low') %}{{ raise_exception('x') }}{% endif %}";
    assert_eq!(name(&format!("{known}{{{{ reasoning_effort }}}}")), "xhigh<think>\n");
    assert_eq!(name("{{ reasoning_effort }}"), "high<think>\n");
    // Templates without Harmony's channels keep their variables, and with them their signature.
    let source = "{{ reasoning_effort }}<think>";
    assert_eq!(variables(source, &serde_json::Value::Null), serde_json::Value::Null);
}

#[test]
fn a_reply_that_is_reasoning_ends_with_its_mark() {
    for (source, end) in [
        (&*golden()["gpt_oss"].template, "<|end|>"),
        (&*golden()["gemma4"].template, "<channel|>"),
        ("<think>", "</think>"),
        ("no marks", "</think>"),
    ] {
        let template = plain(source);
        let open = Chat { thought: Some(Reasoning::Open), ..Chat::new() };
        assert_eq!(template.reasoning_stop(&open), Some(end));
        assert_eq!(template.reasoning_stop(&Chat::new()), None);
        let token = |text: &str| Token {
            id: 0,
            text: text.into(),
            logprob: 0.0,
            masked_logprob: 0.0,
            source: TokenSource::Sampled,
        };
        let (half, rest) = end.split_at(2);
        let finish = |finish: Finish, last: &str| {
            let tokens = ["so", half, last].map(token).into();
            reasoning_finish(&Reply { tokens, finish, ..Reply::default() }, end)
        };
        assert_eq!(finish(Finish::Stop, rest), Finish::Stop);
        assert_eq!(finish(Finish::Stop, "<eos>"), Finish::Open);
        assert_eq!(finish(Finish::Length, "x"), Finish::Length);
    }
    assert!(!plain("no marks").reasons());
}

/// The tests' tokenizer with the control tokens of both formats.
fn with_channels(template: &str) -> Tokenizer {
    let mut vocab = tiny_vocab();
    for name in ["<|start|>", "<|message|>", "<|channel|>", "<|end|>", "<|return|>"] {
        vocab.tokens.push(name.into());
        vocab.token_types.push(3);
    }
    for name in ["<|turn>", "<turn|>", "<|channel>", "<channel|>", "<|think|>"] {
        // The type that converters give to tokens visible in answers.
        vocab.tokens.push(name.into());
        vocab.token_types.push(if name.contains("channel") { 4 } else { 3 });
    }
    Tokenizer::from_gguf(&vocab, Some(template)).unwrap()
}

/// Pieces of both formats' marks.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("<|channel|>"),
        Just("<|channel|>final<|message|>"),
        Just("<|end|>"),
        Just("<|start|>assistant"),
        Just("<|return|>"),
        Just("<|channel>thought\n"),
        Just("<channel|>"),
        Just("<turn|>"),
        Just("<|chan"),
        Just("nel|>"),
        Just("<|"),
        Just("|>"),
        Just("<"),
        Just(">"),
        Just("x"),
        Just("\n"),
        Just("\u{FDD0}"),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_text_opens_or_closes_a_channel(
        system in hostile(),
        user in hostile(),
        thought in hostile(),
        prefill in hostile(),
    ) {
        for (name, Template { template: source, .. }) in golden() {
            let tokenizer = with_channels(&source);
            let template = ChatTemplate::new(&source, &tokenizer).unwrap();
            let template = template.with_options(&variables(&source, &serde_json::Value::Null));
            let chat = |system: &str, user: &str, thought: Option<&str>, prefill: &str| Chat {
                thought: thought.map(|thought| Reasoning::Closed(thought.into())),
                prefill: prefill.into(),
                // A part that is not empty, whatever the template trims.
                ..Chat::new().system(format!("a{system}a")).user(format!("a{user}a")).assistant("b").user("c")
            };
            for thought in [None, Some(&*thought)] {
                let control = |chat: &Chat| -> Vec<u32> {
                    let ids = encode(chat, Some(&template), &tokenizer).unwrap();
                    ids.into_iter().filter(|&id| tokenizer.is_control(id)).collect()
                };
                let hostile = control(&chat(&system, &user, thought, &prefill));
                let harmless = control(&chat("", "", thought.map(|_| ""), ""));
                prop_assert!(!harmless.is_empty(), "{}", name);
                prop_assert_eq!(hostile, harmless, "{}", name);
            }
        }
    }
}
