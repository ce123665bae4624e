//! Encodes a conversation: the chat template is rendered, and message contents are never control tokens.
//!
//! It runs no model and knows nothing of segments.

use std::collections::BTreeMap;

use minijinja::Environment;

use crate::engine::tokenizer::Tokenizer;
use crate::jinja::Template;
use crate::llm::{self, Chat, Prompt, Reasoning};

mod guard;
mod json;
mod template;

pub use template::TEMPLATE_DATE;

/// A model's chat template, compiled.
pub struct ChatTemplate {
    environment: Environment<'static>,
    template: Template,
    /// What the template may read in addition to the messages: texts of tokens by their role (`bos_token`).
    roles: BTreeMap<String, String>,
    /// Further variables, by name.
    options: serde_json::Map<String, serde_json::Value>,
}

impl ChatTemplate {
    /// Compiles a template in the dialect of Hugging Face's `apply_chat_template`.
    ///
    /// # Errors
    /// [`llm::Error::Template`] when it does not parse.
    pub fn new(source: &str, tokenizer: &Tokenizer) -> Result<Self, llm::Error> {
        Self::with_roles(source, tokenizer.roles().clone())
    }

    /// The same with the two names that a template may print, instead of a tokenizer that knows them.
    ///
    /// # Errors
    /// As [`ChatTemplate::new`].
    pub fn with_tokens(source: &str, bos_token: &str, eos_token: &str) -> Result<Self, llm::Error> {
        let roles = [("bos_token", bos_token), ("eos_token", eos_token)];
        Self::with_roles(source, roles.map(|(role, name)| (role.to_owned(), name.to_owned())).into())
    }

    fn with_roles(source: &str, roles: BTreeMap<String, String>) -> Result<Self, llm::Error> {
        let (environment, template) = template::compiled(source)?;
        Ok(Self { environment, template, roles, options: serde_json::Map::new() })
    }

    /// The same template with further variables (`{"enable_thinking": false}`); `null` adds none.
    #[must_use]
    pub fn with_options(mut self, options: &serde_json::Value) -> Self {
        self.options = options.as_object().cloned().unwrap_or_default();
        self
    }

    /// The text that the template makes of a chat, up to and including the assistant's opening and the prefill.
    /// Contents are not protected in it: it is for reading, not for encoding.
    ///
    /// # Errors
    /// [`llm::Error::Template`] when the template refuses the chat.
    pub fn render(&self, chat: &Chat) -> Result<String, llm::Error> {
        let contents: Vec<&str> = chat.messages().iter().map(|turn| turn.content.as_str()).collect();
        let rendered = think(template::render(self, chat, &contents)?, chat, ToOwned::to_owned);
        Ok(rendered + &chat.prefill)
    }
}

/// The variables that a template of this source is rendered with: those given, and `enable_thinking` off where the
/// template reads it and it is not among them. Such templates think by default; here a chat asks for reasoning by its
/// [`Chat::thought`].
#[must_use]
pub fn variables(source: &str, given: &serde_json::Value) -> serde_json::Value {
    const SWITCH: &str = "enable_thinking";
    if !source.contains(SWITCH) || given.get(SWITCH).is_some() {
        return given.clone();
    }
    let mut all = given.as_object().cloned().unwrap_or_default();
    all.insert(SWITCH.into(), false.into());
    all.into()
}

/// Opens or closes the thought after the assistant's opening. A template may have opened one itself, or closed an
/// empty one (`enable_thinking: false`): that is undone.
fn think(mut rendered: String, chat: &Chat, protect: impl Fn(&str) -> String) -> String {
    let Some(thought) = &chat.thought else { return rendered };
    let written = ["<think>\n\n</think>\n\n", "<think>\n\n</think>\n", "<think>\n", "<think>"];
    if let Some(end) = written.into_iter().find(|end| rendered.ends_with(end)) {
        rendered.truncate(rendered.len() - end.len());
    }
    rendered += "<think>\n";
    if let Reasoning::Closed(thought) = thought {
        rendered += &protect(thought);
        rendered += "\n</think>\n\n";
    }
    rendered
}

/// The ids of a chat, encoded as one text. Control tokens come from the template alone: what looks like one inside a
/// content or the prefill is encoded as plain text. Where there is none, the ids equal `apply_chat_template`'s.
///
/// Other prompts need no template; in a raw one control tokens act.
///
/// # Errors
/// [`llm::Error::Template`] without a template (unless the prompt is raw), or when it refuses the chat.
pub fn encode(
    chat: &Chat,
    template: Option<&ChatTemplate>,
    tokenizer: &Tokenizer,
) -> Result<Vec<u32>, llm::Error> {
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
    let rendered = template::render(template, chat, &contents)?;
    let rendered = think(rendered, chat, |thought| guard.protect(thought));
    let (whole, breaks) = guard.release(&(rendered + &guard.protect(&chat.prefill)));
    tokenizer.encode_rendered(&whole, &breaks).map_err(failed)
}

#[cfg(test)]
mod tests;
