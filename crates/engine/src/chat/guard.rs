//! Escapes control tokens in message contents: their names are broken up with a character that no text may
//! contain. It is removed after rendering, and the tokenizer gets its positions. It encodes nothing.

use crate::llm::{self, Chat, Reasoning};
use crate::tokenizer::Tokenizer;

/// Breaks up and restores the names of control tokens.
pub(super) struct Guard<'a> {
    names: Vec<&'a str>,
    /// A noncharacter (U+FDD0 to U+FDEF) that occurs in no content.
    mark: char,
}

impl<'a> Guard<'a> {
    /// # Errors
    /// [`llm::Error::Prompt`] when the contents use up all 32 noncharacters.
    pub(super) fn new(tokenizer: &'a Tokenizer, chat: &Chat) -> llm::Result<Self> {
        let thought = match &chat.thought {
            Some(Reasoning::Closed(thought)) => Some(thought),
            _ => None,
        };
        let turns = || chat.messages().iter().map(|turn| &turn.content);
        let contents = || turns().chain([&chat.prefill]).chain(thought);
        let mark = ('\u{FDD0}'..='\u{FDEF}').find(|&c| !contents().any(|text| text.contains(c)));
        let mark = mark.ok_or_else(|| {
            llm::Error::Prompt(
                "the text holds all 32 noncharacters U+FDD0 to U+FDEF; hint: remove them".into(),
            )
        })?;
        Ok(Self { names: tokenizer.control_names().collect(), mark })
    }

    /// The content with every control token's name broken after its first character. Where the content's
    /// first or last characters could form a name together with the template's text, it is closed off too.
    pub(super) fn protect(&self, content: &str) -> String {
        let mut breaks: Vec<usize> = Vec::new();
        for &name in &self.names {
            let first = name.chars().next().map_or(0, char::len_utf8);
            breaks.extend(content.match_indices(name).map(|(at, _)| at + first));
            let cuts = || name.char_indices().skip(1).map(|(cut, _)| cut);
            if cuts().any(|cut| content.starts_with(&name[cut..])) {
                breaks.push(0);
            }
            if cuts().any(|cut| content.ends_with(&name[..cut])) {
                breaks.push(content.len());
            }
        }
        breaks.sort_unstable();
        breaks.dedup();
        let mut broken = String::with_capacity(content.len() + 3 * breaks.len());
        let mut at = 0;
        for cut in breaks {
            broken.push_str(&content[at..cut]);
            broken.push(self.mark);
            at = cut;
        }
        broken + &content[at..]
    }

    /// The text without the marks, and their positions in it. Unit: bytes, ascending.
    pub(super) fn release(&self, rendered: &str) -> (String, Vec<usize>) {
        let mut text = String::with_capacity(rendered.len());
        let mut breaks = Vec::new();
        for (i, part) in rendered.split(self.mark).enumerate() {
            if i > 0 {
                breaks.push(text.len());
            }
            text.push_str(part);
        }
        (text, breaks)
    }
}
