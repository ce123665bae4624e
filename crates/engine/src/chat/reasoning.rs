//! The marks of the reasoning before an answer in chat templates: tags, the channels of Harmony, the channel
//! of Gemma 4. It renders no template.

use crate::llm::{Chat, Effort, Finish, Reasoning, Reply};

/// The marks of reasoning in a model's chat template. All marks act as control tokens where the vocabulary
/// has them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Marks {
    /// A string in the source of such templates, by which they are recognized.
    sign: &'static str,
    /// Text before the reasoning.
    open: &'static str,
    /// The end of the reasoning.
    end: &'static str,
    /// Text from the end of the reasoning to the answer.
    close: &'static str,
    /// Text before an answer without reasoning.
    direct: &'static str,
    /// Texts that a template itself may write after the assistant's opening, the longest first: an empty
    /// reasoning, or the opening of one.
    written: &'static [&'static str],
}

/// Qwen3, GLM, `DeepSeek` R1 and others: `<think>` and `</think>`.
const TAGS: Marks = Marks {
    sign: "<think>",
    open: "<think>\n",
    end: "</think>",
    close: "\n</think>\n\n",
    direct: "",
    written: &["<think>\n\n</think>\n\n", "<think>\n\n</think>\n", "<think>\n", "<think>"],
};

/// gpt-oss: each message has a channel, and the assistant's answer is one in the channel `final`.
///
/// Source: the chat template of gpt-oss-120b.
const HARMONY: Marks = Marks {
    sign: "<|channel|>final<|message|>",
    open: "<|channel|>analysis<|message|>",
    end: "<|end|>",
    close: "<|end|><|start|>assistant<|channel|>final<|message|>",
    direct: "<|channel|>final<|message|>",
    written: &[],
};

/// Gemma 4: the channel `thought`, which its template writes empty where `enable_thinking` is off.
///
/// Source: the chat template of gemma-4-31B-it.
const GEMMA4: Marks = Marks {
    sign: "<|channel>thought",
    open: "<|channel>thought\n",
    end: "<channel|>",
    close: "\n<channel|>",
    direct: "",
    written: &["<|channel>thought\n<channel|>"],
};

/// The variable that switches reasoning on, and the one for its effort.
const SWITCH: &str = "enable_thinking";
const EFFORT: &str = "reasoning_effort";

impl Marks {
    /// The marks of a template with this source; `None` where it marks no reasoning.
    pub fn of(source: &str) -> Option<&'static Self> {
        [&HARMONY, &GEMMA4, &TAGS].into_iter().find(|marks| source.contains(marks.sign))
    }

    /// The marks for a chat with reasoning whose template has none.
    pub fn fallback() -> &'static Self {
        &TAGS
    }

    /// Opens or closes the reasoning after the assistant's opening, or goes to the answer at once. The
    /// template's own text for it is replaced.
    pub fn write(
        &self,
        rendered: &mut String,
        thought: Option<&Reasoning>,
        protect: impl Fn(&str) -> String,
    ) {
        let Some(thought) = thought else { return rendered.push_str(self.direct) };
        if let Some(end) = self.written.iter().find(|end| rendered.ends_with(**end)) {
            rendered.truncate(rendered.len() - end.len());
        }
        rendered.push_str(self.open);
        if let Reasoning::Closed(thought) = thought {
            rendered.push_str(&protect(thought));
            rendered.push_str(self.close);
        }
    }

    /// The string that ends the reply to a chat in addition to the end of the turn; `None` unless the reply
    /// is the reasoning.
    pub fn stop(&self, chat: &Chat) -> Option<&'static str> {
        (chat.thought == Some(Reasoning::Open)).then_some(self.end)
    }
}

/// The finish of a reply of reasoning: a turn that ended before `end` left it open.
pub(super) fn finish(reply: &Reply, end: &str) -> Finish {
    let text: String = reply.tokens.iter().map(|token| token.text.as_str()).collect();
    if reply.finish == Finish::Stop && !text.contains(end) { Finish::Open } else { reply.finish }
}

/// The variables for a template with this source: the given ones, and, where the template reads them and they
/// are not given, `enable_thinking` off and Harmony's `reasoning_effort` at its least. Such templates reason
/// by default; here a chat requests reasoning by its [`Chat::thought`].
pub fn variables(source: &str, variables: &serde_json::Value) -> serde_json::Value {
    let is_missing = |name: &str| source.contains(name) && variables.get(name).is_none();
    let mut added: Vec<(&str, serde_json::Value)> = Vec::new();
    if is_missing(SWITCH) {
        added.push((SWITCH, false.into()));
    }
    if Marks::of(source) == Some(&HARMONY) && is_missing(EFFORT) {
        added.push((EFFORT, Effort::Low.name().into()));
    }
    if added.is_empty() {
        return variables.clone();
    }
    let mut all = variables.as_object().cloned().unwrap_or_default();
    all.extend(added.into_iter().map(|(name, value)| (name.to_owned(), value)));
    all.into()
}

/// The variables that a chat sets in a template with this source, in place of given ones: none where the chat
/// has no reasoning. Templates whose largest effort is `xhigh` (Qwen3.8) get that for [`Effort::High`].
pub(super) fn chat_variables(source: &str, chat: &Chat) -> Vec<(&'static str, minijinja::Value)> {
    if chat.thought.is_none() {
        return Vec::new();
    }
    let knows_high = ["'high'", "\"high\""].iter().any(|name| source.contains(name));
    let name = match chat.effort.unwrap_or_default() {
        Effort::High if source.contains("xhigh") && !knows_high => "xhigh",
        effort => effort.name(),
    };
    vec![(SWITCH, true.into()), (EFFORT, name.into())]
}
