//! A model that replays recorded answers and, if the real model is available, compares them with its answers.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use super::{Difference, around};
use crate::{
    call::{CallLine, Content, Continuation, prompt_hash},
    judges::{Panel, Role},
    llm::{Chat, Error, LinearProbe, Llm, Reading, Reply, ResponseFormat, Sampling, Scored, Token},
};

/// The recorded calls of one group.
pub struct RecordedCalls(Mutex<Pages>);

struct Pages {
    /// By role, prompt and sampling; those that are alike in their recorded order.
    calls: BTreeMap<Key, VecDeque<(usize, CallLine)>>,
    differences: Vec<(usize, Difference)>,
    unrecorded: Vec<(String, Chat)>,
    n_replayed: usize,
}

/// Lookup key of a call.
type Key = (String, String, String);

fn key(role: &str, prompt: &str, sampling: &Sampling) -> Key {
    // What a number is compared by, and it has an order.
    (role.to_owned(), prompt.to_owned(), serde_json::to_string(sampling).unwrap_or_default())
}

impl RecordedCalls {
    /// The calls of a group, all with their content.
    pub fn of(recorded: Vec<CallLine>) -> Self {
        let mut calls: BTreeMap<Key, VecDeque<(usize, CallLine)>> = BTreeMap::new();
        for (at, call) in recorded.into_iter().enumerate() {
            let Some(Content { sampling, .. }) = &call.content else { continue };
            calls.entry(key(&call.role, &call.prompt_sha256, sampling)).or_default().push_back((at, call));
        }
        let pages = Pages { calls, differences: Vec::new(), unrecorded: Vec::new(), n_replayed: 0 };
        Self(Mutex::new(pages))
    }

    fn pages(&self) -> std::sync::MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next recorded answer to this question; notes it if there is none.
    fn take(&self, role: Role, chat: &Chat, sampling: &Sampling) -> Option<(usize, CallLine)> {
        let mut pages = self.pages();
        let found = pages.calls.get_mut(&key(role.name(), &prompt_hash(chat), sampling));
        let call = found.and_then(VecDeque::pop_front);
        if call.is_none() {
            pages.unrecorded.push((role.to_string(), chat.clone()));
        }
        call
    }

    /// The differences in the group whose calls begin at this line, and the number of calls that a model
    /// answered again.
    pub fn differences(&self, of: &str, line: usize) -> (Vec<Difference>, usize) {
        let mut pages = self.pages();
        let mut found: Vec<(usize, Difference)> = std::mem::take(&mut pages.differences);
        let mut unread: Vec<(usize, CallLine)> =
            std::mem::take(&mut pages.calls).into_values().flatten().collect();
        unread.sort_by_key(|(at, _)| *at);
        let first = pages.unrecorded.first();
        if let Some((at, call)) = unread.first() {
            let there = call.content.as_ref().map(|content| text(&content.chat)).unwrap_or_default();
            let here = first.map_or_else(|| "no such question".into(), |(_, chat)| text(chat));
            let what = format!("the question of `{}` at `{}`", call.role, call.stage);
            let (there, here) = around(&there, &here);
            found.push((*at, Difference::new("", &what, &there, &here)));
        } else if let Some((role, chat)) = first {
            let here: String = text(chat).chars().take(100).collect();
            found.push((
                usize::MAX,
                Difference::new("", &format!("a question of `{role}`"), "no such question", &here),
            ));
        }
        let placed = |(at, difference): (usize, Difference)| {
            // What is not there has no line.
            let number = (at != usize::MAX).then(|| line + at);
            let of_line = number.map_or_else(String::new, |number| format!(" line {number}"));
            let place = format!("calls.jsonl{of_line} ({of})");
            Difference { place, ..difference }.at((number.unwrap_or(line), 1))
        };
        (found.into_iter().map(placed).collect(), pages.n_replayed)
    }

    /// Compares the texts that a recorded call scored with those of the present call.
    fn expect<'a>(
        &self,
        at: usize,
        call: &CallLine,
        there: impl Iterator<Item = &'a String>,
        here: &[String],
    ) {
        let there: Vec<&String> = there.collect();
        if call.error.is_none() && !there.iter().copied().eq(here) {
            let what = format!("the texts that `{}` weighs at `{}`", call.role, call.stage);
            let (there, here) = around(&format!("{there:?}"), &format!("{here:?}"));
            self.pages().differences.push((at, Difference::new("", &what, &there, &here)));
        }
    }

    fn note(&self, at: usize, differences: Vec<Difference>) {
        let mut pages = self.pages();
        pages.n_replayed += 1;
        pages.differences.extend(differences.into_iter().map(|difference| (at, difference)));
    }
}

/// The text of all parts of a chat, for messages.
fn text(chat: &Chat) -> String {
    chat.texts().chain([chat.prefill.as_str()]).collect::<Vec<_>>().join("\n")
}

/// A group that is judged again from its recorded calls.
pub struct Replayed {
    pub recorded_calls: Arc<RecordedCalls>,
    /// The models, where they are replayed too.
    pub models: Option<Panel>,
}

impl Replayed {
    /// A panel that answers from the record in every role, sampling as the run's.
    pub fn panel(&self, like: &Panel) -> Panel {
        let recorded = |role: Role| {
            let model = self.models.as_ref().map(|models| models.model_for(role));
            Arc::new(ReplayLlm { role, recorded_calls: self.recorded_calls.clone(), model }) as Arc<dyn Llm>
        };
        let panel = Panel::new(recorded(Role::Judge), like.sampling.clone());
        Role::ALL.into_iter().fold(panel, |panel, role| panel.assign(role, recorded(role)))
    }
}

struct ReplayLlm {
    role: Role,
    recorded_calls: Arc<RecordedCalls>,
    model: Option<Arc<dyn Llm>>,
}

impl Llm for ReplayLlm {
    fn ask(&self, chat: &Chat, form: &ResponseFormat, sampling: &Sampling) -> Result<Reply, Error> {
        let Some((at, call)) = self.recorded_calls.take(self.role, chat, sampling) else {
            return Err(unrecorded());
        };
        let said = match &call.error {
            Some(error) => Err(error.clone()),
            None => call.answer().ok_or_else(unrecorded),
        };
        if let Some(model) = &self.model {
            self.recorded_calls.note(at, replies(&call, &said, &model.ask(chat, form, sampling)));
        }
        said
    }

    fn score_continuations(&self, chat: &Chat, continuations: &[String]) -> Result<Vec<Scored>, Error> {
        // The record has the sampling parameters that the panel would have used.
        let recorded = self.recorded_calls.scoring(self.role, chat);
        let Some((at, call)) = recorded else { return Err(unrecorded()) };
        let texts = call.content.iter().flat_map(|content| &content.scored).map(|one| &one.text);
        self.recorded_calls.expect(at, &call, texts, continuations);
        let scored = call.content.iter().flat_map(|content| &content.scored).map(Continuation::scored);
        let said = call.error.clone().map_or_else(|| Ok(scored.collect::<Vec<_>>()), Err);
        if let Some(model) = &self.model {
            self.recorded_calls
                .note(at, weights(&call, &said, &model.score_continuations(chat, continuations)));
        }
        said
    }

    fn read(&self, chat: &Chat, text: &str, probe: &LinearProbe) -> Result<Scored, Error> {
        let Some((at, call)) = self.recorded_calls.scoring(self.role, chat) else { return Err(unrecorded()) };
        let texts = call.content.iter().flat_map(|content| &content.scored).map(|one| &one.text);
        self.recorded_calls.expect(at, &call, texts, &[text.to_owned()]);
        let read = call.content.iter().flat_map(|content| &content.scored).map(Continuation::scored).next();
        let said = call.error.clone().map_or_else(|| read.ok_or_else(unrecorded), Err);
        if let Some(model) = &self.model {
            let one = |scored: Result<Scored, Error>| scored.map(|scored| vec![scored]);
            self.recorded_calls
                .note(at, weights(&call, &one(said.clone()), &one(model.read(chat, text, probe))));
        }
        said
    }
}

impl RecordedCalls {
    /// The next recorded weighing under this chat, whatever its sampling, which does not count there.
    fn scoring(&self, role: Role, chat: &Chat) -> Option<(usize, CallLine)> {
        let mut pages = self.pages();
        let (role, prompt) = (role.to_string(), prompt_hash(chat));
        let from = (role.clone(), prompt.clone(), String::new());
        let alike = pages.calls.range_mut(from..).take_while(|(key, _)| key.0 == role && key.1 == prompt);
        let scored = |(_, calls): (_, &mut VecDeque<(usize, CallLine)>)| {
            let is_weighed = |(_, call): &(usize, CallLine)| {
                call.content.as_ref().is_some_and(|content| content.sampling.max_tokens == 0)
            };
            if calls.front().is_some_and(is_weighed) { calls.pop_front() } else { None }
        };
        let mut alike = alike;
        let call = alike.find_map(scored);
        if call.is_none() {
            pages.unrecorded.push((role, chat.clone()));
        }
        call
    }
}

fn unrecorded() -> Error {
    Error::Engine("the record has no answer to this question".into())
}

/// Differences between a recorded reply and the model's.
fn replies(call: &CallLine, said: &Result<Reply, Error>, now: &Result<Reply, Error>) -> Vec<Difference> {
    let of = |what: &str| format!("{what} of `{}` at `{}`", call.role, call.stage);
    match (said, now) {
        (Ok(there), Ok(here)) => {
            let mut found = texts(&of("the answer"), &there.text, &here.text);
            if there.finish != here.finish {
                let name = |finish| format!("{finish:?}").to_lowercase();
                let (there, here) = (name(there.finish), name(here.finish));
                found.push(Difference::new("", &of("the end of the answer"), &there, &here));
            }
            found.extend(tokens(&of("the answer"), &there.tokens, &here.tokens));
            found.extend(signals(&of("the answer"), there.is_chance, here.is_chance));
            let spent = |reply: &Reply| (reply.usage.prompt(), reply.usage.generated);
            if spent(there) != spent(here) {
                let name = |(prompt, answer): (usize, usize)| {
                    format!("{prompt} prompt tokens, {answer} answer tokens")
                };
                let (there, here) = (name(spent(there)), name(spent(here)));
                found.push(Difference::new("", &of("the tokens of the answer"), &there, &here));
            }
            found
        }
        _ => errors(&of("the answer"), said.as_ref().err(), now.as_ref().err()),
    }
}

fn weights(
    call: &CallLine,
    said: &Result<Vec<Scored>, Error>,
    now: &Result<Vec<Scored>, Error>,
) -> Vec<Difference> {
    let of = |text: &str| format!("the continuation `{text}` of `{}` at `{}`", call.role, call.stage);
    match (said, now) {
        (Ok(there), Ok(here)) if there.len() != here.len() => {
            let name = |scored: &[Scored]| format!("{} continuations", scored.len());
            vec![Difference::new("", &of("…"), &name(there), &name(here))]
        }
        (Ok(there), Ok(here)) => {
            let pairs = there.iter().zip(here);
            pairs
                .flat_map(|(a, b)| {
                    [
                        texts(&of(&a.text), &a.text, &b.text),
                        tokens(&of(&a.text), &a.tokens, &b.tokens),
                        readings(&of(&a.text), a.reading.as_ref(), b.reading.as_ref()),
                        signals(&of(&a.text), a.is_chance, b.is_chance),
                    ]
                })
                .flatten()
                .collect()
        }
        _ => errors(&of("…"), said.as_ref().err(), now.as_ref().err()),
    }
}

/// Compares whether a text is more probable than chance.
fn signals(of: &str, there: bool, here: bool) -> Vec<Difference> {
    let name = |is_chance| if is_chance { "no" } else { "yes" };
    let differs =
        (there != here).then(|| Difference::new("", &format!("signal of {of}"), name(there), name(here)));
    differs.into_iter().collect()
}

/// The first token with another value of the probe.
fn readings(of: &str, there: Option<&Reading>, here: Option<&Reading>) -> Vec<Difference> {
    let (there, here) = match (there, here) {
        (Some(there), Some(here)) if there.ends == here.ends && there.values.len() == here.values.len() => {
            (there, here)
        }
        (None, None) => return Vec::new(),
        (there, here) => {
            let name = |reading: Option<&Reading>| {
                reading.map_or_else(
                    || "nothing".into(),
                    |reading| format!("tokens that end at {:?}", reading.ends),
                )
            };
            return vec![Difference::new(
                "",
                &format!("the values of the probe of {of}"),
                &name(there),
                &name(here),
            )];
        }
    };
    let bits = |values: &Vec<f64>| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let differs = |(a, b): &(&Vec<f64>, &Vec<f64>)| bits(a) != bits(b);
    let pair = there.values.iter().zip(&here.values).enumerate().find(|(_, pair)| differs(pair));
    let Some((at, (there, here))) = pair else { return Vec::new() };
    let what = format!("the values of the probe of token {} of {of}", at + 1);
    vec![Difference::new("", &what, &format!("{there:?}"), &format!("{here:?}"))]
}

fn errors(of: &str, there: Option<&Error>, here: Option<&Error>) -> Vec<Difference> {
    let name = |error: Option<&Error>| error.map_or_else(|| "an answer".into(), ToString::to_string);
    let (there, here) = (name(there), name(here));
    if there == here { Vec::new() } else { vec![Difference::new("", of, &there, &here)] }
}

fn texts(of: &str, there: &str, here: &str) -> Vec<Difference> {
    if there == here {
        return Vec::new();
    }
    let (there, here) = around(there, here);
    vec![Difference::new("", &format!("the text of {of}"), &there, &here)]
}

/// The first token that differs, in its id or in any bit of its log-probabilities.
fn tokens(of: &str, there: &[Token], here: &[Token]) -> Vec<Difference> {
    let differing = there.iter().zip(here).position(|(a, b)| !is_same(a, b));
    let at = differing.or((there.len() != here.len()).then_some(there.len().min(here.len())));
    let Some(at) = at else { return Vec::new() };
    let name = |tokens: &[Token]| {
        tokens.get(at).map_or_else(
            || "no such token".to_owned(),
            |t| {
                format!(
                    "{} {:?} log-probability {:e}, in the form {:e}",
                    t.id, t.text, t.logprob, t.masked_logprob
                )
            },
        )
    };
    vec![Difference::new("", &format!("token {at} of {of}"), &name(there), &name(here))]
}

fn is_same(a: &Token, b: &Token) -> bool {
    let bits = |token: &Token| (token.id, token.logprob.to_bits(), token.masked_logprob.to_bits());
    bits(a) == bits(b) && a.text == b.text
}
