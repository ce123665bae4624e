//! The serialised form of a chat: turns and a text, one of which is empty.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effort, Message, Prompt, Reasoning};

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Chat {
    turns: Vec<Message>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thought: Option<Reasoning>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    effort: Option<Effort>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    prefill: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
    /// True if nothing in `raw` acts as a control token.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    inert: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    tokenized_as_text: bool,
}

impl From<Chat> for super::Chat {
    fn from(written: Chat) -> Self {
        let Chat { turns, thought, effort, prefill, raw, inert, tokenized_as_text } = written;
        let prompt = match raw {
            None => Prompt::Messages(turns),
            Some(text) if inert => Prompt::Plain(text),
            Some(text) => Prompt::Raw(text),
        };
        Self { prompt, thought, effort, prefill, tokenized_as_text }
    }
}

impl From<super::Chat> for Chat {
    fn from(chat: super::Chat) -> Self {
        let super::Chat { prompt, thought, effort, prefill, tokenized_as_text } = chat;
        let (turns, raw, inert) = match prompt {
            Prompt::Messages(turns) => (turns, None, false),
            Prompt::Raw(text) => (Vec::new(), Some(text), false),
            Prompt::Plain(text) => (Vec::new(), Some(text), true),
        };
        Self { turns, thought, effort, prefill, raw, inert, tokenized_as_text }
    }
}

#[cfg(test)]
mod tests {
    use crate::llm::{Chat, Effort, Reasoning};

    #[test]
    fn every_prompt_is_written_and_read_back() {
        for (chat, expected) in [
            (Chat::new().user("a"), r#"{"turns":[{"role":"user","content":"a"}]}"#),
            (Chat::raw("a"), r#"{"turns":[],"raw":"a"}"#),
            (Chat::plain("a"), r#"{"turns":[],"raw":"a","inert":true}"#),
            (Chat { prefill: "{".into(), ..Chat::new() }, r#"{"turns":[],"prefill":"{"}"#),
            (Chat { tokenized_as_text: true, ..Chat::new() }, r#"{"turns":[],"tokenized_as_text":true}"#),
            (
                Chat { thought: Some(Reasoning::Open), effort: Some(Effort::Low), ..Chat::new() },
                r#"{"turns":[],"thought":"open","effort":"low"}"#,
            ),
        ] {
            let json = serde_json::to_string(&chat).unwrap();
            assert_eq!(json, expected);
            assert_eq!(serde_json::from_str::<Chat>(&json).unwrap(), chat);
        }
    }
}
