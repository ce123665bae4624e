//! Reasoning before answers: a question of its own, whose reply is put before the answer and never read as
//! one. Methods and marks of reasoning play no part here.

use std::borrow::Cow;

use super::{Attempt, Panel, Question};
use crate::{
    Role, Stage, Step,
    llm::{self, Chat, Effort, Finish, Reasoning, ReasoningOptions, Reply, ResponseFormat, Sampling},
};

/// The stage of reasoning in `calls.jsonl`: `reasoning/STEP`, where `STEP` is the answer's.
pub const REASONING: Stage = Stage::new("reasoning");

impl Panel {
    /// This panel and record, with reasoning before every answer; `None` for none.
    #[must_use]
    pub fn with_reasoning(&self, reasoning: Option<ReasoningOptions>) -> Self {
        Self { reasoning, ..self.clone() }
    }

    /// Asks for the reasoning on a chat, of at most [`Sampling::max_tokens`], and records it. The reply may
    /// be cut ([`Finish::Length`]), or have ended the turn ([`Finish::Open`]).
    fn reason(
        &self,
        attempt: Attempt,
        chat: &Chat,
        effort: Effort,
        sampling: Sampling,
    ) -> llm::Result<Reply> {
        let (thought, effort) = (Some(Reasoning::Open), Some(effort));
        // The prefill belongs to the answer.
        let chat = Chat { thought, effort, prefill: String::new(), ..chat.clone() };
        self.record_answer(attempt, &Question { chat: &chat, form: &ResponseFormat::Text, sampling })
    }

    /// The chat of a question behind a role's thought about it, which is asked for here.
    ///
    /// # Errors
    /// Those of [`Panel::ask`].
    pub fn after_thought(
        &self,
        role: Role,
        step: impl Into<Step>,
        chat: &Chat,
        thought: Thought,
    ) -> llm::Result<Chat> {
        let sampling = Sampling { max_tokens: thought.max_tokens, ..thought.sampling(&self.sampling) };
        let attempt = Attempt { role, step: step.into(), number: 0 };
        let reply = self.reason(attempt, chat, Effort::default(), sampling)?;
        Ok(answering(chat, Effort::default(), &reply.text))
    }

    /// The chat of a question with the reasoning before its answer. Where the panel has none it is the chat
    /// itself, as are chats with reasoning of their own and texts without a chat template.
    ///
    /// # Errors
    /// Those of [`Panel::ask`]; [`llm::Error::ReasoningBudget`] and [`llm::Error::ReasoningOpen`] of a
    /// reasoning without an end.
    pub(super) fn reasoned<'c>(
        &self,
        attempt: &Attempt,
        chat: &'c Chat,
        sampling: &Sampling,
    ) -> llm::Result<Cow<'c, Chat>> {
        let Some(ReasoningOptions { effort, max_tokens }) = self.reasoning else {
            return Ok(Cow::Borrowed(chat));
        };
        if chat.thought.is_some() || chat.untemplated().is_some() {
            return Ok(Cow::Borrowed(chat));
        }
        let step = Step { stage: REASONING, part: Some(attempt.step.to_string()), round: None };
        let sampling = Sampling { max_tokens, stop: Vec::new(), ..sampling.clone() };
        let reply = self.reason(Attempt { step: step.clone(), ..attempt.clone() }, chat, effort, sampling)?;
        let unfinished = match reply.finish {
            Finish::Length => llm::Error::ReasoningBudget(max_tokens),
            Finish::Open => llm::Error::ReasoningOpen,
            Finish::Stop | Finish::Form => return Ok(Cow::Owned(answering(chat, effort, &reply.text))),
        };
        self.mark(&step, "unfinished");
        Err(unfinished)
    }

    /// [`Panel::reasoned`] after the reasoning of the last answer to the same messages at the same seed,
    /// where there is one: scores then belong to the given answer.
    ///
    /// # Errors
    /// Those of [`Panel::reasoned`].
    pub(super) fn reasoned_as_before<'c>(
        &self,
        attempt: &Attempt,
        chat: &'c Chat,
    ) -> llm::Result<Cow<'c, Chat>> {
        let earlier = self.reasoning.and_then(|_| {
            let calls = self.record.lock();
            let is_it = |thought: &&Chat| thought.prompt == chat.prompt && chat.thought.is_none();
            let same = calls.iter().rev().filter(|call| {
                let is_closed = matches!(call.chat.thought, Some(Reasoning::Closed(_)));
                let at_seed = call.sampling.seed as u32 == self.sampling.seed as u32;
                is_closed && at_seed && (call.unit, call.role) == (self.unit, attempt.role)
            });
            same.map(|call| &call.chat).find(is_it).cloned()
        });
        match earlier {
            Some(earlier) => Ok(Cow::Owned(Chat { prefill: chat.prefill.clone(), ..earlier })),
            None => self.reasoned(attempt, chat, &self.sampling),
        }
    }
}

/// A method's own thought before an answer, and the sampling of both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thought {
    /// Maximum number of tokens. A longer thought is closed where it stands, and the answer follows.
    pub max_tokens: usize,
    pub temperature: f32,
    pub top_p: f32,
}

impl Thought {
    /// A sampling at its temperature and nucleus.
    pub fn sampling(self, sampling: &Sampling) -> Sampling {
        Sampling { temperature: self.temperature, top_p: self.top_p, ..sampling.clone() }
    }
}

/// A chat whose reply is the answer after this reasoning.
pub fn answering(chat: &Chat, effort: Effort, reasoning: &str) -> Chat {
    let thought = Some(Reasoning::Closed(reasoning.trim().to_owned()));
    Chat { thought, effort: Some(effort), ..chat.clone() }
}
