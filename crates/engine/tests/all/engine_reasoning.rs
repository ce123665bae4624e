//! The engine with a template that marks reasoning: the generated text, its finish, and the text after it.

use tribunal_core::llm::{Chat, Effort, Finish, Llm, Reasoning, ResponseFormat, Sampling};
use tribunal_engine::{Engine, Options};

use crate::engine::{options, tiny};

/// The shape of Harmony's template: an effort, messages, channels.
const HARMONY: &str = "<|start|>system<|message|>{{ reasoning_effort }}<|end|>{% for m in messages %}<|start|>\
    {{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}<|start|>assistant{# <|channel|>final<|message|> #}";

fn engine() -> Engine {
    let options = Options { chat_template: Some(HARMONY.into()), ..options() };
    Engine::open(&tiny("qwen2"), &options).unwrap()
}

fn sampling(seed: u64, max_tokens: usize) -> Sampling {
    Sampling { temperature: 1.0, seed, max_tokens, ..Sampling::default() }
}

#[test]
fn reasoning_that_its_mark_does_not_end_is_open() {
    let engine = engine();
    assert!(engine.reasons());
    let chat = Chat { thought: Some(Reasoning::Open), ..Chat::new().user("Judge.") };
    let ask = |chat: &Chat, seed, max_tokens| {
        engine.ask(chat, &ResponseFormat::Text, &sampling(seed, max_tokens)).unwrap()
    };
    assert_eq!(ask(&chat, 0, 3).finish, Finish::Length);
    // One token in 320 ends the turn of a model that generates any token.
    let finishes: Vec<Finish> = (0..12).map(|seed| ask(&chat, seed, 500).finish).collect();
    assert!(finishes.contains(&Finish::Open) && !finishes.contains(&Finish::Stop), "{finishes:?}");
    let answer = Chat::new().user("Judge.");
    let finishes: Vec<Finish> = (0..12).map(|seed| ask(&answer, seed, 500).finish).collect();
    assert!(finishes.contains(&Finish::Stop) && !finishes.contains(&Finish::Open), "{finishes:?}");
}

#[test]
fn an_answer_comes_in_its_channel_under_its_form() {
    let engine = engine();
    let form = ResponseFormat::Choice(vec!["80".into(), "90".into()]);
    let check = |chat: Chat, expected: &str| {
        let reply = engine.ask(&chat, &form, &sampling(1, 8)).unwrap();
        assert_eq!(engine.tokenizer().decode(&reply.prompt_ids), expected);
        assert_eq!(reply.finish, Finish::Form);
        assert!(["80", "90"].contains(&reply.text.as_str()), "{}", reply.text);
        let scored = engine.score_continuations(&chat, &["80".to_owned(), "90".to_owned()]).unwrap();
        assert_eq!(scored.len(), 2);
    };
    let prompt = |effort: &str, rest: &str| {
        format!(
            "<|start|>system<|message|>{effort}<|end|><|start|>user<|message|>Judge.<|end|><|start|>assistant{rest}"
        )
    };
    check(Chat::new().user("Judge."), &prompt("low", "<|channel|>final<|message|>"));
    let thought = Some(Reasoning::Closed("So.".into()));
    check(
        Chat { thought, effort: Some(Effort::High), ..Chat::new().user("Judge.") },
        &prompt(
            "high",
            "<|channel|>analysis<|message|>So.<|end|><|start|>assistant<|channel|>final<|message|>",
        ),
    );
}
