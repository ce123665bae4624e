//! A model that replays recorded answers and, if the real model is available, compares them with its answers.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use serde_json::Value;

use super::difference::{Difference, around, unlike};
use crate::{
    call::{CallLine, Content, Continuation, Spelled, prompt_hash},
    judges::{Panel, Role},
    llm::{Chat, Error, Estimate, LinearProbe, Llm, MetricTexts, Reply, ResponseFormat, Sampling, Scored},
};

/// The recorded calls of one group.
pub struct RecordedCalls(Mutex<State>);

struct State {
    /// By role, prompt and sampling; those that are alike in their recorded order, with their positions.
    calls: BTreeMap<Key, VecDeque<(usize, CallLine)>>,
    differences: Vec<(usize, Difference)>,
    /// Questions without a recorded answer, and their roles.
    unrecorded: Vec<(String, Chat)>,
    n_replayed: usize,
}

/// Lookup key of a call: role, hash of the prompt, sampling as JSON.
type Key = (String, String, String);

fn key(role: &str, prompt: &str, sampling: &Sampling) -> Key {
    (role.to_owned(), prompt.to_owned(), serde_json::to_string(sampling).unwrap_or_default())
}

impl RecordedCalls {
    /// The calls of a group, all with their content.
    pub fn new(recorded: Vec<CallLine>) -> Self {
        let mut calls: BTreeMap<Key, VecDeque<(usize, CallLine)>> = BTreeMap::new();
        for (at, call) in recorded.into_iter().enumerate() {
            let Some(Content { sampling, .. }) = &call.content else { continue };
            calls.entry(key(&call.role, &call.prompt_sha256, sampling)).or_default().push_back((at, call));
        }
        Self(Mutex::new(State { calls, differences: Vec::new(), unrecorded: Vec::new(), n_replayed: 0 }))
    }

    /// A panel that answers from the record in every role, sampling as another one; the models' answers are
    /// compared with the record.
    pub fn panel(self: &Arc<Self>, like: &Panel, models: Option<&Panel>) -> Panel {
        let recorded = |role: Role| {
            let model = models.map(|models| models.llm(role).clone());
            Arc::new(ReplayLlm { role, recorded: self.clone(), model }) as Arc<dyn Llm>
        };
        let panel = Panel::new(recorded(Role::Judge), like.sampling.clone());
        Role::ALL.iter().fold(panel, |panel, role| panel.assign(*role, recorded(*role)))
    }

    /// The next recorded answer to a question; `None` for `sampling`: the next scoring, whose sampling does
    /// not count.
    fn take(&self, role: Role, chat: &Chat, sampling: Option<&Sampling>) -> Result<(usize, CallLine), Error> {
        let mut state = self.0.lock();
        let (role, prompt) = (role.to_string(), prompt_hash(chat));
        let call = if let Some(sampling) = sampling {
            state.calls.get_mut(&key(&role, &prompt, sampling)).and_then(VecDeque::pop_front)
        } else {
            let from = (role.clone(), prompt.clone(), String::new());
            let alike = state.calls.range_mut(from..).take_while(|(key, _)| key.0 == role && key.1 == prompt);
            let is_scoring = |(_, call): &(usize, CallLine)| {
                call.content.as_ref().is_some_and(|content| content.sampling.max_tokens == 0)
            };
            let mut scorings = alike.filter(|(_, calls)| calls.front().is_some_and(is_scoring));
            scorings.next().and_then(|(_, calls)| calls.pop_front())
        };
        call.ok_or_else(|| {
            state.unrecorded.push((role, chat.clone()));
            unrecorded()
        })
    }

    /// Compares the texts that a recorded call scored with those of the present call.
    fn expect(&self, at: usize, call: &CallLine, texts: &[String]) {
        let recorded: Vec<&String> =
            call.content.iter().flat_map(|content| &content.scored).map(|scored| &scored.text).collect();
        if call.error.is_none() && !recorded.iter().copied().eq(texts) {
            let subject = format!("the texts that `{}` weighs at `{}`", call.role, call.stage);
            let (recorded, derived) = around(&format!("{recorded:?}"), &format!("{texts:?}"));
            self.0.lock().differences.push((at, Difference::new("", &subject, &recorded, &derived)));
        }
    }

    /// Compares a recorded call with the same one, answered by the model.
    fn compare(&self, at: usize, call: &CallLine, replayed: &CallLine) {
        let mut state = self.0.lock();
        state.n_replayed += 1;
        if let Some((field, recorded, derived)) = unlike(&answer(call), &answer(replayed)) {
            let subject = format!("`{field}` of the answer of `{}` at `{}`", call.role, call.stage);
            let (recorded, derived) = around(&recorded, &derived);
            state.differences.push((at, Difference::new("", &subject, &recorded, &derived)));
        }
    }

    /// The differences in the group whose calls begin at this line, and the number of calls that a model
    /// answered again.
    pub fn differences(&self, of: &str, line: usize) -> (Vec<Difference>, usize) {
        let mut state = self.0.lock();
        let mut found: Vec<(usize, Difference)> = std::mem::take(&mut state.differences);
        let unread = state.calls.values().flatten().min_by_key(|(at, _)| *at);
        let first = state.unrecorded.first();
        if let Some((at, call)) = unread {
            let recorded = call.content.as_ref().map(|content| text(&content.chat)).unwrap_or_default();
            let derived = first.map_or_else(|| "no such question".into(), |(_, chat)| text(chat));
            let subject = format!("the question of `{}` at `{}`", call.role, call.stage);
            let (recorded, derived) = around(&recorded, &derived);
            found.push((*at, Difference::new("", &subject, &recorded, &derived)));
        } else if let Some((role, chat)) = first {
            let derived: String = text(chat).chars().take(100).collect();
            let subject = format!("a question of `{role}`");
            found.push((usize::MAX, Difference::new("", &subject, "no such question", &derived)));
        }
        let placed = |(at, difference): (usize, Difference)| {
            // A missing call has no line.
            let number = (at != usize::MAX).then(|| line + at);
            let of_line = number.map_or_else(String::new, |number| format!(" line {number}"));
            let place = format!("calls.jsonl{of_line} ({of})");
            Difference { place, ..difference }.at((number.unwrap_or(line), 1))
        };
        (found.into_iter().map(placed).collect(), state.n_replayed)
    }
}

/// The text of all parts of a chat, for messages.
fn text(chat: &Chat) -> String {
    chat.texts().chain([chat.prefill.as_str()]).collect::<Vec<_>>().join("\n")
}

/// The answer of a call as JSON, without how it was computed.
fn answer(call: &CallLine) -> Value {
    let CallLine { content, finish, error, usage, .. } = call;
    let content = content.as_ref();
    serde_json::json!({
        "error": error,
        "reply": content.map(|content| &content.reply),
        "tokens": content.map(|content| &content.spelled),
        "scored": content.map(|content| &content.scored),
        "finish": finish,
        "prompt tokens": usage.prompt(),
        "answer tokens": usage.generated,
    })
}

struct ReplayLlm {
    role: Role,
    recorded: Arc<RecordedCalls>,
    model: Option<Arc<dyn Llm>>,
}

impl ReplayLlm {
    /// The recorded scores of texts; `score` has the model score them.
    fn scored(
        &self,
        chat: &Chat,
        texts: &[String],
        score: impl FnOnce(&dyn Llm) -> Result<Vec<Scored>, Error>,
    ) -> Result<Vec<Scored>, Error> {
        let (at, call) = self.recorded.take(self.role, chat, None)?;
        self.recorded.expect(at, &call, texts);
        if let Some(model) = &self.model {
            let replayed = match score(&**model) {
                Err(error) => CallLine { error: Some(error), ..call.clone() },
                Ok(scored) => {
                    let scored = scored.into_iter().map(Continuation::new).collect();
                    let content = call.content.clone().map(|content| Content { scored, ..content });
                    CallLine { content, error: None, ..call.clone() }
                }
            };
            self.recorded.compare(at, &call, &replayed);
        }
        let scored = call.content.iter().flat_map(|content| &content.scored).map(Continuation::scored);
        call.error.clone().map_or_else(|| Ok(scored.collect()), Err)
    }
}

impl Llm for ReplayLlm {
    fn ask(&self, chat: &Chat, form: &ResponseFormat, sampling: &Sampling) -> Result<Reply, Error> {
        let (at, call) = self.recorded.take(self.role, chat, Some(sampling))?;
        if let Some(model) = &self.model {
            let replayed = match model.ask(chat, form, sampling) {
                Err(error) => CallLine { error: Some(error), ..call.clone() },
                Ok(Reply { text, tokens, finish, usage, is_chance, .. }) => {
                    let spelled = Spelled::new(&tokens, is_chance);
                    let content = call.content.clone();
                    let content = content.map(|content| Content { reply: text, spelled, ..content });
                    CallLine { content, finish, usage, error: None, ..call.clone() }
                }
            };
            self.recorded.compare(at, &call, &replayed);
        }
        match &call.error {
            Some(error) => Err(error.clone()),
            None => call.answer().ok_or_else(unrecorded),
        }
    }

    fn score_continuations(&self, chat: &Chat, continuations: &[String]) -> Result<Vec<Scored>, Error> {
        self.scored(chat, continuations, |model| model.score_continuations(chat, continuations))
    }

    fn score(&self, chat: &Chat) -> Result<Scored, Error> {
        let score = |model: &dyn Llm| model.score(chat).map(|scored| vec![scored]);
        self.scored(chat, &[String::new()], score)?.pop().ok_or_else(unrecorded)
    }

    fn estimate(&self, texts: &MetricTexts<'_>) -> Result<Estimate, Error> {
        let estimate = |model: &dyn Llm| model.estimate(texts).map(|estimate| vec![estimate.into()]);
        let scored = self.scored(&texts.chat(), &[String::new()], estimate)?.pop();
        scored.and_then(|scored| scored.estimate).ok_or_else(unrecorded)
    }

    fn read(&self, chat: &Chat, text: &str, probe: &LinearProbe) -> Result<Scored, Error> {
        let read = |model: &dyn Llm| model.read(chat, text, probe).map(|scored| vec![scored]);
        self.scored(chat, &[text.to_owned()], read)?.pop().ok_or_else(unrecorded)
    }
}

fn unrecorded() -> Error {
    Error::Engine("the record has no answer to this question".into())
}
