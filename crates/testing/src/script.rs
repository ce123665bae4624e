//! A model that answers from a script and records its questions, also within a context of limited length.

use std::sync::{Arc, Mutex};

use tribunal_core::llm::{Chat, Counter, Error, Finish, Llm, Reply, ResponseFormat, Sampling, Scored};

use crate::{Lines, words};

/// The text that a question holds, and the answers to it.
struct Scene {
    needle: String,
    lines: Lines,
}

/// The script: the first scene whose needle is in the last turn answers.
#[derive(Default)]
pub struct Script {
    scenes: Mutex<Vec<Scene>>,
    asked: Mutex<Vec<(Chat, ResponseFormat, Sampling)>>,
}

impl Script {
    pub fn new() -> Self {
        Self::default()
    }

    /// A model that gives the same answer to everything.
    pub fn says(answer: &str) -> Arc<Self> {
        Arc::new(Self::new().on("", &[answer]))
    }

    /// Answers questions that hold the needle.
    pub fn on(self, needle: &str, answers: &[&str]) -> Self {
        let replies = answers.iter().map(|text| Reply { text: (*text).into(), ..Reply::default() });
        self.scenes.lock().unwrap().push(Scene { needle: needle.into(), lines: Lines::new(replies) });
        self
    }

    /// Answers questions that hold the needle, with answers that are cut while `n_cut` lasts.
    pub fn cut(self, needle: &str, answer: &str, n_cut: usize) -> Self {
        let replies: Vec<_> = (0..=n_cut).map(|n| (answer, n < n_cut)).collect();
        self.replies(needle, &replies)
    }

    /// Answers questions that hold the needle, with answers of which some are cut.
    pub fn replies(self, needle: &str, replies: &[(&str, bool)]) -> Self {
        let texts: Vec<_> = replies.iter().map(|(text, _)| *text).collect();
        let this = self.on(needle, &texts);
        let mut scenes = this.scenes.lock().unwrap();
        for (reply, (_, is_cut)) in scenes.last_mut().unwrap().lines.replies.iter_mut().zip(replies) {
            reply.finish = if *is_cut { Finish::Length } else { Finish::Stop };
        }
        drop(scenes);
        this
    }

    /// All questions so far in order of arrival, for tests where one question follows another.
    pub fn in_order(&self) -> Vec<(Chat, ResponseFormat, Sampling)> {
        self.asked.lock().unwrap().clone()
    }

    /// All questions so far, by the text of their last turn.
    pub fn asked(&self) -> Vec<(Chat, ResponseFormat, Sampling)> {
        let mut asked = self.asked.lock().unwrap().clone();
        asked.sort_by(|a, b| {
            a.0.messages().last().map(|t| &t.content).cmp(&b.0.messages().last().map(|t| &t.content))
        });
        asked
    }
}

impl Llm for Script {
    fn ask(&self, chat: &Chat, form: &ResponseFormat, sampling: &Sampling) -> Result<Reply, Error> {
        self.asked.lock().unwrap().push((chat.clone(), form.clone(), sampling.clone()));
        let question = chat.messages().last().map_or("", |turn| turn.content.as_str());
        let mut scenes = self.scenes.lock().unwrap();
        let scene = scenes.iter_mut().find(|scene| question.contains(&scene.needle));
        scene.map(|scene| scene.lines.next()).ok_or_else(|| Error::Engine("the script has no answer".into()))
    }

    fn score_continuations(&self, _: &Chat, _: &[String]) -> Result<Vec<Scored>, Error> {
        Err(Error::Engine("the script weighs nothing".into()))
    }

    fn counter(&self) -> Option<&dyn Counter> {
        Some(self)
    }
}

impl Counter for Script {
    fn count(&self, chat: &Chat) -> Result<usize, Error> {
        Ok(words(chat))
    }
}

/// A model whose context holds so many bytes.
pub struct Short(pub usize, pub Arc<Script>);

impl Llm for Short {
    fn ask(&self, chat: &Chat, form: &ResponseFormat, sampling: &Sampling) -> Result<Reply, Error> {
        let prompt = chat.messages()[0].content.len();
        if prompt > self.0 {
            return Err(Error::TooLong { prompt, answer: sampling.max_tokens, context: self.0 });
        }
        self.1.ask(chat, form, sampling)
    }

    fn score_continuations(&self, chat: &Chat, continuations: &[String]) -> Result<Vec<Scored>, Error> {
        self.1.score_continuations(chat, continuations)
    }

    fn counter(&self) -> Option<&dyn Counter> {
        self.1.counter()
    }
}
