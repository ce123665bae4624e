//! A scripted model for pipelines of agents: the part that answers is chosen by words anywhere in the chat,
//! and answers have log-probabilities.

use std::sync::{Arc, Mutex};

use tribunal_core::{
    llm::{self, Chat, Counter, Finish, Llm, Reply, ResponseFormat, Sampling, Scored, Token, TokenSource},
    segment::Segment,
};
use tribunal_judges::{Built, Call, Error, Panel, Verdict};

use crate::{Lines, judged, words};

/// A part: its cue words and its answers.
struct Part {
    cues: Vec<String>,
    lines: Lines,
}

/// All parts; the first whose cues are all in the chat answers.
#[derive(Default)]
pub struct Cast {
    parts: Mutex<Vec<Part>>,
}

impl Cast {
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers chats that hold all cues, with log-probability 0.
    pub fn on(self, cues: &[&str], lines: &[&str]) -> Self {
        self.sure(cues, &lines.iter().map(|text| (*text, &[0.0][..])).collect::<Vec<_>>())
    }

    /// Answers with these log-probabilities, one for each token.
    pub fn sure(self, cues: &[&str], lines: &[(&str, &[f64])]) -> Self {
        let lines = Lines::new(lines.iter().map(|(text, logprobs)| reply(text, logprobs)));
        let cues = cues.iter().map(|cue| (*cue).to_owned()).collect();
        self.parts.lock().unwrap().push(Part { cues, lines });
        self
    }

    /// Answers chats that hold all cues with an answer that is cut.
    pub fn cut(self, cues: &[&str], text: &str) -> Self {
        let this = self.on(cues, &[text]);
        this.parts.lock().unwrap().last_mut().unwrap().lines.replies[0].finish = Finish::Length;
        this
    }

    /// The verdicts of a judge on the segments, and its calls, by stage; those of one stage in their order.
    pub fn judge(self, judge: &Built, group: &[Segment]) -> (Vec<Result<Verdict, Error>>, Vec<Call>) {
        let panel = Panel::new(Arc::new(self), Sampling::default());
        let (verdicts, mut calls) = judged(judge, &panel, group);
        calls.sort_by_key(|a| (a.unit, a.step.to_string()));
        (verdicts, calls)
    }
}

fn reply(text: &str, logprobs: &[f64]) -> Reply {
    let token = |logprob: &f64| Token {
        id: 0,
        text: String::new(),
        logprob: *logprob,
        masked_logprob: *logprob,
        source: TokenSource::Sampled,
    };
    Reply { text: text.into(), tokens: logprobs.iter().map(token).collect(), ..Reply::default() }
}

impl Llm for Cast {
    fn ask(&self, chat: &Chat, _: &ResponseFormat, _: &Sampling) -> Result<Reply, llm::Error> {
        let said: String = chat.messages().iter().flat_map(|turn| [turn.content.as_str(), "\n"]).collect();
        let mut parts = self.parts.lock().unwrap();
        let part = parts.iter_mut().find(|part| part.cues.iter().all(|cue| said.contains(cue)));
        part.map(|part| part.lines.next())
            .ok_or_else(|| llm::Error::Engine("nobody in the cast answers".into()))
    }

    /// The line's text has its own probability, and the other continuations share the rest.
    fn score_continuations(&self, chat: &Chat, continuations: &[String]) -> Result<Vec<Scored>, llm::Error> {
        let said = self.ask(chat, &ResponseFormat::Text, &Sampling::default())?;
        let named: f64 = said.tokens.iter().map(|token| token.logprob).sum();
        let rest = ((1.0 - named.exp()) / (continuations.len() - 1).max(1) as f64).ln();
        if !continuations.contains(&said.text) {
            return Err(llm::Error::Engine(format!("the cast cannot weigh `{}`", said.text)));
        }
        let scored = |text: &String| {
            let tokens = if *text == said.text { said.tokens.clone() } else { reply(text, &[rest]).tokens };
            Scored {
                text: text.clone(),
                tokens,
                reading: None,
                estimate: None,
                is_chance: false,
                usage: tribunal_core::llm::Usage::default(),
            }
        };
        Ok(continuations.iter().map(scored).collect())
    }

    fn counter(&self) -> Option<&dyn Counter> {
        Some(self)
    }
}

impl Counter for Cast {
    fn count(&self, chat: &Chat) -> Result<usize, llm::Error> {
        Ok(words(chat))
    }
}
