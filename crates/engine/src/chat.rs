//! Encodes a conversation: the chat template is rendered, and message contents are never control tokens.
//!
//! It runs no model and does not handle segments.

use std::collections::BTreeMap;

use minijinja::Environment;

use crate::llm::{self, Chat, Finish, Prompt, Reply};
use crate::tokenizer::Tokenizer;

mod guard;
mod json;
mod reasoning;
mod template;

pub use reasoning::variables;
pub use template::TEMPLATE_DATE;

use reasoning::Marks;

/// A model's chat template, compiled.
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
    /// `None` where the template marks no reasoning.
    marks: Option<&'static Marks>,
    /// Variables of the template beside the messages: texts of tokens by their role (`bos_token`).
    roles: BTreeMap<String, String>,
    /// Further variables, by name.
    options: serde_json::Map<String, serde_json::Value>,
    /// The assistant's opening follows the turns, for its answer.
    opens_answer: bool,
}

impl ChatTemplate {
    /// Compiles a template in the dialect of Hugging Face's `apply_chat_template`.
    ///
    /// # Errors
    /// [`llm::Error::Template`] when it does not parse.
    pub fn new(source: &str, tokenizer: &Tokenizer) -> llm::Result<Self> {
        Self::with_roles(source, tokenizer.roles().clone())
    }

    /// Compiles a template with the two tokens that it may print given by name, without a tokenizer.
    ///
    /// # Errors
    /// Those of [`ChatTemplate::new`].
    pub fn with_tokens(source: &str, bos_token: &str, eos_token: &str) -> llm::Result<Self> {
        let roles = [("bos_token", bos_token), ("eos_token", eos_token)];
        Self::with_roles(source, roles.map(|(role, name)| (role.to_owned(), name.to_owned())).into())
    }

    fn with_roles(source: &str, roles: BTreeMap<String, String>) -> llm::Result<Self> {
        let environment = template::compiled(source)?;
        let (source, marks) = (source.to_owned(), Marks::of(source));
        let options = serde_json::Map::new();
        Ok(Self { environment, source, marks, roles, options, opens_answer: true })
    }

    /// This template for whole conversations, which no answer follows.
    #[must_use]
    pub fn for_whole_chats(self) -> Self {
        Self { opens_answer: false, ..self }
    }

    /// This template with further variables (`{"enable_thinking": false}`); `null` adds none.
    #[must_use]
    pub fn with_options(mut self, options: &serde_json::Value) -> Self {
        self.options = options.as_object().cloned().unwrap_or_default();
        self
    }

    /// The rendered text of a chat, up to and including the assistant's opening and the prefill. Contents are
    /// not protected in it: it is for reading, not for encoding.
    ///
    /// # Errors
    /// [`llm::Error::Template`] when the template raises an error.
    pub fn render(&self, chat: &Chat) -> llm::Result<String> {
        let contents: Vec<&str> = chat.messages().iter().map(|turn| turn.content.as_str()).collect();
        let rendered = self.opened(chat, &contents, ToOwned::to_owned)?;
        Ok(rendered + &chat.prefill)
    }

    /// Returns true if the template marks reasoning.
    pub fn reasons(&self) -> bool {
        self.marks.is_some()
    }

    /// The string that ends a reply of reasoning; `None` where the reply is an answer.
    pub fn reasoning_stop(&self, chat: &Chat) -> Option<&'static str> {
        self.marks.unwrap_or(Marks::fallback()).stop(chat)
    }

    /// A rendered chat with the reasoning behind the assistant's opening.
    fn opened(
        &self,
        chat: &Chat,
        contents: &[&str],
        protect: impl Fn(&str) -> String,
    ) -> llm::Result<String> {
        let mut rendered = template::render(self, chat, contents)?;
        if !self.opens_answer {
            return Ok(rendered);
        }
        let fallback = chat.thought.is_some().then(Marks::fallback);
        if let Some(marks) = self.marks.or(fallback) {
            marks.write(&mut rendered, chat.thought.as_ref(), protect);
        }
        Ok(rendered)
    }
}

/// The finish of a reply of reasoning, which `end` closes.
pub fn reasoning_finish(reply: &Reply, end: &str) -> Finish {
    reasoning::finish(reply, end)
}

/// The ids of a chat, encoded as one text. Control tokens come from the template alone: text that looks like
/// one inside a content or the prefill is encoded as plain text. Without such text, the ids equal
/// `apply_chat_template`'s.
///
/// Other prompts need no template; control tokens in a raw one are encoded as such.
///
/// # Errors
/// [`llm::Error::Template`] without a template (unless the prompt is raw), or when it raises an error.
pub fn encode(chat: &Chat, template: Option<&ChatTemplate>, tokenizer: &Tokenizer) -> llm::Result<Vec<u32>> {
    let failed = |e: super::tokenizer::Error| llm::Error::Engine(e.to_string());
    match &chat.prompt {
        Prompt::Raw(text) => return tokenizer.encode_raw(text).map_err(failed),
        Prompt::Plain(text) => return tokenizer.encode_inert(text).map_err(failed),
        Prompt::Messages(_) => {}
    }
    let Some(template) = template else {
        return Err(llm::Error::Template(
            "the model has none; hint: give one, or use an instruct model".into(),
        ));
    };
    let guard = guard::Guard::new(tokenizer, chat)?;
    let contents: Vec<String> = chat.messages().iter().map(|turn| guard.protect(&turn.content)).collect();
    let contents: Vec<&str> = contents.iter().map(String::as_str).collect();
    let rendered = template.opened(chat, &contents, |thought| guard.protect(thought))?;
    let (text, breaks) = guard.release(&(rendered + &guard.protect(&chat.prefill)));
    let mut ids = tokenizer.encode_rendered(&text, &breaks).map_err(failed)?;
    if chat.tokenized_as_text {
        ids.splice(..0, tokenizer.added_bos());
    }
    Ok(ids)
}

#[cfg(test)]
mod tests;
